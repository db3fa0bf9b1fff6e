//! Open files and folders.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::namespace::{Ino, Listed};
use crate::staging::StagedFile;
use crate::store::{Location, Version};
use crate::telemetry::activities::AtWork;

/// An open file.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) ino: Ino,
    /// Opened for writing.
    pub(super) write: bool,
    /// Counted as a writer of the staged file, also if only created by it.
    pub(super) writer: Option<AtWork>,
    pub(super) append: bool,
    /// Something was written through this handle.
    pub(super) wrote: AtomicBool,
    /// The staged bytes it was opened on.
    pub(super) file: Option<Arc<StagedFile>>,
    /// The object it was opened on, and the version its reads are of.
    pub(super) object: Option<(Location, Mutex<Option<Version>>)>,
    /// The text of a status file.
    pub(super) text: Option<Bytes>,
}

impl Handle {
    pub(super) fn new(ino: Ino, flags: OpenFlags) -> Self {
        Self {
            ino,
            write: flags.write,
            writer: None,
            append: flags.append,
            wrote: AtomicBool::new(false),
            file: None,
            object: None,
            text: None,
        }
    }

    pub(super) fn set_wrote(&self) {
        self.wrote.store(true, Ordering::Relaxed);
    }

    pub(super) fn wrote(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, clippy::struct_excessive_bools, reason = "the flags of open(2)")]
pub struct OpenFlags {
    pub read: bool,
    pub write: bool,
    pub append: bool,
    pub truncate: bool,
    pub exclusive: bool,
}

impl OpenFlags {
    /// From the flags of open(2).
    pub fn from_bits(bits: i32) -> Self {
        let access = bits & libc::O_ACCMODE;
        Self {
            read: access != libc::O_WRONLY,
            write: access != libc::O_RDONLY,
            append: bits & libc::O_APPEND != 0,
            truncate: bits & libc::O_TRUNC != 0,
            exclusive: bits & libc::O_EXCL != 0,
        }
    }
}

/// A folder as it was when it was opened: numbering its entries again at each call would cost the
/// square of their number, and skip or repeat some.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) folder: Ino,
    pub(super) parent: Ino,
    pub(super) entries: Vec<Listed>,
}

/// All of a mount's handles. Numbers are never given twice.
#[derive(Debug, Default)]
pub(super) struct Handles {
    next: AtomicU64,
    files: RwLock<HashMap<u64, Arc<Handle>>>,
    folders: RwLock<HashMap<u64, Arc<Snapshot>>>,
}

impl Handles {
    pub(super) fn add(&self, handle: Handle) -> u64 {
        let fh = self.next.fetch_add(1, Ordering::Relaxed);
        self.files.write().insert(fh, Arc::new(handle));
        fh
    }

    pub(super) fn get(&self, fh: u64) -> Option<Arc<Handle>> {
        self.files.read().get(&fh).cloned()
    }

    pub(super) fn remove(&self, fh: u64) -> Option<Arc<Handle>> {
        self.files.write().remove(&fh)
    }

    /// The staged bytes that someone still has open, of a file that was deleted.
    pub(super) fn file_of(&self, ino: Ino) -> Option<Arc<StagedFile>> {
        let files = self.files.read();
        files.values().filter(|handle| handle.ino == ino).find_map(|handle| handle.file.clone())
    }

    /// Whether something was written through a handle that is open.
    pub(super) fn has_written(&self, ino: Ino) -> bool {
        self.files.read().values().any(|handle| handle.ino == ino && handle.wrote())
    }

    /// The file is changed by this mount: who reads it follows to the new version.
    pub(super) fn unpin(&self, ino: Ino) {
        for handle in self.files.read().values().filter(|handle| handle.ino == ino) {
            if let Some((_, version)) = &handle.object {
                *version.lock() = None;
            }
        }
    }

    pub(super) fn add_folder(&self, snapshot: Snapshot) -> u64 {
        let fh = self.next.fetch_add(1, Ordering::Relaxed);
        self.folders.write().insert(fh, Arc::new(snapshot));
        fh
    }

    pub(super) fn folder(&self, fh: u64) -> Option<Arc<Snapshot>> {
        self.folders.read().get(&fh).cloned()
    }

    pub(super) fn remove_folder(&self, fh: u64) {
        self.folders.write().remove(&fh);
    }
}
