//! The HDF5 filter pipeline, reading side: a file per filter.
//!
//! Filters were applied in the order of the pipeline when the chunk was written and are undone
//! from the last to the first. Bit *n* of a chunk's filter mask says that filter *n* was skipped.
//! A filter that is not decoded exactly is not in [`Filter`]: its variables are unsupported.

mod deflate;
mod fletcher32;
mod shuffle;

/// Buffers and decoder state that are reused from chunk to chunk.
#[derive(Default)]
pub(super) struct Scratch {
    /// The stored bytes on input; consumed.
    pub(super) stored: Vec<u8>,
    spare: Vec<u8>,
    inflater: deflate::Inflater,
}

/// Buffers above this size are given back after use.
const SCRATCH_BYTES_MAX: usize = 32 << 20;

impl Scratch {
    /// Gives large buffers back.
    pub(super) fn trim(&mut self) {
        for buffer in [&mut self.stored, &mut self.spare] {
            if buffer.capacity() > SCRATCH_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }
}

/// Why a chunk cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilterError {
    /// The checksum differs.
    Checksum { expected: u32, actual: u32 },
    /// Anything else that is wrong with the bytes.
    Damaged(String),
}

/// One filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    /// zlib (id 1).
    Deflate,
    /// Bytes of elements regrouped by significance (id 2).
    Shuffle { element_size: usize },
    /// Checksum behind the data (id 3).
    Fletcher32,
}

impl Filter {
    /// The filter with this id and client data, or the reason why there is none.
    pub(super) fn new(id: u16, client_data: &[u32]) -> Result<Self, String> {
        match id {
            1 => Ok(Self::Deflate),
            2 => match client_data.first().map(|size| usize::try_from(*size)) {
                Some(Ok(element_size)) if element_size > 0 => Ok(Self::Shuffle { element_size }),
                _ => Err("filter 2 (shuffle) without an element size".to_owned()),
            },
            3 => Ok(Self::Fletcher32),
            _ => Err(format!("filter {id} ({})", usual_name(id))),
        }
    }

    /// Bytes that the filter adds when it leaves the data otherwise as long as they were; `None`
    /// if the length changes in other ways.
    fn added_bytes(self) -> Option<usize> {
        match self {
            Self::Deflate => None,
            Self::Shuffle { .. } => Some(0),
            Self::Fletcher32 => Some(fletcher32::CHECKSUM_BYTES),
        }
    }
}

/// Names under which filters are known to their users (registered with the HDF Group).
fn usual_name(id: u16) -> &'static str {
    match id {
        4 => "szip",
        5 => "nbit",
        6 => "scaleoffset",
        305 => "lzo",
        307 => "bzip2",
        32000 => "lzf",
        32001 => "blosc",
        32004 => "lz4",
        32008 => "bitshuffle",
        32013 => "zfp",
        32015 => "zstd",
        32017 => "sz",
        32022 => "granular bit round",
        32023 => "bit round",
        32024 => "sz3",
        32026 => "blosc2",
        _ => "not a usual one",
    }
}

/// The filters of a variable in the order of writing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Pipeline(pub(super) Vec<Filter>);

impl Pipeline {
    /// Whether nothing is done to a chunk with this mask.
    pub(super) fn is_identity(&self, mask: u32) -> bool {
        self.active(mask).next().is_none()
    }

    fn active(&self, mask: u32) -> impl DoubleEndedIterator<Item = Filter> {
        let skipped = move |index: usize| {
            u32::try_from(index).ok().and_then(|bit| mask.checked_shr(bit)).unwrap_or(0) & 1 == 1
        };
        let filters = self.0.iter().enumerate().collect::<Vec<_>>();
        filters.into_iter().filter(move |(index, _)| !skipped(*index)).map(|(_, filter)| *filter)
    }

    /// Decodes `scratch.stored` into `out`, which then holds exactly `raw_bytes` bytes.
    pub(super) fn decode(
        &self,
        mask: u32,
        raw_bytes: usize,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        let Scratch { stored, spare, inflater } = scratch;
        let filters: Vec<Filter> = self.active(mask).collect();
        let mut undone = filters.as_slice();
        while let Some((filter, before)) = undone.split_last() {
            match *filter {
                Filter::Fletcher32 => fletcher32::verify_and_strip(stored)?,
                Filter::Shuffle { element_size } => {
                    shuffle::unshuffle(stored, element_size, spare);
                    std::mem::swap(stored, spare);
                }
                Filter::Deflate => {
                    inflater.inflate(stored, length_before(before, raw_bytes), spare)?;
                    std::mem::swap(stored, spare);
                }
            }
            undone = before;
        }
        if stored.len() != raw_bytes {
            return Err(FilterError::Damaged(format!(
                "it decodes to {} bytes, a chunk has {raw_bytes}",
                stored.len()
            )));
        }
        std::mem::swap(stored, out);
        Ok(())
    }
}

/// Length of the data after the filters `before`; `None` if it depends on the data.
fn length_before(before: &[Filter], raw_bytes: usize) -> Option<usize> {
    before.iter().try_fold(raw_bytes, |length, filter| length.checked_add(filter.added_bytes()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zlib(data: &[u8]) -> Vec<u8> {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut out = vec![0; compressor.zlib_compress_bound(data.len())];
        let length = compressor.zlib_compress(data, &mut out).unwrap();
        out.truncate(length);
        out
    }

    fn decode(
        filters: &[Filter],
        mask: u32,
        stored: &[u8],
        raw: usize,
    ) -> Result<Vec<u8>, FilterError> {
        let mut scratch = Scratch { stored: stored.to_vec(), ..Scratch::default() };
        let mut out = Vec::new();
        Pipeline(filters.to_vec()).decode(mask, raw, &mut scratch, &mut out)?;
        Ok(out)
    }

    #[test]
    fn filters_are_undone_from_the_last_to_the_first_and_masked_ones_are_skipped() {
        let pipeline = [Filter::Shuffle { element_size: 2 }, Filter::Deflate];
        let stored = zlib(&[1, 3, 5, 2, 4, 6]);
        assert_eq!(decode(&pipeline, 0, &stored, 6).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(decode(&pipeline, 1, &stored, 6).unwrap(), [1, 3, 5, 2, 4, 6]);
        assert_eq!(decode(&pipeline, 2, &[1, 3, 5, 2, 4, 6], 6).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(decode(&pipeline, 3, &[9; 6], 6).unwrap(), [9; 6]);
        assert!(Pipeline(pipeline.to_vec()).is_identity(3));
    }

    #[test]
    fn a_chunk_that_decodes_to_another_length_is_damaged() {
        let stored = zlib(&[0; 7]);
        for raw in [6, 8] {
            assert!(matches!(
                decode(&[Filter::Deflate], 0, &stored, raw),
                Err(FilterError::Damaged(_))
            ));
        }
        let twice = zlib(&zlib(&[5; 1000]));
        assert_eq!(decode(&[Filter::Deflate; 2], 0, &twice, 1000).unwrap(), [5; 1000]);
    }

    #[test]
    fn filters_that_are_not_decoded_are_named() {
        assert_eq!(Filter::new(32001, &[]), Err("filter 32001 (blosc)".to_owned()));
        assert_eq!(Filter::new(4, &[]), Err("filter 4 (szip)".to_owned()));
    }
}
