//! Object stores: locations, conditional puts, one connection pool, counters. Home of `object_store`.

mod location;

pub use location::{Location, LocationError};
