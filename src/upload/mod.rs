//! Raw files and deletions on their way to the bucket: a queue keyed by inode, in the order that
//! publication needs, sent whole and in parallel.
//!
//! What may go when is decided in [`order`], without I/O. [`Queue`] reads the bytes, sends them and
//! settles the outcome with staging (which frees the content) and with the tree (which from then on
//! knows the object).

mod order;
mod queue;

pub use order::{Failure, Pending};
pub use queue::{Parts, Queue};
