//! The record of this user's mounts, a folder for each mount point:
//!
//! ```text
//! $XDG_STATE_HOME/zarrmount/mounts/<hash of the mount point>/
//!     mount.json     MountRecord: what is mounted, by which daemon
//!     lock           held by the daemon for as long as it lives
//!     control.sock   the control socket (elsewhere if the path would be too long)
//!     daemon.log     the log, unless --log-file says otherwise
//! ```
//!
//! The lock, not the process number, says whether the daemon lives: numbers are used again.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use super::status::{MountStatus, Phase};
use crate::base::durable::{AtPath as _, FileError, create_private_folder, write_atomically};
use crate::config::{Config, hash_of};

/// Longest path of a Unix socket, `sun_path` of unix(7) without its final NUL.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// What is known about a mount without asking its daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MountRecord {
    /// The mount.
    pub mount: MountStatus,
    /// Where its daemon listens.
    pub socket: PathBuf,
    /// What it was told; `recover` goes on with it.
    pub config: Config,
}

/// Why the record of a mount cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Another daemon serves the mount point.
    #[error("a daemon for {} is running (process {pid}, {})", dir.display(), phase.as_str())]
    InUse {
        /// The mount point.
        dir: PathBuf,
        /// The daemon.
        pid: u32,
        /// What it is doing.
        phase: Phase,
    },
    /// A file of the record cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The record is damaged.
    #[error("{}: not a record of a mount: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The folder for sockets with short paths belongs to somebody else.
    #[error("{} must be a folder of this user that nobody else can use", .0.display())]
    UnsafeFolder(PathBuf),
}

/// The folder that records one mount point.
#[derive(Debug, Clone)]
pub struct RecordFolder(PathBuf);

/// Held by a daemon while it lives.
#[derive(Debug)]
pub struct DaemonLock {
    _file: File,
}

impl RecordFolder {
    /// The folder for `mount_point`; it need not exist.
    pub fn of(state_home: &Path, mount_point: &Path) -> Self {
        Self(state_home.join("mounts").join(hash_of(mount_point.as_os_str().as_bytes())))
    }

    /// All that exist.
    pub fn all(state_home: &Path) -> Vec<Self> {
        let entries = fs::read_dir(state_home.join("mounts")).into_iter().flatten().flatten();
        let mut folders: Vec<_> = entries.map(|entry| Self(entry.path())).collect();
        folders.sort_by(|a, b| a.0.cmp(&b.0));
        folders
    }

    /// Makes the folder.
    pub fn create(&self) -> Result<(), FileError> {
        create_private_folder(&self.0)
    }

    /// Where the daemon logs by default.
    pub fn log_file(&self) -> PathBuf {
        self.0.join("daemon.log")
    }

    /// Reads the record; `None` if there is none.
    pub fn read(&self) -> Result<Option<MountRecord>, RegistryError> {
        let path = self.record_file();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|source| RegistryError::Damaged { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FileError { path, source }.into()),
        }
    }

    /// Writes the record.
    pub fn write(&self, record: &MountRecord) -> Result<(), RegistryError> {
        let path = self.record_file();
        let bytes = serde_json::to_vec_pretty(record)
            .map_err(|source| RegistryError::Damaged { path: path.clone(), source })?;
        Ok(write_atomically(&path, &bytes)?)
    }

    /// Forgets the mount; the log stays.
    pub fn remove(&self, record: &MountRecord) {
        for path in [&record.socket, &self.record_file()] {
            if let Err(error) = fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "could not be removed");
            }
        }
    }

    /// Becomes the daemon of this mount point.
    pub fn lock(&self, mount_point: &Path) -> Result<DaemonLock, RegistryError> {
        self.create()?;
        let (path, file) = self.lock_file()?;
        match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole_file())) {
            Ok(_) => Ok(DaemonLock { _file: file }),
            Err(Errno::EAGAIN | Errno::EACCES) => {
                let mount = self.read().ok().flatten().map(|record| record.mount);
                Err(RegistryError::InUse {
                    dir: mount_point.to_owned(),
                    pid: mount.as_ref().map_or(0, |mount| mount.pid),
                    phase: mount.map_or(Phase::Starting, |mount| mount.phase),
                })
            }
            Err(errno) => Err(FileError { path, source: errno.into() }.into()),
        }
    }

    /// Whether a daemon lives and can be asked.
    pub fn has_daemon(&self) -> bool {
        self.record_file().exists() && self.is_locked()
    }

    /// Whether a daemon lives, be it about to start or to end.
    pub fn is_locked(&self) -> bool {
        let Ok(file) = File::options().read(true).open(self.0.join("lock")) else { return false };
        let mut lock = whole_file();
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock)).is_ok()
            && i32::from(lock.l_type) != libc::F_UNLCK
    }

    /// Where the daemon should listen. Its folder exists and is this user's alone.
    pub fn socket(&self) -> Result<PathBuf, RegistryError> {
        let path = self.0.join("control.sock");
        if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok(path);
        }
        let name = format!("{}.sock", hash_of(self.0.as_os_str().as_bytes()));
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let folder = runtime
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join("zarrmount"))
            .filter(|folder| folder.join(&name).as_os_str().len() <= SOCKET_PATH_BYTES_MAX)
            .unwrap_or_else(|| PathBuf::from(format!("/tmp/zarrmount-{}", geteuid())));
        private_folder(&folder)?;
        Ok(folder.join(name))
    }

    fn record_file(&self) -> PathBuf {
        self.0.join("mount.json")
    }

    fn lock_file(&self) -> Result<(PathBuf, File), FileError> {
        let path = self.0.join("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .at(&path)?;
        Ok((path, file))
    }
}

/// A write lock on the whole file, belonging to the open file (fcntl(2), "open file description
/// locks"): unlike flock(2) it can be asked about without being taken for a moment.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the constants are small and the fields are too"
)]
const fn whole_file() -> libc::flock {
    libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// A folder in a place where others may write, too: it must be ours and closed to them.
fn private_folder(folder: &Path) -> Result<(), RegistryError> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(FileError { path: folder.to_owned(), source: error }.into());
        }
        _ => {}
    }
    let metadata = fs::symlink_metadata(folder).at(folder)?;
    let ours = metadata.is_dir()
        && metadata.uid() == geteuid().as_raw()
        && metadata.mode().trailing_zeros() >= 6;
    if ours { Ok(()) } else { Err(RegistryError::UnsafeFolder(folder.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_daemon_for_a_mount_point_is_refused_while_the_first_lives() {
        let home = tempfile::tempdir().unwrap();
        let folder = RecordFolder::of(home.path(), Path::new("/mnt/x"));
        let lock = folder.lock(Path::new("/mnt/x")).unwrap();
        assert!(folder.is_locked());
        assert!(matches!(folder.lock(Path::new("/mnt/x")), Err(RegistryError::InUse { .. })));
        drop(lock);
        assert!(!folder.is_locked());
        assert!(folder.lock(Path::new("/mnt/x")).is_ok());
    }

    #[test]
    fn a_socket_below_a_long_folder_gets_a_short_path() {
        let home = tempfile::tempdir().unwrap();
        let short = RecordFolder::of(home.path(), Path::new("/mnt/x"));
        assert!(short.socket().unwrap().starts_with(home.path()));
        let long = home.path().join("x".repeat(100));
        let socket = RecordFolder::of(&long, Path::new("/mnt/x")).socket().unwrap();
        assert!(socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        assert_eq!(fs::metadata(socket.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_others_can_enter_holds_no_socket() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("open");
        private_folder(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(private_folder(&folder), Err(RegistryError::UnsafeFolder(_))));
    }
}
