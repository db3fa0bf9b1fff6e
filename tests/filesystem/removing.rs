//! Deleting files and folders.

use crate::mount::{Mount, NEW, READ};

#[tokio::test]
async fn a_deleted_object_is_hidden_at_once_and_deleted_in_its_turn() {
    let mount = Mount::new().await;
    mount.put("d/f", b"x").await;
    mount.unlink("d/f").await.unwrap();
    mount.stat("d/f").await.unwrap_err();
    assert!(mount.list("d").await.is_empty());
    assert_eq!(mount.unlink("d/f").await.unwrap_err().errno(), libc::ENOENT);
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
    mount.stat("d/f").await.unwrap_err();
    // It was not removed.
    mount.stat("d").await.unwrap();
}

#[tokio::test]
async fn a_file_made_under_a_deleted_name_and_deleted_too_leaves_nothing_behind() {
    let mount = Mount::new().await;
    mount.put("f", b"old").await;
    mount.unlink("f").await.unwrap();
    mount.copy_in("f", b"new").await;
    assert_eq!(mount.read("f").await.unwrap(), b"new");
    mount.unlink("f").await.unwrap();
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
}

#[tokio::test]
async fn a_file_changed_and_deleted_before_it_was_sent_again_leaves_nothing_behind() {
    let mount = Mount::new().await;
    mount.copy_in("f", b"first").await;
    mount.flush().await;
    let opened = mount.open("f", crate::mount::UPDATE).await.unwrap();
    mount.write(opened, 0, b"second");
    mount.close(opened).await.unwrap();
    mount.unlink("f").await.unwrap();
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
}

#[tokio::test]
async fn a_deleted_file_lives_for_those_who_have_it_open() {
    let mount = Mount::new().await;
    let (attr, writer) = mount.create("f", NEW).await.unwrap();
    mount.write(writer, 0, b"content");
    let reader = mount.open("f", READ).await.unwrap();
    mount.unlink("f").await.unwrap();
    mount.write(writer, 7, b" grows");
    assert_eq!(&mount.fs.read(reader.fh, 0, 100).await.unwrap()[..], b"content grows");
    assert_eq!(mount.fs.getattr(attr.ino, Some(reader.fh)).await.unwrap().size, 13);
    assert_eq!(mount.fs.getattr(attr.ino, None).await.unwrap().size, 13);
    mount.copy_in("f", b"another").await;
    mount.close(writer).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("f").await.unwrap(), b"another");
}

#[tokio::test]
async fn only_an_empty_folder_is_removed() {
    let mount = Mount::new().await;
    mount.put("d/f", b"x").await;
    assert_eq!(mount.rmdir("d").await.unwrap_err().errno(), libc::ENOTEMPTY);
    assert_eq!(mount.unlink("d").await.unwrap_err().errno(), libc::EISDIR);
    assert_eq!(mount.rmdir("d/f").await.unwrap_err().errno(), libc::ENOTDIR);
    mount.unlink("d/f").await.unwrap();
    mount.rmdir("d").await.unwrap();
    mount.stat("d").await.unwrap_err();
    assert!(mount.list("").await.is_empty());
    mount.flush().await;
    mount.stat("d").await.unwrap_err();
    assert!(mount.list("").await.is_empty());
}

#[tokio::test]
async fn a_removed_folder_can_be_made_and_filled_again_at_once() {
    let mount = Mount::new().await;
    mount.put("d/old", b"x").await;
    mount.unlink("d/old").await.unwrap();
    mount.rmdir("d").await.unwrap();
    mount.mkdir("d").await.unwrap();
    mount.copy_in("d/new", b"y").await;
    assert_eq!(mount.list("d").await, ["new"]);
    mount.flush().await;
    assert_eq!(mount.keys().await, ["d/new"]);
    assert_eq!(mount.list("d").await, ["new"]);
    assert_eq!(mount.list("").await, ["d"]);
}
