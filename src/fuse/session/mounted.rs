//! One mount, told from every other that lies at the same path before, after or above it.
//!
//! Mounts are taken away by path. A daemon may live longer than its mount, be it because files are
//! still open in it or because the last ones are still being sent; by then another mount may lie
//! there, perhaps somebody else's. So the table is asked each time whether what would be taken away
//! is the mount that was made.

use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::table::{Entry, entry_at, find};
use super::{UnmountError, fusermount, kernel};

/// A mount that this process has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mounted {
    path: PathBuf,
    /// Number of the mount and of its file system. The latter is not used again while the session
    /// lives.
    identity: Option<(u64, String)>,
}

impl Mounted {
    /// The mount that was made at `path` a moment ago.
    pub(super) fn at(path: &Path) -> Self {
        let entry = entry_at(path);
        Self { path: path.to_owned(), identity: entry.map(|entry| (entry.number, entry.device)) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts if nobody uses the mount.
    pub fn detach(&self) -> Result<(), UnmountError> {
        let path = self.uncovered()?.mount_point;
        if geteuid().is_root() { kernel::unmount(&path) } else { fusermount::unmount(&path) }
    }

    /// Takes the mount away from the tree at once, used or not. Who has files open in it sees errors
    /// once the daemon has ended.
    pub fn detach_now(&self) -> Result<(), UnmountError> {
        super::detach_now(&self.uncovered()?.mount_point)
    }

    fn uncovered(&self) -> Result<Entry, UnmountError> {
        let found = self.identity.as_ref().and_then(|(number, device)| find(*number, device));
        match found {
            Some((entry, false)) => Ok(entry),
            Some((entry, true)) => Err(UnmountError::Covered { path: entry.mount_point }),
            None => Err(UnmountError::Gone { path: self.path.clone() }),
        }
    }
}
