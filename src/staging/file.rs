//! The content of one staged file: in memory while it is small and open, in the journal once it is
//! small and closed, in a spool file of its own when it is large.
//!
//! ```text
//!            first bytes          closed                  written again
//!   (new) ──► Memory ───────────► Journal ──────────────► Memory (a copy: recovery sees the
//!               │ too large,                                      sealed content until closed)
//!               ▼ or no memory
//!             Spool ── closed ──► Spool, sealed ── `Unsealed` recorded ──► Spool, partial
//! ```
//!
//! What recovery sees of a file that was closed, opened again and being written at the crash: a
//! small one as it was when closed; a large one as *partial*, since its bytes change in place.
//!
//! Locks: the content's lock is shared by writers and readers of a spool file and exclusive for
//! everything that changes where the content lies. The journal's lock is taken under it, never the
//! other way round.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

use super::account::Account;
use super::area::Shared;
use super::body::{Body, Content, Gone, Known};
use super::extents::Extents;
use super::journal::Moved;
use super::quota::Memory;
use super::record::Record;
use super::spool::SpoolFile;
use super::{FileAttributes, FileId, WriteError};
use crate::netcdf::ByteSource;
use crate::store::Location;

/// The content of one file, shared by its writers, readers and the uploader.
#[derive(Debug)]
pub struct StagedFile {
    id: FileId,
    shared: Arc<Shared>,
    body: RwLock<Body>,
    /// Size in bytes.
    len: AtomicU64,
    generation: AtomicU64,
    writers: AtomicU32,
    /// Nanoseconds since the epoch.
    modified_ns: AtomicU64,
    account: Mutex<Account>,
}

/// A file as it is made or found.
pub(super) struct Found {
    pub(super) body: Body,
    pub(super) len: u64,
    pub(super) extents: Extents,
    pub(super) modified_ns: u64,
}

impl StagedFile {
    /// Its bytes are paid already.
    pub(super) fn new(id: FileId, shared: Arc<Shared>, found: Found) -> Self {
        let Found { body, len, extents, modified_ns } = found;
        let paid = if matches!(body.content, Content::Spool(_)) { extents.bytes() } else { len };
        Self {
            id,
            shared,
            body: RwLock::new(body),
            len: AtomicU64::new(len),
            generation: AtomicU64::new(0),
            writers: AtomicU32::new(0),
            modified_ns: AtomicU64::new(modified_ns),
            account: Mutex::new(Account::found(paid, extents)),
        }
    }

    /// Its number.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Size in bytes.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Whether its size is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Grows with each change of the content. It does not survive the daemon.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Writers that have it open.
    pub fn writers(&self) -> u32 {
        self.writers.load(Ordering::Acquire)
    }

    /// Counts one more writer. While there is one, [`Staging::uploaded`](super::Staging::uploaded)
    /// frees nothing. Check [`is_staged`](Self::is_staged) afterwards: the file may have been
    /// uploaded just before.
    pub fn open_writer(&self) {
        // Under the lock, so that `uploaded` sees either the writer or the file as gone.
        let _body = self.body.read();
        self.writers.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns how many writers are left.
    pub fn close_writer(&self) -> u32 {
        let body = self.body.read();
        let before = self
            .writers
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |writers| {
                Some(writers.saturating_sub(1))
            })
            .unwrap_or_default();
        let left = before.saturating_sub(1);
        if left == 0 && body.gone.is_some() {
            self.free_all();
        }
        left
    }

    /// Whether the staging area still has it. False after `discard`, and after `uploaded` answered
    /// true: then it can only be read.
    pub fn is_staged(&self) -> bool {
        self.body.read().gone.is_none()
    }

    /// When the content was last written.
    pub fn modified(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.modified_ns.load(Ordering::Acquire))
    }

    /// Writes all of `data` or nothing, and counts it against the quota first.
    ///
    /// One exception to "nothing": if the spool's own file system turns out to be full in the
    /// middle of a write over existing holes or shared blocks, part of `data` may be in place when
    /// [`WriteError::Full`] is answered. The size never shows it.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), WriteError> {
        if data.is_empty() {
            return Ok(());
        }
        let end = end_of(offset, data.len())?;
        let written = {
            let body = self.body.read();
            match &body.content {
                Content::Spool(file) if body.known != Known::SpoolSealed => {
                    self.pay_range(offset, end)?;
                    Some(self.write_spool(file, offset, data, end))
                }
                _ => None,
            }
        };
        let Some(written) = written else { return self.write_first(offset, data, end) };
        self.trim_if_failed(written)
    }

    /// A write that may have to change where the content lies.
    fn write_first(&self, offset: u64, data: &[u8], end: u64) -> Result<(), WriteError> {
        let mut guard = self.body.write();
        let body = &mut *guard;
        body.check_writable()?;
        self.make_writable(body, self.len(), end)?;
        match &mut body.content {
            Content::Memory(memory) => {
                self.pay_length(end.max(self.len()))?;
                // `make_writable` keeps files above the inline limit out of memory.
                let offset = usize::try_from(offset).map_err(io::Error::other)?;
                memory.write(offset, data);
                self.changed(end.max(self.len()));
                Ok(())
            }
            Content::Spool(_) => {
                self.pay_range(offset, end)?;
                self.unseal(body)?;
                let body = RwLockWriteGuard::downgrade(guard);
                let Content::Spool(file) = &body.content else { return Err(lost_track().into()) };
                let written = self.write_spool(file, offset, data, end);
                drop(body);
                self.trim_if_failed(written)
            }
            Content::Journal { .. } => Err(lost_track().into()),
        }
    }

    /// Its bytes are paid already.
    fn write_spool(
        &self,
        file: &SpoolFile,
        offset: u64,
        data: &[u8],
        end: u64,
    ) -> Result<(), WriteError> {
        let handle = self.shared.spool.handle(file)?;
        handle.write_all_at(data, offset).map_err(|error| self.shared.write_error(error))?;
        self.len.fetch_max(end, Ordering::AcqRel);
        self.touch();
        Ok(())
    }

    /// A write that failed half-way may have left bytes beyond the end: a later hole must not show
    /// them.
    fn trim_if_failed(&self, written: Result<(), WriteError>) -> Result<(), WriteError> {
        if written.is_err() {
            let body = self.body.write();
            if let Content::Spool(file) = &body.content {
                self.shared.spool.handle(file)?.set_len(self.len())?;
                self.settle_end(self.len());
            }
        }
        written
    }

    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let body = self.body.read();
        let available = self.len().saturating_sub(offset);
        let count = usize::try_from(available).map_or(buf.len(), |count| count.min(buf.len()));
        let Some(buf) = buf.get_mut(..count).filter(|buf| !buf.is_empty()) else { return Ok(0) };
        match &body.content {
            Content::Memory(memory) => {
                let start = usize::try_from(offset).map_err(io::Error::other)?;
                let bytes = memory.bytes().get(start..start + count).ok_or_else(lost_track)?;
                buf.copy_from_slice(bytes);
            }
            Content::Journal { segment, offset: start } => {
                segment.file.read_exact_at(buf, start + offset)?;
            }
            Content::Spool(file) => self.shared.spool.handle(file)?.read_exact_at(buf, offset)?,
        }
        Ok(count)
    }

    /// Cuts the file, or grows it by a hole, which costs nothing.
    pub fn set_len(&self, len: u64) -> Result<(), WriteError> {
        let mut guard = self.body.write();
        let body = &mut *guard;
        body.check_writable()?;
        let before = self.len();
        if len == before {
            return Ok(());
        }
        end_of(len, 0)?;
        self.make_writable(body, before.min(len), len)?;
        if let Content::Memory(memory) = &mut body.content {
            self.pay_length(len)?;
            memory.resize(usize::try_from(len).map_err(io::Error::other)?);
            self.changed(len);
            return Ok(());
        }
        if len > before {
            self.account.lock().pay_end(&self.shared.quota, len)?;
        }
        self.unseal(body)?;
        let Content::Spool(file) = &body.content else { return Err(lost_track().into()) };
        let handle = self.shared.spool.handle(file)?;
        let result = handle.set_len(len).map_err(|error| self.shared.write_error(error));
        let end = if result.is_ok() { len } else { before };
        self.settle_end(end);
        if result.is_ok() {
            self.changed(len);
        }
        result
    }

    /// Content and its record on disk. The bytes of an open file are recovered as partial.
    pub fn sync(&self) -> io::Result<()> {
        self.sync_content()?;
        if self.is_staged() {
            self.shared.spool.sync_folder()?;
            self.shared.journal.sync()?;
        }
        Ok(())
    }

    /// The content on disk and the fact recorded; the journal is synced by the caller.
    pub(super) fn sync_content(&self) -> io::Result<()> {
        let handle = {
            let body = self.body.read();
            match &body.content {
                Content::Spool(file) if !body.synced => Some(self.shared.spool.handle(file)?),
                Content::Memory(_) => None,
                Content::Journal { .. } | Content::Spool(_) => return Ok(()),
            }
        };
        let generation = self.generation();
        if let Some(handle) = &handle {
            handle.sync_data()?;
        }
        let mut body = self.body.write();
        if body.gone.is_some() || body.synced {
            return Ok(());
        }
        let id = self.id;
        match (&body.content, body.known) {
            (Content::Memory(memory), _) => {
                self.shared.journal.append(Record::SyncedInline { id, content: memory.bytes() })?;
                body.known = Known::InlineSynced;
                body.synced = true;
            }
            (Content::Spool(_), Known::SpoolSealed) if self.generation() == generation => {
                self.shared.journal.append(Record::SyncedSpool { id })?;
                body.synced = true;
            }
            (Content::Spool(_), Known::InlineSynced | Known::InlineSealed) => {
                self.shared.journal.append(Record::Unsealed { id })?;
                body.known = Known::Open;
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether everything written so far has been sealed by a close.
    pub fn is_sealed(&self) -> bool {
        self.body.read().is_sealed()
    }

    /// Whether `Staging::sync` has to sync it: closed, in a spool file, not synced yet.
    pub(super) fn is_sealed_unsynced(&self) -> bool {
        let body = self.body.read();
        body.known == Known::SpoolSealed && !body.synced
    }

    /// See `Staging::seal`.
    pub(super) fn seal(&self, path: &Location, attributes: &FileAttributes) -> io::Result<u64> {
        let mut body = self.body.write();
        if body.gone.is_some() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the file was deleted"));
        }
        let (id, attributes, path) = (self.id, attributes.clone(), path.clone());
        if body.is_sealed() {
            self.shared.journal.append(Record::Updated { id, attributes, path })?;
            return Ok(self.generation());
        }
        if let Content::Spool(file) = &body.content {
            let record = Record::SealedSpool { id, attributes, path, size: self.len() };
            self.shared.journal.append(record)?;
            file.rest();
            body.known = Known::SpoolSealed;
            body.synced = false;
            return Ok(self.generation());
        }
        let loaded;
        let content = match &body.content {
            Content::Memory(memory) => memory.bytes(),
            content => {
                loaded = self.load(content, self.len())?;
                &loaded
            }
        };
        let record = Record::SealedInline { id, attributes, path, content };
        let appended = self.shared.journal.append(record)?;
        let offset = appended.end - content.len() as u64;
        body.content = Content::Journal { segment: appended.segment, offset };
        body.known = Known::InlineSealed;
        body.synced = true;
        Ok(self.generation())
    }

    /// The daemon ends while somebody is still writing: from here on recovery sees the file as partial,
    /// with the bytes that are there. Answers false if an earlier content that was closed stands in
    /// the journal: that is what recovery goes on with.
    pub(super) fn cut(&self) -> io::Result<bool> {
        let mut body = self.body.write();
        let id = self.id;
        let loaded;
        let content = match (&body.content, body.known) {
            _ if body.gone.is_some() => return Ok(true),
            (Content::Memory(_) | Content::Spool(_), Known::InlineSealed) => return Ok(false),
            (Content::Spool(_), Known::SpoolSealed | Known::InlineSynced) => {
                self.shared.journal.append(Record::Unsealed { id })?;
                body.known = Known::Open;
                body.synced = false;
                return Ok(true);
            }
            (Content::Spool(_), Known::Open) | (Content::Journal { .. }, Known::InlineSynced) => {
                return Ok(true);
            }
            (Content::Memory(memory), _) => memory.bytes(),
            (content @ Content::Journal { .. }, _) => {
                loaded = self.load(content, self.len())?;
                &loaded
            }
        };
        let appended = self.shared.journal.append(Record::SyncedInline { id, content })?;
        let offset = appended.end - content.len() as u64;
        body.content = Content::Journal { segment: appended.segment, offset };
        body.known = Known::InlineSynced;
        body.synced = true;
        Ok(true)
    }

    /// Takes the file out of the journal. For an upload only if nothing was written since
    /// `generation` and nobody has it open for writing.
    pub(super) fn forget(&self, gone: Gone, generation: Option<u64>) -> io::Result<bool> {
        let mut body = self.body.write();
        if body.gone.is_some() {
            return Ok(false);
        }
        if let Some(generation) = generation {
            let changed = generation != self.generation() || !body.is_sealed();
            if changed || self.writers() > 0 {
                return Ok(false);
            }
        }
        self.shared.journal.append(Record::Forgotten { id: self.id })?;
        body.gone = Some(gone);
        if let Content::Spool(file) = &body.content
            && let Err(error) = self.shared.spool.unlink(file)
        {
            // Forgotten all the same: the next start removes it.
            tracing::warn!(id = self.id.0, %error, "a spool file could not be removed");
        }
        if self.writers() == 0 {
            self.free_all();
        }
        Ok(true)
    }

    /// The journal carried the content over to a newer segment.
    pub(super) fn moved(&self, moved: &Moved) {
        let mut body = self.body.write();
        if let Content::Journal { segment, offset } = &mut body.content
            && segment.number == moved.from.segment
            && *offset == moved.from.offset
        {
            *segment = Arc::clone(&moved.to);
            *offset = moved.offset;
        }
    }

    /// Brings the content where it can be written: the first `keep` bytes of it, room for `len`.
    fn make_writable(&self, body: &mut Body, keep: u64, len: u64) -> Result<(), WriteError> {
        body.synced = false;
        let limit = self.shared.inline_bytes_max;
        let small = usize::try_from(len.max(keep)).ok().filter(|size| *size <= limit);
        match &mut body.content {
            Content::Spool(_) => return Ok(()),
            Content::Memory(memory) => {
                if small.is_some_and(|size| memory.reserve(size, limit)) {
                    return Ok(());
                }
            }
            content @ Content::Journal { .. } => {
                let mut memory = Memory::new(&self.shared.memory);
                if let Some(size) = small.filter(|size| memory.reserve(*size, limit)) {
                    let bytes = self.load(content, keep)?;
                    debug_assert!(bytes.len() <= size, "only what is kept is loaded");
                    memory.write(0, &bytes);
                    *content = Content::Memory(memory);
                    return Ok(());
                }
            }
        }
        self.spill(body, keep)
    }

    /// Moves the first `keep` bytes to a new spool file.
    fn spill(&self, body: &mut Body, keep: u64) -> Result<(), WriteError> {
        let shared = &self.shared;
        let file = shared.spool.create(self.id).map_err(|error| shared.write_error(error))?;
        let written = self.copy_to(&file, &body.content, keep);
        if written.is_err() || body.gone.is_some() {
            // Of no use, or unlinked already like the file it belongs to.
            shared.spool.unlink(&file)?;
        }
        written.map_err(|error| shared.write_error(error))?;
        body.content = Content::Spool(file);
        self.account.lock().spilled(self.len());
        Ok(())
    }

    fn copy_to(&self, file: &SpoolFile, content: &Content, keep: u64) -> io::Result<()> {
        let handle = self.shared.spool.handle(file)?;
        if let Content::Memory(memory) = content {
            let keep = usize::try_from(keep).map_err(io::Error::other)?;
            let bytes = memory.bytes().get(..keep).ok_or_else(lost_track)?;
            return handle.write_all_at(bytes, 0);
        }
        handle.write_all_at(&self.load(content, keep)?, 0)
    }

    /// The first `length` bytes of content that lies in the journal: at most the inline limit.
    fn load(&self, content: &Content, length: u64) -> io::Result<Vec<u8>> {
        let Content::Journal { segment, offset } = content else { return Err(lost_track()) };
        let length = usize::try_from(length.min(self.len())).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        segment.file.read_exact_at(&mut bytes, *offset)?;
        Ok(bytes)
    }

    /// Records that a closed spool file is being changed, before the first change.
    fn unseal(&self, body: &mut Body) -> io::Result<()> {
        if body.known == Known::SpoolSealed {
            if body.gone.is_none() {
                self.shared.journal.append(Record::Unsealed { id: self.id })?;
            }
            body.known = Known::Open;
        }
        Ok(())
    }

    /// The content in memory has changed.
    fn changed(&self, len: u64) {
        self.len.store(len, Ordering::Release);
        self.touch();
    }

    fn touch(&self) {
        self.modified_ns.store(self.shared.wall_ns(), Ordering::Release);
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn pay_length(&self, bytes: u64) -> Result<(), WriteError> {
        self.account.lock().pay_length(&self.shared.quota, bytes)
    }

    fn pay_range(&self, offset: u64, end: u64) -> Result<(), WriteError> {
        self.account.lock().pay_range(&self.shared.quota, offset, end)
    }

    fn settle_end(&self, end: u64) {
        self.account.lock().settle_end(&self.shared.quota, end);
    }

    fn free_all(&self) {
        self.account.lock().free_all(&self.shared.quota);
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        self.free_all();
    }
}

impl ByteSource for StagedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(StagedFile::len(self))
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        if self.read_at(offset, buf)? == buf.len() {
            return Ok(());
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Where a write ends. No file system takes a larger file.
fn end_of(offset: u64, length: usize) -> Result<u64, WriteError> {
    let end = offset.checked_add(length as u64).filter(|end| i64::try_from(*end).is_ok());
    end.ok_or_else(|| io::Error::from(Errno::EFBIG).into())
}

/// A state that the code rules out.
fn lost_track() -> io::Error {
    io::Error::other("a staged file is not where it should be; this is a defect")
}
