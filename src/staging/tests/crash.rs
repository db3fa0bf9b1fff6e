//! The journal cut at every byte, and with every bit in doubt.

use super::*;
use crate::staging::recovery::Leftovers;
use crate::staging::state::State;

const SEGMENT: &str = "journal/00000001.seg";

/// One thing a user does, small enough that its record is short.
type Step = Box<dyn Fn(&Staging)>;

fn steps() -> Vec<Step> {
    let file = |staging: &Staging, id| staging.file(FileId(id)).unwrap();
    let seal = |staging: &Staging, id: u64| {
        let path = at(&format!("d/{id}"));
        let generation =
            staging.seal(&staging.file(FileId(id)).unwrap(), &path, &attributes(0o644));
        assert!(generation.is_ok());
    };
    vec![
        Box::new(|s| drop(s.create(FileId(1), &at("d/1"), &attributes(0o600)).unwrap())),
        Box::new(move |s| file(s, 1).write_at(0, b"small").unwrap()),
        Box::new(move |s| seal(s, 1)),
        Box::new(|s| drop(s.create(FileId(2), &at("d/2"), &attributes(0o600)).unwrap())),
        Box::new(move |s| file(s, 2).write_at(0, &pattern(2, 2000)).unwrap()),
        Box::new(move |s| seal(s, 2)),
        Box::new(move |s| file(s, 2).sync().unwrap()),
        Box::new(move |s| file(s, 2).write_at(10, b"changed").unwrap()),
        Box::new(move |s| seal(s, 2)),
        Box::new(move |s| file(s, 1).write_at(5, b" file").unwrap()),
        Box::new(move |s| file(s, 1).sync().unwrap()),
        Box::new(move |s| seal(s, 1)),
        Box::new(|s| s.update(FileId(1), &at("d/e/1"), &attributes(0o400)).unwrap()),
        Box::new(|s| s.rename_folder(&at("d"), &at("r")).unwrap()),
        Box::new(|s| s.record_delete(&at("x")).unwrap()),
        Box::new(|s| s.note("k", Some(&serde_json::json!({"a": [1, null]}))).unwrap()),
        Box::new(|s| s.deleted(&at("x")).unwrap()),
        Box::new(|s| s.note("k", None).unwrap()),
        Box::new(move |s| assert!(s.uploaded(FileId(1), file(s, 1).generation()).unwrap())),
        Box::new(|s| s.discard(FileId(2)).unwrap()),
    ]
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn read(spool: &Spool, path: &Path) -> Result<(State, Vec<RecoveredFile>), OpenError> {
    let found = Leftovers::read(path, &spool.surroundings.boot_id)?;
    Ok((found.state, found.files))
}

#[test]
fn a_journal_cut_at_any_byte_is_the_state_before_that_record() {
    let spool = Spool::new();
    let (staging, _) = spool.open();
    let scene = |index: usize| spool.folder.path().join(format!("after-{index}"));
    copy(&spool.path(), &scene(0));
    for (index, step) in steps().iter().enumerate() {
        step(&staging);
        copy(&spool.path(), &scene(index + 1));
    }
    let mut cuts = 0;
    for index in 0..steps().len() {
        let (before, after) = (scene(index), scene(index + 1));
        let expected = read(&spool, &before).unwrap();
        let whole = fs::read(after.join(SEGMENT)).unwrap();
        let start = fs::metadata(before.join(SEGMENT)).unwrap().len();
        for length in usize::try_from(start).unwrap()..whole.len() {
            // The record comes after the bytes it speaks of and before those it gives up, so the
            // files are those of the step before, or (closed at any moment) those after it.
            fs::write(before.join(SEGMENT), &whole[..length]).unwrap();
            let found = read(&spool, &before).unwrap();
            assert_eq!(found, expected, "step {index} cut to {length} bytes");
            fs::write(after.join(SEGMENT), &whole[..length]).unwrap();
            assert_eq!(read(&spool, &after).unwrap().0.next_id, expected.0.next_id);
            cuts += 1;
        }
        fs::write(after.join(SEGMENT), &whole).unwrap();
    }
    assert!(cuts > 700, "{cuts}");
}

#[test]
fn a_daemon_goes_on_behind_a_torn_tail() {
    let spool = Spool::new();
    {
        let (staging, _) = spool.open();
        put(&staging, 1, "kept", &pattern(1, 100));
        put(&staging, 2, "torn", &pattern(2, 100));
    }
    let segment = spool.path().join(SEGMENT);
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 30]).unwrap();
    {
        let (staging, recovered) = spool.open();
        assert!(recovered.torn_bytes > 100);
        assert_eq!(recovered.files.len(), 2);
        assert!(recovered.files[0].closed && !recovered.files[1].closed);
        put(&staging, 3, "new", &pattern(3, 100));
    }
    let (staging, recovered) = spool.open();
    assert_eq!(recovered.torn_bytes, 0);
    assert_eq!(content(&staging, 1), pattern(1, 100));
    assert_eq!(content(&staging, 3), pattern(3, 100));
}

/// Offsets of all frames in a segment, found by walking the lengths.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut offsets = vec![40 + number(12)];
    while let Some(last) = offsets.last().copied().filter(|last| *last < bytes.len()) {
        offsets.push(last + 24 + number(last + 4));
    }
    offsets
}

#[test]
fn damage_anywhere_but_in_the_last_record_is_reported_with_its_place() {
    let spool = Spool::new();
    {
        let (staging, _) = spool.open();
        put(&staging, 1, "a", b"0123456789");
        put(&staging, 2, "b", &pattern(1, 2000));
        staging.note("k", Some(&serde_json::json!(1))).unwrap();
    }
    let segment = spool.path().join(SEGMENT);
    let bytes = fs::read(&segment).unwrap();
    let offsets = frames(&bytes);
    let intact = read(&spool, &spool.path()).unwrap();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&segment, &damaged).unwrap();
        let found = read(&spool, &spool.path());
        let frame = offsets.iter().rposition(|offset| *offset <= place);
        match (found, frame) {
            (Err(OpenError::OtherVersion { .. }), None) => assert!((8..12).contains(&place)),
            (Err(OpenError::Damaged { offset: 0, damage: Damage::Header, .. }), None) => {}
            (Err(OpenError::Damaged { segment: named, offset, .. }), Some(frame)) => {
                assert_eq!((named, offset), (segment.clone(), offsets[frame] as u64));
                assert!(frame + 2 < offsets.len(), "the last record is a torn tail");
            }
            (Ok(found), Some(frame)) => {
                assert_eq!(frame + 2, offsets.len(), "byte {place} was passed over");
                assert_ne!(found, intact);
            }
            (found, frame) => panic!("byte {place} in frame {frame:?}: {found:?}"),
        }
    }
}

#[test]
fn content_that_looks_like_a_journal_is_not_taken_for_one() {
    let mut spool = Spool::new();
    spool.inline_bytes_max = 100_000;
    let (staging, _) = spool.open();
    put(&staging, 1, "a", &pattern(1, 100));
    put(&staging, 2, "b", &pattern(1, 100));
    let copy = fs::read(spool.path().join(SEGMENT)).unwrap();
    put(&staging, 3, "copy of the journal", &copy);
    drop(staging);
    let segment = spool.path().join(SEGMENT);
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 1]).unwrap();
    let (_, files) = read(&spool, &spool.path()).unwrap();
    assert_eq!(files.len(), 3);
    assert!(!files[2].closed);
}

#[test]
fn an_older_segment_that_is_damaged_short_or_missing_is_reported() {
    let mut spool = Spool::new();
    spool.surroundings.segment_bytes_max = 3000;
    {
        let (staging, _) = spool.open();
        for id in 0..10 {
            put(&staging, id, "f", &pattern(id, 900));
        }
    }
    let older = spool.path().join("journal/00000002.seg");
    let bytes = fs::read(&older).unwrap();
    fs::write(&older, &bytes[..bytes.len() - 1]).unwrap();
    let error = spool.try_open().unwrap_err();
    assert!(
        matches!(&error, OpenError::Damaged { segment, damage: Damage::Frame, .. } if *segment == older),
        "{error}"
    );
    fs::remove_file(&older).unwrap();
    let error = spool.try_open().unwrap_err();
    assert!(
        matches!(&error, OpenError::MissingSegment { segment, .. } if *segment == older),
        "{error}"
    );
    fs::write(&older, bytes).unwrap();
    assert_eq!(spool.open().1.files.len(), 10);
}

#[test]
fn a_segment_that_was_not_finished_is_ignored() {
    let spool = Spool::new();
    {
        let (staging, _) = spool.open();
        put(&staging, 1, "f", b"1");
    }
    let debris = spool.path().join("journal/00000002.seg.new");
    fs::write(&debris, b"ZMSPOOL\0\x01").unwrap();
    assert_eq!(spool.open().1.files.len(), 1);
    assert!(!debris.exists());
}
