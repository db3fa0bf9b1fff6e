//! What is special about variables of characters and strings.
//!
//! **Characters** keep the last dimension, which readers stack to one text, whole: xarray cannot
//! stack characters of several dask chunks.
//!
//! **`_FillValue`.** xarray cannot open a v3 array of texts that has this attribute. `missing_value`
//! means the same to it and works, so that the value stands there; of strings both mask the same
//! elements. The characters of `missing_value` are never equal to bytes: nothing is masked then.

use super::grid;
use super::refusal::Refusal;
use crate::netcdf::{Attribute, AttributeValue, Variable};
use crate::zarr::{DataType, Kind, ZarrFormat};

/// Bytes that a text is taken to have when chunks are laid out; its real length is known too late.
const TEXT_BYTES_EXPECTED: u64 = 64;

/// Bytes of an element when chunks are laid out.
pub(super) fn element_bytes(data_type: DataType) -> u64 {
    match data_type {
        DataType::String => TEXT_BYTES_EXPECTED,
        fixed => fixed.size() as u64,
    }
}

/// Makes the last dimension of characters whole, unless chunks would be too large then.
pub(super) fn keep_whole(shape: &[u64], data_type: DataType, chunk_shape: &mut [u64]) {
    if data_type != DataType::Char {
        return;
    }
    let (Some(length), Some((last, outer))) = (shape.last(), chunk_shape.split_last_mut()) else {
        return;
    };
    let bytes = outer.iter().fold(*length, |bytes, length| bytes.saturating_mul(*length));
    if bytes <= grid::SOURCE_BYTES_MAX {
        *last = (*last).max(*length);
    }
}

/// The `_FillValue` of a text variable as an element.
pub(super) fn fill_value(
    path: &str,
    attribute: &Attribute,
    data_type: DataType,
) -> Result<Vec<u8>, Refusal> {
    let bytes = match (&attribute.value, data_type) {
        (AttributeValue::Text(text), DataType::String) => Some(text.as_bytes().to_vec()),
        // A NUL is padding to the reader of attributes.
        (AttributeValue::Text(text), _) if text.is_empty() => Some(vec![0]),
        (AttributeValue::Text(text), _) => Some(text.as_bytes().to_vec()).filter(|b| b.len() == 1),
        _ => None,
    };
    bytes.ok_or_else(|| Refusal::FillValue {
        variable: path.to_owned(),
        found: super::attributes::attribute_to_json(&attribute.value)
            .map_or_else(str::to_owned, |value| value.to_string()),
        data_type,
    })
}

/// The attributes of a variable with `_FillValue` where readers take it.
pub(super) fn attributes(
    path: &str,
    variable: &Variable,
    data_type: DataType,
    format: ZarrFormat,
) -> Result<Vec<Attribute>, Refusal> {
    let mut attributes = variable.attributes.clone();
    if data_type.kind() != Kind::Text || format == ZarrFormat::V2 {
        return Ok(attributes);
    }
    let Some(fill) = attributes.iter().position(|attribute| attribute.name == "_FillValue") else {
        return Ok(attributes);
    };
    let Attribute { value, .. } = attributes.remove(fill);
    match attributes.iter_mut().find(|attribute| attribute.name == "missing_value") {
        Some(missing) => {
            let texts = texts(&missing.value).zip(texts(&value));
            let (mut texts, fill) = texts.ok_or_else(|| Refusal::UnsupportedAttribute {
                node: path.to_owned(),
                attribute: "missing_value".to_owned(),
                reason: "it is not a text, and `_FillValue` of a text has to stand there"
                    .to_owned(),
            })?;
            texts.retain(|text| !fill.contains(text));
            texts.extend(fill);
            missing.value = AttributeValue::Texts(texts);
        }
        None => attributes.insert(fill, Attribute { name: "missing_value".to_owned(), value }),
    }
    Ok(attributes)
}

fn texts(value: &AttributeValue) -> Option<Vec<String>> {
    match value {
        AttributeValue::Text(text) => Some(vec![text.clone()]),
        AttributeValue::Texts(texts) => Some(texts.clone()),
        _ => None,
    }
}
