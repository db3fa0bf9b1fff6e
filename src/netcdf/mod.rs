//! NetCDF files of every kind (classic CDF-1/2/5, NetCDF-4) as one [`Schema`] and a stream of
//! [`ChunkLocation`]s over a blocking [`ByteSource`].

mod schema;
mod source;

pub use schema::{
    Attribute, AttributeValue, ChunkLocation, DataType, Dimension, Format, Group, Schema, Variable,
    VariableId,
};
pub use source::ByteSource;
