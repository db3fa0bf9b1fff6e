//! Whether the chunk objects are those that the grids ask for, and whether each decodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};

use super::nodes::Content;
use super::report::Report;
use super::{CheckError, Parts, Wanted};
use crate::base::tasks;
use crate::store::{Location, StoreError};
use crate::telemetry::progress::{Progress, Stage, Transfer};
use crate::zarr::{ArrayMetadata, CodecChain, DataType, NodePath};

/// Chunks fetched and decoded side by side, at most; memory bounds them further.
const IN_FLIGHT: usize = 64;

/// A chunk object to be decoded.
struct Stored {
    key: String,
    bytes: u64,
    chain: Arc<CodecChain>,
    data_type: DataType,
}

/// Looks at every object of the dataset, and decodes those that are chunks.
pub(super) async fn check(
    parts: &Parts,
    wanted: &Wanted,
    content: &Content,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), CheckError> {
    let mut objects = content.objects.clone();
    let mut stored = Vec::new();
    for (path, array) in content.arrays() {
        match CodecChain::new(array) {
            Ok(chain) => {
                claim(path, array, &Arc::new(chain), &mut objects, &mut stored, report);
            }
            Err(error) => report.problem(format!("`{path}`: {error}")),
        }
    }
    for key in objects.keys() {
        match content.arrays().find(|(path, _)| is_below(key, path)) {
            Some((path, _)) => report.problem(format!(
                "`{key}` is no chunk of `{path}`: it lies beyond its shape or has another name"
            )),
            None => report.note(format!("`{key}` is not part of the hierarchy")),
        }
    }
    report.chunk_objects = stored.len() as u64;
    report.chunk_bytes = stored.iter().map(|chunk| chunk.bytes).sum();
    if wanted.chunks {
        decode(parts, &wanted.dataset, stored, progress, report).await?;
    }
    Ok(())
}

fn is_below(key: &str, path: &NodePath) -> bool {
    path.is_root() || key.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'))
}

/// Takes the objects of one array out of those that nobody has claimed yet.
fn claim(
    path: &NodePath,
    array: &ArrayMetadata,
    chain: &Arc<CodecChain>,
    objects: &mut BTreeMap<String, u64>,
    stored: &mut Vec<Stored>,
    report: &mut Report,
) {
    let prefix = path.key("");
    let keys: Vec<String> = objects
        .range(prefix.clone()..)
        .map(|(key, _)| key)
        .take_while(|key| key.starts_with(&prefix))
        .filter(|key| {
            let key = key.strip_prefix(&prefix).unwrap_or(key);
            array.chunk_key_encoding.index(key, array.shape.len()).is_some_and(|index| {
                index.iter().zip(array.grid_shape()).all(|(at, length)| *at < length)
            })
        })
        .cloned()
        .collect();
    let expected = array.chunk_count().unwrap_or(u64::MAX);
    let missing = expected.saturating_sub(keys.len() as u64);
    if missing > 0 && array.fill_value.is_none() {
        report.problem(format!(
            "`{path}`: {missing} of {expected} chunks are missing, and it has no fill value to stand \
             for them"
        ));
    }
    report.omitted = report.omitted.saturating_add(missing);
    for key in keys {
        if let Some(bytes) = objects.remove(&key) {
            let chain = Arc::clone(chain);
            stored.push(Stored { key, bytes, chain, data_type: array.data_type });
        }
    }
}

async fn decode(
    parts: &Parts,
    dataset: &Location,
    stored: Vec<Stored>,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), CheckError> {
    let mut transfer = Transfer {
        stage: Stage::Checking,
        bytes_total: report.chunk_bytes,
        objects_total: report.chunk_objects,
        ..Transfer::default()
    };
    let mut decoding = stream::iter(stored)
        .map(|chunk| async move {
            let outcome = decode_one(parts, dataset, &chunk).await;
            (chunk, outcome)
        })
        .buffer_unordered(IN_FLIGHT);
    while let Some((chunk, outcome)) = decoding.next().await {
        match outcome? {
            None => report.decoded += 1,
            Some(reason) => report.problem(format!("chunk `{}`: {reason}", chunk.key)),
        }
        transfer.bytes_done += chunk.bytes;
        transfer.objects_done += 1;
        progress.report(transfer);
    }
    Ok(())
}

/// Why a chunk cannot be read, if it cannot.
async fn decode_one(
    parts: &Parts,
    dataset: &Location,
    chunk: &Stored,
) -> Result<Option<String>, StoreError> {
    let _paid = parts.budget.acquire(chunk.bytes.saturating_add(chunk.chain.chunk_bytes())).await;
    let Some(bytes) = get(parts, dataset, &chunk.key).await? else {
        return Ok(Some("it was removed meanwhile".to_owned()));
    };
    let _permit = parts.cpu.acquire().await;
    let (chain, data_type) = (Arc::clone(&chunk.chain), chunk.data_type);
    let decoded = tasks::blocking("check of a chunk", move || {
        let outcome = if data_type == DataType::String {
            chain.decode_texts(&bytes).map(drop)
        } else {
            chain.decode(&bytes).map(drop)
        };
        outcome.err().map(|error| error.to_string())
    });
    Ok(decoded.await.unwrap_or_else(|| Some("decoding it met a defect; please report it".into())))
}

/// An object of the dataset; `None` if it is not there.
pub(super) async fn get(
    parts: &Parts,
    dataset: &Location,
    key: &str,
) -> Result<Option<Bytes>, StoreError> {
    let Ok(below) = Location::parse(key) else { return Ok(None) };
    match parts.link.get(&dataset.join(&below), None).await {
        Ok(fetched) => Ok(Some(fetched.bytes)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
