//! The state that a journal describes: replayed when a spool is opened, kept up to date while it
//! runs, and written as the checkpoint at a segment's start.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::FileId;
use super::record::{FileEntry, InlineAt, Record, Recorded};
use crate::store::Location;

/// Everything that is live.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct State {
    pub(super) files: HashMap<FileId, FileEntry>,
    pub(super) deletes: BTreeSet<Location>,
    pub(super) notes: BTreeMap<String, serde_json::Value>,
    /// Larger than every number ever used.
    pub(super) next_id: u64,
    /// The checkpoint of this segment was read to its end.
    pub(super) checkpointed: bool,
}

/// A record speaks of a file that the state does not hold (or that it holds already).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mismatch {
    UnknownFile(FileId),
    KnownFile(FileId),
}

/// Where a frame ends: content that ends a payload lies just before.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameEnd {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

impl State {
    /// Nothing is left that a later daemon would have to know.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.deletes.is_empty() && self.notes.is_empty()
    }

    /// Whether [`Self::apply`] will accept `record`.
    pub(super) fn check(&self, record: &Record<'_>) -> Result<(), Mismatch> {
        match record {
            Record::Created { id, .. } | Record::CarriedFile { id, .. } => {
                if self.files.contains_key(id) { Err(Mismatch::KnownFile(*id)) } else { Ok(()) }
            }
            Record::SealedInline { id, .. }
            | Record::SealedSpool { id, .. }
            | Record::Unsealed { id }
            | Record::SyncedInline { id, .. }
            | Record::SyncedSpool { id }
            | Record::Updated { id, .. }
            | Record::Forgotten { id } => {
                if self.files.contains_key(id) {
                    Ok(())
                } else {
                    Err(Mismatch::UnknownFile(*id))
                }
            }
            _ => Ok(()),
        }
    }

    /// Takes in what happened. Answers the inline content that nothing refers to any more.
    pub(super) fn apply(
        &mut self,
        record: Record<'_>,
        end: FrameEnd,
    ) -> Result<Option<InlineAt>, Mismatch> {
        self.check(&record)?;
        match record {
            Record::Created { id, attributes, path } => {
                let content = Recorded::Spool { size: 0 };
                let entry = FileEntry { path, attributes, closed: false, synced: false, content };
                return Ok(self.put(id, entry));
            }
            Record::SealedInline { id, attributes, path, content } => {
                let content = Recorded::Inline(end.content(content));
                let entry = FileEntry { path, attributes, closed: true, synced: true, content };
                return Ok(self.put(id, entry));
            }
            Record::SealedSpool { id, attributes, path, size } => {
                let content = Recorded::Spool { size };
                let entry = FileEntry { path, attributes, closed: true, synced: false, content };
                return Ok(self.put(id, entry));
            }
            Record::Unsealed { id } => {
                return Ok(self.set_content(id, Recorded::Spool { size: 0 }, false));
            }
            Record::SyncedInline { id, content } => {
                return Ok(self.set_content(id, Recorded::Inline(end.content(content)), true));
            }
            Record::SyncedSpool { id } => {
                if let Some(entry) = self.files.get_mut(&id) {
                    entry.synced = true;
                }
            }
            Record::Updated { id, attributes, path } => {
                if let Some(entry) = self.files.get_mut(&id) {
                    entry.attributes = attributes;
                    entry.path = path;
                }
            }
            Record::FolderRenamed { from, to } => self.rename_folder(&from, &to),
            Record::Forgotten { id } => {
                return Ok(self.files.remove(&id).and_then(|entry| entry.content.inline()));
            }
            Record::DeleteAsked { path } => drop(self.deletes.insert(path)),
            Record::DeleteDone { path } => drop(self.deletes.remove(&path)),
            Record::Noted { key, value } => drop(self.notes.insert(key, value)),
            Record::NoteForgotten { key } => drop(self.notes.remove(&key)),
            Record::CarriedFile { id, entry } => return Ok(self.put(id, entry)),
            Record::NextId { id } => self.next_id = self.next_id.max(id),
            // The CarriedFile that refers to it comes later in the checkpoint.
            Record::CarriedContent { .. } => {}
            Record::CheckpointEnd => self.checkpointed = true,
        }
        Ok(None)
    }

    fn put(&mut self, id: FileId, entry: FileEntry) -> Option<InlineAt> {
        self.next_id = self.next_id.max(id.0.saturating_add(1));
        self.files.insert(id, entry).and_then(|old| old.content.inline())
    }

    fn set_content(&mut self, id: FileId, content: Recorded, synced: bool) -> Option<InlineAt> {
        let entry = self.files.get_mut(&id)?;
        entry.closed = false;
        entry.synced = synced;
        std::mem::replace(&mut entry.content, content).inline()
    }

    fn rename_folder(&mut self, from: &Location, to: &Location) {
        for entry in self.files.values_mut() {
            if let Some(rest) = entry.path.relative_to(from) {
                entry.path = to.join(&rest);
            }
        }
    }
}

impl Recorded {
    /// The place in the journal, if the content is there.
    pub(super) fn inline(self) -> Option<InlineAt> {
        match self {
            Self::Inline(at) => Some(at),
            Self::Spool { .. } => None,
        }
    }
}

impl FrameEnd {
    /// Where content that ends the payload lies.
    pub(super) fn content(self, content: &[u8]) -> InlineAt {
        // A payload is at most PAYLOAD_BYTES_MAX long, so the length fits.
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let offset = self.offset.saturating_sub(u64::from(length));
        InlineAt { segment: self.segment, offset, length }
    }
}
