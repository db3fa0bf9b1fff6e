//! Element types of Zarr arrays and the bytes of one element.
//!
//! Numbers of a fixed size, single characters and texts are known; everything that reads a document
//! must treat another name as unsupported and never as one of these.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A data type of the Zarr v3 core specification, or one for texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the variants are the names of the specification")]
pub enum DataType {
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Float16,
    Float32,
    Float64,
    /// One byte of text: zarr-python's `null_terminated_bytes` of length 1, which it shows as
    /// numpy's `S1`. Not registered.
    #[serde(rename = "null_terminated_bytes")]
    Char,
    /// UTF-8 of any length: `string` of <https://github.com/zarr-developers/zarr-extensions>.
    String,
}

/// What kind of value a type holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Two's complement integer.
    Signed,
    /// Unsigned integer.
    Unsigned,
    /// IEEE 754 binary floating point.
    Float,
    /// Bytes that mean characters.
    Text,
}

/// Every known type with its v3 name and its v2 (numpy, little-endian) name.
const NAMES: [(DataType, &str, &str); 13] = [
    (DataType::Int8, "int8", "|i1"),
    (DataType::UInt8, "uint8", "|u1"),
    (DataType::Int16, "int16", "<i2"),
    (DataType::UInt16, "uint16", "<u2"),
    (DataType::Int32, "int32", "<i4"),
    (DataType::UInt32, "uint32", "<u4"),
    (DataType::Int64, "int64", "<i8"),
    (DataType::UInt64, "uint64", "<u8"),
    (DataType::Float16, "float16", "<f2"),
    (DataType::Float32, "float32", "<f4"),
    (DataType::Float64, "float64", "<f8"),
    (DataType::Char, "null_terminated_bytes", "|S1"),
    (DataType::String, "string", "|O"),
];

impl DataType {
    /// Bytes of one element; of a string those that state its length, so the least it can have.
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::UInt8 | Self::Char => 1,
            Self::Int16 | Self::UInt16 | Self::Float16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 | Self::String => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 => 8,
        }
    }

    /// The zero, the character NUL, the empty text.
    pub fn zero(self) -> Vec<u8> {
        match self {
            Self::String => Vec::new(),
            fixed => vec![0; fixed.size()],
        }
    }

    /// What its elements are.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 => Kind::Signed,
            Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64 => Kind::Unsigned,
            Self::Float16 | Self::Float32 | Self::Float64 => Kind::Float,
            Self::Char | Self::String => Kind::Text,
        }
    }

    /// `data_type` of a v3 document.
    pub fn name_v3(self) -> &'static str {
        self.names().1
    }

    /// `dtype` of a v2 document, little-endian.
    pub fn name_v2(self) -> &'static str {
        self.names().2
    }

    /// The type with this v3 name.
    pub fn from_name_v3(name: &str) -> Option<Self> {
        NAMES.iter().find(|names| names.1 == name).map(|names| names.0)
    }

    /// The type with this v2 name. Big-endian types have none: their bytes differ.
    pub fn from_name_v2(name: &str) -> Option<Self> {
        // numpy writes `|i1`, other writers `<i1`: a byte has no order.
        let name = match name {
            "<i1" => "|i1",
            "<u1" => "|u1",
            name => name,
        };
        NAMES.iter().find(|names| names.2 == name).map(|names| names.0)
    }

    fn names(self) -> &'static (Self, &'static str, &'static str) {
        // The table holds every variant (a test says so); the first row is never the answer to a
        // type that is missing from it.
        NAMES.iter().find(|names| names.0 == self).unwrap_or(&NAMES[0])
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name_v3())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_found_under_both_of_its_names() {
        for (data_type, v3, v2) in NAMES {
            assert_eq!(data_type.name_v3(), v3);
            assert_eq!(DataType::from_name_v3(v3), Some(data_type));
            assert_eq!(DataType::from_name_v2(v2), Some(data_type));
            assert_eq!(serde_json::to_value(data_type).unwrap(), v3);
        }
        assert_eq!(DataType::from_name_v2(">f4"), None);
        assert_eq!(DataType::from_name_v3("complex64"), None);
    }
}
