//! The pipeline of one epoch: locate → read and decode → assemble → encode → put.
//!
//! One thread walks the files one after the other, each in its own order, and groups chunk
//! locations into blocks. Each block is paid for, then built on a CPU thread, then its chunks are
//! put side by side. Blocks are independent of each other, so memory is bounded by the budget and
//! nothing holds memory while it waits for more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{self, FuturesUnordered, StreamExt as _, TryStreamExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::epoch::{EpochError, Work};
use crate::assemble::{Assembler, Block, BuildError, BuiltChunk, Piece, Retained, Target};
use crate::base::permits::Budget;
use crate::base::tasks;
use crate::netcdf::VariableId;
use crate::store::{Link, Location, PutCondition, StoreError, Version};
use crate::telemetry::activities::Activity;
use crate::telemetry::tally::Tally;
use crate::zarr::{BloscCompressor, CodecError, CodecSpec, Shuffle};

/// Blocks located ahead of the ones being built: they are small (locations, no data).
const BLOCKS_AHEAD: usize = 64;

/// Blocks in work at once, whatever the memory allows.
const BLOCKS_IN_WORK: usize = 256;

/// A block may take this share of the memory budget, so that several are in work at once.
const BLOCKS_PER_BUDGET: u64 = 8;

/// Published chunks of one block that are asked for side by side.
const RETAINED_IN_FLIGHT: usize = 16;

/// What is tried when encoding is what everything waits for.
const FAST_CODEC: CodecSpec =
    CodecSpec::Blosc { compressor: BloscCompressor::Zstd, level: 1, shuffle: Shuffle::Byte };

/// One chunk in so many is tried: where encoding is slow this is several times as fast, so that the
/// trial costs a percent.
const TRIAL_CHUNKS: u64 = 32;

/// The first to be tried: by then it is known whether encoding is slow.
const TRIAL_FIRST: u64 = 4;

/// Smaller chunks tell little: their time is that of calls.
const TRIAL_BYTES_MIN: usize = 64 << 10;

/// What the pipeline works with.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    pub(super) link: Link,
    pub(super) budget: Budget,
    cpu: Arc<Semaphore>,
    pub(super) tally: Arc<Tally>,
    /// Chunks encoded so far.
    encoded: Arc<AtomicU64>,
}

/// The versions of the published chunks that a block changes; `None` for those that do not exist.
type Versions = HashMap<Vec<u64>, Option<Version>>;

impl Pipeline {
    /// At most `cpu_threads` threads decode and encode at a time.
    pub(super) fn new(link: Link, budget: Budget, cpu_threads: usize, tally: Arc<Tally>) -> Self {
        let cpu = Arc::new(Semaphore::new(cpu_threads.max(1)));
        Self { link, budget, cpu, tally, encoded: Arc::default() }
    }

    /// Puts every chunk of the epoch. Stops early once a file is withdrawn.
    pub(super) async fn run(&self, work: &Arc<Work>) -> Result<(), EpochError> {
        let (sender, mut located) = mpsc::channel(BLOCKS_AHEAD);
        let locating = {
            let work = Arc::clone(work);
            let block_bytes_max = self.budget.bytes_max() / BLOCKS_PER_BUDGET;
            tokio::task::spawn_blocking(move || locate(&work, block_bytes_max, &sender))
        };
        let mut blocks = JoinSet::new();
        while let Some(block) = located.recv().await {
            if work.is_cancelled() {
                break;
            }
            if work.journal.as_ref().is_some_and(|journal| journal.has_all(&block.keys())) {
                continue;
            }
            while blocks.len() >= BLOCKS_IN_WORK {
                finished(blocks.join_next().await)?;
            }
            let paid = self.budget.acquire(block.memory_bytes()).await;
            let (pipeline, work) = (self.clone(), Arc::clone(work));
            blocks.spawn(async move {
                let mut paid = paid;
                let (published, versions) = pipeline.retained(&work.dataset, &block).await?;
                let built = pipeline.build(&work, block, published).await?;
                paid.shrink_to(encoded_bytes(&built));
                let keys: Vec<String> = built.iter().map(|chunk| chunk.key.clone()).collect();
                pipeline.put(&work.dataset, built, &versions).await?;
                match &work.journal {
                    Some(journal) => journal.record(&keys),
                    None => Ok(()),
                }
            });
            while let Some(done) = blocks.try_join_next() {
                finished(Some(done))?;
            }
        }
        drop(located);
        while !blocks.is_empty() {
            finished(blocks.join_next().await)?;
        }
        match locating.await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(EpochError::Defect("the walk over the sources panicked")),
        }
        if work.is_cancelled() { Err(EpochError::Cancelled) } else { Ok(()) }
    }

    /// The chunks that keep published values, as they are now.
    async fn retained(
        &self,
        dataset: &Location,
        block: &Block,
    ) -> Result<(Retained, Versions), EpochError> {
        let fetched: Vec<(Vec<u64>, Option<crate::store::Fetched>)> =
            stream::iter(block.retained())
                .map(|chunk| async move {
                    match self.link.get(&at(dataset, &chunk.key)?, None).await {
                        Ok(found) => Ok((chunk.index, Some(found))),
                        Err(StoreError::NotFound { .. }) => Ok((chunk.index, None)),
                        Err(error) => Err(EpochError::from(error)),
                    }
                })
                .buffer_unordered(RETAINED_IN_FLIGHT)
                .try_collect()
                .await?;
        let (mut retained, mut versions) = (Retained::new(), Versions::new());
        for (index, found) in fetched {
            let version = found.as_ref().map(|found| found.version.clone());
            versions.insert(index.clone(), version);
            retained.insert(index, found.map(|found| found.bytes));
        }
        Ok((retained, versions))
    }

    /// Reads, decodes, assembles and encodes one block on a CPU thread.
    async fn build(
        &self,
        work: &Arc<Work>,
        block: Block,
        published: Retained,
    ) -> Result<Vec<BuiltChunk>, EpochError> {
        // The semaphore is never closed.
        let _cpu = self.cpu.acquire().await.ok();
        let (pipeline, work) = (self.clone(), Arc::clone(work));
        let built = tasks::blocking("build chunks", move || {
            let activities = pipeline.tally.activities();
            let read = |piece: &Piece, out: &mut Vec<u8>| work.read(&block, piece, out);
            if block.holds_texts() {
                let build = || block.build(&published, read).map(|built| built.chunks);
                return activities.within(Activity::Decoding, build);
            }
            let targets =
                activities.within(Activity::Decoding, || block.gather(&published, read))?;
            let encoded = targets.into_iter().map(|target| pipeline.encode(&block, target));
            Ok(encoded.collect::<Result<_, _>>()?)
        });
        match built.await {
            Some(built) => {
                built.map_err(|error: BuildError<String>| EpochError::Source(error.to_string()))
            }
            None => Err(EpochError::Defect("building a chunk panicked")),
        }
    }

    /// Encodes on this thread. While that is what everything waits for, a few chunks are encoded by a
    /// faster codec too, to be able to say what it would give.
    fn encode(&self, block: &Block, target: Target<u8>) -> Result<BuiltChunk, CodecError> {
        let activities = self.tally.activities();
        activities.within(Activity::Encoding, || {
            let number = self.encoded.fetch_add(1, Ordering::Relaxed);
            let is_tried = number % TRIAL_CHUNKS == TRIAL_FIRST
                && target.raw().len() >= TRIAL_BYTES_MIN
                && activities.is_encoding_the_bottleneck();
            if !is_tried {
                return block.encode(target);
            }
            let (other, other_time) = activities.timed(|| block.encode_with(FAST_CODEC, &target));
            let (built, own_time) = activities.timed(|| block.encode(target));
            let (other, built) = (other?, built?);
            // One that is omitted was not encoded.
            if let Some(own) = &built.bytes {
                let (own, other) = ((own_time, own.len()), (other_time, other.len()));
                activities.tried(&FAST_CODEC.to_string(), own, other);
            }
            Ok(built)
        })
    }

    async fn put(
        &self,
        dataset: &Location,
        built: Vec<BuiltChunk>,
        versions: &Versions,
    ) -> Result<(), EpochError> {
        let mut stale = Vec::new();
        let puts = FuturesUnordered::new();
        for BuiltChunk { index, key, bytes, may_exist } in built {
            let at = at(dataset, &key)?;
            let Some(bytes) = bytes else {
                if may_exist {
                    stale.push(at);
                }
                continue;
            };
            // A chunk that keeps published values must still be the one that was read.
            let condition = match versions.get(&index) {
                Some(Some(version)) => PutCondition::Matches(version.clone()),
                Some(None) => PutCondition::Absent,
                None => PutCondition::Always,
            };
            puts.push(async move {
                match self.link.put(&at, bytes, condition).await {
                    Ok(_) => {}
                    Err(StoreError::Conflict { .. }) => return Err(EpochError::LostRace(at)),
                    Err(error) => return Err(error.into()),
                }
                self.tally.object();
                Ok::<_, EpochError>(())
            });
        }
        puts.try_collect::<()>().await?;
        if !stale.is_empty() {
            for (_, deleted) in self.link.delete_many(stale).await {
                deleted?;
            }
        }
        Ok(())
    }
}

fn at(dataset: &Location, key: &str) -> Result<Location, EpochError> {
    let key = Location::parse(key).map_err(|error| EpochError::Key(error.to_string()))?;
    Ok(dataset.join(&key))
}

fn finished(
    done: Option<Result<Result<(), EpochError>, tokio::task::JoinError>>,
) -> Result<(), EpochError> {
    match done {
        None => Ok(()),
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(EpochError::Defect("a task of the pipeline panicked")),
    }
}

fn encoded_bytes(built: &[BuiltChunk]) -> u64 {
    built.iter().filter_map(|chunk| chunk.bytes.as_ref()).map(|bytes| bytes.len() as u64).sum()
}

/// Walks the files and sends blocks as soon as their last source chunk is located.
fn locate(
    work: &Work,
    block_bytes_max: u64,
    sender: &mpsc::Sender<Block>,
) -> Result<(), EpochError> {
    let mut assemblers: Vec<Assembler> = work
        .plan
        .arrays
        .iter()
        .map(|array| {
            Assembler::new(array, block_bytes_max)
                .map_err(|error| EpochError::Source(format!("{}: {error}", array.path)))
        })
        .collect::<Result<_, _>>()?;
    // For each file: which part of which array its variables are.
    let mut of_members: Vec<HashMap<VariableId, (usize, usize)>> =
        vec![HashMap::new(); work.members.len()];
    for (array, target) in work.plan.arrays.iter().enumerate() {
        for (part, it) in target.parts.iter().enumerate() {
            if let Some(variables) = of_members.get_mut(it.member) {
                variables.insert(it.variable, (array, part));
            }
        }
    }
    let send = |block| !work.is_cancelled() && sender.blocking_send(block).is_ok();
    for (position, variables) in of_members.iter().enumerate() {
        if variables.is_empty() {
            continue;
        }
        let wrong = |reason: String| {
            EpochError::Source(format!("{}: {reason}", work.members.name(position)))
        };
        let file = work.members.open(position).map_err(|error| wrong(error.to_string()))?;
        let mut wanted: Vec<VariableId> = variables.keys().copied().collect();
        wanted.sort_unstable();
        for location in file.chunks(&wanted) {
            let location = location.map_err(|error| wrong(error.to_string()))?;
            let Some((array, part)) = variables.get(&location.variable) else { continue };
            let Some(assembler) = assemblers.get_mut(*array) else { continue };
            let ready =
                assembler.push(*part, &location).map_err(|error| wrong(error.to_string()))?;
            for block in ready {
                if !send(block) {
                    return Ok(());
                }
            }
        }
    }
    for assembler in assemblers {
        for block in assembler.finish() {
            if !send(block) {
                return Ok(());
            }
        }
    }
    Ok(())
}
