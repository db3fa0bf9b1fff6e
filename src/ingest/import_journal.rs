//! What an import, or an epoch of a mount, has put into the bucket, so that one that is interrupted
//! goes on where it was.
//!
//! A text file: the digest of the plan, then a line for each object: its key, its size in bytes and the
//! entity tag that the store gave it, with tabs between. Lines are written after their objects are in
//! the bucket; one that was cut short names no object of the plan. A chunk without an object, since all
//! its values are the fill value, has no size.
//!
//! An object counts as put only if the bucket still shows it as it was put: somebody may have deleted
//! it since.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::digest::Digest;
use super::epoch::EpochError;
use crate::store::{ObjectAttributes, Version};

/// The line that says that chunks are being put: what was there before is cleared away.
const BEGUN: &str = "\tbegun";

/// The journal of one import or epoch.
#[derive(Debug)]
pub(super) struct ImportJournal {
    path: PathBuf,
    is_begun: bool,
    done: HashMap<String, Put>,
    file: Mutex<File>,
}

/// An object as it was put; `None` for a chunk that needs none.
pub(super) type Put = Option<(u64, String)>;

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
        let (mut done, mut is_begun) = (HashMap::new(), false);
        for line in lines.take_while(|_| is_same) {
            is_begun |= line == BEGUN;
            done.extend(parsed(line));
        }
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
        Ok(Self { path: path.to_owned(), is_begun, done, file: Mutex::new(file) })
    }

    /// Whether an earlier attempt at the same plan had begun to put chunks.
    pub(super) fn is_begun(&self) -> bool {
        self.is_begun
    }

    /// Chunks are being put from here on.
    pub(super) fn begin(&self) -> Result<(), EpochError> {
        if self.is_begun { Ok(()) } else { self.write(&format!("{BEGUN}\n")) }
    }

    /// How many objects an earlier attempt put.
    pub(super) fn len(&self) -> usize {
        self.done.len()
    }

    /// Forgets what the bucket does not show as it was put. `there`: its objects by key.
    pub(super) fn keep(&mut self, there: &HashMap<String, ObjectAttributes>) {
        self.done.retain(|key, put| match (put, there.get(key)) {
            (None, found) => found.is_none(),
            (Some(_), None) => false,
            (Some((size, etag)), Some(found)) => {
                let same = |version: &Version| version.etag == *etag;
                found.size == *size && found.version.as_ref().is_none_or(same)
            }
        });
    }

    /// Whether all of these were put by an earlier attempt.
    pub(super) fn has_all(&self, keys: &[String]) -> bool {
        keys.iter().all(|key| self.has(key))
    }

    /// Whether this was put by an earlier attempt.
    pub(super) fn has(&self, key: &str) -> bool {
        self.done.contains_key(key)
    }

    /// This is in the bucket now, or needs no object.
    pub(super) fn record(&self, key: &str, put: &Put) -> Result<(), EpochError> {
        self.write(&match put {
            Some((size, etag)) => format!("{key}\t{size}\t{etag}\n"),
            None => format!("{key}\t\t\n"),
        })
    }

    fn write(&self, text: &str) -> Result<(), EpochError> {
        let written = self.file.lock().write_all(text.as_bytes());
        written.map_err(|error| EpochError::Key(format!("{}: {error}", self.path.display())))
    }

    /// It has come to its end.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

fn parsed(line: &str) -> Option<(String, Put)> {
    let (key, put) = line.split_once('\t').filter(|(key, _)| !key.is_empty())?;
    let (size, etag) = put.split_once('\t')?;
    if size.is_empty() {
        return Some((key.to_owned(), None));
    }
    Some((key.to_owned(), Some((size.parse().ok()?, etag.to_owned()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_known_again_while_the_bucket_shows_it_and_for_the_same_plan_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let plan = Digest::of_bytes(b"plan");
        let journal = ImportJournal::open(&path, &plan).unwrap();
        assert!(!journal.is_begun());
        journal.begin().unwrap();
        for key in ["a", "b", "c"] {
            journal.record(key, &Some((3, "tag".to_owned()))).unwrap();
        }
        journal.record("fill", &None).unwrap();
        journal.write("cut\t3").unwrap();
        let mut journal = ImportJournal::open(&path, &plan).unwrap();
        assert!(journal.is_begun());
        let object = |size, etag: Option<&str>| ObjectAttributes {
            size,
            modified: std::time::UNIX_EPOCH,
            version: etag.map(|etag| Version { etag: etag.to_owned(), generation: None }),
        };
        let there = [
            ("a", object(3, Some("tag"))),
            ("b", object(3, Some("another"))),
            ("d", object(3, None)),
        ];
        journal.keep(&there.map(|(key, object)| (key.to_owned(), object)).into());
        let known = ["a", "b", "c", "d", "cut", "fill"].map(|key| journal.has(key));
        assert_eq!(known, [true, false, false, false, false, true]);
        let other = ImportJournal::open(&path, &Digest::of_bytes(b"another plan")).unwrap();
        assert!(!other.is_begun() && other.len() == 0);
    }
}
