//! Writing. Never waits for the network; a full staging area parks the answer, not the thread.

use std::time::Duration;

use bytes::Bytes;

use super::{Error, Fs};
use crate::staging::{StagedFile, WriteError};

/// A program whose write is parked can be interrupted only when the answer comes: part of the data
/// is taken after so long, if there is room for any.
const PARK: Duration = Duration::from_secs(1);

/// Least that is taken of a parked write: a page, so that the kernel's pages stay aligned.
const LEAST_BYTES: usize = 4096;

/// Pause after room was announced and somebody else was faster.
const CONTENDED: Duration = Duration::from_millis(5);

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// So many bytes are in staging.
    Taken(u32),
    /// Staging is full: copy the data and wait with [`Fs::write_parked`].
    Full,
}

impl Fs {
    /// Writes all of `data` on the calling thread, or says that staging is full. A handle opened for
    /// appending writes at the end, wherever `offset` is.
    pub fn write(&self, fh: u64, offset: u64, data: &[u8]) -> Result<Written, Error> {
        let handle = self.handles.get(fh).ok_or(Error::BadHandle)?;
        let file = handle.file.as_ref().filter(|_| handle.write).ok_or(Error::BadHandle)?;
        let offset = if handle.append { file.len() } else { offset };
        handle.set_wrote();
        self.activities.wrote();
        match file.write_at(offset, data) {
            Ok(()) => Ok(Written::Taken(u32::try_from(data.len()).unwrap_or(u32::MAX))),
            Err(WriteError::Full) => Ok(Written::Full),
            Err(WriteError::Io(error)) => Err(error.into()),
        }
    }

    /// Waits for room: at most a second once there is some, and `--stall-timeout` if there is none. If
    /// nothing in staging is on its way out, there will be none.
    /// Returns how many bytes were taken, at least one page or all.
    pub async fn write_parked(&self, fh: u64, offset: u64, data: Bytes) -> Result<u32, Error> {
        let handle = self.handles.get(fh).ok_or(Error::BadHandle)?;
        let file = handle.file.as_ref().filter(|_| handle.write).ok_or(Error::BadHandle)?;
        let deadline = self.clock.now() + self.options.stall_timeout;
        loop {
            self.wait_for_room().await;
            let offset = if handle.append { file.len() } else { offset };
            if let Some(taken) = take_what_fits(file, offset, &data)? {
                return Ok(u32::try_from(taken).unwrap_or(u32::MAX));
            }
            if !self.can_free_room() {
                let path = self.tree.path(handle.ino);
                return Err(path.map_or(Error::StagingFull, Error::StagingTooSmall));
            }
            if self.clock.now() >= deadline {
                return Err(Error::StagingFull);
            }
            self.clock.sleep(CONTENDED).await;
        }
    }

    /// Whether anything that is complete is still on its way out of staging.
    fn can_free_room(&self) -> bool {
        self.queue.is_moving()
            || self.ingest.sources().iter().any(|source| source.state.is_outstanding())
    }

    /// Returns when room has been freed, or after a second.
    pub(super) async fn wait_for_room(&self) {
        tokio::select! {
            () = self.staging.room() => {}
            () = self.clock.sleep(PARK) => {}
        }
    }
}

/// Writes the longest of the whole, its half, quarter and so on for which there is room.
fn take_what_fits(file: &StagedFile, offset: u64, data: &[u8]) -> Result<Option<usize>, Error> {
    let mut length = data.len();
    loop {
        let Some(part) = data.get(..length) else { return Ok(None) };
        match file.write_at(offset, part) {
            Ok(()) => return Ok(Some(length)),
            Err(WriteError::Full) if length / 2 >= LEAST_BYTES => {
                length = (length / 2).next_multiple_of(LEAST_BYTES);
                if length >= part.len() {
                    return Ok(None);
                }
            }
            Err(WriteError::Full) => return Ok(None),
            Err(WriteError::Io(error)) => return Err(error.into()),
        }
    }
}
