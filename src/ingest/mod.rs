//! Turns NetCDF files in staging into Zarr in the bucket.
//!
//! - [`names`]: which names are source files and which dataset each belongs to. Pure.
//! - [`source`] and [`dataset`]: the two state machines. Pure; the order of publication is in
//!   [`dataset::Step`] and nowhere else.
//! - `judge`: whether a file's bytes can be taken; local work only.
//! - `published`, `existing` and [`receipt`]: what is in the bucket, and how we know where it came
//!   from.
//! - `gathering`: the files that a dataset has accepted for its next epoch.
//! - `rereading`: whether memory allows to decode sources once.
//! - `begin`, `epoch` and `chunks`: do the steps. `intake` and `driver` feed the machines and act on
//!   them; `idle` sees to datasets that are left alone.
//! - `reading`: what those need who only read.
//!
//! Nothing here waits for the network on behalf of WRITE, FLUSH or RELEASE.

mod begin;
mod chunks;
mod compare;
pub mod dataset;
mod digest;
mod driver;
mod epoch;
mod existing;
mod gathering;
mod idle;
pub mod import;
mod import_journal;
mod intake;
mod judge;
mod members;
mod names;
mod published;
pub(crate) mod reading;
pub mod receipt;
mod receipts;
mod refusal;
mod removal;
mod rereading;
pub mod source;
mod values;

pub use driver::{Ingest, Options, Parts, SourceStatus};
pub use names::{RECEIPTS_FOLDER, Target};
pub use receipts::SourceAttributes;
pub use refusal::{Cause, Refusal};
