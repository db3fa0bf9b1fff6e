//! Where the bytes of a source file come from.

use std::io;

/// Random access to the bytes of one file, which may still be growing.
///
/// `read_exact_at` blocks until the bytes have arrived or it is certain that they never will, so
/// it must not be called on an async thread. Implementations never return stale or made-up bytes:
/// a range that is gone is an error.
pub trait ByteSource: Send + Sync {
    /// Length of the complete file in bytes. Blocks while it is not known yet.
    fn len(&self) -> io::Result<u64>;

    /// Length of the complete file if it can be told without waiting. A source that is still
    /// growing answers `None`; it must override this, since the default waits for [`len`](Self::len).
    fn len_if_known(&self) -> io::Result<Option<u64>> {
        self.len().map(Some)
    }

    /// Fills `buf` from `offset`. A range beyond the end is `UnexpectedEof`.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// Whether the file holds no byte at all.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
