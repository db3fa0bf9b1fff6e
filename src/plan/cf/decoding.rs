//! What the raw elements of an array mean, by the rules of CF as xarray's `decode_cf` has them.
//!
//! | attribute | meaning |
//! |---|---|
//! | `units`, `calendar` | a text, or instants ([`TimeUnits`]) |
//! | `scale_factor`, `add_offset` | value = raw * scale + offset |
//! | `_FillValue`, `missing_value` | raw elements that are missing; of floats NaN is, always |
//! | `_Unsigned` | the bits of a signed integer are an unsigned one, or the reverse |
//! | `flag_*`, `dtype`, `_Encoding` | compared as they are |
//!
//! In Zarr v2 `fill_value` stands for `_FillValue`; in v3 the attribute has xarray's encoding:
//! a float as base64 of a little-endian float64.
//!
//! xarray compares a `missing_value` as float64, so that 1e20 masks nothing in a float32. An
//! attribute that it reads in another way than its text says is *unclear*: two arrays with one are
//! the same only if all of these attributes are equal.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::element::{holds, whole, with_element};
use super::time_units::TimeUnits;
use crate::zarr::{Attributes, DataType, Kind, Scalar, ZarrFormat};

/// Attributes that must be equal, since a conversion of elements has no part in them.
pub(super) const COMPARED_AS_THEY_ARE: [&str; 5] =
    ["flag_values", "flag_masks", "flag_meanings", "dtype", "_Encoding"];
/// All attributes that decide what elements mean, besides those.
const DECODING: [&str; 7] =
    ["units", "calendar", "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"];
/// The integer that xarray takes for a missing time.
pub(super) const NOT_A_TIME: i128 = i64::MIN as i128;
/// From here on a float64 has no number for some integers.
const FLOAT_GAPS_FROM: f64 = 9_007_199_254_740_992.0;

/// What the raw elements of an array mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoding {
    data_type: DataType,
    value_type: DataType,
    format: ZarrFormat,
    /// Those that decide about the meaning, as they are.
    attributes: Attributes,
    /// Of Zarr, one element.
    fill_value: Option<Vec<u8>>,
    time: Option<TimeUnits>,
    scale_factor: Option<Scalar>,
    add_offset: Option<Scalar>,
    masked: Vec<Scalar>,
    unclear: Option<&'static str>,
}

impl Decoding {
    /// Of an array with these documents. `fill_value` is Zarr's, one element.
    pub fn of(
        data_type: DataType,
        attributes: &Attributes,
        fill_value: Option<&[u8]>,
        format: ZarrFormat,
    ) -> Self {
        let decides = |name: &String| {
            DECODING.contains(&name.as_str()) || COMPARED_AS_THEY_ARE.contains(&name.as_str())
        };
        let attributes: Attributes = attributes
            .iter()
            .filter(|(name, _)| decides(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut decoding = Self {
            data_type,
            value_type: value_type(data_type, &attributes),
            format,
            time: time(&attributes).filter(|_| data_type.kind() != Kind::Text),
            fill_value: fill_value.map(<[u8]>::to_vec),
            scale_factor: None,
            add_offset: None,
            masked: Vec::new(),
            unclear: None,
            attributes,
        };
        if data_type.kind() != Kind::Text {
            decoding.read_packing();
            decoding.read_masks();
        }
        decoding
    }

    /// Type of the stored elements.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Type of the numbers that the stored elements are: `_Unsigned` makes it another one of the
    /// same size.
    pub fn value_type(&self) -> DataType {
        self.value_type
    }

    /// The version of Zarr.
    pub fn format(&self) -> ZarrFormat {
        self.format
    }

    /// The attributes that decide about the meaning.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Zarr's fill value, one element.
    pub fn fill_value(&self) -> Option<&[u8]> {
        self.fill_value.as_deref()
    }

    /// The units as they are written.
    pub fn units(&self) -> Option<&str> {
        self.attributes.get("units").and_then(Value::as_str)
    }

    /// The calendar as it is written.
    pub fn calendar(&self) -> Option<&str> {
        self.attributes.get("calendar").and_then(Value::as_str)
    }

    /// The units if the elements are instants.
    pub fn time(&self) -> Option<&TimeUnits> {
        self.time.as_ref()
    }

    /// `scale_factor` and `add_offset`.
    pub fn packing(&self) -> (Option<Scalar>, Option<Scalar>) {
        (self.scale_factor, self.add_offset)
    }

    /// Whether values are scaled.
    pub fn is_packed(&self) -> bool {
        self.scale_factor.is_some() || self.add_offset.is_some()
    }

    /// The numbers of [`Self::value_type`] that mean *missing*, `_FillValue` first. NaN is not
    /// among them.
    pub fn masked(&self) -> &[Scalar] {
        &self.masked
    }

    /// An attribute whose meaning is not clear.
    pub fn unclear(&self) -> Option<&'static str> {
        self.unclear
    }

    /// Bounds of a coordinate have its units and calendar unless they say otherwise.
    #[must_use]
    pub fn with_time_of(&self, coordinate: &Self) -> Self {
        let mut attributes = self.attributes.clone();
        for name in ["units", "calendar"] {
            if let (None, Some(value)) =
                (self.attributes.get("units"), coordinate.attributes.get(name))
            {
                attributes.insert(name.to_owned(), value.clone());
            }
        }
        Self::of(self.data_type, &attributes, self.fill_value(), self.format)
    }

    /// Whether both say the same, attribute by attribute.
    pub(super) fn is_written_like(&self, other: &Self) -> bool {
        (self.data_type, self.format) == (other.data_type, other.format)
            && self.attributes == other.attributes
            && self.masking_fill_value() == other.masking_fill_value()
    }

    /// Zarr's fill value where it means missing.
    pub(super) fn masking_fill_value(&self) -> Option<&[u8]> {
        match self.format {
            ZarrFormat::V2 => self.fill_value(),
            ZarrFormat::V3 => None,
        }
    }

    fn read_packing(&mut self) {
        for name in ["scale_factor", "add_offset"] {
            let Some(value) = self.attributes.get(name) else { continue };
            let scalar = number(value);
            match name {
                "scale_factor" => self.scale_factor = scalar,
                _ => self.add_offset = scalar,
            }
            if scalar.is_none() {
                self.unclear = Some(name);
            }
        }
    }

    fn read_masks(&mut self) {
        match self.read_fill_value() {
            Ok(None) => {}
            Ok(Some(value)) => self.mask(value),
            Err(Unclear) => self.unclear = Some("_FillValue"),
        }
        match self.attributes.get("missing_value").map(numbers) {
            None => {}
            Some(Some(values)) => values.into_iter().for_each(|value| self.mask_equal(value)),
            Some(None) => self.unclear = Some("missing_value"),
        }
    }

    /// `_FillValue` as a number of the value type.
    fn read_fill_value(&self) -> Result<Option<Scalar>, Unclear> {
        let raw = match (self.format, &self.fill_value, self.attributes.get("_FillValue")) {
            (ZarrFormat::V2, Some(bytes), _) => {
                Some(Scalar::from_bytes(self.data_type, bytes).map_err(|_wrong_size| Unclear)?)
            }
            (_, _, None) => None,
            (ZarrFormat::V2, None, Some(value)) => Some(number(value).ok_or(Unclear)?),
            (ZarrFormat::V3, _, Some(value)) if self.data_type.kind() == Kind::Float => {
                Some(Scalar::Double(double(value).ok_or(Unclear)?))
            }
            (ZarrFormat::V3, _, Some(value)) => Some(match number(value).ok_or(Unclear)? {
                Scalar::Double(value) => Scalar::Integer(whole(value.trunc()).ok_or(Unclear)?),
                integer => integer,
            }),
        };
        match raw {
            // Its bits are taken, so that it must be an element as it is stored.
            Some(raw) if self.value_type != self.data_type => {
                let bytes = raw.to_bytes(self.data_type).ok_or(Unclear)?;
                if self.format == ZarrFormat::V3
                    && self.data_type.kind() == Kind::Unsigned
                    && !holds(self.value_type, raw)
                {
                    // xarray cannot turn the number of an attribute into a negative one.
                    return Err(Unclear);
                }
                Scalar::from_bytes(self.value_type, &bytes).map(Some).map_err(|_wrong_size| Unclear)
            }
            Some(Scalar::Integer(value)) if gaps(self.value_type, value) => Err(Unclear),
            Some(Scalar::Double(value)) if self.is_between_integers(value) => Err(Unclear),
            raw => Ok(raw),
        }
    }

    fn mask_equal(&mut self, value: Scalar) {
        let unclear = match value {
            Scalar::Integer(value) => gaps(self.value_type, value),
            Scalar::Single(value) => self.is_between_integers(value.into()),
            Scalar::Double(value) => self.is_between_integers(value),
        };
        if unclear {
            self.unclear = Some("missing_value");
        } else {
            self.mask(value);
        }
    }

    /// Whether a comparison in float64 finds several integers equal to it.
    fn is_between_integers(&self, value: f64) -> bool {
        let kind = self.value_type.kind();
        kind != Kind::Float && self.value_type.size() == 8 && value.abs() >= FLOAT_GAPS_FROM
    }

    fn mask(&mut self, value: Scalar) {
        fn of_type<T: super::element::Element>(value: Scalar) -> Option<Scalar> {
            T::exact(value).map(T::scalar)
        }
        // What the type cannot hold is equal to none of its elements. Zero has no sign here.
        let value = match value {
            Scalar::Double(value) => Scalar::Double(value + 0.0),
            Scalar::Single(value) => Scalar::Double(f64::from(value) + 0.0),
            integer @ Scalar::Integer(_) => integer,
        };
        let value = with_element!(self.value_type, of_type(value), None);
        if let Some(value) = value.filter(|value| !self.masked.contains(value)) {
            self.masked.push(value);
        }
    }
}

/// An attribute that readers may take in several ways.
struct Unclear;

/// Whether a comparison with a float finds this integer equal to its neighbours.
fn gaps(value_type: DataType, value: i128) -> bool {
    value_type.kind() == Kind::Float && !holds(DataType::Float64, Scalar::Integer(value))
}

fn value_type(data_type: DataType, attributes: &Attributes) -> DataType {
    let unsigned = attributes.get("_Unsigned").and_then(Value::as_str);
    match (unsigned, data_type) {
        (Some("true"), DataType::Int8) => DataType::UInt8,
        (Some("true"), DataType::Int16) => DataType::UInt16,
        (Some("true"), DataType::Int32) => DataType::UInt32,
        (Some("true"), DataType::Int64) => DataType::UInt64,
        (Some("false"), DataType::UInt8) => DataType::Int8,
        (Some("false"), DataType::UInt16) => DataType::Int16,
        (Some("false"), DataType::UInt32) => DataType::Int32,
        (Some("false"), DataType::UInt64) => DataType::Int64,
        (_, data_type) => data_type,
    }
}

fn time(attributes: &Attributes) -> Option<TimeUnits> {
    let units = attributes.get("units")?.as_str()?;
    match attributes.get("calendar") {
        None => TimeUnits::parse(units, None),
        Some(calendar) => TimeUnits::parse(units, Some(calendar.as_str()?)),
    }
}

fn number(value: &Value) -> Option<Scalar> {
    let number = value.as_number()?;
    number.as_i128().map(Scalar::Integer).or_else(|| number.as_f64().map(Scalar::Double))
}

/// One number or several. `null` is NaN, which masks nothing that is not masked already. Beside it,
/// xarray would compare numbers in the type of the elements: that is no clear list.
fn numbers(value: &Value) -> Option<Vec<Scalar>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::Array(values) if values.iter().all(Value::is_null) => Some(Vec::new()),
        Value::Array(values) => {
            let numbers: Vec<Scalar> = values.iter().map(number).collect::<Option<_>>()?;
            let all_integers = numbers.iter().all(|value| matches!(value, Scalar::Integer(_)));
            let all_floats = numbers.iter().all(|value| matches!(value, Scalar::Double(_)));
            let fit = |value: &Scalar| match value {
                Scalar::Integer(value) => i64::try_from(*value).is_ok(),
                _ => true,
            };
            ((all_integers || all_floats) && numbers.iter().all(fit)).then_some(numbers)
        }
        one => number(one).map(|number| vec![number]),
    }
}

fn double(value: &Value) -> Option<f64> {
    let bytes = STANDARD.decode(value.as_str()?).ok()?;
    Some(f64::from_le_bytes(bytes.try_into().ok()?))
}
