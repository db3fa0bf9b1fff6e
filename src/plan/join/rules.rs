//! What the user decides about joining.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// `--overlap`: values for coordinates that are there already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// They must be the same.
    #[default]
    Error,
    /// Those that are there stay.
    Keep,
    /// Those that come hold.
    Replace,
}

/// `--schema`: files with different variables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchemaRule {
    /// The dataset has all of them; gaps are missing values.
    #[default]
    Union,
    /// They are refused.
    Strict,
}

/// How files are joined. Recorded with every ingest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    /// `--concat-dim`; `None`: found out.
    pub concat_dim: Option<String>,
    /// `--overlap`
    pub overlap: Overlap,
    /// `--schema`
    pub schema: SchemaRule,
    /// `--unpack`: packed variables are stored as the values that they mean.
    pub unpack: bool,
}

/// A word that an option does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of {1}")]
pub struct UnknownWord(String, &'static str);

impl FromStr for Overlap {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "error" => Ok(Self::Error),
            "keep" => Ok(Self::Keep),
            "replace" => Ok(Self::Replace),
            other => Err(UnknownWord(other.to_owned(), "error, keep, replace")),
        }
    }
}

impl FromStr for SchemaRule {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        match text {
            "union" => Ok(Self::Union),
            "strict" => Ok(Self::Strict),
            other => Err(UnknownWord(other.to_owned(), "union, strict")),
        }
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Keep => "keep",
            Self::Replace => "replace",
        })
    }
}
