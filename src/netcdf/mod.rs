//! NetCDF files of every kind (classic CDF-1/2/5, NetCDF-4) as one [`Schema`] and a stream of
//! [`ChunkLocation`]s over a blocking [`ByteSource`].
//!
//! Source files are untrusted and may still be growing while they are read. Nothing here panics on
//! their content, allocates by a length that a file merely claims, or returns values that the
//! file does not hold: what cannot be decoded exactly is refused, naming what and where.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test may panic"))]

mod bytes;
mod chunks;
mod classic;
mod error;
mod file;
mod fill;
mod filters;
pub mod fixtures;
mod grid;
mod hdf5;
mod local_file;
mod read;
mod schema;
mod sniff;
mod source;
mod text;
mod texts;

#[cfg(test)]
mod tests;

pub use error::NetcdfError;
pub use file::NetcdfFile;
pub use local_file::LocalFile;
pub use schema::{
    Attribute, AttributeValue, ChunkLocation, DataType, Dimension, Format, Group, Schema, Variable,
    VariableId,
};
pub use sniff::sniff;
pub use source::ByteSource;
