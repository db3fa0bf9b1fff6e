//! Whether the dataset holds every value of its source files.
//!
//! The values of a file are found by its coordinates, converted to the encoding that the dataset has,
//! and compared bit by bit. Target chunks are taken in blocks that are as long as a source chunk in each
//! dimension, so that with nested grids each source chunk is decoded once.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use parking_lot::Mutex;

use super::attributes::Comparison;
use super::block::{self, Block};
use super::nodes::Content;
use super::outcome::Outcome;
use super::positions::{self, Positions, Unplaced};
use super::report::Report;
use super::sources::{Source, firsts, headers};
use super::{CheckError, Parts, Wanted, chunks};
use crate::base::tasks;
use crate::ingest::reading;
use crate::netcdf::{ChunkLocation, LocalFile, NetcdfFile};
use crate::plan::join::{conversion_between, coordinate_keys, describe_key};
use crate::plan::{ArrayPlan, AxisKey};
use crate::store::{Location, StoreError};
use crate::telemetry::progress::{Progress, Stage, Transfer};
use crate::zarr::{ArrayMetadata, ArrayReader, CodecChain, DataType, NodePath, ReadError};

/// Files, variables of a file and blocks of a variable that are compared side by side; memory and
/// processors bound them further.
const FILES_IN_FLIGHT: usize = 4;
const VARIABLES_IN_FLIGHT: usize = 4;
const BLOCKS_IN_FLIGHT: usize = 8;
/// Chunks of one block that are fetched side by side.
const CHUNKS_IN_FLIGHT: u64 = 4;
/// Largest object, in bytes, that is kept because many files are compared with it, and how much of
/// these there is at most.
const KEPT_OBJECT_BYTES_MAX: u64 = 1 << 20;
const KEPT_BYTES_MAX: u64 = 64 << 20;

/// Compares all files.
pub(super) async fn check(
    parts: &Parts,
    wanted: &Wanted,
    content: &Content,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), CheckError> {
    let receipts = reading::receipts(&parts.link, &wanted.dataset).await?;
    let coordinates = coordinates(parts, wanted, content, report).await?;
    let mut attributes = Comparison::default();
    let sources = headers(wanted, content, report, &receipts, &mut attributes).await;
    let firsts = firsts(&sources, &receipts, content);
    let dataset = Dataset { parts, wanted, content, coordinates, firsts, kept: Mutex::default() };

    let mut transfer = Transfer {
        stage: Stage::Comparing,
        objects_total: sources.len() as u64,
        bytes_total: sources.iter().map(|source| source.bytes).sum(),
        ..Transfer::default()
    };
    let compared = stream::iter(&sources).map(|source| dataset.compare_file(source));
    let mut compared = compared.buffered(FILES_IN_FLIGHT);
    for source in &sources {
        let Some(found) = compared.next().await else { break };
        for (path, found) in found? {
            found.tell(&source.path.display().to_string(), &path, report);
        }
        report.sources += 1;
        transfer.objects_done += 1;
        transfer.bytes_done += source.bytes;
        progress.report(transfer);
    }
    attributes.finish(content, report);
    Ok(())
}

/// The values of the coordinates of the dataset, as they compare.
async fn coordinates(
    parts: &Parts,
    wanted: &Wanted,
    content: &Content,
    report: &mut Report,
) -> Result<BTreeMap<NodePath, Vec<AxisKey>>, CheckError> {
    let mut coordinates = BTreeMap::new();
    for (path, array) in content.arrays() {
        let names = array.dimension_names.as_deref().unwrap_or_default();
        if !matches!(names, [Some(name)] if name == path.name()) {
            continue;
        }
        match coordinate(parts, &wanted.dataset, path, array).await? {
            Ok(keys) => {
                coordinates.insert(path.clone(), keys);
            }
            Err(reason) => report.note(format!("coordinate `{path}` places nothing: {reason}")),
        }
    }
    Ok(coordinates)
}

async fn coordinate(
    parts: &Parts,
    dataset: &Location,
    path: &NodePath,
    array: &ArrayMetadata,
) -> Result<Result<Vec<AxisKey>, String>, CheckError> {
    let mut objects = HashMap::new();
    for index in 0..array.chunk_count().unwrap_or(0) {
        let key = path.key(&array.chunk_key(&[index]));
        if let Some(bytes) = chunks::get(parts, dataset, &key).await? {
            objects.insert(key, bytes);
        }
    }
    let get = |key: &str| Ok::<_, std::convert::Infallible>(objects.get(key).cloned());
    Ok(keys(path, array, get))
}

fn keys<E: std::fmt::Display>(
    path: &NodePath,
    array: &ArrayMetadata,
    get: impl Fn(&str) -> Result<Option<Bytes>, E>,
) -> Result<Vec<AxisKey>, String> {
    let words = |error: ReadError<E>| error.to_string();
    let reader =
        ArrayReader::new(path.clone(), array.clone()).map_err(|error| error.to_string())?;
    if array.data_type == DataType::String {
        let mut keys = Vec::new();
        for index in 0..array.chunk_count().unwrap_or(0) {
            let texts = reader.texts(&[index], &get).map_err(words)?;
            keys.extend(texts.into_iter().map(AxisKey::Text));
        }
        let length = array.shape.first().copied().unwrap_or(0);
        keys.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        return Ok(keys);
    }
    let raw = reader.whole(get).map_err(words)?;
    coordinate_keys(array, &raw).map_err(|error| error.to_string())
}

/// What files are compared with.
struct Dataset<'a> {
    parts: &'a Parts,
    wanted: &'a Wanted,
    content: &'a Content,
    coordinates: BTreeMap<NodePath, Vec<AxisKey>>,
    firsts: HashMap<(PathBuf, NodePath), u64>,
    /// Small objects that many files are compared with.
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    objects: HashMap<String, Option<Bytes>>,
    bytes: u64,
}

/// One variable of a file beside its array.
struct Pair<'a> {
    file: NetcdfFile,
    plan: &'a Arc<ArrayPlan>,
    array: &'a ArrayMetadata,
    chain: Arc<CodecChain>,
    conversion: Arc<crate::plan::Conversion>,
    locations: Arc<Vec<ChunkLocation>>,
    positions: Arc<Vec<Positions>>,
    /// Whether floats may differ by the tolerance of variables that must be the same in all files.
    tolerant: bool,
}

impl Dataset<'_> {
    /// Compares all variables of a file.
    async fn compare_file(&self, source: &Source) -> Result<Vec<(NodePath, Outcome)>, StoreError> {
        let path = source.path.clone();
        let opened = tasks::blocking("header", move || NetcdfFile::open(Arc::new(LocalFile(path))));
        let file = match opened.await {
            Some(Ok(file)) => file,
            Some(Err(error)) => {
                return Ok(vec![(NodePath::root(), Outcome::failed(error.to_string()))]);
            }
            None => return Ok(vec![(NodePath::root(), Outcome::defect())]),
        };
        let compared = stream::iter(&source.member.arrays).map(|plan| {
            let file = file.clone();
            async move {
                let outcome = match self.pair(source, file, plan).await {
                    Ok(pair) => self.compare(&pair).await?,
                    Err(reason) => Outcome::failed(reason),
                };
                Ok((plan.path.clone(), outcome))
            }
        });
        let compared = compared.buffered(VARIABLES_IN_FLIGHT).collect::<Vec<_>>().await;
        compared.into_iter().collect()
    }

    async fn pair<'a>(
        &'a self,
        source: &'a Source,
        file: NetcdfFile,
        plan: &'a Arc<ArrayPlan>,
    ) -> Result<Pair<'a>, String> {
        let array = self.content.array(&plan.path).ok_or("it is not in the dataset")?;
        if array.dimension_names != plan.metadata.dimension_names {
            let names = array.dimension_names.iter().flatten().flatten();
            let names: Vec<&str> = names.map(String::as_str).collect();
            let (here, there) = (plan.dimension_names().join(", "), names.join(", "));
            return Err(format!("its dimensions are ({here}) in the file and ({there}) here"));
        }
        let parent = |path: &NodePath| self.content.array(path);
        let conversion = conversion_between(&source.member, plan, array, parent);
        let conversion = conversion.map_err(|refusal| refusal.to_string())?;
        let positions = self.positions(source, plan, array)?;
        let (reader, variable) = (file.clone(), plan.variable);
        let locations = tasks::blocking("index of a variable", move || {
            reader.chunks(&[variable]).collect::<Result<Vec<_>, _>>()
        });
        let locations = match locations.await {
            Some(locations) => locations.map_err(|error| error.to_string())?,
            None => return Err("reading its index met a defect; please report it".to_owned()),
        };
        let joined = source.axis.as_deref();
        Ok(Pair {
            file,
            plan,
            array,
            chain: Arc::new(CodecChain::new(array).map_err(|error| error.to_string())?),
            conversion: Arc::new(conversion),
            locations: Arc::new(locations),
            positions: Arc::new(positions),
            tolerant: joined.is_some_and(|axis| !plan.dimension_names().contains(&axis)),
        })
    }

    fn positions(
        &self,
        source: &Source,
        plan: &ArrayPlan,
        array: &ArrayMetadata,
    ) -> Result<Vec<Positions>, String> {
        let mut all = Vec::new();
        let lengths = plan.metadata.shape.iter().zip(&array.shape);
        for ((name, scope), (here, there)) in
            plan.dimension_names().into_iter().zip(&plan.scopes).zip(lengths)
        {
            let coordinate = scope.child(name).ok();
            let keys = |path: &NodePath| {
                let file = source.member.coordinates.get(path)?.keys.as_ref().ok()?;
                Some((file, self.coordinates.get(path)?))
            };
            let by_values = coordinate
                .as_ref()
                .and_then(keys)
                .map(|(file, dataset)| positions::by_values(file, dataset));
            let positions = match by_values {
                Some(Ok(positions)) if positions.span().end <= *there => Ok(positions),
                // A coordinate that differs by less than the tolerance places nothing: the order does.
                Some(Err(Unplaced::Lacks { .. })) if here == there => Ok(Positions::same(*here)),
                Some(Err(unplaced)) => {
                    let step = unplaced.step();
                    let value = coordinate.as_ref().and_then(|path| {
                        let keys = source.member.coordinates.get(path)?.keys.as_ref().ok()?;
                        let metadata = &source.member.array(path)?.metadata;
                        Some(describe_key(keys.get(step?)?, metadata))
                    });
                    Err(words(name, &unplaced, value))
                }
                Some(Ok(_)) | None => positions::by_length(*here, *there).or_else(|unplaced| {
                    let first = self.firsts.get(&(source.path.clone(), plan.path.clone()));
                    let first = first.filter(|_| source.axis.as_deref() == Some(name));
                    first
                        .map(|first| Positions::Run { first: *first, length: *here })
                        .ok_or_else(|| words(name, &unplaced, None))
                }),
            };
            all.push(positions?);
        }
        Ok(all)
    }

    async fn compare(&self, pair: &Pair<'_>) -> Result<Outcome, StoreError> {
        let blocks = block::blocks(
            &pair.positions,
            &pair.plan.source_chunk_shape,
            &pair.array.chunk_shape,
            pair.array.data_type.size() as u64,
            self.parts.budget.bytes_max() / 4,
        );
        let compared = stream::iter(blocks).map(|block| self.compare_block(pair, block));
        let mut compared = compared.buffered(BLOCKS_IN_FLIGHT);
        let mut outcome = Outcome::default();
        while let Some(found) = compared.next().await {
            outcome.add(found?);
        }
        Ok(outcome)
    }

    async fn compare_block(&self, pair: &Pair<'_>, block: Block) -> Result<Outcome, StoreError> {
        let window_bytes = block.elements().saturating_mul(
            (pair.conversion.source_element_bytes() + pair.conversion.target_element_bytes())
                as u64,
        );
        let chunk_bytes = pair.chain.chunk_bytes().saturating_mul(2 * CHUNKS_IN_FLIGHT);
        let _paid = self.parts.budget.acquire(window_bytes.saturating_add(chunk_bytes)).await;
        let permit = self.parts.cpu.acquire().await;
        let window = {
            let (file, plan) = (pair.file.clone(), Arc::clone(pair.plan));
            let (locations, conversion) =
                (Arc::clone(&pair.locations), Arc::clone(&pair.conversion));
            let steps = block.steps.clone();
            tasks::blocking("values of a block", move || {
                block::read(&file, &plan, &locations, &steps, &conversion)
            })
            .await
        };
        drop(permit);
        let window = match window {
            Some(Ok(window)) => Arc::new(window),
            Some(Err(reason)) => return Ok(Outcome::failed(reason)),
            None => return Ok(Outcome::defect()),
        };
        let block = Arc::new(block);
        let compared = stream::iter(block.chunks()).map(|index| {
            let (window, block) = (Arc::clone(&window), Arc::clone(&block));
            self.compare_chunk(pair, index, window, block)
        });
        let width = usize::try_from(CHUNKS_IN_FLIGHT).unwrap_or(1);
        let mut compared = compared.buffered(width);
        let mut outcome = Outcome::default();
        while let Some(found) = compared.next().await {
            outcome.add(found?);
        }
        Ok(outcome)
    }

    async fn compare_chunk(
        &self,
        pair: &Pair<'_>,
        index: Vec<u64>,
        window: Arc<block::Window>,
        block: Arc<Block>,
    ) -> Result<Outcome, StoreError> {
        let key = pair.plan.path.key(&pair.array.chunk_key(&index));
        let object = self.object(pair.array, &key).await?;
        let _permit = self.parts.cpu.acquire().await;
        let array = pair.array.clone();
        let (chain, positions) = (Arc::clone(&pair.chain), Arc::clone(&pair.positions));
        let tolerant = pair.tolerant;
        let compared = tasks::blocking("comparison", move || {
            block::compare(&block::Comparing {
                array: &array,
                chain: &chain,
                object: object.as_deref(),
                index: &index,
                positions: &positions,
                window: &window,
                block: &block,
                tolerant,
            })
        });
        Ok(match compared.await {
            Some(Ok(outcome)) => outcome,
            Some(Err(reason)) => Outcome::failed(format!("chunk `{key}`: {reason}")),
            None => Outcome::defect(),
        })
    }

    /// The object of a chunk. The only chunk of a small array is kept: every file has values to be
    /// compared with it.
    async fn object(&self, array: &ArrayMetadata, key: &str) -> Result<Option<Bytes>, StoreError> {
        let is_small = array.chunk_count() == Some(1)
            && array.chunk_bytes().is_some_and(|bytes| bytes <= KEPT_OBJECT_BYTES_MAX);
        if !is_small {
            return chunks::get(self.parts, &self.wanted.dataset, key).await;
        }
        if let Some(object) = self.kept.lock().objects.get(key) {
            return Ok(object.clone());
        }
        let object = chunks::get(self.parts, &self.wanted.dataset, key).await?;
        let mut kept = self.kept.lock();
        let bytes = object.as_ref().map_or(0, Bytes::len) as u64;
        if kept.bytes + bytes <= KEPT_BYTES_MAX {
            kept.bytes += bytes;
            kept.objects.insert(key.to_owned(), object.clone());
        }
        Ok(object)
    }
}

fn words(name: &str, unplaced: &Unplaced, value: Option<String>) -> String {
    match unplaced {
        Unplaced::Lacks { step } => {
            let value = value.unwrap_or_default();
            format!("`{name}` = {value} (step {step} of the file) is not in the dataset")
        }
        Unplaced::Reordered { step } => {
            format!("step {step} along `{name}` stands elsewhere in the order of the dataset")
        }
        Unplaced::Lengths { file, dataset } => format!(
            "`{name}` has {file} steps in the file and {dataset} in the dataset, and no coordinate \
             values that would say which they are"
        ),
    }
}
