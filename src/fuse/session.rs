//! Mounting, serving and unmounting.
//!
//! The mount is made here and not by `fuser`, whose session unmounts by path when it ends: a daemon
//! that still sends the last files must never take away the next mount of the same folder. As root
//! it is mount(2), otherwise the setuid helper `fusermount3`; both give it the type
//! `fuse.zarrmount`, by which [`table`] knows it again.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub use fuser::Filesystem;
use fuser::{Session, SessionACL};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::geteuid;
use tokio::sync::oneshot;

mod fusermount;
mod holders;
mod kernel;
mod mount_point;
mod mounted;
mod table;
mod utab;

pub use holders::{Holder, holders};
pub use mount_point::{Prepared, State, prepare, state};
pub use mounted::Mounted;
pub use table::{Entry, entry_at};

/// The file system type, as `mount` and `/proc/mounts` show it.
pub const FILE_SYSTEM_TYPE: &str = "fuse.zarrmount";

/// Threads that read requests from the kernel. Handlers do not wait for the network, but they do
/// read and write the spool, so that a second request must not wait for the first one's disk.
const THREADS: usize = 4;

/// How a mount appears to the system.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// Shown as the source of the mount.
    pub source: String,
    /// An existing folder; absolute.
    pub mount_point: PathBuf,
    /// Whether the kernel refuses changes.
    pub read_only: bool,
    /// Whether other users may use it.
    pub allow_other: bool,
}

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The folder is not there.
    #[error("the mount point {} does not exist", .0.display())]
    Missing(PathBuf),
    /// It is a file.
    #[error("the mount point {} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The folder cannot be looked at.
    #[error("the mount point {} cannot be used: {source}", path.display())]
    Inaccessible {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another `zarrmount` serves the folder.
    #[error("{url} is already mounted at {}", path.display())]
    AlreadyMounted {
        /// The folder.
        path: PathBuf,
        /// What is mounted.
        url: String,
    },
    /// A dead mount of another program lies there.
    #[error("{} holds a dead mount of type {kind} that is not ours", path.display())]
    ForeignDeadMount {
        /// The folder.
        path: PathBuf,
        /// Its file system type.
        kind: String,
    },
    /// The kernel offers no FUSE.
    #[error("this system has no /dev/fuse")]
    NoDevice,
    /// /dev/fuse is closed to this user.
    #[error("/dev/fuse cannot be opened: {0}")]
    DeviceDenied(io::Error),
    /// mount(2) was refused to root.
    #[error("the kernel refuses to mount at {}: {source}", path.display())]
    Refused {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The helper for users other than root is missing.
    #[error("fusermount3 is not installed; users other than root need it to mount")]
    NoFusermount,
    /// The helper said no.
    #[error("fusermount3 could not mount at {}: {message}", path.display())]
    Fusermount {
        /// The folder.
        path: PathBuf,
        /// What it printed.
        message: String,
    },
    /// /etc/fuse.conf does not let users share their mounts.
    #[error("--allow-other needs the line `user_allow_other` in /etc/fuse.conf")]
    AllowOtherForbidden,
    /// The kernel and this program do not understand each other.
    #[error("the FUSE session could not be started: {0}")]
    Handshake(io::Error),
}

/// Why a mount is still there.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Processes have files or their working folder in it.
    #[error("{} is in use", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
        /// Those that could be found; others may belong to other users.
        holders: Vec<Holder>,
    },
    /// It is not in the tree any more, but files in it are still open.
    #[error("{} was unmounted before, and files in it are still open", path.display())]
    Gone {
        /// The folder.
        path: PathBuf,
    },
    /// Another mount lies on top of it.
    #[error("another mount lies on top of {}: unmount that one first", path.display())]
    Covered {
        /// The folder.
        path: PathBuf,
    },
    /// The system said no for another reason.
    #[error("{} cannot be unmounted: {message}", path.display())]
    Failed {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
}

/// A mount whose requests nobody answers yet. Dropping it makes the mount dead: call
/// [`serve`](Self::serve), or [`Mounted::detach_now`].
#[derive(Debug)]
pub struct Attachment {
    device: OwnedFd,
    options: MountOptions,
    mounted: Mounted,
}

/// Mounts. The folder must have passed [`prepare`].
pub fn attach(options: MountOptions) -> Result<Attachment, MountError> {
    let device =
        if geteuid().is_root() { kernel::mount(&options)? } else { fusermount::mount(&options)? };
    let mounted = Mounted::at(&options.mount_point);
    Ok(Attachment { device, options, mounted })
}

impl Attachment {
    /// Answers the kernel's requests with `filesystem` on threads of its own. The receiver gets the
    /// outcome when the mount is gone, by whatever way.
    pub fn serve<F>(
        self,
        filesystem: F,
    ) -> Result<(Mounted, oneshot::Receiver<io::Result<()>>), MountError>
    where
        F: Filesystem,
    {
        let acl = if self.options.allow_other { SessionACL::All } else { SessionACL::Owner };
        let mut config = fuser::Config::default();
        config.acl = acl;
        config.n_threads = Some(THREADS);
        let mounted = self.mounted;
        let session =
            Session::from_fd(filesystem, self.device, acl, config).map_err(MountError::Handshake);
        let session = session.inspect_err(|_| detach_quietly(&mounted))?;
        let (ended, outcome) = oneshot::channel();
        std::thread::Builder::new()
            .name("fuse-session".into())
            .spawn(move || {
                if ended.send(session.run()).is_err() {
                    tracing::debug!("the session ended and nobody waited for it");
                }
            })
            .map_err(MountError::Handshake)
            .inspect_err(|_| detach_quietly(&mounted))?;
        if geteuid().is_root() {
            utab::enter(&self.options.source, mounted.path());
        }
        Ok((mounted, outcome))
    }
}

/// Takes a dead mount away, used or not.
pub fn detach_now(mount_point: &Path) -> Result<(), UnmountError> {
    if geteuid().is_root() {
        kernel::unmount_lazily(mount_point)
    } else {
        fusermount::unmount_lazily(mount_point)
    }
}

fn detach_quietly(mounted: &Mounted) {
    if let Err(error) = mounted.detach_now() {
        tracing::warn!(%error, "the mount could not be taken away after a failed start");
    }
}

/// Raises the limit of open files as far as this user may: each open file of the mount may need one
/// in the spool, and each connection another.
pub fn raise_open_files_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}
