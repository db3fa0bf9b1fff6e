//! The engine's shared state, and the loop that runs one dataset.
//!
//! Events go into the machines under a lock and never wait; whatever has to be done is done by a
//! task outside of it. There is one such task per dataset at a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::chunks::Pipeline;
use super::dataset::{self, Action, Dataset, Event};
use super::epoch::{Epoch, EpochError};
use super::gathering::Gathering;
use super::import_journal::ImportJournal;
use super::judge::Found;
use super::names::{self, Target};
use super::published::{Known, Published};
use super::refusal::Refusal;
use super::source;
use crate::base::clock::Clock;
use crate::base::permits::Budget;
use crate::base::tasks;
use crate::namespace::Tree;
use crate::plan::Encoding;
use crate::staging::{FileId, Staging};
use crate::store::{Link, Location, StoreError};
use crate::telemetry::tally::Tally;
use crate::upload::Queue;

/// Datasets written side by side: enough to hide round trips of many small ones, few enough to
/// bound the files held open.
const EPOCHS_AT_ONCE: usize = 32;

/// How often an epoch that somebody else's overtook is planned anew.
const RACES_MAX: usize = 8;

/// Documents that make a folder a Zarr group or array.
const ROOT_DOCUMENTS: [&str; 3] = ["zarr.json", ".zgroup", ".zarray"];

/// What the user chose.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--ingest`: off stores source files like any other.
    pub enabled: bool,
    /// How datasets are laid out.
    pub encoding: Encoding,
    /// `--idle`: a dataset publishes after so long without open files or arrivals.
    pub idle: Duration,
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
    /// Time.
    pub clock: Clock,
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
    /// Files that datasets have accepted and not published yet.
    pub(super) gatherings: Mutex<HashMap<Location, Gathering>>,
    /// Datasets whose receipts were deleted because something of them was, and not put again.
    pub(super) without_receipts: Mutex<HashSet<Location>>,
    /// Datasets that receipts were put for.
    pub(super) with_receipts: Mutex<HashSet<Location>>,
    /// Files whose last close was refused, until that is their state.
    pub(super) refused: Mutex<HashMap<FileId, (Location, Target, Refusal)>>,
    /// Counts accepted files: their order of arrival.
    pub(super) arrivals: AtomicU64,
    /// Files sealed up to this one are to be published as soon as they are judged.
    pub(super) due_until: AtomicU64,
    pub(super) clock: Clock,
    /// When each dataset was last written to, while somebody waits for it to be left alone.
    pub(super) activity: Mutex<HashMap<Location, Instant>>,
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
        let pipeline = Pipeline::new(parts.link, parts.budget, parts.cpu_threads, parts.tally);
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
            gatherings: Mutex::default(),
            without_receipts: Mutex::default(),
            with_receipts: Mutex::default(),
            refused: Mutex::default(),
            arrivals: AtomicU64::new(0),
            due_until: AtomicU64::new(0),
            clock: parts.clock,
            activity: Mutex::default(),
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
        let is_final = |status: &SourceStatus| {
            matches!(status.state, source::State::Refused { .. } | source::State::Failed { .. })
        };
        // Who heard of a refusal can read it at once, whatever is still being done with the file.
        for (file, (location, target, refusal)) in &*self.0.refused.lock() {
            if all.iter().any(|status| status.file == *file && is_final(status)) {
                continue;
            }
            all.retain(|status| status.file != *file);
            all.push(SourceStatus {
                file: *file,
                location: location.clone(),
                dataset: target.dataset().clone(),
                state: source::State::Refused { refusal: refusal.clone() },
            });
        }
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
        // Who is still being judged is due when that is done.
        self.0.due_until.fetch_max(target, Ordering::AcqRel);
        self.try_again();
        let all: Vec<Location> = self.0.datasets.lock().keys().cloned().collect();
        for dataset in all {
            self.publish_if_due(&dataset);
        }
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

    /// Publishes what a flush waits for, once all of it is judged: an epoch that began before would
    /// miss files that belong among its own.
    pub(super) fn publish_if_due(&self, dataset: &Location) {
        let due_until = self.0.due_until.load(Ordering::Acquire);
        let (mut is_due, mut is_judged) = (false, true);
        for source in self.0.sources.lock().values() {
            if source.sequence <= due_until && source.target.dataset() == dataset {
                is_judged &= source.state != source::State::Sealed;
                is_due |= source.state == source::State::Waiting;
            }
        }
        if is_due && is_judged {
            self.feed(dataset, Event::Due);
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

    /// Whether files of a dataset wait and nothing of it is under way.
    pub(super) fn is_gathering(&self, at: &Location) -> bool {
        self.0.datasets.lock().get(at).is_some_and(Dataset::is_gathering)
    }

    fn next(&self, at: &Location) -> Action {
        self.0.datasets.lock().entry(at.clone()).or_default().proceed()
    }

    /// Runs one dataset until it rests.
    async fn drive(&self, at: Location, mut action: Action) {
        // The semaphore is never closed.
        let _slot = self.0.epochs.acquire().await.ok();
        let mut epoch: Option<Arc<Epoch>> = None;
        let mut last_error = None;
        let mut races = 0;
        loop {
            action = match action {
                Action::Rest => return,
                Action::Begin(files) => match self.begin(&at, &files).await {
                    Ok((begun, kind)) => {
                        epoch = Some(Arc::new(begun));
                        self.apply(&at, Event::Begun(kind))
                    }
                    Err(error) => self.apply(&at, went_wrong(error, &mut races, &mut last_error)),
                },
                Action::Run(step) => {
                    tracing::info!(dataset = %at, ?step, "publishing");
                    let outcome = match &epoch {
                        Some(epoch) => epoch.run(step, &self.0.pipeline).await,
                        None => Err(EpochError::Defect("a step of no epoch")),
                    };
                    match outcome {
                        Ok(()) => self.apply(&at, Event::StepDone),
                        Err(error) => {
                            self.0.known.forget(&at);
                            self.gathering_published(&at);
                            self.apply(&at, went_wrong(error, &mut races, &mut last_error))
                        }
                    }
                }
                Action::Commit(files) => {
                    races = 0;
                    if let Some(epoch) = epoch.take() {
                        remove_journal(&epoch);
                        self.committed(&at, &files, &epoch);
                    }
                    self.next(&at)
                }
                Action::Fail(files) => {
                    epoch = None;
                    self.failed(&at, &files, last_error.take());
                    self.next(&at)
                }
                Action::Abandon => {
                    if let Some(epoch) = epoch.take() {
                        self.abandoned(&at, &epoch).await;
                    }
                    self.next(&at)
                }
            };
        }
    }

    /// What is in the bucket, however long the store does not answer.
    pub(super) async fn fetch(&self, at: &Location) -> Result<Arc<Published>, Refusal> {
        self.await_deletions(at, true).await?;
        let published = self.0.known.fetch(&self.0.tree, &self.0.pipeline.link, at).await;
        published.map_err(|error| refusal_of_store(&error))
    }

    fn committed(&self, at: &Location, files: &[FileId], epoch: &Epoch) {
        self.0.without_receipts.lock().remove(at);
        self.0.with_receipts.lock().insert(at.clone());
        match epoch.after() {
            Ok(after) => self.0.known.set(at, after),
            Err(_) => self.0.known.forget(at),
        }
        self.gathering_published(at);
        self.note_epoch(at, None);
        self.0.tree.invalidate(at);
        for file in files {
            self.settle_committed(*file);
        }
        tracing::info!(dataset = %at, files = files.len(), "published");
    }

    fn failed(&self, at: &Location, files: &[FileId], error: Option<EpochError>) {
        // With several files it is not known whose bytes are at fault.
        let is_damaged = matches!(error, Some(EpochError::Source(_))) && files.len() == 1;
        let reason = error.map_or_else(|| "the epoch failed".to_owned(), |error| error.to_string());
        // What is in the bucket may not be what it was thought to be.
        self.0.known.forget(at);
        self.gathering_published(at);
        for file in files {
            self.fail_file(*file, reason.clone(), is_damaged);
        }
        self.0.settled.notify_waiters();
    }

    pub(super) fn fail_file(&self, id: FileId, reason: String, is_damaged: bool) {
        let mut sources = self.0.sources.lock();
        let Some(source) = sources.get_mut(&id) else { return };
        tracing::error!(source = %source.location, reason, "ingest failed; the bytes are kept");
        source.step(if is_damaged {
            source::Event::Damaged(reason)
        } else {
            source::Event::Failed(reason)
        });
    }

    /// Removes the chunks of an epoch that will never be shown.
    async fn abandoned(&self, at: &Location, epoch: &Epoch) {
        tracing::info!(dataset = %at, "given up because a file was withdrawn");
        self.0.known.forget(at);
        self.gathering_published(at);
        remove_journal(epoch);
        match epoch.take_back(&self.0.pipeline.link).await {
            Ok(()) => self.note_epoch(at, None),
            // The note stays: the next epoch of this dataset clears first.
            Err(error) => tracing::warn!(dataset = %at, %error, "leftovers were not removed"),
        }
    }

    /// Whether an epoch of this dataset was begun and never ended.
    pub(super) fn leftover_note(&self, at: &Location) -> bool {
        self.0.staging.noted(&epoch_key(at)).is_some()
    }

    /// Notes that an epoch of this dataset, of so many files, is under way, or that none is.
    pub(super) fn note_epoch(&self, at: &Location, files: Option<usize>) {
        let value = files.map(|files| serde_json::json!({ "files": files }));
        if let Err(error) = self.0.staging.note(&epoch_key(at), value.as_ref()) {
            tracing::error!(dataset = %at, %error, "cannot write the journal");
        }
    }
}

/// What a dataset is told of an error, which is kept for whoever has to be told.
fn went_wrong(error: EpochError, races: &mut usize, last_error: &mut Option<EpochError>) -> Event {
    if matches!(error, EpochError::LostRace(_)) && *races < RACES_MAX {
        *races += 1;
        tracing::info!(%error, "planned anew");
        return Event::LostRace;
    }
    *last_error = Some(error);
    Event::Failed
}

/// Nothing goes on with what this epoch has put.
fn remove_journal(epoch: &Epoch) {
    if let Some(Err(error)) = epoch.work.journal.as_ref().map(ImportJournal::remove) {
        tracing::warn!(%error, "the journal of an epoch was not removed");
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
