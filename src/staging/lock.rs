//! One daemon per spool: an advisory lock that dies with its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::OpenError;
use crate::base::durable::AtPath;

/// Held as long as the spool is open. The file itself stays: removing it would race.
#[derive(Debug)]
pub(super) struct SpoolLock {
    _file: File,
}

impl SpoolLock {
    /// Takes the lock and writes this process's number into it.
    pub(super) fn acquire(folder: &Path) -> Result<Self, OpenError> {
        let path = path(folder);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).at(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse { folder: folder.to_owned(), pid: pid(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(error).at(&path)?,
        }
        file.set_len(0).at(&path)?;
        file.write_all(std::process::id().to_string().as_bytes()).at(&path)?;
        Ok(Self { _file: file })
    }

    /// Says who holds the lock, if anyone does.
    pub(super) fn check_free(folder: &Path) -> Result<(), OpenError> {
        let path = path(folder);
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file.at(&path)?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                Err(OpenError::InUse { folder: folder.to_owned(), pid: pid(&mut file) })
            }
            Err(TryLockError::Error(error)) => Err(error).at(&path)?,
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    folder.join("lock")
}

/// Zero if the holder has not written its number yet.
fn pid(file: &mut File) -> u32 {
    let mut text = String::new();
    match file.take(16).read_to_string(&mut text) {
        Ok(_) => text.trim().parse().unwrap_or(0),
        Err(_) => 0,
    }
}
