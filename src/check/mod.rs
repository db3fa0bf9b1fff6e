//! Reads a published dataset back: is it well-formed, does every chunk decode, and does it hold all
//! that its sources hold?
//!
//! - `nodes`: every metadata document, and whether the consolidated metadata says the same.
//! - `chunks`: which objects the grids ask for, and whether each decodes.
//! - `sources`, `positions`, `block` and `values`: where the values of NetCDF files stand, and whether
//!   they are equal.
//! - `attributes`: whether the attributes of the files are there.
//!
//! Nothing is written, to the bucket or to disk. Memory is paid for from one budget; everything that is
//! wrong is collected, so that one run tells all.

mod attributes;
mod block;
mod chunks;
mod nodes;
mod outcome;
mod positions;
mod report;
mod sources;
mod values;

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;

use self::nodes::Content;
pub use self::report::Report;
use crate::base::permits::Budget;
use crate::plan::Encoding;
use crate::store::{Link, Location, StoreError};
use crate::telemetry::progress::Progress;

/// What a check works with.
#[derive(Debug, Clone)]
pub struct Parts {
    /// The way to the bucket.
    pub link: Link,
    /// Memory for chunks.
    pub budget: Budget,
    /// Threads that decode and compare.
    pub cpu: Arc<Semaphore>,
}

/// What is to be checked.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The dataset.
    pub dataset: Location,
    /// Whether every chunk is fetched and decoded.
    pub chunks: bool,
    /// Source files whose values and attributes must all be in it.
    pub sources: Vec<PathBuf>,
    /// How files are read: whether what cannot be stored may be left out.
    pub encoding: Encoding,
}

/// Why a check could not be made; what it finds is no error but in its [`Report`].
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is nothing at that place.
    #[error("there is no Zarr dataset at `{0}`")]
    Absent(Location),
}

/// Checks a dataset and says what is wrong with it.
pub async fn check(
    parts: &Parts,
    wanted: &Wanted,
    progress: &dyn Progress,
) -> Result<Report, CheckError> {
    let mut report = Report::default();
    let content = Content::read(&parts.link, &wanted.dataset, &mut report).await?;
    chunks::check(parts, wanted, &content, progress, &mut report).await?;
    if !wanted.sources.is_empty() {
        values::check(parts, wanted, &content, progress, &mut report).await?;
    }
    Ok(report)
}
