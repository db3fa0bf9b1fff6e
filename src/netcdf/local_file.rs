//! A file on the local disk as a source.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use super::source::ByteSource;

/// A complete file on the local disk. It is opened for each read and not held open, since there may
/// be more of them than a process may open.
#[derive(Debug, Clone)]
pub struct LocalFile(pub PathBuf);

impl ByteSource for LocalFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        File::open(&self.0)?.read_exact_at(buf, offset)
    }
}
