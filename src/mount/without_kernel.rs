//! The same file system and engine where no mount can be made: files are handed to the file
//! system by calls instead of by the kernel.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::engine::FlushReport;
use super::wiring::{self, OpenError};
use crate::base::clock::Clock;
use crate::base::durable::{AtPath as _, FileError};
use crate::config::Config;
use crate::fs::{Caller, Error, Fs, OpenFlags, Written};
use crate::namespace::Ino;
use crate::store::Location;
use crate::telemetry::progress::Progress;

/// Bytes copied at a time, as the kernel would send them.
const PIECE_BYTES: usize = 1 << 20;

/// Why files could not be copied in.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Store or staging.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A source cannot be read.
    #[error(transparent)]
    Source(#[from] FileError),
    /// The file system does not take one.
    #[error("{}: {source}", path.display())]
    Refused {
        /// The source.
        path: PathBuf,
        /// Why.
        source: Error,
    },
    /// Threads.
    #[error("the process could not be set up: {0}")]
    System(#[from] io::Error),
}

/// Copies `files` into the root of the store of `config`, and waits until they are in the bucket.
pub fn copy_in(
    config: &Config,
    files: &[PathBuf],
    progress: &dyn Progress,
) -> Result<FlushReport, CopyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let parts = wiring::open(config, &Clock::system()).await?;
        for path in files {
            copy_one(&parts.files, path).await?;
        }
        let report = parts.engine.flush(&Location::root(), progress, config.timeout).await;
        parts.engine.shutdown().await;
        Ok(report)
    })
}

async fn copy_one(files: &Fs, path: &Path) -> Result<(), CopyError> {
    let refused = |source| CopyError::Refused { path: path.to_owned(), source };
    let mut source = File::open(path).at(path)?;
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let caller =
        Caller { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() };
    let flags = OpenFlags { write: true, truncate: true, ..OpenFlags::default() };
    let (_, opened) =
        files.create(caller, Ino::ROOT, &name, 0o644, flags).await.map_err(refused)?;
    let copied = copy_bytes(files, opened.fh, path, &mut source).await;
    let closed = files.flush(opened.fh).await.map_err(refused);
    files.release(opened.fh);
    copied.and(closed)
}

async fn copy_bytes(files: &Fs, fh: u64, path: &Path, source: &mut File) -> Result<(), CopyError> {
    let refused = |source| CopyError::Refused { path: path.to_owned(), source };
    let mut piece = vec![0; PIECE_BYTES];
    let mut offset = 0;
    loop {
        let count = source.read(&mut piece).at(path)?;
        let mut rest = piece.get(..count).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
        while !rest.is_empty() {
            let taken = match files.write(fh, offset, rest).map_err(refused)? {
                Written::Taken(taken) => taken,
                Written::Full => {
                    let parked = files.write_parked(fh, offset, Bytes::copy_from_slice(rest));
                    parked.await.map_err(refused)?
                }
            };
            offset += u64::from(taken);
            rest = rest.get(taken as usize..).unwrap_or_default();
        }
    }
}
