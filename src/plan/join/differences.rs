//! Whether the values of two files that must be the same are the same.

use crate::plan::AxisKey;
use crate::zarr::{DataType, Kind, Scalar};

/// Floats are taken for the same when they differ by no more than this part of the larger one.
const RELATIVE_TOLERANCE: f64 = 1e-6;

/// How two lists of values differ.
#[derive(Debug, Clone, PartialEq)]
pub enum Difference {
    /// Not at all, bit by bit.
    None,
    /// By less than the tolerance.
    Tolerable(f64),
    /// By more; in words.
    Different(String),
}

/// Compares little-endian elements. Floats that are not a number are equal to each other.
pub fn compare(data_type: DataType, here: &[u8], there: &[u8]) -> Difference {
    if here == there {
        return Difference::None;
    }
    if here.len() != there.len() {
        return Difference::Different("another number of elements".to_owned());
    }
    let size = data_type.size();
    let mut largest: Option<(f64, usize)> = None;
    let mut tolerable: f64 = 0.0;
    let mut count = 0_usize;
    for (at, (a, b)) in here.chunks(size).zip(there.chunks(size)).enumerate() {
        if a == b {
            continue;
        }
        let (Some(x), Some(y)) = (number(data_type, a), number(data_type, b)) else {
            return Difference::Different(format!("element {at} is another text"));
        };
        if x.is_nan() && y.is_nan() {
            continue;
        }
        let distance = (x - y).abs();
        let is_float = data_type.kind() == Kind::Float;
        if is_float && distance <= RELATIVE_TOLERANCE * x.abs().max(y.abs()) {
            tolerable = tolerable.max(distance);
            continue;
        }
        count += 1;
        let distance = if distance.is_nan() { f64::INFINITY } else { distance };
        if largest.is_none_or(|(most, _)| distance > most) {
            largest = Some((distance, at));
        }
    }
    match largest {
        Some((distance, at)) if distance.is_finite() => Difference::Different(format!(
            "{count} elements, the largest difference is {distance} at element {at}"
        )),
        Some((_, at)) => Difference::Different(format!(
            "{count} elements, element {at} is missing in one of them"
        )),
        None => Difference::Tolerable(tolerable),
    }
}

/// Compares coordinates of different types by what they mean. Instants and texts must be the same.
pub(super) fn compare_keys(here: &[AxisKey], there: &[AxisKey]) -> Difference {
    if here == there {
        return Difference::None;
    }
    if here.len() != there.len() {
        return Difference::Different("another number of elements".to_owned());
    }
    let mut tolerable: f64 = 0.0;
    for (at, (a, b)) in here.iter().zip(there).enumerate() {
        let distance = match (a, b) {
            _ if a == b => 0.0,
            (AxisKey::Float(x), AxisKey::Float(y)) => {
                let distance = (x - y).abs();
                let is_near = distance <= RELATIVE_TOLERANCE * x.abs().max(y.abs());
                if is_near { distance } else { f64::INFINITY }
            }
            _ => f64::INFINITY,
        };
        if distance.is_infinite() {
            return Difference::Different(format!("element {at} is another"));
        }
        tolerable = tolerable.max(distance);
    }
    Difference::Tolerable(tolerable)
}

#[allow(clippy::cast_precision_loss, reason = "only the size of a difference is told")]
fn number(data_type: DataType, element: &[u8]) -> Option<f64> {
    match Scalar::from_bytes(data_type, element).ok()? {
        Scalar::Integer(value) => Some(value as f64),
        Scalar::Single(value) => Some(f64::from(value)),
        Scalar::Double(value) => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn floats_may_differ_by_rounding_and_by_nothing_else() {
        let there = bytes(&[10.0, 20.0, f64::NAN]);
        let float = DataType::Float64;
        assert_eq!(compare(float, &bytes(&[10.0, 20.0, f64::NAN]), &there), Difference::None);
        let near = compare(float, &bytes(&[10.000_000_1, 20.0, -f64::NAN]), &there);
        assert!(matches!(near, Difference::Tolerable(distance) if distance > 9e-8));
        let Difference::Different(words) = compare(float, &bytes(&[20.0, 10.0, 0.0]), &there)
        else {
            panic!("taken for the same");
        };
        assert_eq!(words, "3 elements, element 2 is missing in one of them");
        let Difference::Different(words) = compare(float, &bytes(&[20.0, 10.0, f64::NAN]), &there)
        else {
            panic!("taken for the same");
        };
        assert_eq!(words, "2 elements, the largest difference is 10 at element 0");
        let integers = compare(DataType::Int8, &[1, 2], &[1, 3]);
        assert!(matches!(integers, Difference::Different(_)));
    }
}
