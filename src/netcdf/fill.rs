//! What elements read as that were never written.

use super::schema::{Attribute, AttributeValue, DataType};

/// The default fill values of netCDF-C (`netcdf.h`, `NC_FILL_*`), as little-endian bytes of one
/// element. Empty for types without fixed size.
pub(super) fn default_fill(data_type: DataType) -> Vec<u8> {
    match data_type {
        DataType::I8 => (-127_i8).to_le_bytes().to_vec(),
        DataType::U8 => vec![255],
        DataType::I16 => (-32767_i16).to_le_bytes().to_vec(),
        DataType::U16 => 65535_u16.to_le_bytes().to_vec(),
        DataType::I32 => (-2_147_483_647_i32).to_le_bytes().to_vec(),
        DataType::U32 => u32::MAX.to_le_bytes().to_vec(),
        DataType::I64 => (-9_223_372_036_854_775_806_i64).to_le_bytes().to_vec(),
        DataType::U64 => 18_446_744_073_709_551_614_u64.to_le_bytes().to_vec(),
        // netCDF knows no such type; this is what HDF5 has where a file says nothing.
        DataType::F16 => vec![0; 2],
        DataType::F32 => 9.969_21e36_f32.to_le_bytes().to_vec(),
        DataType::F64 => 9.969_209_968_386_869e36_f64.to_le_bytes().to_vec(),
        DataType::Char => vec![0],
        DataType::String | DataType::Other => Vec::new(),
    }
}

/// The `_FillValue` attribute if it is one value of the variable's own type.
pub(super) fn attribute_fill(attributes: &[Attribute], data_type: DataType) -> Option<Vec<u8>> {
    let attribute = attributes.iter().find(|attribute| attribute.name == "_FillValue")?;
    match (&attribute.value, data_type) {
        (AttributeValue::I8(value), DataType::I8) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::U8(value), DataType::U8) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::I16(value), DataType::I16) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::U16(value), DataType::U16) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::I32(value), DataType::I32) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::U32(value), DataType::U32) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::I64(value), DataType::I64) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::U64(value), DataType::U64) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::F16(value), DataType::F16) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::F32(value), DataType::F32) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::F64(value), DataType::F64) => one(value, |v| v.to_le_bytes().to_vec()),
        (AttributeValue::Text(text), DataType::Char) if text.len() == 1 => {
            Some(text.as_bytes().to_vec())
        }
        _ => None,
    }
}

fn one<T: Copy>(values: &[T], bytes: impl Fn(T) -> Vec<u8>) -> Option<Vec<u8>> {
    match values {
        [value] => Some(bytes(*value)),
        _ => None,
    }
}
