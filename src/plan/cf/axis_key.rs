//! Values of a coordinate as keys by which files are put in order and placed.
//!
//! Keys of all numeric encodings compare as the numbers they mean, exactly: integers with floats,
//! instants of one calendar as nanoseconds. Texts come after numbers.

use std::cmp::Ordering;

use super::decoding::{Decoding, NOT_A_TIME};
use super::element::{Element, with_element};
use super::refusal::ConversionRefusal;
use super::time_units::TimeUnits;
use super::unpack::Unpacking;
use crate::zarr::{DataType, Scalar};

/// One value of a coordinate.
#[derive(Debug, Clone)]
pub enum AxisKey {
    /// An integer, or an instant in nanoseconds on the line of its calendar.
    Integer(i128),
    /// A float. It is not NaN: [`axis_keys`] makes none of that.
    Float(f64),
    /// A text.
    Text(String),
}

/// Why a coordinate has no keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// A missing value has no place.
    #[error("the value at index {index} is missing")]
    Missing {
        /// Where it is.
        index: usize,
    },
    /// A time that is beyond all times.
    #[error("the value at index {index} is no time")]
    NoTime {
        /// Where it is.
        index: usize,
    },
    /// A text that is not UTF-8.
    #[error("the text at index {index} is not UTF-8")]
    NotUtf8 {
        /// Where it is.
        index: usize,
    },
    /// The bytes end within an element.
    #[error("the value at index {index} is cut short")]
    CutShort {
        /// Where it is.
        index: usize,
    },
    /// What the values mean is not clear.
    #[error(transparent)]
    Meaning(#[from] ConversionRefusal),
}

impl Ord for AxisKey {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one.cmp(other),
            // Not NaN, and both zeros are one place.
            (Self::Float(one), Self::Float(other)) => {
                one.partial_cmp(other).unwrap_or_else(|| one.total_cmp(other))
            }
            (Self::Integer(one), Self::Float(other)) => compare(*one, *other),
            (Self::Float(one), Self::Integer(other)) => compare(*other, *one).reverse(),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Text(_), _) => Ordering::Greater,
            (_, Self::Text(_)) => Ordering::Less,
        }
    }
}

impl PartialOrd for AxisKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for AxisKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for AxisKey {}

/// An integer with a float, without rounding either.
fn compare(integer: i128, float: f64) -> Ordering {
    // The bounds of i128 as float64: beyond them only the sign matters.
    let beyond = 2f64.powi(127);
    if float >= beyond {
        return Ordering::Less;
    }
    if float < -beyond {
        return Ordering::Greater;
    }
    #[allow(clippy::cast_possible_truncation, reason = "whole and within the bounds")]
    let whole = float.floor() as i128;
    integer.cmp(&whole).then(if float > float.floor() { Ordering::Less } else { Ordering::Equal })
}

/// The keys of all elements in `raw`: numbers little-endian, characters one byte each, strings
/// each behind their length in bytes (u32).
pub fn axis_keys(decoding: &Decoding, raw: &[u8]) -> Result<Vec<AxisKey>, AxisError> {
    match decoding.data_type() {
        DataType::String => text_keys(raw),
        DataType::Char => {
            let key = |byte: &u8| AxisKey::Text(char::from(*byte).to_string());
            Ok(raw.iter().map(key).collect())
        }
        _ => {
            if let Some(name) = decoding.unclear() {
                return Err(ConversionRefusal::Unclear { name }.into());
            }
            let unpacking = decoding.is_packed().then(|| Unpacking::of(decoding)).transpose()?;
            let numbers = Numbers { decoding, unpacking };
            with_element!(decoding.value_type(), number_keys(&numbers, raw), Ok(Vec::new()))
        }
    }
}

/// What makes keys of raw numbers.
struct Numbers<'a> {
    decoding: &'a Decoding,
    unpacking: Option<Unpacking>,
}

fn number_keys<T: Element>(numbers: &Numbers<'_>, raw: &[u8]) -> Result<Vec<AxisKey>, AxisError> {
    let masks: Vec<T> =
        numbers.decoding.masked().iter().filter_map(|mask| T::exact(*mask)).collect();
    let elements = raw.chunks_exact(T::SIZE);
    if !elements.remainder().is_empty() {
        return Err(AxisError::CutShort { index: elements.len() });
    }
    let key = |(index, bytes): (usize, &[u8])| {
        let element = T::read(bytes);
        let is_masked = |mask: &T| element == *mask || element.is_mistaken_for(*mask);
        if element.is_nan() || masks.iter().any(is_masked) {
            return Err(AxisError::Missing { index });
        }
        let value = match &numbers.unpacking {
            Some(unpacking) => unpacking.value(element.scalar()),
            None => Some(element.scalar()),
        };
        let value = value.ok_or(AxisError::Missing { index })?;
        match numbers.decoding.time() {
            Some(_) if value == Scalar::Integer(NOT_A_TIME) => Err(AxisError::Missing { index }),
            Some(units) => {
                instant(units, value).map(AxisKey::Integer).ok_or(AxisError::NoTime { index })
            }
            None => Ok(match value {
                Scalar::Integer(value) => AxisKey::Integer(value),
                Scalar::Single(value) => AxisKey::Float(value.into()),
                Scalar::Double(value) => AxisKey::Float(value),
            }),
        }
    };
    elements.enumerate().map(key).collect()
}

fn instant(units: &TimeUnits, value: Scalar) -> Option<i128> {
    match value {
        Scalar::Integer(value) => units.instant_ns(value),
        Scalar::Single(value) => units.instant_ns_of_float(value.into()),
        Scalar::Double(value) => units.instant_ns_of_float(value),
    }
}

fn text_keys(raw: &[u8]) -> Result<Vec<AxisKey>, AxisError> {
    let mut keys = Vec::new();
    let mut rest = raw;
    while !rest.is_empty() {
        let index = keys.len();
        let cut_short = || AxisError::CutShort { index };
        let (length, behind) = rest.split_first_chunk().ok_or_else(cut_short)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok().ok_or_else(cut_short)?;
        let (text, behind) = behind.split_at_checked(length).ok_or_else(cut_short)?;
        let text = std::str::from_utf8(text).ok().ok_or(AxisError::NotUtf8 { index })?;
        keys.push(AxisKey::Text(text.to_owned()));
        rest = behind;
    }
    Ok(keys)
}
