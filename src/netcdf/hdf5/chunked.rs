//! Chunked datasets: the chunk index as a walk that yields one chunk at a time.
//!
//! Version 1 B-trees are walked depth-first and lazily: of a file that netCDF-C writes the root
//! lies in front and each leaf beside its chunks, so that chunks come out while the file is still
//! being copied. The other indexes are collected when they are first needed.

use std::sync::Arc;

use hdf5_reader::chunk_index::{self, ChunkEntry};
use hdf5_reader::{extensible_array, fixed_array};

use super::btree::{Node, NodeEntry};
use super::layout::IndexKind;
use super::significant::Significant;
use super::store::Store;
use crate::netcdf::error::NetcdfError;
use crate::netcdf::filters::Pipeline;

/// A chunked dataset.
#[derive(Debug)]
pub(in crate::netcdf) struct Chunked {
    pub(super) store: Arc<Store>,
    pub(super) kind: IndexKind,
    /// Address of the index (of the chunk itself for a single one).
    pub(super) address: u64,
    /// Shape of a chunk in elements.
    pub(super) chunk_shape: Vec<u32>,
    /// Shape of the dataset, and to what it may grow (`u64::MAX` if unlimited).
    pub(super) shape: Vec<u64>,
    pub(super) shape_max: Vec<u64>,
    /// Bytes of a decoded chunk.
    pub(in crate::netcdf) raw_bytes: u64,
    pub(in crate::netcdf) pipeline: Pipeline,
    /// How decoded values become whole integers, if they are not that already.
    pub(in crate::netcdf) significant: Option<Significant>,
    /// Whether chunks that reach beyond the dataset's shape are stored unfiltered.
    pub(in crate::netcdf) edges_unfiltered: bool,
}

/// A chunk as its index describes it; the offset counts from the start of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::netcdf) struct FoundChunk {
    pub(in crate::netcdf) origin: Vec<u64>,
    pub(in crate::netcdf) offset: u64,
    pub(in crate::netcdf) size: u64,
    pub(in crate::netcdf) filter_mask: u32,
}

/// A walk over the chunk index of one dataset.
pub(in crate::netcdf) struct IndexWalk {
    chunked: Arc<Chunked>,
    /// Path of the variable, for messages.
    path: String,
    /// What is left to do, next thing last. Within a node in the order of offsets.
    left: Vec<Left>,
}

enum Left {
    /// The whole index, unread.
    Index,
    Node(Node),
    Chunk(FoundChunk),
}

impl IndexWalk {
    pub(in crate::netcdf) fn new(chunked: Arc<Chunked>, path: String) -> Self {
        let left = match chunked.kind {
            IndexKind::BtreeV1 => Left::Node(Node::root(chunked.address)),
            _ => Left::Index,
        };
        Self { chunked, path, left: vec![left] }
    }

    /// Offset in the file that the next step will touch.
    pub(in crate::netcdf) fn next_offset(&self) -> Option<u64> {
        let store = &self.chunked.store;
        self.left.last().map(|left| match left {
            Left::Index => store.offset(self.chunked.address),
            Left::Node(node) => store.offset(node.address),
            Left::Chunk(chunk) => chunk.offset,
        })
    }

    /// Reads one part of the index, or yields a chunk.
    pub(in crate::netcdf) fn step(&mut self) -> Result<Option<FoundChunk>, NetcdfError> {
        match self.left.pop() {
            None => {}
            Some(Left::Chunk(chunk)) => return Ok(Some(chunk)),
            Some(Left::Node(node)) => self.enter(&node)?,
            Some(Left::Index) => {
                let mut chunks = self.collect()?;
                self.refuse_duplicates(&mut chunks)?;
                self.push(chunks.into_iter().map(Left::Chunk).collect());
            }
        }
        Ok(None)
    }

    /// Puts things on top of what is left, smallest offset to be taken first.
    fn push(&mut self, mut more: Vec<Left>) {
        let store = &self.chunked.store;
        more.sort_by_key(|left| match left {
            Left::Index => 0,
            Left::Node(node) => store.offset(node.address),
            Left::Chunk(chunk) => chunk.offset,
        });
        self.left.extend(more.into_iter().rev());
    }

    fn enter(&mut self, node: &Node) -> Result<(), NetcdfError> {
        let rank = self.chunked.chunk_shape.len();
        let mut more = Vec::new();
        for entry in node.read(&self.chunked.store, rank, &self.what())? {
            match entry {
                NodeEntry::Child(child) => more.push(Left::Node(child)),
                NodeEntry::Chunk { origin, address, size, filter_mask } => {
                    more.extend(self.chunk(origin, address, size, filter_mask)?.map(Left::Chunk));
                }
            }
        }
        self.push(more);
        Ok(())
    }

    fn what(&self) -> String {
        format!("the chunk index of variable `{}`", self.path)
    }

    /// Checks a chunk. `None` if it lies outside of the dataset: HDF5 may leave such chunks
    /// behind when a dataset shrinks.
    fn chunk(
        &self,
        origin: Vec<u64>,
        address: u64,
        size: u64,
        filter_mask: u32,
    ) -> Result<Option<FoundChunk>, NetcdfError> {
        let chunked = &self.chunked;
        let offset = chunked.store.offset(address);
        let on_grid = origin.len() == chunked.chunk_shape.len()
            && origin
                .iter()
                .zip(&chunked.chunk_shape)
                .all(|(at, step)| at.checked_rem(u64::from(*step)) == Some(0));
        if !on_grid {
            let reason = format!("a chunk starts at element {origin:?}, which is not on the grid");
            return Err(NetcdfError::corrupt(self.what(), offset, reason));
        }
        let inside = origin.iter().zip(&chunked.shape).all(|(at, length)| at < length);
        Ok(inside.then_some(FoundChunk { origin, offset, size, filter_mask }))
    }

    fn collect(&self) -> Result<Vec<FoundChunk>, NetcdfError> {
        let Chunked { raw_bytes, pipeline, .. } = self.chunked.as_ref();
        let filtered = !pipeline.is_identity(0);
        let entries = self.entries()?;
        let mut chunks = Vec::new();
        for ChunkEntry { address, size, filter_mask, offsets } in entries {
            // Indexes of unfiltered chunks do not state sizes.
            let size = if filtered { size } else { *raw_bytes };
            chunks.extend(self.chunk(offsets, address, size, filter_mask)?);
        }
        Ok(chunks)
    }

    fn entries(&self) -> Result<Vec<ChunkEntry>, NetcdfError> {
        let Chunked { store, kind, address, chunk_shape, shape, shape_max, raw_bytes, .. } =
            self.chunked.as_ref();
        let (offset_size, length_size) = (store.offset_size, store.length_size);
        let rank = chunk_shape.len();
        // Fixed arrays and implicit indexes number the chunks of the largest shape.
        store.guard(&self.what(), *address, || match kind {
            IndexKind::Single(filtered) => {
                let (size, mask) = filtered.unwrap_or((*raw_bytes, 0));
                Ok(vec![chunk_index::single_chunk_entry(*address, size, mask, rank)])
            }
            IndexKind::Implicit => {
                let elements = chunk_shape
                    .iter()
                    .fold(1_u64, |all, length| all.saturating_mul(u64::from(*length)));
                let element_size = raw_bytes.checked_div(elements).unwrap_or(0);
                let element_size = usize::try_from(element_size).unwrap_or(usize::MAX);
                let end = store.end;
                chunk_index::collect_implicit_chunk_entries(
                    *address,
                    shape_max,
                    chunk_shape,
                    element_size,
                    None,
                    end,
                )
            }
            IndexKind::FixedArray => fixed_array::collect_fixed_array_chunk_entries_storage(
                store.as_ref(),
                *address,
                offset_size,
                length_size,
                shape_max,
                chunk_shape,
                None,
            ),
            IndexKind::ExtensibleArray => {
                extensible_array::collect_extensible_array_chunk_entries_storage(
                    store.as_ref(),
                    *address,
                    offset_size,
                    length_size,
                    shape,
                    Some(shape_max),
                    chunk_shape,
                    None,
                )
            }
            IndexKind::BtreeV2 => chunk_index::collect_v2_chunk_entries_storage(
                store.as_ref(),
                *address,
                offset_size,
                length_size,
                u32::try_from(rank).unwrap_or(u32::MAX),
                chunk_shape,
                None,
            ),
            IndexKind::BtreeV1 => Ok(Vec::new()),
        })
    }

    fn refuse_duplicates(&self, chunks: &mut [FoundChunk]) -> Result<(), NetcdfError> {
        chunks.sort_by(|a, b| a.origin.cmp(&b.origin));
        let twice = chunks.iter().zip(chunks.iter().skip(1)).find(|(a, b)| a.origin == b.origin);
        match twice {
            None => Ok(()),
            Some((chunk, _)) => {
                let reason = format!("the chunk of element {:?} is there twice", chunk.origin);
                Err(NetcdfError::corrupt(self.what(), chunk.offset, reason))
            }
        }
    }
}
