//! What a killed daemon leaves is there again.

use std::time::{Duration, SystemTime};

use zarrmount::fs::{Cut, SessionEnd};
use zarrmount::staging::{FileId, RecoveredState};

use crate::mount::{APPEND, Mount, NEW, TRUNCATE, at};

#[tokio::test]
async fn closed_files_survive_with_name_content_and_time() {
    let mount = Mount::new().await;
    let mtime = SystemTime::UNIX_EPOCH + Duration::new(99, 99);
    mount.mkdir("d").await.unwrap();
    mount.copy_in("d/.f.Ab3xYz", b"content").await;
    mount.set_mtime("d/.f.Ab3xYz", mtime).await;
    mount.rename("d/.f.Ab3xYz", "d/f").await.unwrap();
    let mount = mount.restart().await;
    let attr = mount.stat("d/f").await.unwrap();
    assert_eq!((attr.size, attr.attributes.mtime, attr.attributes.uid), (7, mtime, 1000));
    assert_eq!(mount.read("d/f").await.unwrap(), b"content");
    mount.flush().await;
    assert_eq!(mount.object("d/f").await.unwrap(), b"content");
}

#[tokio::test]
async fn a_file_is_safe_when_its_close_returns_before_the_release_comes() {
    let mount = Mount::new().await;
    let (_, opened) = mount.create("f", NEW).await.unwrap();
    mount.write(opened, 0, b"content");
    mount.fs.flush(opened.fh).await.unwrap();
    let mount = mount.restart().await;
    assert_eq!(mount.read("f").await.unwrap(), b"content");
    mount.flush().await;
    assert_eq!(mount.object("f").await.unwrap(), b"content");
}

#[tokio::test]
async fn a_file_that_was_being_written_is_not_taken_for_a_whole_one() {
    let mount = Mount::new().await;
    let (_, opened) = mount.create("f", NEW).await.unwrap();
    mount.write(opened, 0, b"half");
    let mount = mount.restart().await;
    mount.stat("f").await.unwrap_err();
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
}

/// What the next daemon finds of a file, with its bytes.
fn left(mount: &Mount, id: u64) -> Option<(RecoveredState, Vec<u8>)> {
    let left = mount.recovered.files.iter().find(|left| left.id == FileId(id))?;
    let file = mount.staging.file(left.id).unwrap();
    let mut bytes = vec![0; usize::try_from(left.size).unwrap()];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    Some((left.state, bytes))
}

/// Small ones live in memory and in the journal, large ones in spool files.
const SIZES: [usize; 2] = [1000, 200_000];

#[tokio::test]
async fn a_file_that_is_open_when_the_mount_ends_is_kept_as_partial_and_never_sent() {
    for (end, size) in [SessionEnd::ByKernel, SessionEnd::ByDaemon].into_iter().zip(SIZES) {
        let mount = Mount::new().await;
        let (attr, opened) = mount.create("f", NEW).await.unwrap();
        let half = vec![7; size];
        mount.write(opened, 0, &half);
        let cut = mount.fs.session_ended(end);
        assert_eq!(cut, [Cut { path: at("f"), bytes: size as u64, is_partial: true }]);
        let mount = mount.restart().await;
        mount.stat("f").await.unwrap_err();
        mount.flush().await;
        assert!(mount.keys().await.is_empty());
        assert_eq!(left(&mount, attr.ino.0), Some((RecoveredState::Writing, half)));
        let mount = mount.restart().await;
        assert!(left(&mount, attr.ino.0).is_some(), "it stays until somebody decides");
        mount.copy_in("f", b"whole").await;
        let mount = mount.restart().await;
        assert_eq!(left(&mount, attr.ino.0), None, "a whole copy has taken its name");
        mount.flush().await;
        assert_eq!(mount.object("f").await.unwrap(), b"whole");
    }
}

#[tokio::test]
async fn a_copy_of_a_descriptor_that_was_closed_makes_no_half_file_whole() {
    for size in SIZES {
        let mount = Mount::new().await;
        // `(cat a; sleep 9; cat b) > f`: cat closes its copy of the shell's descriptor.
        let (attr, opened) = mount.create("f", NEW).await.unwrap();
        let half = vec![7; size];
        mount.write(opened, 0, &half);
        mount.fs.flush(opened.fh).await.unwrap();
        let cut = mount.fs.session_ended(SessionEnd::ByDaemon);
        assert_eq!(cut.len(), 1);
        let mount = mount.restart().await;
        mount.flush().await;
        assert!(mount.keys().await.is_empty());
        assert_eq!(left(&mount, attr.ino.0), Some((RecoveredState::Writing, half)));
    }
}

#[tokio::test]
async fn a_close_whose_release_was_lost_with_the_session_counts() {
    for size in SIZES {
        let mount = Mount::new().await;
        let (_, opened) = mount.create("f", NEW).await.unwrap();
        mount.write(opened, 0, &vec![7; size]);
        mount.fs.flush(opened.fh).await.unwrap();
        assert_eq!(mount.fs.session_ended(SessionEnd::ByKernel), []);
        mount.flush().await;
        assert_eq!(mount.object("f").await.unwrap(), vec![7; size]);
    }
}

#[tokio::test]
async fn a_closed_file_that_is_open_again_when_the_mount_ends_stays_closed() {
    for size in SIZES {
        let mount = Mount::new().await;
        mount.copy_in("f.Temporary.partial", &vec![7; size]).await;
        mount.open("f.Temporary.partial", APPEND).await.unwrap();
        assert_eq!(mount.fs.session_ended(SessionEnd::ByDaemon), []);
        let mount = mount.restart().await;
        assert_eq!(mount.read("f.Temporary.partial").await.unwrap(), vec![7; size]);
    }
}

#[tokio::test]
async fn a_small_closed_file_that_is_being_rewritten_when_the_mount_ends_is_as_it_was_closed() {
    let mount = Mount::new().await;
    mount.copy_in("zarr.json", b"{}").await;
    let opened = mount.open("zarr.json", TRUNCATE).await.unwrap();
    mount.write(opened, 0, b"{\"half");
    let cut = mount.fs.session_ended(SessionEnd::ByDaemon);
    assert_eq!(cut, [Cut { path: at("zarr.json"), bytes: 6, is_partial: false }]);
    let mount = mount.restart().await;
    mount.flush().await;
    assert_eq!(mount.object("zarr.json").await.unwrap(), b"{}");
}

#[tokio::test]
async fn numbers_are_not_given_again_after_a_restart() {
    let mount = Mount::new().await;
    let old = mount.copy_in("f", b"x").await;
    let mount = mount.restart().await;
    assert_eq!(mount.stat("f").await.unwrap().ino, old.ino);
    let new = mount.copy_in("g", b"y").await;
    assert!(new.ino > old.ino);
    let opened = mount.open("f", TRUNCATE).await.unwrap();
    mount.write(opened, 0, b"again");
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("f").await.unwrap(), b"again");
}

#[tokio::test]
async fn a_folder_rename_that_was_cut_short_is_ended() {
    let mount = Mount::new().await;
    for key in ["a/zarr.json", "a/v/0", "a/v/1", "b/v/0"] {
        mount.put(key, key.as_bytes()).await;
    }
    mount.copy_in("a/v/2", b"staged").await;
    let note = serde_json::json!({ "from": "a", "to": "b" });
    mount.staging.note("rename/a", Some(&note)).unwrap();
    let mount = mount.restart().await;
    assert_eq!(mount.list("").await, ["b"]);
    assert_eq!(mount.read("b/v/2").await.unwrap(), b"staged");
    mount.flush().await;
    assert_eq!(mount.keys().await, ["b/v/0", "b/v/1", "b/v/2", "b/zarr.json"]);
    assert_eq!(mount.object("b/v/0").await.unwrap(), b"a/v/0");
    let mount = mount.restart().await;
    assert_eq!(mount.keys().await.len(), 4);
}
