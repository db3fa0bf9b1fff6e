//! Units, clock, durable file operations, permits and tasks: what every other module stands on.

pub mod clock;
pub mod durable;
pub mod permits;
pub mod processors;
pub mod tasks;
pub mod units;
