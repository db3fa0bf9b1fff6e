//! The journal's writer: appends records, begins new segments, removes old ones.
//!
//! - An append is one `pwrite` at the end of the active segment and a change of the state in
//!   memory, under one lock. Encoding and the CRC of the payload happen before it.
//! - A segment that has grown by [`segment_bytes_max`](Journal::segment_bytes_max) is followed by
//!   a new one, which begins with a checkpoint of the state. Its size adds to the threshold, so
//!   that checkpoints are at most half of what is written.
//! - An older segment is kept only for the inline content in it. One that is mostly dead gives its
//!   content to the new segment; one that is wholly dead is removed, after the records that say so
//!   have been synced. So the journal is bounded by what is live: at most about four times its
//!   inline content, plus two segments.
//! - Blocks are reserved ahead, so that a record that frees something can be written on a full file
//!   system: otherwise nothing could ever leave it again.
//! - After a failed sync nothing is known about what is on disk: the journal then refuses all work.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use parking_lot::Mutex;

use super::FileId;
use super::record::{InlineAt, Record, Recorded};
use super::segment::{self, Creation, Document, Published, Segment};
use super::state::{FrameEnd, Mismatch, State};
use crate::base::durable::{AtPath, FileError, sync_folder};

/// A segment of which less than one part in so many is live gives its content to a new one.
const SPARSE_PARTS: u64 = 4;

/// Kept free behind the last record for [`Record::may_use_reserve`]: some 20,000 of them.
const RESERVE_BYTES: u64 = 1 << 20;

/// Reserved in one go: a system call per thousand small files.
const RESERVE_STEP_BYTES: u64 = 4 << 20;

/// The journal of an open spool.
#[derive(Debug)]
pub(super) struct Journal {
    folder: PathBuf,
    document: Vec<u8>,
    segment_bytes_max: u64,
    inner: Mutex<Inner>,
    /// There is something for [`Journal::maintain`] to do.
    work: AtomicBool,
    /// Someone is at it.
    maintaining: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    state: State,
    active: Held,
    older: BTreeMap<u64, Held>,
    mark: u32,
    sequence: u64,
    /// Blocks of the active segment are allocated up to here.
    reserved: u64,
    /// Size of the active segment at which a new one is due.
    full_at: u64,
    health: Health,
}

/// A segment and how much of it is needed.
#[derive(Debug)]
struct Held {
    segment: Arc<Segment>,
    bytes: u64,
    /// Bytes of the frames whose content files refer to.
    live: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// A write or sync failed in a way that leaves the segment unknown.
    Failed,
    /// Closed and removed.
    Closed,
}

/// Where an appended frame ended.
#[derive(Debug)]
pub(super) struct Appended {
    pub(super) segment: Arc<Segment>,
    /// Byte offset of the frame's end; content that ends the payload lies just before.
    pub(super) end: u64,
}

/// Content that was carried over to a newer segment.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) id: FileId,
    pub(super) from: InlineAt,
    pub(super) to: Arc<Segment>,
    pub(super) offset: u64,
}

/// What is known of a journal before it is written to.
pub(super) struct Start {
    pub(super) state: State,
    pub(super) older: Vec<(Arc<Segment>, u64)>,
    pub(super) number: u64,
    pub(super) sequence: u64,
}

impl Journal {
    /// Begins a new segment on top of what was found.
    pub(super) fn start(
        folder: &Path,
        document: &Document,
        segment_bytes_max: u64,
        start: Start,
    ) -> Result<Self, FileError> {
        let document = serde_json::to_vec(document)
            .map_err(|error| FileError { path: folder.to_owned(), source: error.into() })?;
        let mut older = BTreeMap::new();
        for (segment, bytes) in start.older {
            older.insert(segment.number, Held { segment, bytes, live: 0 });
        }
        for at in start.state.files.values().filter_map(|entry| entry.content.inline()) {
            if let Some(held) = older.get_mut(&at.segment) {
                held.live = held.live.saturating_add(at.live_bytes());
            }
        }
        let mut state = start.state;
        let mut creation = Creation::begin(folder, start.number, start.sequence, &document)?;
        write_checkpoint(&mut creation, &state)?;
        let published = creation.publish()?;
        state.checkpointed = true;
        let inner = Inner::new(state, older, published, segment_bytes_max);
        let work = AtomicBool::new(inner.older.values().any(|held| held.live == 0));
        Ok(Self {
            folder: folder.to_owned(),
            document,
            segment_bytes_max,
            inner: Mutex::new(inner),
            work,
            maintaining: AtomicBool::new(false),
        })
    }

    /// Appends one record. It survives the death of the daemon from here on.
    pub(super) fn append(&self, record: Record<'_>) -> io::Result<Appended> {
        let mut draft = record.draft().ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "too long for one journal record")
        })?;
        let mut inner = self.inner.lock();
        inner.check_health()?;
        inner.state.check(&record).map_err(mismatch)?;
        let (mark, sequence, offset) = (inner.mark, inner.sequence, inner.active.bytes);
        let segment = Arc::clone(&inner.active.segment);
        if !record.may_use_reserve() {
            inner.reserve(draft.len() as u64)?;
        }
        if let Err(error) = segment.file.write_all_at(draft.finish(mark, sequence), offset) {
            // The next record must not follow half of this one. This gives up the reserve too.
            inner.reserved = offset;
            if let Err(error) = segment.file.set_len(offset) {
                tracing::error!(path = %segment.path.display(), %error, "the journal failed");
                inner.health = Health::Failed;
            }
            return Err(error);
        }
        let end = offset + draft.len() as u64;
        if inner.accept(record, end).map_err(mismatch)? {
            self.work.store(true, Ordering::Release);
        }
        Ok(Appended { segment, end })
    }

    /// Makes every record so far survive a power cut.
    pub(super) fn sync(&self) -> io::Result<()> {
        let active = {
            let inner = self.inner.lock();
            inner.check_health()?;
            Arc::clone(&inner.active.segment)
        };
        self.sync_segment(&active)
    }

    fn sync_segment(&self, segment: &Segment) -> io::Result<()> {
        segment.file.sync_data().inspect_err(|error| {
            tracing::error!(path = %segment.path.display(), %error, "the journal failed");
            self.inner.lock().health = Health::Failed;
        })
    }

    /// Begins a new segment and removes dead ones where that is due. Cheap if it is not. Answers
    /// which content lies elsewhere now. Never called with a file's lock held.
    pub(super) fn maintain(&self) -> Vec<Moved> {
        if !self.work.load(Ordering::Acquire) || self.maintaining.swap(true, Ordering::Acquire) {
            return Vec::new();
        }
        self.work.store(false, Ordering::Release);
        let moved = self.rotate_if_due().unwrap_or_else(|error| {
            tracing::warn!(%error, "the journal could not begin a new segment");
            Vec::new()
        });
        if let Err(error) = self.remove_dead() {
            tracing::warn!(%error, "an old segment of the journal could not be removed");
        }
        self.maintaining.store(false, Ordering::Release);
        moved
    }

    fn rotate_if_due(&self) -> io::Result<Vec<Moved>> {
        let active = {
            let inner = self.inner.lock();
            inner.check_health()?;
            if inner.active.bytes < inner.full_at {
                return Ok(Vec::new());
            }
            Arc::clone(&inner.active.segment)
        };
        // Most of the segment reaches the disk here, while others go on appending to it; under the
        // lock there is little left to wait for.
        self.sync_segment(&active)?;
        let mut inner = self.inner.lock();
        // What is reserved behind its end is of no use any more.
        let trimmed = active.file.set_len(inner.active.bytes);
        inner.reserved = inner.active.bytes;
        if let Err(error) = trimmed.and_then(|()| active.file.sync_data()) {
            inner.health = Health::Failed;
            return Err(error);
        }
        let result = self.rotate(&mut inner);
        if result.is_err() {
            // No room, most likely: not tried again with every record.
            inner.full_at = inner.active.bytes.saturating_add(self.segment_bytes_max);
        }
        result.map_err(|error| error.source)
    }

    fn rotate(&self, inner: &mut Inner) -> Result<Vec<Moved>, FileError> {
        let number = inner.active.segment.number.saturating_add(1);
        let mut creation = Creation::begin(&self.folder, number, inner.sequence, &self.document)?;
        let mut state = inner.state.clone();
        let sparse = inner.sparse(self.segment_bytes_max / 2);
        let places = carry_over(&mut creation, &mut state, &sparse)?;
        write_checkpoint(&mut creation, &state)?;
        let published = creation.publish()?;
        let to = Arc::new(published.segment);
        let moved = places
            .into_iter()
            .map(|(id, from, offset)| Moved { id, from, to: Arc::clone(&to), offset })
            .collect::<Vec<_>>();
        inner.follow(state, to, published.mark, published.sequence, published.bytes, &moved);
        inner.full_at = full_at(published.bytes, self.segment_bytes_max);
        self.work.store(true, Ordering::Release);
        Ok(moved)
    }

    fn remove_dead(&self) -> io::Result<()> {
        let (dead, active) = {
            let inner = self.inner.lock();
            inner.check_health()?;
            let dead = inner.older.values().filter(|held| held.live == 0);
            let dead = dead.map(|held| Arc::clone(&held.segment)).collect::<Vec<_>>();
            (dead, Arc::clone(&inner.active.segment))
        };
        if dead.is_empty() {
            return Ok(());
        }
        // After a power cut a record that still refers to a removed segment would be damage.
        self.sync_segment(&active)?;
        for segment in dead {
            fs::remove_file(&segment.path)?;
            self.inner.lock().older.remove(&segment.number);
        }
        Ok(())
    }

    /// What is noted under a key.
    pub(super) fn noted(&self, key: &str) -> Option<serde_json::Value> {
        self.inner.lock().state.notes.get(key).cloned()
    }

    /// Removes the journal if nothing is live; answers whether it did. It takes no records then.
    pub(super) fn remove_if_empty(&self) -> io::Result<bool> {
        let mut inner = self.inner.lock();
        inner.check_health()?;
        if !inner.state.is_empty() {
            return Ok(false);
        }
        inner.health = Health::Closed;
        // Newest last: until it goes, what is left is a whole journal that says "nothing".
        for held in inner.older.values().chain([&inner.active]) {
            fs::remove_file(&held.segment.path)?;
        }
        fs::remove_dir(&self.folder)?;
        Ok(true)
    }
}

impl Inner {
    fn new(
        state: State,
        older: BTreeMap<u64, Held>,
        published: Published,
        segment_bytes_max: u64,
    ) -> Self {
        let Published { segment, mark, sequence, bytes } = published;
        let active = Held { segment: Arc::new(segment), bytes, live: 0 };
        let full_at = full_at(bytes, segment_bytes_max);
        let health = Health::Good;
        Self { state, active, older, mark, sequence, reserved: bytes, full_at, health }
    }

    fn check_health(&self) -> io::Result<()> {
        match self.health {
            Health::Good => Ok(()),
            Health::Failed => Err(io::Error::other(
                "the journal could not be written earlier; nothing more is accepted",
            )),
            Health::Closed => Err(io::Error::other("the staging area is closed")),
        }
    }

    /// Sees to it that `length` bytes and the reserve have their blocks, or answers that the file
    /// system is full.
    fn reserve(&mut self, length: u64) -> io::Result<()> {
        let start = self.active.bytes;
        let needed = length.saturating_add(RESERVE_BYTES);
        if start.saturating_add(needed) <= self.reserved {
            return Ok(());
        }
        let file = &self.active.segment.file;
        for bytes in [needed.saturating_add(RESERVE_STEP_BYTES), needed] {
            let (from, count) = (start.cast_signed(), bytes.cast_signed());
            match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, from, count) {
                Ok(()) => {
                    self.reserved = start.saturating_add(bytes);
                    return Ok(());
                }
                Err(Errno::ENOSPC | Errno::EDQUOT | Errno::EINTR) => {}
                // This file system cannot.
                Err(_) => {
                    self.reserved = u64::MAX;
                    return Ok(());
                }
            }
        }
        Err(Errno::ENOSPC.into())
    }

    /// Takes in a record that was written. Answers whether there is work for `maintain`.
    fn accept(&mut self, record: Record<'_>, end: u64) -> Result<bool, Mismatch> {
        self.sequence += 1;
        self.active.bytes = end;
        let end = FrameEnd { segment: self.active.segment.number, offset: end };
        if let Record::SealedInline { content, .. } | Record::SyncedInline { content, .. } = &record
        {
            self.active.live += end.content(content).live_bytes();
        }
        let freed = self.state.apply(record, end)?;
        let died = freed.is_some_and(|at| self.free(at));
        Ok(died || self.active.bytes >= self.full_at)
    }

    /// Answers whether an older segment has become dead.
    fn free(&mut self, at: InlineAt) -> bool {
        if at.segment == self.active.segment.number {
            self.active.live = self.active.live.saturating_sub(at.live_bytes());
            return false;
        }
        self.older.get_mut(&at.segment).is_some_and(|held| {
            held.live = held.live.saturating_sub(at.live_bytes());
            held.live == 0
        })
    }

    /// The segments to empty, the emptiest first, and no more content than `bytes_max`.
    fn sparse(&self, bytes_max: u64) -> BTreeMap<u64, Arc<Segment>> {
        let all = self.older.values().chain([&self.active]);
        let mut sparse = all
            .filter(|held| held.live > 0 && held.live < held.bytes / SPARSE_PARTS)
            .collect::<Vec<_>>();
        sparse.sort_by_key(|held| held.live);
        let mut room = bytes_max;
        let fitting = sparse.into_iter().take_while(|held| {
            let fits = held.live <= room;
            room = room.saturating_sub(held.live);
            fits
        });
        fitting.map(|held| (held.segment.number, Arc::clone(&held.segment))).collect()
    }

    /// Makes a new segment the active one.
    fn follow(
        &mut self,
        state: State,
        segment: Arc<Segment>,
        mark: u32,
        sequence: u64,
        bytes: u64,
        moved: &[Moved],
    ) {
        let next = Held { segment, bytes, live: 0 };
        let previous = std::mem::replace(&mut self.active, next);
        self.older.insert(previous.segment.number, previous);
        (self.state, self.mark, self.sequence) = (state, mark, sequence);
        self.reserved = bytes;
        for content in moved {
            self.free(content.from);
            self.active.live += content.from.live_bytes();
        }
    }
}

/// A new segment is due once the records outweigh both the limit and the checkpoint.
fn full_at(checkpoint_bytes: u64, segment_bytes_max: u64) -> u64 {
    checkpoint_bytes.saturating_add(segment_bytes_max.max(checkpoint_bytes))
}

fn mismatch(mismatch: Mismatch) -> io::Error {
    match mismatch {
        Mismatch::UnknownFile(id) => {
            io::Error::new(io::ErrorKind::NotFound, format!("file {} is not staged", id.0))
        }
        Mismatch::KnownFile(id) => {
            io::Error::new(io::ErrorKind::AlreadyExists, format!("file {} is staged", id.0))
        }
    }
}

/// Copies the content in `sparse` segments to the new one; `state` then refers to the copies.
fn carry_over(
    creation: &mut Creation,
    state: &mut State,
    sparse: &BTreeMap<u64, Arc<Segment>>,
) -> Result<Vec<(FileId, InlineAt, u64)>, FileError> {
    let mut places = Vec::new();
    for (id, entry) in &mut state.files {
        let Recorded::Inline(from) = entry.content else { continue };
        let Some(segment) = sparse.get(&from.segment) else { continue };
        let mut content = vec![0; from.length as usize];
        let failed = |source| FileError { path: segment.path.clone(), source };
        segment.file.read_exact_at(&mut content, from.offset).map_err(failed)?;
        let record = Record::CarriedContent { id: *id, content: &content };
        let end = creation.put(record.draft().ok_or_else(|| failed(too_long()))?)?;
        let offset = end.offset.saturating_sub(u64::from(from.length));
        entry.content =
            Recorded::Inline(InlineAt { segment: end.segment, offset, length: from.length });
        places.push((*id, from, offset));
    }
    Ok(places)
}

fn write_checkpoint(creation: &mut Creation, state: &State) -> Result<(), FileError> {
    let files = state.files.iter();
    let files = files.map(|(id, entry)| Record::CarriedFile { id: *id, entry: entry.clone() });
    let deletes = state.deletes.iter().map(|path| Record::DeleteAsked { path: path.clone() });
    let notes = state.notes.iter();
    let notes = notes.map(|(key, value)| Record::Noted { key: key.clone(), value: value.clone() });
    let end = [Record::NextId { id: state.next_id }, Record::CheckpointEnd];
    for record in files.chain(deletes).chain(notes).chain(end) {
        let failed = || FileError { path: PathBuf::from("journal"), source: too_long() };
        creation.put(record.draft().ok_or_else(failed)?)?;
    }
    Ok(())
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "too long for one journal record")
}

/// Removes what a dying writer left half made.
pub(super) fn remove_debris(folder: &Path) -> Result<(), FileError> {
    for entry in fs::read_dir(folder).at(folder)? {
        let path = entry.at(folder)?.path();
        if path.to_str().is_some_and(|path| path.ends_with(".seg.new")) {
            fs::remove_file(&path).at(&path)?;
        }
    }
    sync_folder(folder)
}

/// Opens an existing segment for reading, cut to its whole records.
pub(super) fn reopen(folder: &Path, number: u64, bytes: u64) -> Result<Segment, FileError> {
    let path = segment::path_of(folder, number);
    let file = fs::OpenOptions::new().read(true).write(true).open(&path).at(&path)?;
    if file.metadata().at(&path)?.len() != bytes {
        file.set_len(bytes).at(&path)?;
        file.sync_all().at(&path)?;
    }
    Ok(Segment { number, path, file })
}
