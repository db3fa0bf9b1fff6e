//! The staging area as its users see it, reopened after every kind of end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::area::Surroundings;
use super::*;
use crate::base::clock::Clock;
use crate::netcdf::ByteSource;

/// A spool in a temporary folder that can be opened again and again.
pub(super) struct Spool {
    pub(super) folder: tempfile::TempDir,
    pub(super) surroundings: Surroundings,
    pub(super) size_max: u64,
    pub(super) inline_bytes_max: usize,
}

impl Spool {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let surroundings = Surroundings::present();
        Self { folder, surroundings, size_max: 1 << 30, inline_bytes_max: 1000 }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    pub(super) fn try_open(&self) -> Result<(Arc<Staging>, Recovered), OpenError> {
        self.try_open_at(&self.path())
    }

    pub(super) fn try_open_at(&self, path: &Path) -> Result<(Arc<Staging>, Recovered), OpenError> {
        let options = SpoolOptions {
            folder: path.to_owned(),
            size_max: self.size_max,
            inline_bytes_max: self.inline_bytes_max,
        };
        Staging::open_in(options, &identity(), Clock::system(), &self.surroundings)
    }

    pub(super) fn open(&self) -> (Arc<Staging>, Recovered) {
        self.try_open().unwrap()
    }
}

pub(super) fn identity() -> SpoolIdentity {
    SpoolIdentity {
        store: "s3://bucket/prefix".into(),
        mount_point: "/mnt/a".into(),
        settings: serde_json::json!({"chunks": "time=1"}),
    }
}

pub(super) fn at(text: &str) -> Location {
    Location::parse(text).unwrap()
}

pub(super) fn attributes(mode: u32) -> FileAttributes {
    FileAttributes { mode, uid: 1, gid: 2, mtime_ns: 1_700_000_000_123_456_789 }
}

/// Bytes that differ from place to place.
pub(super) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|i| (seed.wrapping_mul(31).wrapping_add(i.wrapping_mul(i) / 7)).to_le_bytes()[0])
        .collect()
}

pub(super) fn content(staging: &Staging, id: u64) -> Vec<u8> {
    let file = staging.file(FileId(id)).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len()).unwrap() + 1];
    let count = file.read_at(0, &mut bytes).unwrap();
    bytes.truncate(count);
    bytes
}

/// Creates, writes and seals a file.
pub(super) fn put(staging: &Staging, id: u64, path: &str, bytes: &[u8]) -> Arc<StagedFile> {
    let file = staging.create(FileId(id), &at(path), &attributes(0o600)).unwrap();
    file.write_at(0, bytes).unwrap();
    staging.seal(&file, &at(path), &attributes(0o644)).unwrap();
    file
}

#[test]
fn sealed_files_survive_the_daemon_whether_small_or_large() {
    let spool = Spool::new();
    let (small, large) = (pattern(1, 1000), pattern(2, 300_000));
    {
        let (staging, recovered) = spool.open();
        assert_eq!(recovered.next_id, 0);
        put(&staging, 1, "a/small", &small);
        put(&staging, 2, "a/large", &large);
        put(&staging, 3, "empty", b"");
    }
    let (staging, recovered) = spool.open();
    let seen = recovered
        .files
        .iter()
        .map(|file| (file.id.0, file.path.as_str(), file.size, file.closed, file.attributes.mode));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [
            (1, "a/small", 1000, true, 0o644),
            (2, "a/large", 300_000, true, 0o644),
            (3, "empty", 0, true, 0o644)
        ]
    );
    assert_eq!(recovered.next_id, 4);
    assert_eq!(recovered.identity, Some(identity()));
    assert_eq!(content(&staging, 1), small);
    assert_eq!(content(&staging, 2), large);
    assert_eq!(content(&staging, 3), b"");
    assert_eq!(staging.usage(), Usage { bytes: 301_000, bytes_max: 1 << 30, files: 3 });
}

#[test]
fn uploaded_and_discarded_files_are_gone_and_their_room_is_free() {
    let spool = Spool::new();
    {
        let (staging, _) = spool.open();
        let small = put(&staging, 1, "small", &pattern(1, 10));
        let large = put(&staging, 2, "large", &pattern(2, 5000));
        assert!(!staging.uploaded(FileId(1), small.generation() + 1).unwrap());
        assert!(staging.uploaded(FileId(1), small.generation()).unwrap());
        staging.discard(FileId(2)).unwrap();
        staging.discard(FileId(2)).unwrap();
        assert_eq!(staging.usage().bytes, 0);
        assert_eq!(fs::read_dir(spool.path().join("files")).unwrap().count(), 0);
        let mut bytes = vec![0; 5000];
        large.read_exact_at(0, &mut bytes).unwrap();
        assert_eq!(bytes, pattern(2, 5000), "open readers keep their handle");
    }
    let (_, recovered) = spool.open();
    assert_eq!(recovered.files, []);
    assert_eq!(recovered.next_id, 3);
}
