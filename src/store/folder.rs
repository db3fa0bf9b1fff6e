//! Objects as files of a local folder, with the guarantees of an object store.
//!
//! - A put is atomic and durable: the bytes are staged in one folder below the root, synced, and
//!   renamed; the folders on the way are synced. A staged file is locked while its writer lives: what
//!   a writer that died left behind is removed when the store is opened.
//! - A conditional put holds between processes of one host: `Absent` is a hard link, which fails
//!   where a name exists; `Matches` compares and renames under an exclusive `flock` on the root
//!   folder, while other puts and deletes hold a shared one.
//! - Empty folders left by a delete are removed, as folders of a bucket vanish.
//! - A root folder that is not the one that was opened, say because its disk was unmounted, is an
//!   error that may pass, and never an empty store.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use nix::fcntl::{Flock, FlockArg};

use super::error::{Kind, Operation, StoreError};
use super::location::Location;
use super::object::{Fetched, ObjectAttributes, PutCondition, Version, WHOLE_GET_BYTES_MAX};
use crate::base::clock::Clock;
use crate::base::durable::{rename_durably, sync_folder};

/// The folder of staged files below the root; never an object.
pub(super) const STAGED_FOLDER: &str = ".zarrmount-new";
/// How often something is tried that others may undo in the moment in between.
const ATTEMPTS: u32 = 8;
/// Copied at a time by a put of a large object.
const STEP_BYTES: u64 = 8 << 20;

/// A folder as a store.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) root: PathBuf,
    /// Device and inode of the root when it was opened.
    identity: (u64, u64),
    staged: AtomicU64,
}

/// The error of an operation on a file.
pub(super) type Result<T, E = StoreError> = std::result::Result<T, E>;

impl Folder {
    /// Opens an existing folder.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let root = fs::canonicalize(root)?;
        let metadata = fs::metadata(&root)?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let identity = (metadata.dev(), metadata.ino());
        remove_orphans(&root.join(STAGED_FOLDER));
        Ok(Self { root, identity, staged: AtomicU64::new(0) })
    }

    /// The file of `at`, in a root that is still the one that was opened.
    pub(super) fn path(&self, operation: Operation, at: &Location) -> Result<PathBuf> {
        let found = fs::metadata(&self.root).ok().map(|found| (found.dev(), found.ino()));
        if found != Some(self.identity) {
            let message = format!("{} is not the folder that was opened", self.root.display());
            return Err(Kind::Passing.error(operation, at, None, String::new(), message));
        }
        if at.segments().next() == Some(STAGED_FOLDER) {
            let message = format!("the name `{STAGED_FOLDER}` is reserved");
            return Err(StoreError::invalid(operation, at, message));
        }
        Ok(self.root.join(at.as_str()))
    }

    pub(super) fn put(
        &self,
        at: &Location,
        body: &[u8],
        condition: &PutCondition,
    ) -> Result<Version> {
        let operation = match condition {
            PutCondition::Always => Operation::Put,
            PutCondition::Absent | PutCondition::Matches(_) => Operation::PutIf,
        };
        let path = self.path(operation, at)?;
        let failed = |error| from_io(operation, at, &error);
        let mut staged = self.stage().map_err(failed)?;
        staged.file.write_all(body).map_err(failed)?;
        let version = staged.finish().map_err(failed)?;
        match condition {
            PutCondition::Always => self.publish(&staged, &path).map_err(failed)?,
            PutCondition::Absent => {
                self.in_folder_of(&path, || fs::hard_link(&staged.path, &path)).map_err(failed)?;
                sync_parent(&path).map_err(failed)?;
            }
            PutCondition::Matches(expected) => {
                let _alone = self.lock(FlockArg::LockExclusive).map_err(failed)?;
                match fs::metadata(&path) {
                    Ok(found) if version_of(&found) == *expected => {}
                    Ok(_) => return Err(conflict(at, "it is another version")),
                    Err(error) if is_absent(&error) => return Err(conflict(at, "it is gone")),
                    Err(error) => return Err(failed(error)),
                }
                rename_durably(&staged.path, &path).map_err(|error| failed(error.source))?;
            }
        }
        Ok(version)
    }

    /// Puts `size` bytes that `read` gives in pieces.
    pub(super) fn put_large(
        &self,
        at: &Location,
        size: u64,
        read: &dyn Fn(Range<u64>) -> io::Result<Bytes>,
    ) -> Result<Result<Version, io::Error>> {
        let operation = Operation::PutLarge;
        let path = self.path(operation, at)?;
        let failed = |error| from_io(operation, at, &error);
        let mut staged = self.stage().map_err(failed)?;
        let mut offset = 0;
        while offset < size {
            let end = size.min(offset.saturating_add(STEP_BYTES));
            let bytes = match read(offset..end) {
                Ok(bytes) if bytes.len() as u64 == end - offset => bytes,
                Ok(_) => return Ok(Err(io::ErrorKind::UnexpectedEof.into())),
                Err(error) => return Ok(Err(error)),
            };
            staged.file.write_all(&bytes).map_err(failed)?;
            offset = end;
        }
        let version = staged.finish().map_err(failed)?;
        self.publish(&staged, &path).map_err(failed)?;
        Ok(Ok(version))
    }

    pub(super) fn get(&self, at: &Location, range: Option<Range<u64>>) -> Result<Fetched> {
        let operation = Operation::Get;
        let path = self.path(operation, at)?;
        let failed = |error| from_io(operation, at, &error);
        let file = File::open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(from_io(operation, at, &io::ErrorKind::NotFound.into()));
        }
        let size = metadata.len();
        if range.as_ref().is_some_and(|range| range.start >= size) {
            let message = format!("the range begins after the end, at {size} bytes");
            return Err(StoreError::invalid(operation, at, message));
        }
        let range = range.unwrap_or(0..size);
        let length = range.end.min(size).saturating_sub(range.start);
        let length = usize::try_from(length).ok().filter(|_| length <= WHOLE_GET_BYTES_MAX);
        let Some(length) = length else {
            let message = format!("{size} bytes are too many at once");
            return Err(StoreError::invalid(operation, at, message));
        };
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, range.start).map_err(failed)?;
        let modified = metadata.modified().map_err(failed)?;
        Ok(Fetched { bytes: bytes.into(), size, version: version_of(&metadata), modified })
    }

    pub(super) fn head(&self, at: &Location) -> Result<ObjectAttributes> {
        let path = self.path(Operation::Head, at)?;
        let failed = |error| from_io(Operation::Head, at, &error);
        let metadata = fs::metadata(&path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(from_io(Operation::Head, at, &io::ErrorKind::NotFound.into()));
        }
        attributes_of(&metadata).map_err(failed)
    }

    pub(super) fn delete(&self, at: &Location) -> Result<()> {
        let path = self.path(Operation::Delete, at)?;
        let failed = |error| from_io(Operation::Delete, at, &error);
        let _others_may = self.lock_shared();
        fs::remove_file(&path).map_err(failed)?;
        let mut folder = path.parent();
        while let Some(emptied) = folder.filter(|folder| **folder != *self.root) {
            if fs::remove_dir(emptied).is_err() {
                // Not empty, or a file was just put there.
                break;
            }
            folder = emptied.parent();
        }
        match folder.map(sync_folder) {
            Some(Err(error)) if !is_absent(&error.source) => Err(failed(error.source)),
            _ => Ok(()),
        }
    }

    pub(super) fn copy(&self, from: &Location, to: &Location) -> Result<()> {
        let source = self.path(Operation::Copy, from)?;
        let target = self.path(Operation::Copy, to)?;
        let mut source = File::open(source).map_err(|e| from_io(Operation::Copy, from, &e))?;
        let failed = |error| from_io(Operation::Copy, to, &error);
        let mut staged = self.stage().map_err(failed)?;
        io::copy(&mut source, &mut *staged.file).map_err(failed)?;
        staged.finish().map_err(failed)?;
        self.publish(&staged, &target).map_err(failed)
    }

    fn publish(&self, staged: &Staged, path: &Path) -> io::Result<()> {
        let _others_may = self.lock_shared();
        self.in_folder_of(path, || rename_durably(&staged.path, path).map_err(|error| error.source))
    }

    /// Does `work` with the folders above `path` in place. Whoever deletes the last object of a folder
    /// removes that too, perhaps in this moment: then it is made again.
    fn in_folder_of(&self, path: &Path, work: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.root);
        let mut done = Ok(());
        for _ in 0..ATTEMPTS {
            done = self.create_folders(folder).and_then(|()| work());
            if !matches!(&done, Err(error) if error.kind() == io::ErrorKind::NotFound) {
                break;
            }
        }
        done
    }

    fn lock(&self, how: FlockArg) -> io::Result<Flock<File>> {
        let root = File::open(&self.root)?;
        Flock::lock(root, how).map_err(|(_, errno)| io::Error::from(errno))
    }

    /// Without it where the file system has no locks: conditional puts are refused there.
    fn lock_shared(&self) -> Option<Flock<File>> {
        self.lock(FlockArg::LockShared).ok()
    }

    /// A new file on its way to its name.
    fn stage(&self) -> io::Result<Staged> {
        let folder = self.root.join(STAGED_FOLDER);
        // Whoever opens the store at this moment may take a file for an orphan before we lock it,
        // and whoever ends a put may remove the empty folder.
        for _ in 0..ATTEMPTS {
            match fs::create_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let number = self.staged.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                    Ok(file) => return Ok(Staged { path, file }),
                    Err((_, nix::Error::EWOULDBLOCK)) => {}
                    Err((_, errno)) => return Err(errno.into()),
                },
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => {}
                    _ => return Err(error),
                },
            }
        }
        Err(io::ErrorKind::ResourceBusy.into())
    }

    fn create_folders(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() || !folder.starts_with(&self.root) {
            return Ok(());
        }
        if let Some(parent) = folder.parent() {
            self.create_folders(parent)?;
        }
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        sync_parent(folder)
    }
}

/// Removes staged files whose writer is gone. What cannot be removed does no harm.
fn remove_orphans(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
        if let Ok(_alone) = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "a staged file stays behind");
        }
    }
}

/// A file on its way to its name; removed if it does not get there.
struct Staged {
    path: PathBuf,
    file: Flock<File>,
}

impl Staged {
    /// Makes the bytes durable and names their version.
    fn finish(&self) -> io::Result<Version> {
        // The kernel stamps files a few milliseconds apart alike, and inode numbers are used
        // again: an exact time keeps two versions apart.
        self.file.set_modified(Clock::system().wall())?;
        self.file.sync_all()?;
        Ok(version_of(&self.file.metadata()?))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %self.path.display(), %error, "a staged file stays behind");
            }
            _ => {}
        }
        // The last one leaves no trace; while others are there this fails, as it should.
        let _removed = self.path.parent().is_some_and(|folder| fs::remove_dir(folder).is_ok());
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| sync_folder(parent).map_err(|error| error.source))
}

pub(super) fn attributes_of(metadata: &fs::Metadata) -> io::Result<ObjectAttributes> {
    let version = Some(version_of(metadata));
    Ok(ObjectAttributes { size: metadata.len(), modified: metadata.modified()?, version })
}

/// Inode, modification time in nanoseconds, size.
fn version_of(metadata: &fs::Metadata) -> Version {
    let (ino, size) = (metadata.ino(), metadata.len());
    let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
    let etag = format!("\"{ino:x}-{seconds:x}.{nanoseconds:x}-{size:x}\"");
    Version { etag, generation: None }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn conflict(at: &Location, message: &str) -> StoreError {
    Kind::Conflict.error(Operation::PutIf, at, None, String::new(), message.to_owned())
}

/// By what the caller can do about it.
pub(super) fn from_io(operation: Operation, at: &Location, error: &io::Error) -> StoreError {
    use io::ErrorKind as E;
    let writes = matches!(operation, Operation::Put | Operation::PutIf | Operation::PutLarge);
    let kind = match error.kind() {
        E::AlreadyExists if operation == Operation::PutIf => Kind::Conflict,
        E::NotFound | E::NotADirectory if !writes => Kind::NotFound,
        E::PermissionDenied | E::ReadOnlyFilesystem => Kind::Denied,
        E::NotADirectory
        | E::IsADirectory
        | E::DirectoryNotEmpty
        | E::AlreadyExists
        | E::InvalidFilename
        | E::InvalidInput
        | E::Unsupported
        | E::FileTooLarge => Kind::Invalid,
        // Full, busy, stale, or damaged: someone may mend it.
        _ => Kind::Passing,
    };
    kind.error(operation, at, None, String::new(), error.to_string())
}
