//! The deflate filter: one zlib stream (RFC 1950), its Adler-32 verified.

use libdeflater::{DecompressionError, Decompressor};

use super::FilterError;

/// No deflate stream expands further than this (RFC 1951: 258 bytes from two bits).
const EXPANSION_MAX: usize = 1032;

/// The decoder; keeps its tables between chunks.
pub(super) struct Inflater(Decompressor);

impl Default for Inflater {
    fn default() -> Self {
        Self(Decompressor::new())
    }
}

impl Inflater {
    /// Decodes `block` to the front of `out`; the number of bytes, `None` if it is damaged or
    /// longer than that.
    pub(super) fn inflate_into(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize> {
        self.0.zlib_decompress(block, out).ok()
    }

    /// Decodes `stream` into `out`. `expected` is the exact length if it is known.
    pub(super) fn inflate(
        &mut self,
        stream: &[u8],
        expected: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        let limit = stream.len().saturating_mul(EXPANSION_MAX);
        let mut room = expected.unwrap_or_else(|| stream.len().saturating_mul(4).min(limit));
        if room > limit {
            return Err(FilterError::Damaged(format!(
                "{} compressed bytes cannot hold {room} bytes",
                stream.len()
            )));
        }
        loop {
            // Only the part that grows needs zeroing; the rest is overwritten.
            out.resize(room, 0);
            match self.0.zlib_decompress(stream, out) {
                Ok(length) => {
                    out.truncate(length);
                    return Ok(());
                }
                Err(DecompressionError::BadData) => {
                    return Err(FilterError::Damaged("its deflate stream is damaged".to_owned()));
                }
                Err(DecompressionError::InsufficientSpace)
                    if expected.is_none() && room < limit =>
                {
                    room = room.saturating_mul(2).min(limit);
                }
                Err(DecompressionError::InsufficientSpace) => {
                    return Err(FilterError::Damaged(format!(
                        "its deflate stream holds more than {room} bytes"
                    )));
                }
            }
        }
    }
}
