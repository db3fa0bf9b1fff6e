//! The two versions of the format.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `zarr_format` of a metadata document. Serialized as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum ZarrFormat {
    /// <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>
    V2,
    /// <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>
    #[default]
    V3,
}

/// A number that is no version of the format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version of the Zarr format: write 2 or 3")]
pub struct ZarrFormatError(String);

impl From<ZarrFormat> for u8 {
    fn from(format: ZarrFormat) -> Self {
        match format {
            ZarrFormat::V2 => 2,
            ZarrFormat::V3 => 3,
        }
    }
}

impl TryFrom<u8> for ZarrFormat {
    type Error = ZarrFormatError;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        match number {
            2 => Ok(Self::V2),
            3 => Ok(Self::V3),
            other => Err(ZarrFormatError(other.to_string())),
        }
    }
}

impl FromStr for ZarrFormat {
    type Err = ZarrFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "2" => Ok(Self::V2),
            "3" => Ok(Self::V3),
            other => Err(ZarrFormatError(other.to_owned())),
        }
    }
}

impl fmt::Display for ZarrFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        u8::from(*self).fmt(f)
    }
}
