//! Opening files that are there.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::handles::Handle;
use super::{Error, Fs, OpenFlags};
use crate::namespace::{Ino, Origin, same_content};
use crate::staging::{FileId, StagedFile};
use crate::store::{Location, ObjectAttributes};
use crate::telemetry::activities::Activity;

/// What the kernel may do with pages of an opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Hand every write over as it is: fastest for streams, forbids `mmap`.
    Direct,
    /// Use pages, but none from before.
    Fresh,
    /// The content is what it was when the file was last opened.
    Keep,
}

/// An opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The handle.
    pub fh: u64,
    /// What the kernel may do with pages.
    pub cache: Cache,
}

/// Who only writes is a stream; who also reads may want `mmap`.
pub(super) fn direct_if_stream(flags: OpenFlags) -> Cache {
    if flags.write && !flags.read { Cache::Direct } else { Cache::Fresh }
}

impl Fs {
    /// Opens a file. For writing, an object is fetched into staging first, unless it is truncated.
    pub async fn open(&self, ino: Ino, flags: OpenFlags) -> Result<Opened, Error> {
        if let Some(node) = self.status.node(ino) {
            return self.open_status(ino, &node, flags);
        }
        let entry = self.tree.entry(ino).ok_or(Error::NotFound)?;
        if entry.is_folder() {
            return Err(Error::IsFolder);
        }
        let writes = flags.write || flags.truncate;
        if writes && self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if entry.origin == Origin::Staged && !flags.truncate {
            self.tell_lasting_error(ino)?;
        }
        if writes {
            return self.open_writing(ino, flags).await;
        }
        match entry.origin {
            Origin::Source => Err(Error::Ingested(self.tree.path(ino).ok_or(Error::NotFound)?)),
            Origin::Published(object) => self.open_object(ino, flags, object),
            Origin::Staged | Origin::Folder => {
                self.cached.lock().remove(&ino);
                let file = self.staging.file(FileId(ino.0)).or_else(|| self.handles.file_of(ino));
                let handle = Handle { file, ..Handle::new(ino, flags) };
                Ok(Opened { fh: self.handles.add(handle), cache: Cache::Fresh })
            }
        }
    }

    fn open_object(
        &self,
        ino: Ino,
        flags: OpenFlags,
        object: ObjectAttributes,
    ) -> Result<Opened, Error> {
        let path = self.tree.path(ino).ok_or(Error::NotFound)?;
        let before = self.cached.lock().insert(ino, object.clone());
        let same = before.is_some_and(|before| same_content(&before, &object));
        let object = Some((path, Mutex::new(object.version)));
        let handle = Handle { object, ..Handle::new(ino, flags) };
        let cache = if same { Cache::Keep } else { Cache::Fresh };
        Ok(Opened { fh: self.handles.add(handle), cache })
    }

    async fn open_writing(&self, ino: Ino, flags: OpenFlags) -> Result<Opened, Error> {
        if flags.truncate
            && let Some(path) = self.tree.path(ino).filter(|path| self.claims(path))
        {
            self.ingest.prepare(&path).await?;
        }
        let file = self.writer(ino, flags.truncate).await?;
        if flags.truncate
            && !file.is_empty()
            && let Err(error) = file.set_len(0)
        {
            self.close_writer(ino, &file);
            return Err(error.into());
        }
        let writer = Some(self.activities.enter(Activity::Writer));
        let handle = Handle { writer, file: Some(file), ..Handle::new(ino, flags) };
        if flags.truncate {
            handle.set_wrote();
        }
        Ok(Opened { fh: self.handles.add(handle), cache: direct_if_stream(flags) })
    }

    /// The staged content of a file, counted as opened for writing; fetched from the bucket if it is
    /// not staged, or begun empty with `truncate`. Ends with [`Fs::close_writer`].
    pub(super) async fn writer(&self, ino: Ino, truncate: bool) -> Result<Arc<StagedFile>, Error> {
        self.cached.lock().remove(&ino);
        loop {
            match self.try_writer(ino) {
                Now::Open(file, path) => {
                    self.call_back(ino, path.as_ref());
                    return Ok(file);
                }
                Now::InBucket(object) => self.fetch(ino, &object, truncate).await?,
                Now::Ingested(_) if truncate => self.begin_again(ino)?,
                Now::Ingested(path) => return Err(Error::Ingested(path)),
                Now::Gone => return Err(Error::NotFound),
            }
        }
    }

    /// What was closed and is opened for writing again is not sent before it is closed again, nor
    /// documents before it.
    pub(super) fn call_back(&self, ino: Ino, path: Option<&Location>) {
        if path.is_some_and(|path| self.claims(path)) {
            self.ingest.cancelled(FileId(ino.0));
        } else {
            self.queue.opened(FileId(ino.0));
        }
    }

    /// Under the tree's lock, so that the file is not handed over to the bucket in between.
    fn try_writer(&self, ino: Ino) -> Now {
        let now = self.tree.with_entry(ino, |entry, path| match (&entry.origin, path) {
            (Origin::Staged, path) => {
                let Some(file) = self.staging.file(FileId(ino.0)) else { return Now::Gone };
                file.open_writer();
                Now::Open(file, path)
            }
            (Origin::Published(object), Some(_)) => Now::InBucket(object.clone()),
            (Origin::Source, Some(path)) => Now::Ingested(path),
            _ => Now::Gone,
        });
        now.unwrap_or(Now::Gone)
    }

    /// One lasting error of the file, once.
    pub(super) fn tell_lasting_error(&self, ino: Ino) -> Result<(), Error> {
        let Some(path) = self.tree.path(ino) else { return Ok(()) };
        let error = if let Some(reason) = self.queue.failure(FileId(ino.0)) {
            Error::Failed { path, reason }
        } else if let Some(refusal) = self.ingest.refusal(&path) {
            refusal.into()
        } else {
            return Ok(());
        };
        if self.files.needs_telling(ino, &error.to_string()) { Err(error) } else { Ok(()) }
    }

    pub(super) fn open_text(&self, ino: Ino, text: String) -> Opened {
        let text = Some(Bytes::from(text));
        let handle = Handle { text, ..Handle::new(ino, OpenFlags::default()) };
        // Its size was told before the text was known.
        Opened { fh: self.handles.add(handle), cache: Cache::Direct }
    }
}

/// Where the content of a file is at the moment someone wants to write it.
enum Now {
    Open(Arc<StagedFile>, Option<Location>),
    InBucket(ObjectAttributes),
    Ingested(Location),
    Gone,
}
