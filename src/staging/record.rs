//! Records: what the journal says happened, and how each is laid out in a frame's payload.
//!
//! ```text
//! id u64 · attributes = mode u32, uid u32, gid u32, mtime i64 · text = length u32, UTF-8
//!  1 Created        id, attributes, path
//!  2 SealedInline   id, attributes, path, content up to the end of the payload
//!  3 SealedSpool    id, attributes, path, size u64
//!  4 Unsealed       id
//!  5 SyncedInline   id, content up to the end of the payload
//!  6 SyncedSpool    id
//!  7 Updated        id, attributes, path
//!  8 FolderRenamed  from, to
//!  9 Forgotten      id
//! 10 DeleteAsked    path
//! 11 DeleteDone     path
//! 12 Noted          key, JSON up to the end of the payload
//! 13 NoteForgotten  key
//! 14 CarriedContent id, content up to the end of the payload
//! 15 CarriedFile    id, attributes, path, flags u8 (1 closed, 2 synced),
//!                   content u8 (0: spool, size u64; 1: segment u64, offset u64, length u32)
//! 16 NextId         id
//! 17 CheckpointEnd
//! ```
//!
//! 14 to 17 occur only in the checkpoint at a segment's start.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::frame::{Draft, FRAME_HEADER_BYTES, take_u32, take_u64};
use super::{FileAttributes, FileId};
use crate::store::Location;

/// Where a small file's content lies in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InlineAt {
    pub(super) segment: u64,
    /// Byte offset in the segment.
    pub(super) offset: u64,
    /// Bytes.
    pub(super) length: u32,
}

impl InlineAt {
    /// What it counts for in its segment. Empty content counts too: its segment must not go.
    pub(super) fn live_bytes(self) -> u64 {
        u64::from(self.length).saturating_add(FRAME_HEADER_BYTES as u64)
    }
}

/// Where the journal says that a file's content is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    /// In its spool file, of this size if the file is closed.
    Spool { size: u64 },
    /// In the journal.
    Inline(InlineAt),
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Record<'a> {
    Created {
        id: FileId,
        attributes: FileAttributes,
        path: Location,
    },
    SealedInline {
        id: FileId,
        attributes: FileAttributes,
        path: Location,
        content: &'a [u8],
    },
    SealedSpool {
        id: FileId,
        attributes: FileAttributes,
        path: Location,
        size: u64,
    },
    Unsealed {
        id: FileId,
    },
    SyncedInline {
        id: FileId,
        content: &'a [u8],
    },
    SyncedSpool {
        id: FileId,
    },
    Updated {
        id: FileId,
        attributes: FileAttributes,
        path: Location,
    },
    FolderRenamed {
        from: Location,
        to: Location,
    },
    Forgotten {
        id: FileId,
    },
    DeleteAsked {
        path: Location,
    },
    DeleteDone {
        path: Location,
    },
    Noted {
        key: String,
        value: serde_json::Value,
    },
    NoteForgotten {
        key: String,
    },
    /// Inline content that moves to a newer segment; a `CarriedFile` refers to it.
    CarriedContent {
        id: FileId,
        content: &'a [u8],
    },
    CarriedFile {
        id: FileId,
        entry: FileEntry,
    },
    NextId {
        id: u64,
    },
    CheckpointEnd,
}

/// What the journal knows of one file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileEntry {
    pub(super) path: Location,
    pub(super) attributes: FileAttributes,
    pub(super) closed: bool,
    /// The content reached the disk (it was synced, or is in the journal under a CRC).
    pub(super) synced: bool,
    pub(super) content: Recorded,
}

const FLAG_CLOSED: u8 = 1;
const FLAG_SYNCED: u8 = 2;

impl Record<'_> {
    /// Whether it leads to room being freed, or says that bytes which are there already are whole:
    /// it must not be refused because the file system is full.
    pub(super) fn may_use_reserve(&self) -> bool {
        matches!(
            self,
            Self::Forgotten { .. }
                | Self::DeleteDone { .. }
                | Self::NoteForgotten { .. }
                | Self::SealedSpool { .. }
                | Self::SyncedSpool { .. }
        )
    }

    /// The frame of this record, still without a place. `None` if it is too long for one.
    pub(super) fn draft(&self) -> Option<Draft> {
        let mut out = Writer(vec![0; FRAME_HEADER_BYTES]);
        let kind = self.encode(&mut out)?;
        Draft::new(kind, out.0)
    }

    fn encode(&self, out: &mut Writer) -> Option<u8> {
        Some(match self {
            Self::Created { id, attributes, path } => {
                out.file(*id, attributes, path)?;
                1
            }
            Self::SealedInline { id, attributes, path, content } => {
                out.0.reserve(content.len().saturating_add(path.as_str().len()).saturating_add(32));
                out.file(*id, attributes, path)?;
                out.0.extend_from_slice(content);
                2
            }
            Self::SealedSpool { id, attributes, path, size } => {
                out.file(*id, attributes, path)?;
                out.u64(*size);
                3
            }
            Self::Unsealed { id } => out.only_id(*id, 4),
            Self::SyncedInline { id, content } => {
                out.u64(id.0);
                out.0.extend_from_slice(content);
                5
            }
            Self::SyncedSpool { id } => out.only_id(*id, 6),
            Self::Updated { id, attributes, path } => {
                out.file(*id, attributes, path)?;
                7
            }
            Self::FolderRenamed { from, to } => {
                out.text(from.as_str())?;
                out.text(to.as_str())?;
                8
            }
            Self::Forgotten { id } => out.only_id(*id, 9),
            Self::DeleteAsked { path } => {
                out.text(path.as_str())?;
                10
            }
            Self::DeleteDone { path } => {
                out.text(path.as_str())?;
                11
            }
            Self::Noted { key, value } => {
                out.text(key)?;
                serde_json::to_writer(&mut out.0, value).ok()?;
                12
            }
            Self::NoteForgotten { key } => {
                out.text(key)?;
                13
            }
            Self::CarriedContent { id, content } => {
                out.u64(id.0);
                out.0.extend_from_slice(content);
                14
            }
            Self::CarriedFile { id, entry } => {
                out.carried(*id, entry)?;
                15
            }
            Self::NextId { id } => out.only_id(FileId(*id), 16),
            Self::CheckpointEnd => 17,
        })
    }
}

impl<'a> Record<'a> {
    /// Reads a payload. `None` if it is not what a record of this kind looks like, to the last byte.
    pub(super) fn decode(kind: u8, payload: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor(payload);
        let record = Self::decode_fields(kind, &mut cursor)?;
        cursor.0.is_empty().then_some(record)
    }

    fn decode_fields(kind: u8, cursor: &mut Cursor<'a>) -> Option<Self> {
        Some(match kind {
            1 => {
                let (id, attributes, path) = cursor.file()?;
                Self::Created { id, attributes, path }
            }
            2 => {
                let (id, attributes, path) = cursor.file()?;
                Self::SealedInline { id, attributes, path, content: cursor.rest() }
            }
            3 => {
                let (id, attributes, path) = cursor.file()?;
                Self::SealedSpool { id, attributes, path, size: cursor.u64()? }
            }
            4 => Self::Unsealed { id: cursor.id()? },
            5 => Self::SyncedInline { id: cursor.id()?, content: cursor.rest() },
            6 => Self::SyncedSpool { id: cursor.id()? },
            7 => {
                let (id, attributes, path) = cursor.file()?;
                Self::Updated { id, attributes, path }
            }
            8 => Self::FolderRenamed { from: cursor.path()?, to: cursor.path()? },
            9 => Self::Forgotten { id: cursor.id()? },
            10 => Self::DeleteAsked { path: cursor.path()? },
            11 => Self::DeleteDone { path: cursor.path()? },
            12 => {
                let key = cursor.text()?.to_owned();
                Self::Noted { key, value: serde_json::from_slice(cursor.rest()).ok()? }
            }
            13 => Self::NoteForgotten { key: cursor.text()?.to_owned() },
            14 => Self::CarriedContent { id: cursor.id()?, content: cursor.rest() },
            15 => {
                let (id, entry) = cursor.carried()?;
                Self::CarriedFile { id, entry }
            }
            16 => Self::NextId { id: cursor.u64()? },
            17 => Self::CheckpointEnd,
            _ => return None,
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u32(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn only_id(&mut self, id: FileId, kind: u8) -> u8 {
        self.u64(id.0);
        kind
    }

    fn text(&mut self, text: &str) -> Option<()> {
        self.u32(u32::try_from(text.len()).ok()?);
        self.0.extend_from_slice(text.as_bytes());
        Some(())
    }

    fn file(&mut self, id: FileId, attributes: &FileAttributes, path: &Location) -> Option<()> {
        self.u64(id.0);
        self.u32(attributes.mode);
        self.u32(attributes.uid);
        self.u32(attributes.gid);
        self.0.extend_from_slice(&attributes.mtime_ns.to_le_bytes());
        self.text(path.as_str())
    }

    fn carried(&mut self, id: FileId, entry: &FileEntry) -> Option<()> {
        self.file(id, &entry.attributes, &entry.path)?;
        let closed = if entry.closed { FLAG_CLOSED } else { 0 };
        self.0.push(closed | if entry.synced { FLAG_SYNCED } else { 0 });
        match entry.content {
            Recorded::Spool { size } => {
                self.0.push(0);
                self.u64(size);
            }
            Recorded::Inline(at) => {
                self.0.push(1);
                self.u64(at.segment);
                self.u64(at.offset);
                self.u32(at.length);
            }
        }
        Some(())
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn u8(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = take_u32(self.0)?;
        self.0 = rest;
        Some(number)
    }

    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = take_u64(self.0)?;
        self.0 = rest;
        Some(number)
    }

    fn id(&mut self) -> Option<FileId> {
        self.u64().map(FileId)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.u32()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn path(&mut self) -> Option<Location> {
        Location::parse(self.text()?).ok()
    }

    fn file(&mut self) -> Option<(FileId, FileAttributes, Location)> {
        let id = self.id()?;
        let (mode, uid, gid) = (self.u32()?, self.u32()?, self.u32()?);
        let mtime_ns = self.u64()?.cast_signed();
        Some((id, FileAttributes { mode, uid, gid, mtime_ns }, self.path()?))
    }

    fn carried(&mut self) -> Option<(FileId, FileEntry)> {
        let (id, attributes, path) = self.file()?;
        let flags = self.u8()?;
        if flags & !(FLAG_CLOSED | FLAG_SYNCED) != 0 {
            return None;
        }
        let content = match self.u8()? {
            0 => Recorded::Spool { size: self.u64()? },
            1 => Recorded::Inline(InlineAt {
                segment: self.u64()?,
                offset: self.u64()?,
                length: self.u32()?,
            }),
            _ => return None,
        };
        let (closed, synced) = (flags & FLAG_CLOSED != 0, flags & FLAG_SYNCED != 0);
        Some((id, FileEntry { path, attributes, closed, synced, content }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<(Record<'static>, usize)> {
        let id = FileId(7);
        let path = Location::parse("a/température").unwrap();
        let attributes = FileAttributes { mode: 0o644, uid: 1, gid: 2, mtime_ns: -5 };
        let entry = |content| FileEntry {
            path: path.clone(),
            attributes: attributes.clone(),
            closed: true,
            synced: false,
            content,
        };
        let spool = entry(Recorded::Spool { size: 9 });
        let inline = entry(Recorded::Inline(InlineAt { segment: 1, offset: 2, length: 3 }));
        let (file, at) = (attributes.clone(), path.clone());
        vec![
            (Record::Created { id, attributes: file.clone(), path: at.clone() }, 46),
            (
                Record::SealedInline {
                    id,
                    attributes: file.clone(),
                    path: at.clone(),
                    content: b"xyz",
                },
                49,
            ),
            (Record::SealedSpool { id, attributes: file.clone(), path: at.clone(), size: 1 }, 54),
            (Record::Unsealed { id }, 8),
            (Record::SyncedInline { id, content: b"xyz" }, 11),
            (Record::SyncedSpool { id }, 8),
            (Record::Updated { id, attributes: file, path: at.clone() }, 46),
            (Record::FolderRenamed { from: at.clone(), to: Location::root() }, 22),
            (Record::Forgotten { id }, 8),
            (Record::DeleteAsked { path: at.clone() }, 18),
            (Record::DeleteDone { path: at }, 18),
            (Record::Noted { key: "k".into(), value: serde_json::json!({"a": 1}) }, 12),
            (Record::NoteForgotten { key: "k".into() }, 5),
            (Record::CarriedContent { id, content: b"xyz" }, 11),
            (Record::CarriedFile { id, entry: spool }, 56),
            (Record::CarriedFile { id, entry: inline }, 68),
            (Record::NextId { id: 8 }, 8),
            (Record::CheckpointEnd, 0),
        ]
    }

    fn payload_of(record: &Record<'_>) -> (u8, Vec<u8>) {
        let mut out = Writer(Vec::new());
        let kind = record.encode(&mut out).unwrap();
        (kind, out.0)
    }

    #[test]
    fn every_record_has_its_pinned_size_and_reads_back() {
        for (record, size) in samples() {
            let (kind, payload) = payload_of(&record);
            assert_eq!(payload.len(), size, "{record:?}");
            assert_eq!(Record::decode(kind, &payload).as_ref(), Some(&record));
        }
    }

    #[test]
    fn a_payload_cut_short_or_with_bytes_to_spare_is_not_a_record() {
        for (record, _) in samples() {
            let (kind, mut payload) = payload_of(&record);
            let ends_in_content = matches!(
                record,
                Record::SealedInline { .. }
                    | Record::SyncedInline { .. }
                    | Record::CarriedContent { .. }
            );
            let shortest = payload.len() - if ends_in_content { 3 } else { 0 };
            for length in 0..shortest {
                assert_eq!(Record::decode(kind, &payload[..length]), None, "{record:?} {length}");
            }
            payload.push(0);
            assert_eq!(Record::decode(kind, &payload).is_some(), ends_in_content, "{record:?}");
        }
    }
}
