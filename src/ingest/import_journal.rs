//! What an import has put into the bucket, so that one that is interrupted goes on where it was.
//!
//! A text file: the digest of the plan, then one key a line. Keys are recorded after their objects
//! are in the bucket; a line that was cut short names no key of the plan.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::digest::Digest;
use super::epoch::EpochError;

/// The journal of one import.
#[derive(Debug)]
pub(super) struct ImportJournal {
    path: PathBuf,
    done: HashSet<String>,
    file: Mutex<File>,
}

impl ImportJournal {
    /// Whether there is the journal of an import into this dataset that did not end.
    pub(super) fn exists(path: &Path) -> bool {
        path.exists()
    }

    /// Goes on with the journal of the same plan, or begins one.
    pub(super) fn open(path: &Path, plan: &Digest) -> io::Result<Self> {
        let heading = format!("{plan:?}");
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut lines = text.lines();
        let is_same = lines.next() == Some(&heading);
        let done = if is_same { lines.map(str::to_owned).collect() } else { HashSet::new() };
        let mut options = OpenOptions::new();
        options.create(true).write(true);
        let mut file = if is_same {
            options.append(true).open(path)?
        } else {
            options.truncate(true).open(path)?
        };
        // After a line that was cut short the next one starts anew.
        if is_same {
            writeln!(file)?;
        } else {
            writeln!(file, "{heading}")?;
        }
        Ok(Self { path: path.to_owned(), done, file: Mutex::new(file) })
    }

    /// How many objects an earlier attempt put.
    pub(super) fn len(&self) -> usize {
        self.done.len()
    }

    /// Whether all of these were put by an earlier attempt.
    pub(super) fn has_all(&self, keys: &[String]) -> bool {
        keys.iter().all(|key| self.done.contains(key))
    }

    /// These are in the bucket now.
    pub(super) fn record(&self, keys: &[String]) -> Result<(), EpochError> {
        let mut text = keys.join("\n");
        text.push('\n');
        let written = self.file.lock().write_all(text.as_bytes());
        written.map_err(|error| EpochError::Key(format!("{}: {error}", self.path.display())))
    }

    /// The import has come to its end.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
