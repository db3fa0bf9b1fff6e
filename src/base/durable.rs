//! File operations whose failure names the path, and whose success survives a power cut where
//! the name says so.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An input/output error with the file it is about.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FileError {
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Attaches a path to an [`io::Error`].
pub trait AtPath<T> {
    /// The same result with the path in its error.
    fn at(self, path: impl AsRef<Path>) -> Result<T, FileError>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, path: impl AsRef<Path>) -> Result<T, FileError> {
        self.map_err(|source| FileError { path: path.as_ref().to_owned(), source })
    }
}

/// Writes a whole file so that after a crash either the old or the new content is there.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let temporary = path.with_added_extension("new");
    let mut file = File::create(&temporary).at(&temporary)?;
    file.write_all(content).at(&temporary)?;
    file.sync_all().at(&temporary)?;
    rename_durably(&temporary, path)
}

/// Renames and makes the rename durable: the folder is synced, and the file was by the caller.
#[allow(clippy::disallowed_methods, reason = "the durable rename that others must use")]
pub fn rename_durably(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).at(from)?;
    match to.parent() {
        Some(folder) => sync_folder(folder),
        None => Ok(()),
    }
}

/// Makes creations, renames and removals in `folder` durable.
pub fn sync_folder(folder: &Path) -> Result<(), FileError> {
    File::open(folder).and_then(|handle| handle.sync_all()).at(folder)
}

/// Creates `folder` and its parents, for this user only.
pub fn create_private_folder(folder: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).at(folder)
}
