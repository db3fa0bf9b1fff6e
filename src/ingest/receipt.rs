//! Receipts: what came from which file, kept in the bucket beside the dataset.
//!
//! One JSON object per epoch at `<parent>/.zarrmount/<dataset>/<epoch>.json`, never shown through
//! the mount. It is put **before** the root document of its epoch and names that document's digest:
//! a receipt is valid exactly while the root document in the bucket is the one that it names. So
//! there is no second state to keep in step with the first. A receipt whose epoch was never
//! published, whose dataset was removed, or whose dataset was changed by another program since, is
//! void by itself.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use crate::plan::Encoding;

/// Version of the format; readers leave others alone.
const FORMAT: u32 = 1;

/// The receipt of a dataset: of one epoch and of all before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Version of this format.
    pub format: u32,
    /// Unique name of the epoch; sorts by time.
    pub epoch: String,
    /// Which program wrote it.
    pub writer: String,
    /// Digest of the root document that this epoch published.
    pub root_document: Digest,
    /// The files that the dataset was made from, in the order of their epochs.
    pub sources: Vec<SourceRecord>,
    /// Node paths of the arrays and groups below the root.
    pub nodes: Vec<String>,
    /// How the values were laid out.
    pub encoding: Encoding,
    /// The dimension that files were joined along, by the path of the group that they went into.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: BTreeMap<String, String>,
    /// Whether the dataset holds something that was not made from source files.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_others: bool,
}

/// One source file of an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Name, relative to the dataset or, where it makes a dataset of its own, to the folder of that.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Of the whole file.
    pub digest: Digest,
    /// Whether values of later files took the place of some of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub superseded: bool,
}

impl Receipt {
    /// A receipt by this program.
    pub fn new(
        epoch: String,
        root_document: Digest,
        sources: Vec<SourceRecord>,
        nodes: Vec<String>,
        encoding: Encoding,
    ) -> Self {
        let writer = format!("zarrmount {}", env!("CARGO_PKG_VERSION"));
        let (axes, has_others) = (BTreeMap::new(), false);
        Self {
            format: FORMAT,
            epoch,
            writer,
            root_document,
            sources,
            nodes,
            encoding,
            axes,
            has_others,
        }
    }

    /// Reads a receipt; `None` for one that is damaged or of another format, which proves nothing.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|receipt: &Self| receipt.format == FORMAT)
    }

    /// As JSON.
    pub fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec_pretty(self)
    }

    /// Whether all of the dataset came from the file of this name.
    pub fn is_wholly_from(&self, name: &str) -> bool {
        !self.has_others
            && !self.sources.is_empty()
            && self.sources.iter().all(|source| source.name == name)
    }

    /// The record of one source file.
    pub fn source(&self, name: &str) -> Option<&SourceRecord> {
        self.sources.iter().find(|source| source.name == name)
    }
}

impl SourceRecord {
    /// Modification time.
    pub fn mtime(&self) -> SystemTime {
        let distance = Duration::from_nanos(self.mtime_ns.unsigned_abs());
        let time = if self.mtime_ns < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        time.unwrap_or(UNIX_EPOCH)
    }
}

/// A time as receipts hold it; what does not fit is the nearest that does.
pub(super) fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, i64::saturating_neg)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        Receipt::new(
            "e".into(),
            Digest::of_bytes(b"{}"),
            vec![SourceRecord {
                name: "sst.nc".into(),
                bytes: 3,
                mtime_ns: -1,
                digest: Digest::of_bytes(b"abc"),
                superseded: false,
            }],
            vec!["sst".into()],
            Encoding::default(),
        )
    }

    #[test]
    fn a_receipt_reads_back_the_same() {
        let bytes = receipt().to_bytes().unwrap();
        assert_eq!(Receipt::parse(&bytes), Some(receipt()));
        assert_eq!(Receipt::parse(bytes.get(..20).unwrap()), None);
    }

    #[test]
    fn a_receipt_of_another_format_proves_nothing() {
        let newer = Receipt { format: FORMAT + 1, ..receipt() };
        assert_eq!(Receipt::parse(&newer.to_bytes().unwrap()), None);
    }

    #[test]
    fn only_a_dataset_of_one_name_is_wholly_from_it() {
        let mut both = receipt();
        assert!(both.is_wholly_from("sst.nc"));
        assert!(!both.is_wholly_from("other.nc"));
        both.sources.push(SourceRecord { name: "other.nc".into(), ..both.sources[0].clone() });
        assert!(!both.is_wholly_from("sst.nc"));
    }
}
