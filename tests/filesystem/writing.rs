//! Writing, and what it leaves in the bucket.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use zarrmount::base::clock::Clock;
use zarrmount::fs::{Cache, Changes, OpenFlags, Written};
use zarrmount::namespace::Ino;

use crate::mount::{APPEND, ME, Mount, NEW, READ, Requests, Settings, TRUNCATE, UPDATE};

#[tokio::test]
async fn what_is_copied_in_is_read_back_before_and_after_it_is_sent() {
    let mount = Mount::new().await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 253) as u8).collect();
    let (_, opened) = mount.create("big", NEW).await.unwrap();
    assert_eq!(opened.cache, Cache::Direct);
    for (index, piece) in data.chunks(1 << 20).enumerate() {
        mount.write(opened, (index as u64) << 20, piece);
    }
    mount.close(opened).await.unwrap();
    assert!(mount.read("big").await.unwrap() == data);
    mount.flush().await;
    assert!(mount.object("big").await.unwrap() == data);
    assert!(mount.read("big").await.unwrap() == data);
}

#[tokio::test]
async fn a_local_folder_takes_what_a_bucket_takes() {
    let folder = tempfile::tempdir().unwrap();
    let mount = Mount::on_folder(folder.path()).await;
    mount.mkdir("d").await.unwrap();
    mount.copy_in("d/f", b"content").await;
    mount.flush().await;
    assert_eq!(std::fs::read(folder.path().join("d/f")).unwrap(), b"content");
    mount.unlink("d/f").await.unwrap();
    mount.flush().await;
    assert!(!folder.path().join("d/f").exists());
}

#[tokio::test]
async fn nothing_is_sent_while_a_writer_has_the_file_open() {
    let mount = Mount::new().await;
    let (_, first) = mount.create("f", NEW).await.unwrap();
    mount.write(first, 0, b"half");
    let second = mount.open("f", APPEND).await.unwrap();
    mount.write(second, 0, b" and half");
    mount.close(second).await.unwrap();
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
    mount.close(first).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("f").await.unwrap(), b"half and half");
}

#[tokio::test]
async fn a_flush_before_the_first_write_and_an_empty_file_are_no_trouble() {
    let mount = Mount::new().await;
    let (_, opened) = mount.create("f", NEW).await.unwrap();
    mount.fs.flush(opened.fh).await.unwrap();
    mount.write(opened, 0, b"later");
    mount.close(opened).await.unwrap();
    mount.fs.mknod(ME, Ino::ROOT, "empty", 0o644).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("f").await.unwrap(), b"later");
    assert_eq!(mount.object("empty").await.unwrap(), b"");
}

#[tokio::test]
async fn an_object_is_changed_in_place_and_sent_whole() {
    let mount = Mount::new().await;
    mount.put("f", b"0123456789").await;
    let opened = mount.open("f", UPDATE).await.unwrap();
    mount.write(opened, 3, b"abc");
    assert_eq!(&mount.fs.read(opened.fh, 0, 100).await.unwrap()[..], b"012abc6789");
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("f").await.unwrap(), b"012abc6789");
    let opened = mount.open("f", APPEND).await.unwrap();
    // The kernel's idea of the end may be old.
    mount.write(opened, 2, b"!");
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("f").await.unwrap(), b"012abc6789!");
}

#[tokio::test]
async fn opening_for_writing_without_a_change_sends_nothing() {
    let mount = Mount::new().await;
    mount.put("f", b"content").await;
    let opened = mount.open("f", UPDATE).await.unwrap();
    mount.close(opened).await.unwrap();
    let before = mount.requests();
    mount.flush().await;
    assert_eq!(mount.read("f").await.unwrap(), b"content");
    assert_eq!(mount.requests().since(before).put, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_opens_a_file_in_the_moment_of_its_last_unchanged_close_loses_nothing() {
    let mount = Arc::new(Mount::new().await);
    mount.put("f", b"0000").await;
    for round in 1..=400_u32 {
        let unchanged = mount.open("f", UPDATE).await.unwrap();
        let closing = Arc::clone(&mount);
        let close = zarrmount::base::tasks::spawn("close", async move {
            closing.close(unchanged).await.unwrap();
        });
        let opened = mount.open("f", UPDATE).await.unwrap();
        let text = format!("{round:04}");
        mount.write(opened, 0, text.as_bytes());
        close.await.unwrap();
        mount.close(opened).await.unwrap();
        assert_eq!(mount.read("f").await.unwrap(), text.as_bytes());
        if round % 8 == 0 {
            mount.flush().await;
            assert_eq!(mount.object("f").await.unwrap(), text.as_bytes());
        }
    }
}

#[tokio::test]
async fn truncating_an_object_when_it_is_opened_reads_nothing_of_it() {
    let mount = Mount::new().await;
    mount.put("f", b"a long content").await;
    mount.stat("f").await.unwrap();
    let before = mount.requests();
    let opened = mount.open("f", TRUNCATE).await.unwrap();
    assert_eq!(mount.stat("f").await.unwrap().size, 0);
    mount.write(opened, 0, b"short");
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("f").await.unwrap(), b"short");
    let spent = mount.requests().since(before);
    // The GET is this test's own look.
    assert_eq!(spent, Requests { get: 1, put: 1, ..Requests::default() });
}

#[tokio::test]
async fn truncate_by_name_changes_the_object() {
    let mount = Mount::new().await;
    mount.put("f", b"0123456789").await;
    let ino = mount.stat("f").await.unwrap().ino;
    for (size, expected) in [(4, &b"0123"[..]), (6, b"0123\0\0"), (0, b"")] {
        let changes = Changes { size: Some(size), ..Changes::default() };
        assert_eq!(mount.fs.setattr(ino, None, changes).await.unwrap().size, size);
        mount.flush().await;
        assert_eq!(mount.object("f").await.unwrap(), expected);
    }
}

#[tokio::test]
async fn times_and_mode_set_after_the_close_stay_exact_and_send_nothing_again() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    let mtime = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789);
    let attr = mount.copy_in("d/f", b"content").await;
    mount.set_mtime("d/f", mtime).await;
    mount.flush().await;
    let changes = Changes { mode: Some(0o4600), ..Changes::default() };
    mount.fs.setattr(attr.ino, None, changes).await.unwrap();
    let later = mtime + Duration::from_nanos(1);
    let before = mount.requests();
    assert_eq!(mount.stat("d/f").await.unwrap().attributes.mtime, mtime);
    mount.set_mtime("d/f", later).await;
    // The kernel forgets it, and asks again.
    mount.fs.forget(attr.ino, 100);
    let again = mount.stat("d/f").await.unwrap();
    assert_ne!(again.ino, attr.ino);
    assert_eq!(again.attributes.mtime, later);
    assert_eq!((again.attributes.mode, again.attributes.uid), (0o600, ME.uid));
    mount.flush().await;
    assert_eq!(mount.requests().since(before), Requests::default());
}

#[tokio::test]
async fn writing_after_setting_the_time_moves_the_time() {
    let mount = Mount::new().await;
    let (attr, opened) = mount.create("f", NEW).await.unwrap();
    mount.write(opened, 0, b"a");
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    mount.set_mtime("f", old).await;
    assert_eq!(mount.fs.getattr(attr.ino, None).await.unwrap().attributes.mtime, old);
    mount.write(opened, 1, b"b");
    assert!(mount.fs.getattr(attr.ino, None).await.unwrap().attributes.mtime > old);
    mount.close(opened).await.unwrap();
}

#[tokio::test]
async fn temporary_names_never_reach_the_bucket() {
    let mount = Mount::new().await;
    mount.mkdir("d").await.unwrap();
    mount.mkdir("d/.~tmp~").await.unwrap();
    for name in ["d/.f.Ab3xYz", "d/zarr.0123.partial", "d/0.__lock", "d/.~tmp~/f"] {
        mount.copy_in(name, b"x").await;
    }
    mount.flush().await;
    assert!(mount.keys().await.is_empty());
    assert_eq!(mount.list("d").await.len(), 4);
}

#[tokio::test]
async fn a_full_staging_area_parks_a_write_and_takes_what_fits_when_there_is_room() {
    let mount = Mount::with(Settings { size_max: 1 << 20, ..Settings::default() }).await;
    mount.copy_in("first", &vec![1; 900 << 10]).await;
    let (_, opened) = mount.create("second", NEW).await.unwrap();
    let data = Bytes::from(vec![2; 1 << 20]);
    assert_eq!(mount.fs.write(opened.fh, 0, &data).unwrap(), Written::Full);
    // The first is sent meanwhile, by itself.
    let taken = mount.fs.write_parked(opened.fh, 0, data.clone()).await.unwrap();
    assert!(taken >= 4096 && taken % 4096 == 0, "{taken}");
    mount.close(opened).await.unwrap();
    mount.flush().await;
    assert_eq!(mount.object("second").await.unwrap().len(), taken as usize);
}

#[tokio::test]
async fn a_write_for_which_there_can_be_no_room_ends_with_no_space_and_says_why() {
    let mount = Mount::with(Settings { size_max: 1 << 20, ..Settings::default() }).await;
    let (_, opened) = mount.create("huge", NEW).await.unwrap();
    mount.write(opened, 0, &vec![1; 1 << 20]);
    let more = mount.fs.write_parked(opened.fh, 1 << 20, Bytes::from(vec![2; 8192])).await;
    let error = more.unwrap_err();
    assert_eq!(error.errno(), libc::ENOSPC);
    assert!(error.to_string().contains("`huge`"), "{error}");
}

#[tokio::test]
async fn a_write_that_finds_no_room_for_long_ends_with_no_space() {
    let settings = Settings { size_max: 1 << 20, clock: Clock::manual, ..Settings::default() };
    let mount = Mount::with(settings).await;
    // It is due, but its turn never comes.
    mount.queue.stop();
    mount.copy_in("waits", &vec![1; 1 << 20]).await;
    let (_, opened) = mount.create("more", NEW).await.unwrap();
    let parked = mount.fs.write_parked(opened.fh, 0, Bytes::from(vec![2; 8192]));
    tokio::pin!(parked);
    let began = mount.clock.now();
    let outcome = loop {
        match futures::poll!(&mut parked) {
            std::task::Poll::Ready(outcome) => break outcome,
            std::task::Poll::Pending => mount.clock.advance(Duration::from_secs(1)),
        }
        // The runtime lets a task that never rests make no progress.
        tokio::task::yield_now().await;
    };
    assert_eq!(outcome.unwrap_err().errno(), libc::ENOSPC);
    assert!(mount.clock.now() - began >= Duration::from_mins(5));
}

#[tokio::test]
async fn exclusive_creation_is_refused_where_something_is() {
    let mount = Mount::new().await;
    mount.put("there", b"x").await;
    assert_eq!(mount.create("there", NEW).await.unwrap_err().errno(), libc::EEXIST);
    let flags = OpenFlags { write: true, ..OpenFlags::default() };
    let (attr, opened) = mount.create("there", flags).await.unwrap();
    assert_eq!(attr.size, 1);
    mount.close(opened).await.unwrap();
}

#[tokio::test]
async fn what_is_open_for_reading_only_cannot_be_written() {
    let mount = Mount::new().await;
    mount.copy_in("f", b"x").await;
    let opened = mount.open("f", READ).await.unwrap();
    assert_eq!(mount.fs.write(opened.fh, 0, b"y").unwrap_err().errno(), libc::EBADF);
    assert_eq!(mount.fs.write(9999, 0, b"y").unwrap_err().errno(), libc::EBADF);
}
