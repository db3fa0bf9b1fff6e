//! Metric names, progress and logging. Counts only; who shows them is decided in `cli`.

pub mod counters;
pub mod logging;
pub mod progress;
pub mod tally;
