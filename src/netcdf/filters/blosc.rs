//! The blosc filter (id 32001): a buffer of c-blosc 1.
//!
//! Header of 16 bytes: format version (2), version of the codec's format, flags, element size,
//! bytes decoded, bytes of a block, bytes stored (u32, little-endian). Flags: 1 byte shuffle, 2
//! stored plainly, 4 bit shuffle, 16 blocks not split; the upper three bits are the codec. Then
//! the offset of each block (u32). A block is one stream, or one for each byte of the element; a
//! stream has its size (u32) before it and is stored plainly if that is its full length. What a
//! block decodes to is shuffled within the block.

use super::codec::{Codec, Codecs};
use super::{FilterError, bit_planes, shuffle};
use crate::netcdf::bytes::Bytes;

const FORMAT_VERSION: u8 = 2;
const HEADER_BYTES: usize = 16;
const BYTE_SHUFFLE: u8 = 1;
const PLAIN: u8 = 2;
const BIT_SHUFFLE: u8 = 4;
const RESERVED: u8 = 8;
const NOT_SPLIT: u8 = 16;
/// Blocks are split only up to this element size, and if each part has so many bytes.
const SPLIT_ELEMENT_MAX: usize = 16;
const SPLIT_BYTES_MIN: usize = 128;

struct Header {
    flags: u8,
    element_size: usize,
    total: usize,
    block_bytes: usize,
    /// Bytes of the buffer with this header.
    size: usize,
}

/// Decodes `stored` into `out`, at most `most` bytes. `buffers` are overwritten.
pub(super) fn decode(
    stored: &[u8],
    most: usize,
    codecs: &mut Codecs,
    buffers: &mut [Vec<u8>; 2],
    out: &mut Vec<u8>,
) -> Result<(), FilterError> {
    let cut = || FilterError::damaged("its blosc buffer is cut short");
    let header = Header::parse(&mut Bytes::new(stored), most)?;
    let buffer = stored.get(..header.size).ok_or_else(cut)?;
    let content = buffer.get(HEADER_BYTES..).ok_or_else(cut)?;
    out.clear();
    if header.total == 0 {
        return Ok(());
    }
    if header.flags & PLAIN != 0 {
        out.extend_from_slice(content.get(..header.total).ok_or_else(cut)?);
        return Ok(());
    }
    let codec = header.codec()?;
    let mut starts = Bytes::new(content);
    while out.len() < header.total {
        let start = starts.u32_le().and_then(|at| usize::try_from(at).ok()).ok_or_else(cut)?;
        let length = header.total.saturating_sub(out.len()).min(header.block_bytes);
        let mut streams = Bytes::new(buffer.get(start..).ok_or_else(cut)?);
        header.append_block(codec, &mut streams, length, codecs, buffers, out)?;
    }
    Ok(())
}

impl Header {
    fn parse(input: &mut Bytes<'_>, most: usize) -> Result<Self, FilterError> {
        let cut = || FilterError::damaged("its blosc buffer is cut short");
        let [version, _, flags, element_size] = input.array::<4>().ok_or_else(cut)?;
        if version != FORMAT_VERSION || flags & RESERVED != 0 {
            return Err(FilterError::damaged(format!(
                "its blosc buffer has version {version} and flags {flags:#04x}"
            )));
        }
        let mut number = || input.u32_le().ok_or_else(cut);
        let total = super::stated_length(u64::from(number()?), most)?;
        let mut bytes = || Ok(usize::try_from(number()?).unwrap_or(usize::MAX));
        let (block_bytes, size) = (bytes()?, bytes()?);
        if total > 0 && (block_bytes == 0 || element_size == 0) {
            return Err(FilterError::damaged("its blosc buffer has empty blocks or elements"));
        }
        Ok(Self { flags, element_size: usize::from(element_size), total, block_bytes, size })
    }

    fn codec(&self) -> Result<Codec, FilterError> {
        match self.flags >> 5 {
            0 => Ok(Codec::Blosclz),
            1 => Ok(Codec::Lz4),
            2 => Ok(Codec::Snappy),
            3 => Ok(Codec::Zlib),
            4 => Ok(Codec::Zstd),
            other => Err(FilterError::damaged(format!("its blosc buffer has codec {other}"))),
        }
    }

    fn append_block(
        &self,
        codec: Codec,
        input: &mut Bytes<'_>,
        length: usize,
        codecs: &mut Codecs,
        buffers: &mut [Vec<u8>; 2],
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        let cut = || FilterError::damaged("a block of its blosc buffer is cut short");
        let parts = self.parts(length);
        let part_bytes = length.checked_div(parts).unwrap_or(0);
        let [block, bytes] = buffers;
        block.clear();
        for _ in 0..parts {
            let size = input.u32_le().and_then(|size| usize::try_from(size).ok());
            let size = size.ok_or_else(cut)?;
            let stream = input.take(size).ok_or_else(cut)?;
            if size == part_bytes {
                block.extend_from_slice(stream);
            } else {
                codecs.append(codec, stream, part_bytes, block)?;
            }
        }
        if block.len() != length {
            return Err(FilterError::damaged("a block of its blosc buffer is not whole elements"));
        }
        self.append_unshuffled(block, bytes, out);
        Ok(())
    }

    /// Streams of a block.
    fn parts(&self, length: usize) -> usize {
        let whole = length == self.block_bytes;
        let part_bytes = length.checked_div(self.element_size).unwrap_or(0);
        let split = self.flags & NOT_SPLIT == 0
            && self.element_size <= SPLIT_ELEMENT_MAX
            && part_bytes >= SPLIT_BYTES_MIN
            && whole;
        if split { self.element_size } else { 1 }
    }

    fn append_unshuffled(&self, block: &[u8], bytes: &mut Vec<u8>, out: &mut Vec<u8>) {
        let elements = block.len().checked_div(self.element_size).unwrap_or(0);
        let start = out.len();
        if self.flags & BYTE_SHUFFLE != 0 && self.element_size > 1 {
            out.resize(start.saturating_add(block.len()), 0);
            if let Some(whole) = out.get_mut(start..) {
                shuffle::unshuffle_into(block, self.element_size, whole);
            }
        } else if self.flags & BIT_SHUFFLE != 0
            && elements > 0
            && elements.checked_rem(bit_planes::GROUP) == Some(0)
        {
            let in_elements = elements.saturating_mul(self.element_size);
            let (planes, left_over) = block.split_at(in_elements.min(block.len()));
            bit_planes::append_joined(planes, self.element_size, bytes, out);
            out.extend_from_slice(left_over);
        } else {
            out.extend_from_slice(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_did_not_become_smaller_is_stored_plainly() {
        let buffer = |flags, stated: u8| {
            let header = [2, 1, flags, 4, stated, 0, 0, 0, stated, 0, 0, 0, 22, 0, 0, 0];
            [&header[..], &[1, 2, 3, 4, 5, 6]].concat()
        };
        let (mut out, mut buffers) = (Vec::new(), [Vec::new(), Vec::new()]);
        let mut decoded = |stored: &[u8]| {
            let mut codecs = Codecs::default();
            decode(stored, 100, &mut codecs, &mut buffers, &mut out).map(|()| out.clone())
        };
        assert_eq!(decoded(&buffer(PLAIN | BYTE_SHUFFLE, 6)), Ok(vec![1, 2, 3, 4, 5, 6]));
        assert!(decoded(&buffer(PLAIN, 7)).is_err());
        assert!(decoded(&buffer(PLAIN | RESERVED, 6)).is_err());
        assert_eq!(decoded(&buffer(0, 0)), Ok(vec![]));
    }

    #[test]
    fn a_block_that_does_not_split_evenly_is_damaged() {
        let stored = |length: u32| {
            let length = length.to_le_bytes();
            let size = (16_u32 + 4 + 4 * 132).to_le_bytes();
            let header = [&[2, 1, 0, 4][..], &length, &length, &size, &[20, 0, 0, 0]].concat();
            let stream = [&[128, 0, 0, 0][..], &[9; 128]].concat();
            [header, stream.repeat(4)].concat()
        };
        let (mut out, mut buffers) = (Vec::new(), [Vec::new(), Vec::new()]);
        let mut decoded = |stored: &[u8]| {
            let mut codecs = Codecs::default();
            decode(stored, 1000, &mut codecs, &mut buffers, &mut out).map(|()| out.clone())
        };
        assert_eq!(decoded(&stored(512)), Ok(vec![9; 512]));
        let reason = "a block of its blosc buffer is not whole elements";
        assert_eq!(decoded(&stored(513)), Err(FilterError::damaged(reason)));
    }
}
