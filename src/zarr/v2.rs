//! Metadata documents of format 2: `.zarray`, `.zgroup`, `.zattrs`.
//!
//! <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>. Dimension names are the attribute
//! `_ARRAY_DIMENSIONS`, and xarray takes `fill_value` for `_FillValue`. Chunks are C-ordered and
//! little-endian; anything else is unsupported, never guessed.

use serde_json::{Map, Value, json};

use super::chunk_key::ChunkKeyEncoding;
use super::codec_spec::{serializer, type_size};
use super::data_type::DataType;
use super::error::DocumentError;
use super::fill_value::{fill_value_from_json, fill_value_to_json};
use super::format::ZarrFormat;
use super::metadata::{ArrayMetadata, Attributes, CodecMetadata, GroupMetadata};
use super::v3::{field, invalid, lengths};

/// The attribute that holds dimension names.
pub(super) const ARRAY_DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// Blosc's shuffles in the order of their v2 numbers.
const SHUFFLES: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];

/// `.zarray`.
pub(super) fn array_to_json(array: &ArrayMetadata) -> Result<Value, DocumentError> {
    let (ChunkKeyEncoding::V2 { separator } | ChunkKeyEncoding::Default { separator }) =
        array.chunk_key_encoding;
    let fill = match &array.fill_value {
        None => Value::Null,
        Some(bytes) => fill_value_to_json(array.data_type, bytes)?,
    };
    Ok(json!({
        "shape": array.shape,
        "chunks": array.chunk_shape,
        "dtype": array.data_type.name_v2(),
        "fill_value": fill,
        "order": "C",
        "filters": filters_to_json(array.data_type),
        "dimension_separator": separator.to_string(),
        "compressor": compressor_to_json(&array.codecs)?,
        "zarr_format": 2,
    }))
}

/// `.zgroup`.
pub(super) fn group_to_json() -> Value {
    json!({"zarr_format": 2})
}

/// `.zattrs` of an array.
pub(super) fn array_attributes_to_json(array: &ArrayMetadata) -> Value {
    let mut attributes = array.attributes.clone();
    if let Some(names) = &array.dimension_names {
        attributes.insert(ARRAY_DIMENSIONS.into(), json!(names));
    }
    Value::Object(attributes)
}

/// Reads `.zarray` with its `.zattrs`, where there is one.
pub(super) fn array_from_json(
    document: &Value,
    attributes: Option<&Value>,
) -> Result<ArrayMetadata, DocumentError> {
    let fields = check_format(document, ".zarray")?;
    let shape = lengths(field(fields, "shape")?, "shape")?;
    let chunk_shape = lengths(field(fields, "chunks")?, "chunks")?;
    if chunk_shape.len() != shape.len() || chunk_shape.contains(&0) {
        return Err(invalid("chunks", "one positive number for each dimension"));
    }
    let dtype = field(fields, "dtype")?;
    let data_type = dtype
        .as_str()
        .and_then(DataType::from_name_v2)
        .ok_or_else(|| DocumentError::Unsupported(format!("the data type {dtype}")))?;
    if field(fields, "order")? != "C" && shape.len() > 1 {
        return Err(DocumentError::Unsupported("the memory order of Fortran".into()));
    }
    let filters = fields.get("filters").unwrap_or(&Value::Null);
    let none = filters.is_null() || *filters == json!([]);
    if *filters != filters_to_json(data_type) && !(none && data_type != DataType::String) {
        return Err(DocumentError::Unsupported(format!("the filters {filters}")));
    }
    let mut codecs = vec![serializer(data_type)];
    codecs.extend(compressor_from_json(field(fields, "compressor")?, data_type)?);
    let mut attributes = attributes_from_json(attributes)?;
    let dimension_names = take_dimension_names(&mut attributes, shape.len())?;
    Ok(ArrayMetadata {
        format: ZarrFormat::V2,
        shape,
        chunk_shape,
        data_type,
        fill_value: match field(fields, "fill_value")? {
            Value::Null => None,
            value => Some(fill_value_from_json(data_type, value)?),
        },
        codecs,
        chunk_key_encoding: ChunkKeyEncoding::V2 { separator: separator(fields)? },
        dimension_names,
        attributes,
        extra_fields: Map::new(),
    })
}

/// Reads `.zgroup` with its `.zattrs`, where there is one.
pub(super) fn group_from_json(
    document: &Value,
    attributes: Option<&Value>,
) -> Result<GroupMetadata, DocumentError> {
    check_format(document, ".zgroup")?;
    Ok(GroupMetadata { attributes: attributes_from_json(attributes)?, extra_fields: Map::new() })
}

/// What turns objects into bytes; nothing where elements are bytes.
fn filters_to_json(data_type: DataType) -> Value {
    if data_type == DataType::String { json!([{"id": "vlen-utf8"}]) } else { Value::Null }
}

fn check_format<'a>(
    document: &'a Value,
    name: &'static str,
) -> Result<&'a Map<String, Value>, DocumentError> {
    let fields = document.as_object().ok_or(invalid(name, "an object"))?;
    if fields.get("zarr_format") == Some(&json!(2)) {
        Ok(fields)
    } else {
        Err(invalid("zarr_format", "2"))
    }
}

fn attributes_from_json(document: Option<&Value>) -> Result<Attributes, DocumentError> {
    match document {
        None => Ok(Attributes::new()),
        Some(Value::Object(attributes)) => Ok(attributes.clone()),
        Some(_) => Err(invalid(".zattrs", "an object")),
    }
}

fn take_dimension_names(
    attributes: &mut Attributes,
    dimensions: usize,
) -> Result<Option<Vec<Option<String>>>, DocumentError> {
    let error = || invalid(ARRAY_DIMENSIONS, "a text for each dimension");
    // `shift_remove` keeps the order of the others.
    let Some(value) = attributes.shift_remove(ARRAY_DIMENSIONS) else { return Ok(None) };
    let list = value.as_array().filter(|list| list.len() == dimensions).ok_or_else(error)?;
    let names = list.iter().map(|name| name.as_str().map(|name| Some(name.to_owned())));
    names.collect::<Option<_>>().map(Some).ok_or_else(error)
}

fn separator(fields: &Map<String, Value>) -> Result<char, DocumentError> {
    match fields.get("dimension_separator").map(Value::as_str) {
        None | Some(Some(".")) => Ok('.'),
        Some(Some("/")) => Ok('/'),
        Some(_) => Err(invalid("dimension_separator", "`/` or `.`")),
    }
}

/// v3's codecs but the first, which makes bytes of elements, as the one compressor of v2.
fn compressor_to_json(codecs: &[CodecMetadata]) -> Result<Value, DocumentError> {
    let codec = match codecs {
        [_] => return Ok(Value::Null),
        [_, codec] => codec,
        _ => return Err(DocumentError::Unsupported("a chain of compressors in v2".into())),
    };
    let mut compressor = Map::new();
    let (id, blosc) = match codec.name.as_str() {
        "numcodecs.zlib" => ("zlib", false),
        "blosc" => ("blosc", true),
        name @ ("zstd" | "gzip") => (name, false),
        name => return Err(DocumentError::Unsupported(format!("the codec `{name}` in v2"))),
    };
    compressor.insert("id".into(), json!(id));
    for (key, value) in &codec.configuration {
        match key.as_str() {
            // Blosc takes it from the data type in v2.
            "typesize" if blosc => {}
            // The default, which TensorStore does not know.
            "checksum" if value == false => {}
            "shuffle" if blosc => {
                let number = SHUFFLES.iter().position(|name| value == name);
                compressor.insert(key.clone(), json!(number));
            }
            _ => {
                compressor.insert(key.clone(), value.clone());
            }
        }
    }
    Ok(Value::Object(compressor))
}

fn compressor_from_json(
    value: &Value,
    data_type: DataType,
) -> Result<Option<CodecMetadata>, DocumentError> {
    if value.is_null() {
        return Ok(None);
    }
    let error = || invalid("compressor", "an object with an `id`");
    let mut configuration = value.as_object().ok_or_else(error)?.clone();
    let id = configuration.shift_remove("id").ok_or_else(error)?;
    let name = match id.as_str().ok_or_else(error)? {
        "zlib" => "numcodecs.zlib",
        "blosc" => {
            // −1 lets Blosc choose: bits for single bytes, bytes for the others.
            let number = match configuration.get("shuffle").and_then(Value::as_i64) {
                Some(-1) if type_size(data_type) == 1 => 2,
                Some(-1) | None => 1,
                Some(number) => number,
            };
            let shuffle = usize::try_from(number).ok().and_then(|number| SHUFFLES.get(number));
            let shuffle = shuffle.ok_or(invalid("shuffle", "0, 1, 2 or -1"))?;
            configuration.insert("shuffle".into(), json!(shuffle));
            configuration.insert("typesize".into(), json!(type_size(data_type)));
            configuration.entry("blocksize").or_insert(json!(0));
            "blosc"
        }
        "zstd" => {
            configuration.entry("checksum").or_insert(json!(false));
            "zstd"
        }
        "gzip" => "gzip",
        other => return Err(DocumentError::Unsupported(format!("the compressor `{other}`"))),
    };
    Ok(Some(CodecMetadata { name: name.to_owned(), configuration }))
}
