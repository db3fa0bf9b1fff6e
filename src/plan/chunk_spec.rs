//! What a user asks for with `--chunks`: `time=1,lat=256`, `lat=:` and `lat=-1` for a whole
//! dimension.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Chunk lengths by dimension name. Empty when the option is not given. Its text is the value of
/// the option and what journals record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChunkSpec {
    dimensions: Vec<(String, Extent)>,
}

/// How far chunks reach along a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Over the whole dimension.
    Full,
    /// So many elements.
    Elements(NonZeroU64),
}

/// Why a text is no list of chunk lengths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkSpecError {
    /// No `NAME=LENGTH`.
    #[error("`{0}` is not a chunk length: write `time=1` (`time=:` for the whole dimension)")]
    Form(String),
    /// Not a usable number.
    #[error("`{length}` is not a chunk length for `{dimension}`: write a number above 0, or `:`")]
    Length {
        /// The dimension.
        dimension: String,
        /// What was written.
        length: String,
    },
    /// The same dimension twice.
    #[error("the dimension `{0}` is named twice")]
    Twice(String),
}

impl ChunkSpec {
    /// Whether the option is not given.
    pub fn is_empty(&self) -> bool {
        self.dimensions.is_empty()
    }

    /// What is asked for along a dimension.
    pub fn extent(&self, dimension: &str) -> Option<Extent> {
        self.dimensions.iter().find(|(name, _)| name == dimension).map(|(_, extent)| *extent)
    }

    /// The dimensions that are named.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.dimensions.iter().map(|(name, _)| name.as_str())
    }
}

impl FromStr for ChunkSpec {
    type Err = ChunkSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut spec = Self::default();
        if text.trim().is_empty() {
            return Ok(spec);
        }
        for part in text.split(',') {
            let (name, length) = part
                .rsplit_once('=')
                .map(|(name, length)| (name.trim(), length.trim()))
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| ChunkSpecError::Form(part.trim().to_owned()))?;
            if spec.extent(name).is_some() {
                return Err(ChunkSpecError::Twice(name.to_owned()));
            }
            let extent = match length {
                ":" | "-1" => Extent::Full,
                number => Extent::Elements(number.parse().map_err(
                    |_ignored: std::num::ParseIntError| ChunkSpecError::Length {
                        dimension: name.to_owned(),
                        length: number.to_owned(),
                    },
                )?),
            };
            spec.dimensions.push((name.to_owned(), extent));
        }
        Ok(spec)
    }
}

impl fmt::Display for ChunkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, extent)) in self.dimensions.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match extent {
                Extent::Full => write!(f, "{comma}{name}=:")?,
                Extent::Elements(length) => write!(f, "{comma}{name}={length}")?,
            }
        }
        Ok(())
    }
}

impl TryFrom<String> for ChunkSpec {
    type Error = ChunkSpecError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ChunkSpec> for String {
    fn from(spec: ChunkSpec) -> Self {
        spec.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_lengths_are_read_by_name() {
        let spec: ChunkSpec = "time=1, lat=256,lon=:,depth=-1".parse().unwrap();
        assert_eq!(spec.extent("lat"), Some(Extent::Elements(NonZeroU64::new(256).unwrap())));
        assert_eq!(spec.extent("lon"), Some(Extent::Full));
        assert_eq!(spec.extent("depth"), Some(Extent::Full));
        assert_eq!(spec.extent("x"), None);
        assert_eq!(spec.to_string(), "time=1,lat=256,lon=:,depth=:");
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<ChunkSpec>(&json).unwrap(), spec);
        assert!("".parse::<ChunkSpec>().unwrap().is_empty());
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, hint) in [
            ("time", "write `time=1`"),
            ("time:1", "write `time=1`"),
            ("=1", "write `time=1`"),
            ("time=1,", "`` is not a chunk length"),
            ("time=0", "`0` is not a chunk length for `time`"),
            ("time=-2", "a number above 0, or `:`"),
            ("time=1,time=2", "named twice"),
        ] {
            let error = text.parse::<ChunkSpec>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
