//! The files of an epoch, opened as they are needed.

use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use super::judge;
use super::refusal::Refusal;
use crate::netcdf::{ByteSource, NetcdfFile};
use crate::telemetry::activities::{Activities, Activity};

/// Files whose metadata is kept in memory at a time.
const OPEN_MAX: usize = 64;

/// The files of an epoch in the order of its plan.
pub(super) struct Members {
    files: Vec<MemberFile>,
    open: Mutex<Vec<(usize, NetcdfFile)>>,
}

/// One of them.
pub(super) struct MemberFile {
    /// Its name.
    pub(super) name: String,
    /// Its bytes.
    pub(super) bytes: Arc<dyn ByteSource>,
}

impl Members {
    /// Reading them counts there.
    pub(super) fn new(files: Vec<MemberFile>, activities: &Activities) -> Self {
        let metered = |MemberFile { name, bytes }| {
            let bytes: Arc<dyn ByteSource> = Arc::new(Metered(bytes, activities.clone()));
            MemberFile { name, bytes }
        };
        Self { files: files.into_iter().map(metered).collect(), open: Mutex::default() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// What a file is called.
    pub(super) fn name(&self, position: usize) -> &str {
        self.files.get(position).map_or("", |file| file.name.as_str())
    }

    /// A file with its metadata. Blocks on the disk unless it was needed a moment ago.
    pub(super) fn open(&self, position: usize) -> Result<NetcdfFile, Refusal> {
        {
            let mut open = self.open.lock();
            if let Some(at) = open.iter().position(|(known, _)| *known == position) {
                // The one used last stands last.
                let entry = open.remove(at);
                let file = entry.1.clone();
                open.push(entry);
                return Ok(file);
            }
        }
        let gone = || Refusal::new(super::refusal::Cause::Corrupt, "the file is gone");
        let bytes = &self.files.get(position).ok_or_else(gone)?.bytes;
        let file = NetcdfFile::open(Arc::clone(bytes)).map_err(|error| judge::refusal(&error))?;
        let mut open = self.open.lock();
        if open.len() >= OPEN_MAX {
            open.remove(0);
        }
        open.push((position, file.clone()));
        Ok(file)
    }
}

/// Bytes that are read as far as the time of it is known.
struct Metered(Arc<dyn ByteSource>, Activities);

impl ByteSource for Metered {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn len_if_known(&self) -> io::Result<Option<u64>> {
        self.0.len_if_known()
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.1.within(Activity::Reading, || self.0.read_exact_at(offset, buf))
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").field("len", &self.len()).finish_non_exhaustive()
    }
}
