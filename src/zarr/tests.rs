//! Documents and codecs across the files of this module.

use std::convert::Infallible;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::*;

fn array(format: ZarrFormat, codec: &str) -> ArrayMetadata {
    let mut attributes = Attributes::new();
    attributes.insert("units".into(), json!("°C"));
    attributes.insert("big".into(), json!(i64::MAX));
    ArrayMetadata {
        format,
        shape: vec![5, 3],
        chunk_shape: vec![2, 3],
        data_type: DataType::Float32,
        fill_value: Some(1e20f32.to_le_bytes().into()),
        codecs: codec.parse::<CodecSpec>().unwrap().codecs(DataType::Float32),
        chunk_key_encoding: ChunkKeyEncoding::of(format),
        dimension_names: Some(vec![Some("time".into()), Some("x".into())]),
        attributes,
        extra_fields: Map::new(),
    }
}

fn path(text: &str) -> NodePath {
    NodePath::parse(text).unwrap()
}

fn hierarchy(format: ZarrFormat) -> Hierarchy {
    let mut attributes = Attributes::new();
    attributes.insert("title".into(), json!("t"));
    let mut hierarchy =
        Hierarchy::new(format, GroupMetadata { attributes, extra_fields: Map::new() });
    hierarchy.insert(path("g"), Node::Group(GroupMetadata::default()));
    hierarchy.insert(path("g/b"), Node::Array(array(format, "none")));
    hierarchy.insert(path("z"), Node::Array(array(format, "gzip:1")));
    hierarchy
}

fn keys(documents: &[Document]) -> Vec<&str> {
    documents.iter().map(|document| document.key.as_str()).collect()
}

#[test]
fn an_array_document_is_what_zarr_python_writes() {
    let mut hierarchy = Hierarchy::new(ZarrFormat::V3, GroupMetadata::default());
    hierarchy.insert(path("v"), Node::Array(array(ZarrFormat::V3, "blosc:zstd:5:shuffle")));
    let document = &hierarchy.documents(true).unwrap()[0];
    assert_eq!(document.key, "v/zarr.json");
    let expected = json!({
        "shape": [5, 3],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 1.000_000_020_040_877_3e20,
        "codecs": [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "blosc", "configuration": {
                "cname": "zstd", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0
            }}
        ],
        "attributes": {"units": "°C", "big": 9_223_372_036_854_775_807_i64},
        "dimension_names": ["time", "x"],
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": []
    });
    // As text: the order of fields counts.
    assert_eq!(document.bytes, format!("{expected:#}"));
}

#[test]
fn bytes_have_an_order_only_where_an_element_has_several() {
    let codecs = CodecSpec::None.codecs(DataType::UInt8);
    assert_eq!(codecs, [CodecMetadata::new("bytes", [])]);
}

#[test]
fn documents_are_published_from_the_leaves_to_the_root() {
    let documents = hierarchy(ZarrFormat::V3).documents(true).unwrap();
    assert_eq!(keys(&documents), ["g/b/zarr.json", "z/zarr.json", "g/zarr.json", "zarr.json"]);
    let documents = hierarchy(ZarrFormat::V2).documents(true).unwrap();
    assert_eq!(
        keys(&documents),
        [
            "g/b/.zattrs",
            "g/b/.zarray",
            "z/.zattrs",
            "z/.zarray",
            "g/.zattrs",
            "g/.zgroup",
            ".zattrs",
            ".zgroup",
            ".zmetadata"
        ]
    );
    let documents = hierarchy(ZarrFormat::V2).documents(false).unwrap();
    assert_eq!(keys(&documents).last(), Some(&".zgroup"));
}

#[test]
fn the_root_repeats_every_node_as_zarr_python_does() {
    let documents = hierarchy(ZarrFormat::V3).documents(true).unwrap();
    let root: Value = serde_json::from_slice(&documents[3].bytes).unwrap();
    let consolidated = &root["consolidated_metadata"];
    assert_eq!(
        (&consolidated["kind"], &consolidated["must_understand"]),
        (&json!("inline"), &json!(false))
    );
    let members = consolidated["metadata"].as_object().unwrap();
    assert_eq!(members.keys().collect::<Vec<_>>(), ["g", "z", "g/b"]);
    // A group without its own empty list counts as not consolidated.
    assert_eq!(members["g"]["consolidated_metadata"]["metadata"], json!({}));
    let own: Value = serde_json::from_slice(&documents[0].bytes).unwrap();
    assert_eq!(members["g/b"], own);
    let plain = hierarchy(ZarrFormat::V3).documents(false).unwrap();
    let root: Value = serde_json::from_slice(&plain[3].bytes).unwrap();
    assert_eq!(root, json!({"attributes": {"title": "t"}, "zarr_format": 3, "node_type": "group"}));
}

#[test]
fn a_v3_hierarchy_reads_back_the_same() {
    let written = hierarchy(ZarrFormat::V3);
    let documents = written.documents(true).unwrap();
    let root = parse_zarr_json(&documents[3].bytes).unwrap();
    assert_eq!(Some(&root.node), written.get(&NodePath::root()));
    let members = root.members.unwrap();
    assert_eq!(members.len(), 3);
    for (path, node) in members {
        assert_eq!(Some(&node.unwrap()), written.get(&path), "{path}");
    }
    let single = parse_zarr_json(&documents[0].bytes).unwrap();
    assert_eq!(Some(&single.node), written.get(&path("g/b")));
    assert!(single.members.is_none());
}

#[test]
fn a_v2_hierarchy_reads_back_the_same() {
    for codec in ["none", "gzip:3", "zstd:-5", "blosc:lz4:1:bitshuffle"] {
        let mut written = hierarchy(ZarrFormat::V2);
        let mut without_fill = array(ZarrFormat::V2, codec);
        without_fill.fill_value = None;
        written.insert(path("z"), Node::Array(without_fill));
        let documents = written.documents(true).unwrap();
        let members = parse_zmetadata(&documents[8].bytes).unwrap();
        assert_eq!(members.len(), 4);
        for (path, node) in members {
            assert_eq!(Some(&node.unwrap()), written.get(&path), "{codec} {path}");
        }
        let array = parse_zarray(&documents[3].bytes, Some(&documents[2].bytes)).unwrap();
        assert_eq!(Some(&array), written.get(&path("z")));
        let root = parse_zgroup(&documents[7].bytes, Some(&documents[6].bytes)).unwrap();
        assert_eq!(Some(&root), written.get(&NodePath::root()));
    }
}

#[test]
fn v2_keeps_dimension_names_in_an_attribute() {
    let documents = hierarchy(ZarrFormat::V2).documents(false).unwrap();
    let attributes: Value = serde_json::from_slice(&documents[0].bytes).unwrap();
    assert_eq!(attributes["_ARRAY_DIMENSIONS"], json!(["time", "x"]));
    let zarray: Value = serde_json::from_slice(&documents[1].bytes).unwrap();
    assert_eq!(
        zarray,
        json!({
            "shape": [5, 3], "chunks": [2, 3], "dtype": "<f4",
            "fill_value": 1.000_000_020_040_877_3e20, "order": "C", "filters": null,
            "dimension_separator": ".", "compressor": null, "zarr_format": 2
        })
    );
}

#[test]
fn documents_of_others_are_understood_or_say_what_is_not_supported() {
    let document = |field: &str, value: Value| {
        let documents = hierarchy(ZarrFormat::V3).documents(false).unwrap();
        let mut json: Value = serde_json::from_slice(&documents[0].bytes).unwrap();
        json[field] = value;
        parse_zarr_json(json.to_string().as_bytes()).map(|root| root.node)
    };
    for (field, value) in [
        ("data_type", json!({"name": "float32"})),
        ("chunk_key_encoding", json!("default")),
        ("dimension_names", json!(null)),
        ("dimension_names", json!([null, "x"])),
        ("extra", json!({"must_understand": false, "kept": 1})),
        ("codecs", json!(["bytes"])),
    ] {
        document(field, value.clone()).unwrap_or_else(|error| panic!("{field} {value}: {error}"));
    }
    for (field, value, expected) in [
        ("data_type", json!("complex64"), "the data type `complex64` is not supported"),
        ("data_type", json!(3), "`data_type` is not a name with its configuration"),
        ("shape", json!([-1, 3]), "`shape` is not a list of whole numbers"),
        ("shape", json!([5]), "`chunk_shape` is not one positive number for each dimension"),
        ("chunk_grid", json!({"name": "rectilinear"}), "the chunk grid `rectilinear`"),
        ("fill_value", json!("nan"), "is not a fill value of type float32"),
        ("fill_value", json!(null), "is not a fill value of type float32"),
        ("storage_transformers", json!([{}]), "a storage transformer is not supported"),
        ("extra", json!(1), "the field `extra` is not supported"),
        ("zarr_format", json!(2), "`zarr_format` is not 3"),
        ("node_type", json!("table"), "`node_type` is not `array` or `group`"),
        ("attributes", json!([]), "`attributes` is not an object"),
    ] {
        let error = document(field, value.clone()).unwrap_err().to_string();
        assert!(error.contains(expected), "{field} {value}: {error}");
    }
    assert!(parse_zarr_json(b"[]").is_err());
    assert!(parse_zarr_json(b"").is_err());
}

#[test]
fn one_member_that_is_not_supported_does_not_hide_the_others() {
    let documents = hierarchy(ZarrFormat::V3).documents(true).unwrap();
    let mut root: Value = serde_json::from_slice(&documents[3].bytes).unwrap();
    root["consolidated_metadata"]["metadata"]["z"]["data_type"] = json!("complex64");
    let members = parse_zarr_json(root.to_string().as_bytes()).unwrap().members.unwrap();
    assert!(matches!(members[&path("z")], Err(DocumentError::Unsupported(_))));
    assert!(members[&path("g/b")].is_ok());
    root["consolidated_metadata"]["metadata"]["../up"] = json!({});
    let error = parse_zarr_json(root.to_string().as_bytes()).unwrap_err();
    assert!(matches!(error, DocumentError::Path { .. }));
}

#[test]
fn v2_arrays_that_would_need_a_guess_are_not_supported() {
    let documents = hierarchy(ZarrFormat::V2).documents(false).unwrap();
    for (field, value) in [
        ("order", json!("F")),
        ("filters", json!([{"id": "delta"}])),
        ("dtype", json!(">f4")),
        ("dtype", json!([["a", "<f4"]])),
        ("compressor", json!({"id": "lzma"})),
        ("compressor", json!({"id": "blosc", "shuffle": 7})),
        ("chunks", json!([0, 1])),
    ] {
        let mut zarray: Value = serde_json::from_slice(&documents[1].bytes).unwrap();
        zarray[field] = value.clone();
        assert!(parse_zarray(zarray.to_string().as_bytes(), None).is_err(), "{field} {value}");
    }
}

#[test]
fn chunks_decode_to_what_was_encoded_with_every_codec() {
    let raw: Vec<u8> = [1f32, 2.5, -0.0, f32::NAN, 1e20, 7.0].map(f32::to_le_bytes).concat();
    for codec in [
        "blosc:zstd:5:shuffle",
        "blosc:lz4:1:bitshuffle",
        "blosc:lz4hc:9:noshuffle",
        "blosc:blosclz:1",
        "blosc:zlib:0",
        "zstd:22",
        "zstd:-10",
        "gzip:0",
        "gzip:9",
        "none",
    ] {
        let chain = CodecChain::new(&array(ZarrFormat::V3, codec)).unwrap();
        let stored = chain.encode(raw.as_slice()).unwrap();
        assert_eq!(chain.decode(&stored).unwrap(), raw, "{codec}");
        assert_eq!(stored, chain.encode(raw.clone()).unwrap());
        assert!(matches!(chain.encode(&raw[4..]), Err(CodecError::RawSize { .. })));
        for length in 0..stored.len() {
            if let Ok(decoded) = chain.decode(&stored[..length]) {
                assert_eq!(decoded, raw, "{codec}: a part of the object was taken for the whole");
            }
        }
    }
}

#[test]
fn a_header_that_promises_another_size_is_refused_before_anything_is_allocated() {
    for (codec, at) in [("blosc:zstd:5:shuffle", 4..8), ("zstd:3", 5..6)] {
        let chain = CodecChain::new(&array(ZarrFormat::V3, codec)).unwrap();
        let mut stored = chain.encode(vec![0; 24]).unwrap().to_vec();
        stored[at].fill(0x7f);
        assert!(matches!(chain.decode(&stored), Err(CodecError::RawSize { .. })), "{codec}");
    }
    // A zstd frame with a size of eight bytes.
    let chain = CodecChain::new(&array(ZarrFormat::V3, "zstd:3")).unwrap();
    let bomb = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &[0xff; 8], &[0; 20]].concat();
    assert!(matches!(chain.decode(&bomb), Err(CodecError::RawSize { .. })));
}

#[test]
fn codecs_that_cannot_be_used_are_errors() {
    let mut metadata = array(ZarrFormat::V3, "none");
    metadata.codecs.push(CodecMetadata::new("lzma", []));
    assert!(matches!(CodecChain::new(&metadata), Err(CodecError::Chain(_))));
    metadata.codecs.clear();
    assert!(matches!(CodecChain::new(&metadata), Err(CodecError::Chain(_))));
    let mut metadata = array(ZarrFormat::V3, "none");
    metadata.chunk_shape = vec![1 << 20, 1 << 20];
    assert!(matches!(CodecChain::new(&metadata), Err(CodecError::Chain(_))));
}

#[test]
fn regions_are_read_over_chunk_borders_with_fill_where_there_is_no_object() {
    let metadata = array(ZarrFormat::V3, "gzip:1");
    let chain = CodecChain::new(&metadata).unwrap();
    let values = |from: u8| -> Vec<u8> {
        (from..from + 6).flat_map(|value| f32::from(value).to_le_bytes()).collect()
    };
    let stored = chain.encode(values(0)).unwrap();
    let get = |key: &str| -> Result<Option<Bytes>, Infallible> {
        Ok((key == "g/b/c/0/0").then(|| stored.clone()))
    };
    let reader = ArrayReader::new(path("g/b"), metadata.clone()).unwrap();
    let read: Vec<f32> = reader
        .region(&[1, 1], &[2, 2], get)
        .unwrap()
        .chunks(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(read, [4.0, 5.0, 1e20, 1e20]);
    assert_eq!(reader.whole(get).unwrap().len(), 60);
    assert!(matches!(reader.region(&[4, 0], &[2, 3], get), Err(ReadError::Outside)));
    assert!(matches!(reader.region(&[1, u64::MAX], &[1, 1], get), Err(ReadError::Outside)));
    assert!(matches!(reader.region(&[0], &[1], get), Err(ReadError::Outside)));
    let failing = reader.whole(|_| Err("offline"));
    assert!(matches!(failing, Err(ReadError::Fetch { .. })));
    let damaged = reader.whole(|_| Ok::<_, Infallible>(Some(Bytes::from_static(b"x"))));
    assert!(damaged.unwrap_err().to_string().starts_with("g/b/c/0/0: "));

    let without_fill = ArrayMetadata { fill_value: None, ..metadata };
    let reader = ArrayReader::new(path("g/b"), without_fill).unwrap();
    assert!(matches!(reader.whole(get), Err(ReadError::Missing(_))));
}

fn text_array(format: ZarrFormat, data_type: DataType, fill: Option<&str>) -> ArrayMetadata {
    ArrayMetadata {
        data_type,
        fill_value: fill.map(Into::into),
        codecs: CodecSpec::default().codecs(data_type),
        attributes: Attributes::new(),
        ..array(format, "none")
    }
}

/// The document of an array as JSON, after it was read back the same.
fn document(array: &ArrayMetadata) -> Value {
    let mut hierarchy = Hierarchy::new(array.format, GroupMetadata::default());
    hierarchy.insert(path("v"), Node::Array(array.clone()));
    let documents = hierarchy.documents(false).unwrap();
    let name = if array.format == ZarrFormat::V3 { "v/zarr.json" } else { "v/.zarray" };
    let bytes = &documents.iter().find(|document| document.key == name).unwrap().bytes;
    let read = match array.format {
        ZarrFormat::V3 => parse_zarr_json(bytes).unwrap().node,
        ZarrFormat::V2 => {
            let attributes = documents.iter().find(|document| document.key == "v/.zattrs");
            parse_zarray(bytes, attributes.map(|a| a.bytes.as_ref())).unwrap()
        }
    };
    assert_eq!(read, Node::Array(array.clone()));
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn strings_are_of_the_registered_type_with_its_codec() {
    let v3 = document(&text_array(ZarrFormat::V3, DataType::String, Some("né")));
    assert_eq!((&v3["data_type"], &v3["fill_value"]), (&json!("string"), &json!("né")));
    assert_eq!(v3["codecs"][0], json!({"name": "vlen-utf8"}));
    assert_eq!(v3["codecs"][1]["configuration"]["typesize"], 1);
    let v2 = document(&text_array(ZarrFormat::V2, DataType::String, None));
    assert_eq!((&v2["dtype"], &v2["fill_value"]), (&json!("|O"), &json!(null)));
    assert_eq!(v2["filters"], json!([{"id": "vlen-utf8"}]));
}

#[test]
fn characters_are_bytes_of_length_one() {
    let v3 = document(&text_array(ZarrFormat::V3, DataType::Char, Some("x")));
    let data_type = json!({"name": "null_terminated_bytes", "configuration": {"length_bytes": 1}});
    assert_eq!((&v3["data_type"], &v3["fill_value"]), (&data_type, &json!("eA==")));
    assert_eq!(v3["codecs"][0], json!({"name": "bytes"}));
    let v2 = document(&text_array(ZarrFormat::V2, DataType::Char, None));
    assert_eq!((&v2["dtype"], &v2["filters"]), (&json!("|S1"), &json!(null)));
    let longer = v3.to_string().replace("\"length_bytes\":1", "\"length_bytes\":5");
    assert!(parse_zarr_json(longer.as_bytes()).is_err());
}

#[test]
fn texts_come_back_from_every_codec() {
    let texts: Vec<&[u8]> = vec![b"", "é".as_bytes(), b"depth", b"", b"a b", &[b'x'; 5000]];
    for codec in ["blosc:zstd:5:shuffle", "blosc:lz4:1:bitshuffle", "zstd:3", "gzip:1", "none"] {
        let mut array = text_array(ZarrFormat::V3, DataType::String, Some(""));
        array.codecs = codec.parse::<CodecSpec>().unwrap().codecs(DataType::String);
        let chain = CodecChain::new(&array).unwrap();
        let stored = chain.encode_texts(&texts).unwrap();
        assert_eq!(chain.decode_texts(&stored).unwrap().join("|").len(), 5015, "{codec}");
        assert!(chain.encode_texts(&texts[1..]).is_err());
        assert!(matches!(chain.encode(vec![0; 24]), Err(CodecError::Kind)));
        assert!(matches!(chain.decode(&stored), Err(CodecError::Kind)));
        assert!(chain.decode_texts(&stored[..stored.len() / 2]).is_err(), "{codec}");
    }
    let numbers = CodecChain::new(&array(ZarrFormat::V3, "none")).unwrap();
    assert!(matches!(numbers.encode_texts(&texts), Err(CodecError::Kind)));
}
