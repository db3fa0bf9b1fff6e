//! The bitshuffle filter (id 32008): blocks of elements as bit planes, alone or compressed.
//!
//! Client data: version (2 numbers), element size, elements in a block (0: the default),
//! compression (2: LZ4, 3: Zstandard). Compressed data start with a header, bytes of the decoded
//! data (u64) and of a decoded block (u32), and each block with its stored size (u32), all
//! big-endian. The last block is cut to a multiple of 8 elements; what is left over is stored
//! plainly (`bshuf_blocked_wrap_fun` of the bitshuffle library).

use super::codec::{Codec, Codecs};
use super::{FilterError, bit_planes};
use crate::netcdf::bytes::Bytes;

/// Bytes that a block has by default, and the fewest elements.
const DEFAULT_BLOCK_BYTES: usize = 8192;
const DEFAULT_BLOCK_ELEMENTS_MIN: usize = 128;

/// What the client data say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::netcdf) struct Bitshuffle {
    element_size: usize,
    /// Elements in a block, for data that are not compressed.
    block_elements: usize,
    compression: Option<Codec>,
}

impl Bitshuffle {
    pub(super) fn new(client_data: &[u32]) -> Result<Self, String> {
        let number = |index: usize| {
            client_data.get(index).map(|value| usize::try_from(*value).unwrap_or(usize::MAX))
        };
        let element_size = number(2).filter(|size| *size > 0).ok_or("without an element size")?;
        let block_elements = match number(3).unwrap_or(0) {
            0 => default_block_elements(element_size),
            stated => stated,
        };
        if block_elements.checked_rem(bit_planes::GROUP) != Some(0) {
            return Err(format!("with blocks of {block_elements} elements"));
        }
        let compression = match client_data.get(4) {
            None | Some(0) => None,
            Some(2) => Some(Codec::Lz4),
            Some(3) => Some(Codec::Zstd),
            Some(other) => return Err(format!("with compression {other}")),
        };
        Ok(Self { element_size, block_elements, compression })
    }

    /// Whether the filter leaves the length as it is.
    pub(super) fn keeps_length(&self) -> bool {
        self.compression.is_none()
    }

    /// Decodes `stored` into `out`, at most `most` bytes. `buffers` are overwritten.
    pub(super) fn decode(
        &self,
        stored: &[u8],
        most: usize,
        codecs: &mut Codecs,
        buffers: &mut [Vec<u8>; 2],
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        let cut = || FilterError::damaged("its bitshuffle blocks are cut short");
        let mut input = Bytes::new(stored);
        let (total, block_bytes) = if self.keeps_length() {
            (stored.len(), self.block_elements.checked_mul(self.element_size))
        } else {
            let total = input.array().map(u64::from_be_bytes).ok_or_else(cut)?;
            let block = input.array().map(u32::from_be_bytes).ok_or_else(cut)?;
            (super::stated_length(total, most)?, self.whole_block_bytes(block))
        };
        let group_bytes = self.element_size.checked_mul(bit_planes::GROUP);
        let (Some(block_bytes), Some(group_bytes)) = (block_bytes, group_bytes) else {
            return Err(FilterError::damaged("its bitshuffle blocks are not whole elements"));
        };
        if total.checked_rem(self.element_size) != Some(0) {
            return Err(FilterError::damaged("its bitshuffle data are not whole elements"));
        }
        let in_groups = total.saturating_sub(total.checked_rem(group_bytes).unwrap_or(0));
        let [block, bytes] = buffers;
        out.clear();
        while out.len() < in_groups {
            let length = in_groups.saturating_sub(out.len()).min(block_bytes);
            let planes = match self.compression {
                None => input.take(length).ok_or_else(cut)?,
                Some(codec) => {
                    let size = input.array().map(u32::from_be_bytes).ok_or_else(cut)?;
                    let size = usize::try_from(size).map_err(|_error| cut())?;
                    block.clear();
                    codecs.append(codec, input.take(size).ok_or_else(cut)?, length, block)?;
                    block.as_slice()
                }
            };
            bit_planes::append_joined(planes, self.element_size, bytes, out);
        }
        let left_over = total.saturating_sub(out.len());
        out.extend_from_slice(input.take(left_over).ok_or_else(cut)?);
        Ok(())
    }

    /// Bytes of a whole block if its header states so many; `None` if that is no multiple of
    /// [`bit_planes::GROUP`] elements.
    fn whole_block_bytes(&self, stated: u32) -> Option<usize> {
        let elements = usize::try_from(stated).ok()?.checked_div(self.element_size)?;
        let elements = match elements {
            0 => default_block_elements(self.element_size),
            stated => stated,
        };
        let whole = elements.checked_rem(bit_planes::GROUP) == Some(0);
        whole.then(|| elements.checked_mul(self.element_size)).flatten()
    }
}

/// `bshuf_default_block_size` of the library, which is fixed for the sake of old files.
fn default_block_elements(element_size: usize) -> usize {
    let fitting = DEFAULT_BLOCK_BYTES.checked_div(element_size).unwrap_or(0);
    let whole = fitting.saturating_sub(fitting.checked_rem(bit_planes::GROUP).unwrap_or(0));
    whole.max(DEFAULT_BLOCK_ELEMENTS_MIN)
}
