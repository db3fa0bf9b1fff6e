//! Deleting files.

use super::{Error, Fs};
use crate::namespace::{Entry, Ino, Origin};
use crate::staging::FileId;

impl Fs {
    /// Deletes a file. What is staged is never sent; an object is hidden at once and deleted in its
    /// turn. Of an ingested source file the receipt goes, never the dataset.
    pub async fn unlink(&self, parent: Ino, name: &str) -> Result<(), Error> {
        self.writable(parent, name)?;
        let entry = self.find(parent, name).await?.ok_or(Error::NotFound)?;
        if entry.is_folder() {
            return Err(Error::IsFolder);
        }
        if entry.origin == Origin::Source {
            let path = self.tree.path(entry.ino).ok_or(Error::NotFound)?;
            self.ingest.remove_receipt(&path).await?;
        } else {
            self.give_up_object(parent, name).await?;
        }
        self.remove_file(&entry);
        Ok(())
    }

    /// Before an object of the bucket is deleted or replaced: what is known of its dataset ends.
    async fn give_up_object(&self, parent: Ino, name: &str) -> Result<(), Error> {
        let folder = self.tree.path(parent).ok_or(Error::NotFound)?;
        match folder.child(name) {
            Ok(path) if !self.claims(&path) && self.tree.bucket_knows(&folder, name) => {
                Ok(self.ingest.removing(&path).await?)
            }
            _ => Ok(()),
        }
    }

    /// Takes a file's name away, and sees to its bytes.
    pub(super) fn remove_file(&self, entry: &Entry) {
        if let Some(object) = self.tree.remove_file(entry.ino) {
            self.queue.delete(&object);
        }
        self.abandon(entry);
    }

    /// The bytes of a file that has lost its name are sent nowhere. Called after the name is gone,
    /// so that nothing takes them up again.
    pub(super) fn abandon(&self, entry: &Entry) {
        if entry.origin == Origin::Staged {
            self.ingest.cancelled(FileId(entry.ino.0));
            self.discard(entry.ino);
        }
        self.cached.lock().remove(&entry.ino);
    }
}
