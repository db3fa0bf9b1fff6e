//! From the file system to the machines: what CREATE, FLUSH, RELEASE, RENAME and unlink mean for a
//! source file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::dataset;
use super::driver::{Ingest, Source, refusal_of_store};
use super::judge::{self, Found, Verdict};
use super::names::Target;
use super::published::Published;
use super::refusal::{Cause, Refusal};
use super::source::{Event, State};
use crate::base::tasks;
use crate::namespace::Ino;
use crate::plan::Encoding;
use crate::staging::{FileId, StagedFile};
use crate::store::{Location, Patience};

/// How long a CREATE or a stat waits for a store that does not answer.
pub(super) const ASKING_PATIENCE: Duration = Duration::from_secs(20);

impl Ingest {
    /// Before CREATE, RENAME and truncation onto a source name: learns, once per dataset, what is
    /// in the bucket. May wait for the network. Refuses where no content could be right.
    pub async fn prepare(&self, location: &Location) -> Result<(), Refusal> {
        let Some(target) = self.target(location) else { return Ok(()) };
        self.check_place(&target)?;
        let published = self.ask(target.dataset()).await?;
        if self.leftover_note(target.dataset()) {
            return Ok(());
        }
        judge::may_write(location, &target, &published).map(|_| ())
    }

    /// At FLUSH, and before a RENAME onto a source name: judges the staged bytes. Local work only,
    /// off the async threads. Not sticky. An empty file is a placeholder and passes.
    ///
    /// Whoever closes the file hears of a refusal. What is refused later, after a close that went
    /// well, is a failure: the bytes were acknowledged and are kept.
    pub async fn judge(&self, id: FileId, location: &Location) -> Result<(), Refusal> {
        let judged = self.judge_staged(id, location).await;
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
        self.check_place(&target)?;
        let found = self.examined(id, &file, location).await?;
        let (Found::Netcdf(_), Some(published)) = (found, self.0.known.get(target.dataset()))
        else {
            return Ok(());
        };
        self.verdict(&file, location, &target, published).await?;
        self.check_rivals(id, location, &target)
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
        self.forget_note(id);
        let Some(source) = self.0.sources.lock().remove(&id) else { return };
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
        let Some(source) = sources.get_mut(&id).filter(|source| source.location == location) else {
            return;
        };
        match outcome {
            Ok(None) => {
                sources.remove(&id);
                drop(sources);
                self.0.queue.released(id);
            }
            Ok(Some(Verdict::Same)) => {
                source.step(Event::Accepted);
                drop(sources);
                tracing::info!(source = %location, "in the bucket already; nothing to send");
                self.settle_committed(id);
            }
            Ok(Some(verdict)) => {
                source.step(Event::Accepted);
                drop(sources);
                let replaces = verdict == Verdict::Replace;
                self.feed(target.dataset(), dataset::Event::Arrived { file: id, replaces });
            }
            Err(refusal) => {
                tracing::warn!(source = %location, %refusal, "refused");
                source.step(if self.0.staging.noted(&refused_key(id)).is_some() {
                    Event::Refused(refusal)
                } else {
                    Event::Failed(refusal.message)
                });
            }
        }
        self.0.settled.notify_waiters();
    }

    /// `None`: not a source file after all.
    async fn judge_for_good(
        &self,
        id: FileId,
        location: &Location,
        target: &Target,
    ) -> Result<Option<Verdict>, Refusal> {
        let gone = || Refusal::new(Cause::Corrupt, "the staged file is gone");
        let file = self.0.staging.file(id).ok_or_else(gone)?;
        self.check_place(target)?;
        if matches!(self.examined(id, &file, location).await?, Found::Object) {
            return Ok(None);
        }
        let dataset = target.dataset();
        let published = self.fetch(dataset).await.map_err(|e| refusal_of_store(&e))?;
        if self.leftover_note(dataset) && !matches!(*published, Published::Receipted { .. }) {
            // Our own epoch was interrupted there: whatever it left is cleared away first.
            self.check_rivals(id, location, target)?;
            return Ok(Some(Verdict::Replace));
        }
        let verdict = self.verdict(&file, location, target, published).await?;
        self.check_rivals(id, location, target)?;
        Ok(Some(verdict))
    }

    /// Only one file makes a dataset: a second one that is still on its way stands in line behind
    /// nothing, it is refused.
    fn check_rivals(
        &self,
        id: FileId,
        location: &Location,
        target: &Target,
    ) -> Result<(), Refusal> {
        let sources = self.0.sources.lock();
        let rival = sources.iter().find(|(other, source)| {
            **other != id
                && source.location != *location
                && source.target.dataset() == target.dataset()
                && !matches!(source.state, State::Refused { .. } | State::Growing | State::Sealed)
        });
        let Some((_, rival)) = rival else { return Ok(()) };
        Err(Refusal::new(
            Cause::Unsupported,
            format!(
                "`{}` is being made from {}, and joining several files into one \
                 dataset is not supported yet",
                target.dataset(),
                rival.location.name()
            ),
        ))
    }

    /// Places where no source file can go.
    fn check_place(&self, target: &Target) -> Result<(), Refusal> {
        let dataset = target.dataset();
        let mut above = dataset.parent();
        while let Some(folder) = above {
            if super::names::is_dataset_name(folder.name()) || self.is_hierarchy(&folder) {
                return Err(Refusal::new(
                    Cause::Unsupported,
                    format!(
                        "`{folder}` is a Zarr dataset, and copying into a group of it \
                         is not supported yet"
                    ),
                ));
            }
            above = folder.parent();
        }
        Ok(())
    }

    async fn examined(
        &self,
        id: FileId,
        file: &Arc<StagedFile>,
        location: &Location,
    ) -> Result<Found, Refusal> {
        let generation = file.generation();
        let (cached, encoding) = {
            let sources = self.0.sources.lock();
            let source = sources.get(&id);
            let found = source.and_then(|source| source.found.clone());
            (found, source.map(|source| source.encoding.clone()))
        };
        if let Some((known, found)) = cached
            && known == generation
        {
            return Ok(found);
        }
        let encoding = encoding.unwrap_or_else(|| self.0.options.encoding.clone());
        let (source, at) = (Arc::clone(file), location.clone());
        let layout = encoding.clone();
        let found = tasks::blocking("judge", move || judge::examine(source, &at, &layout))
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

    async fn verdict(
        &self,
        file: &Arc<StagedFile>,
        location: &Location,
        target: &Target,
        published: Arc<Published>,
    ) -> Result<Verdict, Refusal> {
        let (file, at, target) = (Arc::clone(file), location.clone(), target.clone());
        tasks::blocking("compare", move || judge::verdict(&at, &target, &published, file.as_ref()))
            .await
            .unwrap_or_else(|| Err(Refusal::new(Cause::Corrupt, "comparing met a defect")))
    }

    async fn ask(&self, dataset: &Location) -> Result<Arc<Published>, Refusal> {
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
