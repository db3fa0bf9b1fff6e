//! How long-running work says how far it is. The engine reports through [`Progress`]; whether that
//! becomes a bar, lines in a file or nothing is decided by who listens.

use serde::{Deserialize, Serialize};

/// What a transfer is busy with, in the order in which a flush goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Finding out what there is to send.
    #[default]
    Preparing,
    /// Sending files and chunks.
    Sending,
    /// Writing metadata documents, which makes the data visible.
    Publishing,
    /// Taking the mount away.
    Unmounting,
    /// Decoding what is in the bucket.
    Checking,
    /// Comparing what is in the bucket with source files.
    Comparing,
    /// Everything is sent.
    Done,
}

impl Stage {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preparing => "preparing",
            Self::Sending => "sending",
            Self::Publishing => "publishing",
            Self::Unmounting => "unmounting",
            Self::Checking => "checking",
            Self::Comparing => "comparing",
            Self::Done => "done",
        }
    }
}

/// How far a transfer is. The totals may grow while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Transfer {
    /// What it is busy with.
    pub stage: Stage,
    /// Bytes of object bodies that have been sent.
    pub bytes_done: u64,
    /// Bytes known to be needed, done ones included.
    pub bytes_total: u64,
    /// Objects that have been written or deleted.
    pub objects_done: u64,
    /// Objects known to be needed, done ones included.
    pub objects_total: u64,
}

/// Takes reports from work in progress. Called often and from several threads: it must be quick.
pub trait Progress: Send + Sync {
    /// The work is this far now.
    fn report(&self, transfer: Transfer);
}

/// Listens to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _transfer: Transfer) {}
}

impl Progress for tokio::sync::watch::Sender<Transfer> {
    fn report(&self, transfer: Transfer) {
        self.send_replace(transfer);
    }
}
