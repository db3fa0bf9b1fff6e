//! The store against a real S3 protocol server, a local folder, and memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails that way")]

mod errors;
mod large;
mod listing;
mod objects;
mod profiles;
mod requests;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use zarrmount::store::{Location, Store, StoreOptions, StoreUrl};
use zarrmount::telemetry::counters::StoreCounters;

use support::S3Server;

/// A location.
pub(crate) fn at(text: &str) -> Location {
    Location::parse(text).unwrap()
}

/// Opens with counters of its own.
pub(crate) async fn open(url: &StoreUrl, options: &StoreOptions) -> Store {
    Store::open(url, options, Arc::new(StoreCounters::default())).await.unwrap()
}

/// A store of each kind that can be proved here, with what keeps it alive.
pub(crate) struct Stores {
    pub(crate) all: Vec<(&'static str, Store)>,
    pub(crate) server: S3Server,
    pub(crate) folder: TempDir,
}

impl Stores {
    /// All of them empty, each below a prefix.
    pub(crate) async fn open() -> Self {
        static MEMORIES: AtomicU64 = AtomicU64::new(0);
        let server = S3Server::start();
        let folder = TempDir::new().unwrap();
        let local = folder.path().join("my data [v1]~");
        std::fs::create_dir(&local).unwrap();
        let number = MEMORIES.fetch_add(1, Ordering::Relaxed);
        let memory: StoreUrl = format!("memory://test-{number}/below/it").parse().unwrap();
        let local: StoreUrl = format!("file://{}", local.display()).parse().unwrap();
        let options = StoreOptions::default();
        let all = vec![
            ("s3", open(&server.url("some/my data [v1]~"), &server.options()).await),
            ("file", open(&local, &options).await),
            ("memory", open(&memory, &options).await),
        ];
        Self { all, server, folder }
    }
}
