//! Hard links. A bucket has none, so a link is a copy: another file with the same content, complete
//! when the call returns. That is what `link` followed by `unlink` needs, which some tools (zarr-python)
//! use to give a complete file its name only if nobody else has it. Both names count one link each.

use std::sync::Arc;

use super::files::Settled;
use super::read::read_staged;
use super::{Attr, Error, Fs};
use crate::base::tasks;
use crate::namespace::{Entry, Ino, Origin};
use crate::staging::{FileId, StagedFile};
use crate::store::Location;

/// A file changes between staging and the bucket once for each time that it is closed; who never
/// finds it at rest has somebody else at work on it.
const ATTEMPTS: u32 = 8;

/// Bytes copied at once.
const PIECE_BYTES: u64 = 1 << 20;

impl Fs {
    /// Makes a copy of a closed file under a name that is free. The kernel holds it from now on.
    pub async fn link(&self, ino: Ino, parent: Ino, name: &str) -> Result<Attr, Error> {
        let path = self.new_path(parent, name)?;
        let source = self.tree.entry(ino).ok_or(Error::NotFound)?;
        if source.is_folder() {
            return Err(Error::NoSuchKind("a link to a folder"));
        }
        if self.find(parent, name).await?.is_some() {
            return Err(Error::Exists);
        }
        let claimed = self.claims(&path);
        if claimed {
            self.ingest.prepare(&path).await?;
        }
        let copy = self.tree.create_file(parent, name, source.attributes)?;
        let done = self.fill_link(&source, copy, &path, claimed).await;
        if let Err(error) = done {
            if let Some(entry) = self.tree.entry(copy) {
                self.remove_file(&entry);
            }
            return Err(error);
        }
        self.tree.remember(copy);
        let entry = self.tree.entry(copy).ok_or(Error::NotFound)?;
        self.local_attr(&entry)
    }

    async fn fill_link(
        &self,
        source: &Entry,
        copy: Ino,
        path: &Location,
        claimed: bool,
    ) -> Result<(), Error> {
        let record = super::attributes::record_of(&source.attributes);
        let file = self.staging.create(FileId(copy.0), path, &record)?;
        self.files.begin(copy, &file, Settled::Never);
        self.copy_content(source, &file).await?;
        let mtime = self.local_attr(source)?.attributes.mtime;
        self.files.settle_mtime(copy, &file, |_| {
            self.tree.set_attributes(copy, |attributes| attributes.mtime = mtime)
        });
        if claimed && !file.is_empty() {
            self.ingest.judge(FileId(copy.0), path).await?;
        }
        self.seal(copy, &file, path)?;
        self.hand_over(copy);
        Ok(())
    }

    /// What was staged may arrive in the bucket in this moment: then it is looked at again.
    async fn copy_content(&self, source: &Entry, to: &Arc<StagedFile>) -> Result<(), Error> {
        let mut now = source.clone();
        for _ in 0..ATTEMPTS {
            if self.copy_from(&now, to).await? {
                return Ok(());
            }
            now = self.tree.entry(source.ino).ok_or(Error::NotFound)?;
        }
        Err(Error::Busy(self.tree.path(source.ino).ok_or(Error::NotFound)?))
    }

    /// False if the content is not there any more.
    async fn copy_from(&self, source: &Entry, to: &Arc<StagedFile>) -> Result<bool, Error> {
        let path = self.tree.path(source.ino).ok_or(Error::NotFound)?;
        match &source.origin {
            Origin::Published(object) => self.copy_object(&path, object, to).await.map(|()| true),
            Origin::Source => Err(Error::Ingested(path)),
            Origin::Folder => Err(Error::IsFolder),
            Origin::Staged => {
                let Some(from) = self.staging.file(FileId(source.ino.0)) else { return Ok(false) };
                if from.writers() > 0 {
                    // A copy of half a file would look like a whole one.
                    return Err(Error::Busy(path));
                }
                let to = Arc::clone(to);
                let copied = tasks::blocking("copy for a link", move || copy_staged(&from, &to));
                let copied = copied.await;
                let copied =
                    copied.unwrap_or_else(|| Err(std::io::Error::other("it panicked").into()));
                copied.map(|()| true)
            }
        }
    }
}

fn copy_staged(from: &StagedFile, to: &StagedFile) -> Result<(), Error> {
    let mut offset = 0;
    loop {
        let piece = read_staged(from, offset, PIECE_BYTES)?;
        if piece.is_empty() {
            return Ok(());
        }
        to.write_at(offset, &piece)?;
        offset += piece.len() as u64;
    }
}
