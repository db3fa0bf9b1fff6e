//! What is sent, in which order, and what is not sent. Asserted on the log of an S3 server.

use std::time::Duration;

use zarrmount::base::clock::Clock;
use zarrmount::ingest::Cause;
use zarrmount::ingest::dataset::State as DatasetState;
use zarrmount::ingest::source::State;
use zarrmount::netcdf::fixtures::{ocean, sample_classic, sample_netcdf4, write_netcdf4};
use zarrmount::store::PutCondition;

use crate::engine::{Engine, at};
use crate::support::{LoggedRequest, S3Server};

/// The requests that change something, in the order of their arrival.
fn changes(server: &S3Server) -> Vec<LoggedRequest> {
    let mut requests = server.requests();
    requests.retain(|request| request.method != "GET" && request.method != "HEAD");
    requests.sort_by_key(|request| request.arrived);
    requests
}

/// Which step of publication a PUT belongs to.
fn step(request: &LoggedRequest) -> usize {
    let key = request.key.strip_prefix("data/").unwrap();
    match key {
        "a.zarr/zarr.json" => 3,
        _ if key.starts_with(".zarrmount/") => 1,
        _ if key.ends_with("/zarr.json") => 2,
        _ => 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_come_before_the_receipt_before_documents_before_the_root_document() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    engine.copy("a.nc", &sample_netcdf4());
    engine.ingest.flush().await;
    assert_eq!(engine.failures(), [] as [String; 0]);
    let puts = changes(&server);
    assert!(puts.iter().all(|request| request.method == "PUT"), "{puts:?}");
    for step_before in 0..3 {
        let ended =
            puts.iter().filter(|put| step(put) == step_before).filter_map(|put| put.answered);
        let began = puts.iter().filter(|put| step(put) == step_before + 1).map(|put| put.arrived);
        let (last, first) = (ended.max().unwrap(), began.min().unwrap());
        assert!(last < first, "step {} began before step {step_before} ended", step_before + 1);
    }
    let mut keys: Vec<_> = puts.iter().map(|put| &put.key).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), puts.len(), "every object is put once");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_content_again_changes_nothing_in_the_store() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    engine.copy("a.nc", &sample_netcdf4());
    engine.ingest.flush().await;
    let engine = engine.restart().await;
    server.clear_requests();
    engine.copy("a.nc", &sample_netcdf4());
    engine.ingest.flush().await;
    assert_eq!(engine.failures(), [] as [String; 0]);
    assert_eq!(changes(&server), []);
    assert_eq!(engine.staging.usage().files, 0, "staging is free");
    let attributes = engine.ingest.receipt(&at("a.nc")).await.unwrap();
    assert_eq!(attributes.size, sample_netcdf4().len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_withdraws_the_root_document_first_and_leaves_no_chunk_of_the_old() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    engine.copy("a.nc", &sample_netcdf4());
    engine.ingest.flush().await;
    server.clear_requests();
    engine.copy("a.nc", &sample_classic(1));
    engine.ingest.flush().await;
    assert_eq!(engine.failures(), [] as [String; 0]);
    let changes = changes(&server);
    let first = changes.first().unwrap();
    assert_eq!((first.method.as_str(), first.key.as_str()), ("DELETE", "data/a.zarr/zarr.json"));
    assert!(first.answered.unwrap() < changes[1].arrived);
    let replaced = engine.objects().await;

    let fresh_server = S3Server::start();
    let fresh = Engine::on(&fresh_server).await;
    fresh.copy("a.nc", &sample_classic(1));
    fresh.ingest.flush().await;
    assert_eq!(replaced, fresh.objects().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_made_by_others_or_changed_by_others_is_refused_and_stays() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    engine.copy("a.nc", &sample_netcdf4());
    engine.ingest.flush().await;
    let root = at("a.zarr/zarr.json");
    let other = br#"{"zarr_format":3,"node_type":"group"}"#.as_slice();
    engine.store.put(&root, other.into(), PutCondition::Always).await.unwrap();
    let engine = engine.restart().await;
    let before = engine.objects().await;
    let refused = engine.ingest.prepare(&at("a.nc")).await.unwrap_err();
    assert_eq!(refused.cause, Cause::Overlap);
    assert!(refused.message.contains("a.zarr"), "{refused}");
    let id = engine.stage("a.nc", &sample_classic(1));
    engine.ingest.judge(id, &at("a.nc")).await.unwrap_err();
    engine.ingest.sealed(id, &at("a.nc"));
    engine.ingest.flush().await;
    assert_eq!(engine.objects().await, before);
    assert!(matches!(engine.ingest.sources()[0].state, State::Refused { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_withdrawn_while_its_chunks_are_on_their_way_is_never_shown() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    server.set_outage(true);
    let id = engine.copy("a.nc", &sample_netcdf4());
    engine.ingest.cancelled(id);
    server.set_outage(false);
    engine.copy("b.nc", &sample_classic(2));
    engine.ingest.flush().await;
    // `b.nc` may be done before what was withdrawn is cleared away.
    while !engine.ingest.datasets().iter().all(|(at, state)| {
        at.as_str() == "b.zarr" || *state == zarrmount::ingest::dataset::State::Open
    }) {
        tokio::task::yield_now().await;
    }
    assert!(engine.objects().await.iter().all(|(name, _)| name.starts_with("b.zarr/")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_netcdf_changes_nothing_and_says_why() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    let id = engine.stage("bad.nc", b"plain text, and quite a lot of it");
    let refused = engine.ingest.judge(id, &at("bad.nc")).await.unwrap_err();
    assert_eq!(refused.cause, Cause::Corrupt);
    assert!(refused.message.contains("neither a classic NetCDF"), "{refused}");
    let mut cut = sample_netcdf4();
    cut.truncate(cut.len() / 2);
    let id = engine.stage("cut.nc", &cut);
    assert_eq!(engine.ingest.judge(id, &at("cut.nc")).await.unwrap_err().cause, Cause::Corrupt);
    assert_eq!(changes(&server), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cdf_file_of_another_format_is_stored_as_it_is() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    engine.copy("nasa.cdf", b"not netCDF, but a fine file");
    engine.ingest.flush().await;
    engine.queue.flush().await;
    assert_eq!(
        engine.objects().await,
        [("nasa.cdf".to_owned(), b"not netCDF, but a fine file".to_vec())]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_that_someone_made_since_the_copy_began_is_not_touched() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    engine.ingest.prepare(&at("a.nc")).await.unwrap();
    let chunk = at("a.zarr/sst/c/0/0/0");
    engine.store.put(&chunk, (&b"another's"[..]).into(), PutCondition::Always).await.unwrap();
    let before = engine.objects().await;
    engine.copy("a.nc", &sample_netcdf4());
    engine.ingest.flush().await;
    assert_eq!(engine.objects().await, before);
    assert!(matches!(engine.ingest.sources()[0].state, State::Failed { .. }));
}

/// What many small files cost: each object is put once, however many files give it values.
#[tokio::test(flavor = "multi_thread")]
async fn many_files_of_one_dataset_are_put_as_few_whole_objects() {
    const FILES: u32 = 40;
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    for day in (0..FILES).rev() {
        engine.copy(&format!("o.zarr/{day:02}.nc"), &write_netcdf4(&ocean(day, 1, 8, 12)));
    }
    engine.ingest.flush().await;
    assert_eq!(engine.failures(), [] as [String; 0]);
    let requests = server.requests();
    let lists = requests.iter().filter(|request| request.query.contains("list-type"));
    assert!(lists.count() <= 3, "{requests:?}");
    let puts = changes(&server);
    let mut keys: Vec<&str> = puts.iter().map(|put| put.key.as_str()).collect();
    keys.sort_unstable();
    let before = keys.len();
    keys.dedup();
    assert_eq!(keys.len(), before, "every object is put once");
    assert_eq!(keys.iter().filter(|key| key.contains(".zarrmount")).count(), 1);

    let alone_server = S3Server::start();
    let alone = Engine::on(&alone_server).await;
    alone.copy("o.zarr/all.nc", &write_netcdf4(&ocean(0, FILES.try_into().unwrap(), 8, 12)));
    alone.ingest.flush().await;
    assert_eq!(times(&engine).await, times(&alone).await, "as if it had been one file");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_later_is_appended_and_only_the_last_chunk_is_written_again() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    engine.copy("o.zarr/a.nc", &write_netcdf4(&ocean(0, 5, 8, 12)));
    engine.ingest.flush().await;
    let engine = engine.restart().await;
    server.clear_requests();
    engine.copy("o.zarr/b.nc", &write_netcdf4(&ocean(5, 3, 8, 12)));
    engine.ingest.flush().await;
    assert_eq!(engine.failures(), [] as [String; 0]);
    let puts: Vec<_> = changes(&server).into_iter().filter(|r| r.method == "PUT").collect();
    let root = puts.last().unwrap();
    assert!(root.key.ends_with("o.zarr/zarr.json"), "the root document comes last: {puts:?}");
    let statics = puts.iter().filter(|put| put.key.contains("/lat/") || put.key.contains("/lon/"));
    assert_eq!(statics.count(), 0, "what is the same is not written again");

    let alone_server = S3Server::start();
    let alone = Engine::on(&alone_server).await;
    alone.copy("o.zarr/all.nc", &write_netcdf4(&ocean(0, 8, 8, 12)));
    alone.ingest.flush().await;
    assert_eq!(times(&engine).await, times(&alone).await, "as if it had been one file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_that_is_left_alone_publishes_itself() {
    let server = S3Server::start();
    let clock = Clock::manual();
    let engine = Engine::with_clock(&server, clock.clone()).await;
    engine.copy("o.zarr/a.nc", &write_netcdf4(&ocean(0, 3, 8, 12)));
    let is = |state| move |engine: &Engine| engine.ingest.datasets().iter().any(|d| d.1 == state);
    until(&engine, is(DatasetState::Gathering)).await;
    assert_eq!(changes(&server), [], "nothing is sent while others may come");
    // The clock stands still: whoever waits for it is woken once, when the time has come.
    until(&engine, |engine| {
        clock.advance(Duration::from_secs(61));
        is(DatasetState::Published)(engine)
    })
    .await;
    assert!(changes(&server).last().unwrap().key.ends_with("o.zarr/zarr.json"));
}

async fn until(engine: &Engine, condition: impl Fn(&Engine) -> bool) {
    while !condition(engine) {
        tokio::task::yield_now().await;
    }
}

/// The chunk of the coordinate along which files are joined.
async fn times(engine: &Engine) -> Vec<u8> {
    let objects = engine.objects().await;
    let found = objects.into_iter().find(|(name, _)| name == "o.zarr/time/c/0");
    found.expect("there is a chunk of times").1
}
