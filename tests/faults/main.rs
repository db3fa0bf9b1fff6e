//! What must hold when something goes wrong: the daemon is killed, the store fails, the power goes.
//!
//! `make test` runs a seeded sample of each sweep; `make soak N=500 SEED=7` runs so many of each.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test that cannot be set up must fail, and sweeps report their counts"
)]

#[path = "../support/mod.rs"]
mod support;

mod bucket;
mod daemon;
#[path = "../pipeline/engine.rs"]
#[allow(dead_code, reason = "these tests use a part of it")]
mod engine;
mod kill;
mod kinds;
mod lasting;
mod order;
mod sweep;
mod workload;
