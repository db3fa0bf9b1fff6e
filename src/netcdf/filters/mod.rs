//! The HDF5 filter pipeline, reading side: a file per filter.
//!
//! Filters were applied in the order of the pipeline when the chunk was written and are undone
//! from the last to the first. Bit *n* of a chunk's filter mask says that filter *n* was skipped.
//! A filter that is not decoded exactly is not in [`Filter`]: its variables are unsupported.

mod bit_planes;
mod bits;
mod bitshuffle;
mod blosc;
mod blosclz;
mod bzip;
mod codec;
mod deflate;
mod fletcher32;
mod lz;
mod lz4;
mod lzf;
mod nbit;
#[cfg(test)]
mod references;
mod scaleoffset;
mod shuffle;
mod szip;
#[cfg(test)]
mod tests;
mod zstandard;

use bitshuffle::Bitshuffle;
use codec::Codecs;
use nbit::Nbit;
use scaleoffset::Scaleoffset;
use szip::Szip;

/// Buffers and decoder state that are reused from chunk to chunk.
#[derive(Default)]
pub(super) struct Scratch {
    /// The stored bytes on input; consumed.
    pub(super) stored: Vec<u8>,
    spare: Vec<u8>,
    /// For the blocks of the formats that have some.
    blocks: [Vec<u8>; 2],
    codecs: Codecs,
}

/// Buffers above this size are given back after use.
const SCRATCH_BYTES_MAX: usize = 32 << 20;

impl Scratch {
    /// Gives large buffers back.
    pub(super) fn trim(&mut self) {
        let [block, bytes] = &mut self.blocks;
        for buffer in [&mut self.stored, &mut self.spare, block, bytes] {
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

impl FilterError {
    fn damaged(reason: impl Into<String>) -> Self {
        Self::Damaged(reason.into())
    }

    fn too_long(format: &str, most: usize) -> Self {
        Self::Damaged(format!("its {format} stream holds more than {most} bytes"))
    }
}

/// Refuses lengths that `stored` bytes cannot decode to, before memory for them is asked for.
fn check_expansion(stored: usize, length: usize, expansion_max: usize) -> Result<(), FilterError> {
    if length <= stored.saturating_mul(expansion_max) {
        return Ok(());
    }
    Err(FilterError::damaged(format!("{stored} compressed bytes cannot hold {length} bytes")))
}

/// The decoded length that the data state themselves, if it is at most `most`.
fn stated_length(stated: u64, most: usize) -> Result<usize, FilterError> {
    let length = usize::try_from(stated).ok().filter(|length| *length <= most);
    length.ok_or_else(|| {
        FilterError::damaged(format!("it states {stated} decoded bytes, at most {most} are due"))
    })
}

/// One filter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Filter {
    /// zlib (id 1).
    Deflate,
    /// Bytes of elements regrouped by significance (id 2). Without an element size no chunk may
    /// use it.
    Shuffle { element_size: usize },
    /// Checksum behind the data (id 3).
    Fletcher32,
    /// Extended Rice coding (id 4).
    Szip(Szip),
    /// Significant bits only (id 5).
    Nbit(Nbit),
    /// Differences from the minimum (id 6).
    Scaleoffset(Scaleoffset),
    /// bzip2 (id 307).
    Bzip2,
    /// LZF (id 32000).
    Lzf,
    /// A buffer of c-blosc (id 32001).
    Blosc,
    /// LZ4 blocks (id 32004).
    Lz4,
    /// Bit planes (id 32008).
    Bitshuffle(Bitshuffle),
    /// Zstandard (id 32015).
    Zstd,
}

impl Filter {
    /// The filter with this id and client data, or the reason why there is none.
    pub(super) fn new(id: u16, client_data: &[u32]) -> Result<Self, String> {
        let filter = match id {
            1 => Ok(Self::Deflate),
            // HDF5 writes it without parameters for variable-length elements, and then never
            // applies it.
            2 => usize::try_from(client_data.first().copied().unwrap_or(0))
                .map(|element_size| Self::Shuffle { element_size })
                .map_err(|_error| "with an impossible element size".to_owned()),
            3 => Ok(Self::Fletcher32),
            4 => Szip::new(client_data).map(Self::Szip),
            5 => Nbit::new(client_data).map(Self::Nbit),
            6 => Scaleoffset::new(client_data).map(Self::Scaleoffset),
            307 => Ok(Self::Bzip2),
            32000 => Ok(Self::Lzf),
            32001 => Ok(Self::Blosc),
            32004 => Ok(Self::Lz4),
            32008 => Bitshuffle::new(client_data).map(Self::Bitshuffle),
            32015 => Ok(Self::Zstd),
            _ => return Err(format!("filter {id} ({})", usual_name(id))),
        };
        filter.map_err(|reason| format!("filter {id} ({}) {reason}", usual_name(id)))
    }

    /// Decodes `scratch.stored` in place. `exact` is the length before the filter was applied, if
    /// it does not depend on the data, `most` the largest length that makes sense.
    fn undo(
        self,
        exact: Option<usize>,
        most: usize,
        scratch: &mut Scratch,
    ) -> Result<(), FilterError> {
        let Scratch { stored, spare, blocks, codecs } = scratch;
        match self {
            Self::Fletcher32 => return fletcher32::verify_and_strip(stored),
            Self::Shuffle { element_size: 0 } => {
                return Err(FilterError::damaged("it is shuffled by an unknown element size"));
            }
            Self::Shuffle { element_size } => shuffle::unshuffle(stored, element_size, spare),
            Self::Deflate => codecs.inflater.inflate(stored, exact, spare)?,
            Self::Szip(szip) => szip.decode(stored, most, spare)?,
            Self::Nbit(nbit) => nbit.decode(stored, most, spare)?,
            Self::Scaleoffset(scaleoffset) => scaleoffset.decode(stored, most, spare)?,
            Self::Bzip2 => bzip::decode(stored, most, spare)?,
            Self::Lzf => lzf::decode(stored, most, spare)?,
            Self::Blosc => blosc::decode(stored, most, codecs, blocks, spare)?,
            Self::Lz4 => lz4::decode(stored, most, codecs, spare)?,
            Self::Bitshuffle(bitshuffle) => {
                bitshuffle.decode(stored, most, codecs, blocks, spare)?;
            }
            Self::Zstd => codecs.zstandard.decode(stored, most, spare)?,
        }
        std::mem::swap(stored, spare);
        Ok(())
    }

    /// Bytes that the filter adds when it leaves the data otherwise as long as they were; `None`
    /// if the length changes in other ways.
    fn added_bytes(self) -> Option<usize> {
        match self {
            Self::Shuffle { .. } => Some(0),
            Self::Fletcher32 => Some(fletcher32::CHECKSUM_BYTES),
            Self::Bitshuffle(bitshuffle) => bitshuffle.keeps_length().then_some(0),
            _ => None,
        }
    }
}

/// Names under which filters are known to their users (registered with the HDF Group).
fn usual_name(id: u16) -> &'static str {
    match id {
        1 => "deflate",
        2 => "shuffle",
        3 => "fletcher32",
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
#[derive(Debug, Clone, Default, PartialEq)]
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
        let filters: Vec<Filter> = self.active(mask).collect();
        let mut undone = filters.as_slice();
        while let Some((filter, before)) = undone.split_last() {
            filter.undo(
                length_before(before, raw_bytes),
                most_before(before, raw_bytes),
                scratch,
            )?;
            undone = before;
        }
        let stored = &mut scratch.stored;
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

/// Most bytes that the data can have after the filters `before`: no writer keeps what a filter has
/// made more than twice as long, but for headers.
fn most_before(before: &[Filter], raw_bytes: usize) -> usize {
    const HEADERS_BYTES: usize = 64 << 10;
    length_before(before, raw_bytes)
        .unwrap_or_else(|| raw_bytes.saturating_mul(2).saturating_add(HEADERS_BYTES))
}
