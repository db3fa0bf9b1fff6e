//! Encodings and conversions against what xarray and cftime read. Numbers were computed with
//! xarray 2026.9.0 and cftime 1.6.6.

use serde_json::{Value, json};

use super::*;
use crate::zarr::{Attributes, DataType, Scalar, ZarrFormat, fill_value_attribute};

fn attributes(json: Value) -> Attributes {
    let Value::Object(attributes) = json else { panic!("attributes are an object") };
    attributes
}

fn decoding(data_type: DataType, json: Value) -> Decoding {
    Decoding::of(data_type, &attributes(json), None, ZarrFormat::V3)
}

/// A type of Rust as elements of an array.
trait Raw: Copy {
    const TYPE: DataType;
    fn put(self, out: &mut Vec<u8>);
}
macro_rules! raw {
    ($($type:ty: $variant:ident),*) => {$(
        impl Raw for $type {
            const TYPE: DataType = DataType::$variant;
            fn put(self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}
raw!(i8: Int8, u8: UInt8, i16: Int16, u16: UInt16, i32: Int32, u32: UInt32, i64: Int64);
raw!(u64: UInt64, f32: Float32, f64: Float64);

fn bytes<T: Raw>(values: &[T]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        value.put(&mut out);
    }
    out
}

/// Converts and compares bytes.
fn assert_converts<S: Raw, T: Raw>(from: Value, to: Value, source: &[S], expected: &[T]) {
    let (from, to) = (decoding(S::TYPE, from), decoding(T::TYPE, to));
    let conversion = Conversion::between(&from, &to).unwrap();
    let mut out = Vec::new();
    conversion.apply(&bytes(source), &mut out).unwrap();
    assert_eq!(out, bytes(expected), "{from:?} -> {to:?}");
}

/// The sentence with which a conversion of one element fails.
fn error<S: Raw, T: Raw>(from: Value, to: Value, element: S, _target: T) -> String {
    let (from, to) = (decoding(S::TYPE, from), decoding(T::TYPE, to));
    let conversion = Conversion::between(&from, &to).unwrap();
    assert!(!conversion.is_always_exact());
    conversion.apply(&bytes(&[element]), &mut Vec::new()).unwrap_err().to_string()
}

fn fill_f32(value: f32) -> Value {
    fill_value_attribute(DataType::Float32, &value.to_le_bytes()).unwrap()
}

fn days() -> Value {
    json!({"units": "days since 2000-01-01"})
}

fn hours() -> Value {
    json!({"units": "hours since 2000-01-03"})
}

#[test]
fn numbers_go_over_into_wider_types() {
    assert_converts(json!({}), json!({}), &[-128i8, 127], &[-128i16, 127]);
    assert_converts(json!({}), json!({}), &[0u8, 255], &[0i64, 255]);
    assert_converts(json!({}), json!({}), &[i32::MIN, 7], &[-2_147_483_648f64, 7.0]);
    assert_converts(json!({}), json!({}), &[i16::MIN], &[-32768f32]);
    assert_converts(json!({}), json!({}), &[0.1f32, -0.0], &[f64::from(0.1f32), -0.0]);
    let widening = Conversion::between(
        &decoding(DataType::Int16, json!({"units": "K"})),
        &decoding(DataType::Int32, json!({"units": "K"})),
    );
    let widening = widening.unwrap();
    assert!(widening.is_always_exact() && !widening.is_identity());
    assert_eq!(widening.target_element_bytes(), 4);
}

#[test]
fn numbers_go_over_into_narrower_types_only_if_they_are_the_same() {
    assert_converts(json!({}), json!({}), &[300i64, -5], &[300i16, -5]);
    assert_converts(json!({}), json!({}), &[3.0f64], &[3u8]);
    assert_converts(json!({}), json!({}), &[0.5f64, f64::INFINITY], &[0.5f32, f32::INFINITY]);
    assert_converts(json!({}), json!({}), &[1i64 << 60], &[1_152_921_504_606_846_976f64]);
    assert_eq!(error(json!({}), json!({}), 256i16, 0u8), "the value 256 is not exact as uint8");
    assert_eq!(error(json!({}), json!({}), -1i8, 0u64), "the value -1 is not exact as uint64");
    assert_eq!(error(json!({}), json!({}), 0.1f64, 0f32), "the value 0.1 is not exact as float32");
    assert_eq!(error(json!({}), json!({}), 2.5f32, 0i32), "the value 2.5 is not exact as int32");
    assert_eq!(error(json!({}), json!({}), -0.0f64, 0i32), "the value -0.0 is not exact as int32");
    assert_eq!(
        error(json!({}), json!({}), 16_777_217i32, 0f32),
        "the value 16777217 is not exact as float32"
    );
    assert_eq!(
        error(json!({}), json!({}), (1i64 << 53) + 1, 0f64),
        "the value 9007199254740993 is not exact as float64"
    );
}

#[test]
fn missing_values_become_those_of_the_target() {
    let (ours, theirs) = (json!({"_FillValue": -999}), json!({"_FillValue": -32767}));
    assert_converts(ours.clone(), theirs.clone(), &[1i16, -999, 3], &[1i16, -32767, 3]);
    assert_converts(ours.clone(), json!({}), &[1i16, -999], &[1f32, f32::NAN]);
    assert_converts(ours.clone(), json!({"_FillValue": fill_f32(1e20)}), &[-999i16], &[1e20f32]);
    assert_converts(json!({}), theirs.clone(), &[1f32, f32::NAN], &[1i16, -32767]);
    // What both mask stays what it is.
    let two = json!({"_FillValue": -32767, "missing_value": -999});
    assert_converts(ours.clone(), two, &[-999i16, 1], &[-999i16, 1]);
    // Float32 knows 1e20 as another number, which is compared as float64.
    let several = json!({"missing_value": [1.0, f64::from(1e20f32)]});
    assert_converts(several, json!({}), &[1f32, 1e20, 2.0], &[f64::NAN, f64::NAN, 2.0]);
    assert_converts(json!({"missing_value": 1e20}), json!({}), &[1e20f32], &[f64::from(1e20f32)]);
    assert_converts(json!({"missing_value": -999.0}), theirs, &[-999i16], &[-32767i16]);
}

#[test]
fn a_value_never_becomes_missing_nor_the_reverse() {
    let (ours, theirs) = (json!({"_FillValue": -999}), json!({"_FillValue": -32767}));
    assert_eq!(
        error(ours.clone(), theirs.clone(), -32767i16, 0i16),
        "the value -32767 means missing there (_FillValue or missing_value)"
    );
    assert_eq!(
        error(ours, json!({}), -999i16, 0i16),
        "the value -999 is missing, and nothing there means missing"
    );
    assert_eq!(
        error(json!({}), json!({}), f32::NAN, 0i32),
        "the value NaN is missing, and nothing there means missing"
    );
    // A byte is never -32767: nothing has to be looked at.
    let byte = decoding(DataType::UInt8, json!({}));
    let conversion = Conversion::between(&byte, &decoding(DataType::Int16, theirs)).unwrap();
    assert!(conversion.is_always_exact());
}

#[test]
fn numbers_that_readers_take_for_a_missing_one_are_errors() {
    // netCDF's default fill of int64: as float64 it is the same as its neighbours.
    let fill = i64::MIN + 2;
    let (ours, theirs) = (json!({"_FillValue": fill}), json!({"_FillValue": -1}));
    assert_converts(
        ours.clone(),
        theirs.clone(),
        &[fill, i64::MIN + 3000],
        &[-1i64, i64::MIN + 3000],
    );
    let sentence = "is so near to a missing value that readers take it for one";
    assert!(error(ours.clone(), theirs.clone(), fill + 1, 0i64).ends_with(sentence));
    assert!(error(theirs, ours.clone(), fill + 1, 0i64).ends_with(sentence));
    let same = decoding(DataType::Int64, json!({"_FillValue": fill, "missing_value": fill}));
    let ours = decoding(DataType::Int64, ours);
    assert!(Conversion::between(&ours, &same).unwrap().is_identity());
    let int = decoding(DataType::Int32, json!({}));
    assert!(Conversion::between(&int, &ours).unwrap().is_always_exact());
}

#[test]
fn the_fill_value_of_format_2_means_missing_and_that_of_format_3_does_not() {
    let fill = (-999i16).to_le_bytes();
    let of = |format| Decoding::of(DataType::Int16, &Attributes::new(), Some(&fill), format);
    assert_eq!(of(ZarrFormat::V2).masked(), [Scalar::Integer(-999)]);
    assert_eq!(of(ZarrFormat::V3).masked(), []);
}

#[test]
fn instants_are_told_in_the_units_of_the_target() {
    let target = json!({"units": "hours since 2000-01-01"});
    assert_converts(days(), target.clone(), &[0i32, 1], &[0i32, 24]);
    assert_converts(hours(), target.clone(), &[0i32, 6], &[48i32, 54]);
    assert_converts(days(), target.clone(), &[0.25f64, f64::NAN], &[6f64, f64::NAN]);
    assert_converts(days(), target, &[0.25f64, 1.5], &[6i64, 36]);
    assert_converts(hours(), days(), &[6f64, -48.0], &[2.25f64, 0.0]);
    assert_converts(hours(), days(), &[6i64], &[2.25f32]);
    // cftime.date2num(cftime.num2date(10, "days since 1582-10-01", "gregorian"), ..) = -152384 + 6
    let old = json!({"units": "days since 1582-10-01", "calendar": "gregorian"});
    assert_converts(old, days(), &[10i32], &[-152_378i32]);
    let noleap = |units: &str| json!({"units": units, "calendar": "365_day"});
    let (from, to) = (noleap("days since 2001-03-01"), noleap("hours since 2000-02-28"));
    assert_converts(from, to, &[0i16], &[8784i16]);
}

#[test]
fn instants_without_an_exact_counterpart_are_errors() {
    assert_eq!(
        error(hours(), days(), 6i32, 0i32),
        "the value 6 of `hours since 2000-01-03` has no exact counterpart in \
         `days since 2000-01-01` as int32"
    );
    // An hour is no float64 number of days; near the reference its nanosecond still is.
    assert_converts(hours(), days(), &[1f64], &[2f64 + 1.0 / 24.0]);
    let late = json!({"units": "hours since 1900-01-01"});
    assert!(error(late, days(), 1_000_001f64, 0f64).contains("no exact counterpart"));
    for endless in [f64::INFINITY, f64::MAX] {
        assert!(error(hours(), days(), endless, 0f64).contains("no exact counterpart"));
    }
    assert!(error(days(), hours(), i32::MAX, 0i32).contains("as int32"));
    // What xarray takes for a missing time must not become a time.
    assert!(
        error(days(), json!({"units": "days since 1999-01-01"}), i64::MIN, 0i64).contains("-92")
    );
}

#[test]
fn units_that_mean_the_same_change_nothing() {
    let other = json!({"units": "day since 2000-1-1 0:0:0 UTC", "calendar": "gregorian"});
    let (from, to) = (decoding(DataType::Float64, other), decoding(DataType::Float64, days()));
    assert!(Conversion::between(&from, &to).unwrap().is_identity());
}

#[test]
fn wide_integers_are_known_to_hold_times() {
    let hours = json!({"units": "hours since 2000-01-01"});
    let from = decoding(DataType::Int32, days());
    let into = |data_type| Conversion::between(&from, &decoding(data_type, hours.clone())).unwrap();
    assert!(into(DataType::Int64).is_always_exact());
    assert!(!into(DataType::Int32).is_always_exact());
    assert!(!into(DataType::Float64).is_always_exact());
}

#[test]
fn unsigned_bytes_are_the_same_however_they_are_stored() {
    let signed = json!({"_Unsigned": "true", "_FillValue": -1});
    let from = decoding(DataType::Int8, signed.clone());
    assert_eq!(from.value_type(), DataType::UInt8);
    assert_eq!(from.masked(), [Scalar::Integer(255)]);
    let to = decoding(DataType::UInt8, json!({"_FillValue": 255}));
    assert!(Conversion::between(&from, &to).unwrap().is_identity());
    assert_converts(signed.clone(), json!({"_FillValue": -1}), &[-2i8, -1], &[254i16, -1]);
    // `missing_value` is compared with the unsigned numbers, and 255 is no int8 for `_FillValue`.
    let missing = decoding(DataType::Int8, json!({"_Unsigned": "true", "missing_value": 255}));
    assert_eq!(missing.masked(), [Scalar::Integer(255)]);
    let missing = decoding(DataType::Int8, json!({"_Unsigned": "true", "missing_value": -1}));
    assert_eq!(missing.masked(), []);
    let unclear = decoding(DataType::Int8, json!({"_Unsigned": "true", "_FillValue": 255}));
    assert_eq!(unclear.unclear(), Some("_FillValue"));
    let unclear = decoding(DataType::UInt8, json!({"_Unsigned": "false", "_FillValue": 255}));
    assert_eq!(unclear.unclear(), Some("_FillValue"));
    let reverse = decoding(DataType::UInt8, json!({"_Unsigned": "false", "missing_value": -1}));
    assert_eq!(reverse.masked(), [Scalar::Integer(-1)]);
}

#[test]
fn what_a_conversion_cannot_make_up_for_is_refused_by_name() {
    let refusal = |from: Value, to: Value| {
        let (from, to) = (decoding(DataType::Int32, from), decoding(DataType::Int32, to));
        Conversion::between(&from, &to).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(json!({"units": "K"}), json!({"units": "degC"})),
        "units are `K` in one and `degC` in the other"
    );
    assert_eq!(
        refusal(json!({}), json!({"units": "K"})),
        "units are missing in one and `K` in the other"
    );
    assert_eq!(
        refusal(days(), json!({"units": "months since 2000-01-01"})),
        "units are `days since 2000-01-01` in one and `months since 2000-01-01` in the other"
    );
    assert_eq!(
        refusal(days(), json!({"units": "days since 2000-01-01", "calendar": "noleap"})),
        "calendars are missing in one and `noleap` in the other"
    );
    assert_eq!(
        refusal(json!({"scale_factor": 0.1}), json!({"scale_factor": 0.2})),
        "scale_factor or add_offset differ: --unpack stores the values unpacked"
    );
    assert_eq!(
        refusal(json!({"scale_factor": 1.0}), json!({})),
        "scale_factor or add_offset differ: --unpack stores the values unpacked"
    );
    assert_eq!(refusal(json!({"flag_meanings": "a b"}), json!({})), "`flag_meanings` differs");
    assert_eq!(refusal(json!({"dtype": "bool"}), json!({})), "`dtype` differs");
    assert!(refusal(json!({"missing_value": [null, 1]}), json!({})).contains("`missing_value`"));
    assert!(refusal(json!({"scale_factor": [1, 2]}), json!({})).contains("`scale_factor`"));
    // Equal down to the letter, even that is the same.
    let odd = json!({"missing_value": "none", "units": "months since 2000"});
    let odd = decoding(DataType::Int32, odd);
    assert!(Conversion::between(&odd, &odd).unwrap().is_identity());
    let packed = |units: &str| {
        let json = json!({"units": units, "scale_factor": 0.1});
        decoding(DataType::Int32, json)
    };
    let refusal =
        Conversion::between(&packed("days since 2000-01-01"), &packed("days since 2000-01-02"));
    assert_eq!(refusal, Err(ConversionRefusal::PackedTime));
    assert!(Conversion::between(&packed("K"), &packed("K")).unwrap().is_identity());
}

#[test]
fn texts_are_the_same_or_refused() {
    let text = |json| decoding(DataType::String, json);
    let plain = text(json!({}));
    assert!(Conversion::between(&plain, &plain).unwrap().is_identity());
    let masked = text(json!({"missing_value": "none"}));
    assert_eq!(
        Conversion::between(&plain, &masked).unwrap_err().to_string(),
        "`missing_value` differs"
    );
    let number = decoding(DataType::Int8, json!({}));
    assert!(Conversion::between(&plain, &number).is_err());
    let format_2 = |fill: &[u8]| {
        Decoding::of(DataType::String, &Attributes::new(), Some(fill), ZarrFormat::V2)
    };
    assert!(Conversion::between(&format_2(b""), &format_2(b"x")).is_err());
}

#[test]
fn bytes_that_are_no_elements_are_an_error() {
    let (from, to) = (decoding(DataType::Int16, json!({})), decoding(DataType::Int32, json!({})));
    let conversion = Conversion::between(&from, &to).unwrap();
    let error = conversion.apply(&[1, 0, 2], &mut Vec::new()).unwrap_err();
    assert_eq!((error.index, error.reason), (1, InexactReason::CutShort));
    let narrowing = Conversion::between(&to, &from).unwrap();
    let mut out = vec![7];
    let error = narrowing.apply(&bytes(&[1i32, 1 << 16]), &mut out).unwrap_err();
    assert_eq!((error.index, out), (1, vec![7]));
}

/// A common encoding for files whose values are known.
fn common(files: &[(DataType, Value, Vec<u8>)]) -> Result<Target, ConversionRefusal> {
    let decodings: Vec<Decoding> =
        files.iter().map(|(data_type, json, _)| decoding(*data_type, json.clone())).collect();
    let values: Vec<Option<&[u8]>> = files.iter().map(|file| Some(file.2.as_slice())).collect();
    let target = common_encoding(&decodings.iter().collect::<Vec<_>>(), &values)?;
    Ok(target.unwrap())
}

fn converted(target: &Target, file: &(DataType, Value, Vec<u8>)) -> Vec<u8> {
    let from = decoding(file.0, file.1.clone());
    let mut out = Vec::new();
    let conversion = Conversion::between(&from, &target.decoding).unwrap();
    conversion.apply(&file.2, &mut out).unwrap();
    out
}

#[test]
fn days_and_hours_become_hours_since_the_first_date() {
    let first = (DataType::Int32, days(), bytes(&[0i32, 1]));
    let second = (DataType::Int32, hours(), bytes(&[0i32, 6]));
    let files = [first, second];
    let target = common(&files).unwrap();
    assert_eq!(target.data_type, DataType::Int32);
    assert_eq!(Value::Object(target.set.clone()), json!({"units": "hours since 2000-01-01"}));
    let all: Vec<u8> = files.iter().flat_map(|file| converted(&target, file)).collect();
    assert_eq!(all, bytes(&[0i32, 24, 48, 54]));
    // Without the values: hours as well, in a type that holds every number of both.
    let decodings = files.clone().map(|file| decoding(file.0, file.1));
    let target = common_encoding(&[&decodings[0], &decodings[1]], &[]).unwrap().unwrap();
    assert_eq!(target.data_type, DataType::Int64);
    assert_eq!(target.set["units"], "hours since 2000-01-01");
}

#[test]
fn the_units_of_the_first_stay_where_all_values_are_exact_in_them() {
    let whole_days = (DataType::Int32, hours(), bytes(&[24i32]));
    let first = (DataType::Int32, days(), bytes(&[0i32]));
    let target = common(&[first.clone(), whole_days.clone()]).unwrap();
    assert_eq!((target.data_type, target.set.len()), (DataType::Int32, 0));
    assert_eq!(converted(&target, &whole_days), bytes(&[3i32]));
    let float = (DataType::Float64, hours(), bytes(&[6f64]));
    let target = common(&[first, float.clone()]).unwrap();
    assert_eq!((target.data_type, target.set.get("units")), (DataType::Float64, None));
    assert_eq!(converted(&target, &float), bytes(&[2.25f64]));
}

#[test]
fn integers_that_get_too_large_become_int64() {
    let first = (DataType::Int16, days(), bytes(&[0i16, 3000]));
    let target = common(&[first.clone(), (DataType::Int16, hours(), bytes(&[1i16]))]).unwrap();
    assert_eq!(target.data_type, DataType::Int64);
    assert_eq!(converted(&target, &first), bytes(&[0i64, 72000]));
}

#[test]
fn the_smallest_type_that_holds_all_is_chosen() {
    use DataType::{
        Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
    };
    for (types, expected) in [
        (vec![Int16, Int8], Int16),
        (vec![Int16, Int32], Int32),
        (vec![UInt8, Int8], Int16),
        (vec![Int32, UInt16], Int32),
        (vec![Int32, UInt32], Int64),
        (vec![Int8, Float16], Float16),
        (vec![Int16, Float16], Float32),
        (vec![Float32, Float16], Float32),
        (vec![Int16, Float32], Float32),
        (vec![Float64, Float32], Float64),
        (vec![Int32, Float32], Float64),
    ] {
        let all: Vec<Decoding> = types.iter().map(|one| decoding(*one, json!({}))).collect();
        let all: Vec<&Decoding> = all.iter().collect();
        let target = common_encoding(&all, &[]).unwrap().unwrap();
        assert_eq!(target.data_type, expected, "{types:?}");
        assert!(all.iter().all(|from| {
            Conversion::between(from, &target.decoding).unwrap().is_always_exact()
        }));
    }
    for (types, sentence) in [
        ([Int64, Float64], "no type holds all numbers of float64 and int64"),
        ([Int64, UInt64], "no type holds all numbers of int64 and uint64"),
    ] {
        let all = types.map(|one| decoding(one, json!({})));
        let refusal = common_encoding(&[&all[0], &all[1]], &[]).unwrap_err();
        assert_eq!(refusal.to_string(), sentence);
    }
    let wide = (Int64, json!({}), bytes(&[1i64 << 53]));
    let float = (Float64, json!({}), bytes(&[0.5f64]));
    assert_eq!(common(&[wide, float.clone()]).unwrap().data_type, Float64);
    let wider = (Int64, json!({}), bytes(&[(1i64 << 53) + 1]));
    assert!(common(&[wider, float]).is_err());
}

#[test]
fn the_fill_of_the_first_stays_unless_a_value_has_it() {
    let first = (DataType::Int16, json!({"_FillValue": -32767}), bytes(&[1i16, -32767]));
    let other = |value: i16| (DataType::Int16, json!({"_FillValue": -999}), bytes(&[value, -999]));
    let target = common(&[first.clone(), other(2)]).unwrap();
    assert!(target.set.is_empty());
    assert_eq!(converted(&target, &other(2)), bytes(&[2i16, -32767]));
    let target = common(&[first.clone(), other(-32767)]).unwrap();
    assert_eq!(Value::Object(target.set.clone()), json!({"_FillValue": -999}));
    assert_eq!(target.fill_value, Some(bytes(&[-999i16])));
    assert_eq!(converted(&target, &first), bytes(&[1i16, -999]));
    let both = (first.0, first.1, bytes(&[-999i16]));
    let refusal = common(&[both, other(-32767)]).unwrap_err().to_string();
    assert!(refusal.starts_with("the value -32767 means missing there"), "{refusal}");
}

#[test]
fn a_fill_is_taken_over_where_the_first_has_none() {
    let first = (DataType::Int16, json!({}), bytes(&[1i16]));
    let other = (DataType::Int16, json!({"_FillValue": -999}), bytes(&[-999i16]));
    let target = common(&[first, other.clone()]).unwrap();
    assert_eq!(target.set["_FillValue"], -999);
    assert_eq!(converted(&target, &other), bytes(&[-999i16]));
    let float = (DataType::Float32, json!({}), bytes(&[1f32]));
    let target = common(&[float, other.clone()]).unwrap();
    assert!(target.set.is_empty());
    assert_eq!(converted(&target, &other), f32::NAN.to_le_bytes());
}

#[test]
fn a_fill_goes_into_the_wider_type_as_readers_expect_it() {
    let first = (DataType::Int16, json!({"_FillValue": -999}), bytes(&[-999i16]));
    let float = (DataType::Float32, json!({}), bytes(&[0.5f32]));
    let target = common(&[first.clone(), float]).unwrap();
    assert_eq!(target.set["_FillValue"], fill_f32(-999.0));
    assert_eq!(target.decoding.masked(), [Scalar::Single(-999.0)]);
    assert_eq!(converted(&target, &first), bytes(&[-999f32]));
    // In format 2 it is Zarr's fill value.
    let of = |data_type, fill: Vec<u8>| {
        Decoding::of(data_type, &Attributes::new(), Some(&fill), ZarrFormat::V2)
    };
    let (narrow, wide) = (of(DataType::Int16, bytes(&[-999i16])), of(DataType::Int32, bytes(&[7])));
    let target = common_encoding(&[&narrow, &wide], &[]).unwrap().unwrap();
    assert!(target.set.is_empty());
    assert_eq!(target.fill_value, Some(bytes(&[-999i32])));
    assert_eq!(target.decoding.masked(), [Scalar::Integer(-999)]);
}

#[test]
fn unsigned_bytes_and_short_integers_find_a_type_without_the_attribute() {
    let first =
        (DataType::Int8, json!({"_Unsigned": "true", "_FillValue": -1}), bytes(&[-2i8, -1]));
    let other = (DataType::Int16, json!({"_FillValue": -9}), bytes(&[-300i16, -9]));
    let target = common(&[first.clone(), other.clone()]).unwrap();
    assert_eq!((target.data_type, &target.removed), (DataType::Int16, &vec!["_Unsigned"]));
    assert_eq!(target.set["_FillValue"], 255);
    assert_eq!(converted(&target, &first), bytes(&[254i16, 255]));
    assert_eq!(converted(&target, &other), bytes(&[-300i16, 255]));
}

#[test]
fn times_that_no_unit_makes_exact_are_refused_with_the_value() {
    let long_ago = json!({"units": "hours since 1000-01-01"});
    let first = (DataType::Float64, long_ago, bytes(&[0f64]));
    // In minutes since then it is a whole number.
    let six_minutes = (DataType::Float64, days(), bytes(&[1.0 / 240.0]));
    let target = common(&[first.clone(), six_minutes]).unwrap();
    assert_eq!(target.set["units"], "minutes since 1000-01-01");
    let odd = (DataType::Float64, days(), bytes(&[0.123_456_789]));
    let refusal = common(&[first, odd]).unwrap_err().to_string();
    assert!(refusal.starts_with("the value 0.123456789 of `days since 2000-01-01`"), "{refusal}");
}

#[test]
fn bounds_have_the_units_of_their_coordinate() {
    let time =
        decoding(DataType::Int32, json!({"units": "days since 2000-01-01", "calendar": "noleap"}));
    let bounds = decoding(DataType::Int32, json!({}));
    assert_eq!(bounds.with_time_of(&time).time(), time.time());
    let own = decoding(DataType::Int32, json!({"units": "hours since 2000-01-01"}));
    assert_eq!(own.with_time_of(&time).time(), own.time());
}

/// Bits of the values that xarray makes of packed ones.
fn unpacked<T: Raw>(
    raw: &[T],
    json: Value,
    scale: Option<Scalar>,
    offset: Option<Scalar>,
) -> Vec<u8> {
    let from = decoding(T::TYPE, json.clone());
    let unpacking = Unpacking::new(from.value_type(), scale, offset).unwrap();
    let to = unpacking.unpacked(&attributes(json), ZarrFormat::V3).unwrap();
    let mut out = Vec::new();
    let conversion = Conversion::unpacking(&from, unpacking, &to.decoding).unwrap();
    conversion.apply(&bytes(raw), &mut out).unwrap();
    out
}

#[test]
fn unpacked_values_have_the_bits_that_xarray_computes() {
    use Scalar::{Double, Integer, Single};
    let (scale, offset) = (Some(Single(0.01)), Some(Single(273.15)));
    let raw = [0i16, 1, -7, 12345, -32767, 32767];
    let filled = json!({"_FillValue": -32767});
    assert_eq!(
        unpacked(&raw, filled.clone(), Some(Double(0.01)), Some(Double(273.15))),
        bytes(&[
            0x4071_1266_6666_6666u64,
            0x4071_128f_5c28_f5c2,
            0x4071_1147_ae14_7ae1,
            0x4078_c999_9999_9999,
            0x7ff8_0000_0000_0000,
            0x4082_c68f_5c28_f5c2,
        ])
    );
    assert_eq!(
        unpacked(&raw, filled, scale, offset),
        bytes(&[0x4388_9333u32, 0x4388_947b, 0x4388_8a3d, 0x43c6_4ccc, 0x7fc0_0000, 0x4416_347a])
    );
    assert_eq!(unpacked(&raw[1..3], json!({}), scale, None), bytes(&[0x3c23_d70au32, 0xbd8f_5c29]));
    assert_eq!(
        unpacked(&raw[1..3], json!({}), None, Some(Single(0.1))),
        bytes(&[0x3ff1_9999_9a00_0000u64, 0xc01b_9999_9980_0000])
    );
    assert_eq!(
        unpacked(&raw[3..], json!({}), scale, Some(Double(273.15))),
        bytes(&[0x4078_c999_96b4_e666u64, 0xc04b_428f_1eb8_ccd0, 0x4082_c68f_5851_f333])
    );
    assert_eq!(
        unpacked(&raw[3..], json!({}), Some(Integer(3)), Some(Integer(7))),
        bytes(&[0x40e2_1640_0000_0000u64, 0xc0f7_ff60_0000_0000, 0x40f8_0040_0000_0000])
    );
    assert_eq!(
        unpacked(&[123_456_789i32, i32::MIN], json!({}), scale, offset),
        bytes(&[0x4132_d799_032c_9748u64, 0xc174_7ad0_2d99_a000])
    );
    assert_eq!(
        unpacked(&[123_456_789i32, i32::MIN], json!({}), scale, None),
        bytes(&[0x4996_b43fu32, 0xcba3_d70a])
    );
    assert_eq!(
        unpacked(&[(1i64 << 53) + 1], json!({}), Some(Double(0.1)), None),
        bytes(&[0x4309_9999_9999_999au64])
    );
    assert_eq!(
        unpacked(&[0.1f32, f32::NAN], json!({}), scale, offset),
        bytes(&[0x4388_9354u32, 0x7fc0_0000])
    );
    assert_eq!(unpacked(&[0.1f64], json!({}), scale, offset), bytes(&[0x4388_9354u32]));
    assert_eq!(
        unpacked(
            &[0i8, -1, -2, 127],
            json!({"_Unsigned": "true", "_FillValue": -1}),
            Some(Double(0.5)),
            Some(Double(1.0))
        ),
        bytes(&[
            0x3ff0_0000_0000_0000u64,
            0x7ff8_0000_0000_0000,
            0x4060_0000_0000_0000,
            0x4050_2000_0000_0000
        ])
    );
}

#[test]
fn unpacked_arrays_have_no_attributes_of_packed_values() {
    let packed = json!({
        "units": "K", "scale_factor": 0.1, "add_offset": 1, "_FillValue": -1, "missing_value": -1,
        "_Unsigned": "true", "long_name": "t"
    });
    let unpacking = Unpacking::of(&decoding(DataType::Int16, packed.clone())).unwrap();
    let unpacked = unpacking.unpacked(&attributes(packed), ZarrFormat::V3).unwrap();
    assert_eq!(unpacked.data_type, DataType::Float64);
    assert_eq!(unpacked.fill_value, f64::NAN.to_le_bytes());
    assert_eq!(
        Value::Object(unpacked.attributes),
        json!({"units": "K", "long_name": "t", "_FillValue": "AAAAAAAA+H8="})
    );
    let integer = decoding(DataType::Int16, json!({"scale_factor": 2}));
    assert_eq!(Unpacking::of(&integer), Err(ConversionRefusal::IntegerScale));
    assert!(Unpacking::of(&decoding(DataType::Int16, json!({}))).is_err());
}

#[test]
fn values_that_are_unpacked_in_different_ways_go_into_one_array() {
    let from = decoding(DataType::Int16, json!({"scale_factor": 0.5, "units": "K"}));
    let to = decoding(DataType::Float64, json!({"units": "K"}));
    let unpacking = Unpacking::new(DataType::Int16, Some(Scalar::Single(0.5)), None).unwrap();
    let conversion = Conversion::unpacking(&from, unpacking, &to).unwrap();
    let mut out = Vec::new();
    conversion.apply(&bytes(&[3i16]), &mut out).unwrap();
    assert_eq!(out, bytes(&[1.5f64]));
    assert!(conversion.is_always_exact() && !conversion.is_identity());
    let other_units = decoding(DataType::Float64, json!({"units": "degC"}));
    assert!(Conversion::unpacking(&from, unpacking, &other_units).is_err());
}

#[test]
fn keys_of_an_axis_compare_as_what_they_mean() {
    let keys = |data_type, json, raw: Vec<u8>| axis_keys(&decoding(data_type, json), &raw).unwrap();
    let first = keys(DataType::Int32, days(), bytes(&[0i32, 2]));
    let second = keys(DataType::Float64, hours(), bytes(&[0f64, 6.0]));
    assert!(first[1] == second[0] && first[1] < second[1] && first[0] < second[0]);
    let scaled = keys(DataType::Int16, json!({"scale_factor": 0.5}), bytes(&[5i16]));
    assert!(matches!(scaled[..], [AxisKey::Float(2.5)]));
    let whole = keys(DataType::UInt8, json!({}), bytes(&[2u8, 3]));
    assert!(whole[0] < scaled[0] && scaled[0] < whole[1]);
    let packed_time = json!({"units": "days since 2000-01-01", "scale_factor": 0.5});
    assert_eq!(keys(DataType::Int16, packed_time, bytes(&[4i16]))[0], first[1]);
    let texts = keys(DataType::String, json!({}), b"\x01\0\0\0b\x02\0\0\0ab".to_vec());
    assert!(texts[1] < texts[0] && first[0] < texts[1]);
    let large = AxisKey::Integer((1 << 53) + 1);
    assert!(AxisKey::Float(9_007_199_254_740_992.0) < large);
    assert!(large < AxisKey::Float(f64::INFINITY) && AxisKey::Float(f64::NEG_INFINITY) < large);
    assert!(
        AxisKey::Float(-0.5) < AxisKey::Integer(0) && AxisKey::Integer(-1) < AxisKey::Float(-0.5)
    );
    assert_eq!(AxisKey::Float(-0.0), AxisKey::Integer(0));
}

#[test]
fn an_axis_with_a_missing_value_is_refused_with_its_place() {
    let error = |data_type, json, raw: Vec<u8>| {
        axis_keys(&decoding(data_type, json), &raw).unwrap_err().to_string()
    };
    let missing = "the value at index 1 is missing";
    assert_eq!(error(DataType::Float32, json!({}), bytes(&[0f32, f32::NAN])), missing);
    let filled = json!({"_FillValue": -9});
    assert_eq!(error(DataType::Int32, filled, bytes(&[0i32, -9])), missing);
    assert_eq!(error(DataType::Int64, days(), bytes(&[0i64, i64::MIN])), missing);
    assert!(error(DataType::Float64, days(), bytes(&[f64::INFINITY])).contains("no time"));
    assert!(error(DataType::Int32, json!({}), vec![0; 6]).contains("index 1 is cut short"));
    assert!(error(DataType::String, json!({}), b"\x09\0\0\0a".to_vec()).contains("cut short"));
    assert!(error(DataType::String, json!({}), b"\x01\0\0\0\xff".to_vec()).contains("UTF-8"));
}

#[test]
fn a_day_has_the_date_that_it_was_made_of() {
    for calendar in [
        Calendar::Standard,
        Calendar::ProlepticGregorian,
        Calendar::NoLeap,
        Calendar::AllLeap,
        Calendar::Days360,
        Calendar::Julian,
    ] {
        for date in
            [(1582, 10, 4), (1582, 10, 15), (2000, 2, 28), (2024, 12, 30), (1, 1, 1), (-1, 5, 9)]
        {
            let day = calendar.day_number(date.0, date.1, date.2).unwrap();
            assert_eq!(calendar.date(day), Some(date), "{calendar:?}");
        }
    }
    let units = TimeUnits::parse("hours since 2000-01-01", None).unwrap();
    let instant = units.instant_ns(30).unwrap();
    assert_eq!(units.date_text(instant), "2000-01-02T06:00:00");
    assert_eq!(units.date_text(units.instant_ns(24).unwrap()), "2000-01-02");
}
