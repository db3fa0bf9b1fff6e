//! The files that a dataset is compared with: their metadata, and what receipts say of them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::stream::{self, StreamExt as _};

use super::Wanted;
use super::attributes::Comparison;
use super::nodes::Content;
use super::report::Report;
use crate::base::tasks;
use crate::ingest::reading;
use crate::ingest::receipt::Receipt;
use crate::netcdf::LocalFile;
use crate::plan::Encoding;
use crate::plan::join::Member;
use crate::store::Location;
use crate::zarr::{ArrayMetadata, NodePath, ZarrFormat};

/// Files whose metadata is read side by side.
const HEADERS_IN_FLIGHT: usize = 16;

/// A source file whose metadata has been read.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) member: Member,
    /// The dimension that it was joined along.
    pub(super) axis: Option<String>,
}

/// Reads the metadata of all files. Those that cannot be taken go into the report.
pub(super) async fn headers(
    wanted: &Wanted,
    content: &Content,
    report: &mut Report,
    receipts: &[Receipt],
    attributes: &mut Comparison,
) -> Vec<Source> {
    let mut encoding = wanted.encoding.clone();
    encoding.format = if report.format == 2 { ZarrFormat::V2 } else { ZarrFormat::V3 };
    let reading = stream::iter(&wanted.sources).map(|path| {
        let (landing, axis) = landing(path, receipts);
        header(path.clone(), landing, axis, wanted.dataset.clone(), encoding.clone())
    });
    let mut reading = reading.buffered(HEADERS_IN_FLIGHT);
    let mut sources: Vec<Source> = Vec::new();
    while let Some(found) = reading.next().await {
        match found {
            Ok(mut source) => {
                attributes.add(&source.path.display().to_string(), &source.member, content);
                // There may be very many. Attributes that do not count for values are shared, too.
                if let Some(before) = sources.last() {
                    source.member.share_with(&before.member);
                }
                sources.push(source);
            }
            Err(problem) => report.problem(problem),
        }
    }
    sources
}

async fn header(
    path: PathBuf,
    landing: NodePath,
    axis: Option<String>,
    dataset: Location,
    encoding: Encoding,
) -> Result<Source, String> {
    let shown = path.display().to_string();
    let examined = tasks::blocking("header", move || {
        let bytes = path.metadata().map_err(|error| error.to_string())?.len();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("not UTF-8")?;
        let at = dataset.child(name).map_err(|error| error.to_string())?;
        let source = Arc::new(LocalFile(path.clone()));
        let found = reading::examine(source, &at, &landing, &encoding);
        match found.map_err(|refusal| refusal.to_string())? {
            Some(member) => Ok(Source { path, bytes, member: Arc::unwrap_or_clone(member), axis }),
            None => Err("not a NetCDF file".to_owned()),
        }
    });
    match examined.await {
        Some(outcome) => outcome.map_err(|reason| format!("{shown}: {reason}")),
        None => Err(format!("{shown}: reading it met a defect; please report it")),
    }
}

/// The group that a file went into, and the dimension that it was joined along there, as far as
/// receipts tell.
fn landing(path: &Path, receipts: &[Receipt]) -> (NodePath, Option<String>) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let records = receipts.iter().flat_map(|receipt| &receipt.sources);
    let mut records = records.filter(|r| r.name.rsplit('/').next() == Some(name));
    let folder = records
        .next()
        .and_then(|record| record.name.rsplit_once('/'))
        .and_then(|(folder, _)| NodePath::parse(folder).ok())
        .unwrap_or_default();
    let mut axes = receipts.iter().filter_map(|receipt| receipt.axes.get(folder.as_str()));
    let axis = axes.next_back().cloned();
    (folder, axis)
}

/// Where files without coordinate values begin along the dimension that they were joined along: they
/// follow each other as receipts list them. Known only if the files are all that there are.
pub(super) fn firsts(
    sources: &[Source],
    receipts: &[Receipt],
    content: &Content,
) -> HashMap<(PathBuf, NodePath), u64> {
    let mut firsts = HashMap::new();
    let Some(receipt) = receipts.last() else { return firsts };
    let mut lengths: BTreeMap<&NodePath, u64> = BTreeMap::new();
    let mut found: Vec<((PathBuf, NodePath), &NodePath, u64)> = Vec::new();
    for record in &receipt.sources {
        let name = record.name.rsplit('/').next().unwrap_or_default();
        let same = |source: &&Source| {
            source.path.file_name().is_some_and(|file| file.to_str() == Some(name))
                && source.bytes == record.bytes
        };
        let Some(source) = sources.iter().find(same) else { continue };
        for array in &source.member.arrays {
            let axis =
                array.dimension_names().iter().position(|n| Some(*n) == source.axis.as_deref());
            let Some(length) = axis.and_then(|axis| array.metadata.shape.get(axis)) else {
                continue;
            };
            let first = lengths.entry(&array.path).or_default();
            found.push(((source.path.clone(), array.path.clone()), &array.path, *first));
            *first += length;
        }
    }
    for (key, path, first) in found {
        let along = |array: &ArrayMetadata| array.shape.first() == lengths.get(path);
        if content.array(path).is_some_and(along) {
            firsts.insert(key, first);
        }
    }
    firsts
}
