//! Spool files: the content of large files, one file each in `files/`, named by number.
//!
//! Only so many are held open at a time; others are opened when they are read or written. One that
//! was unlinked while somebody may still use it stays open. Holes that are punched into a file
//! whose bytes are in the bucket will be recorded beside [`Extents`].

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use parking_lot::{Mutex, RwLock};

use super::FileId;
use super::extents::Extents;
use crate::base::durable::{AtPath, FileError, sync_folder};

/// Spool files held open at once: a quarter of the usual limit of 1024 descriptors.
const OPEN_FILES_MAX: usize = 256;

/// The folder of spool files.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    /// In the order of opening; every open handle is in it.
    open: Mutex<VecDeque<Weak<Slot>>>,
    /// A file was created or removed since the folder was last synced.
    folder_changed: AtomicBool,
}

/// One spool file.
#[derive(Debug)]
pub(super) struct SpoolFile {
    path: PathBuf,
    slot: Arc<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    handle: RwLock<Option<Arc<File>>>,
    /// Unlinked: it cannot be opened again.
    unlinked: AtomicBool,
}

impl Spool {
    pub(super) fn new(folder: PathBuf) -> Self {
        let folder_changed = AtomicBool::new(true);
        Self { folder, open: Mutex::default(), folder_changed }
    }

    pub(super) fn path_of(&self, id: FileId) -> PathBuf {
        self.folder.join(id.0.to_string())
    }

    /// A new, empty spool file.
    pub(super) fn create(&self, id: FileId) -> io::Result<SpoolFile> {
        let path = self.path_of(id);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        self.folder_changed.store(true, Ordering::Release);
        let spool_file = SpoolFile { path, slot: Arc::default() };
        self.hold(&spool_file, Arc::new(file));
        Ok(spool_file)
    }

    /// One that is there.
    pub(super) fn existing(&self, id: FileId) -> SpoolFile {
        SpoolFile { path: self.path_of(id), slot: Arc::default() }
    }

    /// Its handle, opened if it is not.
    pub(super) fn handle(&self, file: &SpoolFile) -> io::Result<Arc<File>> {
        if let Some(handle) = &*file.slot.handle.read() {
            return Ok(Arc::clone(handle));
        }
        let handle = OpenOptions::new().read(true).write(true).open(&file.path)?;
        Ok(self.hold(file, Arc::new(handle)))
    }

    fn hold(&self, file: &SpoolFile, handle: Arc<File>) -> Arc<File> {
        {
            let mut slot = file.slot.handle.write();
            if let Some(handle) = &*slot {
                return Arc::clone(handle);
            }
            *slot = Some(Arc::clone(&handle));
        }
        let oldest = {
            let mut open = self.open.lock();
            open.push_back(Arc::downgrade(&file.slot));
            if open.len() > OPEN_FILES_MAX { open.pop_front() } else { None }
        };
        if let Some(slot) = oldest.and_then(|slot| slot.upgrade()) {
            slot.release();
        }
        handle
    }

    /// Removes the file; who holds it can still use it.
    pub(super) fn unlink(&self, file: &SpoolFile) -> io::Result<()> {
        let handle = self.handle(file)?;
        {
            // It may have been given up since: from here on it cannot be.
            let mut slot = file.slot.handle.write();
            *slot = Some(handle);
            file.slot.unlinked.store(true, Ordering::Release);
        }
        self.folder_changed.store(true, Ordering::Release);
        fs::remove_file(&file.path)
    }

    /// Makes creations and removals survive a power cut.
    pub(super) fn sync_folder(&self) -> io::Result<()> {
        if !self.folder_changed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        sync_folder(&self.folder).map_err(|error| {
            self.folder_changed.store(true, Ordering::Release);
            error.source
        })
    }
}

impl SpoolFile {
    /// Nobody writes it for now: its descriptor is given up.
    pub(super) fn rest(&self) {
        self.slot.release();
    }
}

impl Slot {
    fn release(&self) {
        let mut handle = self.handle.write();
        if !self.unlinked.load(Ordering::Acquire) {
            *handle = None;
        }
    }
}

/// The numbers of the spool files in `folder`.
pub(super) fn list(folder: &Path) -> Result<Vec<FileId>, FileError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.at(folder)?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.at(folder)?.file_name();
        ids.extend(name.to_str().and_then(|name| name.parse().ok()).map(FileId));
    }
    Ok(ids)
}

/// Where a file that was found holds data.
pub(super) fn extents_of(file: &File) -> io::Result<Extents> {
    let metadata = file.metadata()?;
    let length = metadata.len();
    // Blocks of 512 bytes, whatever the file system's own size.
    if metadata.blocks().saturating_mul(512) >= length {
        return Ok(Extents::dense(length));
    }
    let mut extents = Extents::default();
    let mut offset = 0;
    while let Some(start) = seek(file, offset, Whence::SeekData)? {
        let end = seek(file, start, Whence::SeekHole)?.unwrap_or(length);
        extents.add(start, end.min(length));
        offset = end.max(start + 1);
    }
    extents.set_end(length);
    Ok(extents)
}

fn seek(file: &File, offset: u64, whence: Whence) -> io::Result<Option<u64>> {
    let signed = i64::try_from(offset).map_err(io::Error::other)?;
    match lseek(file.as_fd(), signed, whence) {
        Ok(found) => Ok(Some(found.cast_unsigned())),
        Err(Errno::ENXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}
