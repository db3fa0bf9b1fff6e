//! Why a source file is not taken.

use std::fmt;

/// Why a source file is not taken. The sentence names variable and reason; who shows it says which
/// file it is about.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Refusal {
    /// What kind of refusal; decides the errno.
    pub cause: Cause,
    /// For people.
    pub message: String,
}

/// What kind of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Not NetCDF, or damaged.
    Corrupt,
    /// Would overwrite something that it must not.
    Overlap,
    /// Cannot be expressed in Zarr, or not yet by this program.
    Unsupported,
    /// Does not fit.
    Quota,
    /// The store does not allow it.
    Denied,
    /// The store does not answer.
    Unreachable,
}

impl Refusal {
    /// A refusal with its sentence.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
