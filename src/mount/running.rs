//! The engine of a live mount: what the life cycle asks of staging, ingest, upload and store.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;

use super::engine::{Engine, FlushReport};
use super::status::{EngineStatus, ItemStatus, Left, QueueStatus, SpoolStatus, State, StoreStatus};
use super::wiring::left_of;
use crate::base::clock::Clock;
use crate::base::units::ByteSize;
use crate::fs::{Barrier, Cut, Fs, SessionEnd, StatusText};
use crate::ingest::{Ingest, SourceStatus, dataset, source};
use crate::namespace::{Ino, Tree};
use crate::staging::{FileId, Recovered, RecoveredFile, StagedFile, Staging};
use crate::store::{Link, Location};
use crate::telemetry::counters::StoreCounters;
use crate::telemetry::progress::{Progress, Silent, Stage, Transfer};
use crate::telemetry::tally::Tally;
use crate::upload::{Pending, Queue};

/// How often a flush says how far it is.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// How long a flush waits for files that a close has sealed to turn out closed. Only a program that
/// holds on to a file after closing a copy of its descriptor makes it wait so long; on a busy machine
/// the kernel may take its time to tell.
const RELEASE_DELAY: Duration = Duration::from_secs(5);

/// How often it looks.
const RELEASE_POLL: Duration = Duration::from_millis(5);

/// Lines of the `status` file at most.
const STATUS_ITEMS_MAX: usize = 1000;

/// Everything below the file system.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) link: Link,
    pub(super) counters: Arc<StoreCounters>,
    pub(super) staging: Arc<Staging>,
    pub(super) tree: Arc<Tree>,
    pub(super) queue: Queue,
    pub(super) ingest: Ingest,
    pub(super) tally: Arc<Tally>,
    pub(super) clock: Clock,
    pub(super) timeout: Duration,
}

/// A live mount.
#[derive(Debug)]
pub(super) struct Running {
    core: Arc<Core>,
    filesystem: Arc<Fs>,
    taken_over: QueueStatus,
    /// Copies that were cut short by the death of an earlier daemon.
    partial: Vec<RecoveredFile>,
}

impl Running {
    pub(super) fn new(core: Arc<Core>, filesystem: Arc<Fs>, recovered: &Recovered) -> Self {
        let (closed, partial): (Vec<_>, Vec<_>) =
            recovered.files.iter().cloned().partition(|file| file.closed);
        for file in &partial {
            tracing::warn!(path = %file.path, "partial: {:?}; not sent", file.state);
        }
        let taken_over = QueueStatus {
            items: (closed.len() + recovered.deletes.len()) as u64,
            bytes: closed.iter().map(|file| file.size).sum(),
        };
        Self { core, filesystem, taken_over, partial }
    }

    /// Partial copies that nothing has taken the place of.
    fn partial(&self) -> impl Iterator<Item = &RecoveredFile> {
        self.partial.iter().filter(|file| self.core.staging.file(file.id).is_some())
    }
}

#[async_trait]
impl Engine for Running {
    fn status(&self) -> EngineStatus {
        let mut status = self.core.status();
        status.recovered = self.taken_over;
        status.files.extend(self.partial().map(|file| {
            let left = left_of(file);
            item(left.path, left.state, left.reason, left.bytes)
        }));
        status
    }

    async fn flush(
        &self,
        scope: &Location,
        progress: &dyn Progress,
        patience: Duration,
    ) -> FlushReport {
        self.core.flush(scope, progress, patience).await
    }

    fn session_ended(&self, end: SessionEnd) -> Vec<Left> {
        let cut = self.filesystem.session_ended(end);
        cut.iter().map(left_of_cut).collect()
    }

    async fn shutdown(&self) {
        self.core.queue.stop();
        self.core.ingest.drop_refused();
        self.core.drop_placeholders();
        match self.core.staging.close_clean() {
            Ok(true) => tracing::info!("nothing is left in staging"),
            Ok(false) => tracing::info!("staging keeps what was not sent"),
            Err(error) => tracing::error!(%error, "staging could not be closed"),
        }
    }
}

impl Core {
    /// What the file system calls for a sync of the mount's root.
    pub(super) fn barrier(self: &Arc<Self>) -> Barrier {
        let core = Arc::clone(self);
        Arc::new(move || {
            let core = Arc::clone(&core);
            Box::pin(async move {
                let report = core.flush(&Location::root(), &Silent, core.timeout).await;
                match report.left.first() {
                    None => Ok(()),
                    Some(left) => Err(format!(
                        "{} files are not in the bucket, among them {}: {}",
                        report.left.len(),
                        left.path,
                        left.reason.as_deref().unwrap_or("the store did not answer in time")
                    )),
                }
            })
        })
    }

    /// The text of the `status` file in the mount.
    pub(super) fn status_text(self: &Arc<Self>) -> StatusText {
        let core = Arc::clone(self);
        Arc::new(move || text_of(&core.status()))
    }

    fn status(&self) -> EngineStatus {
        let usage = self.staging.usage();
        let pending = self.queue.pending();
        let sources = self.ingest.sources();
        let unfinished = sources.iter().filter(|s| s.state != source::State::Committed);
        let files = unfinished
            .map(|source| {
                let left = self.left_of_source(source);
                item(left.path, left.state, left.reason, left.bytes)
            })
            .chain(pending.iter().map(|pending| {
                let mut status = self.left_of_pending(pending).into_item();
                status.since = pending.failure.as_ref().and_then(|f| rfc3339(f.since_ms));
                status
            }))
            .collect();
        let datasets = self.ingest.datasets().into_iter().filter_map(|(at, state)| {
            let state = match state {
                dataset::State::Gathering => State::Waiting,
                dataset::State::Filling => State::Sending,
                dataset::State::Publishing => State::Publishing,
                dataset::State::Open | dataset::State::Published => return None,
            };
            Some(item(at.to_string(), state, None, 0))
        });
        EngineStatus {
            store: StoreStatus {
                identity: self.link.identity().to_string(),
                capabilities: serde_json::Map::new(),
                offline: self.offline(),
            },
            files,
            datasets: datasets.collect(),
            queue: QueueStatus { items: outstanding(&pending, &sources), bytes: usage.bytes },
            spool: SpoolStatus {
                bytes: usage.bytes,
                bytes_max: usage.bytes_max,
                files: usage.files,
            },
            requests: self.counters.snapshot(),
            recovered: QueueStatus::default(),
            bottleneck: self.tally.activities().recent(),
        }
    }

    fn offline(&self) -> Option<String> {
        let outage = self.link.outage()?;
        let since = humantime::format_rfc3339_seconds(outage.since).to_string();
        let wait = outage.next_attempt.duration_since(self.clock.wall()).unwrap_or_default();
        let wait_s = wait.as_secs_f64().ceil();
        Some(format!("offline since {since}, retry in {wait_s} s: {}", outage.reason))
    }

    async fn flush(
        &self,
        scope: &Location,
        progress: &dyn Progress,
        patience: Duration,
    ) -> FlushReport {
        let mut gave_up_after = None;
        if !patience.is_zero() {
            self.await_releases(scope).await;
        }
        let open = self.open_files(scope);
        // What is released from here on is not waited for, and being on its way is no failure.
        let asked: HashSet<String> = self.left(scope).into_iter().map(|left| left.path).collect();
        if !patience.is_zero() {
            let work = async {
                tokio::join!(self.ingest.flush(), self.queue.flush_within(scope));
                // A source file may have turned out to be an object.
                self.queue.flush_within(scope).await;
            };
            gave_up_after = self.watch(work, progress, patience).await;
        }
        let mut left = self.left(scope);
        left.retain(|left| left.state == State::Failed || asked.contains(&left.path));
        let bottleneck = self.tally.activities().finish();
        FlushReport { left, open, gave_up_after, bottleneck }
    }

    /// The kernel tells of a last close a moment after close(2) has returned to the program: a file
    /// that is open may be closed already for those who ask.
    async fn await_releases(&self, scope: &Location) {
        let start = self.clock.now();
        while self.clock.now().duration_since(start) < RELEASE_DELAY
            && self.open(scope).any(|(file, _)| file.is_sealed())
        {
            self.clock.sleep(RELEASE_POLL).await;
        }
    }

    /// Runs `work` for as long as something moves. Returns how long nothing had, if it gave up.
    async fn watch(
        &self,
        work: impl Future<Output = ()>,
        progress: &dyn Progress,
        patience: Duration,
    ) -> Option<Duration> {
        tokio::pin!(work);
        let (settled, objects) = (self.tally.settled_bytes(), self.tally.objects());
        let mut moved = (self.movement(), self.clock.now());
        loop {
            tokio::select! {
                () = &mut work => {
                    progress.report(self.transfer(Stage::Done, settled, objects));
                    return None;
                }
                () = self.clock.sleep(REPORT_INTERVAL) => {}
            }
            progress.report(self.transfer(self.stage(), settled, objects));
            let movement = self.movement();
            if movement != moved.0 {
                moved = (movement, self.clock.now());
            } else if self.clock.now().duration_since(moved.1) >= patience {
                return Some(patience);
            }
        }
    }

    /// Changes whenever something moves.
    fn movement(&self) -> (u64, u64, u64, usize) {
        let sent = self.counters.bytes_sent.get();
        (self.tally.settled_bytes(), self.tally.objects(), sent, self.queue.len())
    }

    fn stage(&self) -> Stage {
        let publishing =
            self.ingest.datasets().iter().any(|(_, s)| *s == dataset::State::Publishing);
        if publishing { Stage::Publishing } else { Stage::Sending }
    }

    fn transfer(&self, stage: Stage, settled_before: u64, objects_before: u64) -> Transfer {
        let bytes_done = self.tally.settled_bytes().saturating_sub(settled_before);
        let objects_done = self.tally.objects().saturating_sub(objects_before);
        Transfer {
            stage,
            bytes_done,
            bytes_total: bytes_done + self.staging.usage().bytes,
            objects_done,
            objects_total: objects_done + self.queue.len() as u64,
        }
    }

    /// Acknowledged and not in the bucket.
    fn left(&self, scope: &Location) -> Vec<Left> {
        let sources = self.ingest.sources();
        let acknowledged = |state: &source::State| {
            state.is_outstanding() || matches!(state, source::State::Failed { .. })
        };
        let sources = sources
            .iter()
            .filter(|source| acknowledged(&source.state) && within(&source.location, scope))
            .map(|source| self.left_of_source(source));
        let pending = self.queue.pending();
        let pending = pending
            .iter()
            .filter(|pending| within(&pending.location, scope))
            .map(|pending| self.left_of_pending(pending));
        sources.chain(pending).collect()
    }

    fn left_of_source(&self, source: &SourceStatus) -> Left {
        let (state, reason) = match &source.state {
            source::State::Growing => (State::Growing, None),
            source::State::Sealed => (State::Sealed, None),
            source::State::Judged | source::State::Waiting | source::State::Committed => {
                (State::Waiting, None)
            }
            source::State::Assigned => (State::Sending, None),
            source::State::Refused { refusal } => (State::Refused, Some(refusal.message.clone())),
            source::State::Failed { reason, .. } => (State::Failed, Some(reason.clone())),
            source::State::Partial => (State::Partial, None),
        };
        let reason = reason.or_else(|| self.offline());
        Left { path: source.location.to_string(), state, reason, bytes: self.bytes(source.file) }
    }

    fn left_of_pending(&self, pending: &Pending) -> Left {
        let state = match (&pending.failure, pending.is_sending) {
            (Some(_), _) => State::Failed,
            (None, true) => State::Sending,
            (None, false) => State::Waiting,
        };
        let failure = pending.failure.as_ref().map(|failure| failure.reason.clone());
        let waits_for = pending.waits_for.as_ref();
        let reason = failure
            .or_else(|| waits_for.map(|at| format!("waits for `{at}`, which is open for writing")));
        Left {
            path: pending.location.to_string(),
            state,
            reason: reason.or_else(|| self.offline()),
            bytes: pending.file.map_or(0, |file| self.bytes(file)),
        }
    }

    fn bytes(&self, file: FileId) -> u64 {
        self.staging.file(file).map_or(0, |file| file.len())
    }

    /// Staged files that count as open for writing.
    fn open(&self, scope: &Location) -> impl Iterator<Item = (Arc<StagedFile>, Location)> {
        let staged = self.tree.staged_below(Ino::ROOT).into_iter();
        staged
            .filter(|(_, path)| within(path, scope))
            .filter_map(|(ino, path)| Some((self.staging.file(FileId(ino.0))?, path)))
            .filter(|(file, _)| file.writers() > 0)
    }

    fn open_files(&self, scope: &Location) -> Vec<String> {
        self.open(scope).map(|(_, path)| path.to_string()).collect()
    }

    /// Empty files under source names stand for something that never came.
    fn drop_placeholders(&self) {
        for (ino, path) in self.tree.staged_below(Ino::ROOT) {
            let id = FileId(ino.0);
            let empty = self.staging.file(id).is_some_and(|file| file.is_empty());
            if empty && self.ingest.claims(&path) {
                tracing::warn!(%path, "an empty source file is not kept");
                if let Err(error) = self.staging.discard(id) {
                    tracing::error!(%error, "cannot write the journal");
                }
            }
        }
    }
}

fn left_of_cut(cut: &Cut) -> Left {
    let reason = if cut.is_partial {
        "it was still being written when the mount ended"
    } else {
        "it was being written again when the mount ended; its last closed content is kept"
    };
    Left {
        path: cut.path.to_string(),
        state: State::Partial,
        reason: Some(reason.to_owned()),
        bytes: cut.bytes,
    }
}

impl Left {
    fn into_item(self) -> ItemStatus {
        item(self.path, self.state, self.reason, self.bytes)
    }
}

fn outstanding(pending: &[Pending], sources: &[SourceStatus]) -> u64 {
    let sources = sources.iter().filter(|source| source.state.is_outstanding()).count();
    (pending.len() + sources) as u64
}

fn within(location: &Location, scope: &Location) -> bool {
    location == scope || location.is_below(scope)
}

fn item(path: String, state: State, reason: Option<String>, bytes: u64) -> ItemStatus {
    ItemStatus { path, state, reason, since: None, bytes }
}

fn rfc3339(since_ms: u64) -> Option<String> {
    let time = UNIX_EPOCH.checked_add(Duration::from_millis(since_ms))?;
    Some(humantime::format_rfc3339_seconds(time).to_string())
}

fn text_of(status: &EngineStatus) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "store: {}\nin staging: {} of {}, {} to send\n",
        status.store.identity,
        ByteSize(status.spool.bytes),
        ByteSize(status.spool.bytes_max),
        status.queue.items
    );
    if let Some(bottleneck) = &status.bottleneck {
        // Writing to a String cannot fail.
        let _written = writeln!(text, "waits for: {bottleneck}").is_ok();
    }
    if let Some(offline) = &status.store.offline {
        let _written = writeln!(text, "{offline}").is_ok();
    }
    for file in status.files.iter().chain(&status.datasets).take(STATUS_ITEMS_MAX) {
        let reason = file.reason.as_deref().unwrap_or_default();
        let _written = writeln!(text, "{}: {} {reason}", file.path, file.state.as_str()).is_ok();
    }
    text
}
