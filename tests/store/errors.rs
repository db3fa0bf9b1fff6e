//! What goes wrong, and what the user is told.

use std::sync::Arc;
use std::time::Duration;

use zarrmount::store::{
    Environment, OpenError, PutCondition, Store, StoreError, StoreOptions, StoreUrl,
};
use zarrmount::telemetry::counters::{RequestClass, StoreCounters};

use crate::support::faults::first;
use crate::support::{Fault, LoggedRequest, S3Server};
use crate::{Stores, at, open};

async fn fails(url: &StoreUrl, options: &StoreOptions) -> OpenError {
    Store::open(url, options, Arc::new(StoreCounters::default())).await.unwrap_err()
}

#[tokio::test]
async fn a_missing_bucket_is_found_when_opening() {
    let server = S3Server::start();
    let error = fails(&"s3://other/p".parse().unwrap(), &server.options()).await;
    assert!(matches!(error, OpenError::BucketMissing { .. }), "{error:?}");
    assert!(error.to_string().contains("`other`"), "{error}");
    let error = fails(&"file:///no/such/folder".parse().unwrap(), &StoreOptions::default()).await;
    assert!(matches!(error, OpenError::Folder { .. }), "{error:?}");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
}

#[tokio::test]
async fn wrong_credentials_are_found_when_opening_and_their_source_is_named() {
    let server = S3Server::start();
    let mut options = server.options();
    options.environment = Environment::of([
        ("AWS_ACCESS_KEY_ID", "testkey"),
        ("AWS_SECRET_ACCESS_KEY", "wrong"),
        ("HOME", "/nonexistent"),
    ]);
    let error = fails(&server.url(""), &options).await;
    assert!(matches!(error, OpenError::Denied { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (used)"), "{text}");
    assert!(text.contains("SignatureDoesNotMatch"), "{text}");
}

#[tokio::test]
async fn without_credentials_every_source_is_named_and_nothing_hangs() {
    let server = S3Server::start();
    let mut options = server.options();
    // An address where nobody listens stands for the metadata service of a machine without one.
    options.environment = Environment::of([
        ("HOME", "/nonexistent"),
        ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9"),
    ]);
    let error = fails(&server.url(""), &options).await;
    let OpenError::NoCredentials { tried, .. } = &error else { panic!("{error:?}") };
    let tried = tried.join("\n");
    for source in
        ["AWS_ACCESS_KEY_ID", "profile `default`", "web identity", "container", "instance"]
    {
        assert!(tried.contains(source), "{source} in {tried}");
    }
    options.environment =
        Environment::of([("HOME", "/nonexistent"), ("AWS_EC2_METADATA_DISABLED", "true")]);
    let error = fails(&server.url(""), &options).await;
    assert!(matches!(error, OpenError::NoCredentials { .. }), "{error:?}");
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn an_address_that_never_answers_is_given_up_in_time() {
    let server = S3Server::start();
    server.set_fault(first(1, Fault::Stall, |_| true));
    let mut options = server.options();
    options.open_timeout = Duration::from_millis(200);
    let error = fails(&server.url(""), &options).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    options.open_timeout = StoreOptions::default().open_timeout;
    options.endpoint_url = Some("http://127.0.0.1:9".to_owned());
    let error = fails(&server.url(""), &options).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("http://127.0.0.1:9"), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
    options.endpoint_url = Some("http://no-such-host.invalid".to_owned());
    let error = fails(&server.url(""), &options).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn failures_that_may_pass_are_told_from_those_that_will_not() {
    let server = S3Server::start();
    let store = open(&server.url(""), &server.options()).await;
    let a = at("a");
    store.put(&a, "1".into(), PutCondition::Always).await.unwrap();
    for (fault, passing, slow_down) in [
        (Fault::SlowDown, true, true),
        (Fault::InternalError, true, false),
        (Fault::Reply(400, "RequestTimeout"), true, false),
        (Fault::ResetBefore, true, false),
        (Fault::ResetAfter, true, false),
        (Fault::Denied, false, false),
        (Fault::Reply(400, "EntityTooLarge"), false, false),
        (Fault::Reply(404, "NoSuchBucket"), false, false),
    ] {
        for class in
            [RequestClass::Put, RequestClass::Get, RequestClass::Delete, RequestClass::List]
        {
            server.set_fault(first(1, fault, move |request| request.class == class));
            server.clear_requests();
            let error = match class {
                RequestClass::Put => store.put(&a, "2".into(), PutCondition::Always).await.err(),
                RequestClass::Get => store.get(&a, None).await.err(),
                RequestClass::List => store.list_folder(&at("")).await.err(),
                _ => store.delete(&a).await.err(),
            };
            let error = error.unwrap_or_else(|| panic!("{fault:?} {class:?} is an error"));
            assert_eq!(error.is_passing(), passing, "{fault:?} {class:?}: {error}");
            assert_eq!(error.is_slow_down(), slow_down, "{fault:?} {class:?}: {error}");
            assert!(!matches!(error, StoreError::NotFound { .. }), "{fault:?} {class:?}: {error}");
            assert_eq!(server.requests().len(), 1, "nothing retries: {fault:?} {class:?}");
        }
    }
}

#[tokio::test]
async fn a_bulk_delete_that_fails_says_so_for_each_object() {
    let server = S3Server::start();
    let store = open(&server.url("p"), &server.options()).await;
    let places = [at("a"), at("b"), at("c")];
    let bulk = |request: &LoggedRequest| request.query == "delete";
    for place in &places {
        store.put(place, "1".into(), PutCondition::Always).await.unwrap();
    }
    server.set_fault(first(1, Fault::SlowDown, bulk));
    let outcomes = store.delete_many(&places).await;
    let slow_down =
        |outcome: &Result<(), StoreError>| outcome.as_ref().is_err_and(StoreError::is_slow_down);
    assert!(outcomes.len() == 3 && outcomes.iter().all(slow_down), "{outcomes:?}");
    // A store without bulk delete is asked for one object after the other.
    server.set_fault(first(1, Fault::Reply(501, "NotImplemented"), bulk));
    let outcomes = store.delete_many(&places).await;
    assert!(outcomes.len() == 3 && outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_request_that_makes_no_progress_is_given_up_and_may_pass() {
    let server = S3Server::start();
    let mut options = server.options();
    options.stall_timeout = Duration::from_millis(500);
    let store = open(&server.url(""), &options).await;
    server.set_fault(first(1, Fault::Stall, |_| true));
    let error = store.put(&at("a"), "1".into(), PutCondition::Always).await.unwrap_err();
    assert!(error.is_passing() && error.reply().status.is_none(), "{error}");
}

#[tokio::test]
async fn an_outage_passes() {
    let server = S3Server::start();
    let store = open(&server.url(""), &server.options()).await;
    server.set_outage(true);
    let error = store.put(&at("a"), "1".into(), PutCondition::Always).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    server.set_outage(false);
    store.put(&at("a"), "1".into(), PutCondition::Always).await.unwrap();
}

#[tokio::test]
async fn a_lost_reply_of_a_conditional_put_looks_like_a_conflict_afterwards() {
    let server = S3Server::start();
    let store = open(&server.url(""), &server.options()).await;
    server.set_fault(first(1, Fault::ResetAfter, |request| request.class == RequestClass::Put));
    let error = store.put(&at("a"), "1".into(), PutCondition::Absent).await.unwrap_err();
    assert!(error.is_passing(), "{error}");
    let again = store.put(&at("a"), "1".into(), PutCondition::Absent).await;
    assert!(matches!(again, Err(StoreError::Conflict { .. })), "{again:?}");
    assert_eq!(server.object("a").unwrap(), b"1");
}

#[tokio::test]
async fn a_folder_that_was_replaced_is_not_an_empty_store() {
    let outer = tempfile::TempDir::new().unwrap();
    let folder = outer.path().join("disk");
    std::fs::create_dir(&folder).unwrap();
    let url = format!("file://{}", folder.display()).parse().unwrap();
    let store = open(&url, &StoreOptions::default()).await;
    store.put(&at("a"), "1".into(), PutCondition::Always).await.unwrap();
    let away = outer.path().join("away");
    assert!(std::process::Command::new("mv").args([&folder, &away]).status().unwrap().success());
    std::fs::create_dir(&folder).unwrap();
    assert!(store.get(&at("a"), None).await.unwrap_err().is_passing());
    assert!(store.list_folder(&at("")).await.unwrap_err().is_passing());
    assert!(store.put(&at("b"), "1".into(), PutCondition::Always).await.unwrap_err().is_passing());
}

#[tokio::test]
async fn a_key_below_an_object_is_refused_in_a_folder() {
    let stores = Stores::open().await;
    let (_, file) = &stores.all[1];
    file.put(&at("a"), "1".into(), PutCondition::Always).await.unwrap();
    let below = file.put(&at("a/b"), "1".into(), PutCondition::Always).await;
    assert!(matches!(below, Err(StoreError::Invalid { .. })), "{below:?}");
    file.put(&at("d/e"), "1".into(), PutCondition::Always).await.unwrap();
    let over = file.put(&at("d"), "1".into(), PutCondition::Always).await;
    assert!(matches!(over, Err(StoreError::Invalid { .. })), "{over:?}");
    let as_object = file.head(&at("d")).await;
    assert!(matches!(as_object, Err(StoreError::NotFound { .. })), "{as_object:?}");
    assert!(matches!(file.get(&at("a/b"), None).await, Err(StoreError::NotFound { .. })));
}
