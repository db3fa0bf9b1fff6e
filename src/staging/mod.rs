//! Staging: the spool (bytes), the journal (records), the quota and recovery.
//!
//! What the kernel was told is written lies here until it is in the bucket. This is not a cache: it
//! is the only copy.
//!
//! ```text
//! <spool folder, mode 0700>
//! ├── lock                 held by the daemon, with its process number
//! ├── journal/NNNNNNNN.seg records, and the content of small files
//! └── files/<id>           the content of each large file
//! ```
//!
//! `docs/JOURNAL.md` describes the format. What it must never do:
//! - answer success for a seal whose record is not in the page cache (it survives `kill -9`), or
//!   for a sync whose bytes are not on the disk (it survives a power cut);
//! - show a file as closed whose bytes may have changed since, or never arrived: it is *partial*;
//! - skip a record that cannot be read: only an incomplete last one is cut off.

mod account;
mod area;
mod body;
mod extents;
mod file;
mod frame;
mod journal;
mod lock;
mod quota;
mod record;
mod recovery;
mod segment;
mod spool;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

pub use area::Staging;
pub use file::StagedFile;

use crate::base::durable::FileError;
use crate::store::Location;

/// Names a staged file; never reused within a spool. It is also the file's inode number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct FileId(pub u64);

/// Where the spool is and how much it may hold.
#[derive(Debug, Clone)]
pub struct SpoolOptions {
    /// Made with mode 0700 if it is not there.
    pub folder: PathBuf,
    /// Quota: bytes of content that may be staged.
    pub size_max: u64,
    /// Files up to this size live in memory while open and in the journal once closed. At most
    /// 16 MiB; more is taken as that.
    pub inline_bytes_max: usize,
}

/// What the journal belongs to. A spool whose identity differs in store or mount point is refused.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SpoolIdentity {
    /// Canonical store URL with its endpoint.
    pub store: String,
    /// The folder it is mounted on.
    pub mount_point: PathBuf,
    /// The resolved configuration, for people and for `recover`.
    pub settings: serde_json::Value,
}

/// What a file's record says besides its path.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "the fields of stat(2)")]
pub struct FileAttributes {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Nanoseconds since the epoch.
    pub mtime_ns: i64,
}

/// Why a spool cannot be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another daemon has it. The number is 0 in the moment before that one has written it.
    #[error("the spool {} is in use by process {pid}", folder.display())]
    #[allow(missing_docs, reason = "the sentence says it")]
    InUse { folder: PathBuf, pid: u32 },
    /// It holds what belongs elsewhere.
    #[error(
        "the spool {} belongs to {} mounted on {}, not to {} mounted on {}; \
         mount that one, or use another --spool-dir",
        folder.display(), found.store, found.mount_point.display(),
        wanted.store, wanted.mount_point.display()
    )]
    #[allow(missing_docs, reason = "the sentence says it")]
    OtherStore { folder: PathBuf, found: Box<SpoolIdentity>, wanted: Box<SpoolIdentity> },
    /// It was written by another version of this program.
    #[error(
        "{} has journal format {found}, this zarrmount reads format {expected}; \
         let the zarrmount that wrote it finish (mount and unmount), or use another --spool-dir",
        segment.display()
    )]
    #[allow(missing_docs, reason = "the sentence says it")]
    OtherVersion { segment: PathBuf, found: u32, expected: u32 },
    /// What was whole when it was written no longer is.
    #[error(
        "{} is damaged at byte {offset}: {damage}; nothing in the spool was changed: keep a copy, \
         or use another --spool-dir",
        segment.display()
    )]
    #[allow(missing_docs, reason = "the sentence says it")]
    Damaged { segment: PathBuf, offset: u64, damage: Damage },
    /// A segment that holds the content of a small file is gone.
    #[error("{} is missing: the content of `{path}` is in it", segment.display())]
    #[allow(missing_docs, reason = "the sentence says it")]
    MissingSegment { segment: PathBuf, path: Location },
    /// There is no journal, so nothing to look at.
    #[error("{} holds no spool, or an empty one", folder.display())]
    #[allow(missing_docs, reason = "the sentence says it")]
    NoSpool { folder: PathBuf },
    /// The file system said no.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What is wrong at a place in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The segment's header.
    #[error("the segment header cannot be read")]
    Header,
    /// A frame that other records follow, or in a segment that was finished.
    #[error("a record cannot be read, and it is not the last one")]
    Frame,
    /// The frame is as it was written, but holds no record of this version.
    #[error("the record of kind {kind} makes no sense")]
    #[allow(missing_docs, reason = "the sentence says it")]
    Record { kind: u8 },
    /// It contradicts the records before it.
    #[error("the record speaks of a file that is not staged, or is already")]
    OutOfPlace,
    /// The state at the segment's start.
    #[error("the segment's checkpoint is incomplete")]
    Checkpoint,
}

/// What an earlier daemon left behind.
#[derive(Debug, Default)]
pub struct Recovered {
    /// In the order of their numbers.
    pub files: Vec<RecoveredFile>,
    /// Objects whose deletion was asked for and not yet done.
    pub deletes: Vec<Location>,
    /// Notes by key, see [`Staging::note`].
    pub notes: Vec<(String, serde_json::Value)>,
    /// The first number that is free for new files.
    pub next_id: u64,
    /// What the earlier daemon was started with; `None` in a new spool.
    pub identity: Option<SpoolIdentity>,
    /// Bytes of an incomplete last record that were cut off: it was never acknowledged.
    pub torn_bytes: u64,
}

/// A file that an earlier daemon left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredFile {
    /// Its number.
    pub id: FileId,
    /// Where it is in the mount.
    pub path: Location,
    /// As last recorded.
    pub attributes: FileAttributes,
    /// Size in bytes of what is there.
    pub size: u64,
    /// Closed by its writer, and all its bytes are there. If false, it is partial: see `state`.
    pub closed: bool,
    /// Why it is partial, if it is.
    pub state: RecoveredState,
}

/// How a recovered file was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveredState {
    /// Closed, with all its bytes.
    Closed,
    /// The daemon died while it was being written, for the first time or again.
    Writing,
    /// It was closed, but the machine went down before its bytes are known to have reached the
    /// disk. They may be right: sealing it again takes them as they are.
    Unsynced,
    /// It was closed, but its spool file is gone or too short.
    Incomplete,
}

/// What lies in a spool, see [`Staging::inspect`].
#[derive(Debug)]
pub struct Inspection {
    /// What the spool belongs to.
    pub identity: SpoolIdentity,
    /// What a daemon would find.
    pub recovered: Recovered,
}

/// Why a write was not taken.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The quota or the spool's file system is used up; see [`Staging::room`].
    #[error("the staging area is full")]
    Full,
    /// The spool's file system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// How full the staging area is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    /// Bytes that staged content is charged: sizes without holes, in steps of 64 KiB for those.
    pub bytes: u64,
    /// The quota.
    pub bytes_max: u64,
    /// Staged files.
    pub files: u64,
}
