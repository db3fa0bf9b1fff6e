//! Reading what others put, and what changes under a reader's hands.

use std::time::Duration;

use zarrmount::base::clock::Clock;
use zarrmount::fs::Cache;

use crate::mount::{Mount, READ, Settings, TRUNCATE};

#[tokio::test]
async fn the_kernel_may_keep_pages_of_what_did_not_change() {
    let mount = Mount::with(Settings { clock: Clock::manual, ..Settings::default() }).await;
    mount.put("f", b"one").await;
    assert_eq!(mount.open("f", READ).await.unwrap().cache, Cache::Fresh);
    assert_eq!(mount.open("f", READ).await.unwrap().cache, Cache::Keep);
    mount.put("f", b"two").await;
    mount.clock.advance(Duration::from_mins(2));
    mount.stat("f").await.unwrap();
    assert_eq!(mount.open("f", READ).await.unwrap().cache, Cache::Fresh);
}

#[tokio::test]
async fn a_reader_never_sees_a_mixture_of_two_versions() {
    let mount = Mount::new().await;
    mount.put("x/0", &vec![1; 3 << 20]).await;
    let opened = mount.open("x/0", READ).await.unwrap();
    assert!(mount.fs.read(opened.fh, 0, 1 << 20).await.unwrap().iter().all(|byte| *byte == 1));
    mount.put("x/0", &vec![2; 3 << 20]).await;
    let second = mount.fs.read(opened.fh, 1 << 20, 1 << 20).await;
    assert_eq!(second.unwrap_err().errno(), libc::ESTALE);
}

#[tokio::test]
async fn an_open_file_reads_what_another_handle_writes() {
    let mount = Mount::new().await;
    mount.put("f", b"old").await;
    let reader = mount.open("f", READ).await.unwrap();
    let writer = mount.open("f", TRUNCATE).await.unwrap();
    mount.write(writer, 0, b"newer");
    assert_eq!(&mount.fs.read(reader.fh, 0, 100).await.unwrap()[..], b"newer");
    mount.close(writer).await.unwrap();
    mount.flush().await;
    assert_eq!(&mount.fs.read(reader.fh, 0, 100).await.unwrap()[..], b"newer");
}

#[tokio::test]
async fn reading_at_and_beyond_the_end_is_empty() {
    let mount = Mount::new().await;
    mount.put("f", b"abc").await;
    mount.copy_in("g", b"abc").await;
    for name in ["f", "g"] {
        let opened = mount.open(name, READ).await.unwrap();
        assert_eq!(&mount.fs.read(opened.fh, 1, 100).await.unwrap()[..], b"bc");
        assert!(mount.fs.read(opened.fh, 3, 100).await.unwrap().is_empty());
        assert!(mount.fs.read(opened.fh, u64::MAX - 1, 100).await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_missing_or_changes_while_it_moves_from_staging_to_the_bucket() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    for number in 0..500 {
        mount.copy_in(&format!("d/{number}"), b"content").await;
    }
    let flush = zarrmount::base::tasks::spawn("flush", {
        let queue = mount.queue.clone();
        async move { queue.flush().await }
    });
    let folder = mount.stat("d").await.unwrap().ino;
    while !flush.is_finished() {
        let fh = mount.fs.opendir(folder).await.unwrap();
        for index in 2..502 {
            let line = mount.fs.folder_line(fh, index).unwrap();
            let attr = mount.fs.lookup_line(fh, index).unwrap();
            assert_eq!(attr.map(|attr| attr.size), Some(7), "{index} {line:?}");
        }
        mount.fs.releasedir(fh);
        for number in 0..500 {
            let attr = mount.fs.lookup(folder, &number.to_string()).await.unwrap();
            assert_eq!(mount.fs.getattr(attr.ino, None).await.unwrap().size, 7);
        }
    }
    flush.await.unwrap();
    assert_eq!(mount.list("d").await.len(), 500);
}

#[tokio::test]
async fn a_reader_of_a_deleted_file_never_gets_what_has_its_name_since() {
    let mount = Mount::new().await;
    mount.put("f", b"old content").await;
    let reader = mount.open("f", READ).await.unwrap();
    // Somebody changes it and takes it away: from here on its version is not known.
    let writer = mount.open("f", TRUNCATE).await.unwrap();
    mount.write(writer, 0, b"changed");
    mount.close(writer).await.unwrap();
    mount.flush().await;
    mount.unlink("f").await.unwrap();
    mount.copy_in("f", b"another").await;
    for _ in 0..2 {
        let read = mount.fs.read(reader.fh, 0, 100).await;
        assert!(read.as_ref().map_or(true, |bytes| bytes != "another"), "{read:?}");
        mount.flush().await;
    }
    assert_eq!(mount.read("f").await.unwrap(), b"another");
}
