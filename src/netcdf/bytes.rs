//! Bounds-checked reading of file structures: [`Bytes`] over bytes in memory, [`read_vec`] from a
//! [`ByteSource`]. Nothing here allocates by a length that the file merely claims.

use std::io::{self, ErrorKind};

use super::error::NetcdfError;
use super::source::ByteSource;

/// Bytes requested at a time by [`read_vec`], so that a made-up length fails at the end of the
/// file instead of being allocated first.
const READ_STEP_BYTES: usize = 1 << 20;

/// Reads `length` bytes at `offset`.
pub(super) fn read_vec(
    source: &dyn ByteSource,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, NetcdfError> {
    let mut out = Vec::new();
    read_into(source, offset, length, &mut out)?;
    Ok(out)
}

/// Like [`read_vec`] into a buffer that is reused; its content is replaced.
pub(super) fn read_into(
    source: &dyn ByteSource,
    offset: u64,
    length: u64,
    out: &mut Vec<u8>,
) -> Result<(), NetcdfError> {
    let failed = |error: io::Error| match (error.kind(), source.len()) {
        (ErrorKind::UnexpectedEof, Ok(actual)) => NetcdfError::Truncated {
            what: format!("what starts at offset {offset}"),
            expected: offset.saturating_add(length),
            actual,
        },
        _ => NetcdfError::Read { offset, length, source: error },
    };
    let too_long = || failed(ErrorKind::UnexpectedEof.into());
    offset.checked_add(length).ok_or_else(too_long)?;
    // What the buffer holds already is paid for, so a reused buffer is filled in one request.
    let step = READ_STEP_BYTES.max(out.capacity());
    out.clear();
    let mut at = offset;
    let mut missing = usize::try_from(length).map_err(|_error| too_long())?;
    while missing > 0 {
        let take = missing.min(step);
        let filled = out.len();
        out.resize(filled.saturating_add(take), 0);
        let (_, fresh) = out.split_at_mut(filled);
        source.read_exact_at(at, fresh).map_err(failed)?;
        at = at.saturating_add(take as u64);
        missing = missing.saturating_sub(take);
    }
    Ok(())
}

/// A cursor over bytes. Every method answers `None` when too few are left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(count)?;
        self.rest = tail;
        Some(head)
    }

    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16_le(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32_le(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64_le(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A little-endian unsigned integer of up to eight bytes.
    pub(super) fn uint_le(&mut self, size: usize) -> Option<u64> {
        let mut wide = [0; 8];
        wide.get_mut(..size)?.copy_from_slice(self.take(size)?);
        Some(u64::from_le_bytes(wide))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A complete file in memory.
    pub(in crate::netcdf) struct Memory(pub(in crate::netcdf) Vec<u8>);

    impl ByteSource for Memory {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }

        fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            let eof = || io::Error::from(ErrorKind::UnexpectedEof);
            let start = usize::try_from(offset).map_err(|_error| eof())?;
            let end = start.checked_add(buf.len()).ok_or_else(eof)?;
            buf.copy_from_slice(self.0.get(start..end).ok_or_else(eof)?);
            Ok(())
        }
    }

    #[test]
    fn a_length_that_the_file_only_claims_fails_before_it_is_allocated() {
        let source = Memory(vec![7; 100]);
        assert!(matches!(
            read_vec(&source, 10, u64::MAX - 10),
            Err(NetcdfError::Truncated { expected: u64::MAX, actual: 100, .. })
        ));
        assert_eq!(read_vec(&source, 90, 10).unwrap(), [7; 10]);
        assert!(read_vec(&source, 91, 10).is_err());
    }

    #[test]
    fn integers_of_any_width_are_read_and_short_input_is_none() {
        let mut bytes = Bytes::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(bytes.uint_le(3), Some(0x03_0201));
        assert_eq!(bytes.u16_le(), Some(0x0504));
        assert_eq!(bytes.u32_le(), Some(0x0908_0706));
        assert_eq!(bytes.u8(), None);
        assert_eq!(Bytes::new(&[0; 20]).uint_le(9), None);
    }
}
