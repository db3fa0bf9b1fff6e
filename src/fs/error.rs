//! Why an operation of the file system fails, and the one number that a program gets to see of it.

use std::io;

use crate::ingest::{Cause, Refusal};
use crate::namespace::{PlaceError, ReadError};
use crate::staging::WriteError;
use crate::store::{Location, StoreError};

/// Why an operation fails. The sentence goes to the log, [`errno`](Self::errno) to the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing of this name, or the file was deleted.
    #[error("no such file or folder")]
    NotFound,
    /// The name is taken.
    #[error("the name is taken")]
    Exists,
    /// Something that only a folder can do.
    #[error("not a folder")]
    NotFolder,
    /// Something that a folder cannot do.
    #[error("it is a folder")]
    IsFolder,
    /// The folder still shows something.
    #[error("the folder is not empty")]
    NotEmpty,
    /// The name cannot be part of a key.
    #[error("`{0}` cannot be a name: keys are UTF-8 without control characters")]
    BadName(String),
    /// The name or the whole key is too long.
    #[error("the name is longer than 255 bytes, or the key longer than 1024")]
    NameTooLong,
    /// The mount, or this part of it, cannot be changed.
    #[error("read-only")]
    ReadOnly,
    /// The name is kept for `zarrmount` itself.
    #[error("the name `{0}` is reserved")]
    Reserved(String),
    /// A kind of file or link that a bucket has no place for.
    #[error("{0} cannot be kept in a bucket")]
    NoSuchKind(&'static str),
    /// The handle was not opened for this.
    #[error("the file is not open for this")]
    BadHandle,
    /// Flags that no meaning was given to.
    #[error("{0} is not supported")]
    BadFlags(&'static str),
    /// Files are written, or a dataset is growing, where this would pull the ground away.
    #[error("`{0}` is being written")]
    Busy(Location),
    /// Too much to copy on the server's side while a program waits.
    #[error("`{from}` cannot be renamed in the bucket: {reason}")]
    CrossDevice {
        /// What was to be renamed.
        from: Location,
        /// Why not.
        reason: String,
    },
    /// The bytes of an ingested source file are not kept.
    #[error("`{0}` has become part of a dataset; its own bytes are not kept (see --keep-source)")]
    Ingested(Location),
    /// The source file is not taken.
    #[error("{0}")]
    Refused(String, Cause),
    /// The file could not be sent, for good.
    #[error("`{path}` could not be stored: {reason}")]
    Failed {
        /// The file.
        path: Location,
        /// The lasting error.
        reason: String,
    },
    /// The staging area is full and stayed so.
    #[error("the staging area is full")]
    StagingFull,
    /// The staging area is full, and nothing in it can leave.
    #[error(
        "the staging area is full, and nothing in it can leave before `{0}` is closed; \
         it must hold whole files (see --spool-size)"
    )]
    StagingTooSmall(Location),
    /// The staging area does not work.
    #[error("staging: {0}")]
    Staging(#[from] io::Error),
    /// The bucket.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object is not the one that was opened.
    #[error("`{0}` was replaced in the bucket while it was open")]
    Replaced(Location),
    /// Not everything that was written before is in the bucket.
    #[error("not everything has arrived in the bucket: {0}")]
    Barrier(String),
}

impl Error {
    /// The number that the system call answers with.
    pub fn errno(&self) -> i32 {
        match self {
            Self::NotFound => libc::ENOENT,
            Self::Exists => libc::EEXIST,
            Self::NotFolder => libc::ENOTDIR,
            Self::IsFolder => libc::EISDIR,
            Self::NotEmpty => libc::ENOTEMPTY,
            // For a name, what Linux file systems answer when they cannot represent it.
            Self::BadName(_) | Self::BadFlags(_) => libc::EINVAL,
            Self::NameTooLong => libc::ENAMETOOLONG,
            Self::ReadOnly => libc::EROFS,
            // Not a matter of permission bits, so not EACCES. For kinds, as symlink(2) and mknod(2) say:
            // "the file system does not support this".
            Self::Reserved(_) | Self::NoSuchKind(_) => libc::EPERM,
            Self::BadHandle => libc::EBADF,
            Self::Busy(_) => libc::EBUSY,
            // `mv` then copies and deletes by itself.
            Self::CrossDevice { .. } => libc::EXDEV,
            Self::Ingested(_) => libc::EOPNOTSUPP,
            Self::Refused(_, cause) => errno_of(*cause),
            Self::Failed { .. } | Self::Barrier(_) => libc::EIO,
            Self::StagingFull | Self::StagingTooSmall(_) => libc::ENOSPC,
            Self::Staging(error) => match error.raw_os_error() {
                Some(code @ (libc::ENOSPC | libc::EDQUOT)) => code,
                // The spool's other troubles are not the program's: its errno would mislead.
                _ => libc::EIO,
            },
            Self::Store(error) => match error {
                StoreError::NotFound { .. } => libc::ENOENT,
                StoreError::Denied { .. } => libc::EACCES,
                // EAGAIN would make some programs spin.
                StoreError::Conflict { .. }
                | StoreError::Invalid { .. }
                | StoreError::Passing { .. } => libc::EIO,
            },
            // As with a file that another client of a file server has replaced.
            Self::Replaced(_) => libc::ESTALE,
        }
    }

    /// Whether a program may well expect this answer: it is not worth a line in the log.
    pub fn is_ordinary(&self) -> bool {
        matches!(
            self,
            Self::NotFound
                | Self::Exists
                | Self::NotFolder
                | Self::IsFolder
                | Self::NotEmpty
                | Self::BadHandle
                | Self::BadFlags(_)
        )
    }
}

fn errno_of(cause: Cause) -> i32 {
    match cause {
        Cause::Corrupt => libc::EBADMSG,
        Cause::Overlap => libc::EEXIST,
        Cause::Unsupported => libc::EOPNOTSUPP,
        Cause::Quota => libc::ENOSPC,
        Cause::Denied => libc::EACCES,
        Cause::Unreachable => libc::EIO,
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.message, refusal.cause)
    }
}

impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Full => Self::StagingFull,
            WriteError::Io(error) => Self::Staging(error),
        }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Store(error) => Self::Store(error),
            ReadError::Replaced(location) => Self::Replaced(location),
        }
    }
}

impl From<PlaceError> for Error {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::NoFolder => Self::NotFound,
            PlaceError::Taken(_) => Self::Exists,
        }
    }
}
