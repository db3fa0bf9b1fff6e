//! Objects: keys, conditions, ranges, deletion, copies.

use bytes::Bytes;
use zarrmount::store::{Location, PutCondition, StoreError, StoreOptions, StoreUrl, Version};

use crate::support::S3Server;
use crate::{Stores, at, open};

const KEYS: [&str; 12] = [
    "plain",
    "température/été",
    "a%20b",
    "a b",
    "a+b",
    "x#y",
    "run#1",
    "my data [v1]~/c/0/1",
    "ends with ~",
    "q?v=1&w=2",
    "<xml>&\"quotes\"'",
    "ocean.zarr/sst/c/0/0",
];

#[tokio::test]
async fn keys_stay_literal_on_every_store() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        for key in KEYS {
            let body = Bytes::from(format!("body of {key}"));
            store.put(&at(key), body.clone(), PutCondition::Always).await.unwrap();
            assert_eq!(store.get(&at(key), None).await.unwrap().bytes, body, "{name} {key}");
            assert_eq!(store.head(&at(key)).await.unwrap().size, body.len() as u64, "{name} {key}");
        }
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let page = store.list_below(&at(""), after).await.unwrap();
            listed.extend(page.objects.into_iter().map(|object| object.location));
            assert_eq!(page.unrepresentable, Vec::<String>::new(), "{name}");
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let mut expected: Vec<_> = KEYS.iter().map(|key| at(key)).collect();
        expected.sort();
        listed.sort();
        assert_eq!(listed, expected, "{name}");
    }
    for key in KEYS {
        let full = format!("some/my data [v1]~/{key}");
        assert!(stores.server.object(&full).is_some(), "{full} in the bucket");
        let file = stores.folder.path().join("my data [v1]~").join(key);
        assert!(file.is_file(), "{}", file.display());
    }
}

#[tokio::test]
async fn an_absent_object_is_created_once() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        let place = at("receipts/one");
        let first = store.put(&place, "1".into(), PutCondition::Absent).await.unwrap();
        let again = store.put(&place, "2".into(), PutCondition::Absent).await;
        assert!(matches!(again, Err(StoreError::Conflict { .. })), "{name}: {again:?}");
        let fetched = store.get(&place, None).await.unwrap();
        assert_eq!((&fetched.bytes[..], fetched.version), (&b"1"[..], first), "{name}");
    }
}

#[tokio::test]
async fn a_put_that_names_a_version_replaces_only_that_version() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        let place = at("head");
        let first = store.put(&place, "1".into(), PutCondition::Always).await.unwrap();
        let matches = PutCondition::Matches;
        let second = store.put(&place, "2".into(), matches(first.clone())).await.unwrap();
        assert_ne!(first, second, "{name}");
        assert_eq!(store.head(&place).await.unwrap().version, Some(second.clone()), "{name}");
        let late = store.put(&place, "3".into(), matches(first)).await;
        assert!(matches!(late, Err(StoreError::Conflict { .. })), "{name}: {late:?}");
        store.delete(&place).await.unwrap();
        let gone = store.put(&place, "4".into(), matches(second)).await;
        assert!(matches!(gone, Err(StoreError::Conflict { .. })), "{name}: {gone:?}");
        let absent = store.get(&place, None).await;
        assert!(matches!(absent, Err(StoreError::NotFound { .. })), "{name}: {absent:?}");
    }
}

#[tokio::test]
async fn of_many_writers_exactly_one_wins_each_round() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        let place = at("head");
        let mut version = store.put(&place, "0".into(), PutCondition::Always).await.unwrap();
        for round in 0..5 {
            let writers = (0..8).map(|writer| {
                let body = Bytes::from(format!("{round} {writer}"));
                store.put(&place, body, PutCondition::Matches(version.clone()))
            });
            let outcomes = futures::future::join_all(writers).await;
            let won: Vec<Version> = outcomes.iter().filter_map(|o| o.clone().ok()).collect();
            assert_eq!(won.len(), 1, "{name} {round}: {outcomes:?}");
            let lost = |o: &Result<_, _>| matches!(o, Err(StoreError::Conflict { .. }));
            assert_eq!(outcomes.iter().filter(|o| lost(o)).count(), 7, "{name} {round}");
            assert_eq!(store.head(&place).await.unwrap().version.as_ref(), won.first(), "{name}");
            version = won.into_iter().next().unwrap();
        }
    }
}

#[tokio::test]
async fn two_openings_of_a_folder_see_each_others_versions() {
    let folder = tempfile::TempDir::new().unwrap();
    let url = format!("file://{}", folder.path().display()).parse().unwrap();
    let options = StoreOptions::default();
    let (one, other) = (open(&url, &options).await, open(&url, &options).await);
    assert_eq!(one.identity(), other.identity());
    let version = one.put(&at("a"), "1".into(), PutCondition::Absent).await.unwrap();
    let lost = other.put(&at("a"), "2".into(), PutCondition::Absent).await;
    assert!(matches!(lost, Err(StoreError::Conflict { .. })));
    other.put(&at("a"), "2".into(), PutCondition::Matches(version.clone())).await.unwrap();
    let lost = one.put(&at("a"), "3".into(), PutCondition::Matches(version)).await;
    assert!(matches!(lost, Err(StoreError::Conflict { .. })));
}

#[tokio::test]
async fn a_range_gives_its_bytes_and_the_size_of_the_whole() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        let put = store.put(&at("a"), "0123456789".into(), PutCondition::Always).await.unwrap();
        let fetched = store.get(&at("a"), Some(2..5)).await.unwrap();
        assert_eq!((&fetched.bytes[..], fetched.size), (&b"234"[..], 10), "{name}");
        assert_eq!(fetched.version, put, "{name}");
        let over = store.get(&at("a"), Some(8..100)).await.unwrap();
        assert_eq!(&over.bytes[..], b"89", "{name}");
        assert!(store.get(&at("a"), Some(10..11)).await.is_err(), "{name}");
        store.put(&at("empty"), Bytes::new(), PutCondition::Always).await.unwrap();
        assert_eq!(store.get(&at("empty"), None).await.unwrap().size, 0, "{name}");
    }
}

#[tokio::test]
async fn deleting_what_is_gone_succeeds_and_emptied_folders_vanish() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        let places: Vec<_> = (0..30).map(|n| at(&format!("a/b{}/{n}", n % 3))).collect();
        for place in &places {
            store.put(place, "x".into(), PutCondition::Always).await.unwrap();
        }
        store.put(&at("stays"), "x".into(), PutCondition::Always).await.unwrap();
        store.delete(&places[0]).await.unwrap();
        store.delete(&places[0]).await.unwrap();
        let results = store.delete_many(&places).await;
        assert!(results.len() == 30 && results.iter().all(Result::is_ok), "{name}: {results:?}");
        let left = store.list_folder(&at("")).await.unwrap();
        assert_eq!(left.objects.len(), 1, "{name}");
        if *name == "file" {
            assert_eq!(left.folders, Vec::<String>::new());
        }
    }
}

#[tokio::test]
async fn a_copy_replaces_its_target() {
    let stores = Stores::open().await;
    for (name, store) in &stores.all {
        store.put(&at("é/from #1"), "new".into(), PutCondition::Always).await.unwrap();
        store.put(&at("to"), "old".into(), PutCondition::Always).await.unwrap();
        store.copy(&at("é/from #1"), &at("to")).await.unwrap();
        assert_eq!(&store.get(&at("to"), None).await.unwrap().bytes[..], b"new", "{name}");
        let missing = store.copy(&at("nothing"), &at("to")).await;
        assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{name}: {missing:?}");
    }
}

#[tokio::test]
async fn a_memory_of_the_same_name_is_the_same_store() {
    let url = "memory://shared-by-name".parse().unwrap();
    let options = StoreOptions::default();
    let one = open(&url, &options).await;
    one.put(&at("a"), "1".into(), PutCondition::Always).await.unwrap();
    let other = open(&url, &options).await;
    assert_eq!(&other.get(&at("a"), None).await.unwrap().bytes[..], b"1");
}

#[tokio::test]
async fn anonymous_requests_are_not_signed() {
    let server = S3Server::start_public();
    let mut options = server.options();
    options.no_sign_request = true;
    let store = open(&server.url(""), &options).await;
    store.put(&at("a"), "1".into(), PutCondition::Always).await.unwrap();
    assert_eq!(server.object("a").unwrap(), b"1");
}

#[tokio::test]
async fn what_a_dead_writer_left_in_a_local_folder_is_removed_and_never_shown() {
    let folder = tempfile::TempDir::new().unwrap();
    let staged = folder.path().join(".zarrmount-new");
    std::fs::create_dir(&staged).unwrap();
    std::fs::write(staged.join("99999999-0"), b"half a chunk").unwrap();
    let url: StoreUrl = format!("file://{}", folder.path().display()).parse().unwrap();
    let store = open(&url, &StoreOptions::default()).await;
    store.put(&at("a/b"), Bytes::from_static(b"whole"), PutCondition::Always).await.unwrap();
    let listing = store.list_folder(&Location::root()).await.unwrap();
    assert_eq!(listing.folders, ["a"]);
    assert!(!staged.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn objects_come_to_folders_whose_last_object_goes_in_the_same_moment() {
    let stores = Stores::open().await;
    let (_, file) = &stores.all[1];
    let come_and_go = |key: Location, condition: PutCondition| async move {
        for _ in 0..200 {
            file.put(&key, "x".into(), condition.clone()).await.unwrap();
            file.delete(&key).await.unwrap();
        }
    };
    tokio::join!(
        come_and_go(at("d/e/one"), PutCondition::Always),
        come_and_go(at("d/e/two"), PutCondition::Absent),
        come_and_go(at("d/three"), PutCondition::Always),
    );
}
