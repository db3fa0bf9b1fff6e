//! The pipeline of one epoch: locate → read and decode → assemble → encode → put.
//!
//! One thread walks the files one after the other, each in its own order, and groups chunk
//! locations into blocks. Each block is paid for. Then its source chunks are decoded into its target
//! chunks, by as many threads as there are; then each target chunk is encoded, put, and paid back.
//! Blocks are independent of each other, so memory is bounded by the budget and nothing holds memory
//! while it waits for more. Encoding goes before decoding: it gives memory back.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::epoch::{EpochError, Work};
use crate::assemble::{
    Assembler, Block, BlockLimits, BuildError, BuiltChunk, OpenBlock, Piece, Retained, Target,
};
use crate::base::permits::{Budget, Paid};
use crate::base::processors::{Processors, Urgency};
use crate::netcdf::VariableId;
use crate::store::{Link, Location, PutCondition, StoreError, Version};
use crate::telemetry::activities::Activity;
use crate::telemetry::tally::Tally;
use crate::zarr::{BloscCompressor, CodecError, CodecSpec, Shuffle};

/// Blocks located ahead of the ones being built: they are small (locations, no data).
const BLOCKS_AHEAD: usize = 64;

/// Blocks in work at once, whatever the memory allows.
const BLOCKS_IN_WORK: usize = 256;

/// Chunks of one block that are encoded or on their way at once.
const CHUNKS_IN_FLIGHT: usize = 256;

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
    processors: Processors,
    pub(super) tally: Arc<Tally>,
    /// Chunks encoded so far.
    encoded: Arc<AtomicU64>,
}

/// The versions of the published chunks that a block changes; `None` for those that do not exist.
type Versions = HashMap<Vec<u64>, Option<Version>>;

impl Pipeline {
    /// At most `cpu_threads` threads decode and encode at a time.
    pub(super) fn new(link: Link, budget: Budget, cpu_threads: usize, tally: Arc<Tally>) -> Self {
        let processors = Processors::new(cpu_threads);
        Self { link, budget, processors, tally, encoded: Arc::default() }
    }

    /// Memory for chunks in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.budget.bytes_max()
    }

    /// Threads that decode and encode.
    pub(super) fn threads(&self) -> usize {
        self.processors.threads()
    }

    /// Puts every chunk of the epoch. Stops early once a file is withdrawn.
    pub(super) async fn run(&self, work: &Arc<Work>) -> Result<(), EpochError> {
        let (sender, mut located) = mpsc::channel(BLOCKS_AHEAD);
        let threads = self.threads();
        let locating = {
            let (work, memory) = (Arc::clone(work), self.memory());
            tokio::task::spawn_blocking(move || locate(&work, memory, threads, &sender))
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
            let bytes = block.memory_bytes(threads);
            let paid = Account::new(self.budget.acquire(bytes).await, bytes);
            let (pipeline, work) = (self.clone(), Arc::clone(work));
            blocks.spawn(async move { pipeline.block(&work, Arc::new(block), paid).await });
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

    /// Builds a block and puts its chunks, each as soon as it is encoded.
    async fn block(
        &self,
        work: &Arc<Work>,
        block: Arc<Block>,
        paid: Account,
    ) -> Result<(), EpochError> {
        let (published, versions) = self.retained(&work.dataset, &block).await?;
        let pieces = block.pieces().len() as u64;
        let put = |built| self.put(work, built, &versions);
        let outcomes: Vec<Option<(String, Location)>> = if block.holds_texts() {
            let built = self.texts(work, &block, published).await?;
            paid.set(built.iter().map(encoded_bytes).sum());
            stream::iter(built).map(put).buffer_unordered(CHUNKS_IN_FLIGHT).try_collect().await?
        } else {
            let open = Arc::new(OpenBlock::new(Arc::clone(&block), published));
            self.decode(work, &open).await?;
            paid.set(block.encoding_bytes(self.threads()));
            let raw = block.chunk_bytes();
            let chunks = stream::iter(0..open.len()).map(|slot| {
                let (open, paid) = (&open, &paid);
                async move {
                    let built = self.encode(open, slot).await?;
                    let encoded = encoded_bytes(&built);
                    paid.exchange(raw, encoded);
                    let stale = put(built).await?;
                    paid.exchange(encoded, 0);
                    Ok::<_, EpochError>(stale)
                }
            });
            chunks.buffer_unordered(CHUNKS_IN_FLIGHT).try_collect().await?
        };
        self.tally.decoded(pieces);
        let (keys, stale): (Vec<String>, Vec<Location>) = outcomes.into_iter().flatten().unzip();
        self.delete(stale).await?;
        keys.iter().try_for_each(|key| work.record(key, &None))
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

    /// Reads and decodes the source chunks of a block into its target chunks, side by side.
    async fn decode(&self, work: &Arc<Work>, open: &Arc<OpenBlock>) -> Result<(), EpochError> {
        let groups = open.block().groups().into_iter().map(|pieces| {
            let (activities, work) = (self.tally.activities().clone(), Arc::clone(work));
            let open = Arc::clone(open);
            let decode = move || {
                let block = open.block();
                let read = |piece: &Piece, out: &mut Vec<u8>| work.read(block, piece, out);
                activities.within(Activity::Decoding, || open.add(pieces, read))
            };
            async move { built(self.processors.run(Urgency::Beginning, decode).await) }
        });
        // No more than the memory is paid for.
        let groups = stream::iter(groups).buffer_unordered(self.threads());
        groups.try_collect().await
    }

    /// Encodes one target chunk of a block.
    async fn encode(&self, open: &Arc<OpenBlock>, slot: usize) -> Result<BuiltChunk, EpochError> {
        let (pipeline, open) = (self.clone(), Arc::clone(open));
        let encode = move || {
            let activities = pipeline.tally.activities();
            activities.within(Activity::Encoding, || {
                let target = open.take(slot)?;
                Ok(pipeline.encoded(open.block(), target)?)
            })
        };
        built(self.processors.run(Urgency::Ending, encode).await)
    }

    async fn texts(
        &self,
        work: &Arc<Work>,
        block: &Arc<Block>,
        published: Retained,
    ) -> Result<Vec<BuiltChunk>, EpochError> {
        let (work, block) = (Arc::clone(work), Arc::clone(block));
        let activities = self.tally.activities().clone();
        let build = move || {
            let read = |piece: &Piece, out: &mut Vec<u8>| work.read(&block, piece, out);
            let built = activities.within(Activity::Decoding, || block.build(&published, read));
            built.map(|built| built.chunks)
        };
        built(self.processors.run(Urgency::Beginning, build).await)
    }

    /// Encodes on this thread. While that is what everything waits for, a few chunks are encoded by a
    /// faster codec too, to be able to say what it would give.
    fn encoded(&self, block: &Block, target: Target<u8>) -> Result<BuiltChunk, CodecError> {
        let activities = self.tally.activities();
        let number = self.encoded.fetch_add(1, Ordering::Relaxed);
        let is_tried = number % TRIAL_CHUNKS == TRIAL_FIRST
            && target.raw().len() >= TRIAL_BYTES_MIN
            && activities.is_encoding_the_bottleneck();
        if !is_tried {
            return block.encode(target);
        }
        let size = || block.encode_with(FAST_CODEC, &target).map(|object| object.len());
        let (other, other_time) = activities.timed(size);
        let (built, own_time) = activities.timed(|| block.encode(target));
        let (other, built) = (other?, built?);
        // One that is omitted was not encoded.
        if let Some(own) = &built.bytes {
            let (own, other) = ((own_time, own.len()), (other_time, other));
            activities.tried(&FAST_CODEC.to_string(), own, other);
        }
        Ok(built)
    }

    /// Puts a chunk, unless an earlier attempt did. Answers where there must be no object although
    /// there may be one.
    async fn put(
        &self,
        work: &Work,
        built: BuiltChunk,
        versions: &Versions,
    ) -> Result<Option<(String, Location)>, EpochError> {
        if work.journal.as_ref().is_some_and(|journal| journal.has(&built.key)) {
            return Ok(None);
        }
        let at = at(&work.dataset, &built.key)?;
        let bytes = match built.bytes {
            Some(bytes) => bytes,
            None if built.may_exist => return Ok(Some((built.key, at))),
            None => return work.record(&built.key, &None).map(|()| None),
        };
        // A chunk that keeps published values must still be the one that was read.
        let condition = match versions.get(&built.index) {
            Some(Some(version)) => PutCondition::Matches(version.clone()),
            Some(None) => PutCondition::Absent,
            None => PutCondition::Always,
        };
        let size = bytes.len() as u64;
        let version = match self.link.put(&at, bytes, condition).await {
            Ok(version) => version,
            Err(StoreError::Conflict { .. }) => return Err(EpochError::LostRace(at)),
            Err(error) => return Err(error.into()),
        };
        self.tally.object();
        work.record(&built.key, &Some((size, version.etag)))?;
        Ok(None)
    }

    async fn delete(&self, stale: Vec<Location>) -> Result<(), EpochError> {
        if stale.is_empty() {
            return Ok(());
        }
        for (_, deleted) in self.link.delete_many(stale).await {
            deleted?;
        }
        Ok(())
    }
}

/// What the memory of a block is paid for, as it turns from elements into objects.
struct Account(Mutex<(Paid, u64)>);

impl Account {
    fn new(paid: Paid, bytes: u64) -> Self {
        Self(Mutex::new((paid, bytes)))
    }

    /// So many bytes are left.
    fn set(&self, bytes: u64) {
        let (paid, left) = &mut *self.0.lock();
        *left = bytes.min(*left);
        paid.shrink_to(*left);
    }

    /// Some bytes have turned into others.
    fn exchange(&self, before: u64, after: u64) {
        let (paid, left) = &mut *self.0.lock();
        *left = left.saturating_sub(before).saturating_add(after);
        paid.shrink_to(*left);
    }
}

/// What came of work on a processor.
fn built<T>(outcome: Option<Result<T, BuildError<String>>>) -> Result<T, EpochError> {
    match outcome {
        Some(outcome) => outcome.map_err(|error| EpochError::Source(error.to_string())),
        None => Err(EpochError::Defect("building a chunk panicked")),
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

fn encoded_bytes(built: &BuiltChunk) -> u64 {
    built.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
}

/// Walks the files and sends blocks as soon as their last source chunk is located.
fn locate(
    work: &Work,
    memory: u64,
    threads: usize,
    sender: &mpsc::Sender<Block>,
) -> Result<(), EpochError> {
    let mut assemblers: Vec<Assembler> = work
        .plan
        .arrays
        .iter()
        .map(|array| {
            Assembler::new(array, BlockLimits::of(array, memory, threads))
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
