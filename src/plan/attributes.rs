//! Attributes of NetCDF as JSON.
//!
//! | NetCDF | JSON |
//! |---|---|
//! | text; one text in a list | string |
//! | several texts | list of strings |
//! | one number | number; float32 as the double it is exactly |
//! | several numbers, none | list |
//! | numbers in several dimensions | lists of lists; along a first dimension of length one its only part, as h5netcdf has it |
//! | NaN | `null` |
//! | infinities | `"Infinity"`, `"-Infinity"` |
//!
//! A text that reads like an infinity stays as it is, and [`TEXT_MARK`] lists its attribute.

use serde_json::{Value, json};

use super::refusal::Refusal;
use crate::netcdf::{Attribute, AttributeValue};
use crate::zarr::{Attributes, float_to_json};

/// An attribute that lists the attributes whose `"Infinity"` or `"-Infinity"` is a text. It is
/// there only when there are such attributes.
pub const TEXT_MARK: &str = "_zarrmount_text_attributes";

/// Bookkeeping of the netCDF-4, classic and Zarr layers: it would be wrong in the copy.
const NEVER_COPIED: [&str; 9] = [
    "_NCProperties",
    "_Netcdf4Dimid",
    "_Netcdf4Coordinates",
    "_nc3_strict",
    "CLASS",
    "NAME",
    "REFERENCE_LIST",
    "DIMENSION_LIST",
    "_ARRAY_DIMENSIONS",
];

/// The attributes of the node at `node` in their order. What cannot be stored goes to `refuse`,
/// which decides whether that is the end. `_FillValue` is converted by `fill_value`, which leaves
/// it out by answering `None`.
pub(super) fn convert(
    node: &str,
    attributes: &[Attribute],
    fill_value: Option<&Value>,
    mut refuse: impl FnMut(Refusal) -> Result<(), Refusal>,
) -> Result<Attributes, Refusal> {
    let mut converted = Attributes::new();
    let mut texts = Vec::new();
    for Attribute { name, value } in attributes {
        if NEVER_COPIED.contains(&name.as_str()) || name == TEXT_MARK {
            continue;
        }
        let value = match (name.as_str(), attribute_to_json(value)) {
            ("_FillValue", _) if fill_value.is_some() => fill_value.cloned().unwrap_or_default(),
            (_, Ok(json)) => {
                if reads_like_an_infinity(value) {
                    texts.push(name);
                }
                json
            }
            (_, Err(reason)) => {
                refuse(Refusal::UnsupportedAttribute {
                    node: node.to_owned(),
                    attribute: name.clone(),
                    reason: reason.to_owned(),
                })?;
                continue;
            }
        };
        if converted.insert(name.clone(), value).is_some() {
            return Err(Refusal::DuplicateName { path: format!("attribute `{name}` of {node}") });
        }
    }
    if !texts.is_empty() {
        converted.insert(TEXT_MARK.to_owned(), json!(texts));
    }
    Ok(converted)
}

/// One value as JSON; the error says why it has none.
pub fn attribute_to_json(value: &AttributeValue) -> Result<Value, &str> {
    Ok(match value {
        AttributeValue::Text(text) => json!(text),
        AttributeValue::Texts(texts) => vector(texts, |text| json!(text)),
        AttributeValue::I8(values) => vector(values, |value| json!(value)),
        AttributeValue::U8(values) => vector(values, |value| json!(value)),
        AttributeValue::I16(values) => vector(values, |value| json!(value)),
        AttributeValue::U16(values) => vector(values, |value| json!(value)),
        AttributeValue::I32(values) => vector(values, |value| json!(value)),
        AttributeValue::U32(values) => vector(values, |value| json!(value)),
        AttributeValue::I64(values) => vector(values, |value| json!(value)),
        AttributeValue::U64(values) => vector(values, |value| json!(value)),
        AttributeValue::F16(values) => vector(values, |value| float(f64::from(*value))),
        AttributeValue::F32(values) => vector(values, |value| float(f64::from(*value))),
        AttributeValue::F64(values) => vector(values, |value| float(*value)),
        AttributeValue::Nested(parts) => match parts.as_slice() {
            [only] => list(only)?,
            several => several.iter().map(list).collect::<Result<_, _>>()?,
        },
        AttributeValue::Unsupported(reason) => return Err(reason),
    })
}

/// A part of a nested value: a list also of one number.
fn list(part: &AttributeValue) -> Result<Value, &str> {
    if let AttributeValue::Nested(parts) = part {
        return parts.iter().map(list).collect();
    }
    attribute_to_json(part).map(|value| if value.is_array() { value } else { json!([value]) })
}

fn vector<T>(values: &[T], to_json: impl Fn(&T) -> Value) -> Value {
    match values {
        [one] => to_json(one),
        several => several.iter().map(to_json).collect(),
    }
}

fn float(value: f64) -> Value {
    if value.is_nan() { Value::Null } else { float_to_json(value) }
}

fn reads_like_an_infinity(value: &AttributeValue) -> bool {
    let infinity = |text: &String| matches!(text.as_str(), "Infinity" | "-Infinity");
    match value {
        AttributeValue::Text(text) => infinity(text),
        AttributeValue::Texts(texts) => texts.iter().any(infinity),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(name: &str, value: AttributeValue) -> Attribute {
        Attribute { name: name.into(), value }
    }

    #[test]
    fn values_become_what_xarray_shows_of_netcdf() {
        use AttributeValue as V;
        for (value, expected) in [
            (V::Text(String::new()), json!("")),
            (V::Text("°C".into()), json!("°C")),
            (V::Texts(vec!["a".into()]), json!("a")),
            (V::Texts(vec!["a".into(), "b".into()]), json!(["a", "b"])),
            (V::I32(vec![]), json!([])),
            (V::I8(vec![-1]), json!(-1)),
            (V::I64(vec![i64::MAX, i64::MIN]), json!([i64::MAX, i64::MIN])),
            (V::U64(vec![u64::MAX]), json!(u64::MAX)),
            (V::F32(vec![0.1]), json!(0.100_000_001_490_116_12)),
            (V::Nested(vec![V::I8(vec![1, 2]), V::I8(vec![3, 4])]), json!([[1, 2], [3, 4]])),
            (V::Nested(vec![V::I8(vec![1]), V::I8(vec![2])]), json!([[1], [2]])),
            (V::Nested(vec![V::I8(vec![5, 6])]), json!([5, 6])),
            (V::Nested(vec![V::Nested(vec![V::I8(vec![5])])]), json!([[5]])),
            (V::F64(vec![1.0]), json!(1.0)),
            (V::F64(vec![f64::NAN]), json!(null)),
            (
                V::F32(vec![1.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]),
                json!([1.5, "Infinity", "-Infinity", null]),
            ),
        ] {
            assert_eq!(attribute_to_json(&value).unwrap(), expected, "{value:?}");
        }
    }

    #[test]
    fn attributes_keep_their_order_without_bookkeeping() {
        let attributes = [
            attribute("units", AttributeValue::Text("K".into())),
            attribute("_Netcdf4Dimid", AttributeValue::I32(vec![0])),
            attribute("_ARRAY_DIMENSIONS", AttributeValue::Text("x".into())),
            attribute("_FillValue", AttributeValue::F32(vec![1e20])),
            attribute("axis", AttributeValue::Text("X".into())),
        ];
        let fill = json!("AAAAgB2vFUQ=");
        let converted = convert("/v", &attributes, Some(&fill), Err).unwrap();
        let pairs: Vec<_> = converted.iter().map(|(name, value)| (name.as_str(), value)).collect();
        assert_eq!(pairs, [("units", &json!("K")), ("_FillValue", &fill), ("axis", &json!("X"))]);
    }

    #[test]
    fn a_text_that_reads_like_an_infinity_is_marked() {
        let attributes = [
            attribute("a", AttributeValue::Text("-Infinity".into())),
            attribute("b", AttributeValue::F64(vec![f64::INFINITY])),
        ];
        let converted = convert("/", &attributes, None, Err).unwrap();
        assert_eq!(
            Value::Object(converted),
            json!({"a": "-Infinity", "b": "Infinity", TEXT_MARK: ["a"]})
        );
    }

    #[test]
    fn an_attribute_without_counterpart_is_refused_by_name_or_left_out() {
        let attributes = [attribute("e", AttributeValue::Unsupported("an enumeration".into()))];
        let refusal = convert("/g/v", &attributes, None, Err).unwrap_err();
        assert_eq!(refusal.to_string(), "attribute `e` of /g/v: an enumeration");
        let mut warnings = Vec::new();
        let rest = convert("/g/v", &attributes, None, |refusal| {
            warnings.push(refusal);
            Ok(())
        });
        assert!(rest.unwrap().is_empty());
        assert_eq!(warnings, [refusal]);
    }

    #[test]
    fn the_same_attribute_twice_is_refused() {
        let twice = [
            attribute("a", AttributeValue::I8(vec![1])),
            attribute("a", AttributeValue::I8(vec![2])),
        ];
        assert!(matches!(convert("/", &twice, None, Err), Err(Refusal::DuplicateName { .. })));
    }
}
