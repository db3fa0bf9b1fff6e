//! Metric names, progress and logging. Counts only; who shows them is decided in `cli`.

pub mod counters;
pub mod tally;
pub mod logging;
pub mod progress;
