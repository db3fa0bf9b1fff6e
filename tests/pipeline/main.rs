//! From staged files to objects in a store, without a kernel.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod bottleneck;
mod crash;
mod engine;
mod publication;
#[path = "../support/mod.rs"]
mod support;
