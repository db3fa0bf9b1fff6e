//! What those need who read files and datasets and change nothing.

use std::ops::Range;
use std::sync::Arc;

use super::receipt::Receipt;
use super::refusal::Refusal;
use super::{judge, published, values};
use crate::netcdf::{ByteSource, ChunkLocation, NetcdfError, NetcdfFile};
use crate::plan::join::Member;
use crate::plan::{ArrayPlan, Encoding};
use crate::store::{Link, Location, StoreError};
use crate::zarr::NodePath;

/// Reads the metadata and the coordinates of a file as for a dataset that it is copied into, or says
/// why it cannot be; `None` if it is of another format. Blocks on the disk.
pub(crate) fn examine(
    source: Arc<dyn ByteSource>,
    location: &Location,
    landing: &NodePath,
    encoding: &Encoding,
) -> Result<Option<Arc<Member>>, Refusal> {
    Ok(match judge::examine(source, location, landing, encoding)? {
        judge::Found::Netcdf(member) => Some(member),
        judge::Found::Object => None,
    })
}

/// The receipts of a dataset, the oldest first. Those that are void are among them.
pub(crate) async fn receipts(link: &Link, dataset: &Location) -> Result<Vec<Receipt>, StoreError> {
    let mut receipts: Vec<Receipt> =
        published::receipts(link, dataset).await?.into_iter().map(|(_, receipt)| receipt).collect();
    receipts.sort_by(|one, other| one.epoch.cmp(&other.epoch));
    Ok(receipts)
}

/// The elements of a box of a variable in C order, little-endian. Not for strings.
pub(crate) fn elements_in(
    file: &NetcdfFile,
    array: &ArrayPlan,
    locations: &[ChunkLocation],
    window: &[Range<u64>],
) -> Result<Vec<u8>, NetcdfError> {
    values::elements_in(file, array, locations.iter().cloned().map(Ok), window)
}

/// The texts of a box of a string variable in C order.
pub(crate) fn texts_in(
    file: &NetcdfFile,
    array: &ArrayPlan,
    locations: &[ChunkLocation],
    window: &[Range<u64>],
) -> Result<Vec<String>, NetcdfError> {
    values::texts_in(file, array, locations.iter().cloned().map(Ok), window)
}
