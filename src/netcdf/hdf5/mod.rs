//! NetCDF-4 and plain HDF5 files, after the HDF5 File Format Specification (version 3.0).
//!
//! Superblock, object headers, attributes, layouts and the chunk B-trees of version 1 are parsed
//! here, since they decide about exactness and about what can be read while a file still grows.
//! The structures behind them (heaps, version 2 B-trees, array indexes, datatype encodings) come
//! from the crate `hdf5-reader`. [`model`] gives the objects the meaning that netCDF-C gives them.

mod attribute;
mod btree;
mod chunked;
mod dataset;
mod dimensions;
mod enumeration;
mod heap;
mod layout;
mod links;
mod model;
mod object;
mod significant;
mod store;
mod superblock;
mod tree;
mod types;

use std::sync::Arc;

pub(super) use chunked::{Chunked, IndexWalk};
#[cfg(test)]
pub(super) use heap::tests as heap_tests;
pub(super) use store::Store;

use super::error::NetcdfError;
use super::file::{Extent, Inner};
use super::schema::{Format, Schema};
use super::source::ByteSource;

/// Reads the metadata of a file whose superblock is at `offset`.
pub(super) fn open(source: Arc<dyn ByteSource>, offset: u64) -> Result<Inner, NetcdfError> {
    let (store, root) = superblock::read(Arc::clone(&source), offset)?;
    let needed = Extent { bytes: store.end, what: "the superblock".to_owned() };
    let store = Arc::new(store);
    let tree = tree::read(&store, root)?;
    let (root, stored) = model::build(&store, tree)?;
    Ok(Inner { source, schema: Schema { format: Format::Hdf5, root }, stored, needed })
}
