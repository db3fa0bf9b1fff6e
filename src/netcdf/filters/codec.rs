//! The codecs that the blocked formats (blosc, bitshuffle, lz4) use for their blocks.

use super::deflate::Inflater;
use super::zstandard::Zstandard;
use super::{FilterError, blosclz};

/// How a block is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Blosclz,
    Lz4,
    Snappy,
    Zlib,
    Zstd,
}

impl Codec {
    fn name(self) -> &'static str {
        match self {
            Self::Blosclz => "BloscLZ",
            Self::Lz4 => "LZ4",
            Self::Snappy => "Snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "Zstandard",
        }
    }

    /// No block expands further than this. LZ4: 255 bytes from one that lengthens a repetition,
    /// `BloscLZ` the same; Snappy: 64 bytes from two; RFC 1951; RFC 8878: a block of 128 KiB from
    /// four bytes.
    pub(super) fn expansion_max(self) -> usize {
        match self {
            Self::Blosclz | Self::Lz4 => 256,
            Self::Snappy => 64,
            Self::Zlib => 1032,
            Self::Zstd => 1 << 16,
        }
    }
}

/// The decoders with their tables, kept between chunks.
#[derive(Default)]
pub(super) struct Codecs {
    pub(super) inflater: Inflater,
    pub(super) zstandard: Zstandard,
}

impl Codecs {
    /// Appends the decoded `block`, which must have exactly `length` bytes, to `out`.
    pub(super) fn append(
        &mut self,
        codec: Codec,
        block: &[u8],
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        let damaged = || FilterError::damaged(format!("a block of {} is damaged", codec.name()));
        super::check_expansion(block.len(), length, codec.expansion_max())?;
        if codec == Codec::Blosclz {
            return blosclz::append(block, length, out).ok_or_else(damaged);
        }
        let start = out.len();
        out.resize(start.saturating_add(length), 0);
        let Some(room) = out.get_mut(start..) else { return Err(damaged()) };
        let decoded = match codec {
            Codec::Blosclz => None,
            Codec::Lz4 => lz4_flex::block::decompress_into(block, room).ok(),
            Codec::Snappy => snap::raw::decompress_len(block)
                .ok()
                .filter(|decoded| *decoded == length)
                .and_then(|_| snap::raw::Decoder::new().decompress(block, room).ok()),
            Codec::Zlib => self.inflater.inflate_into(block, room),
            Codec::Zstd => self.zstandard.decode_into(block, room)?,
        };
        if decoded == Some(length) { Ok(()) } else { Err(damaged()) }
    }
}
