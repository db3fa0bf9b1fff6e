//! Failures that last: an hour's outage, a daemon that is stopped, keys that expire, a store that
//! always says no.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use nix::sys::signal::Signal;
use zarrmount::base::clock::Clock;
use zarrmount::netcdf::fixtures::sample_netcdf4;
use zarrmount::store::{Link, Patience, PutCondition, Store};
use zarrmount::telemetry::counters::StoreCounters;

use crate::daemon::{Place, copy_in};
use crate::engine::{Engine, at};
use crate::kinds::{options, sent_without_need};
use crate::support::faults::always;
use crate::support::{ACCESS_KEY, Fault, S3Server, SECRET_KEY};
use crate::sweep::until;

const PATIENCE: Duration = Duration::from_mins(1);

/// Lets time pass until `is_so`.
async fn let_time_pass(clock: &Clock, step: Duration, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        clock.advance(step);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_an_hour_is_said_and_waited_out() {
    let server = S3Server::start();
    let clock = Clock::manual();
    let engine = Engine::with_clock(&server, clock.clone()).await;
    server.set_outage(true);
    let start = clock.wall();
    engine.copy("a.nc", &sample_netcdf4());
    engine.copy("b.bin", b"bytes");
    let flushing = {
        let (ingest, queue) = (engine.ingest.clone(), engine.queue.clone());
        tokio::spawn(async move { tokio::join!(ingest.flush(), queue.flush()) })
    };
    let hour = Duration::from_hours(1);
    let_time_pass(&clock, Duration::from_secs(5), || {
        clock.wall().duration_since(start).unwrap() > hour
    })
    .await;
    let outage = engine.link.outage().unwrap();
    assert!(outage.since.duration_since(start).unwrap() < Duration::from_mins(1), "{outage:?}");
    assert!(outage.next_attempt > UNIX_EPOCH && !outage.reason.is_empty(), "{outage:?}");
    assert!(!flushing.is_finished());
    server.set_outage(false);
    let_time_pass(&clock, Duration::from_secs(1), || flushing.is_finished()).await;
    assert_eq!(engine.failures(), [] as [String; 0]);
    assert!(engine.link.outage().is_none());
    assert_eq!(server.object("data/b.bin").unwrap(), b"bytes");
    assert!(server.object("data/a.zarr/zarr.json").is_some());
    assert_eq!(sent_without_need(&server.requests()), [] as [String; 0]);
}

#[test]
fn a_daemon_that_is_stopped_and_continued_sends_everything() {
    let server = S3Server::start();
    let place = Place::new(&server);
    let mut daemon = place.mount(None, Arc::default()).unwrap();
    copy_in(&place.mount_point().join("a.nc"), &sample_netcdf4()).unwrap();
    let (stopped, pid) = (Arc::new(std::sync::atomic::AtomicBool::new(false)), daemon.pid());
    let seen = Arc::clone(&stopped);
    // In the middle of an upload, so that a connection waits for the daemon.
    server.set_witness(Box::new(move |request, moment| {
        if request.method == "PUT" && moment == crate::support::Moment::Done {
            let first = !seen.swap(true, std::sync::atomic::Ordering::SeqCst);
            if first {
                nix::sys::signal::kill(pid, Signal::SIGSTOP).unwrap();
            }
        }
    }));
    let unmounting = std::thread::scope(|scope| {
        let unmounting = scope.spawn(|| place.umount());
        assert!(until(PATIENCE, || stopped.load(std::sync::atomic::Ordering::SeqCst)));
        std::thread::sleep(Duration::from_secs(1));
        daemon.signal(Signal::SIGCONT);
        unmounting.join().unwrap()
    });
    unmounting.unwrap();
    daemon.wait();
    assert!(server.object("p/a.zarr/zarr.json").is_some());
    assert_eq!(sent_without_need(&server.requests()), [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_expire_are_waited_for_and_read_from_their_file_again() {
    let server = S3Server::start();
    let home = tempfile::tempdir().unwrap();
    let engine =
        Engine::with_options(&server, options(&server, home.path()), Clock::system()).await;
    // From now on the server knows other keys only: what S3 says of temporary keys in the end.
    server.set_fault(Box::new(|request| {
        let is_new = request.authorization.contains("Credential=newkey/");
        (!is_new).then_some(Fault::Reply(400, "ExpiredToken"))
    }));
    engine.copy("a.nc", &sample_netcdf4());
    let flushing = {
        let (ingest, queue) = (engine.ingest.clone(), engine.queue.clone());
        tokio::spawn(async move { tokio::join!(ingest.flush(), queue.flush()) })
    };
    while engine.link.outage().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(engine.link.outage().unwrap().reason.contains("ExpiredToken"));
    server.accept_also("newkey", SECRET_KEY);
    let keys = format!(
        "[default]\naws_access_key_id = newkey\naws_secret_access_key = {SECRET_KEY}\n# {ACCESS_KEY}\n"
    );
    std::fs::write(home.path().join("credentials"), keys).unwrap();
    flushing.await.unwrap();
    assert_eq!(engine.failures(), [] as [String; 0]);
    assert!(server.object("data/a.zarr/zarr.json").is_some());
}

#[test]
fn a_store_that_always_says_no_is_named_and_what_it_refused_is_kept_and_sent_later() {
    let server = S3Server::start();
    let place = Place::new(&server);
    let mut daemon = place.mount(None, Arc::default()).unwrap();
    server.set_fault(Box::new(|request| (request.method == "PUT").then_some(Fault::Denied)));
    copy_in(&place.mount_point().join("a.nc"), &sample_netcdf4()).unwrap();
    copy_in(&place.mount_point().join("b.bin"), b"bytes").unwrap();
    let said = place.flush().unwrap_err();
    for part in ["b.bin", "a.nc", "AccessDenied", "HTTP 403", "injected"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let mut failed = place.files_in_state("failed");
    failed.sort();
    assert_eq!(failed, ["a.nc", "b.bin"]);
    let said = place.umount().unwrap_err();
    assert!(said.contains("AccessDenied"), "{said}");
    daemon.signal(Signal::SIGTERM);
    daemon.wait();
    let left = place.left_behind();
    assert!(left.contains("a.nc") && left.contains("b.bin"), "{left}");
    assert_eq!(server.keys(), [] as [String; 0]);
    server.clear_fault();
    let mut daemon = place.mount(None, Arc::default()).unwrap();
    place.umount().unwrap();
    daemon.wait();
    assert_eq!(server.object("p/b.bin").unwrap(), b"bytes");
    assert!(server.object("p/a.zarr/zarr.json").is_some());
    assert_eq!(place.left_behind(), "");
}

async fn link(server: &S3Server) -> (Store, Link) {
    let counters = Arc::new(StoreCounters::default());
    let store = Store::open(&server.url("p"), &server.options(), counters).await.unwrap();
    let link = Link::new(store.clone(), Clock::system(), 8);
    (store, link.with_patience(Patience::Unlimited))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_to_a_conditional_put_is_told_from_another_writer_by_its_write_id() {
    let server = S3Server::start();
    let (store, link) = link(&server).await;
    let once = || crate::support::faults::first(1, Fault::ResetAfter, |r| r.method == "PUT");
    server.set_fault(once());
    let own = link.put(&at("own"), "same".into(), PutCondition::Absent).await;
    assert!(own.is_ok(), "{own:?}");
    // Another writer comes first, with the same bytes: that is not ours.
    store.put(&at("other"), "same".into(), PutCondition::Absent).await.unwrap();
    server.set_fault(crate::support::faults::first(1, Fault::ResetBefore, |r| r.method == "PUT"));
    let other = link.put(&at("other"), "same".into(), PutCondition::Absent).await;
    assert!(matches!(other, Err(zarrmount::store::StoreError::Conflict { .. })), "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_upload_whose_reply_was_lost_is_not_sent_again() {
    const SIZE: u64 = 20 << 20;
    let server = S3Server::start();
    let (store, link) = link(&server).await;
    let read = |range: std::ops::Range<u64>| -> std::io::Result<bytes::Bytes> {
        Ok(range.map(|n| (n >> 10).to_le_bytes()[0]).collect())
    };
    for fault in [Fault::ResetAfter, Fault::ResetBefore, Fault::InternalError] {
        server.clear_requests();
        server.set_fault(crate::support::faults::first(1, fault, |request| {
            request.method == "POST" && request.query.contains("uploadId")
        }));
        let version = link.put_large(&at("large"), SIZE, read, 2).await.unwrap();
        let fetched = store.get(&at("large"), None).await.unwrap();
        assert!(fetched.bytes == read(0..SIZE).unwrap() && fetched.version == version, "{fault:?}");
        assert_eq!(sent_without_need(&server.requests()), [] as [String; 0], "{fault:?}");
    }
    server.set_fault(crate::support::faults::first(3, Fault::SlowDown, |request| {
        request.query.contains("partNumber=2")
    }));
    server.clear_requests();
    link.put_large(&at("large"), SIZE, read, 2).await.unwrap();
    assert_eq!(sent_without_need(&server.requests()), [] as [String; 0]);
    assert!(link.requests_at_once() < 8, "fewer requests at once after 503 SlowDown");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_key_of_the_environment_is_a_definite_no() {
    let server = S3Server::start();
    let (_, link) = link(&server).await;
    server.set_fault(always(Fault::Reply(400, "ExpiredToken")));
    let answer = link.put(&at("a"), "1".into(), PutCondition::Always).await;
    assert!(matches!(answer, Err(zarrmount::store::StoreError::Denied { .. })), "{answer:?}");
}
