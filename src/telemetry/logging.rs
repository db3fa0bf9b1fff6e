//! Where log lines go and which are kept.
//!
//! `ZARRMOUNT_LOG` takes directives such as `debug` or `zarrmount::upload=trace,warn`; `-v` and
//! `-vv` are short for `debug` and `trace` of this crate. The log file is not rotated while it is
//! written: a start that finds it larger than [`LOG_BYTES_MAX`] moves it to `NAME.old` first.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing_subscriber::EnvFilter;

use crate::base::durable::{AtPath as _, FileError, rename_durably};

/// A log file larger than this is put aside at the next start: 16 MiB is some 100,000 lines.
pub const LOG_BYTES_MAX: u64 = 16 << 20;

/// The variable that holds filter directives.
pub const LOG_VARIABLE: &str = "ZARRMOUNT_LOG";

/// Where log lines go.
#[derive(Debug, Clone, Default)]
pub enum LogTarget {
    /// The terminal.
    #[default]
    Stderr,
    /// A file, appended to.
    File(PathBuf),
}

/// What kind of process logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It serves a mount; its log is read afterwards.
    Daemon,
    /// It answers on the terminal itself.
    Command,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The log file cannot be written.
    #[error("the log file cannot be written: {0}")]
    File(#[from] FileError),
    /// `ZARRMOUNT_LOG` cannot be parsed.
    #[error("`{LOG_VARIABLE}={text}` is not a log filter: {reason}")]
    Filter {
        /// What the variable holds.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Starts logging for this process: a daemon tells what it does, a command only what is wrong. A
/// second call changes nothing.
pub fn start(target: &LogTarget, role: Role, verbosity: u8) -> Result<(), LoggingError> {
    let filter = filter(role, verbosity)?;
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // `try_init` fails only where a subscriber is installed already, as in tests.
    let _installed = match target {
        LogTarget::Stderr => lines.with_writer(io::stderr).try_init().is_ok(),
        LogTarget::File(path) => {
            let file = open_log(path)?;
            lines.with_ansi(false).with_writer(Arc::new(file)).try_init().is_ok()
        }
    };
    Ok(())
}

/// Opens a log file for appending; one that has grown too long is put aside first.
pub fn open_log(path: &Path) -> Result<File, FileError> {
    if path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > LOG_BYTES_MAX) {
        rename_durably(path, &path.with_added_extension("old"))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).at(path)
}

fn filter(role: Role, verbosity: u8) -> Result<EnvFilter, LoggingError> {
    let text = match (std::env::var(LOG_VARIABLE), verbosity) {
        (_, 2..) => "info,zarrmount=trace".to_owned(),
        (_, 1) => "info,zarrmount=debug".to_owned(),
        (Ok(text), _) if !text.is_empty() => text,
        _ => match role {
            Role::Daemon => "warn,zarrmount=info".to_owned(),
            Role::Command => "warn".to_owned(),
        },
    };
    EnvFilter::try_new(&text)
        .map_err(|error| LoggingError::Filter { text, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_long_log_is_put_aside_at_the_next_start_and_a_short_one_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.log");
        writeln!(open_log(&path).unwrap(), "first").unwrap();
        writeln!(open_log(&path).unwrap(), "second").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\nsecond\n");

        open_log(&path).unwrap().set_len(LOG_BYTES_MAX + 1).unwrap();
        writeln!(open_log(&path).unwrap(), "third").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "third\n");
        assert!(path.with_added_extension("old").exists());
    }
}
