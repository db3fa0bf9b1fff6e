//! Objects that are to be deleted.
//!
//! A deletion waits until nobody has asked for another one for a while, so that one request carries
//! many, and documents go before what they describe.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use super::{Failure, Pending, folders_above, is_within};
use crate::store::Location;
use crate::zarr::DocumentRank;

/// Most objects a store deletes in one request (S3 `DeleteObjects`).
const DELETES_MAX: usize = 1000;

/// How long it has to be quiet before deletions go, and how long they wait at most.
#[derive(Debug, Clone, Copy)]
struct Patience {
    quiet: Duration,
    longest: Duration,
}

/// `rm -r` comes to the documents of many nodes one after the other. New objects below them wait.
const DOCUMENTS: Patience =
    Patience { quiet: Duration::from_millis(50), longest: Duration::from_secs(2) };

/// Nobody waits for these, and the documents of the same `rm -r` are to go before.
const OTHERS: Patience =
    Patience { quiet: Duration::from_secs(1), longest: Duration::from_secs(30) };

#[derive(Debug)]
enum Phase {
    Waiting,
    Sending,
    Failed(Failure),
}

#[derive(Debug)]
struct Deletion {
    location: Location,
    phase: Phase,
}

/// Waiting deletions of one kind.
#[derive(Debug, Default)]
struct Batch {
    /// Not due yet, and since when the first of them waits.
    gathered: BTreeSet<String>,
    first: Option<Instant>,
    due: BTreeSet<String>,
}

/// All deletions that are not done.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    all: BTreeMap<String, Deletion>,
    documents: Batch,
    others: Batch,
    /// When a deletion was last asked for.
    last: Option<Instant>,
    /// Folders whose metadata document is to be deleted, with how many such documents.
    barriers: HashMap<String, usize>,
    /// Folders of documents whose deletion has failed.
    failed_barriers: HashMap<String, usize>,
}

impl Batch {
    fn insert(&mut self, key: &str, now: Instant) {
        if !self.due.contains(key) && self.gathered.insert(key.to_owned()) {
            self.first.get_or_insert(now);
        }
    }

    fn remove(&mut self, key: &str) {
        self.due.remove(key);
        if self.gathered.remove(key) && self.gathered.is_empty() {
            self.first = None;
        }
    }

    fn hurry(&mut self, key: &str) {
        if self.gathered.remove(key) {
            self.due.insert(key.to_owned());
        }
        if self.gathered.is_empty() {
            self.first = None;
        }
    }

    fn due_from(&self, last: Option<Instant>, patience: Patience) -> Option<Instant> {
        let (first, last) = (self.first?, last?);
        Some((last + patience.quiet).min(first + patience.longest))
    }

    fn gather_up(&mut self, now: Instant, last: Option<Instant>, patience: Patience) {
        if self.due_from(last, patience).is_some_and(|due| due <= now) {
            self.due.append(&mut self.gathered);
            self.first = None;
        }
    }
}

impl Deletions {
    pub(super) fn insert(&mut self, location: &Location, now: Instant) {
        let key = location.as_str();
        self.remove(key);
        self.last = Some(now);
        self.batch_of(key).insert(key, now);
        if let Some(folder) = guarded_folder(key) {
            *self.barriers.entry(folder.to_owned()).or_default() += 1;
        }
        let deletion = Deletion { location: location.clone(), phase: Phase::Waiting };
        self.all.insert(key.to_owned(), deletion);
    }

    /// It is done, or not wanted any more.
    pub(super) fn remove(&mut self, key: &str) {
        let Some(deletion) = self.all.remove(key) else { return };
        self.batch_of(key).remove(key);
        if let Some(folder) = guarded_folder(key) {
            uncount(&mut self.barriers, folder);
            if matches!(deletion.phase, Phase::Failed(_)) {
                uncount(&mut self.failed_barriers, folder);
            }
        }
    }

    pub(super) fn failed(&mut self, location: &Location, failure: Failure) {
        let Some(deletion) = self.all.get_mut(location.as_str()) else { return };
        deletion.phase = Phase::Failed(failure);
        if let Some(folder) = guarded_folder(location.as_str()) {
            *self.failed_barriers.entry(folder.to_owned()).or_default() += 1;
        }
    }

    /// A new object at the same place makes a deletion unnecessary, unless it is a barrier.
    pub(super) fn elide(&mut self, path: &Location) -> Option<Location> {
        let deletion = self.all.get(path.as_str())?;
        if matches!(deletion.phase, Phase::Sending) || guarded_folder(path.as_str()).is_some() {
            return None;
        }
        self.remove(path.as_str());
        Some(path.clone())
    }

    /// Makes all within `scope` due, also what has failed. Returns their keys.
    pub(super) fn flush(&mut self, scope: &Location) -> BTreeSet<String> {
        let within = self.all.iter().filter(|(_, at)| is_within(&at.location, scope));
        let keys: BTreeSet<String> = within.map(|(key, _)| key.clone()).collect();
        for key in &keys {
            let Some(deletion) = self.all.get_mut(key) else { continue };
            let phase = std::mem::replace(&mut deletion.phase, Phase::Waiting);
            match phase {
                Phase::Waiting => self.batch_of(key).hurry(key),
                Phase::Sending => deletion.phase = Phase::Sending,
                Phase::Failed(_) => {
                    self.batch_of(key).due.insert(key.clone());
                    if let Some(folder) = guarded_folder(key) {
                        uncount(&mut self.failed_barriers, folder);
                    }
                }
            }
        }
        keys
    }

    /// What may be deleted at `now` in one request. `is_sending` tells of a key whose object is being
    /// put.
    pub(super) fn next(
        &mut self,
        now: Instant,
        is_sending: impl Fn(&str) -> bool,
    ) -> Vec<Location> {
        self.documents.gather_up(now, self.last, DOCUMENTS);
        self.others.gather_up(now, self.last, OTHERS);
        let documents = self.documents.due.iter().filter(|key| !is_sending(key));
        let mut keys: Vec<String> = documents.take(DELETES_MAX).cloned().collect();
        if keys.is_empty() {
            keys = self.others_due(is_sending);
        }
        let mut begun = Vec::with_capacity(keys.len());
        for key in keys {
            self.batch_of(&key).remove(&key);
            if let Some(deletion) = self.all.get_mut(&key) {
                deletion.phase = Phase::Sending;
                begun.push(deletion.location.clone());
            }
        }
        begun
    }

    fn others_due(&self, is_sending: impl Fn(&str) -> bool) -> Vec<String> {
        let mut keys = Vec::new();
        let mut from = String::new();
        // Whole folders are skipped where a barrier is, however much waits behind it.
        while keys.len() < DELETES_MAX {
            let Some(key) = self.others.due.range(from.clone()..).next() else { break };
            from = match self.barrier_above(key) {
                Some("") => break,
                Some(folder) => format!("{folder}0"),
                None => {
                    if !is_sending(key) {
                        keys.push(key.clone());
                    }
                    format!("{key}\0")
                }
            };
        }
        keys
    }

    /// When something becomes due after `now`.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let documents = self.documents.due_from(self.last, DOCUMENTS);
        let others = self.others.due_from(self.last, OTHERS);
        documents.into_iter().chain(others).filter(|due| *due > now).min()
    }

    pub(super) fn is_behind_barrier(&self, key: &str) -> bool {
        self.barrier_above(key).is_some()
    }

    fn barrier_above<'a>(&self, key: &'a str) -> Option<&'a str> {
        if self.barriers.is_empty() {
            return None;
        }
        folders_above(key).find(|folder| self.barriers.contains_key(*folder))
    }

    /// Whether a deletion above this path has failed, so that nothing below it can go.
    pub(super) fn has_failed_barrier(&self, key: &str) -> bool {
        !self.failed_barriers.is_empty()
            && folders_above(key).any(|folder| self.failed_barriers.contains_key(folder))
    }

    pub(super) fn is_sending(&self, key: &str) -> bool {
        self.all.get(key).is_some_and(|deletion| matches!(deletion.phase, Phase::Sending))
    }

    /// Whether it will be done without anybody's doing.
    pub(super) fn can_move(&self, key: &str) -> bool {
        let Some(deletion) = self.all.get(key) else { return false };
        let is_document = guarded_folder(key).is_some();
        !matches!(deletion.phase, Phase::Failed(_))
            && (is_document || !self.has_failed_barrier(key))
    }

    pub(super) fn any_within(&self, scope: &Location) -> bool {
        let below = super::range_below(scope.as_str());
        self.all.contains_key(scope.as_str()) || self.all.range::<String, _>(below).next().is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = Pending> {
        self.all.values().map(|deletion| Pending {
            file: None,
            location: deletion.location.clone(),
            is_sending: matches!(deletion.phase, Phase::Sending),
            failure: match &deletion.phase {
                Phase::Failed(failure) => Some(failure.clone()),
                Phase::Waiting | Phase::Sending => None,
            },
            waits_for: None,
        })
    }

    fn batch_of(&mut self, key: &str) -> &mut Batch {
        if guarded_folder(key).is_some() { &mut self.documents } else { &mut self.others }
    }
}

/// Whether nothing below the folder of this object may be put before it is gone.
pub(super) fn is_barrier(location: &Location) -> bool {
    guarded_folder(location.as_str()).is_some()
}

/// The folder that must get nothing new before this document is gone; `None` for other objects.
fn guarded_folder(key: &str) -> Option<&str> {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    DocumentRank::of(name).map(|_| folder)
}

fn uncount(counts: &mut HashMap<String, usize>, folder: &str) {
    if let Some(count) = counts.get_mut(folder) {
        *count -= 1;
        if *count == 0 {
            counts.remove(folder);
        }
    }
}
