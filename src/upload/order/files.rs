//! Files by number, path and what they wait for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::quiet::Quiet;
use super::{Failure, is_within, range_below};
use crate::staging::FileId;
use crate::store::Location;
use crate::zarr::DocumentRank;

/// A tool that writes a file twice in a row costs one request.
const CHUNK_QUIET: Duration = Duration::from_millis(50);

/// Writers touch their documents many times while they work (xarray: 16 times in a small run).
const DOCUMENT_QUIET: Duration = Duration::from_secs(2);

/// Where a file is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    /// Open for writing. `owed` if it was closed before and that content is not in the bucket.
    Open { owed: bool },
    /// Closed, and to be sent.
    Waiting,
    /// On its way; then this happens.
    Sending(Next),
    /// A lasting error.
    Failed(Failure),
}

/// What happened to a file while it was being sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing.
    Settled,
    /// It was closed again, or renamed.
    Again,
    /// It was opened for writing.
    Open,
    /// It is not wanted in the bucket any more.
    Gone,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) path: Location,
    /// When it was opened, or closed last, on the order's own count.
    pub(super) sequence: u64,
    pub(super) closed: Instant,
    pub(super) phase: Phase,
    /// The latest flush that made it due.
    pub(super) flush: Option<u64>,
}

type ByPath = BTreeMap<String, BTreeSet<FileId>>;

/// All files that are open for writing or not in the bucket.
#[derive(Debug, Default)]
pub(super) struct Files {
    entries: HashMap<FileId, (Entry, Arc<str>)>,
    by_path: ByPath,
    /// Those of them that do not move by themselves: open or failed.
    stops: ByPath,
    /// Waiting files that are no documents.
    due: BTreeSet<(Instant, FileId)>,
    /// Waiting documents by hierarchy; those that a flush has made due stand in `hurried` instead.
    documents: BTreeMap<Arc<str>, BTreeSet<FileId>>,
    hurried: BTreeSet<FileId>,
    quiet: Quiet,
    /// Open files that owe nothing.
    fresh: usize,
}

impl Files {
    pub(super) fn get(&self, id: FileId) -> Option<&Entry> {
        self.entries.get(&id).map(|(entry, _)| entry)
    }

    /// Notes what happened to a file that is being sent, at this count and time. False if it is not.
    pub(super) fn note_while_sending(
        &mut self,
        id: FileId,
        next: Next,
        sequence: u64,
        now: Instant,
    ) -> bool {
        let Some((entry, _)) = self.entries.get_mut(&id) else { return false };
        if !matches!(entry.phase, Phase::Sending(_)) {
            return false;
        }
        entry.phase = Phase::Sending(next);
        (entry.sequence, entry.closed) = (sequence, now);
        true
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (FileId, &Entry)> {
        self.entries.iter().map(|(id, (entry, _))| (*id, entry))
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = FileId> {
        self.entries.keys().copied()
    }

    /// Files that are closed, or were and owe that content.
    pub(super) fn closed_count(&self) -> usize {
        self.entries.len().saturating_sub(self.fresh)
    }

    /// Takes a file in, in place of what was known of it.
    pub(super) fn replace(&mut self, id: FileId, entry: Entry, now: Instant) {
        let hierarchy = self.quiet.join(&entry.path, now);
        self.remove(id);
        let key = entry.path.as_str();
        add(&mut self.by_path, key, id);
        match entry.phase {
            Phase::Waiting if !is_document(&entry.path) => {
                self.due.insert((due_of(&entry), id));
            }
            Phase::Waiting if entry.flush.is_some() => {
                self.hurried.insert(id);
            }
            Phase::Waiting => {
                self.documents.entry(Arc::clone(&hierarchy)).or_default().insert(id);
            }
            Phase::Open { owed } => {
                self.fresh += usize::from(!owed);
                add(&mut self.stops, key, id);
            }
            Phase::Failed(_) => add(&mut self.stops, key, id),
            Phase::Sending(_) => {}
        }
        self.entries.insert(id, (entry, hierarchy));
    }

    pub(super) fn remove(&mut self, id: FileId) -> Option<Entry> {
        let (entry, hierarchy) = self.entries.remove(&id)?;
        self.due.remove(&(due_of(&entry), id));
        self.hurried.remove(&id);
        if let Some(documents) = self.documents.get_mut(&hierarchy) {
            documents.remove(&id);
            if documents.is_empty() {
                self.documents.remove(&hierarchy);
            }
        }
        self.fresh -= usize::from(entry.phase == Phase::Open { owed: false });
        take(&mut self.by_path, entry.path.as_str(), id);
        take(&mut self.stops, entry.path.as_str(), id);
        self.quiet.leave(&hierarchy);
        Some(entry)
    }

    /// A waiting file goes on its way. Returns where to.
    pub(super) fn begin(&mut self, id: FileId) -> Option<Location> {
        let mut entry = self.remove(id)?;
        entry.phase = Phase::Sending(Next::Settled);
        let (path, seen) = (entry.path.clone(), entry.closed);
        self.replace(id, entry, seen);
        Some(path)
    }

    /// Makes what is closed within `scope` due by the flush of this number. Returns it.
    pub(super) fn flush(&mut self, scope: &Location, flush: u64) -> BTreeSet<FileId> {
        let owed = |entry: &Entry| entry.phase != Phase::Open { owed: false };
        let within = self.iter().filter(|(_, entry)| owed(entry) && is_within(&entry.path, scope));
        let ids: BTreeSet<FileId> = within.map(|(id, _)| id).collect();
        for id in &ids {
            let Some(mut entry) = self.remove(*id) else { continue };
            entry.flush = Some(flush);
            if matches!(entry.phase, Phase::Failed(_)) {
                entry.phase = Phase::Waiting;
            }
            let seen = entry.closed;
            self.replace(*id, entry, seen);
        }
        ids
    }

    /// Files other than documents that are due, oldest first.
    pub(super) fn due_at(&self, now: Instant) -> impl Iterator<Item = FileId> {
        self.due.iter().take_while(move |(due, _)| *due <= now).map(|(_, id)| *id)
    }

    /// Documents that are due as far as time is concerned.
    pub(super) fn documents_due_at(&self, now: Instant) -> impl Iterator<Item = FileId> {
        let quiet = self.documents.iter().filter(move |(hierarchy, _)| {
            self.document_due(hierarchy).is_some_and(|due| due <= now)
        });
        self.hurried.iter().copied().chain(quiet.flat_map(|(_, ids)| ids.iter().copied()))
    }

    fn document_due(&self, hierarchy: &str) -> Option<Instant> {
        Some(self.quiet.since(hierarchy)? + DOCUMENT_QUIET)
    }

    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let file = self.due.iter().map(|(due, _)| *due).find(|due| *due > now);
        let documents = self.documents.keys().filter_map(|hierarchy| self.document_due(hierarchy));
        documents.filter(|due| *due > now).chain(file).min()
    }

    /// The first of `candidates` that has to be in the bucket before this document.
    pub(super) fn documents_blocker(
        &self,
        id: FileId,
        mut candidates: impl Iterator<Item = FileId>,
    ) -> Option<&Entry> {
        let document = self.get(id)?;
        let rank = DocumentRank::of(document.path.name())?;
        let folder = document.path.parent()?;
        let blocks = |other: &Entry| {
            let in_time = document.flush.is_none_or(|flush| {
                other.sequence <= flush || other.flush.is_some_and(|other| other <= flush)
            });
            let beside = other.path.parent().as_ref() == Some(&folder);
            let other_rank = DocumentRank::of(other.path.name()).filter(|_| beside);
            let below = other_rank.is_none_or(|other| other < rank) || other.path == document.path;
            in_time && below
        };
        let others = candidates.by_ref().filter(|other| *other != id);
        others.filter_map(|other| self.get(other)).find(|other| blocks(other))
    }

    /// Everything below the folder of a file.
    pub(super) fn below_folder_of(&self, id: FileId) -> impl Iterator<Item = FileId> {
        below(&self.by_path, self.folder_of(id))
    }

    /// What does not move by itself below the folder of a file.
    pub(super) fn stops_below(&self, id: FileId) -> impl Iterator<Item = FileId> {
        below(&self.stops, self.folder_of(id))
    }

    fn folder_of(&self, id: FileId) -> Option<Location> {
        self.get(id)?.path.parent()
    }

    pub(super) fn any_within(&self, scope: &Location) -> bool {
        self.by_path.contains_key(scope.as_str())
            || below(&self.by_path, Some(scope.clone())).next().is_some()
    }

    pub(super) fn is_sending_at(&self, key: &str) -> bool {
        let at = self.by_path.get(key).into_iter().flatten();
        at.filter_map(|id| self.get(*id)).any(|entry| matches!(entry.phase, Phase::Sending(_)))
    }
}

fn due_of(entry: &Entry) -> Instant {
    if entry.flush.is_some() { entry.closed } else { entry.closed + CHUNK_QUIET }
}

fn is_document(path: &Location) -> bool {
    DocumentRank::of(path.name()).is_some()
}

fn add(to: &mut ByPath, key: &str, id: FileId) {
    to.entry(key.to_owned()).or_default().insert(id);
}

fn take(from: &mut ByPath, key: &str, id: FileId) {
    if let Some(ids) = from.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            from.remove(key);
        }
    }
}

fn below(all: &ByPath, folder: Option<Location>) -> impl Iterator<Item = FileId> {
    let range = folder.map(|folder| range_below(folder.as_str()));
    let found = range.map(|range| all.range::<String, _>(range));
    found.into_iter().flatten().flat_map(|(_, ids)| ids.iter().copied())
}
