//! What may be sent now, and what must wait. Pure: time comes in by argument, nothing is sent here.
//!
//! - A chunk (or any other file) may go once it has been quiet for 50 ms.
//! - A metadata document waits until its hierarchy has been quiet for 2 s, and always until nothing
//!   is outstanding or open for writing below its folder: data before metadata, children before
//!   parents. Inside one folder the order is `.zattrs`, `.zarray`, `.zgroup`, `.zmetadata`.
//! - A flush makes what was closed before it, at or below a path, due at once; the order stays. What
//!   is opened or closed later holds up none of it.
//! - Deleting a metadata document is a barrier: nothing below its folder is put, and nothing else
//!   below it is deleted, before that deletion is done.
//! - Deletions wait for each other, so that few requests carry them and documents go first.
//! - Two requests for one key are never on their way at the same time.
//! - What failed for good still blocks the documents that would show it.
//!
//! ```text
//! files      what is open, waits, is sent or has failed     deletions  what is to go, and barriers
//! quiet      when something last happened in a hierarchy    flush      what a flush waits for
//! ```

mod deletions;
mod files;
mod flush;
mod quiet;
#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::time::Instant;

use crate::staging::FileId;
use crate::store::Location;
use deletions::Deletions;
use files::{Entry, Files, Next, Phase};
use flush::Flushes;
pub(super) use flush::Ticket;

/// Work that may be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Job {
    /// Send this file to this place.
    Put(FileId, Location),
    /// Delete these objects.
    Delete(Vec<Location>),
}

/// Outcome of a [`Job`], per file or location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done in the bucket.
    Done,
    /// The file changed while it was read: it goes again when it has been released again.
    Changed,
    /// A lasting error.
    Failed(Failure),
}

/// A lasting error, kept until it is resolved.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Failure {
    /// What went wrong, naming object, request and the store's answer.
    pub reason: String,
    /// When, in milliseconds since 1970.
    pub since_ms: u64,
}

/// Something that is not in the bucket yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The staged file; `None` for a deletion.
    pub file: Option<FileId>,
    /// Where it goes, or what is deleted.
    pub location: Location,
    /// Whether it is on its way at this moment.
    pub is_sending: bool,
    /// Its lasting error, if it has one.
    pub failure: Option<Failure>,
    /// What is open for writing and holds it up: itself, or something below its folder.
    pub waits_for: Option<Location>,
}

/// The pending puts and deletions of one mount.
#[derive(Debug, Default)]
pub(super) struct Order {
    files: Files,
    deletions: Deletions,
    flushes: Flushes,
    /// Counts what opens, closes and flushes.
    sequence: u64,
}

impl Order {
    /// A file is open for writing, or an open one has another name now. What was closed before is not
    /// sent until it is closed again.
    pub(super) fn opened(&mut self, id: FileId, path: Location, now: Instant) {
        self.sequence += 1;
        if self.files.note_while_sending(id, Next::Open, self.sequence, now) {
            return;
        }
        let before = self.files.get(id);
        let flush = before.and_then(|before| before.flush);
        let (sequence, owed) = match before {
            Some(Entry { phase: Phase::Open { owed }, sequence, .. }) => (*sequence, *owed),
            before => (self.sequence, before.is_some()),
        };
        let entry = Entry { path, sequence, closed: now, phase: Phase::Open { owed }, flush };
        self.files.replace(id, entry, now);
    }

    /// A file was closed by its last writer. Returns a location whose pending deletion this makes
    /// unnecessary.
    pub(super) fn released(
        &mut self,
        id: FileId,
        path: Location,
        now: Instant,
    ) -> Option<Location> {
        self.sequence += 1;
        let elided = self.deletions.elide(&path);
        if let Some(elided) = &elided {
            self.flushes.deleted(elided);
        }
        if self.files.note_while_sending(id, Next::Again, self.sequence, now) {
            return elided;
        }
        let flush = self.files.get(id).and_then(|before| before.flush);
        let (sequence, phase) = (self.sequence, Phase::Waiting);
        self.files.replace(id, Entry { path, sequence, closed: now, phase, flush }, now);
        elided
    }

    /// The file must not be sent (any more). If it is on its way at this moment the object may yet
    /// appear in the bucket.
    pub(super) fn cancelled(&mut self, id: FileId, now: Instant) {
        if !self.files.note_while_sending(id, Next::Gone, self.sequence, now) {
            self.drop_file(id);
        }
    }

    /// An object of the bucket is to be deleted; `again` is the file that has its name now. False if
    /// that needs nothing more: the same deletion is on its way, or the new file's content will take
    /// the object's place.
    pub(super) fn delete(
        &mut self,
        location: &Location,
        again: Option<FileId>,
        now: Instant,
    ) -> bool {
        self.sequence += 1;
        // Nothing is put at this key before that one has been answered.
        if self.deletions.is_sending(location.as_str()) {
            return false;
        }
        let taken = again.and_then(|id| self.files.get(id)).filter(|file| file.path == *location);
        let is_replaced = taken.is_some_and(|file| match &file.phase {
            Phase::Sending(next) => *next != Next::Gone,
            Phase::Waiting => !deletions::is_barrier(location),
            Phase::Open { .. } | Phase::Failed(_) => false,
        });
        if !is_replaced {
            self.deletions.insert(location, now);
        }
        !is_replaced
    }

    /// Everything at or below `scope` that is closed, and every deletion there, is due now. What had
    /// failed there is tried again.
    pub(super) fn flush(&mut self, scope: &Location) -> Ticket {
        self.sequence += 1;
        let files = self.files.flush(scope, self.sequence);
        let deletions = self.deletions.flush(scope);
        self.flushes.begin(self.sequence, files, deletions)
    }

    /// Nobody waits for this flush any more.
    pub(super) fn flush_ended(&mut self, ticket: Ticket) {
        self.flushes.end(ticket);
    }

    /// Whether something that the flush made due can still move and is not in the bucket. What has
    /// failed, is open again, or waits for such, cannot.
    pub(super) fn is_outstanding(&self, ticket: Ticket) -> bool {
        let Some((files, deletions)) = self.flushes.left(ticket) else { return false };
        files.iter().any(|id| self.can_move(*id))
            || deletions.iter().any(|key| self.deletions.can_move(key))
    }

    /// Whether anything can leave without a program's doing.
    pub(super) fn is_moving(&self) -> bool {
        self.files.ids().any(|id| self.can_move(id))
    }

    /// The next work that may be done at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Option<Job> {
        self.next_deletions(now).or_else(|| self.next_file(now)).or_else(|| self.next_document(now))
    }

    /// When something becomes due by itself, after `now`; `None` if only an event can change
    /// anything.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let all = [self.files.next_due(now), self.deletions.next_due(now)];
        all.into_iter().flatten().min()
    }

    /// A put has ended; the file is at `path_now`, if it still is staged and has a name.
    pub(super) fn put_ended(&mut self, id: FileId, outcome: &Outcome, path_now: Option<Location>) {
        let Some(mut entry) = self.files.remove(id) else { return };
        let Phase::Sending(next) = entry.phase else { return };
        let Some(path) = path_now.filter(|_| next != Next::Gone) else {
            return self.flushes.settled(id);
        };
        let moved = path != entry.path;
        entry.phase = match (next, outcome) {
            (Next::Again, _) => Phase::Waiting,
            (Next::Open, Outcome::Done) => Phase::Open { owed: false },
            (Next::Settled, Outcome::Changed) if moved => Phase::Waiting,
            // Opened by somebody who is about to say so.
            (Next::Settled, Outcome::Changed) | (Next::Open, _) => Phase::Open { owed: true },
            (Next::Settled, Outcome::Failed(failure)) => Phase::Failed(failure.clone()),
            (Next::Settled, Outcome::Done) | (Next::Gone, _) => return self.flushes.settled(id),
        };
        if *outcome == Outcome::Done {
            // A flush that came after the next close waits for that.
            let closed_again = if next == Next::Again { entry.sequence } else { u64::MAX };
            entry.flush = entry.flush.filter(|flush| *flush > closed_again);
            self.flushes.settled_before(id, closed_again);
        }
        entry.path = path;
        let seen = entry.closed;
        self.files.replace(id, entry, seen);
    }

    /// A deletion has ended.
    pub(super) fn delete_ended(&mut self, location: &Location, outcome: Outcome) {
        if let Outcome::Failed(failure) = outcome {
            self.deletions.failed(location, failure);
        } else {
            self.deletions.remove(location.as_str());
            self.flushes.deleted(location);
        }
    }

    /// Everything that is outstanding or failed, by location.
    pub(super) fn pending(&self) -> Vec<Pending> {
        let files = self.files.iter().filter_map(|(id, entry)| self.pending_file(id, entry));
        let deletions = self.deletions.pending();
        let mut all: Vec<_> = files.chain(deletions).collect();
        all.sort_by(|a, b| a.location.cmp(&b.location));
        all
    }

    fn pending_file(&self, id: FileId, entry: &Entry) -> Option<Pending> {
        let (mut failure, mut waits_for) = (None, None);
        match &entry.phase {
            Phase::Open { owed: false } => return None,
            Phase::Open { owed: true } => waits_for = Some(entry.path.clone()),
            Phase::Failed(own) => failure = Some(own.clone()),
            Phase::Waiting => match self.stop_of(id).map(|stop| (&stop.phase, &stop.path)) {
                Some((Phase::Failed(_), path)) => {
                    let reason = format!("waits for `{path}`, which failed");
                    failure = Some(Failure { reason, since_ms: 0 });
                }
                Some((_, path)) => waits_for = Some(path.clone()),
                None if self.deletions.has_failed_barrier(entry.path.as_str()) => {
                    let reason = "waits for a deletion above it that failed".to_owned();
                    failure = Some(Failure { reason, since_ms: 0 });
                }
                None => {}
            },
            Phase::Sending(_) => {}
        }
        Some(Pending {
            file: Some(id),
            location: entry.path.clone(),
            is_sending: matches!(entry.phase, Phase::Sending(_)),
            failure,
            waits_for,
        })
    }

    /// The lasting error of one file.
    pub(super) fn failure(&self, id: FileId) -> Option<&Failure> {
        match &self.files.get(id)?.phase {
            Phase::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether anything at `location` or below it is outstanding, open or failed.
    pub(super) fn is_pending(&self, location: &Location) -> bool {
        self.files.any_within(location) || self.deletions.any_within(location)
    }

    /// Whether the object, or anything below the folder, is to be deleted.
    pub(super) fn is_deleting(&self, location: &Location) -> bool {
        self.deletions.any_within(location)
    }

    /// How many puts and deletions are outstanding or failed.
    pub(super) fn len(&self) -> usize {
        self.files.closed_count() + self.deletions.len()
    }

    fn drop_file(&mut self, id: FileId) {
        if self.files.remove(id).is_some() {
            self.flushes.settled(id);
        }
    }

    fn can_move(&self, id: FileId) -> bool {
        let Some(entry) = self.files.get(id) else { return false };
        match entry.phase {
            Phase::Sending(_) => true,
            Phase::Waiting => {
                self.stop_of(id).is_none()
                    && !self.deletions.has_failed_barrier(entry.path.as_str())
            }
            Phase::Open { .. } | Phase::Failed(_) => false,
        }
    }

    /// What holds a waiting document up and cannot move by itself.
    fn stop_of(&self, id: FileId) -> Option<&Entry> {
        self.files.documents_blocker(id, self.files.stops_below(id))
    }

    fn next_deletions(&mut self, now: Instant) -> Option<Job> {
        let files = &self.files;
        let ready = self.deletions.next(now, |at| files.is_sending_at(at));
        (!ready.is_empty()).then_some(Job::Delete(ready))
    }

    fn next_file(&mut self, now: Instant) -> Option<Job> {
        let id = self.files.due_at(now).find(|id| self.may_put(*id))?;
        self.begin(id)
    }

    fn next_document(&mut self, now: Instant) -> Option<Job> {
        let id = self.files.documents_due_at(now).find(|id| {
            let blocker = self.files.documents_blocker(*id, self.files.below_folder_of(*id));
            blocker.is_none() && self.may_put(*id)
        })?;
        self.begin(id)
    }

    /// As far as other requests are concerned.
    fn may_put(&self, id: FileId) -> bool {
        self.files.get(id).is_some_and(|entry| {
            !self.deletions.is_behind_barrier(entry.path.as_str())
                && !self.deletions.is_sending(entry.path.as_str())
                && !self.files.is_sending_at(entry.path.as_str())
        })
    }

    fn begin(&mut self, id: FileId) -> Option<Job> {
        let path = self.files.begin(id)?;
        Some(Job::Put(id, path))
    }
}

/// The keys strictly below a folder, as a range of texts: `0` follows `/`.
fn range_below(folder: &str) -> (Bound<String>, Bound<String>) {
    if folder.is_empty() {
        return (Bound::Unbounded, Bound::Unbounded);
    }
    (Bound::Excluded(format!("{folder}/")), Bound::Excluded(format!("{folder}0")))
}

/// The folders above a key, innermost first, the root (an empty text) last.
fn folders_above(key: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(folder_of(key), |folder| folder_of(folder))
}

/// The folder a key lies in; `None` for the root.
fn folder_of(key: &str) -> Option<&str> {
    match key.rsplit_once('/') {
        Some((folder, _)) => Some(folder),
        None => (!key.is_empty()).then_some(""),
    }
}

fn is_within(location: &Location, scope: &Location) -> bool {
    location == scope || location.is_below(scope)
}
