//! Why a metadata document cannot be used.

use super::fill_value::FillValueError;
use super::json::JsonError;
use super::node_path::NodeNameError;

/// Why a metadata document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Not JSON, or JSON that would not survive.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A field that must be there is not.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A field that does not have the form the specification asks for.
    #[error("`{field}` is not {expected}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Well-formed, but beyond what this program reads and writes.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The fill value is none of the data type.
    #[error("`fill_value`: {0}")]
    FillValue(#[from] FillValueError),
    /// A member of the consolidated metadata has an impossible path.
    #[error("`{path}` is not the path of a node: {reason}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        reason: NodeNameError,
    },
}
