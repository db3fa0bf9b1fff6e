//! The file system's semantics, without any kernel: what `open`, `write`, `rename` and the others
//! mean for staging, the upload queue and the ingest.
//!
//! - Writing, `flush` and `release` never wait for the network. Names, opening a file of the bucket
//!   for writing, and reading may.
//! - What a program was told is written is in staging. A file goes to the queue, or to the ingest,
//!   when its last writer has closed it; it is in the journal when a writer's close returns.
//! - Every failure is an [`Error`], whose sentence is logged by the caller.
//!
//! ```text
//! lookup, attributes, setattr   names and what stat shows
//! create, open, fetch           the ways to a handle
//! read, write, close            what a handle does
//! folders, remove, rename, rename_folder, link   changes of names
//! files, handles                state of staged files and of open ones
//! status                        the virtual folder `.zarrmount-status`
//! temporary                     names that are not sent
//! restore, session_end          after a restart, and at the end
//! ```

mod attributes;
mod close;
mod create;
mod error;
mod fetch;
mod files;
mod folders;
mod handles;
mod link;
mod lookup;
mod open;
mod read;
mod remove;
mod rename;
mod rename_folder;
mod restore;
mod session_end;
mod setattr;
mod status;
mod temporary;
mod write;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;

pub use attributes::{Attr, Changes, Kind, SetTime};
pub use error::Error;
pub use folders::FolderLine;
pub use handles::OpenFlags;
pub use open::{Cache, Opened};
pub use session_end::{Cut, SessionEnd};
pub use status::STATUS_FOLDER;
pub use temporary::is_temporary;
pub use write::Written;

use crate::base::clock::Clock;
use crate::ingest::Ingest;
use crate::namespace::{Ino, Tree};
use crate::staging::{FileId, Staging};
use crate::store::{Location, ObjectAttributes};
use crate::telemetry::activities::Activities;
use crate::upload::Queue;
use files::Files;
use handles::Handles;
use status::Status;

/// Bytes of a block, as `stat` and `statfs` tell it: programs then write 1 MiB at a time.
pub const BLOCK_BYTES: u32 = 1 << 20;

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What the user has chosen.
#[derive(Debug, Clone, Copy)]
pub struct FsOptions {
    /// Nothing can be changed.
    pub read_only: bool,
    /// Owner of everything; else new files belong to who makes them.
    pub uid: Option<u32>,
    /// Group of everything.
    pub gid: Option<u32>,
    /// Permission bits that new files do not get, on top of the caller's own mask.
    pub umask: u32,
    /// How long a write waits for room in staging.
    pub stall_timeout: Duration,
}

/// Waits until everything released before the call is in the bucket; else says what is not.
pub type Barrier = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// The text of the `status` file.
pub type StatusText = Arc<dyn Fn() -> String + Send + Sync>;

/// What the file system stands on.
#[allow(missing_docs, reason = "the types say it")]
pub struct Parts {
    pub tree: Arc<Tree>,
    pub staging: Arc<Staging>,
    pub queue: Queue,
    pub ingest: Ingest,
    pub clock: Clock,
    pub activities: Activities,
    pub options: FsOptions,
    pub barrier: Barrier,
    pub status_text: StatusText,
}

/// The file system. All its methods take `&self`; share it in an [`Arc`].
pub struct Fs {
    tree: Arc<Tree>,
    staging: Arc<Staging>,
    queue: Queue,
    ingest: Ingest,
    clock: Clock,
    activities: Activities,
    options: FsOptions,
    barrier: Barrier,
    handles: Handles,
    files: Files,
    status: Status,
    /// Copies that an earlier daemon's end cut short, until a whole one takes their name.
    partial: Mutex<HashMap<Location, Vec<FileId>>>,
    /// The object whose bytes the kernel may hold, of files that were opened for reading.
    cached: Mutex<HashMap<Ino, ObjectAttributes>>,
    /// Only one fetch of a file at a time; files share these by number.
    fetching: [tokio::sync::Mutex<()>; 16],
}

impl fmt::Debug for Fs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fs").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Fs {
    /// Puts the parts together; starts nothing.
    pub fn new(parts: Parts) -> Self {
        let started = parts.clock.wall();
        Self {
            status: Status::new(parts.ingest.clone(), parts.status_text, started),
            tree: parts.tree,
            staging: parts.staging,
            queue: parts.queue,
            ingest: parts.ingest,
            clock: parts.clock,
            activities: parts.activities,
            options: parts.options,
            barrier: parts.barrier,
            handles: Handles::default(),
            files: Files::default(),
            partial: Mutex::default(),
            cached: Mutex::default(),
            fetching: Default::default(),
        }
    }

    /// The tree below.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Whether the file at this path becomes part of a dataset when it is closed.
    fn claims(&self, path: &Location) -> bool {
        !temporary::is_temporary_path(path) && self.ingest.claims(path)
    }

    /// Space for `df`: what staging holds and may hold. The bucket has no end.
    pub fn statfs(&self) -> Space {
        let usage = self.staging.usage();
        Space {
            bytes_total: BUCKET_BYTES,
            bytes_staged: usage.bytes,
            bytes_free: usage.bytes_max.saturating_sub(usage.bytes),
            files: usage.files,
        }
    }
}

/// What is told as the size of the bucket: 1 PiB, large and yet no trouble to programs that add.
const BUCKET_BYTES: u64 = 1 << 50;

/// See [`Fs::statfs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Of the bucket, in bytes; a large number.
    pub bytes_total: u64,
    /// In staging, in bytes.
    pub bytes_staged: u64,
    /// Room in staging, in bytes: what can be written before something has been sent.
    pub bytes_free: u64,
    /// Files in staging.
    pub files: u64,
}
