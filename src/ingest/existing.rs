//! Reads of a published dataset what has to be known to add to it: its metadata, and the values of
//! its coordinates.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::compare::Values;
use super::published::PublishedDataset;
use super::receipt::Receipt;
use super::refusal::{Cause, Refusal};
use crate::plan::AxisKey;
use crate::plan::join::{Coordinate, Existing, coordinate_keys};
use crate::store::{Link, Location, StoreError};
use crate::zarr::region::for_each_index;
use crate::zarr::{
    ArrayMetadata, ArrayReader, DataType, DocumentRank, GroupMetadata, Hierarchy, Members, Node,
    NodePath, ZarrFormat, parse_zarr_json, parse_zarray, parse_zgroup, parse_zmetadata,
};

/// Values of all coordinates of a dataset that are kept in memory, in bytes.
pub(super) const COORDINATE_BYTES_MAX: u64 = 64 << 20;
/// Objects asked for side by side.
const REQUESTS: usize = 32;

/// Why a dataset cannot be added to.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExistingError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What it holds.
    #[error("{0}")]
    Unsupported(String),
}

impl From<ExistingError> for Refusal {
    fn from(error: ExistingError) -> Self {
        match error {
            ExistingError::Store(error) => super::driver::refusal_of_store(&error),
            ExistingError::Unsupported(reason) => Self::new(Cause::Unsupported, reason),
        }
    }
}

/// Reads what has to be known of a published dataset.
pub(super) async fn load(
    link: &Link,
    dataset: &Location,
    published: &PublishedDataset,
) -> Result<Existing, ExistingError> {
    let (hierarchy, consolidated) = hierarchy(link, dataset, published).await?;
    let coordinates = coordinates(link, dataset, &hierarchy).await?;
    let axes = published.receipts.iter().flat_map(|(_, receipt)| axes(receipt)).collect();
    Ok(Existing { hierarchy, consolidated, coordinates, axes })
}

fn axes(receipt: &Receipt) -> impl Iterator<Item = (NodePath, String)> + '_ {
    receipt
        .axes
        .iter()
        .filter_map(|(group, axis)| NodePath::parse(group).ok().map(|group| (group, axis.clone())))
}

async fn hierarchy(
    link: &Link,
    dataset: &Location,
    published: &PublishedDataset,
) -> Result<(Hierarchy, bool), ExistingError> {
    let root = &published.root;
    let unsupported = |reason: String| {
        ExistingError::Unsupported(format!("`{dataset}` cannot be added to: {reason}"))
    };
    match DocumentRank::of(root.at.name()) {
        Some(DocumentRank::Node) => {
            let document =
                parse_zarr_json(&root.bytes).map_err(|error| unsupported(error.to_string()))?;
            let Node::Group(group) = document.node else {
                return Err(unsupported("it is an array".into()));
            };
            let mut hierarchy = Hierarchy::new(ZarrFormat::V3, group);
            let consolidated = document.members.is_some();
            let members = match document.members {
                Some(members) => members,
                None => listed(link, dataset, ZarrFormat::V3).await?,
            };
            add(&mut hierarchy, members, unsupported)?;
            Ok((hierarchy, consolidated))
        }
        Some(rank) => {
            let consolidated = rank == DocumentRank::Consolidated;
            let members = if consolidated {
                parse_zmetadata(&root.bytes).map_err(|error| unsupported(error.to_string()))?
            } else {
                listed(link, dataset, ZarrFormat::V2).await?
            };
            let mut hierarchy = Hierarchy::new(ZarrFormat::V2, GroupMetadata::default());
            add(&mut hierarchy, members, unsupported)?;
            Ok((hierarchy, consolidated))
        }
        None => Err(unsupported("it has no root document".into())),
    }
}

fn add(
    hierarchy: &mut Hierarchy,
    members: Members,
    unsupported: impl Fn(String) -> ExistingError,
) -> Result<(), ExistingError> {
    for (path, node) in members {
        // Its metadata is written again with that of the others: it must survive.
        let node = node.map_err(|error| unsupported(format!("{path}: {error}")))?;
        hierarchy.insert(path, node);
    }
    Ok(())
}

/// The nodes below the root, document by document.
async fn listed(
    link: &Link,
    dataset: &Location,
    format: ZarrFormat,
) -> Result<Members, ExistingError> {
    let mut documents: BTreeMap<String, Bytes> = BTreeMap::new();
    let mut after = None;
    loop {
        let page = link.list_below(dataset, after).await?;
        let mut wanted: Vec<Location> =
            page.objects.into_iter().map(|object| object.location).collect();
        wanted.retain(|at| DocumentRank::of(at.name()).is_some());
        let fetched: Vec<(String, Option<Bytes>)> = stream::iter(wanted)
            .map(|at| async move {
                let key = at.relative_to(dataset).map(|key| key.as_str().to_owned());
                let key = key.unwrap_or_default();
                get(link, &at).await.map(|bytes| (key, bytes))
            })
            .buffer_unordered(REQUESTS)
            .try_collect()
            .await?;
        documents.extend(fetched.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut members = Members::new();
    for (key, bytes) in &documents {
        let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
        let Ok(path) = NodePath::parse(folder) else { continue };
        let attributes = documents.get(&path.key(".zattrs")).map(|bytes| &bytes[..]);
        let node = match (format, name) {
            (ZarrFormat::V3, "zarr.json") if !path.is_root() => {
                parse_zarr_json(bytes).map(|document| document.node)
            }
            (ZarrFormat::V2, ".zarray") => parse_zarray(bytes, attributes),
            (ZarrFormat::V2, ".zgroup") => parse_zgroup(bytes, attributes),
            _ => continue,
        };
        members.insert(path, node);
    }
    Ok(members)
}

async fn coordinates(
    link: &Link,
    dataset: &Location,
    hierarchy: &Hierarchy,
) -> Result<BTreeMap<NodePath, Coordinate>, ExistingError> {
    let mut coordinates = BTreeMap::new();
    let mut left = COORDINATE_BYTES_MAX;
    for (path, node) in hierarchy.nodes() {
        let Node::Array(array) = node else { continue };
        let names = array.dimension_names.as_deref().unwrap_or_default();
        if !matches!(names, [Some(name)] if name == path.name()) {
            continue;
        }
        let bytes = array.raw_bytes().unwrap_or(u64::MAX);
        let Some(rest) = left.checked_sub(bytes) else {
            let reason = format!("its coordinate {path} has too many values to be compared");
            return Err(ExistingError::Unsupported(format!("`{dataset}`: {reason}")));
        };
        left = rest;
        coordinates.insert(path.clone(), coordinate(link, dataset, path, array).await?);
    }
    Ok(coordinates)
}

async fn coordinate(
    link: &Link,
    dataset: &Location,
    path: &NodePath,
    array: &ArrayMetadata,
) -> Result<Coordinate, ExistingError> {
    let unreadable =
        |error: String| ExistingError::Unsupported(format!("`{dataset}`: {path}: {error}"));
    let raw = match values(link, dataset, path, array, None).await? {
        Values::Texts(texts) => {
            let keys = Ok(texts.into_iter().map(AxisKey::Text).collect());
            return Ok(Coordinate { raw: Arc::new([]), keys });
        }
        Values::Elements(raw) => raw,
    };
    let keys = coordinate_keys(array, &raw).map(Into::into).map_err(|error| error.to_string());
    if raw.len() as u64 != array.raw_bytes().unwrap_or(0) {
        return Err(unreadable("its chunks have another size than its metadata says".into()));
    }
    Ok(Coordinate { raw: raw.into(), keys })
}

/// The values of a box of a published array.
pub(super) async fn region(
    link: &Link,
    dataset: &Location,
    path: &NodePath,
    array: &ArrayMetadata,
    start: &[u64],
    extent: &[u64],
) -> Result<Values, ExistingError> {
    let unreadable =
        |error: String| ExistingError::Unsupported(format!("`{dataset}`: {path}: {error}"));
    let reader = ArrayReader::new(path.clone(), array.clone())
        .map_err(|error| unreadable(error.to_string()))?;
    let objects = objects(link, dataset, path, array, start, extent).await?;
    let get = |key: &str| Ok::<_, std::convert::Infallible>(objects.get(key).cloned());
    let values = if array.data_type == DataType::String {
        reader.texts_in(start, extent, get).map(Values::Texts)
    } else {
        reader.region(start, extent, get).map(Values::Elements)
    };
    values.map_err(|error| unreadable(error.to_string()))
}

/// The values at one step along a dimension of a published array, or all of them.
pub(super) async fn values(
    link: &Link,
    dataset: &Location,
    path: &NodePath,
    array: &ArrayMetadata,
    at: Option<(usize, u64)>,
) -> Result<Values, ExistingError> {
    let mut start = vec![0; array.shape.len()];
    let mut extent = array.shape.clone();
    if let Some((axis, step)) = at
        && let (Some(start), Some(extent)) = (start.get_mut(axis), extent.get_mut(axis))
    {
        (*start, *extent) = (step, 1);
    }
    region(link, dataset, path, array, &start, &extent).await
}

/// The objects of the chunks that a box meets, by key.
async fn objects(
    link: &Link,
    dataset: &Location,
    path: &NodePath,
    array: &ArrayMetadata,
    start: &[u64],
    extent: &[u64],
) -> Result<HashMap<String, Bytes>, ExistingError> {
    let chunks: Vec<_> = (0..array.shape.len())
        .map(|d| {
            let chunk = array.chunk_shape[d];
            start[d] / chunk..(start[d] + extent[d]).div_ceil(chunk)
        })
        .collect();
    let mut keys = Vec::new();
    for_each_index(&chunks, |index| keys.push(path.key(&array.chunk_key(index))));
    let fetched: Vec<(String, Option<Bytes>)> = stream::iter(keys)
        .map(|key| async move {
            let at = Location::parse(&key)
                .map_err(|error| ExistingError::Unsupported(error.to_string()))?;
            get(link, &dataset.join(&at)).await.map(|bytes| (key, bytes))
        })
        .buffer_unordered(REQUESTS)
        .try_collect()
        .await?;
    Ok(fetched.into_iter().filter_map(|(key, bytes)| Some((key, bytes?))).collect())
}

async fn get(link: &Link, at: &Location) -> Result<Option<Bytes>, ExistingError> {
    match link.get(at, None).await {
        Ok(fetched) => Ok(Some(fetched.bytes)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
