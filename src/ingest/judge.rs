//! Whether the staged bytes of a source file can become a dataset: local work only.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::digest::Digest;
use super::existing::COORDINATE_BYTES_MAX;
use super::names::is_doubtful_name;
use super::published::{Published, PublishedDataset};
use super::refusal::{Cause, Refusal};
use super::values;
use crate::base::units::ByteSize;
use crate::netcdf::{ByteSource, NetcdfError, NetcdfFile};
use crate::plan::join::{Coordinate, Member, coordinate_keys};
use crate::plan::{self, AxisKey, DatasetPlan, Encoding};
use crate::store::Location;
use crate::zarr::{DataType, NodePath};

/// What the bytes turned out to be.
#[derive(Debug, Clone)]
pub(super) enum Found {
    /// A NetCDF file that can be taken.
    Netcdf(Arc<Member>),
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
}

/// How far a byte of a file may expand: no filter does more (64 KiB from a byte, Zstandard).
const EXPANSION_MAX: u64 = 64 << 10;
/// Values of an array that need not be in the file, in bytes: a day of uploading.
const UNHELD_BYTES_MAX: u64 = 1 << 40;

/// Opens, plans, and reads the coordinates. Blocks on the disk.
pub(super) fn examine(
    source: Arc<dyn ByteSource>,
    location: &Location,
    landing: &NodePath,
    encoding: &Encoding,
) -> Result<Found, Refusal> {
    let bytes = source.len().map_err(|error| refusal(&NetcdfError::Length(error)))?;
    let file = match NetcdfFile::open(source) {
        Ok(file) => file,
        Err(NetcdfError::UnknownFormat) if is_doubtful_name(location.name()) => {
            return Ok(Found::Object);
        }
        Err(error) => return Err(refusal(&error)),
    };
    let plan = plan::plan_dataset(file.schema(), encoding)
        .map_err(|error| Refusal::new(Cause::Unsupported, error.to_string()))?;
    check_expansion(&plan, bytes)?;
    for warning in &plan.warnings {
        tracing::warn!(source = %location, "{warning}");
    }
    for left_out in &plan.left_out {
        tracing::warn!(source = %location, "left out: {left_out}");
    }
    let coordinates = coordinates(&file, &plan)?;
    let name = location.name().to_owned();
    Ok(Found::Netcdf(Arc::new(Member::new(name, landing.clone(), &plan, coordinates))))
}

/// Refuses a small file with endless values that it does not hold: what was never written has to be
/// put into the bucket wherever it is something else than the array's fill value.
fn check_expansion(plan: &DatasetPlan, file_bytes: u64) -> Result<(), Refusal> {
    let held = file_bytes.saturating_mul(EXPANSION_MAX).max(UNHELD_BYTES_MAX);
    let endless = plan.arrays.iter().find(|array| {
        array.metadata.fill_value.as_ref() != Some(&array.source_fill)
            && array.metadata.raw_bytes().is_none_or(|bytes| bytes > held)
    });
    let Some(array) = endless else { return Ok(()) };
    let message = format!(
        "variable {}: its shape {:?} has values that were never written, far more than a file of \
         {} holds, and no `_FillValue` for them",
        array.path,
        array.metadata.shape,
        ByteSize(file_bytes)
    );
    Err(Refusal::new(Cause::Unsupported, message))
}

/// The values of the one-dimensional variables that bear the name of their dimension.
fn coordinates(
    file: &NetcdfFile,
    plan: &DatasetPlan,
) -> Result<BTreeMap<NodePath, Coordinate>, Refusal> {
    let mut coordinates = BTreeMap::new();
    let mut left = COORDINATE_BYTES_MAX;
    for array in &plan.arrays {
        if array.dimension_names() != [array.path.name()] {
            continue;
        }
        let bytes = array.metadata.raw_bytes().unwrap_or(u64::MAX);
        let Some(rest) = left.checked_sub(bytes) else {
            let keys =
                Err("it has too many values to be compared with those of other files".into());
            coordinates.insert(array.path.clone(), Coordinate { raw: Arc::new([]), keys });
            continue;
        };
        left = rest;
        let coordinate = if array.metadata.data_type == DataType::String {
            let texts = values::texts(file, array).map_err(|error| refusal(&error))?;
            Coordinate {
                raw: Arc::new([]),
                keys: Ok(texts.into_iter().map(AxisKey::Text).collect()),
            }
        } else {
            let raw = values::elements(file, array).map_err(|error| refusal(&error))?;
            let keys = coordinate_keys(&array.metadata, &raw).map(Into::into);
            Coordinate { raw: raw.into(), keys: keys.map_err(|error| error.to_string()) }
        };
        coordinates.insert(array.path.clone(), coordinate);
    }
    Ok(coordinates)
}

/// A reading error as a refusal.
pub(super) fn refusal(error: &NetcdfError) -> Refusal {
    Refusal::new(Cause::Corrupt, error.to_string())
}

/// Whether a file of this name may become a dataset of its own, whatever its content.
pub(super) fn may_write(
    source: &Location,
    dataset: &Location,
    published: &Published,
) -> Result<Verdict, Refusal> {
    let never = |reason: &str| {
        Err(Refusal::new(
            Cause::Overlap,
            format!(
                "`{dataset}` exists and {reason}; it is never replaced by a copy. \
                 Remove it first, or copy the file under another name"
            ),
        ))
    };
    match published {
        Published::Absent => return Ok(Verdict::Create),
        Published::Foreign(reason)
        | Published::Dataset(PublishedDataset { others: Some(reason), .. }) => {
            return never(reason);
        }
        Published::Dataset(_) | Published::Leftover { .. } => {}
    }
    let name = source.name();
    let receipts = published.receipts();
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
    let message = format!("`{dataset}` came from {others}, not from {name} alone");
    Err(Refusal::new(Cause::Overlap, message))
}

/// Whether the content is in the bucket already, as receipts show: under this name, or under
/// another one of the same folder where coordinates say that it would add nothing. With `must_hold`
/// only if no later file took the place of its values. Blocks on the disk only where a size agrees.
pub(super) fn is_there(
    name: &str,
    any_name: bool,
    must_hold: bool,
    published: &Published,
    bytes: &dyn ByteSource,
) -> Result<bool, Refusal> {
    let Published::Dataset(PublishedDataset { receipts, .. }) = published else {
        return Ok(false);
    };
    let unreadable = |error: std::io::Error| {
        Refusal::new(Cause::Corrupt, format!("cannot read the staged bytes: {error}"))
    };
    let size = bytes.len().map_err(unreadable)?;
    let records = receipts.iter().flat_map(|(_, receipt)| &receipt.sources);
    let same_size: Vec<_> = records
        .filter(|record| record.bytes == size && !(must_hold && record.superseded))
        .filter(|record| record.name == name || any_name && folder(&record.name) == folder(name))
        .collect();
    if same_size.is_empty() {
        return Ok(false);
    }
    let digest = Digest::of_source(bytes).map_err(unreadable)?;
    Ok(same_size.iter().any(|record| record.digest == digest))
}

/// The group that a file of this recorded name went into.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}
