//! The vocabulary of Zarr: node paths, chunk keys, metadata documents, codec chains. Home of
//! `zarrs`.
//!
//! Everything here is a pure function of its arguments. Documents are strict JSON in which
//! integers and floats survive exactly; whatever cannot be read without a guess is an error that
//! says what is not supported.

mod chunk_key;
mod codec_chain;
mod codec_spec;
mod data_type;
mod document;
mod error;
mod fill_value;
mod format;
mod hierarchy;
mod json;
mod metadata;
mod node_path;
mod reader;
pub(crate) mod region;
#[cfg(test)]
mod tests;
mod v2;
mod v3;
mod vlen;

pub use chunk_key::ChunkKeyEncoding;
pub use codec_chain::{CHUNK_BYTES_MAX, CodecChain, CodecError};
pub use codec_spec::{BloscCompressor, CodecSpec, CodecSpecError, Shuffle};
pub use data_type::{DataType, Kind};
pub use document::{Document, DocumentRank, is_metadata_document};
pub use error::DocumentError;
pub use fill_value::{
    FillValueError, Scalar, fill_value_attribute, fill_value_from_json, fill_value_to_json,
    float_to_json, nan_bytes,
};
pub use format::{ZarrFormat, ZarrFormatError};
pub use hierarchy::{
    Hierarchy, Members, RootDocument, parse_zarr_json, parse_zarray, parse_zgroup, parse_zmetadata,
};
pub use json::JsonError;
pub(crate) use metadata::product;
pub use metadata::{ArrayMetadata, Attributes, CodecMetadata, GroupMetadata, Node};
pub use node_path::{NodeNameError, NodePath, check_new_node_name};
pub use reader::{ArrayReader, ReadError};
