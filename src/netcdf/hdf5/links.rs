//! The links of a group: symbol tables (old groups), link messages, and dense links (a fractal heap
//! with an index), in the order in which netCDF-C lists them: by creation if the group tracks it,
//! by name otherwise.

use hdf5_reader::btree_v1;
use hdf5_reader::btree_v2::BTreeV2Record;
use hdf5_reader::io::Cursor;
use hdf5_reader::local_heap::LocalHeap;
use hdf5_reader::messages::link::{self, LinkTarget};
use hdf5_reader::symbol_table::SymbolTableNode;

use super::attribute::{heap_object, records};
use super::object::{ObjectHeader, kind};
use super::store::Store;
use crate::netcdf::bytes::Bytes;
use crate::netcdf::error::NetcdfError;
use crate::netcdf::text;

/// Depth to which soft links lead to soft links.
const SOFT_LINKS_MAX: usize = 16;

/// Entry type of a symbol table: the object is named, not addressed.
const SOFT_LINK: u32 = 2;

/// A named member of a group.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) target: Target,
    order: Option<u64>,
}

/// Where a link leads.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// To an object header.
    Object(u64),
    /// To a path in this file.
    Path(String),
    /// Out of this file; in words.
    Elsewhere(String),
}

/// Whether the object is a group.
pub(super) fn is_group(header: &ObjectHeader) -> bool {
    header
        .messages
        .iter()
        .any(|message| matches!(message.kind, kind::SYMBOL_TABLE | kind::LINK_INFO | kind::LINK))
}

/// The links of a group.
pub(super) fn read(store: &Store, header: &ObjectHeader) -> Result<Vec<Link>, NetcdfError> {
    let mut links = Vec::new();
    if let Some(table) = header.first(kind::SYMBOL_TABLE) {
        symbol_table(store, table.address, &table.data, &mut links)?;
    }
    for message in header.all(kind::LINK) {
        links.push(parse(store, message.address, &message.data)?);
    }
    if let Some(message) = header.first(kind::LINK_INFO) {
        dense(store, message.address, &message.data, &mut links)?;
    }
    if links.iter().all(|link| link.order.is_some()) {
        links.sort_by_key(|link| link.order);
    } else {
        links.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    }
    Ok(links)
}

fn parse(store: &Store, address: u64, encoded: &[u8]) -> Result<Link, NetcdfError> {
    let parsed = store.guard("a link", address, || {
        let mut cursor = Cursor::new(encoded);
        link::parse(&mut cursor, store.offset_size, store.length_size, encoded.len())
    })?;
    let target = match parsed.target {
        LinkTarget::Hard { address } => Target::Object(address),
        LinkTarget::Soft { path } => Target::Path(path),
        LinkTarget::External { filename, path } => {
            Target::Elsewhere(format!("a link to `{path}` in the file `{filename}`"))
        }
    };
    Ok(Link { name: parsed.name, target, order: parsed.creation_order })
}

fn dense(
    store: &Store,
    address: u64,
    info: &[u8],
    links: &mut Vec<Link>,
) -> Result<(), NetcdfError> {
    let what = "the index of links";
    let short = || NetcdfError::corrupt(what, store.offset(address), "it is cut short");
    let mut bytes = Bytes::new(info);
    let parse_info = |bytes: &mut Bytes<'_>| {
        bytes.skip(1)?;
        if bytes.u8()? & 1 != 0 {
            bytes.skip(8)?;
        }
        Some((store.address(bytes)?, store.address(bytes)?))
    };
    let (Some(heap), Some(index)) = parse_info(&mut bytes).ok_or_else(short)? else {
        return Ok(());
    };
    for record in records(store, what, index)? {
        if let BTreeV2Record::LinkNameHash { heap_id, .. } = record {
            links.push(parse(store, heap, &heap_object(store, heap, &heap_id)?)?);
        }
    }
    Ok(())
}

fn symbol_table(
    store: &Store,
    address: u64,
    message: &[u8],
    links: &mut Vec<Link>,
) -> Result<(), NetcdfError> {
    let what = "a symbol table";
    let mut bytes = Bytes::new(message);
    let addresses = |bytes: &mut Bytes<'_>| Some((store.address(bytes)??, store.address(bytes)??));
    let (tree, heap_address) = addresses(&mut bytes)
        .ok_or_else(|| NetcdfError::corrupt(what, store.offset(address), "it is cut short"))?;
    let (offset_size, length_size) = (store.offset_size, store.length_size);
    let leaves = store.guard(what, tree, || {
        btree_v1::collect_btree_v1_leaves_storage(
            store,
            tree,
            offset_size,
            length_size,
            None,
            &[],
            None,
        )
    })?;
    if leaves.is_empty() {
        return Ok(());
    }
    let heap = store.guard(what, heap_address, || {
        LocalHeap::parse_at_storage(store, heap_address, offset_size, length_size)
    })?;
    let names = store.read(what, heap.data_segment_address, heap.data_segment_size)?;
    let name = |offset: u64| {
        let bytes = usize::try_from(offset).ok().and_then(|offset| names.get(offset..));
        bytes.map(text::name).ok_or_else(|| {
            let reason = "a name lies outside of its heap";
            NetcdfError::corrupt(what, store.offset(heap_address), reason)
        })
    };
    for (_, node) in leaves {
        for entry in symbol_node(store, node)? {
            let target = if entry.cache_type == SOFT_LINK {
                let [a, b, c, d, ..] = entry.scratch;
                Target::Path(name(u64::from(u32::from_le_bytes([a, b, c, d])))?)
            } else {
                Target::Object(entry.object_header_address)
            };
            links.push(Link { name: name(entry.link_name_offset)?, target, order: None });
        }
    }
    Ok(())
}

fn symbol_node(
    store: &Store,
    address: u64,
) -> Result<Vec<hdf5_reader::symbol_table::SymbolTableEntry>, NetcdfError> {
    let what = "a symbol table node";
    let prefix = store.read(what, address, 8)?;
    let count = prefix.get(6..).and_then(|count| Bytes::new(count).u16_le()).unwrap_or(0);
    let entry = u64::from(store.offset_size).saturating_mul(2).saturating_add(24);
    let length = u64::from(count).saturating_mul(entry).saturating_add(8);
    let block = store.read(what, address, length)?;
    let node = store.guard(what, address, || {
        SymbolTableNode::parse(&mut Cursor::new(&block), store.offset_size, store.length_size)
    })?;
    Ok(node.entries)
}

/// The object that a link leads to: its header address, or the reason why there is none.
pub(super) fn follow(
    store: &Store,
    root: u64,
    group: u64,
    target: &Target,
) -> Result<Result<u64, String>, NetcdfError> {
    follow_nested(store, root, group, target, SOFT_LINKS_MAX)
}

fn follow_nested(
    store: &Store,
    root: u64,
    group: u64,
    target: &Target,
    depth: usize,
) -> Result<Result<u64, String>, NetcdfError> {
    let path = match target {
        Target::Object(address) => return Ok(Ok(*address)),
        Target::Elsewhere(reason) => return Ok(Err(reason.clone())),
        Target::Path(path) => path,
    };
    let lost = || Ok(Err(format!("a soft link to `{path}`, which is not there")));
    let Some(depth) = depth.checked_sub(1) else { return lost() };
    let mut at = if path.starts_with('/') { root } else { group };
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        let header = ObjectHeader::read(store, at)?;
        let links = if is_group(&header) { read(store, &header)? } else { Vec::new() };
        let Some(link) = links.into_iter().find(|link| link.name == name) else { return lost() };
        at = match follow_nested(store, root, at, &link.target, depth)? {
            Ok(address) => address,
            Err(reason) => return Ok(Err(reason)),
        };
    }
    Ok(Ok(at))
}
