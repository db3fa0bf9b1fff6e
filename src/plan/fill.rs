//! Which element an omitted chunk stands for.
//!
//! | | v3 `fill_value` | v3 attribute | v2 `fill_value` |
//! |---|---|---|---|
//! | `_FillValue` in the file | the same | xarray's encoding | the same |
//! | float without | NaN | none | null |
//! | integer, character, string without | 0, NUL, empty | none | null |
//!
//! Where the attribute of texts goes is in [`super::text`].
//!
//! In v2 xarray takes `fill_value` for `_FillValue`, so that any number there would mask values.

use serde_json::Value;

use super::refusal::Refusal;
use super::text;
use crate::netcdf::{AttributeValue, Variable};
use crate::zarr::{DataType, Kind, Scalar, ZarrFormat, fill_value_attribute, nan_bytes};

/// What the documents of an array say about missing values.
pub(super) struct Fill {
    /// `fill_value`, one element.
    pub fill_value: Option<Vec<u8>>,
    /// The attribute `_FillValue`.
    pub attribute: Option<Value>,
}

/// Decides for the variable at `path`.
pub(super) fn fill(
    path: &str,
    variable: &Variable,
    data_type: DataType,
    format: ZarrFormat,
) -> Result<Fill, Refusal> {
    let attribute = variable.attributes.iter().find(|attribute| attribute.name == "_FillValue");
    let Some(attribute) = attribute else {
        return Ok(Fill { fill_value: without_attribute(data_type, format), attribute: None });
    };
    if data_type.kind() == Kind::Text {
        let fill_value = text::fill_value(path, attribute, data_type)?;
        return Ok(Fill { fill_value: Some(fill_value), attribute: None });
    }
    let refusal = || Refusal::FillValue {
        variable: path.to_owned(),
        found: super::attributes::attribute_to_json(&attribute.value)
            .map_or_else(str::to_owned, |value| value.to_string()),
        data_type,
    };
    let scalar = scalar(&attribute.value).ok_or_else(refusal)?;
    let not_a_number = match scalar {
        Scalar::Single(value) => value.is_nan(),
        Scalar::Double(value) => value.is_nan(),
        Scalar::Integer(_) => false,
    };
    // All NaN are the same missing value to readers, and documents know only one by name.
    let bytes = if not_a_number { nan_bytes(data_type) } else { scalar.to_bytes(data_type) };
    let bytes = bytes.ok_or_else(refusal)?;
    let attribute = match format {
        ZarrFormat::V2 => None,
        // The bytes are of this type, so that this cannot fail.
        ZarrFormat::V3 => fill_value_attribute(data_type, &bytes).ok(),
    };
    Ok(Fill { fill_value: Some(bytes), attribute })
}

fn without_attribute(data_type: DataType, format: ZarrFormat) -> Option<Vec<u8>> {
    match format {
        ZarrFormat::V2 => None,
        ZarrFormat::V3 => Some(nan_bytes(data_type).unwrap_or_else(|| data_type.zero())),
    }
}

/// The one number of an attribute.
fn scalar(value: &AttributeValue) -> Option<Scalar> {
    fn one<T: Copy>(values: &[T]) -> Option<T> {
        if let [value] = values { Some(*value) } else { None }
    }
    fn integer<T: Copy + Into<i128>>(values: &[T]) -> Option<Scalar> {
        one(values).map(|value| Scalar::Integer(value.into()))
    }
    match value {
        AttributeValue::I8(values) => integer(values),
        AttributeValue::U8(values) => integer(values),
        AttributeValue::I16(values) => integer(values),
        AttributeValue::U16(values) => integer(values),
        AttributeValue::I32(values) => integer(values),
        AttributeValue::U32(values) => integer(values),
        AttributeValue::I64(values) => integer(values),
        AttributeValue::U64(values) => integer(values),
        AttributeValue::F16(values) => one(values).map(|value| Scalar::Single(value.into())),
        AttributeValue::F32(values) => one(values).map(Scalar::Single),
        AttributeValue::F64(values) => one(values).map(Scalar::Double),
        AttributeValue::Text(_)
        | AttributeValue::Texts(_)
        | AttributeValue::Nested(_)
        | AttributeValue::Unsupported(_) => None,
    }
}
