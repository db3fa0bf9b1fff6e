//! What a spool holds when it is opened: reads the journal, then looks whether the bytes it speaks
//! of are there. Reading changes nothing; [`Leftovers::repair`] does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::journal::{Start, remove_debris, reopen};
use super::record::{FileEntry, Recorded};
use super::segment::{self, Segment};
use super::spool;
use super::state::State;
use super::{FileId, OpenError, Recovered, RecoveredFile, RecoveredState, SpoolIdentity};
use crate::base::durable::{AtPath, FileError};

/// The folder of segments.
pub(super) fn journal_folder(spool: &Path) -> PathBuf {
    spool.join("journal")
}

/// The folder of spool files.
pub(super) fn files_folder(spool: &Path) -> PathBuf {
    spool.join("files")
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub(super) state: State,
    pub(super) identity: Option<SpoolIdentity>,
    /// In the order of their numbers.
    pub(super) files: Vec<RecoveredFile>,
    torn_bytes: u64,
    /// Number and whole bytes of each segment.
    segments: Vec<(u64, u64)>,
    next_sequence: u64,
}

impl Leftovers {
    /// Reads everything and changes nothing. `boot_id` names the machine's present run.
    pub(super) fn read(spool: &Path, boot_id: &str) -> Result<Self, OpenError> {
        let folder = journal_folder(spool);
        let numbers = segment::list(&folder)?;
        let Some((last, older)) = numbers.split_last() else { return Ok(Self::default()) };
        let mut segments = Vec::new();
        for number in older {
            segments.push((*number, segment::replay(&folder, *number, false)?.bytes));
        }
        let replay = segment::replay(&folder, *last, true)?;
        segments.push((*last, replay.bytes));
        let same_boot = replay.document.boot_id == boot_id && !boot_id.is_empty();
        let mut found = Self {
            state: replay.state,
            identity: Some(replay.document.identity),
            files: Vec::new(),
            torn_bytes: replay.torn_bytes,
            segments,
            next_sequence: replay.next_sequence,
        };
        found.judge(spool, same_boot)?;
        Ok(found)
    }

    /// Only whose spool it is: enough to refuse it, whatever else is wrong with it.
    pub(super) fn owner(spool: &Path) -> Result<Option<SpoolIdentity>, OpenError> {
        let folder = journal_folder(spool);
        let Some(last) = segment::list(&folder)?.pop() else { return Ok(None) };
        Ok(Some(segment::document(&folder, last)?.identity))
    }

    /// Looks for the bytes of every file. What turns out partial is so in the state too.
    fn judge(&mut self, spool: &Path, same_boot: bool) -> Result<(), OpenError> {
        let mut ids = self.state.files.keys().copied().collect::<Vec<_>>();
        ids.sort_unstable();
        for id in ids {
            let Some(entry) = self.state.files.get_mut(&id) else { continue };
            let (size, state) = match entry.content {
                Recorded::Inline(at) => {
                    let end = at.offset.checked_add(u64::from(at.length));
                    let held = self.segments.iter().find(|(number, _)| *number == at.segment);
                    if held.is_none_or(|(_, bytes)| end.is_none_or(|end| end > *bytes)) {
                        let segment = segment::path_of(&journal_folder(spool), at.segment);
                        return Err(OpenError::MissingSegment {
                            segment,
                            path: entry.path.clone(),
                        });
                    }
                    let closed = entry.closed;
                    let state =
                        if closed { RecoveredState::Closed } else { RecoveredState::Writing };
                    (u64::from(at.length), state)
                }
                Recorded::Spool { size } => judge_spool_file(spool, id, entry, size, same_boot)?,
            };
            entry.closed = state == RecoveredState::Closed;
            self.files.push(RecoveredFile {
                id,
                path: entry.path.clone(),
                attributes: entry.attributes.clone(),
                size,
                closed: entry.closed,
                state,
            });
        }
        Ok(())
    }

    /// Cuts off the torn tail, removes what nothing refers to, and opens the segments.
    pub(super) fn repair(&self, spool: &Path) -> Result<Start, FileError> {
        let folder = journal_folder(spool);
        remove_debris(&folder)?;
        let mut older: Vec<(Arc<Segment>, u64)> = Vec::new();
        for (number, bytes) in &self.segments {
            older.push((Arc::new(reopen(&folder, *number, *bytes)?), *bytes));
        }
        self.remove_orphans(spool)?;
        let number = self.segments.last().map_or(1, |(number, _)| number.saturating_add(1));
        Ok(Start { state: self.state.clone(), older, number, sequence: self.next_sequence })
    }

    /// Spool files of forgotten files, and of small ones that had outgrown their sealed content.
    fn remove_orphans(&self, spool: &Path) -> Result<(), FileError> {
        let folder = files_folder(spool);
        for id in spool::list(&folder)? {
            let entry = self.state.files.get(&id);
            if !entry.is_some_and(|entry| matches!(entry.content, Recorded::Spool { .. })) {
                let path = folder.join(id.0.to_string());
                tracing::info!(path = %path.display(), "removing a spool file without a record");
                fs::remove_file(&path).at(&path)?;
            }
        }
        Ok(())
    }

    /// The report for the caller.
    pub(super) fn report(self) -> Recovered {
        Recovered {
            files: self.files,
            deletes: self.state.deletes.into_iter().collect(),
            notes: self.state.notes.into_iter().collect(),
            next_id: self.state.next_id,
            identity: self.identity,
            torn_bytes: self.torn_bytes,
        }
    }
}

fn judge_spool_file(
    spool: &Path,
    id: FileId,
    entry: &FileEntry,
    recorded: u64,
    same_boot: bool,
) -> Result<(u64, RecoveredState), FileError> {
    let path = files_folder(spool).join(id.0.to_string());
    let size = match fs::metadata(&path) {
        Ok(metadata) => Some(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).at(&path),
    };
    let there = size.unwrap_or(0);
    Ok(match size {
        _ if !entry.closed => (there, RecoveredState::Writing),
        // Longer than recorded: a write beyond the end that failed and was never acknowledged.
        Some(size) if size >= recorded && (same_boot || entry.synced) => {
            (recorded, RecoveredState::Closed)
        }
        Some(size) if size >= recorded => (recorded, RecoveredState::Unsynced),
        _ => (there, RecoveredState::Incomplete),
    })
}
