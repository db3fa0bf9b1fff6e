//! What may be sent now, and what must wait. Pure: time comes in by argument, nothing is sent here.
//!
//! - A chunk (or any other file) may go once it has been quiet for 50 ms.
//! - A metadata document waits until its hierarchy has been quiet for 2 s, and always until nothing
//!   is outstanding below its folder: data before metadata, children before parents. Inside one
//!   folder the order is `.zattrs`, `.zarray`, `.zgroup`, `.zmetadata`.
//! - A flush makes everything that is already here due at once; the order stays.
//! - Deleting a metadata document is a barrier: nothing below its folder is put, and nothing else
//!   below it is deleted, before that deletion is done.
//! - What failed for good still blocks the documents that would show it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::time::{Duration, Instant};

use crate::staging::FileId;
use crate::store::Location;
use crate::zarr::DocumentRank;

/// A tool that writes a file twice in a row costs one request.
const CHUNK_QUIET: Duration = Duration::from_millis(50);

/// Writers touch their documents many times while they work (xarray: 16 times in a small run).
const DOCUMENT_QUIET: Duration = Duration::from_secs(2);

/// Folders of this name hold a whole hierarchy.
const HIERARCHY_ENDING: &str = ".zarr";

/// Most objects a store deletes in one request (S3 `DeleteObjects`).
const DELETES_MAX: usize = 1000;

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

impl Failure {
    fn behind_another() -> Self {
        Self { reason: "waits for an object below it that failed".to_owned(), since_ms: 0 }
    }
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
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Waiting,
    Sending,
    Failed(Failure),
}

#[derive(Debug)]
struct Entry {
    path: Location,
    sequence: u64,
    due: Instant,
    phase: Phase,
    /// Released again, renamed or cancelled while it was being sent.
    stale: bool,
}

#[derive(Debug)]
struct Deletion {
    sequence: u64,
    phase: Phase,
}

/// The pending puts and deletions of one mount.
#[derive(Debug, Default)]
pub(super) struct Order {
    entries: HashMap<FileId, Entry>,
    by_path: BTreeMap<String, BTreeSet<FileId>>,
    due: BTreeSet<(Instant, FileId)>,
    documents: BTreeSet<FileId>,
    deletions: BTreeMap<Location, Deletion>,
    /// Folders whose metadata document is about to be deleted, with how many such documents.
    barriers: HashMap<String, usize>,
    quiet_since: HashMap<String, Instant>,
    sequence: u64,
    /// Everything up to this sequence number is due.
    flushed: u64,
}

impl Order {
    /// A file was closed. Returns a location whose pending deletion this makes unnecessary.
    pub(super) fn released(
        &mut self,
        id: FileId,
        path: Location,
        now: Instant,
    ) -> Option<Location> {
        let elided = self.elide_deletion(&path);
        self.sequence += 1;
        self.quiet_since.insert(hierarchy(&path), now);
        let sequence = self.sequence;
        match self.entries.get_mut(&id) {
            Some(entry) if entry.phase == Phase::Sending => {
                entry.stale = true;
                entry.sequence = sequence;
                entry.due = now + CHUNK_QUIET;
            }
            _ => {
                self.remove(id);
                self.insert(
                    id,
                    Entry {
                        path,
                        sequence,
                        due: now + CHUNK_QUIET,
                        phase: Phase::Waiting,
                        stale: false,
                    },
                );
            }
        }
        elided
    }

    /// The file must not be sent (any more). If it is on its way at this moment the object may yet
    /// appear in the bucket.
    pub(super) fn cancelled(&mut self, id: FileId) {
        match self.entries.get_mut(&id) {
            Some(entry) if entry.phase == Phase::Sending => entry.stale = true,
            _ => drop(self.remove(id)),
        }
    }

    /// Files were renamed: asks for the paths of all that wait again.
    pub(super) fn renamed(&mut self, path_of: impl Fn(FileId) -> Option<Location>) {
        let waiting: Vec<FileId> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.phase != Phase::Sending)
            .map(|(id, _)| *id)
            .collect();
        for id in waiting {
            let Some(path) = path_of(id) else { continue };
            if let Some(mut entry) = self.remove(id) {
                entry.path = path;
                self.insert(id, entry);
            }
        }
    }

    /// An object of the bucket is to be deleted.
    pub(super) fn delete(&mut self, location: &Location) {
        self.sequence += 1;
        let deletion = Deletion { sequence: self.sequence, phase: Phase::Waiting };
        let known = self.deletions.insert(location.clone(), deletion).is_some();
        if !known && DocumentRank::of(location.name()).is_some() {
            *self.barriers.entry(folder_text(location)).or_default() += 1;
        }
    }

    /// Everything that is here now is due. Returns the sequence number to wait for. What had failed
    /// is tried again.
    pub(super) fn flush(&mut self) -> u64 {
        self.flushed = self.sequence;
        let failed: Vec<FileId> = self
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry.phase, Phase::Failed(_)))
            .map(|(id, _)| *id)
            .collect();
        for id in failed {
            if let Some(mut entry) = self.remove(id) {
                entry.phase = Phase::Waiting;
                self.insert(id, entry);
            }
        }
        for deletion in self.deletions.values_mut() {
            if matches!(deletion.phase, Phase::Failed(_)) {
                deletion.phase = Phase::Waiting;
            }
        }
        self.flushed
    }

    /// The next work that may be done at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Option<Job> {
        self.next_deletions().or_else(|| self.next_file(now)).or_else(|| self.next_document(now))
    }

    /// When something may become due by itself; `None` if only an event can change anything.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let file = self.due.first().map(|(due, _)| *due);
        let document = self.documents.iter().filter_map(|id| self.document_due(*id)).min();
        match (file, document) {
            (Some(file), Some(document)) => Some(file.min(document)),
            (file, document) => file.or(document),
        }
    }

    /// A put has ended. True if the file has to be read again (it was released meanwhile).
    pub(super) fn put_ended(&mut self, id: FileId, outcome: Outcome, path_now: Option<Location>) {
        let Some(mut entry) = self.remove(id) else { return };
        // What was opened for writing meanwhile comes back when its writer closes it.
        let moved = path_now.as_ref().is_some_and(|now| *now != entry.path);
        let wanted_again = entry.stale || (moved && outcome == Outcome::Changed);
        match (outcome, path_now) {
            (_, Some(path)) if wanted_again => {
                entry.path = path;
                entry.stale = false;
                entry.phase = Phase::Waiting;
                self.insert(id, entry);
            }
            (Outcome::Failed(failure), Some(_)) => {
                entry.phase = Phase::Failed(failure);
                self.insert(id, entry);
            }
            _ => {}
        }
    }

    /// A deletion has ended.
    pub(super) fn delete_ended(&mut self, location: &Location, outcome: Outcome) {
        match outcome {
            Outcome::Failed(failure) => {
                if let Some(deletion) = self.deletions.get_mut(location) {
                    deletion.phase = Phase::Failed(failure);
                }
            }
            Outcome::Done | Outcome::Changed => self.forget_deletion(location),
        }
    }

    /// Whether something up to `sequence` is neither done nor failed.
    pub(super) fn is_outstanding(&self, sequence: u64) -> bool {
        let waits = |phase: &Phase, own| own <= sequence && !matches!(phase, Phase::Failed(_));
        // A document that waits for a failed chunk cannot move: it counts as failed with it.
        self.entries
            .iter()
            .any(|(id, entry)| waits(&entry.phase, entry.sequence) && !self.is_stuck(*id))
            || self.deletions.values().any(|deletion| waits(&deletion.phase, deletion.sequence))
    }

    /// Everything that is outstanding or failed, by location.
    pub(super) fn pending(&self) -> Vec<Pending> {
        let files = self.entries.iter().map(|(id, entry)| Pending {
            file: Some(*id),
            location: entry.path.clone(),
            is_sending: entry.phase == Phase::Sending,
            failure: match &entry.phase {
                Phase::Failed(failure) => Some(failure.clone()),
                Phase::Waiting if self.is_stuck(*id) => Some(Failure::behind_another()),
                Phase::Waiting | Phase::Sending => None,
            },
        });
        let deletions = self.deletions.iter().map(|(location, deletion)| Pending {
            file: None,
            location: location.clone(),
            is_sending: deletion.phase == Phase::Sending,
            failure: match &deletion.phase {
                Phase::Failed(failure) => Some(failure.clone()),
                Phase::Waiting | Phase::Sending => None,
            },
        });
        let mut all: Vec<_> = files.chain(deletions).collect();
        all.sort_by(|a, b| a.location.cmp(&b.location));
        all
    }

    /// The lasting error of one file.
    pub(super) fn failure(&self, id: FileId) -> Option<&Failure> {
        match &self.entries.get(&id)?.phase {
            Phase::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// How many puts and deletions are outstanding or failed.
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.deletions.len()
    }

    /// Whether something at `location` or below it is outstanding.
    pub(super) fn is_pending(&self, location: &Location) -> bool {
        self.by_path.contains_key(location.as_str())
            || self.below(location.as_str()).next().is_some()
            || self
                .deletions
                .keys()
                .any(|deleted| deleted == location || deleted.is_below(location))
    }

    fn insert(&mut self, id: FileId, entry: Entry) {
        self.by_path.entry(entry.path.as_str().to_owned()).or_default().insert(id);
        if entry.phase == Phase::Waiting {
            if DocumentRank::of(entry.path.name()).is_some() {
                self.documents.insert(id);
            } else {
                self.due.insert((entry.due, id));
            }
        }
        self.entries.insert(id, entry);
    }

    fn remove(&mut self, id: FileId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.due.remove(&(entry.due, id));
        self.documents.remove(&id);
        if let Some(ids) = self.by_path.get_mut(entry.path.as_str()) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_path.remove(entry.path.as_str());
            }
        }
        Some(entry)
    }

    fn begin(&mut self, id: FileId) -> Option<Job> {
        let mut entry = self.remove(id)?;
        entry.phase = Phase::Sending;
        let path = entry.path.clone();
        self.insert(id, entry);
        Some(Job::Put(id, path))
    }

    fn next_deletions(&mut self) -> Option<Job> {
        let ready: Vec<Location> = self
            .deletions
            .iter()
            .filter(|(location, deletion)| {
                deletion.phase == Phase::Waiting && self.may_delete(location)
            })
            .map(|(location, _)| location.clone())
            .take(DELETES_MAX)
            .collect();
        for location in &ready {
            if let Some(deletion) = self.deletions.get_mut(location) {
                deletion.phase = Phase::Sending;
            }
        }
        (!ready.is_empty()).then_some(Job::Delete(ready))
    }

    fn may_delete(&self, location: &Location) -> bool {
        let on_its_way = self.by_path.get(location.as_str()).is_some_and(|ids| {
            ids.iter()
                .any(|id| self.entries.get(id).is_some_and(|entry| entry.phase == Phase::Sending))
        });
        let is_document = DocumentRank::of(location.name()).is_some();
        !on_its_way && (is_document || !self.is_behind_barrier(location))
    }

    fn next_file(&mut self, now: Instant) -> Option<Job> {
        let (_, id) = self.due.iter().copied().find(|(due, id)| {
            let Some(entry) = self.entries.get(id) else { return false };
            (*due <= now || entry.sequence <= self.flushed)
                && !self.is_behind_barrier(&entry.path)
                && !self.is_sending_elsewhere(&entry.path)
        })?;
        self.begin(id)
    }

    fn next_document(&mut self, now: Instant) -> Option<Job> {
        let id = self.documents.iter().copied().find(|id| {
            self.document_due(*id).is_some_and(|due| due <= now)
                && self.entries.get(id).is_some_and(|entry| {
                    !self.is_behind_barrier(&entry.path) && self.blocker(*id, &entry.path).is_none()
                })
        })?;
        self.begin(id)
    }

    /// When a document may go as far as time is concerned.
    fn document_due(&self, id: FileId) -> Option<Instant> {
        let entry = self.entries.get(&id)?;
        if entry.sequence <= self.flushed {
            return Some(entry.due.checked_sub(CHUNK_QUIET).unwrap_or(entry.due));
        }
        let quiet = self.quiet_since.get(&hierarchy(&entry.path)).copied().unwrap_or(entry.due);
        Some(quiet + DOCUMENT_QUIET)
    }

    /// Something outstanding that has to be in the bucket before the document at `path`.
    fn blocker(&self, id: FileId, path: &Location) -> Option<FileId> {
        let own_rank = DocumentRank::of(path.name())?;
        let folder = path.parent()?;
        self.below(folder.as_str()).filter(|other| *other != id).find(|other| {
            self.entries.get(other).is_some_and(|entry| {
                let beside = entry.path.parent().as_ref() == Some(&folder);
                let rank = DocumentRank::of(entry.path.name()).filter(|_| beside);
                rank.is_none_or(|rank| rank < own_rank || entry.path == *path)
            })
        })
    }

    /// Whether a waiting document can never go because something it waits for has failed.
    fn is_stuck(&self, id: FileId) -> bool {
        let Some(entry) = self.entries.get(&id) else { return false };
        if !self.documents.contains(&id) {
            return false;
        }
        let Some(folder) = entry.path.parent() else { return false };
        self.below(folder.as_str()).any(|other| {
            self.entries.get(&other).is_some_and(|entry| matches!(entry.phase, Phase::Failed(_)))
        })
    }

    fn is_sending_elsewhere(&self, path: &Location) -> bool {
        self.by_path.get(path.as_str()).is_some_and(|ids| {
            ids.iter()
                .any(|id| self.entries.get(id).is_some_and(|entry| entry.phase == Phase::Sending))
        })
    }

    fn is_behind_barrier(&self, location: &Location) -> bool {
        if self.barriers.is_empty() {
            return false;
        }
        let mut folder = location.parent();
        while let Some(here) = folder {
            if self.barriers.contains_key(here.as_str()) {
                return true;
            }
            folder = here.parent();
        }
        false
    }

    fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = FileId> + use<'a> {
        // `0` follows `/`, so this range holds exactly the texts that begin with `folder/`.
        let range = if folder.is_empty() {
            (Bound::Unbounded, Bound::Unbounded)
        } else {
            (Bound::Excluded(format!("{folder}/")), Bound::Excluded(format!("{folder}0")))
        };
        self.by_path.range::<String, _>(range).flat_map(|(_, ids)| ids.iter().copied())
    }

    /// A new object at the same place makes a deletion unnecessary, unless it is a barrier.
    fn elide_deletion(&mut self, path: &Location) -> Option<Location> {
        let waits =
            self.deletions.get(path).is_some_and(|deletion| deletion.phase == Phase::Waiting);
        if !waits || DocumentRank::of(path.name()).is_some() {
            return None;
        }
        self.forget_deletion(path);
        Some(path.clone())
    }

    fn forget_deletion(&mut self, location: &Location) {
        if self.deletions.remove(location).is_none() || DocumentRank::of(location.name()).is_none()
        {
            return;
        }
        let folder = folder_text(location);
        if let Some(count) = self.barriers.get_mut(&folder) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.barriers.remove(&folder);
            }
        }
    }
}

fn folder_text(location: &Location) -> String {
    location.parent().unwrap_or_default().as_str().to_owned()
}

/// The outermost folder that names itself a Zarr hierarchy, else the folder the file lies in.
fn hierarchy(path: &Location) -> String {
    let mut folder = path.parent();
    let mut outermost = None;
    while let Some(here) = folder {
        if here.as_str().ends_with(HIERARCHY_ENDING) {
            outermost = Some(here.as_str().to_owned());
        }
        folder = here.parent();
    }
    outermost.unwrap_or_else(|| folder_text(path))
}
