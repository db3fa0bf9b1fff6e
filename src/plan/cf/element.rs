//! The numeric element types of Rust behind [`DataType`], so that loops over elements are compiled
//! for each type. A value goes over into a type exactly or not at all.

use half::f16;

use crate::zarr::{DataType, Kind, Scalar};

/// Calls a function that is generic over [`Element`] for a data type; texts give the last argument.
macro_rules! with_element {
    ($data_type:expr, $function:ident ( $($argument:expr),* ), $otherwise:expr) => {
        match $data_type {
            DataType::Int8 => $function::<i8>($($argument),*),
            DataType::UInt8 => $function::<u8>($($argument),*),
            DataType::Int16 => $function::<i16>($($argument),*),
            DataType::UInt16 => $function::<u16>($($argument),*),
            DataType::Int32 => $function::<i32>($($argument),*),
            DataType::UInt32 => $function::<u32>($($argument),*),
            DataType::Int64 => $function::<i64>($($argument),*),
            DataType::UInt64 => $function::<u64>($($argument),*),
            DataType::Float16 => $function::<half::f16>($($argument),*),
            DataType::Float32 => $function::<f32>($($argument),*),
            DataType::Float64 => $function::<f64>($($argument),*),
            DataType::Char | DataType::String => $otherwise,
        }
    };
}
pub(super) use with_element;

/// One element of a numeric type.
pub(super) trait Element: Copy + PartialEq {
    /// Bytes of one element.
    const SIZE: usize;

    /// From little-endian bytes, [`Self::SIZE`] of them.
    fn read(bytes: &[u8]) -> Self;

    /// Puts the little-endian bytes, [`Self::SIZE`] of them.
    fn write(self, out: &mut [u8]);

    /// As a number of any type.
    fn scalar(self) -> Scalar;

    /// This number, if the type holds exactly it. NaN is not a number.
    fn exact(scalar: Scalar) -> Option<Self>;

    /// Whether it is another number that becomes the same float64. Readers that mask integers turn
    /// them into floats first, so that a number next to a missing one would be missing as well.
    fn is_mistaken_for(self, other: Self) -> bool;

    /// The missing value that the type itself has.
    fn nan() -> Option<Self>;

    /// Whether it is that one.
    fn is_nan(self) -> bool;
}

/// A float as an integer. Negative zero is none: its sign would be lost.
pub(super) fn whole(value: f64) -> Option<i128> {
    let is_whole = value.trunc().to_bits() == value.to_bits() && value.abs() < 2f64.powi(100);
    let loses_sign = value == 0.0 && value.is_sign_negative();
    #[allow(clippy::cast_possible_truncation, reason = "whole and within the bounds of i128")]
    (is_whole && !loses_sign).then_some(value as i128)
}

fn float(scalar: Scalar) -> Option<f64> {
    let value = match scalar {
        Scalar::Double(value) => value,
        Scalar::Single(value) => f64::from(value),
        Scalar::Integer(value) if value.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS => {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                reason = "small"
            )]
            let small = value as i64 as f64;
            small
        }
        Scalar::Integer(value) => {
            #[allow(clippy::cast_precision_loss, reason = "checked by converting back")]
            let float = value as f64;
            #[allow(clippy::cast_possible_truncation, reason = "it came from an i128")]
            let back = float as i128;
            if back != value {
                return None;
            }
            float
        }
    };
    (!value.is_nan()).then_some(value)
}

macro_rules! integer {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const SIZE: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default())
            }

            fn write(self, out: &mut [u8]) {
                if let Some(out) = out.first_chunk_mut() {
                    *out = self.to_le_bytes();
                }
            }

            fn scalar(self) -> Scalar {
                Scalar::Integer(self.into())
            }

            fn exact(scalar: Scalar) -> Option<Self> {
                let value = match scalar {
                    Scalar::Integer(value) => value,
                    Scalar::Single(value) => whole(value.into())?,
                    Scalar::Double(value) => whole(value)?,
                };
                Self::try_from(value).ok()
            }

            #[allow(clippy::cast_lossless, clippy::cast_precision_loss, reason = "it asks for that")]
            #[allow(clippy::float_cmp, reason = "rounded alike")]
            fn is_mistaken_for(self, other: Self) -> bool {
                Self::SIZE == 8 && self != other && self as f64 == other as f64
            }

            fn nan() -> Option<Self> {
                None
            }

            fn is_nan(self) -> bool {
                false
            }
        }
    )*};
}
integer!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! float {
    ($type:ty, $scalar:expr, $narrow:expr) => {
        impl Element for $type {
            const SIZE: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default())
            }

            fn write(self, out: &mut [u8]) {
                if let Some(out) = out.first_chunk_mut() {
                    *out = self.to_le_bytes();
                }
            }

            fn scalar(self) -> Scalar {
                $scalar(self)
            }

            fn exact(scalar: Scalar) -> Option<Self> {
                float(scalar).and_then($narrow)
            }

            fn is_mistaken_for(self, _other: Self) -> bool {
                false
            }

            fn nan() -> Option<Self> {
                Some(Self::NAN)
            }

            fn is_nan(self) -> bool {
                self.is_nan()
            }
        }
    };
}
float!(f64, Scalar::Double, Some);
float!(f32, Scalar::Single, single);
float!(f16, |value: f16| Scalar::Single(value.to_f32()), half);

fn single(value: f64) -> Option<f32> {
    #[allow(clippy::cast_possible_truncation, reason = "checked by converting back")]
    let single = value as f32;
    (f64::from(single).to_bits() == value.to_bits()).then_some(single)
}

fn half(value: f64) -> Option<f16> {
    let half = f16::from_f64(value);
    (half.to_f64().to_bits() == value.to_bits()).then_some(half)
}

/// Whether a type holds this number exactly.
pub(super) fn holds(data_type: DataType, scalar: Scalar) -> bool {
    fn in_type<T: Element>(scalar: Scalar) -> bool {
        T::exact(scalar).is_some()
    }
    with_element!(data_type, in_type(scalar), false)
}

/// The smallest and the largest number of an integer type.
pub(super) fn integer_range(data_type: DataType) -> Option<(i128, i128)> {
    let bits = 8 * u32::try_from(data_type.size()).ok()?;
    match data_type.kind() {
        Kind::Signed => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        Kind::Unsigned => Some((0, (1 << bits) - 1)),
        Kind::Float | Kind::Text => None,
    }
}

/// Whether a type holds every number of another.
pub(super) fn holds_all(target: DataType, source: DataType) -> bool {
    match integer_range(source) {
        _ if source == target => true,
        Some((least, most)) => {
            // The largest is all ones: a float that holds it holds all that are smaller.
            [least, most].into_iter().all(|value| holds(target, Scalar::Integer(value)))
        }
        None => {
            let floats = source.kind() == Kind::Float && target.kind() == Kind::Float;
            floats && source.size() < target.size()
        }
    }
}
