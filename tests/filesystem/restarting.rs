//! What a killed daemon leaves is there again.

use std::time::{Duration, SystemTime};

use crate::mount::{Mount, NEW, TRUNCATE};

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
