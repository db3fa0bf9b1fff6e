//! The upload queue, keyed by inode: order, concurrency, multipart and the one retry.
#![allow(
    missing_docs,
    unused_variables,
    clippy::todo,
    clippy::unused_self,
    clippy::unused_async,
    dead_code,
    reason = "interface being built"
)]

use crate::staging::FileId;
use crate::store::Location;

/// The queue of raw files and deletions on their way to the bucket.
#[derive(Debug)]
pub struct Queue;

impl Queue {
    /// A raw file was closed by its last writer and sealed in staging: it becomes eligible after its
    /// quiet time (50 ms; metadata documents 2 s) or at a flush. Its path is asked of the tree when it
    /// is sent. A file that is already queued starts its quiet time again.
    pub fn released(&self, id: FileId) {
        todo!()
    }
    /// The file was deleted or superseded: it must not be sent (any more).
    pub fn cancelled(&self, id: FileId) {
        todo!()
    }
    /// An object of the bucket was deleted: journaled, then sent in the order that publication needs.
    pub fn delete(&self, location: &Location) {
        todo!()
    }
    /// Whether anything below `folder` (or the object itself) waits or is on its way.
    pub fn is_pending(&self, location: &Location) -> bool {
        todo!()
    }
    /// The lasting error of a file, in words, if there is one.
    pub fn failure(&self, id: FileId) -> Option<String> {
        todo!()
    }
}
