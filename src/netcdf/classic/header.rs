//! Parser for the header of a classic file. It reads as far as the header goes and no further, so
//! that it can follow a growing file.

use crate::netcdf::bytes::read_vec;
use crate::netcdf::error::NetcdfError;
use crate::netcdf::schema::{Attribute, AttributeValue, DataType};
use crate::netcdf::source::ByteSource;
use crate::netcdf::text;

const TAG_DIMENSION: u32 = 0x0a;
const TAG_VARIABLE: u32 = 0x0b;
const TAG_ATTRIBUTE: u32 = 0x0c;

/// Headers are kilobytes; a longer one is a damaged count. Bounds the memory of the parsed form.
const HEADER_BYTES_MAX: u64 = 64 << 20;

/// `NC_MAX_VAR_DIMS` of netCDF-C.
const RANK_MAX: u64 = 1024;

/// The parsed header.
#[derive(Debug)]
pub(super) struct Header {
    /// `None` when the writer left it open ("streaming").
    pub(super) records: Option<u64>,
    pub(super) dimensions: Vec<(String, u64)>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) variables: Vec<HeaderVariable>,
    /// First byte behind the header.
    pub(super) end: u64,
}

/// A variable as the header declares it.
#[derive(Debug)]
pub(super) struct HeaderVariable {
    pub(super) name: String,
    /// Indexes into the dimensions, checked.
    pub(super) dimensions: Vec<usize>,
    pub(super) attributes: Vec<Attribute>,
    pub(super) data_type: DataType,
    /// Offset of the first value.
    pub(super) begin: u64,
}

pub(super) fn read(source: &dyn ByteSource, version: u8) -> Result<Header, NetcdfError> {
    let mut reader = Reader { source, at: 4, wide: version == 5 };
    let records = reader.count("the number of records")?;
    let open_ended = if reader.wide { u64::MAX } else { u64::from(u32::MAX) };
    let dimensions = reader.list(TAG_DIMENSION, "the list of dimensions", |reader| {
        Ok((reader.name()?, reader.count("the length of a dimension")?))
    })?;
    let attributes = reader.attributes()?;
    let count = dimensions.len();
    let variables = reader
        .list(TAG_VARIABLE, "the list of variables", |reader| reader.variable(count, version))?;
    Ok(Header {
        records: (records != open_ended).then_some(records),
        dimensions,
        attributes,
        variables,
        end: reader.at,
    })
}

struct Reader<'a> {
    source: &'a dyn ByteSource,
    at: u64,
    /// CDF-5: counts have eight bytes.
    wide: bool,
}

impl Reader<'_> {
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>, NetcdfError> {
        let end = self.at.saturating_add(length);
        if end > HEADER_BYTES_MAX {
            return Err(self.corrupt(format!("it is longer than {HEADER_BYTES_MAX} bytes")));
        }
        let bytes = read_vec(self.source, self.at, length)?;
        self.at = end;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], NetcdfError> {
        let bytes = self.bytes(N as u64)?;
        bytes.try_into().map_err(|_bytes| self.corrupt("it is cut short"))
    }

    fn u32(&mut self) -> Result<u32, NetcdfError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, NetcdfError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A `NON_NEG`: four bytes, eight in CDF-5. All ones is left to the caller.
    fn count(&mut self, what: &str) -> Result<u64, NetcdfError> {
        let (value, max, open) = if self.wide {
            (self.u64()?, i64::MAX as u64, u64::MAX)
        } else {
            (u64::from(self.u32()?), i32::MAX as u64, u64::from(u32::MAX))
        };
        if value > max && value != open {
            return Err(self.corrupt(format!("{what} is negative")));
        }
        Ok(value)
    }

    /// A tagged list; the elements are read one by one, so a made-up count ends with the file.
    fn list<T>(
        &mut self,
        tag: u32,
        what: &str,
        mut element: impl FnMut(&mut Self) -> Result<T, NetcdfError>,
    ) -> Result<Vec<T>, NetcdfError> {
        let found = self.u32()?;
        let count = self.count(what)?;
        if found != tag && (found != 0 || count != 0) {
            return Err(self.corrupt(format!("{what} starts with tag {found}")));
        }
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(elements)
    }

    /// Bytes padded to a multiple of four.
    fn padded(&mut self, length: u64) -> Result<Vec<u8>, NetcdfError> {
        let padding = length.wrapping_neg() & 3;
        let mut bytes = self.bytes(length.saturating_add(padding))?;
        bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn name(&mut self) -> Result<String, NetcdfError> {
        let length = self.count("the length of a name")?;
        let name = text::name(&self.padded(length)?);
        if name.is_empty() {
            return Err(self.corrupt("a name is empty"));
        }
        Ok(name)
    }

    fn attributes(&mut self) -> Result<Vec<Attribute>, NetcdfError> {
        self.list(TAG_ATTRIBUTE, "a list of attributes", |reader| {
            let name = reader.name()?;
            let data_type = reader.data_type()?;
            let count = reader.count("the length of an attribute")?;
            let size = data_type.size().unwrap_or(1) as u64;
            let bytes = reader.padded(count.saturating_mul(size))?;
            Ok(Attribute { name, value: value(data_type, &bytes) })
        })
    }

    fn data_type(&mut self) -> Result<DataType, NetcdfError> {
        let code = self.u32()?;
        match code {
            1 => Ok(DataType::I8),
            2 => Ok(DataType::Char),
            3 => Ok(DataType::I16),
            4 => Ok(DataType::I32),
            5 => Ok(DataType::F32),
            6 => Ok(DataType::F64),
            7 if self.wide => Ok(DataType::U8),
            8 if self.wide => Ok(DataType::U16),
            9 if self.wide => Ok(DataType::U32),
            10 if self.wide => Ok(DataType::I64),
            11 if self.wide => Ok(DataType::U64),
            _ => Err(self.corrupt(format!("{code} is not a type"))),
        }
    }

    fn variable(&mut self, dimensions: usize, version: u8) -> Result<HeaderVariable, NetcdfError> {
        let name = self.name()?;
        let rank = self.count("a number of dimensions")?;
        if rank > RANK_MAX {
            return Err(self.corrupt(format!("variable `{name}` has {rank} dimensions")));
        }
        let mut ids = Vec::new();
        for _ in 0..rank {
            let id = self.count("a dimension of a variable")?;
            match usize::try_from(id) {
                Ok(id) if id < dimensions => ids.push(id),
                _ => {
                    let reason = format!("variable `{name}` uses dimension {id} of {dimensions}");
                    return Err(self.corrupt(reason));
                }
            }
        }
        let attributes = self.attributes()?;
        let data_type = self.data_type()?;
        // The stated size is redundant, and wrong by design above 4 GiB.
        self.bytes(if self.wide { 8 } else { 4 })?;
        let begin = if version == 1 { u64::from(self.u32()?) } else { self.u64()? };
        Ok(HeaderVariable { name, dimensions: ids, attributes, data_type, begin })
    }

    fn corrupt(&self, reason: impl Into<String>) -> NetcdfError {
        NetcdfError::corrupt("the header", self.at, reason)
    }
}

/// A value of big-endian elements.
fn value(data_type: DataType, bytes: &[u8]) -> AttributeValue {
    match data_type {
        DataType::I8 => AttributeValue::I8(elements(bytes, i8::from_be_bytes)),
        DataType::U8 => AttributeValue::U8(bytes.to_vec()),
        DataType::I16 => AttributeValue::I16(elements(bytes, i16::from_be_bytes)),
        DataType::U16 => AttributeValue::U16(elements(bytes, u16::from_be_bytes)),
        DataType::I32 => AttributeValue::I32(elements(bytes, i32::from_be_bytes)),
        DataType::U32 => AttributeValue::U32(elements(bytes, u32::from_be_bytes)),
        DataType::I64 => AttributeValue::I64(elements(bytes, i64::from_be_bytes)),
        DataType::U64 => AttributeValue::U64(elements(bytes, u64::from_be_bytes)),
        DataType::F16 => AttributeValue::F16(elements(bytes, half::f16::from_be_bytes)),
        DataType::F32 => AttributeValue::F32(elements(bytes, f32::from_be_bytes)),
        DataType::F64 => AttributeValue::F64(elements(bytes, f64::from_be_bytes)),
        DataType::Char | DataType::String | DataType::Other => {
            AttributeValue::Text(text::text(bytes))
        }
    }
}

fn elements<T, const N: usize>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|element| from(*element)).collect()
}
