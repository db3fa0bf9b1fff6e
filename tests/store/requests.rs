//! What operations cost: requests, bytes, connections.

use bytes::Bytes;
use futures::StreamExt as _;
use zarrmount::store::PutCondition;
use zarrmount::telemetry::counters::StoreSnapshot;

use crate::support::{S3Server, TlsFront};
use crate::{Stores, at, open};

#[tokio::test]
async fn every_operation_is_one_request_and_is_counted() {
    let server = S3Server::start();
    let store = open(&server.url("p"), &server.options()).await;
    assert_eq!(server.requests().len(), 1, "opening asks once");
    let a = at("a");
    store.put(&a, "12345".into(), PutCondition::Always).await.unwrap();
    store.get(&a, None).await.unwrap();
    store.get(&a, Some(1..3)).await.unwrap();
    store.head(&a).await.unwrap();
    store.copy(&a, &at("b")).await.unwrap();
    store.list_folder(&at("")).await.unwrap();
    store.delete(&a).await.unwrap();
    store.delete_many(&[at("b"), at("c")]).await;
    let counted = store.counters().snapshot();
    let bodies: usize = server.requests().iter().map(|request| request.bytes).sum();
    assert_eq!(
        StoreSnapshot { bytes_received: 0, connections_reused: 0, ..counted.clone() },
        StoreSnapshot {
            get: 2,
            head: 1,
            list: 2,
            put: 1,
            delete: 2,
            copy: 1,
            bytes_sent: bodies as u64,
            connections_opened: 1,
            ..StoreSnapshot::default()
        }
    );
    assert_eq!(server.requests().len(), 9);
    for class in server.requests().iter().map(|request| request.class) {
        let seen = server.requests().iter().filter(|request| request.class == class).count();
        assert_eq!(store.counters().of(class).get(), seen as u64, "{class:?}");
    }
    assert_eq!(counted.connections_reused, 8, "all but the first");
    assert!(counted.bytes_received > 7, "bodies of listings and of two reads");
}

#[tokio::test]
async fn many_puts_share_few_connections() {
    let server = S3Server::start();
    let store = open(&server.url(""), &server.options()).await;
    let puts = (0..400).map(|n| {
        let store = &store;
        async move {
            let body = Bytes::from(vec![7; 1000]);
            store.put(&at(&format!("c/{n}")), body, PutCondition::Always).await.unwrap();
        }
    });
    futures::stream::iter(puts).buffer_unordered(8).collect::<Vec<()>>().await;
    let counted = store.counters().snapshot();
    assert_eq!((counted.put, counted.bytes_sent), (400, 400_000));
    assert_eq!(counted.connections_opened, server.connections(), "as the server counts them");
    assert!(counted.connections_opened <= 10, "{counted:?}");
    // A request that found a free connection while one was being made for it uses either.
    assert_eq!(server.requests().len(), 401);
    assert!(counted.connections_opened + counted.connections_reused >= 401, "{counted:?}");
    assert!(counted.connections_reused >= 391, "{counted:?}");
}

#[tokio::test]
async fn over_tls_a_connection_shakes_hands_once_and_serves_many_requests() {
    let server = S3Server::start();
    let front = TlsFront::of(&server);
    let store = open(&server.url(""), &front.options(&server)).await;
    let puts = (0..200).map(|n| {
        let store = &store;
        async move {
            let body = Bytes::from(vec![7; 1000]);
            store.put(&at(&format!("c/{n}")), body, PutCondition::Always).await.unwrap();
        }
    });
    futures::stream::iter(puts).buffer_unordered(8).collect::<Vec<()>>().await;
    let counted = store.counters().snapshot();
    assert_eq!(counted.put, 200);
    assert_eq!(counted.connections_opened, front.handshakes(), "one handshake a connection");
    assert_eq!(counted.connections_opened, server.connections(), "none without a handshake");
    assert!(counted.connections_opened <= 10, "{counted:?}");
}

#[tokio::test]
async fn stores_without_http_count_by_operation() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all[1..] {
        store.put(&at("a"), "12345".into(), PutCondition::Always).await.unwrap();
        store.get(&at("a"), Some(0..2)).await.unwrap();
        store.list_folder(&at("")).await.unwrap();
        let expected = StoreSnapshot {
            put: 1,
            get: 1,
            list: 1,
            bytes_sent: 5,
            bytes_received: 2,
            ..StoreSnapshot::default()
        };
        assert_eq!(store.counters().snapshot(), expected, "{name}");
    }
}
