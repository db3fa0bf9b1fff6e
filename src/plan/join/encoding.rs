//! What the metadata of arrays says about their elements, and how elements of one become elements
//! of another.

use crate::plan::{
    AxisError, AxisKey, Conversion, ConversionRefusal, Decoding, Unpacking, axis_keys,
    common_encoding,
};
use crate::zarr::{ArrayMetadata, CodecSpec, DataType, Kind, ZarrFormat};

/// What the elements of an array mean.
pub(super) fn decoding(metadata: &ArrayMetadata) -> Decoding {
    let fill_value = metadata.fill_value.as_deref();
    Decoding::of(metadata.data_type, &metadata.attributes, fill_value, metadata.format)
}

/// The values of a coordinate, as they compare. Strings stand behind their lengths.
pub fn coordinate_keys(metadata: &ArrayMetadata, raw: &[u8]) -> Result<Vec<AxisKey>, AxisError> {
    axis_keys(&decoding(metadata), raw)
}

/// How elements that mean what `from` says become elements of `to`.
pub(super) fn conversion(from: &Decoding, to: &Decoding) -> Result<Conversion, ConversionRefusal> {
    if from.is_packed() && !to.is_packed() {
        return Conversion::unpacking(from, Unpacking::of(from)?, to);
    }
    Conversion::between(from, to)
}

/// The array as the values that its packed elements mean; `None` if they are not packed.
pub(super) fn unpacked(
    metadata: &ArrayMetadata,
    codec: CodecSpec,
) -> Result<Option<ArrayMetadata>, ConversionRefusal> {
    let packed = decoding(metadata);
    if !packed.is_packed() {
        return Ok(None);
    }
    let unpacked = Unpacking::of(&packed)?.unpacked(&metadata.attributes, metadata.format)?;
    Ok(Some(ArrayMetadata {
        data_type: unpacked.data_type,
        codecs: codec.codecs(unpacked.data_type),
        attributes: unpacked.attributes,
        fill_value: Some(unpacked.fill_value),
        ..metadata.clone()
    }))
}

/// The reference in an encoding that holds the values of all. `values` are raw elements of the
/// reference and of the others, where they are known.
pub(super) fn common(
    reference: &ArrayMetadata,
    others: &[&ArrayMetadata],
    values: &[Option<&[u8]>],
    codec: CodecSpec,
) -> Result<ArrayMetadata, ConversionRefusal> {
    let of_reference = decoding(reference);
    let decodings: Vec<Decoding> = others.iter().map(|other| decoding(other)).collect();
    if decodings.iter().all(|decoding| *decoding == of_reference) {
        return Ok(reference.clone());
    }
    let all: Vec<&Decoding> = std::iter::once(&of_reference).chain(&decodings).collect();
    let Some(target) = common_encoding(&all, values)? else { return Ok(reference.clone()) };
    let mut metadata = reference.clone();
    for name in target.removed {
        metadata.attributes.shift_remove(name);
    }
    for (name, value) in target.set {
        metadata.attributes.insert(name, value);
    }
    if metadata.data_type != target.data_type {
        metadata.codecs = codec.codecs(target.data_type);
    }
    metadata.data_type = target.data_type;
    metadata.fill_value = target.fill_value;
    Ok(metadata)
}

/// Whether gaps of an array can be told from values.
pub(super) fn can_be_missing(metadata: &ArrayMetadata) -> bool {
    let has_fill = metadata.fill_value.is_some();
    match (metadata.data_type.kind(), metadata.format) {
        // A float without `_FillValue` is filled with NaN.
        (Kind::Float | Kind::Text, _) | (_, ZarrFormat::V2) => has_fill,
        (_, ZarrFormat::V3) => has_fill && metadata.attributes.contains_key("_FillValue"),
    }
}

/// A value of a coordinate, for people.
pub fn describe(key: &AxisKey, metadata: &ArrayMetadata) -> String {
    let decoding = decoding(metadata);
    match (key, decoding.time()) {
        (AxisKey::Integer(instant), Some(units)) => units.date_text(*instant),
        (AxisKey::Integer(value), None) => value.to_string(),
        (AxisKey::Float(value), _) => value.to_string(),
        (AxisKey::Text(text), _) => format!("`{text}`"),
    }
}

/// Whether two arrays differ in nothing but attributes that do not say how values are decoded.
pub(super) fn is_read_alike(before: &ArrayMetadata, array: &ArrayMetadata) -> bool {
    let bare = |metadata: &ArrayMetadata| {
        let mut metadata = metadata.clone();
        metadata.attributes.clear();
        metadata
    };
    decoding(before) == decoding(array)
        && before.attributes.get("bounds") == array.attributes.get("bounds")
        && bare(before) == bare(array)
}

/// Whether an array holds texts of any length, which are compared as such.
pub(super) fn is_text(metadata: &ArrayMetadata) -> bool {
    metadata.data_type == DataType::String
}
