//! What an epoch writes: arrays, and which values of which files they are made of.
//!
//! Along one dimension of an array, its *axis*, the values of several files stand side by side.
//! In all other dimensions each file reaches over the whole array.

use super::Conversion;
use crate::netcdf::VariableId;
use crate::zarr::{ArrayMetadata, NodePath};

/// An array to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayTarget {
    /// Where it stands.
    pub path: NodePath,
    /// Its documents' content as it will be published.
    pub metadata: ArrayMetadata,
    /// The dimension along which the parts stand. Meaningless for scalars.
    pub axis: usize,
    /// Length along the axis of what is published already; 0 for a new array.
    pub published_length: u64,
    /// Whether objects may lie under its keys: then chunks that are all fill are deleted.
    pub has_objects: bool,
    /// The variables that give values.
    pub parts: Vec<Part>,
    /// Which stretch of the axis takes which values: ascending in `target`, never overlapping.
    pub segments: Vec<Segment>,
}

/// One variable of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Position of the file in the epoch.
    pub member: usize,
    /// The variable.
    pub variable: VariableId,
    /// Its shape in elements.
    pub shape: Vec<u64>,
    /// Shape of its chunks in elements; never zero.
    pub source_chunk_shape: Vec<u64>,
    /// What an element that was never written reads as in the file: one little-endian element, or
    /// UTF-8.
    pub source_fill: Vec<u8>,
    /// How its elements become elements of the array.
    pub conversion: Conversion,
}

/// A stretch of the axis that takes values of one part, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First index in the array.
    pub target: u64,
    /// First index in the part.
    pub source: u64,
    /// Number of indices.
    pub length: u64,
    /// Position in [`ArrayTarget::parts`].
    pub part: usize,
}
