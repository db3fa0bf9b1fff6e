//! Metric names, progress, where the time goes, and logging. Who shows them is decided in `cli`.

pub mod activities;
pub mod counters;
pub mod logging;
pub mod progress;
pub mod tally;
