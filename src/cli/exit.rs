//! The exit codes of all verbs.

use std::process::ExitCode;

/// How a verb ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Exit {
    /// What was asked for is done. For `umount`: everything is in the bucket and the mount is gone.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The arguments or the configuration are wrong; nothing was done.
    Usage = 2,
    /// Not everything is in the bucket; what is not is kept in staging. For `status`: something is
    /// refused, failed or left behind.
    NotStored = 3,
    /// The mount is in use by other processes and is still there.
    Busy = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// The exit with this code; unknown ones mean failure.
    pub(super) const fn of(code: u8) -> Self {
        match code {
            0 => Self::Done,
            2 => Self::Usage,
            3 => Self::NotStored,
            4 => Self::Busy,
            _ => Self::Failed,
        }
    }
}
