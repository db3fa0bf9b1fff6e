//! The side of the control socket that asks: for `status`, `flush` and `umount`.

use std::io::{BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::protocol::{
    Command, LineError, PROTOCOL_VERSION, REPLY_BYTES_MAX, Reply, Request, line_of, read_message,
};
use super::registry::MountRecord;
use crate::telemetry::progress::Progress;

/// A daemon that sends nothing for so long is stuck: it has a heartbeat of a second.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// Why a daemon gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("the daemon of {} cannot be reached: {source}", dir.display())]
    Unreachable {
        /// The mount point.
        dir: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The answer did not come or was not understood.
    #[error("the daemon of {} gave no answer: {source}", dir.display())]
    NoAnswer {
        /// The mount point.
        dir: PathBuf,
        /// What went wrong.
        source: LineError,
    },
    /// The daemon does not do that.
    #[error("the daemon of {} refused: {message}", dir.display())]
    Rejected {
        /// The mount point.
        dir: PathBuf,
        /// Why.
        message: String,
    },
}

/// Asks the daemon of `record` and waits for its final answer; progress goes to `progress`.
pub fn ask(
    record: &MountRecord,
    command: Command,
    progress: &dyn Progress,
) -> Result<Reply, ClientError> {
    let dir = record.mount.dir.clone();
    let unreachable = |source| ClientError::Unreachable { dir: dir.clone(), source };
    let no_answer = |source| ClientError::NoAnswer { dir: dir.clone(), source };

    let mut stream = UnixStream::connect(&record.socket).map_err(unreachable)?;
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(unreachable)?;
    let request = Request { version: PROTOCOL_VERSION, command };
    let line = line_of(&request).map_err(|error| no_answer(error.into()))?;
    stream.write_all(&line).map_err(unreachable)?;

    let mut replies = BufReader::new(stream);
    loop {
        match read_message(&mut replies, REPLY_BYTES_MAX).map_err(no_answer)? {
            Reply::Progress(transfer) => progress.report(transfer),
            Reply::Rejected { message } => return Err(ClientError::Rejected { dir, message }),
            reply => return Ok(reply),
        }
    }
}
