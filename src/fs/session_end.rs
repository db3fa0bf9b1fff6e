//! The kernel is gone.

use super::Fs;
use crate::namespace::Ino;
use crate::staging::FileId;

impl Fs {
    /// After the session with the kernel has ended nobody can write any more, and the last releases
    /// may have been thrown away with it: files that count as open are closed, as their programs
    /// believe they are.
    pub fn session_ended(&self) {
        for (ino, path) in self.tree.staged_below(Ino::ROOT) {
            let Some(file) = self.staging.file(FileId(ino.0)) else { continue };
            while file.writers() > 0 {
                tracing::info!(%path, "closed by the end of the mount");
                self.close_writer(ino, &file);
            }
        }
    }
}
