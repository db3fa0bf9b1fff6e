//! Turns NetCDF files in staging into Zarr in the bucket.
//!
//! - [`names`]: which names are source files and which dataset each belongs to. Pure.
//! - [`source`] and [`dataset`]: the two state machines. Pure; the order of publication is in
//!   [`dataset::Step`] and nowhere else.
//! - `judge`: whether a file's bytes can be taken; local work only.
//! - `published` and [`receipt`]: what is in the bucket, and how we know where it came from.
//! - `epoch` and `chunks`: do the steps. `intake` and `driver` feed the machines and act on them.
//!
//! Nothing here waits for the network on behalf of WRITE, FLUSH or RELEASE.

mod chunks;
pub mod dataset;
mod digest;
mod driver;
mod epoch;
mod intake;
mod judge;
mod names;
mod published;
pub mod receipt;
mod receipts;
mod refusal;
pub mod source;

pub use driver::{Ingest, Options, Parts, SourceStatus};
pub use names::{RECEIPTS_FOLDER, Target};
pub use receipts::SourceAttributes;
pub use refusal::{Cause, Refusal};
