//! The file system's semantics over real staging, queue, ingest and store, without a kernel.
#![allow(clippy::tests_outside_test_module, reason = "integration tests are test modules")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod model;
mod mount;
mod names;
mod publishing;
mod reading;
mod removing;
mod renaming;
mod requests;
mod restarting;
mod sources;
#[path = "../support/mod.rs"]
mod support;
mod writing;
