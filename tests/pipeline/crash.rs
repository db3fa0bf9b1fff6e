//! Whatever moment the daemon dies at: the next one brings the store to the same end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zarrmount::netcdf::fixtures::sample_netcdf4;

use crate::engine::Engine;
use crate::support::{Fault, S3Server};

async fn uninterrupted() -> Vec<(String, Vec<u8>)> {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    copy_all(&engine);
    settle(&engine).await;
    engine.objects().await
}

fn copy_all(engine: &Engine) {
    engine.copy("a.nc", &sample_netcdf4());
    for number in 0..20 {
        engine.copy(&format!("raw.zarr/x/c/{number}"), format!("chunk {number}").as_bytes());
    }
    engine.copy("raw.zarr/x/zarr.json", b"{\"array\": true}");
    engine.copy("raw.zarr/zarr.json", b"{\"group\": true}");
}

async fn settle(engine: &Engine) {
    tokio::join!(engine.ingest.flush(), engine.queue.flush());
    assert_eq!(engine.failures(), [] as [String; 0]);
}

/// A document in the store whose hierarchy is not complete yet.
fn shown_too_early(server: &S3Server) -> Option<String> {
    let keys = server.keys();
    let has = |key: &str| keys.iter().any(|other| other == key);
    let raw = (0..20).all(|number| has(&format!("data/raw.zarr/x/c/{number}")));
    let early = has("data/raw.zarr/x/zarr.json") && !raw
        || has("data/raw.zarr/zarr.json") && !has("data/raw.zarr/x/zarr.json");
    early.then(|| format!("{keys:?}"))
}

/// The store stops answering after so many changes; then the daemon dies.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_at_any_request_the_store_ends_as_without_it() {
    let expected = uninterrupted().await;
    for survivors in (0..40).step_by(3) {
        let server = S3Server::start();
        let engine = Engine::on(&server).await;
        let changes = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&changes);
        server.set_fault(Box::new(move |request| {
            let changes = request.method != "GET" && request.method != "HEAD";
            (changes && seen.fetch_add(1, Ordering::SeqCst) >= survivors)
                .then_some(Fault::InternalError)
        }));
        copy_all(&engine);
        let flushing = async { tokio::join!(engine.ingest.flush(), engine.queue.flush()) };
        tokio::select! {
            _done = flushing => {}
            () = async {
                while changes.load(Ordering::SeqCst) <= survivors {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        assert_eq!(shown_too_early(&server), None, "after {survivors} changes");
        server.clear_fault();
        let engine = engine.restart().await;
        settle(&engine).await;
        assert_eq!(engine.objects().await, expected, "after {survivors} changes");
        assert_eq!(engine.staging.usage().files, 0);
    }
}
