//! The pipeline of one epoch: locate → read and decode → assemble → encode → put.
//!
//! One thread walks the source in file order and groups chunk locations into blocks. Each block is
//! paid for, then built on a CPU thread, then its chunks are put side by side. Blocks are
//! independent of each other, so memory is bounded by the budget and nothing holds memory while it
//! waits for more.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{FuturesUnordered, TryStreamExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::epoch::EpochError;
use super::judge::Judged;
use crate::assemble::{Assembler, Block, BuiltChunk};
use crate::base::permits::Budget;
use crate::base::tasks;
use crate::netcdf::VariableId;
use crate::store::{Link, Location, PutCondition};
use crate::telemetry::tally::Tally;

/// Blocks located ahead of the ones being built: they are small (locations, no data).
const BLOCKS_AHEAD: usize = 64;

/// Blocks in work at once, whatever the memory allows.
const BLOCKS_IN_WORK: usize = 256;

/// A block may take this share of the memory budget, so that several are in work at once.
const BLOCKS_PER_BUDGET: u64 = 8;

/// What the pipeline works with.
#[derive(Debug, Clone)]
pub(super) struct Pipeline {
    pub(super) link: Link,
    pub(super) budget: Budget,
    pub(super) cpu: Arc<tokio::sync::Semaphore>,
    pub(super) tally: Arc<Tally>,
}

impl Pipeline {
    /// Puts every chunk of the plan below `dataset`. Stops early once `cancelled` is set.
    pub(super) async fn run(
        &self,
        judged: &Arc<Judged>,
        dataset: &Location,
        cancelled: &Arc<AtomicBool>,
    ) -> Result<(), EpochError> {
        let (sender, mut located) = mpsc::channel(BLOCKS_AHEAD);
        let locating = {
            let judged = Arc::clone(judged);
            let cancelled = Arc::clone(cancelled);
            let block_bytes_max = self.budget.bytes_max() / BLOCKS_PER_BUDGET;
            tokio::task::spawn_blocking(move || {
                locate(&judged, block_bytes_max, &cancelled, &sender)
            })
        };
        let mut work = JoinSet::new();
        while let Some(block) = located.recv().await {
            if cancelled.load(Ordering::Acquire) {
                break;
            }
            while work.len() >= BLOCKS_IN_WORK {
                finished(work.join_next().await)?;
            }
            let paid = self.budget.acquire(block.memory_bytes()).await;
            let (pipeline, judged) = (self.clone(), Arc::clone(judged));
            let dataset = dataset.clone();
            work.spawn(async move {
                let mut paid = paid;
                let built = pipeline.build(&judged, block).await?;
                paid.shrink_to(encoded_bytes(&built));
                pipeline.put(&dataset, built).await
            });
            while let Some(done) = work.try_join_next() {
                finished(Some(done))?;
            }
        }
        drop(located);
        while !work.is_empty() {
            finished(work.join_next().await)?;
        }
        match locating.await {
            Ok(outcome) => outcome?,
            Err(_) => return Err(EpochError::Defect("the walk over the source panicked")),
        }
        if cancelled.load(Ordering::Acquire) { Err(EpochError::Cancelled) } else { Ok(()) }
    }

    /// Reads, decodes, assembles and encodes one block on a CPU thread.
    async fn build(
        &self,
        judged: &Arc<Judged>,
        block: Block,
    ) -> Result<Vec<BuiltChunk>, EpochError> {
        // The semaphore is never closed.
        let _cpu = self.cpu.acquire().await.ok();
        let judged = Arc::clone(judged);
        let built = tasks::blocking("build chunks", move || {
            block.build(|location, out| judged.file.read_chunk(location, out))
        });
        match built.await {
            Some(built) => built
                .map(|built| built.chunks)
                .map_err(|error| EpochError::Source(error.to_string())),
            None => Err(EpochError::Defect("building a chunk panicked")),
        }
    }

    async fn put(&self, dataset: &Location, built: Vec<BuiltChunk>) -> Result<(), EpochError> {
        let puts: FuturesUnordered<_> = built
            .into_iter()
            .filter_map(|chunk| chunk.bytes.map(|bytes| (chunk.key, bytes)))
            .map(|(key, bytes)| async move {
                let key =
                    Location::parse(&key).map_err(|error| EpochError::Key(error.to_string()))?;
                self.link.put(&dataset.join(&key), bytes, PutCondition::Always).await?;
                self.tally.object();
                Ok::<_, EpochError>(())
            })
            .collect();
        puts.try_collect().await
    }
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

/// Walks the source in file order and sends blocks as soon as their last source chunk is located.
fn locate(
    judged: &Judged,
    block_bytes_max: u64,
    cancelled: &AtomicBool,
    sender: &mpsc::Sender<Block>,
) -> Result<(), EpochError> {
    let variables: Vec<VariableId> =
        judged.plan.arrays.iter().map(|array| array.variable).collect();
    let mut assemblers: HashMap<VariableId, Assembler> = judged
        .plan
        .arrays
        .iter()
        .map(|array| {
            Assembler::new(array, block_bytes_max)
                .map(|assembler| (array.variable, assembler))
                .map_err(|error| EpochError::Source(error.to_string()))
        })
        .collect::<Result<_, _>>()?;
    let unread = |error: crate::netcdf::NetcdfError| EpochError::Source(error.to_string());
    let misplaced = |error: crate::assemble::LocationError| EpochError::Source(error.to_string());
    for location in judged.file.chunks(&variables) {
        let location = location.map_err(unread)?;
        let Some(assembler) = assemblers.get_mut(&location.variable) else { continue };
        for block in assembler.push(&location).map_err(misplaced)? {
            if cancelled.load(Ordering::Acquire) || sender.blocking_send(block).is_err() {
                return Ok(());
            }
        }
    }
    for variable in variables {
        let Some(assembler) = assemblers.remove(&variable) else { continue };
        for block in assembler.finish() {
            if cancelled.load(Ordering::Acquire) || sender.blocking_send(block).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}
