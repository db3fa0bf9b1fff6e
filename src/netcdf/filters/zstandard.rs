//! The Zstandard filter (id 32015): one or more frames (RFC 8878).

use zstd::bulk::Decompressor;

use super::codec::Codec;
use super::{FilterError, check_expansion};

/// The decoder; keeps its tables between chunks.
#[derive(Default)]
pub(super) struct Zstandard(Option<Decompressor<'static>>);

impl Zstandard {
    fn decoder(&mut self) -> Result<&mut Decompressor<'static>, FilterError> {
        if self.0.is_none() {
            let new = Decompressor::new();
            let new = new.map_err(|error| FilterError::damaged(format!("no decoder: {error}")))?;
            self.0 = Some(new);
        }
        self.0.as_mut().ok_or_else(|| FilterError::damaged("no decoder"))
    }

    /// Decodes `stream` into `out`, at most `most` bytes.
    pub(super) fn decode(
        &mut self,
        stream: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        check_expansion(stream.len(), most, Codec::Zstd.expansion_max())?;
        out.clear();
        out.reserve(most);
        let decoded = self.decoder()?.decompress_to_buffer(stream, out);
        decoded.map(drop).map_err(|error| {
            FilterError::damaged(format!("its Zstandard stream is damaged ({error})"))
        })
    }

    /// Decodes `block` to the front of `out`; the number of bytes, `None` if it is damaged or
    /// longer than that.
    pub(super) fn decode_into(
        &mut self,
        block: &[u8],
        out: &mut [u8],
    ) -> Result<Option<usize>, FilterError> {
        Ok(self.decoder()?.decompress_to_buffer(block, out).ok())
    }
}
