//! Renaming and linking.

use std::time::{Duration, SystemTime};

use crate::mount::{Mount, NEW, Requests, UPDATE};

#[tokio::test]
async fn rsync_leaves_the_file_and_its_exact_time() {
    let mount = Mount::new().await;
    let mtime = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 987_654_321);
    let (_, opened) = mount.create(".f.dat.Ab3xYz", NEW).await.unwrap();
    mount.write(opened, 0, b"content");
    mount.close(opened).await.unwrap();
    mount.set_mtime(".f.dat.Ab3xYz", mtime).await;
    mount.rename(".f.dat.Ab3xYz", "f.dat").await.unwrap();
    mount.flush().await;
    assert_eq!(mount.keys().await, ["f.dat"]);
    assert_eq!(mount.stat("f.dat").await.unwrap().attributes.mtime, mtime);
    // A second run replaces it in the same way.
    let (_, opened) = mount.create(".f.dat.Zz9aBc", NEW).await.unwrap();
    mount.write(opened, 0, b"changed");
    mount.close(opened).await.unwrap();
    mount.rename(".f.dat.Zz9aBc", "f.dat").await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("f.dat").await.unwrap(), b"changed");
    assert_eq!(mount.list("").await, ["f.dat"]);
}

#[tokio::test]
async fn tensorstore_renames_its_lock_file_while_it_is_open() {
    let mount = Mount::new().await;
    let (_, opened) = mount.create("0.0.__lock", NEW).await.unwrap();
    mount.write(opened, 0, b"chunk");
    mount.fs.fsync(opened.fh).await.unwrap();
    mount.rename("0.0.__lock", "0.0").await.unwrap();
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("0.0").await.unwrap(), b"chunk");
}

#[tokio::test]
async fn zarr_pythons_link_and_unlink_gives_the_name_once() {
    let mount = Mount::new().await;
    mount.mkdir("x.zarr").await.unwrap();
    let folder = mount.stat("x.zarr").await.unwrap().ino;
    let first = mount.copy_in("x.zarr/zarr.01.partial", b"first").await;
    let second = mount.copy_in("x.zarr/zarr.02.partial", b"second").await;
    let linked = mount.fs.link(first.ino, folder, "zarr.json").await.unwrap();
    assert_eq!(linked.size, 5);
    let refused = mount.fs.link(second.ino, folder, "zarr.json").await;
    assert_eq!(refused.unwrap_err().errno(), libc::EEXIST);
    mount.unlink("x.zarr/zarr.01.partial").await.unwrap();
    mount.unlink("x.zarr/zarr.02.partial").await.unwrap();
    mount.flush().await;
    assert_eq!(mount.keys().await, ["x.zarr/zarr.json"]);
    assert_eq!(mount.read("x.zarr/zarr.json").await.unwrap(), b"first");
}

#[tokio::test]
async fn a_file_being_written_cannot_be_linked_and_an_object_can() {
    let mount = Mount::new().await;
    let (attr, opened) = mount.create("open", NEW).await.unwrap();
    mount.write(opened, 0, b"half");
    let root = zarrmount::namespace::Ino::ROOT;
    assert_eq!(mount.fs.link(attr.ino, root, "l").await.unwrap_err().errno(), libc::EBUSY);
    mount.stat("l").await.unwrap_err();
    mount.put("object", b"content").await;
    let object = mount.stat("object").await;
    // The root was listed before the object came: this mount does not know it yet.
    assert!(object.is_err());
    mount.fs.tree().invalidate(&crate::mount::at(""));
    let object = mount.stat("object").await.unwrap();
    mount.fs.link(object.ino, root, "l").await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("l").await.unwrap(), b"content");
}

#[tokio::test]
async fn a_staged_file_is_sent_under_its_last_name_only() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    mount.copy_in("d/a", b"x").await;
    mount.rename("d/a", "d/b").await.unwrap();
    mount.rename("d/b", "c").await.unwrap();
    mount.flush().await;
    assert_eq!(mount.keys().await, ["c"]);
    assert_eq!(mount.read("c").await.unwrap(), b"x");
    mount.stat("d/a").await.unwrap_err();
}

#[tokio::test]
async fn an_object_is_renamed_by_a_copy_in_the_store() {
    let mount = Mount::new().await;
    mount.copy_in("a", b"content").await;
    let mtime = SystemTime::UNIX_EPOCH + Duration::new(7, 7);
    mount.set_mtime("a", mtime).await;
    mount.flush().await;
    let before = mount.requests();
    mount.rename("a", "b").await.unwrap();
    mount.stat("a").await.unwrap_err();
    mount.flush().await;
    let spent = mount.requests().since(before);
    assert_eq!(spent, Requests { copy: 1, head: 1, delete: 1, ..Requests::default() });
    assert_eq!(mount.keys().await, ["b"]);
    assert_eq!(mount.stat("b").await.unwrap().attributes.mtime, mtime);
    assert_eq!(mount.read("b").await.unwrap(), b"content");
}

#[tokio::test]
async fn renaming_over_a_file_replaces_it_and_noreplace_does_not() {
    let mount = Mount::new().await;
    mount.put("old", b"old").await;
    mount.copy_in("new", b"new").await;
    let root = zarrmount::namespace::Ino::ROOT;
    let refused = mount.fs.rename((root, "new"), (root, "old"), true).await;
    assert_eq!(refused.unwrap_err().errno(), libc::EEXIST);
    mount.rename("new", "old").await.unwrap();
    assert_eq!(mount.read("old").await.unwrap(), b"new");
    mount.unlink("old").await.unwrap();
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
}

#[tokio::test]
async fn a_staged_folder_is_renamed_for_nothing() {
    let mount = Mount::new().await;
    mount.mkdir("a").await.unwrap();
    mount.mkdir("a/b").await.unwrap();
    mount.copy_in("a/b/f", b"x").await;
    let (_, open) = mount.create("a/g", NEW).await.unwrap();
    mount.write(open, 0, b"y");
    let before = mount.requests();
    mount.rename("a", "z").await.unwrap();
    assert_eq!(mount.requests().since(before), Requests::default());
    mount.close(open).await.unwrap();
    assert_eq!(mount.list("z").await, ["b", "g"]);
    mount.flush().await;
    assert_eq!(mount.keys().await, ["z/b/f", "z/g"]);
    mount.stat("a").await.unwrap_err();
}

#[tokio::test]
async fn a_published_folder_is_renamed_by_copies_and_what_is_staged_comes_along() {
    let mount = Mount::new().await;
    for key in ["a.zarr/zarr.json", "a.zarr/v/zarr.json", "a.zarr/v/0", "a.zarr/v/1"] {
        mount.put(key, key.as_bytes()).await;
    }
    mount.copy_in("a.zarr/v/2", b"staged").await;
    let opened = mount.open("a.zarr/v/1", crate::mount::TRUNCATE).await.unwrap();
    mount.write(opened, 0, b"changed");
    mount.close(opened).await.unwrap();
    mount.rename("a.zarr", "b.zarr").await.unwrap();
    mount.stat("a.zarr").await.unwrap_err();
    assert_eq!(mount.list("").await, ["b.zarr"]);
    assert_eq!(mount.list("b.zarr/v").await, ["0", "1", "2", "zarr.json"]);
    assert_eq!(mount.read("b.zarr/v/1").await.unwrap(), b"changed");
    assert_eq!(mount.read("b.zarr/v/0").await.unwrap(), b"a.zarr/v/0");
    mount.flush().await;
    let keys = mount.keys().await;
    assert_eq!(
        keys,
        ["b.zarr/v/0", "b.zarr/v/1", "b.zarr/v/2", "b.zarr/v/zarr.json", "b.zarr/zarr.json"]
    );
    assert_eq!(mount.object("b.zarr/v/1").await.unwrap(), b"changed");
    assert_eq!(mount.object("b.zarr/v/0").await.unwrap(), b"a.zarr/v/0");
    assert_eq!(mount.list("").await, ["b.zarr"]);
}

#[tokio::test]
async fn a_folder_replaces_an_empty_folder_only() {
    let mount = Mount::new().await;
    for folder in ["a", "empty", "full"] {
        mount.mkdir(folder).await.unwrap();
    }
    mount.copy_in("full/f", b"x").await;
    mount.copy_in("file", b"x").await;
    assert_eq!(mount.rename("a", "full").await.unwrap_err().errno(), libc::ENOTEMPTY);
    assert_eq!(mount.rename("a", "file").await.unwrap_err().errno(), libc::ENOTDIR);
    assert_eq!(mount.rename("file", "a").await.unwrap_err().errno(), libc::EISDIR);
    mount.rename("full", "empty").await.unwrap();
    assert_eq!(mount.list("").await, ["a", "empty", "file"]);
    assert_eq!(mount.list("empty").await, ["f"]);
}

#[tokio::test]
async fn a_name_that_was_just_deleted_is_taken_by_a_published_file_or_folder() {
    let mount = Mount::new().await;
    for key in ["a/0", "a/1", "b/0", "b/2", "f", "g"] {
        mount.put(key, key.as_bytes()).await;
    }
    for name in ["b/0", "b/2", "g"] {
        mount.unlink(name).await.unwrap();
    }
    mount.rmdir("b").await.unwrap();
    mount.rename("a", "b").await.unwrap();
    mount.rename("f", "g").await.unwrap();
    assert_eq!(mount.list("").await, ["b", "g"]);
    mount.flush().await;
    assert_eq!(mount.keys().await, ["b/0", "b/1", "g"]);
    assert_eq!(mount.object("b/0").await.unwrap(), b"a/0");
    assert_eq!(mount.object("g").await.unwrap(), b"f");
}

#[tokio::test]
async fn an_object_that_is_open_for_writing_keeps_its_content_when_it_is_renamed() {
    let mount = Mount::new().await;
    mount.put("d/a", b"content").await;
    let opened = mount.open("d/a", UPDATE).await.unwrap();
    mount.rename("d/a", "d/b").await.unwrap();
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.keys().await, ["d/b"]);
    assert_eq!(mount.object("d/b").await.unwrap(), b"content");
    let opened = mount.open("d/b", UPDATE).await.unwrap();
    mount.rename("d", "e").await.unwrap();
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.keys().await, ["e/b"]);
    assert_eq!(mount.object("e/b").await.unwrap(), b"content");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn files_and_folders_that_are_renamed_while_they_are_sent_arrive_under_their_last_name() {
    let mount = Mount::new().await;
    let mut expected = vec![];
    for round in 0..100 {
        mount.mkdir(&format!("x{round}")).await.unwrap();
        for name in ["a", "b"] {
            mount.copy_in(&format!("x{round}/{name}"), format!("{round}{name}").as_bytes()).await;
        }
        let flush = zarrmount::base::tasks::spawn("flush", {
            let queue = mount.queue.clone();
            async move { queue.flush().await }
        });
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        mount.rename(&format!("x{round}/a"), &format!("x{round}/c")).await.unwrap();
        mount.rename(&format!("x{round}"), &format!("y{round}")).await.unwrap();
        mount.unlink(&format!("y{round}/b")).await.unwrap();
        flush.await.unwrap();
        assert_eq!(mount.list(&format!("y{round}")).await, ["c"]);
        expected.push((format!("y{round}/c"), format!("{round}a").into_bytes()));
    }
    mount.flush().await;
    expected.sort();
    assert_eq!(mount.keys().await, expected.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
    for (key, content) in expected {
        assert_eq!(mount.object(&key).await.unwrap(), content);
        assert_eq!(mount.read(&key).await.unwrap(), content);
    }
}

/// The kernel tells of a last close in its own time: also after the program has gone on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_file_that_is_renamed_or_touched_while_its_release_is_on_its_way_arrives_as_it_should() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    let mtime = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 987_654_321);
    for round in 0..1000 {
        let (temporary, name) = (format!("d/.f{round}.Ab3xYz"), format!("d/f{round}"));
        let (attr, opened) = mount.create(&temporary, NEW).await.unwrap();
        if round % 2 == 0 {
            mount.write(opened, 0, b"content");
        }
        mount.fs.flush(opened.fh).await.unwrap();
        let release = zarrmount::base::tasks::spawn("release", {
            let fs = std::sync::Arc::clone(&mount.fs);
            async move { fs.release(opened.fh) }
        });
        for _ in 0..round % 7 {
            std::hint::spin_loop();
        }
        mount.set_mtime(&temporary, mtime).await;
        mount.rename(&temporary, &name).await.unwrap();
        release.await.unwrap();
        assert_eq!(mount.fs.getattr(attr.ino, None).await.unwrap().attributes.mtime, mtime);
    }
    mount.flush().await;
    assert_eq!(mount.keys().await.len(), 1000);
}
