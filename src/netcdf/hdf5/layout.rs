//! The data layout message, versions 1 to 5 (HDF5 File Format Specification, section IV.A.2.i):
//! where a dataset's values are.

use super::object::Message;
use super::store::Store;
use crate::netcdf::bytes::Bytes;
use crate::netcdf::error::NetcdfError;

/// A parsed layout. Addresses are `None` where nothing was allocated yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Layout {
    /// In the object header.
    Compact { address: u64, size: u64 },
    /// In one stretch. Old versions do not state the size.
    Contiguous { address: Option<u64>, size: Option<u64> },
    /// In chunks of `shape`.
    Chunked { index: ChunkIndex, shape: Vec<u32>, element_size: u32, edges_unfiltered: bool },
    /// Put together from other datasets.
    Virtual,
}

/// Which chunk index, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkIndex {
    pub(super) kind: IndexKind,
    pub(super) address: Option<u64>,
}

/// The chunk indexes of HDF5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexKind {
    BtreeV1,
    /// One chunk; the address is its own. Size and filter mask if it is filtered.
    Single(Option<(u64, u32)>),
    Implicit,
    FixedArray,
    ExtensibleArray,
    BtreeV2,
}

/// Flags of version 4: partial chunks at the edges are not filtered; a single chunk is filtered.
const EDGES_UNFILTERED: u8 = 0x01;
const SINGLE_FILTERED: u8 = 0x02;

pub(super) fn parse(store: &Store, message: &Message) -> Result<Layout, NetcdfError> {
    let mut bytes = Bytes::new(&message.data);
    let parsed = match bytes.u8() {
        Some(1 | 2) => version_1_2(store, message, &mut bytes),
        Some(3) => version_3_to_5(store, message, &mut bytes, 3),
        Some(version @ (4 | 5)) => version_3_to_5(store, message, &mut bytes, version),
        Some(version) => {
            return Err(NetcdfError::Unsupported(format!("version {version} of the data layout")));
        }
        None => None,
    };
    parsed.ok_or_else(|| {
        let reason = "it is cut short or of no known class";
        NetcdfError::corrupt("a data layout", store.offset(message.address), reason)
    })
}

fn version_1_2(store: &Store, message: &Message, bytes: &mut Bytes<'_>) -> Option<Layout> {
    let rank = usize::from(bytes.u8()?);
    let class = bytes.u8()?;
    bytes.skip(5)?;
    let address = if class == 0 { None } else { store.address(bytes)? };
    let dims = (0..rank).map(|_| bytes.u32_le()).collect::<Option<Vec<_>>>()?;
    match class {
        0 => compact(message, bytes, 4),
        1 => Some(Layout::Contiguous { address, size: None }),
        2 => chunked(ChunkIndex { kind: IndexKind::BtreeV1, address }, &dims, false),
        _ => None,
    }
}

fn version_3_to_5(
    store: &Store,
    message: &Message,
    bytes: &mut Bytes<'_>,
    version: u8,
) -> Option<Layout> {
    match bytes.u8()? {
        0 => compact(message, bytes, 2),
        1 => {
            let address = store.address(bytes)?;
            Some(Layout::Contiguous { address, size: Some(store.length(bytes)?) })
        }
        2 if version == 3 => {
            let rank = usize::from(bytes.u8()?);
            let address = store.address(bytes)?;
            let dims = (0..rank).map(|_| bytes.u32_le()).collect::<Option<Vec<_>>>()?;
            chunked(ChunkIndex { kind: IndexKind::BtreeV1, address }, &dims, false)
        }
        2 => version_4_chunked(store, bytes, version),
        3 => Some(Layout::Virtual),
        _ => None,
    }
}

fn version_4_chunked(store: &Store, bytes: &mut Bytes<'_>, version: u8) -> Option<Layout> {
    let flags = bytes.u8()?;
    let rank = usize::from(bytes.u8()?);
    let width = usize::from(bytes.u8()?);
    let dims =
        (0..rank).map(|_| u32::try_from(bytes.uint_le(width)?).ok()).collect::<Option<Vec<_>>>()?;
    let kind = match bytes.u8()? {
        1 if flags & SINGLE_FILTERED == 0 => IndexKind::Single(None),
        1 => {
            let width = if version == 4 { store.length_size } else { store.offset_size };
            let size = bytes.uint_le(usize::from(width))?;
            IndexKind::Single(Some((size, bytes.u32_le()?)))
        }
        2 => IndexKind::Implicit,
        3 => {
            bytes.skip(1)?;
            IndexKind::FixedArray
        }
        4 => {
            bytes.skip(5)?;
            IndexKind::ExtensibleArray
        }
        5 => {
            bytes.skip(6)?;
            IndexKind::BtreeV2
        }
        _ => return None,
    };
    let index = ChunkIndex { kind, address: store.address(bytes)? };
    chunked(index, &dims, flags & EDGES_UNFILTERED != 0)
}

/// The last "dimension" is the element size.
fn chunked(index: ChunkIndex, dims: &[u32], edges_unfiltered: bool) -> Option<Layout> {
    let (element_size, shape) = dims.split_last()?;
    (!dims.contains(&0)).then_some(())?;
    let shape = shape.to_vec();
    Some(Layout::Chunked { index, shape, element_size: *element_size, edges_unfiltered })
}

fn compact(message: &Message, bytes: &mut Bytes<'_>, size_width: usize) -> Option<Layout> {
    let size = bytes.uint_le(size_width)?;
    let before = message.data.len().saturating_sub(bytes.remaining());
    bytes.skip(usize::try_from(size).ok()?)?;
    Some(Layout::Compact { address: message.address.saturating_add(before as u64), size })
}
