//! What a NetCDF file contains, the same for the classic and the NetCDF-4 formats.
//!
//! Shapes and origins count elements, offsets and sizes count bytes. Names are as netCDF-C shows
//! them (hidden prefixes and hidden attributes removed). Nothing here is read lazily.

use std::fmt;

use half::f16;

/// The on-disk format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// CDF-1, CDF-2 or CDF-5; the number is the version byte (1, 2, 5).
    Classic(u8),
    /// NetCDF-4 or plain HDF5.
    Hdf5,
}

/// Everything a file declares.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The on-disk format.
    pub format: Format,
    /// The root group; classic files have only this one.
    pub root: Group,
}

/// A group: a scope for dimensions with variables, attributes and child groups in file order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// Name without its parents; empty for the root.
    pub name: String,
    /// Dimensions declared here (children inherit them by name).
    pub dimensions: Vec<Dimension>,
    /// Variables of this group.
    pub variables: Vec<Variable>,
    /// Attributes of this group.
    pub attributes: Vec<Attribute>,
    /// Child groups.
    pub groups: Vec<Group>,
}

/// A dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    /// Name.
    pub name: String,
    /// Current length in elements.
    pub length: u64,
    /// Whether it can grow.
    pub unlimited: bool,
}

/// Names a variable of one file; dense, in file order, unique over all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub usize);

/// A variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Identity within the file.
    pub id: VariableId,
    /// Name without the group.
    pub name: String,
    /// Names of its dimensions, outermost first; they resolve through the enclosing groups.
    pub dimensions: Vec<String>,
    /// Length of each dimension in elements.
    pub shape: Vec<u64>,
    /// Element type.
    pub data_type: DataType,
    /// Attributes in file order, without those that netCDF-C hides. `_FillValue` is among them
    /// when the file has it.
    pub attributes: Vec<Attribute>,
    /// Shape in elements of the chunks that [`ChunkLocation`]s of this variable come in. For
    /// contiguous and classic data this is a grid made up by the reader, and
    /// [`chunked`](Self::chunked) is false. Never zero in any dimension; empty for scalars.
    pub chunk_shape: Vec<u64>,
    /// Whether the file itself stores the variable in chunks of `chunk_shape`.
    pub chunked: bool,
    /// What an element that was never written reads as, as little-endian bytes of one element;
    /// of a text its UTF-8. Empty for types without counterpart.
    pub fill: Vec<u8>,
    /// Why this variable's values cannot be read, in words for the user ("compound type `xyz`",
    /// "filter 32001 (blosc)"). `None` when they can.
    pub unsupported: Option<String>,
}

/// Element types. Integers and floats are delivered little-endian whatever the file's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataType {
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit signed integer.
    I64,
    /// 64-bit unsigned integer.
    U64,
    /// IEEE 754 half precision, which HDF5 knows and netCDF does not.
    F16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// One byte of text (classic `char`, HDF5 string of length one).
    Char,
    /// Text of any length.
    String,
    /// Anything else; [`Variable::unsupported`] says what.
    Other,
}

impl DataType {
    /// Bytes of one element; `None` where elements have no fixed size.
    pub fn size(self) -> Option<usize> {
        match self {
            Self::I8 | Self::U8 | Self::Char => Some(1),
            Self::I16 | Self::U16 | Self::F16 => Some(2),
            Self::I32 | Self::U32 | Self::F32 => Some(4),
            Self::I64 | Self::U64 | Self::F64 => Some(8),
            Self::String | Self::Other => None,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::I16 => "int16",
            Self::U16 => "uint16",
            Self::I32 => "int32",
            Self::U32 => "uint32",
            Self::I64 => "int64",
            Self::U64 => "uint64",
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::Char => "char",
            Self::String => "string",
            Self::Other => "user-defined type",
        })
    }
}

/// An attribute.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute {
    /// Name.
    pub name: String,
    /// Value with its type.
    pub value: AttributeValue,
}

/// The value of an attribute. One-element numeric vectors are scalars in netCDF's model.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the variants are the element types of DataType")]
pub enum AttributeValue {
    /// One text.
    Text(String),
    /// Several texts (NetCDF-4 string attributes).
    Texts(Vec<String>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    F16(Vec<f16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Numbers in several dimensions, as the parts along the first. Only HDF5 has such attributes.
    Nested(Vec<AttributeValue>),
    /// A value that has no counterpart, with the reason in words for the user.
    Unsupported(String),
}

/// Where one chunk of a variable lies in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkLocation {
    /// The variable it belongs to.
    pub variable: VariableId,
    /// First element in each dimension; a multiple of [`Variable::chunk_shape`].
    pub origin: Vec<u64>,
    /// Offset of its first stored byte.
    pub offset: u64,
    /// Stored (encoded) bytes. Where a chunk gathers several records of a classic file they are
    /// not adjacent, and other variables' bytes lie between them: see
    /// [`NetcdfFile::stored_ranges`](super::NetcdfFile::stored_ranges).
    pub size: u64,
    /// HDF5 filter mask: bit *n* set means that filter *n* of the pipeline was skipped.
    pub filter_mask: u32,
    /// Most bytes that the texts of the chunk have together; 0 for types of a fixed size.
    pub text_bytes: u64,
}
