//! Each kind of failure at one request in ten: the result is that of a day without failures, and
//! nothing is sent twice that had arrived.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zarrmount::base::clock::Clock;
use zarrmount::netcdf::fixtures::{ocean, sample_netcdf4, write_netcdf4};
use zarrmount::store::{Environment, StoreOptions};
use zarrmount::telemetry::counters::RequestClass;

use crate::bucket::Bucket;
use crate::engine::Engine;
use crate::support::faults::randomly;
use crate::support::{ACCESS_KEY, Fault, LoggedRequest, Moment, S3Server, SECRET_KEY};
use crate::sweep::{seeds, sweep};

/// One request in ten.
const PER_MILLE: u64 = 100;

/// Above the size from which objects go in parts.
const LARGE_BYTES: u32 = (33 << 20) + 5;

/// One run in so many has a large object.
const LARGE_EVERY: u64 = 6;

/// How long a request may make no progress where requests stall; elsewhere a busy machine gets the
/// usual time.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

fn copy_all(engine: &Engine, with_large: bool) {
    engine.copy("a.nc", &sample_netcdf4());
    engine.copy("j.zarr/1.nc", &write_netcdf4(&ocean(0, 5, 6, 8)));
    engine.copy("j.zarr/2.nc", &write_netcdf4(&ocean(5, 5, 6, 8)));
    for number in 0..8 {
        engine.copy(&format!("raw.zarr/x/c/{number}"), format!("chunk {number}").as_bytes());
    }
    engine.copy("raw.zarr/x/zarr.json", b"{\"node_type\":\"array\"}");
    engine.copy("raw.zarr/zarr.json", b"{\"node_type\":\"group\"}");
    if with_large {
        let large: Vec<u8> = (0..LARGE_BYTES / 4).flat_map(u32::to_le_bytes).collect();
        engine.copy("large.bin", &large);
    }
}

async fn settle(engine: &Engine, server: &S3Server) -> Result<Bucket, String> {
    tokio::join!(engine.ingest.flush(), engine.queue.flush());
    match engine.failures() {
        none if none.is_empty() => Ok(Bucket::of(server)),
        some => Err(some.join("; ")),
    }
}

fn fault_free(with_large: bool) -> &'static Bucket {
    static FAULT_FREE: [OnceLock<Bucket>; 2] = [OnceLock::new(), OnceLock::new()];
    FAULT_FREE[usize::from(with_large)].get_or_init(|| {
        on_a_runtime(async {
            let server = S3Server::start();
            let engine = Engine::on(&server).await;
            copy_all(&engine, with_large);
            settle(&engine, &server).await.unwrap()
        })
    })
}

fn on_a_runtime<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// With keys in a file, which may be renewed.
pub(crate) fn options(server: &S3Server, home: &std::path::Path) -> StoreOptions {
    let file = home.join("credentials");
    let keys = format!(
        "[default]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    );
    std::fs::write(&file, keys).unwrap();
    StoreOptions {
        environment: Environment::of([
            ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap()),
            ("AWS_REGION", "us-east-1"),
            ("HOME", "/nonexistent"),
        ]),
        ..server.options()
    }
}

/// Sent again although it had arrived and the client was told so.
pub(crate) fn sent_without_need(log: &[LoggedRequest]) -> Vec<String> {
    let mut sent = BTreeMap::<(String, String), (u64, u64)>::new();
    for request in log {
        let what = match (request.class, request.method.as_str()) {
            (RequestClass::Put, _) => String::new(),
            (RequestClass::Multipart, "PUT") => {
                request.query.split('&').find(|part| part.starts_with("partNumber")).unwrap().into()
            }
            _ => continue,
        };
        let (puts, failed) = sent.entry((request.key.clone(), what)).or_default();
        *puts += 1;
        *failed += u64::from(!request.is_done() || request.reply_lost);
    }
    sent.iter()
        .filter(|(_, (puts, failed))| *puts > 1 + *failed)
        .map(|((key, part), (puts, failed))| {
            format!("{key} {part} was sent {puts} times, {failed} failed")
        })
        .collect()
}

fn one_run(
    seed: u64,
    stall_timeout: Duration,
    fail: impl Fn(&Arc<S3Server>, u64),
) -> Result<&'static str, String> {
    let with_large = seed.is_multiple_of(LARGE_EVERY);
    let expected = fault_free(with_large);
    on_a_runtime(async {
        let server = Arc::new(S3Server::start());
        let home = tempfile::tempdir().unwrap();
        let options = StoreOptions { stall_timeout, ..options(&server, home.path()) };
        let engine = Engine::with_options(&server, options, Clock::system()).await;
        fail(&server, seed);
        copy_all(&engine, with_large);
        tokio::join!(engine.ingest.flush(), engine.queue.flush());
        server.clear_fault();
        server.clear_witness();
        server.set_outage(false);
        let found = settle(&engine, &server).await?;
        let differences = found.differences(expected);
        if !differences.is_empty() {
            return Err(differences);
        }
        match sent_without_need(&server.requests()) {
            none if none.is_empty() => Ok("equal"),
            some => Err(some.join("; ")),
        }
    })
}

/// Under one kind of failure of single requests.
fn under(name: &str, fault: Fault) {
    let usual = StoreOptions::default().stall_timeout;
    let stall_timeout = if fault == Fault::Stall { STALL_TIMEOUT } else { usual };
    sweep(name, seeds(3), |seed| {
        one_run(seed, stall_timeout, |server, seed| {
            server.set_fault(randomly(seed, PER_MILLE, vec![fault]));
        })
    });
}

#[test]
fn a_store_that_asks_for_fewer_requests_gets_the_same() {
    under("503 SlowDown", Fault::SlowDown);
}

#[test]
fn a_store_with_internal_errors_gets_the_same() {
    under("500 InternalError", Fault::InternalError);
}

#[test]
fn connections_that_break_before_a_request_change_nothing() {
    under("reset before", Fault::ResetBefore);
}

#[test]
fn connections_that_break_in_the_middle_of_a_body_change_nothing() {
    under("reset in the body", Fault::ResetInBody);
}

#[test]
fn replies_that_are_lost_after_the_store_has_done_it_change_nothing() {
    under("reply lost", Fault::ResetAfter);
}

#[test]
fn requests_that_stall_change_nothing() {
    under("stall", Fault::Stall);
}

#[test]
fn slow_answers_change_nothing() {
    under("slow", Fault::Slow(300));
}

#[test]
fn bodies_that_are_damaged_on_their_way_are_refused_and_sent_again() {
    under("damaged body", Fault::Damage);
}

#[test]
fn credentials_that_expire_are_renewed_and_change_nothing() {
    under("expired token", Fault::Reply(400, "ExpiredToken"));
}

#[test]
fn outages_change_nothing() {
    sweep("outage", seeds(3), |seed| {
        one_run(seed, StoreOptions::default().stall_timeout, |server, seed| {
            let (first, count) = (seed % 37, AtomicU64::new(0));
            let weak = Arc::downgrade(server);
            server.set_witness(Box::new(move |_, moment| {
                let is_it =
                    moment == Moment::Arrived && count.fetch_add(1, Ordering::SeqCst) == first;
                if let (true, Some(server)) = (is_it, weak.upgrade()) {
                    server.set_outage(true);
                    let weak = weak.clone();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(400));
                        if let Some(server) = weak.upgrade() {
                            server.set_outage(false);
                        }
                    });
                }
            }));
        })
    });
}
