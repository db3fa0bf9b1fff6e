//! Metadata documents of format 3: `zarr.json`.
//!
//! <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#array-metadata>. Fields are
//! written in the order zarr-python has, with `dimension_names` on every array that has names.
//! Consolidated metadata is in [`super::hierarchy`].

use serde_json::{Map, Value, json};

use super::chunk_key::ChunkKeyEncoding;
use super::data_type::DataType;
use super::error::DocumentError;
use super::fill_value::{fill_value_from_json, fill_value_to_json};
use super::format::ZarrFormat;
use super::metadata::{ArrayMetadata, Attributes, CodecMetadata, GroupMetadata, Node};

/// Where zarr-python keeps the metadata of all nodes below a group.
pub(super) const CONSOLIDATED: &str = "consolidated_metadata";

/// The fields of an array's document.
const ARRAY_FIELDS: [&str; 11] = [
    "shape",
    "data_type",
    "chunk_grid",
    "chunk_key_encoding",
    "fill_value",
    "codecs",
    "attributes",
    "dimension_names",
    "zarr_format",
    "node_type",
    "storage_transformers",
];

/// The fields of a group's document.
const GROUP_FIELDS: [&str; 4] = ["attributes", "zarr_format", "node_type", CONSOLIDATED];

/// The document of an array.
pub(super) fn array_to_json(array: &ArrayMetadata) -> Result<Value, DocumentError> {
    let fill = array.fill_value.as_ref().ok_or(DocumentError::Missing("fill_value"))?;
    let (key_encoding, separator) = match array.chunk_key_encoding {
        ChunkKeyEncoding::Default { separator } => ("default", separator),
        ChunkKeyEncoding::V2 { separator } => ("v2", separator),
    };
    let mut document = json!({
        "shape": array.shape,
        "data_type": data_type_to_json(array.data_type),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": array.chunk_shape}},
        "chunk_key_encoding": {
            "name": key_encoding, "configuration": {"separator": separator.to_string()}
        },
        "fill_value": fill_value_to_json(array.data_type, fill)?,
        "codecs": array.codecs.iter().map(codec_to_json).collect::<Vec<_>>(),
        "attributes": array.attributes,
    });
    if let Value::Object(fields) = &mut document {
        if let Some(names) = &array.dimension_names {
            fields.insert("dimension_names".into(), json!(names));
        }
        fields.insert("zarr_format".into(), json!(3));
        fields.insert("node_type".into(), json!("array"));
        fields.insert("storage_transformers".into(), json!([]));
        fields.extend(array.extra_fields.clone());
    }
    Ok(document)
}

/// The document of a group, with consolidated metadata when some is given.
pub(super) fn group_to_json(group: &GroupMetadata, consolidated: Option<Value>) -> Value {
    let mut fields = Map::new();
    fields.insert("attributes".into(), Value::Object(group.attributes.clone()));
    fields.insert("zarr_format".into(), json!(3));
    if let Some(consolidated) = consolidated {
        fields.insert(CONSOLIDATED.into(), consolidated);
    }
    fields.insert("node_type".into(), json!("group"));
    fields.extend(group.extra_fields.clone());
    Value::Object(fields)
}

fn data_type_to_json(data_type: DataType) -> Value {
    match data_type {
        DataType::Char => {
            json!({"name": data_type.name_v3(), "configuration": {"length_bytes": 1}})
        }
        other => json!(other.name_v3()),
    }
}

fn codec_to_json(codec: &CodecMetadata) -> Value {
    if codec.configuration.is_empty() {
        json!({"name": codec.name})
    } else {
        json!({"name": codec.name, "configuration": codec.configuration})
    }
}

/// Reads the document of an array or a group.
pub(super) fn node_from_json(document: &Value) -> Result<Node, DocumentError> {
    let fields = document.as_object().ok_or(invalid("zarr.json", "an object"))?;
    if fields.get("zarr_format") != Some(&json!(3)) {
        return Err(invalid("zarr_format", "3"));
    }
    match text(fields, "node_type")? {
        "array" => array_from_json(fields).map(Node::Array),
        "group" => Ok(Node::Group(GroupMetadata {
            attributes: attributes(fields)?,
            extra_fields: extra_fields(fields, &GROUP_FIELDS)?,
        })),
        _ => Err(invalid("node_type", "`array` or `group`")),
    }
}

fn array_from_json(fields: &Map<String, Value>) -> Result<ArrayMetadata, DocumentError> {
    let shape = lengths(field(fields, "shape")?, "shape")?;
    let chunk_shape = chunk_shape(field(fields, "chunk_grid")?)?;
    if chunk_shape.len() != shape.len() || chunk_shape.contains(&0) {
        return Err(invalid("chunk_shape", "one positive number for each dimension"));
    }
    let data_type = data_type(field(fields, "data_type")?)?;
    let transformers = fields.get("storage_transformers").and_then(Value::as_array);
    if transformers.is_some_and(|list| !list.is_empty()) {
        return Err(DocumentError::Unsupported("a storage transformer".into()));
    }
    Ok(ArrayMetadata {
        format: ZarrFormat::V3,
        dimension_names: dimension_names(fields, shape.len())?,
        shape,
        chunk_shape,
        data_type,
        fill_value: Some(fill_value_from_json(data_type, field(fields, "fill_value")?)?),
        codecs: codecs(field(fields, "codecs")?)?,
        chunk_key_encoding: chunk_key_encoding(field(fields, "chunk_key_encoding")?)?,
        attributes: attributes(fields)?,
        extra_fields: extra_fields(fields, &ARRAY_FIELDS)?,
    })
}

fn chunk_shape(grid: &Value) -> Result<Vec<u64>, DocumentError> {
    let (name, configuration) = named(grid, "chunk_grid")?;
    if name != "regular" {
        return Err(DocumentError::Unsupported(format!("the chunk grid `{name}`")));
    }
    lengths(field(&configuration, "chunk_shape")?, "chunk_shape")
}

fn data_type(value: &Value) -> Result<DataType, DocumentError> {
    let (name, configuration) = named(value, "data_type")?;
    DataType::from_name_v3(&name)
        .filter(|of| *of != DataType::Char || configuration.get("length_bytes") == Some(&json!(1)))
        .ok_or_else(|| DocumentError::Unsupported(format!("the data type `{name}`")))
}

fn chunk_key_encoding(value: &Value) -> Result<ChunkKeyEncoding, DocumentError> {
    let (name, configuration) = named(value, "chunk_key_encoding")?;
    let separator = |default| match configuration.get("separator").map(Value::as_str) {
        None => Ok(default),
        Some(Some("/")) => Ok('/'),
        Some(Some(".")) => Ok('.'),
        Some(_) => Err(invalid("separator", "`/` or `.`")),
    };
    match name.as_str() {
        "default" => Ok(ChunkKeyEncoding::Default { separator: separator('/')? }),
        "v2" => Ok(ChunkKeyEncoding::V2 { separator: separator('.')? }),
        _ => Err(DocumentError::Unsupported(format!("the chunk key encoding `{name}`"))),
    }
}

fn codecs(value: &Value) -> Result<Vec<CodecMetadata>, DocumentError> {
    let list = value.as_array().ok_or(invalid("codecs", "a list"))?;
    list.iter()
        .map(|codec| {
            let (name, configuration) = named(codec, "codecs")?;
            Ok(CodecMetadata { name, configuration })
        })
        .collect()
}

fn dimension_names(
    fields: &Map<String, Value>,
    dimensions: usize,
) -> Result<Option<Vec<Option<String>>>, DocumentError> {
    let error = || invalid("dimension_names", "a text or null for each dimension");
    let Some(value) = fields.get("dimension_names").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let list = value.as_array().filter(|list| list.len() == dimensions).ok_or_else(error)?;
    let names = list.iter().map(|name| match name {
        Value::Null => Ok(None),
        Value::String(name) => Ok(Some(name.clone())),
        _ => Err(error()),
    });
    names.collect::<Result<_, _>>().map(Some)
}

fn attributes(fields: &Map<String, Value>) -> Result<Attributes, DocumentError> {
    match fields.get("attributes") {
        None => Ok(Attributes::new()),
        Some(Value::Object(attributes)) => Ok(attributes.clone()),
        Some(_) => Err(invalid("attributes", "an object")),
    }
}

/// Fields beyond the specification: allowed only where they say that they may be ignored.
fn extra_fields(
    fields: &Map<String, Value>,
    known: &[&str],
) -> Result<Map<String, Value>, DocumentError> {
    let unknown = fields.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    unknown
        .map(|(name, value)| {
            if value.get("must_understand") == Some(&Value::Bool(false)) {
                Ok((name.clone(), value.clone()))
            } else {
                Err(DocumentError::Unsupported(format!("the field `{name}`")))
            }
        })
        .collect()
}

/// An extension: its name alone, or an object with name and configuration.
fn named(
    value: &Value,
    field: &'static str,
) -> Result<(String, Map<String, Value>), DocumentError> {
    let error = || invalid(field, "a name with its configuration");
    if let Some(name) = value.as_str() {
        return Ok((name.to_owned(), Map::new()));
    }
    let object = value.as_object().ok_or_else(error)?;
    let name = object.get("name").and_then(Value::as_str).ok_or_else(error)?;
    let configuration = match object.get("configuration") {
        None => Map::new(),
        Some(Value::Object(configuration)) => configuration.clone(),
        Some(_) => return Err(error()),
    };
    Ok((name.to_owned(), configuration))
}

pub(super) fn field<'a>(
    fields: &'a Map<String, Value>,
    name: &'static str,
) -> Result<&'a Value, DocumentError> {
    fields.get(name).ok_or(DocumentError::Missing(name))
}

fn text<'a>(fields: &'a Map<String, Value>, name: &'static str) -> Result<&'a str, DocumentError> {
    field(fields, name)?.as_str().ok_or(invalid(name, "a text"))
}

pub(super) fn lengths(value: &Value, name: &'static str) -> Result<Vec<u64>, DocumentError> {
    let error = || invalid(name, "a list of whole numbers");
    value
        .as_array()
        .ok_or_else(error)?
        .iter()
        .map(|length| length.as_u64().ok_or_else(error))
        .collect()
}

pub(super) fn invalid(field: &'static str, expected: &'static str) -> DocumentError {
    DocumentError::Invalid { field, expected }
}
