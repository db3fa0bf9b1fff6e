//! The staging area: files by number, the records about them, and the way in after a crash.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::errno::Errno;
use parking_lot::RwLock;

use super::body::{Body, Content, Gone, Known};
use super::extents::Extents;
use super::file::{Found, StagedFile};
use super::journal::Journal;
use super::lock::SpoolLock;
use super::quota::{Memory, MemoryBudget, Quota};
use super::record::{Record, Recorded};
use super::recovery::{Leftovers, files_folder, journal_folder};
use super::segment::{Document, Segment};
use super::spool::{Spool, extents_of};
use super::{
    FileAttributes, FileId, Inspection, OpenError, Recovered, RecoveredFile, SpoolIdentity,
    SpoolOptions, Usage, WriteError,
};
use crate::base::clock::Clock;
use crate::base::durable::{AtPath, FileError, create_private_folder, sync_folder};
use crate::store::Location;

/// Memory that the content of small open files may take together. It covers 256 files of the
/// largest inline size or 16,384 of 4 KiB, far more than writers have open at once, and is small
/// against the rest of the daemon. Beyond it a small file is spilled to a spool file.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// Growth after which a new segment begins: a second of the fastest small-file copy, so that
/// syncs and checkpoints are rare, and little to read at the next start.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Half of the longest record.
const INLINE_BYTES_LIMIT: usize = 16 << 20;

/// The shared staging area.
#[derive(Debug)]
pub struct Staging {
    shared: Arc<Shared>,
    files: RwLock<HashMap<FileId, Arc<StagedFile>>>,
    folder: PathBuf,
    _lock: SpoolLock,
}

/// What the area and its files have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) journal: Journal,
    pub(super) spool: Spool,
    pub(super) quota: Quota,
    pub(super) memory: Arc<MemoryBudget>,
    pub(super) inline_bytes_max: usize,
    clock: Clock,
}

/// What tests set otherwise.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    pub(super) segment_bytes_max: u64,
    pub(super) memory_bytes_max: u64,
    /// Names the machine's present run.
    pub(super) boot_id: String,
}

impl Surroundings {
    pub(super) fn present() -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        Self {
            segment_bytes_max: SEGMENT_BYTES_MAX,
            memory_bytes_max: MEMORY_BYTES_MAX,
            // Not known: then every start counts as one after a power cut.
            boot_id: boot_id.map(|text| text.trim().to_owned()).unwrap_or_default(),
        }
    }
}

impl Shared {
    pub(super) fn wall_ns(&self) -> u64 {
        nanoseconds(self.clock.wall())
    }

    /// A full file system is a full staging area.
    pub(super) fn write_error(&self, error: io::Error) -> WriteError {
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOSPC | Errno::EDQUOT) => self.quota.full(),
            _ => WriteError::Io(error),
        }
    }
}

impl Staging {
    /// Opens or makes the spool, and tells what an earlier daemon left in it. Partial files are
    /// kept too, until they are discarded.
    pub fn open(
        options: SpoolOptions,
        identity: &SpoolIdentity,
        clock: Clock,
    ) -> Result<(Arc<Self>, Recovered), OpenError> {
        Self::open_in(options, identity, clock, &Surroundings::present())
    }

    pub(super) fn open_in(
        options: SpoolOptions,
        identity: &SpoolIdentity,
        clock: Clock,
        surroundings: &Surroundings,
    ) -> Result<(Arc<Self>, Recovered), OpenError> {
        let SpoolOptions { folder, size_max, inline_bytes_max } = options;
        create_private_folder(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).at(&folder)?;
        let lock = SpoolLock::acquire(&folder)?;
        check_owner(&folder, identity)?;
        let found = Leftovers::read(&folder, &surroundings.boot_id)?;
        create_private_folder(&journal_folder(&folder))?;
        create_private_folder(&files_folder(&folder))?;
        sync_folder(&folder)?;
        let start = found.repair(&folder)?;
        let segments = start.older.iter().map(|(segment, _)| Arc::clone(segment));
        let segments = segments.map(|segment| (segment.number, segment)).collect();
        let document =
            Document { identity: identity.clone(), boot_id: surroundings.boot_id.clone() };
        let journal = Journal::start(
            &journal_folder(&folder),
            &document,
            surroundings.segment_bytes_max,
            start,
        )?;
        let shared = Arc::new(Shared {
            journal,
            spool: Spool::new(files_folder(&folder)),
            quota: Quota::new(size_max),
            memory: Arc::new(MemoryBudget::new(surroundings.memory_bytes_max)),
            inline_bytes_max: inline_bytes_max.min(INLINE_BYTES_LIMIT),
            clock,
        });
        let files = RwLock::new(adopt(&shared, &found, &segments)?);
        let staging = Arc::new(Self { shared, files, folder, _lock: lock });
        staging.maintain();
        Ok((staging, found.report()))
    }

    /// What lies in a spool, without a daemon and without changing anything. A spool that a daemon
    /// has open is [`OpenError::InUse`]: ask that one.
    pub fn inspect(folder: &Path) -> Result<Inspection, OpenError> {
        SpoolLock::check_free(folder)?;
        let result = Leftovers::read(folder, &Surroundings::present().boot_id);
        // A daemon that began in between explains what does not fit.
        SpoolLock::check_free(folder)?;
        let found = result?;
        let Some(identity) = found.identity.clone() else {
            return Err(OpenError::NoSpool { folder: folder.to_owned() });
        };
        Ok(Inspection { identity, recovered: found.report() })
    }

    /// A new, empty file. `path` is recorded so that a partial copy can be named after a crash.
    /// A number that is staged already is `AlreadyExists`.
    pub fn create(
        &self,
        id: FileId,
        path: &Location,
        attributes: &FileAttributes,
    ) -> io::Result<Arc<StagedFile>> {
        let record = Record::Created { id, attributes: attributes.clone(), path: path.clone() };
        self.shared.journal.append(record)?;
        let content = Content::Memory(Memory::new(&self.shared.memory));
        let body = Body { content, known: Known::Open, synced: false, gone: None };
        let modified_ns = self.shared.wall_ns();
        let found = Found { body, len: 0, extents: Extents::default(), modified_ns };
        let file = Arc::new(StagedFile::new(id, Arc::clone(&self.shared), found));
        self.files.write().insert(id, Arc::clone(&file));
        self.maintain();
        Ok(file)
    }

    /// The file, if it is staged.
    pub fn file(&self, id: FileId) -> Option<Arc<StagedFile>> {
        self.files.read().get(&id).cloned()
    }

    /// The file was closed by its last writer: journals path, attributes, size and, for small ones,
    /// the content. From here on it survives the death of the daemon. Returns the generation sealed.
    /// A file that was discarded meanwhile is `NotFound`.
    pub fn seal(
        &self,
        file: &StagedFile,
        path: &Location,
        attributes: &FileAttributes,
    ) -> io::Result<u64> {
        let generation = file.seal(path, attributes)?;
        self.maintain();
        Ok(generation)
    }

    /// The daemon ends while somebody is still writing `file`: it is partial from here on, until it is
    /// sealed again. Answers false if what recovery sees is an earlier content that was closed.
    pub fn cut(&self, file: &StagedFile) -> io::Result<bool> {
        let is_partial = file.cut()?;
        self.maintain();
        Ok(is_partial)
    }

    /// A staged file has another name or other attributes now (late chmod, utimes, rename). One that
    /// is not staged (any more) is `NotFound`.
    pub fn update(
        &self,
        id: FileId,
        path: &Location,
        attributes: &FileAttributes,
    ) -> io::Result<()> {
        let (attributes, path) = (attributes.clone(), path.clone());
        self.record(Record::Updated { id, attributes, path })
    }

    /// A folder was renamed: every staged file below moves with it.
    pub fn rename_folder(&self, from: &Location, to: &Location) -> io::Result<()> {
        self.record(Record::FolderRenamed { from: from.clone(), to: to.clone() })
    }

    /// The file is not wanted any more (deleted, or superseded). Open readers keep their handle, and
    /// open writers may go on. Does nothing if the file is not staged.
    pub fn discard(&self, id: FileId) -> io::Result<()> {
        self.forget(id, Gone::Discarded, None).map(|_| ())
    }

    /// Generation `generation` is in the bucket. Frees the content and answers true if nothing was
    /// written since. Answers false, and frees nothing, if the file has changed, is not sealed, or
    /// is open for writing: then it is sealed again when it is closed, and has to be sent again.
    pub fn uploaded(&self, id: FileId, generation: u64) -> io::Result<bool> {
        self.forget(id, Gone::Uploaded, Some(generation))
    }

    fn forget(&self, id: FileId, gone: Gone, generation: Option<u64>) -> io::Result<bool> {
        let Some(file) = self.file(id) else { return Ok(false) };
        let forgotten = file.forget(gone, generation)?;
        if forgotten {
            self.files.write().remove(&id);
            drop(file);
            self.maintain();
        }
        Ok(forgotten)
    }

    /// The deletion of an object was asked for: it is owed until [`deleted`](Self::deleted).
    pub fn record_delete(&self, location: &Location) -> io::Result<()> {
        self.record(Record::DeleteAsked { path: location.clone() })
    }

    /// The object is gone from the bucket.
    pub fn deleted(&self, location: &Location) -> io::Result<()> {
        self.record(Record::DeleteDone { path: location.clone() })
    }

    /// Remembers a small document under a key (the last one wins), or forgets it with `None`. One
    /// of more than 32 MiB is `InvalidInput`.
    pub fn note(&self, key: &str, value: Option<&serde_json::Value>) -> io::Result<()> {
        let key = key.to_owned();
        self.record(match value {
            Some(value) => Record::Noted { key, value: value.clone() },
            None => Record::NoteForgotten { key },
        })
    }

    /// What is remembered under a key.
    pub fn noted(&self, key: &str) -> Option<serde_json::Value> {
        self.shared.journal.noted(key)
    }

    /// Makes everything recorded so far durable: the content of closed files, their folder, and the
    /// journal. Open files have [`StagedFile::sync`].
    pub fn sync(&self) -> io::Result<()> {
        let files = self.files.read().values().cloned().collect::<Vec<_>>();
        for file in files.iter().filter(|file| file.is_sealed_unsynced()) {
            file.sync_content()?;
        }
        self.shared.spool.sync_folder()?;
        self.shared.journal.sync()
    }

    /// At the end of a mount. If nothing is staged, owed or noted, removes everything but the lock
    /// file and answers true; otherwise makes everything durable and answers false. After true, the
    /// staging area takes nothing any more.
    pub fn close_clean(&self) -> io::Result<bool> {
        if !self.shared.journal.remove_if_empty()? {
            self.sync()?;
            return Ok(false);
        }
        let folder = files_folder(&self.folder);
        fs::remove_dir_all(&folder)?;
        sync_folder(&self.folder).map_err(|error| error.source)?;
        Ok(true)
    }

    /// Where something of this name can be kept beside the spool files. It goes with them when nothing
    /// is left in the spool. The name must not be a number.
    pub fn beside(&self, name: &str) -> PathBuf {
        files_folder(&self.folder).join(name)
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        Usage {
            bytes: self.shared.quota.used(),
            bytes_max: self.shared.quota.max(),
            files: self.files.read().len() as u64,
        }
    }

    /// Waits until room has been freed since `Full` was answered. May return early, never late.
    pub async fn room(&self) {
        self.shared.quota.room().await;
    }

    fn record(&self, record: Record<'_>) -> io::Result<()> {
        self.shared.journal.append(record)?;
        self.maintain();
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn maintain(&self) {
        for moved in self.shared.journal.maintain() {
            if let Some(file) = self.file(moved.id) {
                file.moved(&moved);
            }
        }
    }
}

fn check_owner(folder: &Path, wanted: &SpoolIdentity) -> Result<(), OpenError> {
    match Leftovers::owner(folder)? {
        Some(found) if found.store != wanted.store || found.mount_point != wanted.mount_point => {
            let (found, wanted) = (Box::new(found), Box::new(wanted.clone()));
            Err(OpenError::OtherStore { folder: folder.to_owned(), found, wanted })
        }
        _ => Ok(()),
    }
}

/// Makes the files that were found staged files again.
fn adopt(
    shared: &Arc<Shared>,
    found: &Leftovers,
    segments: &HashMap<u64, Arc<Segment>>,
) -> Result<HashMap<FileId, Arc<StagedFile>>, FileError> {
    let mut files = HashMap::new();
    for file in &found.files {
        let Some(entry) = found.state.files.get(&file.id) else { continue };
        let (content, extents) = match entry.content {
            Recorded::Inline(at) => {
                let Some(segment) = segments.get(&at.segment) else { continue };
                let segment = Arc::clone(segment);
                (Content::Journal { segment, offset: at.offset }, Extents::default())
            }
            Recorded::Spool { .. } => adopt_spool_file(shared, file)?,
        };
        let known = match (&content, file.closed) {
            (Content::Journal { .. }, true) => Known::InlineSealed,
            (Content::Journal { .. }, false) => Known::InlineSynced,
            (_, true) => Known::SpoolSealed,
            (_, false) => Known::Open,
        };
        let charged =
            if matches!(content, Content::Spool(_)) { extents.bytes() } else { file.size };
        shared.quota.take_anyway(charged);
        let body = Body { content, known, synced: entry.synced, gone: None };
        let modified_ns = u64::try_from(file.attributes.mtime_ns).unwrap_or(0);
        let found = Found { body, len: file.size, extents, modified_ns };
        files.insert(file.id, Arc::new(StagedFile::new(file.id, Arc::clone(shared), found)));
    }
    Ok(files)
}

/// A spool file that is not there had no bytes yet.
fn adopt_spool_file(
    shared: &Shared,
    file: &RecoveredFile,
) -> Result<(Content, Extents), FileError> {
    let path = shared.spool.path_of(file.id);
    let handle = match fs::OpenOptions::new().read(true).write(true).open(&path) {
        Ok(handle) => handle,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((Content::Memory(Memory::new(&shared.memory)), Extents::default()));
        }
        Err(error) => return Err(error).at(&path),
    };
    if handle.metadata().at(&path)?.len() > file.size {
        handle.set_len(file.size).at(&path)?;
    }
    let extents = extents_of(&handle).at(&path)?;
    Ok((Content::Spool(shared.spool.existing(file.id)), extents))
}

fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
