//! Large objects, put in equal parts side by side.
//!
//! S3's limits: parts of at least 5 MiB except the last, at most 10,000 of them. Parts are equal
//! because some stores ask for that. Until the upload is completed nothing is visible, and an
//! upload that fails or is dropped is aborted, since the store keeps and bills unfinished parts.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use object_store::MultipartId;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;

use super::error::{Operation, StoreError};
use super::location::Location;
use super::object::{PutCondition, Version};
use super::remote::Remote;
use crate::base::tasks;

/// Smaller parts only cost requests.
const PART_BYTES_MIN: u64 = 8 << 20;
const PARTS_MAX: u64 = 10_000;
/// By the S3 API.
const PART_BYTES_MAX: u64 = 5 << 30;

/// Why a large object was not put.
#[derive(Debug, thiserror::Error)]
pub enum PutLargeError {
    /// The bytes to put could not be read.
    #[error("cannot read what to write to `{location}`: {source}")]
    Read {
        /// The object.
        location: Location,
        /// What the reader said.
        source: io::Error,
    },
    /// The store did not take them.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Makes a request, and again what may succeed later.
pub trait Persist: Send + Sync {
    /// Until `request` succeeds, fails for good, or patience ends.
    fn persist<'a, T: Send + 'a>(
        &'a self,
        request: &'a (dyn Fn() -> Answer<'a, T> + Send + Sync),
    ) -> Answer<'a, T>;
}

/// The answer to a request, once it is there.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Makes a request once.
#[derive(Debug, Clone, Copy)]
pub struct Once;

impl Persist for Once {
    fn persist<'a, T: Send + 'a>(
        &'a self,
        request: &'a (dyn Fn() -> Answer<'a, T> + Send + Sync),
    ) -> Answer<'a, T> {
        request()
    }
}

/// Gives the bytes of a range; may block.
pub(super) type ReadRange = Arc<dyn Fn(Range<u64>) -> io::Result<Bytes> + Send + Sync>;

/// The size of every part but the last; whole MiB.
pub(super) fn part_bytes(size: u64) -> u64 {
    const MIB: u64 = 1 << 20;
    size.div_ceil(PARTS_MAX).div_ceil(MIB).saturating_mul(MIB).max(PART_BYTES_MIN)
}

impl Remote {
    /// Puts `size` bytes with at most `in_flight` parts in memory.
    pub(super) async fn put_large(
        &self,
        at: &Location,
        size: u64,
        read: ReadRange,
        in_flight: usize,
        persist: &impl Persist,
    ) -> Result<Version, PutLargeError> {
        let part = part_bytes(size);
        if size <= part {
            let body = read_part(at, read, 0..size).await?;
            let put = || self.put(at, body.clone(), PutCondition::Always, None).boxed();
            return Ok(persist.persist(&put).await?);
        }
        if part > PART_BYTES_MAX {
            let message = format!("{size} bytes are more than an object can have");
            return Err(StoreError::invalid(Operation::PutLarge, at, message).into());
        }
        let path = self.path(Operation::PutLarge, at)?;
        let create =
            || Self::run(Operation::PutLarge, at, self.parts.create_multipart(&path)).boxed();
        let id = persist.persist(&create).await?;
        let mut upload = Upload { parts: Arc::clone(&self.parts), path, id: Some(id) };
        let sizes = Sizes { size, part, in_flight };
        match self.put_parts(at, &upload, &sizes, &read, persist).await {
            Ok(version) => {
                upload.id = None;
                Ok(version)
            }
            Err(error) => {
                upload.abort().await;
                Err(error)
            }
        }
    }

    async fn put_parts(
        &self,
        at: &Location,
        upload: &Upload,
        sizes: &Sizes,
        read: &ReadRange,
        persist: &impl Persist,
    ) -> Result<Version, PutLargeError> {
        let Some(id) = &upload.id else { return Err(closed(at)) };
        let Sizes { size, part, in_flight } = *sizes;
        let ranges = (0..size.div_ceil(part)).map(|index| {
            let start = index * part;
            start..size.min(start + part)
        });
        let puts = ranges.enumerate().map(|(index, range)| {
            async move {
                let body = read_part(at, Arc::clone(read), range).await?;
                let put = || {
                    let put = upload.parts.put_part(&upload.path, id, index, body.clone().into());
                    async move { unless_forgotten(Self::run(Operation::PutLarge, at, put).await) }
                        .boxed()
                };
                Ok::<_, PutLargeError>(persist.persist(&put).await??)
            }
            .boxed()
        });
        let parts: Vec<PartId> =
            futures::stream::iter(puts).buffered(in_flight.max(1)).try_collect().await?;
        // The store forgets an upload when it is complete: once an answer was lost, that it is not
        // known any more says that it was.
        let is_lost = AtomicBool::new(false);
        let complete = || {
            async {
                let complete = upload.parts.complete_multipart(&upload.path, id, parts.clone());
                match unless_forgotten(Self::run(Operation::PutLarge, at, complete).await) {
                    Ok(Ok(done)) => Ok(Ok(self.version(done.e_tag, done.version))),
                    Ok(Err(forgotten)) if is_lost.load(Ordering::Acquire) => {
                        self.completed(at, size, forgotten).await
                    }
                    Ok(Err(forgotten)) => Ok(Err(forgotten)),
                    Err(error) => {
                        is_lost.store(true, Ordering::Release);
                        Err(error)
                    }
                }
            }
            .boxed()
        };
        Ok(persist.persist(&complete).await??)
    }

    /// Whether the object is what an upload that the store does not know any more would have made.
    async fn completed(
        &self,
        at: &Location,
        size: u64,
        forgotten: StoreError,
    ) -> Result<Result<Version, StoreError>, StoreError> {
        match self.head(at).await {
            Ok(found) if found.size == size => Ok(Ok(found.version.unwrap_or_default())),
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(Err(forgotten)),
            Err(error) => Err(error),
        }
    }
}

/// How an object is divided.
struct Sizes {
    size: u64,
    part: u64,
    in_flight: usize,
}

/// Sets apart that the store does not know the upload (any more): then asking again is no use, and
/// the whole has to be begun again.
fn unless_forgotten<T>(answer: Result<T, StoreError>) -> Result<Result<T, StoreError>, StoreError> {
    const FORGOTTEN: &str = "NoSuchUpload";
    match answer {
        Err(error) if error.reply().code == FORGOTTEN => Ok(Err(error)),
        answer => answer.map(Ok),
    }
}

fn closed(at: &Location) -> PutLargeError {
    StoreError::invalid(Operation::PutLarge, at, "the upload has ended").into()
}

async fn read_part(
    at: &Location,
    read: ReadRange,
    range: Range<u64>,
) -> Result<Bytes, PutLargeError> {
    let expected = range.end - range.start;
    let failed = |source| PutLargeError::Read { location: at.clone(), source };
    let body = tasks::blocking("read a part of a large object", move || read(range))
        .await
        .unwrap_or_else(|| Err(io::Error::other("the reader panicked")))
        .map_err(failed)?;
    if body.len() as u64 == expected {
        return Ok(body);
    }
    Err(failed(io::ErrorKind::UnexpectedEof.into()))
}

/// An upload that is not complete; aborted when it is dropped.
struct Upload {
    parts: Arc<dyn MultipartStore>,
    path: Path,
    id: Option<MultipartId>,
}

impl Upload {
    async fn abort(&mut self) {
        if let Some(id) = self.id.take() {
            abort(Arc::clone(&self.parts), self.path.clone(), id).await;
        }
    }
}

async fn abort(parts: Arc<dyn MultipartStore>, path: Path, id: MultipartId) {
    if let Err(error) = parts.abort_multipart(&path, &id).await {
        tracing::warn!(%path, %error, "an unfinished upload stays in the store");
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) {
            let abort = abort(Arc::clone(&self.parts), self.path.clone(), id);
            drop(tasks::spawn_on(&runtime, "abort an upload", abort));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fit_the_limits_of_s3_for_every_size() {
        for size in [1, 8 << 20, (8 << 20) + 1, 80 << 30, (80 << 30) + 1, 5 << 40] {
            let part = part_bytes(size);
            assert!(part >= PART_BYTES_MIN && part.is_multiple_of(1 << 20), "{size}");
            assert!(size.div_ceil(part) <= PARTS_MAX, "{size}");
        }
        assert_eq!(part_bytes(30 << 20), 8 << 20);
    }
}
