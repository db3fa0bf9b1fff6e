//! Staging: spool (bytes) and journal (records). Not a cache: it is the only copy.
#![allow(
    missing_docs,
    unused_variables,
    clippy::todo,
    clippy::unused_self,
    dead_code,
    reason = "interface being built"
)]

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::base::clock::Clock;
use crate::store::Location;

/// Names a staged file; never reused within a spool. It is also the file's inode number.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub struct FileId(pub u64);

#[derive(Debug, Clone)]
pub struct SpoolOptions {
    pub folder: PathBuf,
    /// Quota: bytes of content that may be staged.
    pub size_max: u64,
    /// Files up to this size live in memory while open and in the journal once closed.
    pub inline_bytes_max: usize,
}

/// What the journal belongs to. A spool whose identity differs in store or mount point is refused.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SpoolIdentity {
    /// Canonical store URL with its endpoint.
    pub store: String,
    pub mount_point: PathBuf,
    /// The resolved configuration, for people and for `recover`.
    pub settings: serde_json::Value,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileAttributes {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Nanoseconds since the epoch.
    pub mtime_ns: i64,
}

/// The shared staging area.
#[derive(Debug)]
pub struct Staging;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the spool {} is in use by process {pid}", folder.display())]
    InUse { folder: PathBuf, pid: u32 },
}

/// What an earlier daemon left behind.
#[derive(Debug, Default)]
pub struct Recovered {
    pub files: Vec<RecoveredFile>,
    /// Objects whose deletion was asked for and not yet done.
    pub deletes: Vec<Location>,
    /// Notes by key, see [`Staging::note`].
    pub notes: Vec<(String, serde_json::Value)>,
    /// The first number that is free for new files.
    pub next_id: u64,
}

#[derive(Debug)]
pub struct RecoveredFile {
    pub id: FileId,
    pub path: Location,
    pub attributes: FileAttributes,
    pub size: u64,
    /// Closed by its writer. If false, the daemon died while it was being written: partial.
    pub closed: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("the staging area is full")]
    Full,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Staging {
    pub fn open(
        options: SpoolOptions,
        identity: &SpoolIdentity,
        clock: Clock,
    ) -> Result<(Arc<Self>, Recovered), OpenError> {
        todo!()
    }
    /// A new, empty file. `path` is recorded so that a partial copy can be named after a crash.
    pub fn create(
        &self,
        id: FileId,
        path: &Location,
        attributes: &FileAttributes,
    ) -> io::Result<Arc<StagedFile>> {
        todo!()
    }
    pub fn file(&self, id: FileId) -> Option<Arc<StagedFile>> {
        todo!()
    }
    /// The file was closed by its last writer: journals path, attributes, size and, for small ones,
    /// the content. From here on it survives the death of the daemon. Returns the generation sealed.
    pub fn seal(
        &self,
        file: &StagedFile,
        path: &Location,
        attributes: &FileAttributes,
    ) -> io::Result<u64> {
        todo!()
    }
    /// A sealed file has another name or other attributes now (late chmod, utimes, rename).
    pub fn update(
        &self,
        id: FileId,
        path: &Location,
        attributes: &FileAttributes,
    ) -> io::Result<()> {
        todo!()
    }
    /// A folder was renamed: every staged file below moves with it.
    pub fn rename_folder(&self, from: &Location, to: &Location) -> io::Result<()> {
        todo!()
    }
    /// The file is not wanted any more (deleted, or superseded). Open readers keep their handle.
    pub fn discard(&self, id: FileId) -> io::Result<()> {
        todo!()
    }
    /// Generation `generation` is in the bucket. Frees the content and answers true if nothing was
    /// written since; answers false (and frees nothing) if the file has changed.
    pub fn uploaded(&self, id: FileId, generation: u64) -> io::Result<bool> {
        todo!()
    }
    pub fn record_delete(&self, location: &Location) -> io::Result<()> {
        todo!()
    }
    pub fn deleted(&self, location: &Location) -> io::Result<()> {
        todo!()
    }
    /// Remembers a small document under a key (the last one wins), or forgets it with `None`.
    pub fn note(&self, key: &str, value: Option<&serde_json::Value>) -> io::Result<()> {
        todo!()
    }
    /// Makes everything recorded so far durable (fdatasync of the journal, and folder).
    pub fn sync(&self) -> io::Result<()> {
        todo!()
    }
    pub fn usage(&self) -> Usage {
        todo!()
    }
    /// Waits until room has been freed since `Full` was answered.
    pub async fn room(&self) {
        todo!()
    }
}

#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub struct Usage {
    pub bytes: u64,
    pub bytes_max: u64,
    pub files: u64,
}

/// The content of one file, shared by its writers, readers and the uploader.
#[derive(Debug)]
pub struct StagedFile;

impl StagedFile {
    pub fn id(&self) -> FileId {
        todo!()
    }
    pub fn len(&self) -> u64 {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        todo!()
    }
    /// Writes all of `data` or nothing. Counts against the quota first.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), WriteError> {
        todo!()
    }
    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        todo!()
    }
    pub fn set_len(&self, len: u64) -> Result<(), WriteError> {
        todo!()
    }
    /// Content and its record on disk (fsync).
    pub fn sync(&self) -> io::Result<()> {
        todo!()
    }
    /// Grows with each change of the content.
    pub fn generation(&self) -> u64 {
        todo!()
    }
    /// Writers that have it open.
    pub fn writers(&self) -> u32 {
        todo!()
    }
    pub fn open_writer(&self) {
        todo!()
    }
    /// Returns how many writers are left.
    pub fn close_writer(&self) -> u32 {
        todo!()
    }
    /// When the content was last written.
    pub fn modified(&self) -> SystemTime {
        todo!()
    }
}
