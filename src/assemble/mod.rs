//! From chunk locations of a source to whole target chunks. No I/O of its own: whoever builds a
//! block says how a source chunk is read.
//!
//! An [`Assembler`] takes the locations of the variables that give values to one array, in any order,
//! and gives out [`Block`]s; a block reads each of its source chunks once and yields its encoded
//! target chunks. Every target chunk is in exactly one block, whichever files its values come from,
//! so that each object has one owner and is written whole. A chunk is omitted only when every
//! element is bit-equal to the array's fill value.

mod assembler;
mod block;
mod blocks;
mod layout;
mod open;
#[cfg(test)]
mod tests;
mod text;

pub use assembler::{Assembler, Remaining};
pub use block::{
    Block, BuildError, BuiltBlock, BuiltChunk, Piece, Retained, RetainedChunk, Target,
};
pub use blocks::{BlockLimits, Rereading, fitting_chunk, rereading};
pub use layout::Layout;
pub use open::OpenBlock;

use crate::netcdf::VariableId;
use crate::zarr::CodecError;

/// Why an array cannot be assembled.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// Shapes or elements of the plan do not fit each other.
    #[error("the shapes of the array and of its source do not fit")]
    Inconsistent,
    /// A source chunk beyond the limit of HDF5.
    #[error("a chunk of the source exceeds 4 GiB")]
    SourceChunkTooLarge,
    /// More elements or chunks than 64-bit arithmetic carries.
    #[error("the array is too large")]
    ArrayTooLarge,
    /// The codecs cannot be used.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Why a chunk location cannot belong to the array.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// It belongs to another variable.
    #[error("the chunk belongs to variable {}", .0.0)]
    OtherVariable(VariableId),
    /// It starts outside of the array.
    #[error("the chunk at {origin:?} lies outside of the shape {shape:?}")]
    Outside {
        /// Its first element.
        origin: Vec<u64>,
        /// Shape of the array.
        shape: Vec<u64>,
    },
    /// It does not start at a multiple of the source's chunk shape.
    #[error("the chunk at {origin:?} is not one of the grid {chunk_shape:?}")]
    OffGrid {
        /// Its first element.
        origin: Vec<u64>,
        /// The source's chunk shape.
        chunk_shape: Vec<u64>,
    },
    /// There is another chunk at the same place.
    #[error("there are two chunks at {origin:?}")]
    Twice {
        /// Their first element.
        origin: Vec<u64>,
    },
}
