//! The kernel is gone, or is about to lose this process.
//!
//! Some files count as open at that moment. Of those that are closed only the release was thrown away
//! with the session: the flush of a close that went well has sealed them. Of the others the programs
//! were still writing, and what there is of such a file must never pass for the whole of it. Whether
//! the session ended by a proper unmount, after which nothing can be open, cannot be told from
//! `umount -f -l`.

use std::sync::Arc;

use super::files::Settled;
use super::{Error, Fs};
use crate::namespace::Ino;
use crate::staging::{FileId, StagedFile};
use crate::store::Location;

/// How the session with the kernel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionEnd {
    /// The kernel has ended it. Releases may be missing.
    ByKernel,
    /// It goes on, and this process is about to end: what is open now is really open, also if a copy
    /// of its descriptor was closed.
    ByDaemon,
}

/// A file whose writer had not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Its path in the mount.
    pub path: Location,
    /// How much of it there is.
    pub bytes: u64,
    /// False if an earlier content, which was closed, is kept instead of the unfinished one.
    pub is_partial: bool,
}

impl Fs {
    /// Settles the files that count as open, and tells which of them are not whole.
    pub fn session_ended(&self, end: SessionEnd) -> Vec<Cut> {
        let mut cut = Vec::new();
        for (ino, path) in self.tree.staged_below(Ino::ROOT) {
            let Some(file) = self.staging.file(FileId(ino.0)) else { continue };
            if file.writers() == 0 {
                continue;
            }
            if self.is_closed(ino, &file, end) {
                while file.writers() > 0 {
                    tracing::info!(%path, "closed by the end of the mount");
                    self.close_writer(ino, &file);
                }
                continue;
            }
            let bytes = file.len();
            let is_partial = self.cut(&file, &path);
            cut.push(Cut { path, bytes, is_partial });
        }
        cut
    }

    fn is_closed(&self, ino: Ino, file: &StagedFile, end: SessionEnd) -> bool {
        let unchanged = matches!(
            self.files.settled(ino),
            Settled::Fetched(generation, _) if generation == file.generation()
        );
        let may_go_on = end == SessionEnd::ByDaemon && self.handles.has_written(ino);
        unchanged || (file.is_sealed() && !may_go_on)
    }

    fn cut(&self, file: &Arc<StagedFile>, path: &Location) -> bool {
        match self.staging.cut(file) {
            Ok(is_partial) => {
                tracing::warn!(%path, "was still being written; it is kept, and not sent");
                is_partial
            }
            Err(error) => {
                let error = Error::from(error);
                tracing::error!(%path, %error, "was still being written, and cannot be recorded as such");
                true
            }
        }
    }
}
