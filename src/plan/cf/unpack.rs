//! Packed values, raw * `scale_factor` + `add_offset`, as the floats that xarray makes of them.
//!
//! The type and the order of operations are those of `CFScaleOffsetCoder`, so that every bit is
//! the same. The numbers' own types decide about the type: a NetCDF file knows float32, JSON does
//! not.

use super::conversion::{Conversion, Step, compare_units};
use super::decoding::Decoding;
use super::element::Element;
use super::refusal::ConversionRefusal;
use crate::zarr::{
    Attributes, DataType, Kind, Scalar, ZarrFormat, fill_value_attribute, nan_bytes,
};

/// Attributes that say nothing about unpacked values.
const OF_PACKED_VALUES: [&str; 5] =
    ["scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"];

/// How packed numbers become values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unpacking {
    data_type: DataType,
    scale_factor: Option<f64>,
    add_offset: Option<f64>,
}

/// An array after unpacking.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpacked {
    /// Type of the values.
    pub data_type: DataType,
    /// All attributes, without those of packed values.
    pub attributes: Attributes,
    /// Zarr's fill value: NaN.
    pub fill_value: Vec<u8>,
    /// What these elements mean.
    pub decoding: Decoding,
}

impl Unpacking {
    /// For numbers of `value_type` (what [`Decoding::value_type`] says). The numbers have the types
    /// that they have in the file.
    pub fn new(
        value_type: DataType,
        scale_factor: Option<Scalar>,
        add_offset: Option<Scalar>,
    ) -> Result<Self, ConversionRefusal> {
        let data_type = match (scale_factor, add_offset) {
            (None, None) => return Err(ConversionRefusal::Packing),
            (Some(Scalar::Single(_)), Some(Scalar::Single(_))) => {
                let is_wide_integer = value_type.kind() != Kind::Float && value_type.size() == 4;
                if is_wide_integer { DataType::Float64 } else { DataType::Float32 }
            }
            (_, Some(_)) | (Some(Scalar::Double(_)), None) => DataType::Float64,
            (Some(Scalar::Single(_)), None) => DataType::Float32,
            (Some(Scalar::Integer(_)), None) => return Err(ConversionRefusal::IntegerScale),
        };
        let float = |scalar: Option<Scalar>| match scalar {
            None => Ok(None),
            Some(scalar) => f64::exact(scalar).map(Some).ok_or(ConversionRefusal::Packing),
        };
        Ok(Self { data_type, scale_factor: float(scale_factor)?, add_offset: float(add_offset)? })
    }

    /// For an array whose documents are all that is known: numbers are float64 or integers.
    pub fn of(decoding: &Decoding) -> Result<Self, ConversionRefusal> {
        if let Some(name) = decoding.unclear() {
            return Err(ConversionRefusal::Unclear { name });
        }
        let (scale_factor, add_offset) = decoding.packing();
        Self::new(decoding.value_type(), scale_factor, add_offset)
    }

    /// Type of the values.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The documents of an array after unpacking.
    pub fn unpacked(
        &self,
        attributes: &Attributes,
        format: ZarrFormat,
    ) -> Result<Unpacked, ConversionRefusal> {
        let Some(fill_value) = nan_bytes(self.data_type) else {
            return Err(ConversionRefusal::Packing);
        };
        let mut attributes: Attributes = attributes
            .iter()
            .filter(|(name, _)| !OF_PACKED_VALUES.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if format == ZarrFormat::V3 {
            // The bytes are of this type, so that this cannot fail.
            if let Ok(attribute) = fill_value_attribute(self.data_type, &fill_value) {
                attributes.insert("_FillValue".to_owned(), attribute);
            }
        }
        let decoding = Decoding::of(self.data_type, &attributes, Some(&fill_value), format);
        Ok(Unpacked { data_type: self.data_type, attributes, fill_value, decoding })
    }

    /// The value of a packed number; `None` is NaN.
    pub(super) fn value(&self, raw: Scalar) -> Option<Scalar> {
        if self.data_type == DataType::Float32 {
            let value = self.single(raw);
            return (!value.is_nan()).then_some(Scalar::Single(value));
        }
        let mut value = nearest_double(raw);
        if let Some(scale) = self.scale_factor {
            value *= scale;
        }
        if let Some(offset) = self.add_offset {
            value += offset;
        }
        (!value.is_nan()).then_some(Scalar::Double(value))
    }

    #[allow(clippy::cast_possible_truncation, reason = "both were float32; rounding is numpy's")]
    fn single(&self, raw: Scalar) -> f32 {
        let mut value = match raw {
            #[allow(clippy::cast_precision_loss, reason = "rounding is numpy's")]
            Scalar::Integer(value) => value as f32,
            Scalar::Single(value) => value,
            Scalar::Double(value) => value as f32,
        };
        if let Some(scale) = self.scale_factor {
            value *= scale as f32;
        }
        if let Some(offset) = self.add_offset {
            value += offset as f32;
        }
        value
    }
}

fn nearest_double(raw: Scalar) -> f64 {
    match raw {
        #[allow(clippy::cast_precision_loss, reason = "rounding is numpy's")]
        Scalar::Integer(value) => value as f64,
        Scalar::Single(value) => value.into(),
        Scalar::Double(value) => value,
    }
}

impl Conversion {
    /// How packed elements that mean what `from` says become values as `to` says, which is not
    /// packed.
    pub fn unpacking(
        from: &Decoding,
        unpacking: Unpacking,
        to: &Decoding,
    ) -> Result<Self, ConversionRefusal> {
        if let Some(name) = from.unclear().or(to.unclear()) {
            return Err(ConversionRefusal::Unclear { name });
        }
        if to.is_packed() {
            return Err(ConversionRefusal::Packing);
        }
        compare_units(from, to)?;
        match (from.time(), to.time()) {
            (Some(one), Some(other)) if !one.means_the_same(other) => {
                Err(ConversionRefusal::PackedTime)
            }
            _ => Ok(Self::new(from, to, Step::Unpack(unpacking))),
        }
    }
}
