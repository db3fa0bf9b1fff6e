//! The engine's shared state, and the loop that runs one dataset.
//!
//! Events go into the machines under a lock and never wait; whatever has to be done is done by a
//! task outside of it. There is one such task per dataset at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::chunks::Pipeline;
use super::dataset::{self, Action, Dataset, Event, Step};
use super::digest::Digest;
use super::epoch::{Epoch, EpochError};
use super::judge::{self, Found, Verdict};
use super::names::{self, Target};
use super::published::{Known, Published};
use super::receipt::{self, SourceRecord};
use super::refusal::Refusal;
use super::source;
use crate::base::permits::Budget;
use crate::base::tasks;
use crate::namespace::{Ino, Tree};
use crate::plan::Encoding;
use crate::staging::{FileId, Staging};
use crate::store::{Link, Location, StoreError};
use crate::telemetry::tally::Tally;
use crate::upload::Queue;

/// Datasets written side by side: enough to hide round trips of many small ones, few enough to
/// bound the files held open.
const EPOCHS_AT_ONCE: usize = 32;

/// Documents that make a folder a Zarr group or array.
const ROOT_DOCUMENTS: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// What the user chose.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--ingest`: off stores source files like any other.
    pub enabled: bool,
    /// How datasets are laid out.
    pub encoding: Encoding,
}

/// What the engine works with.
#[derive(Debug)]
pub struct Parts {
    /// What the user chose.
    pub options: Options,
    /// The way to the bucket.
    pub link: Link,
    /// Where the bytes are.
    pub staging: Arc<Staging>,
    /// Where the names are.
    pub tree: Arc<Tree>,
    /// Takes files that turn out to be no source files.
    pub queue: Queue,
    /// Memory for chunks.
    pub budget: Budget,
    /// Threads that decode and encode.
    pub cpu_threads: usize,
    /// Bytes and objects sent.
    pub tally: Arc<Tally>,
}

/// The ingest engine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ingest(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) options: Options,
    pub(super) staging: Arc<Staging>,
    pub(super) tree: Arc<Tree>,
    pub(super) queue: Queue,
    pub(super) known: Known,
    pub(super) pipeline: Pipeline,
    pub(super) sources: Mutex<HashMap<FileId, Source>>,
    pub(super) sequence: AtomicU64,
    /// A source file reached a state that a flush does not wait for.
    pub(super) settled: Notify,
    datasets: Mutex<HashMap<Location, Dataset>>,
    epochs: Semaphore,
}

/// A source file that the engine looks after.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) location: Location,
    pub(super) target: Target,
    pub(super) state: source::State,
    pub(super) sequence: u64,
    /// What it was found to be, for the generation of its content.
    pub(super) found: Option<(u64, Found)>,
    /// How it is laid out: fixed when it is first judged.
    pub(super) encoding: Encoding,
    pub(super) cancelled: Arc<AtomicBool>,
}

/// One source file, for `status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStatus {
    /// The staged file.
    pub file: FileId,
    /// Its name in the mount.
    pub location: Location,
    /// The dataset it belongs to.
    pub dataset: Location,
    /// Where it is in its life.
    pub state: source::State,
}

impl Source {
    /// Steps the machine; an impossible event is a defect, logged and without effect.
    pub(super) fn step(&mut self, event: source::Event) {
        match self.state.clone().step(event) {
            Ok(state) => {
                tracing::debug!(source = %self.location, state = state.name(), "source file");
                self.state = state;
            }
            Err(error) => tracing::error!(source = %self.location, %error, "this is a defect"),
        }
    }
}

impl Ingest {
    /// Makes an engine. Nothing runs until a file arrives.
    pub fn new(parts: Parts) -> Self {
        let pipeline = Pipeline {
            link: parts.link,
            budget: parts.budget,
            cpu: Arc::new(Semaphore::new(parts.cpu_threads.max(1))),
            tally: parts.tally,
        };
        Self(Arc::new(Inner {
            options: parts.options,
            staging: parts.staging,
            tree: parts.tree,
            queue: parts.queue,
            known: Known::default(),
            pipeline,
            sources: Mutex::new(HashMap::new()),
            sequence: AtomicU64::new(0),
            settled: Notify::new(),
            datasets: Mutex::new(HashMap::new()),
            epochs: Semaphore::new(EPOCHS_AT_ONCE),
        }))
    }

    /// Whether a file of this name is a source file rather than an object.
    pub fn claims(&self, location: &Location) -> bool {
        self.0.options.enabled && names::is_source_name(location.name())
    }

    pub(super) fn target(&self, location: &Location) -> Option<Target> {
        let is_hierarchy = |folder: &Location| self.is_hierarchy(folder);
        self.claims(location).then(|| names::target(location, is_hierarchy)).flatten()
    }

    /// Whether a folder without the usual ending is known to hold Zarr metadata.
    pub(super) fn is_hierarchy(&self, folder: &Location) -> bool {
        ROOT_DOCUMENTS.iter().any(|name| self.0.tree.knows_object(folder, name))
    }

    /// The state of every source file of this mount, by name.
    pub fn sources(&self) -> Vec<SourceStatus> {
        let sources = self.0.sources.lock();
        let mut all: Vec<SourceStatus> = sources
            .iter()
            .map(|(file, source)| SourceStatus {
                file: *file,
                location: source.location.clone(),
                dataset: source.target.dataset().clone(),
                state: source.state.clone(),
            })
            .collect();
        all.sort_by(|a, b| a.location.cmp(&b.location));
        all
    }

    /// The state of every dataset that this mount has written to, by name.
    pub fn datasets(&self) -> Vec<(Location, dataset::State)> {
        let datasets = self.0.datasets.lock();
        let mut all: Vec<_> =
            datasets.iter().map(|(at, data)| (at.clone(), data.state())).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Publishes everything that was closed before the call, and tries again what had failed.
    /// Returns when each of it is in the bucket, refused, or failed for good.
    pub async fn flush(&self) {
        let target = self.0.sequence.load(Ordering::Acquire);
        self.try_again();
        loop {
            let settled = self.0.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            let outstanding = self
                .0
                .sources
                .lock()
                .values()
                .any(|source| source.sequence <= target && source.state.is_outstanding());
            if !outstanding {
                return;
            }
            settled.await;
        }
    }

    fn try_again(&self) {
        let failed: Vec<FileId> = {
            let mut sources = self.0.sources.lock();
            let failed = |source: &Source| {
                matches!(source.state, source::State::Failed { is_damaged: false, .. })
            };
            sources
                .iter_mut()
                .filter(|(_, source)| failed(source))
                .map(|(id, source)| {
                    source.step(source::Event::TriedAgain);
                    *id
                })
                .collect()
        };
        for id in failed {
            self.spawn_take(id);
        }
    }

    /// Feeds one event to a dataset and, if that begins something, starts its task.
    pub(super) fn feed(&self, at: &Location, event: Event) {
        let action = self.apply(at, event);
        if action != Action::Rest {
            let (engine, at) = (self.clone(), at.clone());
            tasks::spawn("dataset", async move { engine.drive(at, action).await });
        }
    }

    fn apply(&self, at: &Location, event: Event) -> Action {
        self.0.datasets.lock().entry(at.clone()).or_default().step(event)
    }

    fn next(&self, at: &Location) -> Action {
        self.0.datasets.lock().entry(at.clone()).or_default().proceed()
    }

    /// Runs one dataset until it rests.
    async fn drive(&self, at: Location, mut action: Action) {
        // The semaphore is never closed.
        let _slot = self.0.epochs.acquire().await.ok();
        let mut epoch = None;
        let mut last_error = None;
        loop {
            action = match action {
                Action::Rest => return,
                Action::Run(file, step) => match self.run_step(&at, file, step, &mut epoch).await {
                    Ok(()) => self.apply(&at, Event::StepDone),
                    Err(error) => {
                        last_error = Some(error);
                        self.apply(&at, Event::StepFailed)
                    }
                },
                Action::Commit(file) => {
                    if let Some(epoch) = epoch.take() {
                        self.committed(&at, file, &epoch);
                    }
                    self.next(&at)
                }
                Action::Fail(file) => {
                    epoch = None;
                    self.failed(&at, file, last_error.take());
                    self.next(&at)
                }
                Action::Abandon(_) => {
                    if let Some(epoch) = epoch.take() {
                        self.abandoned(&at, &epoch).await;
                    }
                    self.next(&at)
                }
            };
        }
    }

    async fn run_step(
        &self,
        at: &Location,
        file: FileId,
        step: Step,
        epoch: &mut Option<Arc<Epoch>>,
    ) -> Result<(), EpochError> {
        let current = match epoch {
            Some(epoch) => Arc::clone(epoch),
            None => Arc::clone(epoch.insert(Arc::new(self.begin(at, file, step).await?))),
        };
        tracing::info!(dataset = %at, ?step, "publishing");
        current.run(step, &self.0.pipeline).await
    }

    /// Collects what an epoch needs and journals that it begins.
    async fn begin(&self, at: &Location, id: FileId, first: Step) -> Result<Epoch, EpochError> {
        let (location, target, judged, cancelled) = {
            let mut sources = self.0.sources.lock();
            let source = sources.get_mut(&id).ok_or(EpochError::Cancelled)?;
            let Some((_, Found::Netcdf(judged))) = &source.found else {
                return Err(EpochError::Cancelled);
            };
            let judged = Arc::clone(judged);
            source.step(source::Event::Assigned);
            let cancelled = Arc::clone(&source.cancelled);
            (source.location.clone(), source.target.clone(), judged, cancelled)
        };
        let record = self.record(id, &location).await?;
        let mut before = self.fetch(at).await?;
        if self.leftover_note(at) && matches!(*before, Published::Absent | Published::Foreign(_)) {
            // What the crash interrupted had not put its receipt yet.
            before = Arc::new(Published::Leftover { receipts: vec![] });
        }
        // Another file may have made the dataset since this one was judged.
        let verdict = judge::may_write(&location, &target, &before)
            .map_err(|refusal| EpochError::Refused(refusal.message))?;
        if (verdict == Verdict::Replace) != (first == Step::Withdraw) {
            return Err(EpochError::LostRace(at.clone()));
        }
        if matches!(*before, Published::Absent) {
            // What was learnt at the copy may be old by now. Chunks must not go over another's.
            let listing = self.0.pipeline.link.list_folder(at).await?;
            if !listing.objects.is_empty() || !listing.folders.is_empty() {
                return Err(EpochError::LostRace(at.clone()));
            }
        }
        let name = uuid::Uuid::now_v7().to_string();
        let epoch = Epoch::new(at, judged, record, before, cancelled, name)?;
        self.note_epoch(at, Some(id));
        Ok(epoch)
    }

    async fn record(&self, id: FileId, location: &Location) -> Result<SourceRecord, EpochError> {
        let file = self.0.staging.file(id).ok_or(EpochError::Cancelled)?;
        let digest = tasks::blocking("digest", move || {
            Digest::of_source(file.as_ref()).map(|digest| (digest, file.len()))
        })
        .await
        .ok_or(EpochError::Defect("computing a digest panicked"))?;
        let (digest, bytes) = digest.map_err(|error| {
            EpochError::Source(format!("cannot read the staged bytes: {error}"))
        })?;
        let mtime = self.0.tree.entry(Ino(id.0)).map(|entry| entry.attributes.mtime);
        let mtime_ns = mtime.map(receipt::nanoseconds).unwrap_or_default();
        Ok(SourceRecord { name: location.name().to_owned(), bytes, mtime_ns, digest })
    }

    pub(super) async fn fetch(&self, at: &Location) -> Result<Arc<Published>, StoreError> {
        self.0.known.fetch(&self.0.tree, &self.0.pipeline.link, at).await
    }

    fn committed(&self, at: &Location, id: FileId, epoch: &Epoch) {
        self.0.known.set(at, epoch.after());
        self.note_epoch(at, None);
        self.0.tree.invalidate(at);
        self.settle_committed(id);
        tracing::info!(dataset = %at, "published");
    }

    fn failed(&self, at: &Location, id: FileId, error: Option<EpochError>) {
        let is_damaged = matches!(error, Some(EpochError::Source(_)));
        let reason = error.map_or_else(|| "the epoch failed".to_owned(), |error| error.to_string());
        // What is in the bucket may not be what it was thought to be.
        self.0.known.forget(at);
        let mut sources = self.0.sources.lock();
        if let Some(source) = sources.get_mut(&id) {
            tracing::error!(source = %source.location, dataset = %at, reason, "ingest failed; the bytes are kept");
            source.step(if is_damaged {
                source::Event::Damaged(reason)
            } else {
                source::Event::Failed(reason)
            });
        }
        drop(sources);
        self.0.settled.notify_waiters();
    }

    /// Removes the chunks of an epoch that will never be shown.
    async fn abandoned(&self, at: &Location, epoch: &Epoch) {
        tracing::info!(dataset = %at, "given up because the file was withdrawn");
        self.0.known.forget(at);
        match epoch.clear(&self.0.pipeline.link).await {
            Ok(()) => self.note_epoch(at, None),
            // The note stays: the next epoch of this dataset clears first.
            Err(error) => tracing::warn!(dataset = %at, %error, "leftovers were not removed"),
        }
    }

    /// Whether an epoch of this dataset was begun and never ended.
    pub(super) fn leftover_note(&self, at: &Location) -> bool {
        self.0.staging.noted(&epoch_key(at)).is_some()
    }

    fn note_epoch(&self, at: &Location, file: Option<FileId>) {
        let value = file.map(|file| serde_json::json!({ "source": file.0 }));
        if let Err(error) = self.0.staging.note(&epoch_key(at), value.as_ref()) {
            tracing::error!(dataset = %at, %error, "cannot write the journal");
        }
    }
}

fn epoch_key(at: &Location) -> String {
    format!("epoch:{at}")
}

/// A refusal of something whose dataset the store does not tell us about.
pub(super) fn refusal_of_store(error: &StoreError) -> Refusal {
    use super::refusal::Cause;
    let cause = match error {
        StoreError::Passing { .. } => Cause::Unreachable,
        StoreError::Denied { .. } => Cause::Denied,
        _ => Cause::Unsupported,
    };
    Refusal::new(cause, error.to_string())
}
