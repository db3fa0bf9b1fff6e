//! What `stat` shows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Error, Fs};
use crate::namespace::{Attributes, Entry, Ino, Origin};
use crate::staging::{FileAttributes, FileId, StagedFile};

/// Kinds of nodes; a bucket has no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
}

/// What `stat` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// The number.
    pub ino: Ino,
    /// File or folder.
    pub kind: Kind,
    /// In bytes; 0 for folders.
    pub size: u64,
    /// Mode, owner and times.
    pub attributes: Attributes,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// The present.
    Now,
    /// This time, exact to the nanosecond.
    At(SystemTime),
}

/// What a program wants to change; `None` leaves as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of stat(2)")]
pub struct Changes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
}

impl Fs {
    /// Attributes of a node; an object is looked up again if what is known of it is too old.
    /// `fh` is an open handle of it, which also knows a file that was deleted meanwhile.
    pub async fn getattr(&self, ino: Ino, fh: Option<u64>) -> Result<Attr, Error> {
        if let Some(node) = self.status.node(ino) {
            return self.status_attr(ino, &node);
        }
        if self.tree.path(ino).is_none() {
            let entry = self.tree.entry(ino).ok_or(Error::NotFound)?;
            return self.attr_of_deleted(&entry, fh);
        }
        let entry = self.tree.refreshed(ino).await?.ok_or(Error::NotFound)?;
        self.attr(&entry).await
    }

    /// May ask the network for the receipt of an ingested source file.
    pub(super) async fn attr(&self, entry: &Entry) -> Result<Attr, Error> {
        if entry.origin != Origin::Source {
            return self.local_attr(entry);
        }
        let path = self.tree.path(entry.ino).ok_or(Error::NotFound)?;
        let receipt = self.ingest.receipt(&path).await.ok_or(Error::NotFound)?;
        let attributes = Attributes { mtime: receipt.mtime, ..entry.attributes };
        Ok(Attr { ino: entry.ino, kind: Kind::File, size: receipt.size, attributes })
    }

    /// Attributes that need no network.
    pub(super) fn local_attr(&self, entry: &Entry) -> Result<Attr, Error> {
        let of = |kind, size| Attr { ino: entry.ino, kind, size, attributes: entry.attributes };
        match &entry.origin {
            Origin::Folder => Ok(of(Kind::Folder, 0)),
            Origin::Published(object) => Ok(of(Kind::File, object.size)),
            Origin::Source => Ok(of(Kind::File, 0)),
            Origin::Staged => {
                if let Some(file) = self.staging.file(FileId(entry.ino.0)) {
                    return Ok(self.staged_attr(entry, &file));
                }
                // Handed over to the bucket between the two looks.
                match self.tree.entry(entry.ino) {
                    Some(Entry { origin: Origin::Published(object), attributes, .. }) => {
                        let size = object.size;
                        Ok(Attr { ino: entry.ino, kind: Kind::File, size, attributes })
                    }
                    Some(entry) => self.attr_of_deleted(&entry, None),
                    None => Err(Error::NotFound),
                }
            }
        }
    }

    fn attr_of_deleted(&self, entry: &Entry, fh: Option<u64>) -> Result<Attr, Error> {
        let handle = fh.and_then(|fh| self.handles.get(fh));
        let file = handle.and_then(|handle| handle.file.clone());
        match file.or_else(|| self.handles.file_of(entry.ino)) {
            Some(file) => Ok(self.staged_attr(entry, &file)),
            None if entry.origin == Origin::Staged => Err(Error::NotFound),
            None => self.local_attr(entry),
        }
    }

    pub(super) fn staged_attr(&self, entry: &Entry, file: &StagedFile) -> Attr {
        let mut attributes = entry.attributes;
        if !self.files.mtime_is_set(entry.ino, file) {
            attributes.mtime = file.modified();
            attributes.ctime = attributes.ctime.max(attributes.mtime);
        }
        Attr { ino: entry.ino, kind: Kind::File, size: file.len(), attributes }
    }

    /// What the journal records of a file.
    pub(super) fn file_attributes(&self, entry: &Entry, file: &StagedFile) -> FileAttributes {
        record_of(&self.staged_attr(entry, file).attributes)
    }
}

pub(super) fn record_of(attributes: &Attributes) -> FileAttributes {
    FileAttributes {
        mode: attributes.mode,
        uid: attributes.uid,
        gid: attributes.gid,
        mtime_ns: nanoseconds(attributes.mtime),
    }
}

/// Attributes of a file that an earlier daemon has recorded.
pub(super) fn recorded(record: &FileAttributes) -> Attributes {
    let mtime = time_of(record.mtime_ns);
    Attributes {
        mode: record.mode,
        uid: record.uid,
        gid: record.gid,
        atime: mtime,
        mtime,
        ctime: mtime,
    }
}

fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |before| -before)
        }
    }
}

fn time_of(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time = if nanoseconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_1970_survive_the_journal_to_the_nanosecond() {
        for nanoseconds_since in [0, 1, -1, 1_700_000_000_123_456_789, -86_400_000_000_001] {
            assert_eq!(nanoseconds(time_of(nanoseconds_since)), nanoseconds_since);
        }
    }
}
