//! The LZ4 filter (id 32004): LZ4 blocks behind a header.
//!
//! Header: bytes of the decoded data (u64), bytes of a decoded block (u32). Each block: bytes
//! stored (u32), then those. A block that is stored with its full length is not compressed. All
//! numbers are big-endian.

use super::FilterError;
use super::codec::{Codec, Codecs};
use crate::netcdf::bytes::Bytes;

/// Decodes `stored` into `out`, at most `most` bytes.
pub(super) fn decode(
    stored: &[u8],
    most: usize,
    codecs: &mut Codecs,
    out: &mut Vec<u8>,
) -> Result<(), FilterError> {
    let cut = || FilterError::damaged("its LZ4 blocks are cut short");
    let mut input = Bytes::new(stored);
    let total = input.array().map(u64::from_be_bytes).ok_or_else(cut)?;
    let block_bytes = input.array().map(u32::from_be_bytes).ok_or_else(cut)?;
    let total = super::stated_length(total, most)?;
    let block_bytes = usize::try_from(block_bytes).unwrap_or(usize::MAX);
    if block_bytes == 0 && total > 0 {
        return Err(FilterError::damaged("its LZ4 blocks are empty"));
    }
    out.clear();
    while out.len() < total {
        let length = total.saturating_sub(out.len()).min(block_bytes);
        let size = input.array().map(u32::from_be_bytes).ok_or_else(cut)?;
        let size = usize::try_from(size).map_err(|_error| cut())?;
        let block = input.take(size).ok_or_else(cut)?;
        if size == length {
            out.extend_from_slice(block);
        } else {
            codecs.append(Codec::Lz4, block, length, out)?;
        }
    }
    Ok(())
}
