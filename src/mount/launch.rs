//! How `mount` returns while the daemon goes on: the same program is started again with a pipe as
//! its standard output, on which it says one line of JSON when it is ready or has failed. There is
//! no fork of a process with threads, and whoever waits for the pipe sees its end if the daemon dies.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::protocol::{LineError, line_of, read_message};
use crate::base::durable::FileError;
use crate::telemetry::logging::open_log;

/// Set for the daemon process: report on standard output.
const PIPE_VARIABLE: &str = "ZARRMOUNT_READY_PIPE";

/// Longest report.
const REPORT_BYTES_MAX: u64 = 1 << 20;

/// The one line that a starting daemon says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "lowercase")]
pub enum Report {
    /// The mount can be used.
    Ready(Ready),
    /// It cannot.
    Failed {
        /// Why.
        message: String,
        /// What to do about it.
        hints: Vec<String>,
        /// The exit code to end with.
        exit: u8,
    },
}

/// What is worth knowing about a new mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// The store.
    pub url: String,
    /// The folder.
    pub dir: PathBuf,
    /// The log, if it is a file.
    pub log: Option<PathBuf>,
    /// Things the user may not expect, a sentence each.
    pub notes: Vec<String>,
}

/// Why no report came.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The log file cannot be written.
    #[error("the log file cannot be written: {0}")]
    Log(#[from] FileError),
    /// The process could not be started.
    #[error("the daemon could not be started: {0}")]
    Start(io::Error),
    /// It ended before it said anything.
    #[error("the daemon ended before the mount was ready ({0})")]
    Ended(String),
    /// It said something else.
    #[error("the daemon's report is not understood: {0}")]
    NotUnderstood(LineError),
}

/// Starts this program with `arguments` as a daemon whose errors go to `log`, and waits until it is
/// ready or has failed.
pub fn launch(arguments: &[OsString], log: &Path) -> Result<Report, LaunchError> {
    let program = std::env::current_exe().map_err(LaunchError::Start)?;
    let mut daemon = Command::new(program)
        .args(arguments)
        .env(PIPE_VARIABLE, "stdout")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(open_log(log)?)
        .spawn()
        .map_err(LaunchError::Start)?;
    let pipe =
        daemon.stdout.take().ok_or_else(|| LaunchError::Start(io::ErrorKind::Other.into()))?;
    match read_message(&mut BufReader::new(pipe), REPORT_BYTES_MAX) {
        Ok(report) => Ok(report),
        Err(LineError::Ended) => {
            let status = daemon.wait().map_err(LaunchError::Start)?;
            Err(LaunchError::Ended(status.to_string()))
        }
        Err(error) => Err(LaunchError::NotUnderstood(error)),
    }
}

/// The daemon's end of the pipe.
#[derive(Debug)]
pub struct ReadyPipe(());

impl ReadyPipe {
    /// The pipe, if this process was started by [`launch`]. It then leaves the terminal's session, so
    /// that Ctrl-C and closing the terminal do not reach it.
    pub fn from_environment() -> Option<Self> {
        std::env::var_os(PIPE_VARIABLE)?;
        if let Err(error) = nix::unistd::setsid() {
            tracing::warn!(%error, "the daemon stays in the session of its terminal");
        }
        Some(Self(()))
    }

    /// Says the line and closes the pipe; what is said after that is lost. An error means that nobody waits for the mount any more.
    pub fn report(&self, report: &Report) -> io::Result<()> {
        let mut pipe = io::stdout();
        pipe.write_all(&line_of(report)?)?;
        pipe.flush()?;
        let nowhere = File::options().write(true).open("/dev/null")?;
        Ok(nix::unistd::dup2_stdout(&nowhere)?)
    }
}
