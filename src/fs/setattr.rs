//! chmod, chown, utimes, truncate. None of the first three sends a file again.

use super::{Attr, Changes, Error, Fs, SetTime};
use crate::namespace::{Entry, Ino, Origin};
use crate::staging::FileId;

impl Fs {
    /// Changes attributes; a size through the open handle `fh` if there is one.
    pub async fn setattr(
        &self,
        ino: Ino,
        fh: Option<u64>,
        changes: Changes,
    ) -> Result<Attr, Error> {
        if self.options.read_only || self.status.node(ino).is_some() {
            return Err(Error::ReadOnly);
        }
        if let Some(size) = changes.size {
            self.truncate(ino, fh, size).await?;
        }
        let file = self.staging.file(FileId(ino.0));
        let entry = match &file {
            Some(file) if changes.mtime.is_some() => {
                self.files.settle_mtime(ino, file, |_| self.change_attributes(ino, &changes))?
            }
            _ => self.change_attributes(ino, &changes)?,
        };
        let path = self.tree.path(ino);
        match (&entry.origin, path) {
            (Origin::Staged, Some(path)) => {
                if let Some(file) = file {
                    self.record(ino, &file, &path)?;
                }
            }
            (Origin::Source, Some(path)) if changes.mtime.is_some() => {
                self.ingest.set_receipt_mtime(&path, entry.attributes.mtime).await?;
            }
            _ => {}
        }
        self.getattr(ino, fh).await
    }

    fn change_attributes(&self, ino: Ino, changes: &Changes) -> Result<Entry, Error> {
        let now = self.clock.wall();
        let time = |time: SetTime| match time {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        let changed = self.tree.set_attributes(ino, |attributes| {
            if let Some(mode) = changes.mode {
                attributes.mode = Self::changed_mode(mode);
            }
            attributes.uid = changes.uid.unwrap_or(attributes.uid);
            attributes.gid = changes.gid.unwrap_or(attributes.gid);
            attributes.atime = changes.atime.map_or(attributes.atime, time);
            attributes.mtime = changes.mtime.map_or(attributes.mtime, time);
            attributes.ctime = now;
        });
        changed.ok_or(Error::NotFound)
    }

    async fn truncate(&self, ino: Ino, fh: Option<u64>, size: u64) -> Result<(), Error> {
        let handle = fh.and_then(|fh| self.handles.get(fh)).filter(|handle| handle.write);
        if let Some(handle) = handle
            && let Some(file) = &handle.file
        {
            handle.set_wrote();
            return Ok(file.set_len(size)?);
        }
        let entry = self.tree.entry(ino).ok_or(Error::NotFound)?;
        if entry.is_folder() {
            return Err(Error::IsFolder);
        }
        if let Some(path) = self.tree.path(ino).filter(|path| size == 0 && self.claims(path)) {
            self.ingest.prepare(&path).await?;
        }
        let file = self.writer(ino, size == 0).await?;
        let done = file.set_len(size);
        self.close_writer(ino, &file);
        Ok(done?)
    }
}
