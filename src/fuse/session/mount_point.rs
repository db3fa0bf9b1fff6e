//! Whether a folder can be mounted on, and the removal of dead mounts of ours.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statfs::statfs;
use nix::unistd::{AccessFlags, access};

use super::{Entry, FILE_SYSTEM_TYPE, MountError, detach_now, entry_at};

/// What [`prepare`] found; both are worth telling the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Prepared {
    /// A dead mount was taken away.
    pub removed_dead_mount: bool,
    /// Entries of the folder that the mount hides.
    pub hidden_entries: usize,
}

/// What lies at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// No mount of ours.
    Free,
    /// A mount of ours that has a daemon.
    Alive(Entry),
    /// A mount of ours whose daemon is gone.
    Dead(Entry),
    /// Another program's mount whose server is gone.
    ForeignDead(Entry),
}

/// Looks at `path`. Waits for the daemon of a mount that has one.
pub fn state(path: &Path) -> State {
    let Some(entry) = entry_at(path) else { return State::Free };
    let ours = entry.kind == FILE_SYSTEM_TYPE;
    // Unlike attributes, which the kernel remembers, this always asks the daemon.
    let dead = statfs(path).is_err_and(|errno| errno == Errno::ENOTCONN);
    match (ours, dead) {
        (true, true) => State::Dead(entry),
        (true, false) => State::Alive(entry),
        (false, true) => State::ForeignDead(entry),
        (false, false) => State::Free,
    }
}

/// Makes sure that `path` can be mounted on: takes a dead mount of ours away, and says what stands
/// in the way of anything else.
pub fn prepare(path: &Path) -> Result<Prepared, MountError> {
    let mut prepared = Prepared::default();
    loop {
        match state(path) {
            State::Free => break,
            State::Dead(_) => {
                detach_now(path).map_err(|error| MountError::Inaccessible {
                    path: path.to_owned(),
                    source: io::Error::other(error),
                })?;
                prepared.removed_dead_mount = true;
            }
            State::Alive(entry) => {
                return Err(MountError::AlreadyMounted {
                    path: path.to_owned(),
                    url: entry.source,
                });
            }
            State::ForeignDead(entry) => {
                return Err(MountError::ForeignDeadMount {
                    path: path.to_owned(),
                    kind: entry.kind,
                });
            }
        }
    }
    check_folder(path)?;
    prepared.hidden_entries = fs::read_dir(path).map(Iterator::count).unwrap_or_default();
    check_device()?;
    Ok(prepared)
}

fn check_folder(path: &Path) -> Result<(), MountError> {
    let path: PathBuf = path.to_owned();
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(MountError::NotAFolder(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(MountError::Missing(path)),
        Err(source) => Err(MountError::Inaccessible { path, source }),
    }
}

fn check_device() -> Result<(), MountError> {
    match access("/dev/fuse", AccessFlags::R_OK | AccessFlags::W_OK) {
        Ok(()) => Ok(()),
        Err(Errno::ENOENT) => Err(MountError::NoDevice),
        Err(errno) => Err(MountError::DeviceDenied(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_mounted_on_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(matches!(prepare(&file), Err(MountError::NotAFolder(_))));
        assert!(matches!(prepare(&file.join("below")), Err(MountError::Inaccessible { .. })));
        let missing = folder.path().join("missing");
        assert!(matches!(prepare(&missing), Err(MountError::Missing(path)) if path == missing));
    }
}
