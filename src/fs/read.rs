//! Reading.

use bytes::{Bytes, BytesMut};

use super::handles::Handle;
use super::{Error, Fs};
use crate::namespace::{Origin, ReadError};
use crate::staging::{FileId, StagedFile};
use crate::store::{ObjectAttributes, StoreError};

/// More than the kernel ever asks for in one request.
const READ_BYTES_MAX: u64 = 16 << 20;

impl Fs {
    /// Bytes of an open file; fewer than `size` only at its end.
    pub async fn read(&self, fh: u64, offset: u64, size: u64) -> Result<Bytes, Error> {
        let handle = self.handles.get(fh).ok_or(Error::BadHandle)?;
        let size = size.min(READ_BYTES_MAX);
        if let Some(text) = &handle.text {
            return Ok(slice_of(text, offset, size));
        }
        // In one look: a file is in staging, or in the bucket.
        let now = self.tree.with_entry(handle.ino, |entry, path| {
            let file = self.staging.file(FileId(handle.ino.0));
            path.is_some().then(|| (entry.origin.clone(), file))
        });
        match now.flatten() {
            Some((Origin::Staged, file)) => {
                let file = file.or_else(|| handle.file.clone()).ok_or(Error::NotFound)?;
                read_staged(&file, offset, size)
            }
            Some((Origin::Published(object), _)) => {
                self.read_object(&handle, &object, offset, size).await
            }
            // Deleted, or ingested: who has it open may still read it.
            _ => match (&handle.file, &handle.object) {
                (Some(file), _) => read_staged(file, offset, size),
                (None, Some(_)) => self.read_deleted(&handle, offset, size).await,
                (None, None) => Err(Error::NotFound),
            },
        }
    }

    async fn read_object(
        &self,
        handle: &Handle,
        object: &ObjectAttributes,
        offset: u64,
        size: u64,
    ) -> Result<Bytes, Error> {
        let path = self.tree.path(handle.ino).ok_or(Error::NotFound)?;
        let end = offset.saturating_add(size).min(object.size);
        // A renamed object is another one to the store.
        let pinned = handle.object.as_ref().filter(|(at, _)| *at == path);
        let pinned = pinned.map(|(_, version)| version);
        let mut version = pinned.and_then(|pinned| pinned.lock().clone());
        version = version.or_else(|| object.version.clone());
        let mut gathered = BytesMut::new();
        let mut at = offset;
        while at < end {
            let (bytes, seen) = match self.tree.read(&path, version.as_ref(), at, end - at).await {
                Err(ReadError::Store(StoreError::NotFound { .. })) => {
                    return Err(Error::Replaced(path));
                }
                read => read?,
            };
            if bytes.is_empty() {
                return Err(Error::Replaced(path));
            }
            let seen = version.get_or_insert(seen);
            if let Some(pinned) = pinned {
                pinned.lock().get_or_insert_with(|| seen.clone());
            }
            at += bytes.len() as u64;
            if at >= end && gathered.is_empty() {
                return Ok(bytes);
            }
            gathered.extend_from_slice(&bytes);
        }
        Ok(gathered.freeze())
    }

    /// An object that was deleted here while it is open: whatever the bucket still gives of it, and
    /// nothing of what has its name since.
    async fn read_deleted(&self, handle: &Handle, offset: u64, size: u64) -> Result<Bytes, Error> {
        let Some((path, version)) = &handle.object else { return Err(Error::NotFound) };
        let version = version.lock().clone();
        // Without a version only the name tells, before and after.
        let is_another = || version.is_none() && self.tree.find(path).is_some();
        if is_another() {
            return Err(Error::Replaced(path.clone()));
        }
        match self.tree.read(path, version.as_ref(), offset, size).await {
            Ok(_) if is_another() => Err(Error::Replaced(path.clone())),
            Ok((bytes, _)) => Ok(bytes),
            Err(ReadError::Store(StoreError::NotFound { .. })) => {
                Err(Error::Replaced(path.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn read_staged(file: &StagedFile, offset: u64, size: u64) -> Result<Bytes, Error> {
    // Never allocate for what is not there.
    let available = file.len().saturating_sub(offset).min(size);
    let mut buffer = vec![0; usize::try_from(available).unwrap_or(0)];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(offset.saturating_add(filled as u64), rest)? {
            0 => break,
            count => filled += count,
        }
    }
    buffer.truncate(filled);
    Ok(buffer.into())
}

fn slice_of(text: &Bytes, offset: u64, size: u64) -> Bytes {
    let length = text.len() as u64;
    let from = offset.min(length);
    let to = from.saturating_add(size).min(length);
    text.slice(usize::try_from(from).unwrap_or(0)..usize::try_from(to).unwrap_or(0))
}
