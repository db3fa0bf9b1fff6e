//! Large objects in parts.

use std::io;
use std::ops::Range;

use bytes::Bytes;
use zarrmount::store::{Once, PutLargeError};
use zarrmount::telemetry::counters::RequestClass;

use crate::support::Fault;
use crate::support::faults::first;
use crate::{Stores, at};

const SIZE: u64 = (30 << 20) + 7;

/// Bytes that differ everywhere.
#[allow(clippy::unnecessary_wraps, reason = "the shape of a reader")]
fn content(range: Range<u64>) -> io::Result<Bytes> {
    let byte = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0];
    Ok(range.map(byte).collect())
}

#[tokio::test]
async fn a_large_object_arrives_whole() {
    let stores = Stores::open().await;
    let expected = content(0..SIZE).unwrap();
    for (name, store) in &stores.all {
        stores.server.clear_requests();
        let version = store.put_large(&at("big"), SIZE, content, 4, &Once).await.unwrap();
        let fetched = store.get(&at("big"), None).await.unwrap();
        assert!(fetched.bytes == expected, "{name}");
        assert_eq!(fetched.version, version, "{name}");
        if *name == "s3" {
            let parts: Vec<usize> = stores.server.requests().iter().map(|r| r.bytes).collect();
            let sent = parts.iter().filter(|bytes| **bytes == 8 << 20).count();
            assert_eq!(sent, 3, "three full parts, one rest: {parts:?}");
            assert!(store.counters().snapshot().multipart == 6);
        }
    }
}

#[tokio::test]
async fn a_small_object_is_put_at_once() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        stores.server.clear_requests();
        store.put_large(&at("a"), 1000, content, 4, &Once).await.unwrap();
        store.put_large(&at("empty"), 0, content, 4, &Once).await.unwrap();
        assert_eq!(store.head(&at("empty")).await.unwrap().size, 0, "{name}");
        if *name == "s3" {
            let classes: Vec<_> = stores.server.requests().iter().map(|r| r.class).collect();
            assert_eq!(classes, [RequestClass::Put, RequestClass::Put, RequestClass::Head]);
        }
    }
}

#[tokio::test]
async fn an_upload_that_fails_leaves_nothing_behind() {
    let stores = Stores::open().await;
    let short = |range: Range<u64>| content(range.start..range.end - 1);
    let broken = |range: Range<u64>| match range.start {
        0 => content(range),
        _ => Err(io::Error::other("the spool is damaged")),
    };
    for (name, store) in &stores.all {
        for outcome in [
            store.put_large(&at("big"), SIZE, broken, 2, &Once).await,
            store.put_large(&at("big"), SIZE, short, 2, &Once).await,
        ] {
            assert!(matches!(outcome, Err(PutLargeError::Read { .. })), "{name}: {outcome:?}");
        }
        assert!(store.head(&at("big")).await.is_err(), "{name}");
    }
    stores
        .server
        .set_fault(first(1, Fault::SlowDown, |request| request.query.contains("partNumber=2")));
    let (_, s3) = &stores.all[0];
    let outcome = s3.put_large(&at("big"), SIZE, content, 2, &Once).await;
    match outcome {
        Err(PutLargeError::Store(error)) => assert!(error.is_slow_down(), "{error}"),
        other => panic!("{other:?}"),
    }
    let log = stores.server.requests();
    let aborted = log.iter().filter(|r| r.method == "DELETE" && r.class == RequestClass::Multipart);
    assert_eq!(aborted.count(), 3);
    assert_eq!(std::fs::read_dir(stores.folder.path().join("my data [v1]~")).unwrap().count(), 0);
}

#[tokio::test]
async fn an_error_inside_a_successful_reply_is_an_error() {
    let stores = Stores::open().await;
    let (_, s3) = &stores.all[0];
    s3.put_large(&at("a"), 10, content, 1, &Once).await.unwrap();
    stores.server.set_fault(first(1, Fault::ErrorAfterOk("AccessDenied"), |r| {
        r.class == RequestClass::Copy
    }));
    let outcome = s3.copy(&at("a"), &at("b")).await;
    assert!(outcome.is_err(), "{outcome:?}");
    stores.server.set_fault(first(1, Fault::ErrorAfterOk("InternalError"), |r| {
        r.method == "POST" && r.query.contains("uploadId")
    }));
    match s3.put_large(&at("big"), SIZE, content, 2, &Once).await {
        Err(PutLargeError::Store(error)) => assert!(error.is_passing(), "{error}"),
        other => panic!("{other:?}"),
    }
}
