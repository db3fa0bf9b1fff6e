//! Fill values: one element as little-endian bytes (a text as its UTF-8), as JSON in a metadata document, and as the
//! `_FillValue` attribute that xarray writes.
//!
//! Bytes are the truth here: a conversion that would not bring the same bytes back is an error.
//! JSON forms follow <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#fill-value>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use half::f16;
use serde_json::{Number, Value};

use super::data_type::{DataType, Kind};

/// The bits the specification means by `"NaN"`.
const NAN_F16: u16 = 0x7e00;
/// The bits the specification means by `"NaN"`.
const NAN_F32: u32 = 0x7fc0_0000;
/// The bits the specification means by `"NaN"`.
const NAN_F64: u64 = 0x7ff8_0000_0000_0000;

/// Why a fill value cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillValueError {
    /// Not a value of the data type.
    #[error("`{value}` is not a fill value of type {data_type}")]
    NotOfType {
        /// The JSON that was found.
        value: String,
        /// The type it should have.
        data_type: DataType,
    },
    /// Not the bytes of one element.
    #[error("a fill value of type {data_type} has {expected} bytes, not {actual}")]
    WrongSize {
        /// The type it should have.
        data_type: DataType,
        /// Bytes of one element.
        expected: usize,
        /// Bytes given.
        actual: usize,
    },
}

/// An element as a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// Any integer type.
    Integer(i128),
    /// A float32 or float16, exactly.
    Single(f32),
    /// A float64.
    Double(f64),
}

impl Scalar {
    /// Reads one little-endian element.
    pub fn from_bytes(data_type: DataType, bytes: &[u8]) -> Result<Self, FillValueError> {
        if data_type.kind() == Kind::Text {
            return Err(FillValueError::NotOfType { value: "a number".to_owned(), data_type });
        }
        check_size(data_type, bytes)?;
        let mut low = [0; 8];
        low.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let bits = u64::from_le_bytes(low);
        Ok(match data_type {
            DataType::Float16 => Self::Single(half(bits).into()),
            DataType::Float32 => Self::Single(f32::from_bits(truncate(bits))),
            DataType::Float64 => Self::Double(f64::from_bits(bits)),
            _ if data_type.kind() == Kind::Signed => {
                // Moves the sign bit to the top and back.
                let unused = 64 - 8 * u32::try_from(bytes.len()).unwrap_or(8);
                Self::Integer(i128::from(bits.wrapping_shl(unused).cast_signed() >> unused))
            }
            _ => Self::Integer(i128::from(bits)),
        })
    }

    /// The little-endian bytes of this value in `data_type`; `None` when the type cannot hold
    /// exactly this value.
    pub fn to_bytes(self, data_type: DataType) -> Option<Vec<u8>> {
        match data_type {
            DataType::Float16 => self.to_f16().map(|value| value.to_le_bytes().to_vec()),
            DataType::Float32 => self.to_f32().map(|value| value.to_le_bytes().to_vec()),
            DataType::Float64 => self.to_f64().map(|value| value.to_le_bytes().to_vec()),
            _ => integer_bytes(self.to_integer()?, data_type),
        }
    }

    fn to_integer(self) -> Option<i128> {
        let value = match self {
            Self::Integer(value) => return Some(value),
            Self::Single(value) => f64::from(value),
            Self::Double(value) => value,
        };
        // Within these bounds the conversion is exact for whole numbers.
        let whole = value.trunc().to_bits() == value.to_bits() && value.abs() < 2f64.powi(100);
        #[allow(clippy::cast_possible_truncation, reason = "whole and within the bounds of i128")]
        whole.then_some(value as i128)
    }

    fn to_f64(self) -> Option<f64> {
        match self {
            Self::Double(value) => Some(value),
            Self::Single(value) => Some(f64::from(value)),
            Self::Integer(value) => {
                #[allow(clippy::cast_precision_loss, reason = "checked by converting back")]
                let float = value as f64;
                #[allow(clippy::cast_possible_truncation, reason = "it came from an i128")]
                let back = float as i128;
                (back == value).then_some(float)
            }
        }
    }

    fn to_f32(self) -> Option<f32> {
        if let Self::Single(value) = self {
            return Some(value);
        }
        let double = self.to_f64()?;
        #[allow(clippy::cast_possible_truncation, reason = "checked by converting back")]
        let single = double as f32;
        let same = f64::from(single).to_bits() == double.to_bits();
        (same || double.is_nan()).then_some(single)
    }

    fn to_f16(self) -> Option<f16> {
        let double = self.to_f64()?;
        let half = f16::from_f64(double);
        let same = half.to_f64().to_bits() == double.to_bits();
        (same || double.is_nan()).then_some(half)
    }
}

fn check_size(data_type: DataType, bytes: &[u8]) -> Result<(), FillValueError> {
    let (expected, actual) = (data_type.size(), bytes.len());
    if expected == actual {
        Ok(())
    } else {
        Err(FillValueError::WrongSize { data_type, expected, actual })
    }
}

/// The bytes of the not-a-number that the specification calls `"NaN"`; `None` for integers.
pub fn nan_bytes(data_type: DataType) -> Option<Vec<u8>> {
    match data_type {
        DataType::Float16 => Some(NAN_F16.to_le_bytes().to_vec()),
        DataType::Float32 => Some(NAN_F32.to_le_bytes().to_vec()),
        DataType::Float64 => Some(NAN_F64.to_le_bytes().to_vec()),
        _ => None,
    }
}

/// `fill_value` of a metadata document.
pub fn fill_value_to_json(data_type: DataType, bytes: &[u8]) -> Result<Value, FillValueError> {
    if data_type.kind() == Kind::Text {
        return text_to_json(data_type, bytes);
    }
    let float = match Scalar::from_bytes(data_type, bytes)? {
        Scalar::Integer(value) => return Ok(integer_to_json(value)),
        Scalar::Single(value) => f64::from(value),
        Scalar::Double(value) => value,
    };
    if float.is_nan() && nan_bytes(data_type).as_deref() != Some(bytes) {
        let bits = bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        return Ok(Value::from(format!("{bits:#0width$x}", width = 2 + 2 * bytes.len())));
    }
    Ok(float_to_json(float))
}

/// The bytes of the `fill_value` of a metadata document.
pub fn fill_value_from_json(data_type: DataType, json: &Value) -> Result<Vec<u8>, FillValueError> {
    let bytes = match (json, data_type.kind()) {
        (Value::Number(number), Kind::Float) => number.as_f64().and_then(|value| match data_type {
            // Writers give the shortest decimal of a short float: the nearest one is meant.
            DataType::Float16 => Some(f16::from_f64(value).to_le_bytes().to_vec()),
            #[allow(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
            DataType::Float32 => Some((value as f32).to_le_bytes().to_vec()),
            _ => Scalar::Double(value).to_bytes(data_type),
        }),
        (Value::String(text), Kind::Float) => float_from_text(data_type, text),
        (Value::String(text), Kind::Text) => text_from_json(data_type, text),
        (Value::Number(number), Kind::Signed | Kind::Unsigned) => {
            number.as_i128().and_then(|value| integer_bytes(value, data_type))
        }
        _ => None,
    };
    bytes.ok_or_else(|| FillValueError::NotOfType { value: json.to_string(), data_type })
}

/// The `_FillValue` attribute in xarray's encoding for v3 (`FillValueCoder`): integers as
/// numbers, floats as base64 of a little-endian float64.
pub fn fill_value_attribute(data_type: DataType, bytes: &[u8]) -> Result<Value, FillValueError> {
    let double = match Scalar::from_bytes(data_type, bytes)? {
        Scalar::Integer(value) => return Ok(integer_to_json(value)),
        Scalar::Single(value) => f64::from(value),
        Scalar::Double(value) => value,
    };
    Ok(Value::from(STANDARD.encode(double.to_le_bytes())))
}

/// A float as strict JSON: NaN and the infinities as the texts of the specification.
pub fn float_to_json(value: f64) -> Value {
    Number::from_f64(value).map_or_else(
        || {
            Value::from(match value {
                _ if value.is_nan() => "NaN",
                _ if value > 0.0 => "Infinity",
                _ => "-Infinity",
            })
        },
        Value::Number,
    )
}

fn integer_to_json(value: i128) -> Value {
    // Every integer type fits one of the two.
    i64::try_from(value)
        .map(Value::from)
        .or_else(|_| u64::try_from(value).map(Value::from))
        .unwrap_or_default()
}

fn integer_bytes(value: i128, data_type: DataType) -> Option<Vec<u8>> {
    Some(match data_type {
        DataType::Int8 => i8::try_from(value).ok()?.to_le_bytes().to_vec(),
        DataType::UInt8 => u8::try_from(value).ok()?.to_le_bytes().to_vec(),
        DataType::Int16 => i16::try_from(value).ok()?.to_le_bytes().to_vec(),
        DataType::UInt16 => u16::try_from(value).ok()?.to_le_bytes().to_vec(),
        DataType::Int32 => i32::try_from(value).ok()?.to_le_bytes().to_vec(),
        DataType::UInt32 => u32::try_from(value).ok()?.to_le_bytes().to_vec(),
        DataType::Int64 => i64::try_from(value).ok()?.to_le_bytes().to_vec(),
        DataType::UInt64 => u64::try_from(value).ok()?.to_le_bytes().to_vec(),
        DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Char
        | DataType::String => return None,
    })
}

fn float_from_text(data_type: DataType, text: &str) -> Option<Vec<u8>> {
    let value = match text {
        "NaN" => return nan_bytes(data_type),
        "Infinity" => f64::INFINITY,
        "-Infinity" => f64::NEG_INFINITY,
        text => {
            let digits = text.strip_prefix("0x")?;
            // `from_str_radix` would accept a sign.
            let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let bits = u64::from_str_radix(digits, 16).ok()?;
            return (hex && digits.len() == 2 * data_type.size())
                .then(|| bits.to_le_bytes().into_iter().take(data_type.size()).collect());
        }
    };
    Scalar::Double(value).to_bytes(data_type)
}

/// Texts as they are, a character as base64 of its byte (as zarr-python has it).
fn text_to_json(data_type: DataType, bytes: &[u8]) -> Result<Value, FillValueError> {
    if data_type == DataType::Char {
        check_size(data_type, bytes)?;
        return Ok(Value::from(STANDARD.encode(bytes)));
    }
    let not_utf8 = |_error| FillValueError::NotOfType { value: format!("{bytes:?}"), data_type };
    std::str::from_utf8(bytes).map(Value::from).map_err(not_utf8)
}

fn text_from_json(data_type: DataType, text: &str) -> Option<Vec<u8>> {
    if data_type == DataType::String {
        return Some(text.as_bytes().to_vec());
    }
    // zarr-python cuts NUL off and writes "" for it.
    match STANDARD.decode(text).ok()?.as_slice() {
        [] => Some(vec![0]),
        [byte] => Some(vec![*byte]),
        _ => None,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "keeps the low bits on purpose")]
fn half(bits: u64) -> f16 {
    f16::from_bits(bits as u16)
}

#[allow(clippy::cast_possible_truncation, reason = "keeps the low half on purpose")]
fn truncate(bits: u64) -> u32 {
    bits as u32
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn back_and_forth(data_type: DataType, bytes: &[u8]) -> Value {
        let value = fill_value_to_json(data_type, bytes).unwrap();
        let text = serde_json::to_string(&value).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(fill_value_from_json(data_type, &read).unwrap(), bytes, "{data_type} {value}");
        value
    }

    #[test]
    fn fill_values_come_back_bit_for_bit() {
        assert_eq!(back_and_forth(DataType::Int8, &[0x85]), json!(-123));
        assert_eq!(back_and_forth(DataType::UInt8, &[0x85]), json!(133));
        assert_eq!(back_and_forth(DataType::Int64, &i64::MIN.to_le_bytes()), json!(i64::MIN));
        assert_eq!(back_and_forth(DataType::UInt64, &u64::MAX.to_le_bytes()), json!(u64::MAX));
        assert_eq!(back_and_forth(DataType::Float16, &NAN_F16.to_le_bytes()), json!("NaN"));
        assert_eq!(back_and_forth(DataType::Float16, &[1, 0x7c]), json!("0x7c01"));
        assert_eq!(back_and_forth(DataType::Float16, &[0, 0xfc]), json!("-Infinity"));
        assert_eq!(back_and_forth(DataType::Float16, &[0x66, 0x2e]), json!(0.099_975_585_937_5));
        assert_eq!(back_and_forth(DataType::Float32, &NAN_F32.to_le_bytes()), json!("NaN"));
        assert_eq!(
            back_and_forth(DataType::Float32, &0xffc0_0001_u32.to_le_bytes()),
            json!("0xffc00001")
        );
        assert_eq!(
            back_and_forth(DataType::Float64, &f64::NEG_INFINITY.to_le_bytes()),
            json!("-Infinity")
        );
        for bits in 0..=u16::MAX {
            back_and_forth(DataType::Float16, &bits.to_le_bytes());
        }
        for bits in [0x8000_0000, 1, 0x7cf0_0000, 0x3dcc_cccd, f32::MAX.to_bits()] {
            back_and_forth(DataType::Float32, &bits.to_le_bytes());
        }
        for value in [-0.0, 5e-324, 9.969_209_968_386_869e36, f64::MAX, 0.1 + 0.2] {
            back_and_forth(DataType::Float64, &value.to_le_bytes());
        }
    }

    #[test]
    fn the_fill_value_attribute_is_what_xarray_writes() {
        let fill = 9.969_21e36_f32;
        assert_eq!(
            fill_value_attribute(DataType::Float32, &fill.to_le_bytes()).unwrap(),
            json!("AAAAAAAAnkc=")
        );
        assert_eq!(
            fill_value_attribute(DataType::Float32, &1e20_f32.to_le_bytes()).unwrap(),
            json!("AAAAgB2vFUQ=")
        );
        assert_eq!(
            fill_value_attribute(DataType::Float64, &f64::NAN.to_le_bytes()).unwrap(),
            json!("AAAAAAAA+H8=")
        );
        assert_eq!(
            fill_value_attribute(DataType::Int16, &(-5i16).to_le_bytes()).unwrap(),
            json!(-5)
        );
    }

    #[test]
    fn texts_are_themselves_and_characters_are_base64() {
        assert_eq!(back_and_forth(DataType::String, "né".as_bytes()), json!("né"));
        assert_eq!(back_and_forth(DataType::String, b""), json!(""));
        assert_eq!(back_and_forth(DataType::Char, b"x"), json!("eA=="));
        assert_eq!(back_and_forth(DataType::Char, &[0]), json!("AA=="));
        assert_eq!(fill_value_from_json(DataType::Char, &json!("")).unwrap(), [0]);
        assert!(fill_value_from_json(DataType::Char, &json!("eHg=")).is_err());
        assert!(fill_value_from_json(DataType::String, &json!(0)).is_err());
        assert!(fill_value_to_json(DataType::String, &[0xff]).is_err());
        assert!(Scalar::from_bytes(DataType::Char, b"x").is_err());
    }

    #[test]
    fn values_of_another_type_are_refused() {
        for (data_type, value) in [
            (DataType::UInt8, json!(256)),
            (DataType::UInt8, json!(-1)),
            (DataType::Int32, json!(1.0)),
            (DataType::Int32, json!("NaN")),
            (DataType::Float32, json!("0x7fc0")),
            (DataType::Float32, json!("0x+fc00000")),
            (DataType::Float64, json!(null)),
        ] {
            assert!(fill_value_from_json(data_type, &value).is_err(), "{data_type} {value}");
        }
        assert!(fill_value_to_json(DataType::Int32, &[1, 2]).is_err());
    }

    #[test]
    fn scalars_convert_only_when_nothing_is_lost() {
        assert_eq!(Scalar::Double(-9999.0).to_bytes(DataType::Int16), Some(vec![0xf1, 0xd8]));
        assert_eq!(Scalar::Double(0.5).to_bytes(DataType::Int16), None);
        assert_eq!(Scalar::Double(-0.0).to_bytes(DataType::Int16), Some(vec![0, 0]));
        assert_eq!(Scalar::Double(f64::NAN).to_bytes(DataType::Int16), None);
        assert_eq!(Scalar::Double(0.1).to_bytes(DataType::Float16), None);
        assert_eq!(Scalar::Double(65504.0).to_bytes(DataType::Float16), Some(vec![0xff, 0x7b]));
        assert_eq!(Scalar::Double(65536.0).to_bytes(DataType::Float16), None);
        assert_eq!(Scalar::Double(1e20).to_bytes(DataType::Float32), None);
        assert_eq!(Scalar::Integer((1 << 53) + 1).to_bytes(DataType::Float64), None);
        assert_eq!(
            Scalar::Integer(7).to_bytes(DataType::Float32),
            Some(7f32.to_le_bytes().to_vec())
        );
    }
}
