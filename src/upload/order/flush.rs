//! What flushes wait for: the files and deletions that each has made due and that are not done.

use std::collections::{BTreeSet, HashMap};

use crate::staging::FileId;
use crate::store::Location;

/// Names a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::upload) struct Ticket(u64);

#[derive(Debug, Default)]
struct Left {
    files: BTreeSet<FileId>,
    deletions: BTreeSet<String>,
}

/// Flushes that somebody waits for.
#[derive(Debug, Default)]
pub(super) struct Flushes(HashMap<Ticket, Left>);

impl Flushes {
    pub(super) fn begin(
        &mut self,
        sequence: u64,
        files: BTreeSet<FileId>,
        deletions: BTreeSet<String>,
    ) -> Ticket {
        let ticket = Ticket(sequence);
        self.0.insert(ticket, Left { files, deletions });
        ticket
    }

    pub(super) fn end(&mut self, ticket: Ticket) {
        self.0.remove(&ticket);
    }

    pub(super) fn left(&self, ticket: Ticket) -> Option<(&BTreeSet<FileId>, &BTreeSet<String>)> {
        self.0.get(&ticket).map(|left| (&left.files, &left.deletions))
    }

    /// The file is in the bucket, or is not wanted there any more.
    pub(super) fn settled(&mut self, id: FileId) {
        self.settled_before(id, u64::MAX);
    }

    /// The same, for flushes that began before `sequence`.
    pub(super) fn settled_before(&mut self, id: FileId, sequence: u64) {
        for (_, left) in self.0.iter_mut().filter(|(ticket, _)| ticket.0 < sequence) {
            left.files.remove(&id);
        }
    }

    /// The object is gone, or is to stay.
    pub(super) fn deleted(&mut self, location: &Location) {
        for left in self.0.values_mut() {
            left.deletions.remove(location.as_str());
        }
    }
}
