//! Renaming files.
//!
//! A staged file changes its name only here and in the journal. An object is copied on the server's
//! side, then deleted. What had the new name is replaced.

use super::rename_folder::Cut;
use super::{Error, Fs};
use crate::namespace::{Entry, Ino, Origin};
use crate::staging::{FileId, StagedFile};
use crate::store::{Location, ObjectAttributes, StoreError};

/// Largest object that S3 copies in one request.
const COPY_BYTES_MAX: u64 = 5 << 30;

/// A file changes between staging and the bucket once for each time that it is closed; who never
/// finds it at rest has somebody else at work on it.
const ATTEMPTS: u32 = 8;

/// A name in a folder.
pub(super) type Place<'a> = (Ino, &'a str);

impl Fs {
    /// Gives a file or folder another name, replacing what has it unless `no_replace`.
    pub async fn rename(
        &self,
        from: Place<'_>,
        to: Place<'_>,
        no_replace: bool,
    ) -> Result<(), Error> {
        self.writable(from.0, from.1)?;
        let new = self.new_path(to.0, to.1)?;
        let source = self.find(from.0, from.1).await?.ok_or(Error::NotFound)?;
        let target = self.find(to.0, to.1).await?;
        match &target {
            Some(target) if target.ino == source.ino => return Ok(()),
            Some(_) if no_replace => return Err(Error::Exists),
            Some(target) if target.is_folder() && !source.is_folder() => {
                return Err(Error::IsFolder);
            }
            Some(target) if !target.is_folder() && source.is_folder() => {
                return Err(Error::NotFolder);
            }
            _ => {}
        }
        if source.is_folder() {
            return self.rename_folder(&source, target.as_ref(), to, &new).await;
        }
        let old = self.tree.path(source.ino).ok_or(Error::NotFound)?;
        let renaming = Renaming { source, target: target.as_ref(), to, old, new };
        self.rename_file(renaming).await
    }

    /// What the file is may change while the network is asked: then it is looked at again.
    async fn rename_file(&self, mut it: Renaming<'_>) -> Result<(), Error> {
        let is_source = self.claims(&it.new);
        if is_source && it.source.origin != Origin::Source {
            self.ingest.prepare(&it.new).await?;
        }
        for _ in 0..ATTEMPTS {
            let done = match &it.source.origin {
                Origin::Source => self.rename_receipt(&it).await?,
                Origin::Published(object) if is_source || self.must_be_queued(&it) => {
                    self.fetch(it.source.ino, object, false).await?;
                    false
                }
                Origin::Published(object) => self.rename_object(&it, object).await?,
                Origin::Staged | Origin::Folder => self.rename_staged(&it).await?,
            };
            if done {
                return Ok(());
            }
            it.source = self.tree.entry(it.source.ino).ok_or(Error::NotFound)?;
        }
        Err(Error::Busy(it.old))
    }

    /// Whether the queue has, or may have, something under way at the new place: only what goes
    /// through the queue too comes after that.
    fn must_be_queued(&self, it: &Renaming<'_>) -> bool {
        self.tree.hides(&it.new) || it.target.is_some_and(|at| at.origin == Origin::Staged)
    }

    async fn rename_receipt(&self, it: &Renaming<'_>) -> Result<bool, Error> {
        if !self.ingest.rename_receipt(&it.old, &it.new).await? {
            let reason = "a receipt stays in its folder".to_owned();
            return Err(Error::CrossDevice { from: it.old.clone(), reason });
        }
        Ok(self.replace(it, None))
    }

    async fn rename_object(
        &self,
        it: &Renaming<'_>,
        object: &ObjectAttributes,
    ) -> Result<bool, Error> {
        if object.size > COPY_BYTES_MAX {
            let reason = "an object above 5 GiB is not copied by the store".to_owned();
            return Err(Error::CrossDevice { from: it.old.clone(), reason });
        }
        if self.tree.is_held(&it.old) || self.tree.is_held(&it.new) {
            return Err(Error::Busy(it.old.clone()));
        }
        // Should this process end now, the next one ends the rename.
        let cut = Cut::new(&it.old, &it.new);
        let note = serde_json::to_value(cut).map_err(std::io::Error::other)?;
        self.staging.note(&file_note_key(&it.old), Some(&note))?;
        let renamed = self.copy_and_replace(it).await;
        self.staging.note(&file_note_key(&it.old), None)?;
        renamed
    }

    async fn copy_and_replace(&self, it: &Renaming<'_>) -> Result<bool, Error> {
        let store = self.tree.store();
        store.copy(&it.old, &it.new).await?;
        let copied = store.head(&it.new).await?;
        self.tree.arrived(&it.new, &copied);
        Ok(self.replace(it, Some(copied)))
    }

    /// Ends the rename of an object that the end of an earlier daemon has cut short.
    pub(super) async fn end_file_rename(&self, cut: &Cut) -> Result<(), Error> {
        match self.tree.store().copy(&cut.from, &cut.to).await {
            Ok(()) => {
                self.tree.hide_object(&cut.from);
                self.queue.delete(&cut.from);
            }
            // It had come to its end.
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.staging.note(&file_note_key(&cut.from), None)?)
    }

    async fn rename_staged(&self, it: &Renaming<'_>) -> Result<bool, Error> {
        let id = FileId(it.source.ino.0);
        // Gone if it has arrived in the bucket meanwhile.
        let Some(file) = self.staging.file(id) else { return Ok(false) };
        let (was_source, is_source) = (self.claims(&it.old), self.claims(&it.new));
        // rsync renames a complete file: this is its close.
        if is_source && !was_source && is_complete(&file) && !file.is_empty() {
            self.ingest.judge(id, &it.new).await?;
        }
        // Under its new name it has to be sent, whether it is changed or not.
        self.files.unsettle(it.source.ino);
        if !self.replace(it, None) {
            return Ok(false);
        }
        self.record(it.source.ino, &file, &it.new)?;
        match (was_source, is_source) {
            (true, true) => {
                self.ingest.renamed(id, &it.new);
                return Ok(true);
            }
            (true, false) => self.ingest.cancelled(id),
            (false, true) => self.queue.cancelled(id),
            (false, false) => {}
        }
        self.tell_name(it.source.ino, &file, &it.new)?;
        Ok(true)
    }

    /// Moves the name, and sees to what had it and to the object at the old place. False if the file
    /// is not what it was.
    fn replace(&self, it: &Renaming<'_>, copied: Option<ObjectAttributes>) -> bool {
        let renamed = self.tree.rename(it.source.ino, &it.source.origin, it.to, copied);
        let Ok(object) = renamed else { return false };
        if let Some(target) = it.target {
            self.abandon(target);
        }
        if let Some(object) = object {
            self.queue.delete(&object);
        }
        true
    }
}

/// What the key of such a note begins with.
pub(super) const FILE_NOTE_PREFIX: &str = "rename-file/";

fn file_note_key(old: &Location) -> String {
    format!("{FILE_NOTE_PREFIX}{old}")
}

struct Renaming<'a> {
    source: Entry,
    target: Option<&'a Entry>,
    to: Place<'a>,
    old: Location,
    new: Location,
}

/// Nobody writes it: its last writer has sealed it.
pub(super) fn is_complete(file: &StagedFile) -> bool {
    file.writers() == 0
}
