//! Nodes of a version 1 B-tree of chunks (HDF5 File Format Specification, section III.A.1).
//!
//! ```text
//! node = "TREE" type=1 level entries left right (key child)*entries key
//! key  = size of chunk, filter mask, origin of chunk (8 bytes each), 0
//! ```
//! Keys ascend, and those of a child lie between its two keys in the parent. Checking that bounds
//! the walk: a node that is reached twice cannot be right in both places. The last key of a node
//! belongs to no chunk, and libraries leave arbitrary values there: it is not looked at.

use super::store::Store;
use crate::netcdf::bytes::Bytes;
use crate::netcdf::error::NetcdfError;

/// A node to be read, with what its parent says about it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) address: u64,
    expected: Option<Expected>,
}

#[derive(Debug)]
struct Expected {
    level: u8,
    first: Vec<u64>,
    /// All origins below are smaller; `None` at the right edge of the tree.
    beyond: Option<Vec<u64>>,
}

/// What a node points to.
#[derive(Debug)]
pub(super) enum NodeEntry {
    Child(Node),
    Chunk { origin: Vec<u64>, address: u64, size: u64, filter_mask: u32 },
}

struct Key {
    size: u32,
    filter_mask: u32,
    origin: Vec<u64>,
}

impl Node {
    pub(super) fn root(address: u64) -> Self {
        Self { address, expected: None }
    }

    pub(super) fn read(
        &self,
        store: &Store,
        rank: usize,
        what: &str,
    ) -> Result<Vec<NodeEntry>, NetcdfError> {
        let corrupt = |reason: &str| NetcdfError::corrupt(what, store.offset(self.address), reason);
        let address_bytes = usize::from(store.offset_size);
        let prefix_bytes = address_bytes.saturating_mul(2).saturating_add(8);
        let prefix = store.read(what, self.address, prefix_bytes as u64)?;
        let mut bytes = Bytes::new(&prefix);
        if bytes.take(5) != Some(b"TREE\x01") {
            return Err(corrupt("a node lacks its signature"));
        }
        let (Some(level), Some(entries)) = (bytes.u8(), bytes.u16_le()) else {
            return Err(corrupt("a node is cut short"));
        };
        if let Some(expected) = &self.expected
            && (expected.level != level || entries == 0)
        {
            return Err(corrupt("a node is empty or at the wrong level"));
        }
        let key_bytes = rank.saturating_mul(8).saturating_add(16);
        let body_bytes =
            key_bytes.saturating_add(address_bytes).saturating_mul(usize::from(entries));
        let body_address = self.address.saturating_add(prefix_bytes as u64);
        let body = store.read(what, body_address, body_bytes as u64)?;
        let (keys, children) = parse_body(store, &mut Bytes::new(&body), rank, entries)
            .ok_or_else(|| corrupt("a node is cut short, or a child is nowhere"))?;
        self.check_order(&keys).map_err(|reason| corrupt(&reason))?;
        Ok(self.entries(level, keys, children))
    }

    fn check_order(&self, keys: &[Key]) -> Result<(), String> {
        if !keys.is_sorted_by(|a, b| a.origin < b.origin) {
            return Err("the chunks of a node are not in order".to_owned());
        }
        let Some(expected) = &self.expected else { return Ok(()) };
        let (first, last) = (keys.first(), keys.last());
        let starts = first.is_none_or(|key| key.origin >= expected.first);
        let beyond = expected.beyond.as_ref();
        let ends = last.is_none_or(|key| beyond.is_none_or(|beyond| key.origin < *beyond));
        if starts && ends {
            return Ok(());
        }
        Err("a node holds chunks that belong into another one".to_owned())
    }

    fn entries(&self, level: u8, keys: Vec<Key>, children: Vec<u64>) -> Vec<NodeEntry> {
        let last = self.expected.as_ref().and_then(|expected| expected.beyond.clone());
        let later = keys.iter().skip(1).map(|key| Some(key.origin.clone()));
        let beyond: Vec<_> = later.chain(std::iter::once(last)).collect();
        let below = level.checked_sub(1);
        let entries = keys.into_iter().zip(beyond).zip(children);
        entries
            .map(|((key, beyond), address)| match below {
                Some(level) => {
                    let expected = Some(Expected { level, first: key.origin, beyond });
                    NodeEntry::Child(Self { address, expected })
                }
                None => NodeEntry::Chunk {
                    origin: key.origin,
                    address,
                    size: u64::from(key.size),
                    filter_mask: key.filter_mask,
                },
            })
            .collect()
    }
}

fn parse_body(
    store: &Store,
    bytes: &mut Bytes<'_>,
    rank: usize,
    entries: u16,
) -> Option<(Vec<Key>, Vec<u64>)> {
    let (mut keys, mut children) = (Vec::new(), Vec::new());
    for _ in 0..entries {
        keys.push(parse_key(bytes, rank)?);
        children.push(store.address(bytes)??);
    }
    Some((keys, children))
}

fn parse_key(bytes: &mut Bytes<'_>, rank: usize) -> Option<Key> {
    let (size, filter_mask) = (bytes.u32_le()?, bytes.u32_le()?);
    let origin = (0..rank).map(|_| bytes.u64_le()).collect::<Option<Vec<_>>>()?;
    bytes.skip(8)?;
    Some(Key { size, filter_mask, origin })
}
