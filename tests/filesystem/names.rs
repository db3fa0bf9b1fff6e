//! Names and folders.

use zarrmount::fs::Error;
use zarrmount::namespace::Ino;

use crate::mount::{ME, Mount, NEW, READ, Settings, TRUNCATE};

#[tokio::test]
async fn receipts_are_not_shown_and_not_reachable() {
    let mount = Mount::new().await;
    mount.put("d/.zarrmount/x.zarr/1.json", b"{}").await;
    mount.put("d/file", b"x").await;
    assert_eq!(mount.list("d").await, ["file"]);
    assert!(matches!(mount.stat("d/.zarrmount").await, Err(Error::NotFound)));
    let made = mount.mkdir("d/.zarrmount").await;
    assert_eq!(made.unwrap_err().errno(), libc::EPERM);
}

#[tokio::test]
async fn a_folder_of_the_bucket_wins_over_an_object_of_the_same_name() {
    let mount = Mount::new().await;
    mount.put("a", b"object").await;
    mount.put("a/b", b"below").await;
    assert_eq!(mount.read("a/b").await.unwrap(), b"below");
    assert_eq!(mount.list("").await, ["a"]);
}

#[tokio::test]
async fn a_new_folder_exists_until_it_is_removed_and_puts_nothing_in_the_bucket() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    assert_eq!(mount.mkdir("d").await.unwrap_err().errno(), libc::EEXIST);
    assert_eq!(mount.list("").await, ["d"]);
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
    mount.rmdir("d").await.unwrap();
    mount.stat("d").await.unwrap_err();
}

#[tokio::test]
async fn names_that_no_key_can_have_are_refused() {
    let mount = Mount::new().await;
    for (name, errno) in [
        ("a\nb".to_owned(), libc::EINVAL),
        ("x".repeat(256), libc::ENAMETOOLONG),
        (".zarrmount-status".to_owned(), libc::EPERM),
    ] {
        let made = mount.fs.create(ME, Ino::ROOT, &name, 0o644, NEW).await;
        assert_eq!(made.unwrap_err().errno(), errno, "{name:?}");
    }
    let deep = vec!["y".repeat(200); 6].join("/");
    let mut folder = Ino::ROOT;
    let mut last = Ok(());
    for name in deep.split('/') {
        match mount.fs.mkdir(ME, folder, name, 0o755).await {
            Ok(attr) => folder = attr.ino,
            Err(error) => last = Err(error),
        }
    }
    assert_eq!(last.unwrap_err().errno(), libc::ENAMETOOLONG);
}

#[tokio::test]
async fn unusual_names_are_kept_literally() {
    let mount = Mount::new().await;
    for name in ["température", "a%20b", "x#y", "my data [v1]~", "-", "日本"] {
        mount.copy_in(name, name.as_bytes()).await;
    }
    mount.flush().await;
    for name in ["température", "a%20b", "x#y", "my data [v1]~", "-", "日本"] {
        assert_eq!(mount.object(name).await.unwrap(), name.as_bytes());
        assert_eq!(mount.read(name).await.unwrap(), name.as_bytes());
    }
}

#[tokio::test]
async fn an_open_folder_shows_what_it_held_when_it_was_opened() {
    let mount = Mount::new().await;
    mount.put("d/a", b"1").await;
    mount.put("d/b", b"22").await;
    let folder = mount.stat("d").await.unwrap();
    let fh = mount.fs.opendir(folder.ino).await.unwrap();
    mount.unlink("d/a").await.unwrap();
    mount.copy_in("d/c", b"3").await;
    let name = |index| mount.fs.folder_line(fh, index).unwrap().map(|line| line.name.to_string());
    let names: Vec<_> = (0..).map_while(name).collect();
    assert_eq!(names, [".", "..", "a", "b"]);
    assert_eq!(mount.fs.lookup_line(fh, 2).unwrap(), None);
    assert_eq!(mount.fs.lookup_line(fh, 3).unwrap().unwrap().size, 2);
    mount.fs.releasedir(fh);
    assert_eq!(mount.list("d").await, ["b", "c"]);
}

#[tokio::test]
async fn numbers_of_listed_files_are_those_of_stat() {
    let mount = Mount::new().await;
    mount.put("d/a", b"1").await;
    mount.copy_in("d/b", b"2").await;
    let folder = mount.stat("d").await.unwrap();
    let fh = mount.fs.opendir(folder.ino).await.unwrap();
    for index in 2..4 {
        let name = mount.fs.folder_line(fh, index).unwrap().unwrap().name;
        let listed = mount.fs.lookup_line(fh, index).unwrap().unwrap();
        assert_eq!(listed, mount.stat(&format!("d/{name}")).await.unwrap());
    }
}

#[tokio::test]
async fn a_read_only_mount_changes_nothing() {
    let mount = Mount::with(Settings { read_only: true, ..Settings::default() }).await;
    mount.put("f", b"x").await;
    assert_eq!(mount.read("f").await.unwrap(), b"x");
    let ino = mount.stat("f").await.unwrap().ino;
    let errors = [
        mount.create("g", NEW).await.map(|_| ()),
        mount.mkdir("g").await.map(|_| ()),
        mount.fs.open(ino, TRUNCATE).await.map(|_| ()),
        mount.unlink("f").await,
        mount.rename("f", "g").await,
        mount.fs.setattr(ino, None, zarrmount::fs::Changes::default()).await.map(|_| ()),
        mount.fs.link(ino, Ino::ROOT, "g").await.map(|_| ()),
    ];
    for result in errors {
        assert_eq!(result.unwrap_err().errno(), libc::EROFS);
    }
}

#[tokio::test]
async fn the_status_folder_is_reachable_by_name_and_not_listed() {
    let mount = Mount::new().await;
    assert!(mount.list("").await.is_empty());
    assert_eq!(mount.list(".zarrmount-status").await, ["refused", "status"]);
    assert_eq!(mount.read(".zarrmount-status/status").await.unwrap(), b"all is well\n");
    assert!(mount.list(".zarrmount-status/refused").await.is_empty());
    let file = mount.stat(".zarrmount-status/status").await.unwrap();
    assert_eq!(mount.fs.open(file.ino, TRUNCATE).await.unwrap_err().errno(), libc::EROFS);
    assert_eq!(mount.fs.open(Ino::ROOT, READ).await.unwrap_err().errno(), libc::EISDIR);
    let made = mount.create(".zarrmount-status/x", NEW).await;
    assert_eq!(made.unwrap_err().errno(), libc::EROFS);
}

#[tokio::test]
async fn sync_of_the_root_waits_until_everything_is_in_the_bucket() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    mount.copy_in("d/f", b"x").await;
    mount.fs.fsyncdir(mount.stat("d").await.unwrap().ino).await.unwrap();
    assert_eq!(mount.barriers.load(std::sync::atomic::Ordering::Relaxed), 0);
    mount.fs.fsyncdir(Ino::ROOT).await.unwrap();
    assert_eq!(mount.object("d/f").await.unwrap(), b"x");
}
