//! Blocks of strings: the texts of a source chunk stay where they were read, and target chunks are
//! made of references to them until they are encoded one by one.

use super::block::{Block, BuildError, BuiltBlock, BuiltChunk, Target, encoded_bytes_max};
use crate::netcdf::ChunkLocation;
use crate::zarr::{CHUNK_BYTES_MAX, product};

/// Bytes of a reference to a text.
const REFERENCE_BYTES: u64 = size_of::<&[u8]>() as u64;
/// Bytes that stand before each text.
const LENGTH_BYTES: u64 = size_of::<u32>() as u64;
/// How often the texts of the block are there at most besides the source's: in the chunk that is
/// encoded, before and after the compressor, and in the chunks that are.
const COPIES: u64 = 3;

impl Block {
    /// See [`Block::memory_bytes`].
    pub(super) fn text_memory_bytes(&self) -> u64 {
        let sources = self
            .locations()
            .iter()
            .fold(0, |bytes: u64, location| bytes.saturating_add(location.text_bytes));
        let source_elements = self.source_elements().saturating_mul(self.locations().len() as u64);
        let references = source_elements
            .saturating_mul(LENGTH_BYTES.saturating_add(REFERENCE_BYTES))
            .saturating_add(self.target_elements().saturating_mul(REFERENCE_BYTES));
        let encoded = encoded_bytes_max(self.text_bytes(), self.chunk_count());
        sources.saturating_add(references).saturating_add(encoded.saturating_mul(COPIES))
    }

    /// Bytes of all target chunks at most, before encoding.
    fn text_bytes(&self) -> u64 {
        let layout = self.layout();
        let padding = layout.metadata.fill_value.as_ref().map_or(0, Vec::len);
        let fill = padding.max(layout.source_fill.len()) as u64;
        let each = fill.saturating_add(2 * LENGTH_BYTES);
        let texts = self.locations().iter().map(|location| location.text_bytes);
        texts.fold(self.target_elements().saturating_mul(each), u64::saturating_add)
    }

    /// See [`Block::build`].
    pub(super) fn build_texts<E>(
        &self,
        read: &mut impl FnMut(&ChunkLocation, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<BuiltBlock, BuildError<E>> {
        let bytes = self.text_bytes();
        if bytes > CHUNK_BYTES_MAX {
            return Err(BuildError::TextsTooLarge { path: self.layout().path.to_string(), bytes });
        }
        let mut buffers = Vec::with_capacity(self.locations().len());
        for location in self.locations() {
            let mut buffer = Vec::new();
            read(location, &mut buffer).map_err(BuildError::Read)?;
            buffers.push(buffer);
        }
        let padding = self.layout().metadata.padding();
        let mut targets =
            self.targets(&[padding.as_slice()], &[self.layout().source_fill.as_slice()]);
        for (location, buffer) in self.locations().iter().zip(&buffers) {
            let texts = split(buffer);
            let shape = self.buffer_shape(location, texts.len(), 1)?;
            self.scatter(location, &texts, &shape, &mut targets, 1);
        }
        let chunks = targets.into_iter().map(|target| self.encode_texts(&target));
        let chunks = chunks.collect::<Result<_, _>>()?;
        Ok(BuiltBlock { chunks, decoded: self.locations().len() as u64 })
    }

    fn encode_texts<E>(&self, target: &Target<&[u8]>) -> Result<BuiltChunk, BuildError<E>> {
        let layout = self.layout();
        let fill = layout.metadata.fill_value.as_deref();
        let omitted = fill.is_some_and(|fill| target.raw.iter().all(|text| *text == fill));
        let bytes = if omitted { None } else { Some(layout.chain.encode_texts(&target.raw)?) };
        let index = target.index.clone();
        let key = layout.path.key(&layout.metadata.chunk_key(&index));
        Ok(BuiltChunk { index, key, bytes })
    }

    fn source_elements(&self) -> u64 {
        product(1, &self.layout().source_chunk).unwrap_or(u64::MAX)
    }

    fn target_elements(&self) -> u64 {
        let chunk = product(1, &self.layout().metadata.chunk_shape).unwrap_or(u64::MAX);
        chunk.saturating_mul(self.chunk_count())
    }
}

/// The texts of a decoded source chunk: each behind its length. What is cut short is left out, so
/// that their number is wrong then.
fn split(mut buffer: &[u8]) -> Vec<&[u8]> {
    let mut texts = Vec::new();
    while let Some((length, rest)) = buffer.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let Some((text, rest)) = rest.split_at_checked(length) else { break };
        texts.push(text);
        buffer = rest;
    }
    texts
}
