//! From the file system to the machines: what CREATE, FLUSH, RELEASE, RENAME and unlink mean for a
//! source file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::dataset;
use super::driver::{Ingest, Source, refusal_of_store};
use super::gathering::Candidate;
use super::judge::{self, Found};
use super::names::Target;
use super::published::Published;
use super::refusal::{Cause, Refusal};
use super::rereading;
use super::source::{Event, State};
use crate::base::tasks;
use crate::namespace::Ino;
use crate::plan::Encoding;
use crate::plan::join::{Member, Overlap};
use crate::staging::{FileId, StagedFile};
use crate::store::{Location, Patience};

/// How long a CREATE or a stat waits for a store that does not answer.
pub(super) const ASKING_PATIENCE: Duration = Duration::from_secs(20);

/// What becomes of a sealed file.
enum Judgement {
    /// It is no source file after all.
    Object,
    /// It is in the bucket already.
    Same,
    /// It becomes part of its dataset.
    Accepted,
}

impl Ingest {
    /// Before CREATE, RENAME and truncation onto a source name: learns, once per dataset, what is
    /// in the bucket. May wait for the network. Refuses where no content could be right.
    pub async fn prepare(&self, location: &Location) -> Result<(), Refusal> {
        let Some(target) = self.target(location) else { return Ok(()) };
        let dataset = target.dataset();
        self.touch(dataset);
        let published = self.ask(dataset).await?;
        if self.leftover_note(dataset) {
            return Ok(());
        }
        match (&target, &*published) {
            (Target::OwnDataset(_), _) => {
                judge::may_write(location, dataset, &published).map(|_| ())
            }
            (Target::Joins { .. }, Published::Dataset(of)) => {
                self.existing(dataset, of, &self.asking()).await.map(|_| ())
            }
            (Target::Joins { .. }, _) => Ok(()),
        }
    }

    /// At FLUSH, and before a RENAME onto a source name: judges the staged bytes. Local work only,
    /// off the async threads. Not sticky. An empty file is a placeholder and passes.
    ///
    /// Whoever closes the file hears of a refusal. What is refused later, after a close that went
    /// well, is a failure: the bytes were acknowledged and are kept.
    pub async fn judge(&self, id: FileId, location: &Location) -> Result<(), Refusal> {
        let judged = self.judge_staged(id, location).await;
        {
            let mut refused = self.0.refused.lock();
            match (&judged, self.target(location)) {
                (Err(refusal), Some(target)) => {
                    refused.insert(id, (location.clone(), target, refusal.clone()));
                }
                _ => {
                    refused.remove(&id);
                }
            }
        }
        let key = refused_key(id);
        if judged.is_err() || self.0.staging.noted(&key).is_some() {
            let sentence = judged.as_ref().err().map(|refusal| refusal.message.clone().into());
            self.note(&key, sentence.as_ref());
        }
        judged
    }

    async fn judge_staged(&self, id: FileId, location: &Location) -> Result<(), Refusal> {
        let (Some(target), Some(file)) = (self.target(location), self.0.staging.file(id)) else {
            return Ok(());
        };
        if file.is_empty() {
            return Ok(());
        }
        self.touch(target.dataset());
        let Found::Netcdf(member) = self.examined(id, &file, location, &target).await? else {
            return Ok(());
        };
        self.check_memory(&member, target.dataset())?;
        let published = self.0.known.get(target.dataset());
        if let Some(published) = &published
            && self.is_there(&file, location, &target, &member, published).await?
        {
            return Ok(());
        }
        match (&target, published) {
            (Target::OwnDataset(dataset), Some(published)) => {
                judge::may_write(location, dataset, &published).map(|_| ())
            }
            (Target::OwnDataset(_), None) => Ok(()),
            (Target::Joins { .. }, _) => {
                let encoding = self.encoding_of(id, location, &target);
                let candidate = Candidate { id, file, member };
                self.join(&candidate, &target, &encoding, None).await
            }
        }
    }

    /// At RELEASE by the last writer, after the file was sealed: judged for good, then given to its
    /// dataset. Returns at once. A file that an earlier daemon left is laid out as that one was told.
    pub fn sealed(&self, id: FileId, location: &Location) {
        let noted = self.0.staging.noted(&source_key(id));
        let encoding = noted
            .and_then(|note| serde_json::from_value(note).ok())
            .unwrap_or_else(|| self.0.options.encoding.clone());
        let Some(target) = self.target(location) else {
            self.0.queue.released(id);
            return;
        };
        if self.0.staging.file(id).is_none_or(|file| file.is_empty()) {
            tracing::debug!(source = %location, "a placeholder: not ingested");
            return;
        }
        let sequence = self.0.sequence.fetch_add(1, Ordering::AcqRel) + 1;
        {
            let mut sources = self.0.sources.lock();
            let found = sources.remove(&id).and_then(|source| source.found);
            let mut source = Source {
                location: location.clone(),
                target,
                state: State::Growing,
                sequence,
                found,
                encoding,
                cancelled: Arc::new(AtomicBool::new(false)),
            };
            source.step(Event::Sealed);
            sources.insert(id, source);
        }
        self.spawn_take(id);
    }

    /// The file was deleted before it was committed, opened for writing again, or replaced by a
    /// newer copy: nothing of it is published any more. To be called before its bytes change.
    pub fn cancelled(&self, id: FileId) {
        self.0.refused.lock().remove(&id);
        self.forget_note(id);
        let removed = self.0.sources.lock().remove(&id);
        let Some(source) = removed else {
            // Accepted at a FLUSH, and not released since.
            if let Some(path) = self.0.tree.path(Ino(id.0))
                && let Some(target) = self.target(&path)
            {
                self.leave(id, target.dataset());
            }
            return;
        };
        self.leave(id, source.target.dataset());
        source.cancelled.store(true, Ordering::Release);
        self.feed(source.target.dataset(), dataset::Event::Cancelled(id));
        self.0.settled.notify_waiters();
    }

    /// The file has another name now. Not committed yet, it follows the new name.
    pub fn renamed(&self, id: FileId, to: &Location) {
        let known = self.0.sources.lock().contains_key(&id);
        self.cancelled(id);
        if known {
            self.sealed(id, to);
        }
    }

    /// What was refused or failed under this name.
    pub fn refusal(&self, location: &Location) -> Option<Refusal> {
        self.refusals().into_iter().find(|(at, _)| at == location).map(|(_, refusal)| refusal)
    }

    /// All that was refused or failed, by name.
    pub fn refusals(&self) -> Vec<(Location, Refusal)> {
        let sources = self.sources().into_iter();
        sources
            .filter_map(|source| match source.state {
                State::Refused { refusal } => Some((source.location, refusal)),
                State::Failed { reason, is_damaged } => {
                    let cause = if is_damaged { Cause::Corrupt } else { Cause::Unreachable };
                    Some((source.location, Refusal::new(cause, reason)))
                }
                _ => None,
            })
            .collect()
    }

    /// At the end of a mount: the bytes of refused files, which nobody was promised, are dropped.
    pub fn drop_refused(&self) {
        let refused = |status: &super::SourceStatus| matches!(status.state, State::Refused { .. });
        for source in self.sources().into_iter().filter(refused) {
            tracing::warn!(source = %source.location, "refused, and not kept");
            self.cancelled(source.file);
            if let Err(error) = self.0.staging.discard(source.file) {
                tracing::error!(%error, "cannot write the journal");
            }
        }
    }

    pub(super) fn spawn_take(&self, id: FileId) {
        let engine = self.clone();
        tasks::spawn("intake", async move { engine.take(id).await });
    }

    /// Judges a sealed file for good and hands it on.
    async fn take(&self, id: FileId) {
        let Some((location, target)) = ({
            let sources = self.0.sources.lock();
            sources.get(&id).map(|source| (source.location.clone(), source.target.clone()))
        }) else {
            return;
        };
        let outcome = self.judge_for_good(id, &location, &target).await;
        let mut sources = self.0.sources.lock();
        self.0.refused.lock().remove(&id);
        let Some(source) = sources.get_mut(&id).filter(|source| source.location == location) else {
            return;
        };
        let sequence = source.sequence;
        match outcome {
            Ok(Judgement::Object) => {
                sources.remove(&id);
                drop(sources);
                self.0.queue.released(id);
            }
            Ok(Judgement::Same) => {
                source.step(Event::Accepted);
                drop(sources);
                tracing::info!(source = %location, "in the bucket already; nothing to send");
                self.settle_committed(id);
            }
            Ok(Judgement::Accepted) => {
                source.step(Event::Accepted);
                let now = matches!(target, Target::OwnDataset(_)) || self.is_short_of_room();
                if !now {
                    source.step(Event::Postponed);
                }
                drop(sources);
                let dataset = target.dataset();
                self.feed(dataset, dataset::Event::Arrived { file: id, now });
                if !now {
                    self.publish_when_idle(dataset);
                }
            }
            Err(refusal) => {
                tracing::warn!(source = %location, %refusal, "refused");
                source.step(if self.0.staging.noted(&refused_key(id)).is_some() {
                    Event::Refused(refusal)
                } else {
                    Event::Failed(refusal.message)
                });
                drop(sources);
            }
        }
        if sequence <= self.0.due_until.load(Ordering::Acquire) {
            self.publish_if_due(target.dataset());
        }
        self.0.settled.notify_waiters();
    }

    async fn judge_for_good(
        &self,
        id: FileId,
        location: &Location,
        target: &Target,
    ) -> Result<Judgement, Refusal> {
        let gone = || Refusal::new(Cause::Corrupt, "the staged file is gone");
        let file = self.0.staging.file(id).ok_or_else(gone)?;
        let dataset = target.dataset();
        let published = self.fetch(dataset).await?;
        let link = &self.0.pipeline.link;
        if let (Target::Joins { .. }, Published::Dataset(of)) = (target, &*published) {
            // Its metadata says in which format the file is planned.
            self.existing(dataset, of, link).await?;
        }
        let Found::Netcdf(member) = self.examined(id, &file, location, target).await? else {
            return Ok(Judgement::Object);
        };
        if self.is_there(&file, location, target, &member, &published).await? {
            return Ok(Judgement::Same);
        }
        if self.0.staging.noted(&refused_key(id)).is_some() {
            // What was acknowledged is taken, also by a daemon that has less memory.
            self.check_memory(&member, dataset)?;
        }
        match target {
            Target::OwnDataset(_) => {
                let is_shown = matches!(*published, Published::Dataset(_));
                // Our own epoch was interrupted there: whatever it left is cleared away first.
                if is_shown || !self.leftover_note(dataset) {
                    judge::may_write(location, dataset, &published)?;
                }
            }
            Target::Joins { .. } => {
                let encoding = self.encoding_of(id, location, target);
                let candidate = Candidate { id, file, member };
                self.join(&candidate, target, &encoding, Some(link)).await?;
            }
        }
        Ok(Judgement::Accepted)
    }

    fn check_memory(&self, member: &Member, dataset: &Location) -> Result<(), Refusal> {
        let existing = self.0.known.existing(dataset);
        rereading::check(member, existing.as_deref(), &self.0.pipeline)
    }

    /// Whether files that wait keep others from being copied.
    fn is_short_of_room(&self) -> bool {
        let usage = self.0.staging.usage();
        usage.bytes > usage.bytes_max / 2
    }

    /// How a file is laid out: as an existing dataset is, where there is one.
    fn encoding_of(&self, id: FileId, location: &Location, target: &Target) -> Encoding {
        let own = self.0.sources.lock().get(&id).map(|source| source.encoding.clone());
        let mut encoding = own.unwrap_or_else(|| self.0.options.encoding.clone());
        if let Target::Joins { dataset, .. } = target
            && let Some(existing) = self.0.known.existing(dataset)
        {
            let format = existing.hierarchy.format();
            if format != encoding.format {
                tracing::debug!(source = %location, %format, "the format of the dataset holds");
            }
            encoding.format = format;
            encoding.consolidated = existing.consolidated;
        }
        encoding
    }

    async fn examined(
        &self,
        id: FileId,
        file: &Arc<StagedFile>,
        location: &Location,
        target: &Target,
    ) -> Result<Found, Refusal> {
        let generation = file.generation();
        let encoding = self.encoding_of(id, location, target);
        let cached = self.0.sources.lock().get(&id).and_then(|source| source.found.clone());
        if let Some((known, found)) = cached
            && known == generation
            && !matches!(&found, Found::Netcdf(member) if member.format != encoding.format)
        {
            return Ok(found);
        }
        let (source, at, landing) = (Arc::clone(file), location.clone(), target.landing());
        let layout = encoding.clone();
        let found =
            tasks::blocking("judge", move || judge::examine(source, &at, &landing, &layout))
                .await
                .unwrap_or_else(|| {
                    Err(Refusal::new(
                        Cause::Corrupt,
                        "reading it met a defect of this program; please report it",
                    ))
                })?;
        if let Some(source) = self.0.sources.lock().get_mut(&id) {
            source.found = Some((generation, found.clone()));
            self.note_encoding(id, &encoding);
        }
        Ok(found)
    }

    /// Whether the content is in the bucket already. Under another name it adds nothing only where
    /// coordinates say so.
    async fn is_there(
        &self,
        file: &Arc<StagedFile>,
        location: &Location,
        target: &Target,
        member: &Arc<Member>,
        published: &Arc<Published>,
    ) -> Result<bool, Refusal> {
        let name = target.record_name(location.name());
        let joins = matches!(target, Target::Joins { .. });
        let dataset = target.dataset();
        let any_name = joins
            && self
                .0
                .known
                .existing(dataset)
                .is_some_and(|existing| existing.is_idempotent(member));
        let must_hold = self.0.options.encoding.join.overlap == Overlap::Replace;
        let (file, published) = (Arc::clone(file), Arc::clone(published));
        tasks::blocking("compare", move || {
            judge::is_there(&name, any_name, must_hold, &published, file.as_ref())
        })
        .await
        .unwrap_or_else(|| Err(Refusal::new(Cause::Corrupt, "comparing met a defect")))
    }

    pub(super) async fn ask(&self, dataset: &Location) -> Result<Arc<Published>, Refusal> {
        self.await_deletions(dataset, false).await?;
        let link = self.0.pipeline.link.with_patience(Patience::UpTo(ASKING_PATIENCE));
        self.0.known.fetch(&self.0.tree, &link, dataset).await.map_err(|e| refusal_of_store(&e))
    }

    /// The file is in the bucket: staging is freed and the name stays, with its size and mtime.
    pub(super) fn settle_committed(&self, id: FileId) {
        let bytes = self.0.staging.file(id).map_or(0, |file| file.len());
        let generation = {
            let mut sources = self.0.sources.lock();
            let Some(source) = sources.get_mut(&id) else { return };
            source.step(Event::Committed);
            let found = source.found.take();
            found.map(|(generation, _)| generation)
        };
        let Some(generation) = generation else { return };
        match self.0.staging.uploaded(id, generation) {
            Ok(true) => {
                self.0.tree.ingested(Ino(id.0));
                self.0.pipeline.tally.settled(bytes);
                self.forget_note(id);
            }
            Ok(false) => tracing::debug!("the source was written again meanwhile"),
            Err(error) => tracing::error!(%error, "cannot write the journal"),
        }
        self.0.settled.notify_waiters();
    }

    fn note_encoding(&self, id: FileId, encoding: &Encoding) {
        let noted = serde_json::to_value(encoding)
            .map_err(std::io::Error::other)
            .and_then(|value| self.0.staging.note(&source_key(id), Some(&value)));
        if let Err(error) = noted {
            tracing::error!(%error, "cannot write the journal");
        }
    }

    fn forget_note(&self, id: FileId) {
        for key in [source_key(id), refused_key(id)] {
            if self.0.staging.noted(&key).is_some() {
                self.note(&key, None);
            }
        }
    }

    fn note(&self, key: &str, value: Option<&serde_json::Value>) {
        if let Err(error) = self.0.staging.note(key, value) {
            tracing::error!(%error, "cannot write the journal");
        }
    }
}

/// Noted while the last close of the file was answered with a refusal.
fn refused_key(id: FileId) -> String {
    format!("refused:{}", id.0)
}

fn source_key(id: FileId) -> String {
    format!("source:{}", id.0)
}
