//! Whether the staged bytes of a source file can become a dataset: local work only.

use std::fmt;
use std::sync::Arc;

use super::digest::Digest;
use super::names::{Target, is_doubtful_name};
use super::published::Published;
use super::refusal::{Cause, Refusal};
use crate::netcdf::{ByteSource, NetcdfError, NetcdfFile};
use crate::plan::{self, DatasetPlan, Encoding};
use crate::store::Location;

/// A source file that was found good, with the plan of its dataset.
pub(super) struct Judged {
    /// The file, opened.
    pub(super) file: NetcdfFile,
    /// What it becomes.
    pub(super) plan: DatasetPlan,
    /// How it is laid out; recorded in the journal and in the receipt.
    pub(super) encoding: Encoding,
}

impl fmt::Debug for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judged").field("encoding", &self.encoding).finish_non_exhaustive()
    }
}

/// What the bytes turned out to be.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// A NetCDF file that can be taken.
    Netcdf(Arc<Judged>),
    /// Another format under an ending that others use too: stored as it is.
    Object,
}

/// What is to be done with a good file, given what is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Write a new dataset.
    Create,
    /// Replace what came from an earlier version of this file, or what is left of one.
    Replace,
    /// It is in the bucket already, value for value.
    Same,
}

/// Opens and plans. Blocks on the disk.
pub(super) fn examine(
    source: Arc<dyn ByteSource>,
    location: &Location,
    encoding: &Encoding,
) -> Result<Found, Refusal> {
    let file = match NetcdfFile::open(source) {
        Ok(file) => file,
        Err(NetcdfError::UnknownFormat) if is_doubtful_name(location.name()) => {
            return Ok(Found::Object);
        }
        Err(error) => return Err(refusal(&error)),
    };
    let plan = plan::plan_dataset(file.schema(), encoding)
        .map_err(|error| Refusal::new(Cause::Unsupported, error.to_string()))?;
    for warning in &plan.warnings {
        tracing::warn!(source = %location, "{warning}");
    }
    for left_out in &plan.left_out {
        tracing::warn!(source = %location, "left out: {left_out}");
    }
    Ok(Found::Netcdf(Arc::new(Judged { file, plan, encoding: encoding.clone() })))
}

/// A reading error as a refusal.
fn refusal(error: &NetcdfError) -> Refusal {
    Refusal::new(Cause::Corrupt, error.to_string())
}

/// Whether a file of this name may become its dataset at all, whatever its content.
pub(super) fn may_write(
    source: &Location,
    target: &Target,
    published: &Published,
) -> Result<Verdict, Refusal> {
    let dataset = target.dataset();
    match published {
        Published::Absent => Ok(Verdict::Create),
        Published::Foreign(reason) => Err(Refusal::new(
            Cause::Overlap,
            format!(
                "`{dataset}` exists and {reason}; it is never replaced by a copy. \
                 Remove it first, or copy the file under another name"
            ),
        )),
        Published::Receipted { receipts } | Published::Leftover { receipts } => {
            let name = source.name();
            if receipts.iter().all(|(_, receipt)| receipt.is_wholly_from(name)) {
                return Ok(Verdict::Replace);
            }
            let others: Vec<&str> = receipts
                .iter()
                .flat_map(|(_, receipt)| &receipt.sources)
                .map(|record| record.name.as_str())
                .filter(|other| *other != name)
                .take(3)
                .collect();
            let others = others.join(", ");
            Err(match target {
                Target::OwnDataset(_) => Refusal::new(
                    Cause::Overlap,
                    format!("`{dataset}` came from {others}, not from {name} alone"),
                ),
                Target::Joins(_) => Refusal::new(
                    Cause::Unsupported,
                    format!(
                        "`{dataset}` holds {others} already, and joining several files \
                         into one dataset is not supported yet"
                    ),
                ),
            })
        }
    }
}

/// The same with the content: a copy of what is published already needs nothing sent. Blocks on
/// the disk only where the size agrees.
pub(super) fn verdict(
    source: &Location,
    target: &Target,
    published: &Published,
    bytes: &dyn ByteSource,
) -> Result<Verdict, Refusal> {
    let verdict = may_write(source, target, published)?;
    let Published::Receipted { receipts } = published else { return Ok(verdict) };
    let unreadable = |error: std::io::Error| {
        Refusal::new(Cause::Corrupt, format!("cannot read the staged bytes: {error}"))
    };
    let size = bytes.len().map_err(unreadable)?;
    let records = receipts.iter().filter_map(|(_, receipt)| receipt.source(source.name()));
    let same_size: Vec<_> = records.filter(|record| record.bytes == size).collect();
    if same_size.is_empty() {
        return Ok(verdict);
    }
    let digest = Digest::of_source(bytes).map_err(unreadable)?;
    if same_size.iter().any(|record| record.digest == digest) {
        Ok(Verdict::Same)
    } else {
        Ok(verdict)
    }
}
