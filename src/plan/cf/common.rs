//! One encoding for several, for an array that is published for the first time.
//!
//! The first one given is the reference: its attributes stay wherever they can. What may change,
//! in this order of preference:
//!
//! ```text
//! units        the reference's, else a finer unit since the same date
//! type         the smallest that holds all numbers, else int64 for integers that got larger
//! _FillValue   the reference's, else another one's
//! ```
//!
//! Whoever knows the values gives them: then the encoding chosen is one into which all of them
//! convert. Without them it is one in which units divide evenly and types are wide enough, and
//! [`Conversion::apply`] finds what does not fit after all.

use serde_json::Value;

use super::conversion::Conversion;
use super::decoding::Decoding;
use super::element::{Element, holds, holds_all, with_element};
use super::refusal::ConversionRefusal;
use super::time_units::{TimeUnit, TimeUnits};
use crate::zarr::{
    Attributes, DataType, Kind, Scalar, ZarrFormat, fill_value_attribute, nan_bytes,
};

/// An encoding that all can be converted to.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Type of the stored elements.
    pub data_type: DataType,
    /// Attributes of the reference that are to be set.
    pub set: Attributes,
    /// Attributes of the reference that are to be removed.
    pub removed: Vec<&'static str>,
    /// Zarr's fill value, one element.
    pub fill_value: Option<Vec<u8>>,
    /// What the elements mean then.
    pub decoding: Decoding,
}

/// Chooses an encoding for all of them; the first is the reference. `values` are raw elements of
/// each, as far as they are known: the same number of entries as `all`, or none at all.
pub fn common_encoding(
    all: &[&Decoding],
    values: &[Option<&[u8]>],
) -> Result<Option<Target>, ConversionRefusal> {
    let Some((reference, others)) = all.split_first() else { return Ok(None) };
    if others.iter().all(|other| other.is_written_like(reference)) {
        return Ok(Some(Target::unchanged(reference)));
    }
    for other in others {
        Conversion::between(other, reference)?;
    }
    let members: Vec<Member<'_>> = all
        .iter()
        .enumerate()
        .map(|(at, decoding)| Member { decoding, values: values.get(at).copied().flatten() })
        .collect();
    let types = types(reference, &members)?;
    let mut refusal = None;
    for units in units(reference, others) {
        for (at, value_type) in types.iter().enumerate() {
            let is_last = at + 1 == types.len();
            for fill in fills(reference, others, *value_type) {
                let target = Target::of(reference, units.as_ref(), *value_type, fill);
                let refused =
                    members.iter().find_map(|member| member.check(&target.decoding, is_last).err());
                match refused {
                    None => return Ok(Some(target)),
                    Some(refused) => refusal = refusal.or(Some(refused)),
                }
            }
        }
    }
    Err(refusal.unwrap_or_else(|| no_common_type(all)))
}

/// One of those that should have the encoding.
struct Member<'a> {
    decoding: &'a Decoding,
    values: Option<&'a [u8]>,
}

impl Member<'_> {
    /// Whether its elements can have this encoding, as far as is known. `is_widest` says that no
    /// wider type is left to try.
    fn check(&self, target: &Decoding, is_widest: bool) -> Result<(), ConversionRefusal> {
        let conversion = Conversion::between(self.decoding, target)?;
        if let Some(values) = self.values {
            return Ok(conversion.apply(values, &mut Vec::new())?);
        }
        let may_fit = conversion.holds_all() || is_widest;
        if conversion.is_whole() && may_fit { Ok(()) } else { Err(conversion.may_not_fit()) }
    }
}

/// The units to try: the reference's, then finer ones if not all are the same.
fn units(reference: &Decoding, others: &[&Decoding]) -> Vec<Option<TimeUnits>> {
    let mut units = vec![None];
    if let Some(time) = reference.time() {
        let same = |other: &&Decoding| other.time().is_some_and(|other| other.means_the_same(time));
        let finer = TimeUnit::ALL.into_iter().filter(|unit| *unit > time.unit());
        if !others.iter().all(same) {
            units.extend(finer.map(|unit| Some(time.with_unit(unit))));
        }
    }
    units
}

/// The types to try, from narrow to wide.
fn types(reference: &Decoding, members: &[Member<'_>]) -> Result<Vec<DataType>, ConversionRefusal> {
    const FROM_NARROW: [DataType; 11] = [
        DataType::Int8,
        DataType::UInt8,
        DataType::Int16,
        DataType::UInt16,
        DataType::Int32,
        DataType::UInt32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
    ];
    let value_type = reference.value_type();
    if value_type.kind() == Kind::Text {
        return Ok(vec![value_type]);
    }
    let is_float = |data_type: DataType| data_type.kind() == Kind::Float;
    let holds_each = |data_type: &DataType| {
        members.iter().all(|member| holds_all(*data_type, member.decoding.value_type()))
    };
    let any_float = members.iter().any(|member| is_float(member.decoding.value_type()));
    let smallest = [value_type]
        .into_iter()
        .chain(FROM_NARROW)
        .filter(|data_type| is_float(*data_type) == any_float)
        .find(holds_each);
    let is_time = reference.time().is_some();
    Ok(match smallest {
        Some(DataType::Float16) if is_time => {
            vec![DataType::Float16, DataType::Float32, DataType::Float64]
        }
        Some(DataType::Float32) if is_time => vec![DataType::Float32, DataType::Float64],
        Some(smallest) if is_time && !any_float && smallest != DataType::UInt64 => {
            let mut types = vec![smallest, DataType::Int64];
            types.dedup();
            types
        }
        Some(smallest) => vec![smallest],
        // Whether the numbers that are there fit can only be told from them.
        None if members.iter().all(|member| member.values.is_some()) => {
            if any_float {
                vec![DataType::Float64]
            } else {
                vec![DataType::Int64, DataType::UInt64]
            }
        }
        None => {
            let all: Vec<&Decoding> = members.iter().map(|member| member.decoding).collect();
            return Err(no_common_type(&all));
        }
    })
}

fn no_common_type(all: &[&Decoding]) -> ConversionRefusal {
    let mut types: Vec<&str> = all.iter().map(|one| one.value_type().name_v3()).collect();
    types.sort_unstable();
    types.dedup();
    ConversionRefusal::NoCommonType { types: types.join(" and ") }
}

/// What should mean *missing*: `None` leaves it to the attributes of the reference.
fn fills(reference: &Decoding, others: &[&Decoding], value_type: DataType) -> Vec<Option<Scalar>> {
    let keeps_masks = reference.masked().iter().all(|mask| holds(value_type, *mask));
    let speaks = !reference.masked().is_empty() || value_type.kind() == Kind::Float;
    let of_others = others
        .iter()
        .filter_map(|other| other.masked().first().copied())
        .filter(|mask| holds(value_type, *mask));
    let mut fills = Vec::new();
    if speaks && keeps_masks {
        fills.push(None);
    }
    for fill in of_others.map(Some) {
        if !fills.contains(&fill) {
            fills.push(fill);
        }
    }
    if !fills.contains(&None) {
        fills.push(None);
    }
    fills
}

impl Target {
    fn unchanged(reference: &Decoding) -> Self {
        Self {
            data_type: reference.data_type(),
            set: Attributes::new(),
            removed: Vec::new(),
            fill_value: reference.fill_value().map(<[u8]>::to_vec),
            decoding: reference.clone(),
        }
    }

    fn of(
        reference: &Decoding,
        units: Option<&TimeUnits>,
        value_type: DataType,
        fill: Option<Scalar>,
    ) -> Self {
        let keeps_type = value_type == reference.value_type();
        let data_type = if keeps_type { reference.data_type() } else { value_type };
        let mut target = Self {
            data_type,
            set: Attributes::new(),
            removed: Vec::new(),
            ..Self::unchanged(reference)
        };
        if let Some(units) = units {
            target.set.insert("units".to_owned(), Value::from(units.to_string()));
        }
        if !keeps_type && reference.value_type() != reference.data_type() {
            target.removed.push("_Unsigned");
        }
        let has_fill_attribute = reference.attributes().contains_key("_FillValue")
            || (reference.format() == ZarrFormat::V2 && reference.fill_value().is_some());
        let first = reference.masked().first().copied().filter(|_| has_fill_attribute);
        if fill.is_some() || !keeps_type {
            target.set_fill(reference, fill.or(first), has_fill_attribute);
        }
        target.decode(reference);
        target
    }

    /// Writes the fill as format and type have it.
    fn set_fill(&mut self, reference: &Decoding, fill: Option<Scalar>, had_attribute: bool) {
        let bytes = fill.and_then(|fill| element_bytes(fill, reference, self.data_type));
        // A float whose missing values have no number: NaN.
        let bytes = bytes.or_else(|| nan_bytes(self.data_type).filter(|_| had_attribute));
        match (reference.format(), bytes) {
            (ZarrFormat::V2, bytes) => self.fill_value = bytes,
            (ZarrFormat::V3, Some(bytes)) => {
                if let Ok(attribute) = fill_value_attribute(self.data_type, &bytes) {
                    self.set.insert("_FillValue".to_owned(), attribute);
                }
                self.fill_value = Some(bytes);
            }
            (ZarrFormat::V3, None) => {
                if had_attribute {
                    self.removed.push("_FillValue");
                }
                let empty = || nan_bytes(self.data_type).unwrap_or_else(|| self.data_type.zero());
                self.fill_value = Some(empty());
            }
        }
    }

    fn decode(&mut self, reference: &Decoding) {
        let mut attributes = reference.attributes().clone();
        for name in &self.removed {
            attributes.shift_remove(*name);
        }
        for (name, value) in &self.set {
            attributes.insert(name.clone(), value.clone());
        }
        self.decoding = Decoding::of(
            self.data_type,
            &attributes,
            self.fill_value.as_deref(),
            reference.format(),
        );
    }
}

/// A number of the value type as an element is stored.
fn element_bytes(value: Scalar, reference: &Decoding, data_type: DataType) -> Option<Vec<u8>> {
    fn bytes<T: Element>(value: Scalar) -> Option<Vec<u8>> {
        let mut bytes = vec![0; T::SIZE];
        T::exact(value)?.write(&mut bytes);
        Some(bytes)
    }
    // Where the stored type is kept, `_Unsigned` says which numbers its bits are.
    let value_type =
        if data_type == reference.data_type() { reference.value_type() } else { data_type };
    with_element!(value_type, bytes(value), None)
}
