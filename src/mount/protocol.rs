//! The protocol of the control socket: one JSON document a line. A client sends one [`Request`];
//! the daemon answers with any number of `progress` lines and then one final line.

use std::io::{self, BufRead};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine::FlushReport;
use super::status::StatusDocument;
use crate::fuse::session::Holder;
use crate::telemetry::progress::Transfer;

/// Grows when a change would be misunderstood by the other side.
pub const PROTOCOL_VERSION: u32 = 1;

/// Longest request; paths are at most 4096 bytes, escaped sixfold.
pub const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// Longest answer: a status that names some 100,000 files.
pub const REPLY_BYTES_MAX: u64 = 64 << 20;

/// The daemon sends a progress line at least this often, so that a client can tell a long wait from
/// a stuck daemon.
pub const HEARTBEAT: Duration = Duration::from_secs(1);

/// What a client asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL_VERSION`].
    pub version: u32,
    /// What it wants.
    #[serde(flatten)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
pub enum Command {
    /// The state of the mount.
    Status,
    /// Bring what was released into the bucket.
    Flush {
        /// Path below the mount; empty for everything.
        path: String,
        /// Give up after so many milliseconds without progress; by default what the mount was told.
        timeout_ms: Option<u64>,
    },
    /// The same, then unmount and end the daemon.
    Unmount {
        /// As for flush.
        timeout_ms: Option<u64>,
    },
}

/// A line of the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "lowercase")]
pub enum Reply {
    /// Not final.
    Progress(Transfer),
    /// Answers `status`.
    Status(Box<StatusDocument>),
    /// Answers `flush`.
    Flushed(FlushReport),
    /// Answers `unmount`.
    Unmount(UnmountOutcome),
    /// The request makes no sense here.
    Rejected {
        /// Why.
        message: String,
    },
}

/// How an unmount ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum UnmountOutcome {
    /// Unmounted; the daemon is ending.
    Unmounted(FlushReport),
    /// Still mounted, because not everything could be sent.
    NotFlushed(FlushReport),
    /// Still mounted, because it is in use. Everything released so far is sent.
    Busy {
        /// By whom.
        holders: Vec<Holder>,
    },
    /// The folder was unmounted before (lazily), but files are still open, and the daemon serves them
    /// until they are closed. Everything released so far is sent.
    Detached {
        /// The files that are open for writing; others may be open for reading.
        open: Vec<String>,
    },
    /// Still mounted, because the system refused.
    Failed {
        /// What it said.
        message: String,
    },
}

/// Why a line is no message.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// The other side closed the connection.
    #[error("the connection ended")]
    Ended,
    /// It is too long.
    #[error("a line is longer than {0} bytes")]
    TooLong(u64),
    /// It is not what was expected.
    #[error("a line is not understood: {0}")]
    NotUnderstood(#[from] serde_json::Error),
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads one message of at most `bytes_max` bytes.
pub fn read_message<T: serde::de::DeserializeOwned>(
    from: &mut impl BufRead,
    bytes_max: u64,
) -> Result<T, LineError> {
    let mut line = Vec::new();
    io::Read::take(&mut *from, bytes_max).read_until(b'\n', &mut line)?;
    parse_line(&line, bytes_max)
}

/// The message of a line that was read up to its end or to `bytes_max`.
pub fn parse_line<T: serde::de::DeserializeOwned>(
    line: &[u8],
    bytes_max: u64,
) -> Result<T, LineError> {
    match line.last() {
        None => Err(LineError::Ended),
        Some(b'\n') => Ok(serde_json::from_slice(line)?),
        Some(_) if u64::try_from(line.len()).is_ok_and(|len| len < bytes_max) => {
            Err(LineError::Ended)
        }
        Some(_) => Err(LineError::TooLong(bytes_max)),
    }
}

/// A message as a line.
pub fn line_of<T: Serialize>(message: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_look_on_the_wire_as_documented() {
        let request = Request {
            version: 1,
            command: Command::Flush { path: "a/b".into(), timeout_ms: Some(5000) },
        };
        let line = line_of(&request).unwrap();
        assert_eq!(
            String::from_utf8(line.clone()).unwrap(),
            "{\"version\":1,\"command\":\"flush\",\"path\":\"a/b\",\"timeout_ms\":5000}\n"
        );
        assert_eq!(read_message::<Request>(&mut line.as_slice(), 1000).unwrap(), request);
        let reply = Reply::Unmount(UnmountOutcome::Busy { holders: Vec::new() });
        let line = line_of(&reply).unwrap();
        assert_eq!(read_message::<Reply>(&mut line.as_slice(), 1000).unwrap(), reply);
        let reply = Reply::Unmount(UnmountOutcome::Unmounted(FlushReport::default()));
        let line = line_of(&reply).unwrap();
        assert_eq!(read_message::<Reply>(&mut line.as_slice(), 1000).unwrap(), reply);
    }

    #[test]
    fn a_line_without_end_is_not_read_for_ever() {
        let endless = vec![b'x'; 2000];
        let read = |bytes: &[u8]| read_message::<Request>(&mut &*bytes, 1000);
        assert!(matches!(read(&endless), Err(LineError::TooLong(1000))));
        assert!(matches!(read(b""), Err(LineError::Ended)));
        assert!(matches!(read(b"{\"version\":1,\"comm"), Err(LineError::Ended)));
        assert!(matches!(read(b"{}\n"), Err(LineError::NotUnderstood(_))));
    }
}
