//! The options that decide how a NetCDF file becomes Zarr.

use serde::{Deserialize, Serialize};

use super::chunk_spec::ChunkSpec;
use super::join::Rules;
use crate::zarr::{CodecSpec, ZarrFormat};

/// How values are laid out and encoded. Recorded with every ingest, so that a later mount with
/// other options does not change what has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Encoding {
    /// `--chunks`
    pub chunks: ChunkSpec,
    /// `--codec`
    pub codec: CodecSpec,
    /// `--zarr-format`
    pub format: ZarrFormat,
    /// Whether the root document repeats the metadata of all nodes.
    pub consolidated: bool,
    /// Whether variables and attributes that cannot be stored are left out with a warning; else
    /// the file is refused.
    pub skip_unsupported: bool,
    /// How several files become one dataset.
    pub join: Rules,
}

impl Default for Encoding {
    fn default() -> Self {
        Self {
            chunks: ChunkSpec::default(),
            codec: CodecSpec::default(),
            format: ZarrFormat::V3,
            consolidated: true,
            skip_unsupported: false,
            join: Rules::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::join::Overlap;
    use super::*;

    #[test]
    fn a_recorded_encoding_reads_back_the_same() {
        let encoding = Encoding {
            chunks: "time=1".parse().unwrap(),
            codec: "gzip:1".parse().unwrap(),
            format: ZarrFormat::V2,
            consolidated: false,
            skip_unsupported: true,
            join: Rules { overlap: Overlap::Keep, ..Rules::default() },
        };
        let text = serde_json::to_string(&encoding).unwrap();
        assert_eq!(
            text,
            r#"{"chunks":"time=1","codec":"gzip:1","format":2,"consolidated":false,"skip_unsupported":true,"join":{"concat_dim":null,"overlap":"keep","schema":"union","unpack":false}}"#
        );
        assert_eq!(serde_json::from_str::<Encoding>(&text).unwrap(), encoding);
        assert_eq!(serde_json::from_str::<Encoding>("{}").unwrap(), Encoding::default());
        assert!(serde_json::from_str::<Encoding>(r#"{"shards":"x=1"}"#).is_err());
    }
}
