//! What is said of where the time went, with a store that is slow.

use std::time::Duration;

use zarrmount::netcdf::fixtures::sample_netcdf4;
use zarrmount::telemetry::activities::Activity;

use crate::engine::Engine;
use crate::support::S3Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_keeps_one_waiting_is_what_the_time_went_into() {
    let server = S3Server::start();
    let engine = Engine::on(&server).await;
    server.set_latency(Duration::from_millis(200));
    engine.copy("a.nc", &sample_netcdf4());
    engine.ingest.flush().await;
    assert_eq!(engine.failures(), [] as [String; 0]);
    let spent = engine.activities.finish().unwrap();
    assert_eq!(spent.stage, Activity::Network, "{spent}");
}
