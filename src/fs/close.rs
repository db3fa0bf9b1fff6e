//! Flush, release and the kinds of sync.
//!
//! A flush comes at every close of every copy of a descriptor, also before the first write; it can
//! report an error and must be short. A release comes once, after the last, and nobody hears it.
//! So the content is judged and sealed at a flush that follows a write, and handed over at release.

use std::sync::Arc;

use super::attributes::record_of;
use super::files::Settled;
use super::rename::is_complete;
use super::temporary::is_temporary_path;
use super::{Error, Fs};
use crate::base::tasks;
use crate::namespace::{Attributes, Ino};
use crate::staging::{FileId, StagedFile};
use crate::store::Location;

impl Fs {
    /// A descriptor was closed. Local work only.
    pub async fn flush(&self, fh: u64) -> Result<(), Error> {
        let handle = self.handles.get(fh).ok_or(Error::BadHandle)?;
        let Some(file) = handle.file.as_ref().filter(|_| handle.write) else { return Ok(()) };
        let Some(path) = self.tree.path(handle.ino) else { return Ok(()) };
        if !handle.wrote() {
            return self.tell_lasting_error(handle.ino);
        }
        let generation = file.generation();
        if self.files.settled(handle.ino) == Settled::Sealed(generation) {
            return Ok(());
        }
        if self.claims(&path)
            && !file.is_empty()
            && self.files.needs_judging(handle.ino, generation)
        {
            self.ingest.judge(FileId(handle.ino.0), &path).await?;
        }
        // From here on it survives the death of this process: the close may say so.
        self.seal(handle.ino, file, &path)
    }

    /// The last copy of the descriptor was closed. The last writer hands the file over.
    pub fn release(&self, fh: u64) {
        let Some(handle) = self.handles.remove(fh) else { return };
        if let Some(file) = handle.file.as_ref().filter(|_| handle.writer.is_some()) {
            self.close_writer(handle.ino, file);
        }
    }

    pub(super) fn close_writer(&self, ino: Ino, file: &Arc<StagedFile>) {
        if file.close_writer() > 0 {
            return;
        }
        match self.settle(ino, file) {
            // Deleted in this moment: there is nothing to record.
            Err(_) if self.tree.path(ino).is_none() => self.discard(ino),
            Err(error) => {
                tracing::error!(%ino, %error, "cannot record a closed file; it is lost if this process ends");
            }
            Ok(()) => {}
        }
    }

    /// The last writer has closed the file.
    fn settle(&self, ino: Ino, file: &Arc<StagedFile>) -> Result<(), Error> {
        let Some(path) = self.tree.path(ino) else {
            self.discard(ino);
            return Ok(());
        };
        let generation = file.generation();
        match self.files.settled(ino) {
            Settled::Fetched(unchanged, object) if unchanged == generation => {
                // Somebody who opens it in this moment must not write to what is let go.
                let drop_copy = || {
                    if file.writers() > 0 {
                        return Ok(false);
                    }
                    self.staging.discard(FileId(ino.0)).map(|()| true)
                };
                if self.tree.unstage(ino, &path, object, drop_copy)? {
                    self.files.end_of(ino, file);
                    self.queue.let_go(FileId(ino.0));
                    return Ok(());
                }
                // Whoever opened it closes it, and settles it then.
                if file.writers() > 0 {
                    return Ok(());
                }
                self.seal(ino, file, &path)?;
            }
            Settled::Sealed(unchanged) if unchanged == generation => {}
            _ => self.seal(ino, file, &path)?,
        }
        match self.tree.path(ino) {
            // Renamed in this moment: the journal has to know the last name.
            Some(now) if now != path => self.record(ino, file, &now)?,
            _ => {}
        }
        self.hand_over(ino);
        Ok(())
    }

    /// A sealed file goes on its way, unless its name is a temporary one. It may be renamed or deleted
    /// meanwhile: then its new name counts.
    pub(super) fn hand_over(&self, ino: Ino) {
        let id = FileId(ino.0);
        while let Some(path) = self.tree.path(ino) {
            self.supersede(&path);
            let is_source = self.claims(&path);
            if !self.queue.closed(id, &path, !is_source && !is_temporary_path(&path)) {
                continue;
            }
            if !is_source {
                return;
            }
            self.ingest.sealed(id, &path);
            if self.tree.path(ino).as_ref() == Some(&path) {
                return;
            }
            self.ingest.cancelled(id);
        }
        self.discard(ino);
    }

    /// A file has another name: if it is closed it goes on its way to that, else documents wait for it
    /// there.
    pub(super) fn tell_name(
        &self,
        ino: Ino,
        file: &Arc<StagedFile>,
        path: &Location,
    ) -> Result<(), Error> {
        if !is_complete(file) && !self.claims(path) {
            self.queue.opened(FileId(ino.0));
        }
        // Also if it was closed in this moment.
        if is_complete(file) {
            // An object that was fetched to be renamed has had no writer.
            if !file.is_sealed() {
                self.seal(ino, file, path)?;
            }
            self.hand_over(ino);
        }
        Ok(())
    }

    pub(super) fn seal(
        &self,
        ino: Ino,
        file: &Arc<StagedFile>,
        path: &Location,
    ) -> Result<(), Error> {
        let Some(attributes) = self.settle_mtime(ino, file) else { return Ok(()) };
        let record = record_of(&attributes);
        let generation = self.staging.seal(file, path, &record)?;
        self.files.seal(ino, generation);
        // Touched in this moment: the journal has to know the last times.
        match self.tree.entry(ino) {
            Some(entry) if record_of(&entry.attributes) != record => self.record(ino, file, path),
            _ => Ok(()),
        }
    }

    /// Makes the time of the last write the one that `stat` shows, unless another was set since.
    fn settle_mtime(&self, ino: Ino, file: &StagedFile) -> Option<Attributes> {
        self.files.settle_mtime(ino, file, |is_set| {
            let entry = self.tree.set_attributes(ino, |attributes| {
                if !is_set {
                    attributes.mtime = file.modified();
                    attributes.ctime = attributes.ctime.max(attributes.mtime);
                }
            });
            entry.map(|entry| entry.attributes)
        })
    }

    /// Journals name and attributes of a staged file. One that has arrived in the bucket meanwhile
    /// needs no record.
    pub(super) fn record(&self, ino: Ino, file: &StagedFile, path: &Location) -> Result<(), Error> {
        let Some(entry) = self.tree.entry(ino) else { return Ok(()) };
        let record = self.file_attributes(&entry, file);
        match self.staging.update(FileId(ino.0), path, &record) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The staged bytes are not wanted any more, and sent nowhere. Who has the file open keeps them.
    pub(super) fn discard(&self, ino: Ino) {
        self.queue.cancelled(FileId(ino.0));
        self.files.end(ino);
        if let Err(error) = self.staging.discard(FileId(ino.0)) {
            tracing::error!(%ino, %error, "cannot record that a file was discarded");
        }
    }

    /// fsync: content and record of the file are on the disk.
    pub async fn fsync(&self, fh: u64) -> Result<(), Error> {
        let handle = self.handles.get(fh).ok_or(Error::BadHandle)?;
        let Some(file) = handle.file.clone() else { return Ok(()) };
        on_disk(move || file.sync()).await
    }

    /// fsync of a folder: everything recorded is on the disk. Of the mount's root: everything closed
    /// before is in the bucket.
    pub async fn fsyncdir(&self, ino: Ino) -> Result<(), Error> {
        if ino == Ino::ROOT {
            return (self.barrier)().await.map_err(Error::Barrier);
        }
        let staging = Arc::clone(&self.staging);
        on_disk(move || staging.sync()).await
    }
}

async fn on_disk(sync: impl FnOnce() -> std::io::Result<()> + Send + 'static) -> Result<(), Error> {
    let done = tasks::blocking("sync of staging", sync).await;
    Ok(done.unwrap_or_else(|| Err(std::io::Error::other("the sync panicked")))?)
}
