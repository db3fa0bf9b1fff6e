//! Whole plans.

use serde_json::json;

use super::*;
use crate::netcdf::{
    Attribute, AttributeValue, DataType, Dimension, Format, Group, Schema, Variable, VariableId,
};
use crate::zarr::{self, NodeNameError, NodePath, ZarrFormat};

fn dimension(name: &str, length: u64, unlimited: bool) -> Dimension {
    Dimension { name: name.into(), length, unlimited }
}

fn attribute(name: &str, value: AttributeValue) -> Attribute {
    Attribute { name: name.into(), value }
}

fn variable(id: usize, name: &str, data_type: DataType, dimensions: &[(&str, u64)]) -> Variable {
    Variable {
        id: VariableId(id),
        name: name.into(),
        dimensions: dimensions.iter().map(|(name, _)| (*name).into()).collect(),
        shape: dimensions.iter().map(|(_, length)| *length).collect(),
        data_type,
        attributes: Vec::new(),
        chunk_shape: vec![1; dimensions.len()],
        chunked: false,
        fill: vec![0xee; data_type.size().unwrap_or(0)],
        unsupported: None,
    }
}

/// A file with two steps of a field, coordinates, a scalar, and a group that uses the dimension
/// above it.
fn schema() -> Schema {
    let mut field = variable(0, "sst", DataType::F32, &[("time", 2), ("lat", 4), ("lon", 6)]);
    field.attributes = vec![
        attribute("units", AttributeValue::Text("K".into())),
        attribute("_FillValue", AttributeValue::F32(vec![1e20])),
        attribute("missing_value", AttributeValue::F32(vec![f32::NAN])),
    ];
    let inner = Group {
        name: "deep".into(),
        dimensions: vec![dimension("time", 3, false)],
        variables: vec![variable(5, "w", DataType::I16, &[("time", 3), ("lat", 4)])],
        ..Group::default()
    };
    let group = Group {
        name: "stats".into(),
        variables: vec![variable(4, "mean", DataType::F64, &[("time", 2)])],
        attributes: vec![attribute("n", AttributeValue::I64(vec![i64::MAX]))],
        groups: vec![inner],
        ..Group::default()
    };
    let root = Group {
        name: String::new(),
        dimensions: vec![
            dimension("time", 2, true),
            dimension("lat", 4, false),
            dimension("lon", 6, false),
        ],
        variables: vec![
            field,
            variable(1, "time", DataType::F64, &[("time", 2)]),
            variable(2, "lat", DataType::F32, &[("lat", 4)]),
            variable(3, "crs", DataType::I32, &[]),
        ],
        attributes: vec![attribute("_NCProperties", AttributeValue::Text("x".into()))],
        groups: vec![group],
    };
    Schema { format: Format::Hdf5, root }
}

fn with(variable: Variable) -> Schema {
    let mut schema = schema();
    schema.root.variables.push(variable);
    schema
}

fn encoding(chunks: &str) -> Encoding {
    Encoding { chunks: chunks.parse().unwrap(), ..Encoding::default() }
}

fn skipping() -> Encoding {
    Encoding { skip_unsupported: true, ..Encoding::default() }
}

#[test]
fn every_group_and_variable_is_planned_with_its_chunks() {
    let plan = plan_dataset(&schema(), &encoding("time=1,lat=3")).unwrap();
    let groups: Vec<_> = plan.groups.iter().map(|group| group.path.to_string()).collect();
    assert_eq!(groups, ["/", "/stats", "/stats/deep"]);
    assert!(plan.groups[0].metadata.attributes.is_empty());
    assert_eq!(plan.groups[1].metadata.attributes["n"], json!(i64::MAX));
    let arrays: Vec<_> = plan
        .arrays
        .iter()
        .map(|array| (array.path.as_str(), array.metadata.chunk_shape.as_slice()))
        .collect();
    assert_eq!(
        arrays,
        [
            ("sst", &[1, 3, 6][..]),
            ("time", &[8192]),
            ("lat", &[4]),
            ("crs", &[]),
            ("stats/mean", &[1]),
            // Its `time` is the group's own, which does not grow.
            ("stats/deep/w", &[1, 3]),
        ]
    );
    assert_eq!(plan.array(VariableId(4)).unwrap().growing, [true]);
    assert_eq!(plan.array(VariableId(5)).unwrap().growing, [false, false]);
    let sst = plan.array(VariableId(0)).unwrap();
    assert_eq!(
        (sst.source_fill.as_slice(), &sst.source_chunk_shape),
        (&[0xee; 4][..], &vec![1; 3])
    );
}

#[test]
fn the_same_schema_always_gives_the_same_plan() {
    let encoding = encoding("time=1");
    assert_eq!(plan_dataset(&schema(), &encoding), plan_dataset(&schema(), &encoding));
}

#[test]
fn missing_values_are_said_as_xarray_expects_it_in_v3() {
    let mut short = variable(9, "n", DataType::I16, &[("lat", 4)]);
    // Some writers use another type; the value is the same.
    short.attributes = vec![attribute("_FillValue", AttributeValue::F64(vec![-9999.0]))];
    let plan = plan_dataset(&with(short), &Encoding::default()).unwrap();
    let metadata = |id| &plan.array(VariableId(id)).unwrap().metadata;
    let sst = metadata(0);
    assert_eq!(sst.fill_value.as_deref(), Some(&1e20f32.to_le_bytes()[..]));
    assert_eq!(
        serde_json::Value::Object(sst.attributes.clone()),
        json!({"units": "K", "_FillValue": "AAAAgB2vFUQ=", "missing_value": null})
    );
    let names: Vec<_> = sst.attributes.keys().collect();
    assert_eq!(names, ["units", "_FillValue", "missing_value"]);
    assert_eq!(metadata(2).fill_value, zarr::nan_bytes(zarr::DataType::Float32));
    assert!(metadata(2).attributes.is_empty());
    assert_eq!(metadata(3).fill_value.as_deref(), Some(&[0; 4][..]));
    assert_eq!(metadata(9).attributes["_FillValue"], json!(-9999));
    assert_eq!(metadata(9).fill_value.as_deref(), Some(&(-9999i16).to_le_bytes()[..]));
}

#[test]
fn in_v2_only_a_real_fill_value_is_said_since_readers_mask_it() {
    let encoding = Encoding { format: ZarrFormat::V2, ..Encoding::default() };
    let plan = plan_dataset(&schema(), &encoding).unwrap();
    let sst = &plan.array(VariableId(0)).unwrap().metadata;
    assert_eq!(sst.fill_value.as_deref(), Some(&1e20f32.to_le_bytes()[..]));
    assert!(!sst.attributes.contains_key("_FillValue"));
    for id in [2, 3] {
        assert_eq!(plan.array(VariableId(id)).unwrap().metadata.fill_value, None);
    }
    assert!(plan.hierarchy().documents(true).is_ok());
}

#[test]
fn a_fill_value_that_the_type_cannot_hold_is_refused() {
    for (value, shown) in [
        (AttributeValue::F64(vec![0.5]), "0.5"),
        (AttributeValue::F64(vec![f64::NAN]), "null"),
        (AttributeValue::I32(vec![40_000]), "40000"),
        (AttributeValue::I16(vec![1, 2]), "[1,2]"),
        (AttributeValue::Text("x".into()), "\"x\""),
    ] {
        let mut short = variable(9, "n", DataType::I16, &[("lat", 4)]);
        short.attributes = vec![attribute("_FillValue", value)];
        let refusal = plan_dataset(&with(short.clone()), &Encoding::default()).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            format!("variable /n: `_FillValue` ({shown}) is not one int16 value")
        );
        assert_eq!(plan_dataset(&with(short), &skipping()).unwrap().left_out, [refusal]);
    }
}

#[test]
fn what_cannot_be_stored_is_refused_by_name_or_left_out() {
    let mut compound = variable(9, "c", DataType::Other, &[]);
    compound.unsupported = Some("compound type `xyz`".into());
    let slash = variable(9, "__x", DataType::I8, &[]);
    for (variable, sentence) in [
        (compound, "variable /c: compound type `xyz`"),
        (
            slash,
            "the name `__x` in / cannot be used in Zarr: names that start with `__` are reserved in Zarr format 3; format 2 takes them",
        ),
    ] {
        let schema = with(variable);
        let refusal = plan_dataset(&schema, &Encoding::default()).unwrap_err();
        assert_eq!(refusal.to_string(), sentence);
        let plan = plan_dataset(&schema, &skipping()).unwrap();
        assert_eq!(plan.arrays.len(), 6);
        assert_eq!(plan.summary().left_out, [sentence]);
    }
}

#[test]
fn a_refusal_names_everything_that_cannot_be_stored_with_its_path() {
    let mut schema = schema();
    let unsupported = |id, name: &str, reason: &str| {
        let mut variable = variable(id, name, DataType::Other, &[]);
        variable.unsupported = Some(reason.into());
        variable
    };
    schema.root.variables.push(unsupported(8, "c", "a compound type (x, y)"));
    schema.root.attributes.push(attribute("v", AttributeValue::Unsupported("references".into())));
    let deep = &mut schema.root.groups[0].groups[0];
    deep.variables.push(unsupported(9, "l", "variable-length arrays"));
    deep.attributes.push(attribute("o", AttributeValue::Unsupported("an opaque type".into())));
    let sentences = [
        "attribute `v` of /: references",
        "variable /c: a compound type (x, y)",
        "attribute `o` of /stats/deep: an opaque type",
        "variable /stats/deep/l: variable-length arrays",
    ];
    let refusal = plan_dataset(&schema, &Encoding::default()).unwrap_err();
    assert_eq!(refusal.to_string(), format!("4 things cannot be stored: {}", sentences.join("; ")));
    let plan = plan_dataset(&schema, &skipping()).unwrap();
    assert_eq!(plan.summary().left_out, sentences);
    assert_eq!((plan.groups.len(), plan.arrays.len()), (3, 6));
}

#[test]
fn a_refusal_of_very_many_things_stays_readable() {
    let mut schema = schema();
    for index in 0..5000 {
        let name = format!("a{index}");
        schema.root.attributes.push(attribute(&name, AttributeValue::Unsupported("x".into())));
    }
    let sentence = plan_dataset(&schema, &Encoding::default()).unwrap_err().to_string();
    assert!(sentence.len() < 10_000 && sentence.ends_with("; and 4800 more"), "{sentence}");
}

#[test]
fn a_default_fill_value_in_the_file_is_written_as_xarray_writes_it() {
    let mut field = variable(9, "f", DataType::F32, &[("lat", 4)]);
    field.attributes = vec![attribute("_FillValue", AttributeValue::F32(vec![9.969_21e36]))];
    let metadata = planned(field, ZarrFormat::V3, "").metadata;
    assert_eq!(metadata.attributes["_FillValue"], json!("AAAAAAAAnkc="));
    assert_eq!(metadata.fill_value, Some(9.969_21e36_f32.to_le_bytes().to_vec()));
}

#[test]
fn two_things_with_one_name_are_refused_even_when_skipping() {
    let schema = with(variable(9, "stats", DataType::I8, &[]));
    let refusal = plan_dataset(&schema, &skipping()).unwrap_err();
    assert_eq!(refusal, Refusal::DuplicateName { path: "/stats".into() });
}

#[test]
fn a_group_with_an_impossible_name_is_left_out_with_all_below_it() {
    let mut schema = schema();
    schema.root.groups[0].name = "a/b".into();
    let refusal = plan_dataset(&schema, &Encoding::default()).unwrap_err();
    assert!(matches!(refusal, Refusal::Name { reason: NodeNameError::Slash, .. }));
    let plan = plan_dataset(&schema, &skipping()).unwrap();
    assert_eq!((plan.groups.len(), plan.arrays.len()), (1, 4));
}

#[test]
fn chunks_for_a_dimension_that_is_not_there_are_a_warning_that_names_those_that_are() {
    let plan = plan_dataset(&schema(), &encoding("tim=1")).unwrap();
    let warnings: Vec<String> = plan.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["--chunks: no variable has a dimension `tim`; the file has time, lat, lon"]
    );
    assert_eq!(plan_dataset(&schema(), &encoding("time=1")).unwrap().warnings, []);
}

#[test]
fn a_chunk_beyond_two_gib_is_refused_with_a_hint_that_works() {
    let large = with(variable(9, "big", DataType::F64, &[("y", 40_000), ("x", 50_000)]));
    let refusal = plan_dataset(&large, &encoding("x=:")).unwrap_err();
    let Refusal::ChunkTooLarge { suggestion, .. } = &refusal else { panic!("{refusal}") };
    assert!(refusal.to_string().starts_with(
        "variable /big: a chunk of y=40000, x=50000 has 14.9 GiB and at most 2 GiB work: set --chunks"
    ));
    assert!(plan_dataset(&large, &encoding(suggestion)).is_ok());
    let endless = with(variable(9, "big", DataType::F64, &[("y", u64::MAX), ("x", u64::MAX)]));
    assert!(matches!(
        plan_dataset(&endless, &encoding("x=:")),
        Err(Refusal::ChunkTooLarge { bytes: None, .. })
    ));
    assert!(plan_dataset(&endless, &Encoding::default()).is_ok());
}

#[test]
fn a_schema_that_contradicts_itself_is_refused() {
    let mut rank = variable(9, "v", DataType::I8, &[("lat", 4)]);
    rank.shape.clear();
    let mut chunk = variable(9, "v", DataType::I8, &[("lat", 4)]);
    chunk.chunk_shape = vec![0];
    let mut fill = variable(9, "v", DataType::I8, &[("lat", 4)]);
    fill.fill = vec![0, 0];
    for variable in [rank, chunk, fill] {
        let refusal = plan_dataset(&with(variable), &skipping()).unwrap_err();
        assert!(matches!(refusal, Refusal::Inconsistent { .. }));
    }
}

#[test]
fn compressed_source_chunks_are_not_copied_yet() {
    let encoding = Encoding { codec: "source".parse().unwrap(), ..Encoding::default() };
    assert_eq!(plan_dataset(&schema(), &encoding), Err(Refusal::SourceCodec));
}

#[test]
fn the_summary_tells_what_would_be_written() {
    let summary = plan_dataset(&schema(), &encoding("time=1")).unwrap().summary();
    assert_eq!(
        summary.to_string(),
        "\
/sst  float32  time=2+/1, lat=4/4, lon=6/6  192 B in 2 objects of 96 B
/time  float64  time=2+/8192  16 B in 1 objects of 64.0 KiB
/lat  float32  lat=4/4  16 B in 1 objects of 16 B
/crs  int32  4 B in 1 objects of 4 B
/stats/mean  float64  time=2+/1  16 B in 2 objects of 8 B
/stats/deep/w  int16  time=3/1, lat=4/4  24 B in 3 objects of 8 B
6 arrays in 3 groups: 268 B in at most 10 chunk objects"
    );
}

#[test]
fn the_documents_of_a_plan_hold_every_node() {
    let plan = plan_dataset(&schema(), &Encoding::default()).unwrap();
    let hierarchy = plan.hierarchy();
    assert_eq!(hierarchy.nodes().count(), 9);
    assert_eq!(hierarchy.nodes().next().unwrap().0, &NodePath::root());
    let documents = hierarchy.documents(plan.consolidated).unwrap();
    assert_eq!(documents.len(), 9);
    assert_eq!(documents.last().unwrap().key, "zarr.json");
}

fn planned(variable: Variable, format: ZarrFormat, chunks: &str) -> ArrayPlan {
    let encoding = Encoding { format, ..encoding(chunks) };
    let id = variable.id;
    plan_dataset(&with(variable), &encoding).unwrap().array(id).unwrap().clone()
}

#[test]
fn texts_become_characters_and_strings() {
    let mut names =
        variable(9, "names", DataType::Char, &[("time", 2), ("lat", 4), ("strlen", 40)]);
    names.chunk_shape = vec![1, 2, 10];
    names.chunked = true;
    let characters = planned(names, ZarrFormat::V3, "lat=1,strlen=7").metadata;
    assert_eq!(characters.data_type, zarr::DataType::Char);
    assert_eq!(characters.fill_value, Some(vec![0]));
    assert_eq!(characters.chunk_shape, [2, 1, 40], "a text is never cut");
    let mut station = variable(9, "station", DataType::String, &[("lat", 4)]);
    station.fill = "né".into();
    let strings = planned(station.clone(), ZarrFormat::V3, "");
    assert_eq!(strings.metadata.data_type, zarr::DataType::String);
    assert_eq!(strings.metadata.fill_value, Some(vec![]));
    assert_eq!(strings.source_fill, "né".as_bytes());
    assert_eq!(planned(station, ZarrFormat::V2, "").metadata.fill_value, None);
}

#[test]
fn the_fill_value_of_texts_is_missing_value_where_readers_know_no_other() {
    let text = |text: &str| AttributeValue::Text(text.into());
    let mut station = variable(9, "station", DataType::String, &[("lat", 4)]);
    station.fill = Vec::new();
    station.attributes = vec![attribute("_FillValue", text("none")), attribute("units", text("1"))];
    let v3 = planned(station.clone(), ZarrFormat::V3, "").metadata;
    assert_eq!(v3.fill_value, Some(b"none".to_vec()));
    assert_eq!(
        serde_json::to_string(&v3.attributes).unwrap(),
        r#"{"missing_value":"none","units":"1"}"#
    );
    let v2 = planned(station.clone(), ZarrFormat::V2, "").metadata;
    assert_eq!(v2.fill_value, Some(b"none".to_vec()));
    assert_eq!(serde_json::to_string(&v2.attributes).unwrap(), r#"{"units":"1"}"#);

    for (missing, expected) in [("none", json!("none")), ("m", json!(["m", "none"]))] {
        let mut both = station.clone();
        both.attributes.push(attribute("missing_value", text(missing)));
        let metadata = planned(both, ZarrFormat::V3, "").metadata;
        assert_eq!(metadata.attributes["missing_value"], expected);
        assert!(!metadata.attributes.contains_key("_FillValue"));
    }
    station.attributes.push(attribute("missing_value", AttributeValue::I8(vec![1])));
    let refusal = plan_dataset(&with(station), &Encoding::default()).unwrap_err();
    assert!(refusal.to_string().starts_with("attribute `missing_value` of /station"), "{refusal}");
}

#[test]
fn the_fill_value_of_characters_is_one_byte() {
    let mut flag = variable(9, "flag", DataType::Char, &[("lat", 4)]);
    for (text, byte) in [(" ", b' '), ("", 0)] {
        flag.attributes = vec![attribute("_FillValue", AttributeValue::Text(text.into()))];
        let metadata = planned(flag.clone(), ZarrFormat::V3, "").metadata;
        assert_eq!(metadata.fill_value, Some(vec![byte]));
        assert_eq!(metadata.attributes["missing_value"], text);
    }
    for value in [AttributeValue::Text("ab".into()), AttributeValue::I32(vec![1])] {
        flag.attributes = vec![attribute("_FillValue", value)];
        let refusal = plan_dataset(&with(flag.clone()), &Encoding::default()).unwrap_err();
        assert!(matches!(refusal, Refusal::FillValue { .. }));
    }
}
