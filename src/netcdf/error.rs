//! What can be wrong with a source file. Every variant says what and where, so that the sentence
//! can be shown to the user next to the file's name; callers match on variants, never on text.

use std::io;

use super::schema::VariableId;

/// Why a source file, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum NetcdfError {
    /// The bytes could not be had.
    #[error("cannot read {length} bytes at offset {offset}: {source}")]
    Read {
        /// First byte wanted.
        offset: u64,
        /// Bytes wanted.
        length: u64,
        /// What the byte source said.
        source: io::Error,
    },
    /// The length of the file could not be had.
    #[error("cannot tell the length of the file: {0}")]
    Length(#[source] io::Error),
    /// No magic number of a NetCDF format.
    #[error("this is neither a classic NetCDF nor a NetCDF-4 (HDF5) file")]
    UnknownFormat,
    /// The file is shorter than it says itself.
    #[error("the file is cut short: {what} needs {expected} bytes, the file has {actual}")]
    Truncated {
        /// The structure or variable that reaches beyond the end.
        what: String,
        /// Bytes the file should have at least.
        expected: u64,
        /// Bytes it has.
        actual: u64,
    },
    /// A structure of the file contradicts itself or its specification.
    #[error("{what} at offset {offset} is damaged: {reason}")]
    Corrupt {
        /// The structure, with the variable or group it belongs to when known.
        what: String,
        /// Where it starts, in bytes from the start of the file.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Data fails the checksum stored with it.
    #[error(
        "variable `{variable}`: the chunk at offset {offset} fails its Fletcher-32 checksum \
         (stored {expected:#010x}, computed {actual:#010x})"
    )]
    ChecksumMismatch {
        /// The variable.
        variable: String,
        /// First byte of the stored chunk.
        offset: u64,
        /// Checksum in the file.
        expected: u32,
        /// Checksum of the bytes.
        actual: u32,
    },
    /// A valid file that this reader cannot read as a whole.
    #[error("the file uses {0}, which is not supported")]
    Unsupported(String),
    /// The values of one variable cannot be read; see [`Variable::unsupported`].
    ///
    /// [`Variable::unsupported`]: super::Variable::unsupported
    #[error("variable `{variable}` cannot be read: {reason}")]
    UnsupportedVariable {
        /// Path of the variable.
        variable: String,
        /// Why.
        reason: String,
    },
    /// A text that is not UTF-8: its characters cannot be told.
    #[error("variable `{variable}`: the text of element {element:?} is not UTF-8")]
    NotUtf8 {
        /// Path of the variable.
        variable: String,
        /// Index of the element.
        element: Vec<u64>,
    },
    /// The file has no such variable, or the location is not one that its chunk stream gave.
    #[error("{0:?} with this chunk does not belong to this file")]
    UnknownChunk(VariableId),
}

impl NetcdfError {
    pub(super) fn corrupt(what: impl Into<String>, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), offset, reason: reason.into() }
    }
}
