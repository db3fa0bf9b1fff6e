//! Attributes: compact (messages of the object header) and dense (a fractal heap with an index).

use half::f16;
use hdf5_reader::btree_v2::{self, BTreeV2Header, BTreeV2Record};
use hdf5_reader::fractal_heap::{FractalHeap, FractalHeapDirectBlockCache};
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::dataspace::{self, DataspaceMessage, DataspaceType};

use super::object::{ObjectHeader, kind, resolve_shared};
use super::store::Store;
use super::types::{Element, Type};
use crate::netcdf::bytes::Bytes;
use crate::netcdf::error::NetcdfError;
use crate::netcdf::schema::{Attribute, AttributeValue, DataType};
use crate::netcdf::text;

/// Attributes of netCDF-C itself and of HDF5 dimension scales, which netCDF-C does not show.
const HIDDEN: [&str; 13] = [
    "CLASS",
    "DIMENSION_LIST",
    "NAME",
    "REFERENCE_LIST",
    "_ARRAY_DIMENSIONS",
    "_Codecs",
    "_Format",
    "_IsNetcdf4",
    "_NCProperties",
    "_Netcdf4Coordinates",
    "_Netcdf4Dimid",
    "_SuperblockVersion",
    "_nc3_strict",
];

/// An attribute as stored.
#[derive(Debug)]
pub(super) struct RawAttribute {
    pub(super) name: String,
    pub(super) kind: Type,
    /// Shape; `None` for the null dataspace.
    pub(super) shape: Option<Vec<u64>>,
    pub(super) data: Vec<u8>,
    /// Where it is, for messages.
    address: u64,
}

/// All attributes of an object, in order of creation as far as the file knows it.
pub(super) fn read_all(
    store: &Store,
    header: &ObjectHeader,
) -> Result<Vec<RawAttribute>, NetcdfError> {
    let mut ordered = Vec::new();
    for message in header.all(kind::ATTRIBUTE) {
        let order = message.order.map(u32::from);
        let (message, _) = message.resolve(store)?;
        ordered.push((order, parse(store, message.address, &message.data)?));
    }
    if let Some(info) = header.first(kind::ATTRIBUTE_INFO) {
        dense(store, info.address, &info.data, &mut ordered)?;
    }
    if ordered.iter().all(|(order, _)| order.is_some()) {
        ordered.sort_by_key(|(order, _)| *order);
    }
    Ok(ordered.into_iter().map(|(_, attribute)| attribute).collect())
}

fn dense(
    store: &Store,
    address: u64,
    info: &[u8],
    found: &mut Vec<(Option<u32>, RawAttribute)>,
) -> Result<(), NetcdfError> {
    let what = "the index of attributes";
    let short = || NetcdfError::corrupt(what, store.offset(address), "it is cut short");
    let mut bytes = Bytes::new(info);
    let parse_info = |bytes: &mut Bytes<'_>| {
        bytes.skip(1)?;
        let flags = bytes.u8()?;
        if flags & 1 != 0 {
            bytes.skip(2)?;
        }
        Some((store.address(bytes)?, store.address(bytes)?, flags & 1 != 0))
    };
    let (heap, index, tracked) = parse_info(&mut bytes).ok_or_else(short)?;
    let (Some(heap), Some(index)) = (heap, index) else { return Ok(()) };
    for record in records(store, what, index)? {
        let BTreeV2Record::AttributeNameHash { creation_order, heap_id, flags, .. } = record else {
            continue;
        };
        if flags & 2 != 0 {
            return Err(NetcdfError::Unsupported("a table of shared messages (SOHM)".to_owned()));
        }
        let encoded = heap_object(store, heap, &heap_id)?;
        let order = tracked.then_some(creation_order);
        found.push((order, parse(store, heap, &encoded)?));
    }
    Ok(())
}

/// All records of a version 2 B-tree.
pub(super) fn records(
    store: &Store,
    what: &str,
    address: u64,
) -> Result<Vec<BTreeV2Record>, NetcdfError> {
    let (offset_size, length_size) = (store.offset_size, store.length_size);
    store.guard(what, address, || {
        let header = BTreeV2Header::parse_at_storage(store, address, offset_size, length_size)?;
        btree_v2::collect_btree_v2_records_storage(
            store,
            &header,
            offset_size,
            length_size,
            None,
            &[],
            None,
        )
    })
}

/// An object of a fractal heap.
pub(super) fn heap_object(store: &Store, heap: u64, id: &[u8]) -> Result<Vec<u8>, NetcdfError> {
    let (offset_size, length_size) = (store.offset_size, store.length_size);
    store.guard("a fractal heap", heap, || {
        let parsed = FractalHeap::parse_at_storage(store, heap, offset_size, length_size)?;
        let mut cache = FractalHeapDirectBlockCache::default();
        parsed.get_object_storage_cached(id, store, offset_size, length_size, &mut cache)
    })
}

/// Parses an attribute message, versions 1 to 3.
fn parse(store: &Store, address: u64, message: &[u8]) -> Result<RawAttribute, NetcdfError> {
    let short = || NetcdfError::corrupt("an attribute", store.offset(address), "it is cut short");
    let mut bytes = Bytes::new(message);
    let parts = split(&mut bytes).ok_or_else(short)?;
    let name = text::name(parts.name);
    let encoded_type;
    let type_bytes = if parts.flags & 1 == 0 {
        parts.datatype
    } else {
        encoded_type = resolve_shared(store, kind::DATATYPE, address, parts.datatype)?.data;
        &encoded_type
    };
    let encoded_space;
    let space_bytes = if parts.flags & 2 == 0 {
        parts.dataspace
    } else {
        encoded_space = resolve_shared(store, kind::DATASPACE, address, parts.dataspace)?.data;
        &encoded_space
    };
    let kind = Type::parse(store, address, type_bytes)?;
    let space = parse_dataspace(store, address, space_bytes)?;
    let shape = shape(&space);
    let elements = shape.as_deref().map_or(Some(0), |shape| {
        shape.iter().try_fold(1_u64, |all, length| all.checked_mul(*length))
    });
    let length = elements
        .and_then(|elements| elements.checked_mul(kind.size))
        .and_then(|length| usize::try_from(length).ok());
    let data = length.and_then(|length| bytes.take(length)).ok_or_else(short)?.to_vec();
    Ok(RawAttribute { name, kind, shape, data, address })
}

struct Parts<'a> {
    flags: u8,
    name: &'a [u8],
    datatype: &'a [u8],
    dataspace: &'a [u8],
}

fn split<'a>(bytes: &mut Bytes<'a>) -> Option<Parts<'a>> {
    let version = bytes.u8()?;
    let flags = bytes.u8()?;
    let sizes = [bytes.u16_le()?, bytes.u16_le()?, bytes.u16_le()?];
    if version == 3 {
        bytes.skip(1)?;
    }
    let mut part = |size: u16| {
        let size = usize::from(size);
        let part = bytes.take(size)?;
        if version == 1 {
            bytes.skip(size.wrapping_neg() & 7)?;
        }
        Some(part)
    };
    let [name, datatype, dataspace] = sizes;
    (1..=3).contains(&version).then_some(())?;
    let (name, datatype, dataspace) = (part(name)?, part(datatype)?, part(dataspace)?);
    let flags = if version == 1 { 0 } else { flags };
    Some(Parts { flags, name, datatype, dataspace })
}

/// Parses a dataspace message.
pub(super) fn parse_dataspace(
    store: &Store,
    address: u64,
    encoded: &[u8],
) -> Result<DataspaceMessage, NetcdfError> {
    store.guard("a dataspace", address, || {
        let (offset_size, length_size) = (store.offset_size, store.length_size);
        dataspace::parse(&mut Cursor::new(encoded), offset_size, length_size, encoded.len())
    })
}

/// Shape of a dataspace; `None` for the null dataspace.
pub(super) fn shape(space: &DataspaceMessage) -> Option<Vec<u64>> {
    match space.dataspace_type {
        DataspaceType::Null => None,
        DataspaceType::Scalar => Some(Vec::new()),
        DataspaceType::Simple => Some(space.dims.clone()),
    }
}

impl RawAttribute {
    /// The attributes as netCDF-C shows them: without hidden ones.
    pub(super) fn visible(store: &Store, raw: &[Self]) -> Result<Vec<Attribute>, NetcdfError> {
        raw.iter()
            .filter(|attribute| !HIDDEN.contains(&attribute.name.as_str()))
            .map(|attribute| {
                Ok(Attribute { name: attribute.name.clone(), value: attribute.value(store)? })
            })
            .collect()
    }

    /// The value as netCDF4-python shows it.
    pub(super) fn value(&self, store: &Store) -> Result<AttributeValue, NetcdfError> {
        let rank = self.shape.as_ref().map_or(0, Vec::len);
        Ok(match self.kind.element() {
            Element::Number { .. } if rank > 1 && self.data.is_empty() => {
                AttributeValue::Unsupported(format!("an empty array of {rank} dimensions"))
            }
            Element::Number { data_type, big_endian } => {
                let shape = self.shape.as_deref().unwrap_or_default();
                nested(shape, data_type, big_endian, &self.data)
            }
            // A scalar text is one text, padding included; an array holds texts that end at NUL.
            Element::FixedText if rank == 0 => AttributeValue::Text(text::text(&self.data)),
            Element::FixedText | Element::VariableText => {
                let mut texts = self.texts(store)?;
                match (texts.pop(), texts.is_empty()) {
                    (Some(only), true) => AttributeValue::Text(only),
                    (last, _) => {
                        texts.extend(last);
                        AttributeValue::Texts(texts)
                    }
                }
            }
            Element::Other(reason) => AttributeValue::Unsupported(reason),
        })
    }

    fn texts(&self, store: &Store) -> Result<Vec<String>, NetcdfError> {
        let size = usize::try_from(self.kind.size).unwrap_or(usize::MAX).max(1);
        let elements = self.data.chunks_exact(size);
        let what = format!("attribute `{}`", self.name);
        if self.kind.element() == Element::FixedText {
            return Ok(elements.map(text::name).collect());
        }
        let texts = elements.map(|reference| {
            Ok(text::name(&store.heap_object(&what, &mut Bytes::new(reference))?))
        });
        texts.collect()
    }

    /// The text of a hidden attribute.
    pub(super) fn as_text(&self, store: &Store) -> Option<String> {
        match self.value(store) {
            Ok(AttributeValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The numbers of a hidden attribute of 32-bit integers.
    pub(super) fn as_i32(&self) -> Option<Vec<i32>> {
        match self.kind.element() {
            Element::Number { data_type: DataType::I32, big_endian } => {
                match numbers(DataType::I32, big_endian, &self.data) {
                    AttributeValue::I32(values) => Some(values),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// For an attribute of variable-length arrays of object references (`DIMENSION_LIST`): the
    /// object header addresses of each array.
    pub(super) fn reference_lists(&self, store: &Store) -> Result<Vec<Vec<u64>>, NetcdfError> {
        let what = format!("attribute `{}`", self.name);
        let size = usize::try_from(self.kind.size).unwrap_or(usize::MAX).max(1);
        let lists = self.data.chunks_exact(size).map(|reference| {
            let object = store.heap_object(&what, &mut Bytes::new(reference))?;
            let mut bytes = Bytes::new(&object);
            let mut addresses = Vec::new();
            while let Some(address) = store.address(&mut bytes) {
                addresses.extend(address);
            }
            Ok(addresses)
        });
        lists.collect()
    }

    /// Where it is, for messages.
    pub(super) fn offset(&self, store: &Store) -> u64 {
        store.offset(self.address)
    }
}

/// Numbers of an array with elements, or of any with one dimension or none.
fn nested(shape: &[u64], data_type: DataType, big_endian: bool, data: &[u8]) -> AttributeValue {
    let [length, inner @ ..] = shape else { return numbers(data_type, big_endian, data) };
    let length = usize::try_from(*length).unwrap_or(usize::MAX);
    match data.len().checked_div(length) {
        Some(bytes) if bytes > 0 && !inner.is_empty() => {
            let parts = data.chunks_exact(bytes);
            let nested = parts.map(|part| nested(inner, data_type, big_endian, part));
            AttributeValue::Nested(nested.collect())
        }
        _ => numbers(data_type, big_endian, data),
    }
}

fn numbers(data_type: DataType, big_endian: bool, data: &[u8]) -> AttributeValue {
    macro_rules! elements {
        ($variant:ident, $type:ty) => {{
            let from = if big_endian { <$type>::from_be_bytes } else { <$type>::from_le_bytes };
            let elements = data.as_chunks::<{ size_of::<$type>() }>().0;
            AttributeValue::$variant(elements.iter().map(|element| from(*element)).collect())
        }};
    }
    match data_type {
        DataType::I8 => elements!(I8, i8),
        DataType::U8 => elements!(U8, u8),
        DataType::I16 => elements!(I16, i16),
        DataType::U16 => elements!(U16, u16),
        DataType::I32 => elements!(I32, i32),
        DataType::U32 => elements!(U32, u32),
        DataType::I64 => elements!(I64, i64),
        DataType::U64 => elements!(U64, u64),
        DataType::F16 => elements!(F16, f16),
        DataType::F32 => elements!(F32, f32),
        DataType::F64 => elements!(F64, f64),
        DataType::Char | DataType::String | DataType::Other => {
            AttributeValue::Unsupported("text in a place for numbers".to_owned())
        }
    }
}
