//! What this mount did to the bucket while an answer of the bucket was on its way.
//!
//! A listing that began before an object was put may lack it. Every request therefore remembers
//! where in this log it began, and its answer is corrected by what was recorded since. The log is
//! empty while no request is under way.

use std::collections::{BTreeMap, VecDeque};

use crate::store::{Location, ObjectAttributes};

/// Something that happened to the bucket.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// An object was put.
    Put(ObjectAttributes),
    /// An object was deleted.
    Deleted,
    /// The last object below a folder was deleted.
    FolderGone,
    /// Anything at or below the folder may have changed.
    Unknown,
}

#[derive(Debug, Default)]
pub(super) struct Changes {
    sequence: u64,
    /// How many requests began at each point of the log.
    running: BTreeMap<u64, usize>,
    log: VecDeque<(u64, Location, Change)>,
}

impl Changes {
    pub(super) fn record(&mut self, location: &Location, change: &Change) {
        if self.running.is_empty() {
            return;
        }
        self.sequence += 1;
        self.log.push_back((self.sequence, location.clone(), change.clone()));
    }

    /// A request begins. Every `begin` needs its [`end`](Self::end).
    pub(super) fn begin(&mut self) -> u64 {
        *self.running.entry(self.sequence).or_default() += 1;
        self.sequence
    }

    /// The request that began at `start` has ended: what was recorded since, oldest first.
    pub(super) fn end(&mut self, start: u64) -> Vec<(Location, Change)> {
        let since = self.log.iter().filter(|(at, ..)| *at > start);
        let since = since.map(|(_, location, change)| (location.clone(), change.clone())).collect();
        if let Some(count) = self.running.get_mut(&start) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(&start);
            }
        }
        let oldest = self.running.keys().next().copied().unwrap_or(u64::MAX);
        while self.log.front().is_some_and(|(at, ..)| *at <= oldest) {
            self.log.pop_front();
        }
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_holds_what_running_requests_may_have_missed_and_nothing_else() {
        let mut changes = Changes::default();
        let at = |text| Location::parse(text).unwrap();
        changes.record(&at("before"), &Change::Deleted);
        let first = changes.begin();
        changes.record(&at("a"), &Change::Deleted);
        let second = changes.begin();
        changes.record(&at("b"), &Change::Deleted);
        let names = |all: Vec<(Location, Change)>| {
            all.into_iter().map(|(location, _)| String::from(location)).collect::<Vec<_>>()
        };
        assert_eq!(names(changes.end(first)), ["a", "b"]);
        assert_eq!(changes.log.len(), 1);
        assert_eq!(names(changes.end(second)), ["b"]);
        assert!(changes.log.is_empty() && changes.running.is_empty());
    }
}
