//! Bringing an object back into staging, so that it can be changed.

use std::sync::Arc;

use super::files::Settled;
use super::{Error, Fs};
use crate::namespace::{Ino, Origin};
use crate::staging::{FileId, StagedFile, WriteError};
use crate::store::{Location, ObjectAttributes, StoreError};

/// Bytes asked for in one request.
const PIECE_BYTES: u64 = 8 << 20;

impl Fs {
    /// Makes the object a staged file, with its content or, with `truncate`, empty. If someone else
    /// has done so meanwhile, or the object has changed, nothing is done: look again.
    pub(super) async fn fetch(
        &self,
        ino: Ino,
        object: &ObjectAttributes,
        truncate: bool,
    ) -> Result<(), Error> {
        let stripe = usize::try_from(ino.0 % self.fetching.len() as u64).unwrap_or(0);
        let Some(mutex) = self.fetching.get(stripe) else { return Ok(()) };
        let _alone = mutex.lock().await;
        let Some(entry) = self.tree.entry(ino) else { return Ok(()) };
        if entry.origin != Origin::Published(object.clone()) {
            return Ok(());
        }
        let path = self.tree.path(ino).ok_or(Error::NotFound)?;
        let record = super::attributes::record_of(&entry.attributes);
        let file = self.staging.create(FileId(ino.0), &path, &record)?;
        if !truncate && let Err(error) = self.copy_object(&path, object, &file).await {
            self.discard(ino);
            return Err(error);
        }
        let settled = if truncate {
            Settled::Never
        } else {
            Settled::Fetched(file.generation(), object.clone())
        };
        self.files.begin(ino, &file, settled);
        self.handles.unpin(ino);
        self.tree.stage(ino);
        Ok(())
    }

    /// A source file whose bytes are gone begins again, empty.
    pub(super) fn begin_again(&self, ino: Ino) -> Result<(), Error> {
        let entry = self.tree.entry(ino).ok_or(Error::NotFound)?;
        let path = self.tree.path(ino).ok_or(Error::NotFound)?;
        let record = super::attributes::record_of(&entry.attributes);
        match self.staging.create(FileId(ino.0), &path, &record) {
            Ok(file) => self.files.begin(ino, &file, Settled::Never),
            // Someone else was first.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
        self.tree.stage(ino);
        Ok(())
    }

    /// Writes the content of one version of an object to an empty staged file.
    pub(super) async fn copy_object(
        &self,
        path: &Location,
        object: &ObjectAttributes,
        file: &Arc<StagedFile>,
    ) -> Result<(), Error> {
        let mut version = None;
        let mut offset = 0;
        while offset < object.size {
            let end = object.size.min(offset.saturating_add(PIECE_BYTES));
            let piece = match self.tree.store().get(path, Some(offset..end)).await {
                Err(StoreError::NotFound { .. }) => return Err(Error::Replaced(path.clone())),
                piece => piece?,
            };
            let same = version.get_or_insert_with(|| piece.version.clone()) == &piece.version;
            if !same || piece.size != object.size || piece.bytes.len() as u64 != end - offset {
                return Err(Error::Replaced(path.clone()));
            }
            self.put_all(file, offset, &piece.bytes).await?;
            offset = end;
        }
        Ok(())
    }

    /// Writes, waiting for room if there is none.
    async fn put_all(&self, file: &StagedFile, offset: u64, data: &[u8]) -> Result<(), Error> {
        let deadline = self.clock.now() + self.options.stall_timeout;
        loop {
            match file.write_at(offset, data) {
                Ok(()) => return Ok(()),
                Err(WriteError::Full) if self.clock.now() < deadline => self.wait_for_room().await,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
