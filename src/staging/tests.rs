//! The staging area as its users see it, reopened after every kind of end.

mod crash;
mod model;

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

#[test]
fn a_small_file_written_again_is_recovered_as_it_was_closed() {
    let spool = Spool::new();
    {
        let (staging, _) = spool.open();
        let file = put(&staging, 1, "f", &pattern(1, 500));
        put(&staging, 2, "grown", &pattern(2, 500));
        file.write_at(100, &pattern(9, 700)).unwrap();
        assert_eq!(content(&staging, 1)[100..], pattern(9, 700));
        staging.file(FileId(2)).unwrap().write_at(500, &pattern(9, 5000)).unwrap();
    }
    let (staging, recovered) = spool.open();
    assert!(recovered.files.iter().all(|file| file.closed));
    assert_eq!(content(&staging, 1), pattern(1, 500));
    assert_eq!(content(&staging, 2), pattern(2, 500));
    assert_eq!(fs::read_dir(spool.path().join("files")).unwrap().count(), 0, "no orphan stays");
}

#[test]
fn a_large_file_written_again_is_partial_until_it_is_closed() {
    let spool = Spool::new();
    {
        let (staging, _) = spool.open();
        let file = put(&staging, 1, "rewritten", &pattern(1, 5000));
        file.write_at(0, b"new").unwrap();
        let file = put(&staging, 2, "truncated", &pattern(2, 5000));
        file.set_len(0).unwrap();
        let file = put(&staging, 3, "closed again", &pattern(3, 5000));
        file.set_len(4000).unwrap();
        staging.seal(&file, &at("closed again"), &attributes(0o644)).unwrap();
    }
    let (staging, recovered) = spool.open();
    let states =
        recovered.files.iter().map(|file| (file.state, file.closed, file.size)).collect::<Vec<_>>();
    assert_eq!(
        states,
        [
            (RecoveredState::Writing, false, 5000),
            (RecoveredState::Writing, false, 0),
            (RecoveredState::Closed, true, 4000)
        ]
    );
    assert_eq!(content(&staging, 1)[..4], [b"new", &pattern(1, 5000)[3..4]].concat());
    assert_eq!(content(&staging, 3), pattern(3, 5000)[..4000]);
}

#[test]
fn files_that_were_never_closed_are_named_as_partial() {
    let spool = Spool::new();
    {
        let (staging, _) = spool.open();
        for (id, path, length) in [(1, "small", 10), (2, "large", 5000), (3, "synced", 20)] {
            let file = staging.create(FileId(id), &at(path), &attributes(0o600)).unwrap();
            file.write_at(0, &pattern(id, length)).unwrap();
            if id == 3 {
                file.sync().unwrap();
                file.write_at(0, b"later").unwrap();
            }
        }
    }
    let (staging, recovered) = spool.open();
    let seen = recovered.files.iter().map(|f| (f.path.as_str(), f.size, f.closed));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [("small", 0, false), ("large", 5000, false), ("synced", 20, false)]
    );
    assert_eq!(content(&staging, 2), pattern(2, 5000));
    assert_eq!(content(&staging, 3), pattern(3, 20), "what an fsync covered is there");
    let file = staging.file(FileId(3)).unwrap();
    staging.seal(&file, &at("synced"), &attributes(0o600)).unwrap();
    drop((file, staging));
    assert!(spool.open().1.files[2].closed, "a partial file can be taken as it is");
}

#[test]
fn renames_attributes_deletes_and_notes_survive() {
    let spool = Spool::new();
    let value = serde_json::json!({"n": 9_007_199_254_740_993_u64});
    {
        let (staging, _) = spool.open();
        put(&staging, 1, "a/b/one", b"1");
        put(&staging, 2, "ab/two", b"2");
        staging.update(FileId(2), &at("a/b/c/two"), &attributes(0o400)).unwrap();
        staging.rename_folder(&at("a/b"), &at("x")).unwrap();
        staging.record_delete(&at("gone/1")).unwrap();
        staging.record_delete(&at("gone/2")).unwrap();
        staging.deleted(&at("gone/1")).unwrap();
        staging.note("plan", Some(&serde_json::json!(1))).unwrap();
        staging.note("plan", Some(&value)).unwrap();
        staging.note("other", Some(&value)).unwrap();
        staging.note("other", None).unwrap();
        let error = staging.update(FileId(77), &at("x"), &attributes(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
    // The second time from the checkpoint.
    for _ in 0..2 {
        let (_, recovered) = spool.open();
        let paths = recovered.files.iter().map(|file| file.path.as_str());
        assert_eq!(paths.collect::<Vec<_>>(), ["x/one", "x/c/two"]);
        assert_eq!(recovered.files[1].attributes, attributes(0o400));
        assert_eq!(recovered.deletes, [at("gone/2")]);
        assert_eq!(recovered.notes, [("plan".to_owned(), value.clone())]);
    }
}

#[test]
fn nothing_is_freed_while_the_file_is_open_for_writing_or_has_changed() {
    let spool = Spool::new();
    let (staging, _) = spool.open();
    let file = put(&staging, 1, "f", b"first");
    let sent = file.generation();
    file.open_writer();
    assert!(!staging.uploaded(FileId(1), sent).unwrap());
    file.write_at(0, b"again").unwrap();
    assert_eq!(file.close_writer(), 0);
    assert!(!staging.uploaded(FileId(1), sent).unwrap());
    assert!(!staging.uploaded(FileId(1), file.generation()).unwrap(), "not sealed yet");
    let sealed = staging.seal(&file, &at("f"), &attributes(0)).unwrap();
    assert!(file.is_staged());
    assert!(staging.uploaded(FileId(1), sealed).unwrap());
    assert!(!file.is_staged());
    assert!(matches!(file.write_at(0, b"lost?"), Err(WriteError::Io(_))));
}

#[test]
fn a_deleted_file_that_is_open_can_be_written_and_costs_nothing_after_its_last_close() {
    let spool = Spool::new();
    let (staging, _) = spool.open();
    let file = staging.create(FileId(1), &at("f"), &attributes(0)).unwrap();
    file.open_writer();
    file.write_at(0, &pattern(1, 10)).unwrap();
    staging.discard(FileId(1)).unwrap();
    file.write_at(10, &pattern(2, 5000)).unwrap();
    assert_eq!(staging.usage(), Usage { bytes: 5010, bytes_max: 1 << 30, files: 0 });
    assert_eq!(fs::read_dir(spool.path().join("files")).unwrap().count(), 0);
    let mut bytes = [0; 5000];
    assert_eq!(file.read_at(10, &mut bytes).unwrap(), 5000);
    assert_eq!(bytes[..], pattern(2, 5000));
    assert!(staging.seal(&file, &at("f"), &attributes(0)).is_err());
    assert_eq!(file.close_writer(), 0);
    assert_eq!(staging.usage().bytes, 0);
}

#[tokio::test]
async fn the_quota_is_paid_before_bytes_are_written() {
    let mut spool = Spool::new();
    spool.size_max = 100_000;
    let (staging, _) = spool.open();
    let first = put(&staging, 1, "first", &pattern(1, 60_000));
    let second = staging.create(FileId(2), &at("second"), &attributes(0)).unwrap();
    second.write_at(0, &pattern(2, 40_000)).unwrap();
    assert!(matches!(second.write_at(40_000, b"x"), Err(WriteError::Full)));
    assert_eq!(second.len(), 40_000);
    let room = staging.room();
    assert!(staging.uploaded(FileId(1), first.generation()).unwrap());
    room.await;
    second.write_at(40_000, &pattern(3, 60_000)).unwrap();
    assert_eq!(staging.usage().bytes, 100_000);
    second.set_len(10).unwrap();
    assert_eq!(staging.usage().bytes, 10);
}

#[test]
fn a_sparse_terabyte_costs_what_is_written_also_after_a_restart() {
    let spool = Spool::new();
    let before = {
        let (staging, _) = spool.open();
        let file = staging.create(FileId(1), &at("sparse"), &attributes(0)).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_at(1 << 39, &pattern(1, 100_000)).unwrap();
        staging.seal(&file, &at("sparse"), &attributes(0)).unwrap();
        staging.usage().bytes
    };
    assert!((100_000..300_000).contains(&before));
    let (staging, recovered) = spool.open();
    assert_eq!(recovered.files[0].size, 1 << 40);
    assert!((100_000..300_000).contains(&staging.usage().bytes));
    let mut bytes = vec![1; 100_002];
    staging.file(FileId(1)).unwrap().read_exact_at((1 << 39) - 1, &mut bytes).unwrap();
    assert_eq!(bytes[1..=100_000], pattern(1, 100_000));
    assert_eq!((bytes[0], bytes[100_001]), (0, 0));
}

#[test]
fn bytes_cut_off_come_back_as_zeros() {
    let spool = Spool::new();
    let (staging, _) = spool.open();
    for (id, length) in [(1, 900), (2, 5000)] {
        let file = staging.create(FileId(id), &at("f"), &attributes(0)).unwrap();
        file.write_at(0, &vec![7; length]).unwrap();
        file.set_len(100).unwrap();
        file.set_len(200).unwrap();
        file.write_at(300, b"x").unwrap();
        let expected = [vec![7; 100], vec![0; 200], b"x".to_vec()].concat();
        assert_eq!(content(&staging, id), expected);
    }
}

#[test]
fn small_files_beyond_the_memory_budget_are_spilled() {
    let mut spool = Spool::new();
    spool.surroundings.memory_bytes_max = 1700;
    let (staging, _) = spool.open();
    let files = (0..4_u64).map(|id| {
        let file = staging.create(FileId(id), &at("f"), &attributes(0)).unwrap();
        file.write_at(0, &pattern(id, 600)).unwrap();
        file
    });
    let files = files.collect::<Vec<_>>();
    assert_eq!(fs::read_dir(spool.path().join("files")).unwrap().count(), 2);
    for file in &files {
        staging.seal(file, &at("f"), &attributes(0)).unwrap();
        assert_eq!(content(&staging, file.id().0), pattern(file.id().0, 600));
    }
}

#[test]
fn more_spool_files_than_descriptors_can_be_written_and_read() {
    let spool = Spool::new();
    let (staging, _) = spool.open();
    for id in 0..600 {
        let file = staging.create(FileId(id), &at("f"), &attributes(0)).unwrap();
        file.write_at(0, &pattern(id, 1500)).unwrap();
    }
    for id in 0..600 {
        let file = staging.file(FileId(id)).unwrap();
        file.write_at(1500, b"end").unwrap();
        assert_eq!(content(&staging, id), [&pattern(id, 1500)[..], b"end"].concat());
    }
    let held = fs::read_dir("/proc/self/fd").unwrap();
    let held = held.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    let held = held.filter(|path| path.starts_with(spool.path().join("files"))).count();
    assert!(held <= 256, "{held}");
}

#[test]
fn twenty_writers_at_once_lose_nothing() {
    const BLOCK: usize = 5000;
    let mut spool = Spool::new();
    spool.surroundings.segment_bytes_max = 20_000;
    {
        let (staging, _) = spool.open();
        let shared = staging.create(FileId(0), &at("shared"), &attributes(0)).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..20_u64 {
                let (staging, shared) = (&staging, &shared);
                scope.spawn(move || {
                    for round in 0..20_u64 {
                        let block = round * 20 + writer;
                        shared.write_at(block * BLOCK as u64, &pattern(block, BLOCK)).unwrap();
                        put(
                            staging,
                            1000 + block,
                            &format!("{writer}/{round}"),
                            &pattern(block, 99),
                        );
                    }
                });
            }
        });
        staging.seal(&shared, &at("shared"), &attributes(0)).unwrap();
    }
    let (staging, recovered) = spool.open();
    assert_eq!(recovered.files.len(), 401);
    assert!(recovered.files.iter().all(|file| file.closed));
    let shared = content(&staging, 0);
    for block in 0..400 {
        let start = usize::try_from(block).unwrap() * BLOCK;
        assert_eq!(shared[start..start + BLOCK], pattern(block, BLOCK));
        assert_eq!(content(&staging, 1000 + block), pattern(block, 99));
    }
    assert_eq!(staging.usage().bytes, 400 * 5000 + 400 * 99);
}

#[test]
fn the_journal_is_bounded_by_what_is_live() {
    let mut spool = Spool::new();
    spool.surroundings.segment_bytes_max = 20_000;
    let live = |id: u64| id.is_multiple_of(100);
    {
        let (staging, _) = spool.open();
        let first = put(&staging, 0, "first", &pattern(0, 500));
        for id in 1..2000 {
            let file = put(&staging, id, &format!("f/{id}"), &pattern(id, 500));
            if !live(id) {
                assert!(staging.uploaded(FileId(id), file.generation()).unwrap());
            }
        }
        let segments = fs::read_dir(spool.path().join("journal")).unwrap();
        let bytes: u64 = segments.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        // 1.2 MB were appended; 20 files of 500 bytes are live.
        assert!(bytes < 110_000, "{bytes}");
        let mut read = vec![0; 500];
        first.read_exact_at(0, &mut read).unwrap();
        assert_eq!(read, pattern(0, 500), "content that was carried over is found");
    }
    let (staging, recovered) = spool.open();
    assert_eq!(recovered.files.len(), 20);
    for id in (0..2000).filter(|id| live(*id)) {
        assert_eq!(content(&staging, id), pattern(id, 500));
    }
}

#[test]
fn an_empty_file_keeps_the_segment_that_its_record_is_in() {
    let mut spool = Spool::new();
    spool.surroundings.segment_bytes_max = 2000;
    {
        let (staging, _) = spool.open();
        put(&staging, 1, "empty", b"");
        for id in 2..12 {
            let file = put(&staging, id, "f", &pattern(id, 900));
            assert!(staging.uploaded(FileId(id), file.generation()).unwrap());
        }
    }
    let (staging, recovered) = spool.open();
    assert_eq!(recovered.files.len(), 1);
    assert_eq!(content(&staging, 1), b"");
}

#[test]
fn a_clean_close_leaves_only_the_lock_file() {
    let spool = Spool::new();
    {
        let (staging, _) = spool.open();
        let file = put(&staging, 1, "f", &pattern(1, 5000));
        assert!(!staging.close_clean().unwrap());
        assert!(staging.uploaded(FileId(1), file.generation()).unwrap());
        assert!(staging.close_clean().unwrap());
        let left = fs::read_dir(spool.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["lock"]);
        assert!(staging.create(FileId(2), &at("f"), &attributes(0)).is_err());
    }
    assert!(matches!(Staging::inspect(&spool.path()), Err(OpenError::NoSpool { .. })));
    let (_, recovered) = spool.open();
    assert!(recovered.files.is_empty());
}

#[test]
fn a_spool_has_one_daemon_and_belongs_to_one_mount() {
    use std::os::unix::fs::PermissionsExt;
    let spool = Spool::new();
    let (staging, _) = spool.open();
    put(&staging, 1, "f", b"1");
    let mode = fs::metadata(spool.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let pid = std::process::id();
    assert!(matches!(spool.try_open(), Err(OpenError::InUse { pid: held, .. }) if held == pid));
    let inspected = Staging::inspect(&spool.path());
    assert!(matches!(inspected, Err(OpenError::InUse { pid: held, .. }) if held == pid));
    drop(staging);

    let options = SpoolOptions { folder: spool.path(), size_max: 1, inline_bytes_max: 1 };
    let other = SpoolIdentity { store: "gs://other".into(), ..identity() };
    let error = Staging::open(options, &other, Clock::system()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("s3://bucket/prefix") && text.contains("gs://other"), "{text}");

    let seen = Staging::inspect(&spool.path()).unwrap();
    assert_eq!(seen.identity, identity());
    assert_eq!(seen.recovered.files[0].path, at("f"));
    assert_eq!(spool.open().1.files, seen.recovered.files, "looking changed nothing");
}

#[test]
fn a_journal_of_another_version_is_refused_with_what_to_do() {
    let spool = Spool::new();
    drop(spool.open());
    let segment = spool.path().join("journal/00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[8] = 2;
    fs::write(&segment, bytes).unwrap();
    let error = spool.try_open().unwrap_err();
    assert!(matches!(error, OpenError::OtherVersion { found: 2, expected: 1, .. }));
    assert!(error.to_string().contains("--spool-dir"), "{error}");
}

#[test]
fn after_a_power_cut_only_synced_bytes_count_as_whole() {
    use RecoveredState::{Closed, Incomplete, Unsynced, Writing};
    let mut spool = Spool::new();
    let open_after_power_cut = |spool: &mut Spool| {
        spool.surroundings.boot_id.push('x');
        let (staging, recovered) = spool.open();
        drop(staging);
        recovered.files.iter().map(|file| (file.id.0, file.state)).collect::<Vec<_>>()
    };
    {
        let (staging, _) = spool.open();
        put(&staging, 1, "synced with all", &pattern(1, 5000));
        staging.sync().unwrap();
        put(&staging, 2, "synced alone", &pattern(2, 5000)).sync().unwrap();
        put(&staging, 3, "small", &pattern(3, 50));
        put(&staging, 4, "not synced", &pattern(4, 5000));
        let file = put(&staging, 5, "changed after the sync", &pattern(5, 5000));
        file.sync().unwrap();
        file.write_at(0, b"x").unwrap();
        staging.seal(&file, &at("changed after the sync"), &attributes(0)).unwrap();
        put(&staging, 6, "lost", &pattern(6, 5000));
        put(&staging, 7, "short", &pattern(7, 5000)).sync().unwrap();
    }
    fs::remove_file(spool.path().join("files/6")).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(spool.path().join("files/7"))
        .and_then(|file| file.set_len(10))
        .unwrap();
    assert_eq!(
        open_after_power_cut(&mut spool),
        [
            (1, Closed),
            (2, Closed),
            (3, Closed),
            (4, Unsynced),
            (5, Unsynced),
            (6, Incomplete),
            (7, Incomplete)
        ]
    );
    let again = open_after_power_cut(&mut spool);
    assert_eq!(again[3..], [(4, Writing), (5, Writing), (6, Writing), (7, Writing)]);
}

#[test]
fn a_full_file_system_is_a_full_staging_area() {
    let spool = Spool::new();
    let (staging, _) = spool.open();
    for errno in [nix::errno::Errno::ENOSPC, nix::errno::Errno::EDQUOT] {
        assert!(matches!(staging.shared().write_error(errno.into()), WriteError::Full));
    }
    let error = staging.shared().write_error(nix::errno::Errno::EIO.into());
    assert!(matches!(error, WriteError::Io(_)));
}
