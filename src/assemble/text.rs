//! Blocks of strings: the texts of a source chunk stay where they were read, and target chunks are
//! made of references to them until they are encoded one by one.

use std::collections::HashMap;

use super::block::{
    Block, BuildError, BuiltBlock, BuiltChunk, Piece, Retained, Target, encoded_bytes_max,
};
use crate::zarr::region::{self, Region, lengths};
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
            .pieces()
            .iter()
            .fold(0, |bytes: u64, piece| bytes.saturating_add(piece.location.text_bytes));
        let elements = |piece: &Piece| {
            let part = &self.layout().parts[piece.part].part;
            product(1, &part.source_chunk_shape).unwrap_or(u64::MAX)
        };
        let source_elements = self.pieces().iter().map(elements).fold(0, u64::saturating_add);
        let references = source_elements
            .saturating_mul(LENGTH_BYTES.saturating_add(REFERENCE_BYTES))
            .saturating_add(self.target_elements().saturating_mul(REFERENCE_BYTES));
        let encoded = encoded_bytes_max(self.text_bytes(), self.chunk_count());
        sources.saturating_add(references).saturating_add(encoded.saturating_mul(COPIES))
    }

    /// Bytes of all target chunks at most, before encoding and without what is retained.
    fn text_bytes(&self) -> u64 {
        let layout = self.layout();
        let padding = layout.metadata.fill_value.as_ref().map_or(0, Vec::len);
        let fills = layout.parts.iter().map(|part| part.fill.as_ref().map_or(0, Vec::len));
        let fill = fills.max().unwrap_or(0).max(padding) as u64;
        let each = fill.saturating_add(2 * LENGTH_BYTES);
        let texts = self.pieces().iter().map(|piece| piece.location.text_bytes);
        texts.fold(self.target_elements().saturating_mul(each), u64::saturating_add)
    }

    /// See [`Block::build`].
    pub(super) fn build_texts<E>(
        &self,
        published: &Retained,
        read: &mut impl FnMut(&Piece, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<BuiltBlock, BuildError<E>> {
        let bytes = self.text_bytes();
        if bytes > CHUNK_BYTES_MAX {
            return Err(BuildError::TextsTooLarge { path: self.layout().path.to_string(), bytes });
        }
        let mut buffers = Vec::with_capacity(self.pieces().len());
        for piece in self.pieces() {
            let mut buffer = Vec::new();
            read(piece, &mut buffer).map_err(BuildError::Read)?;
            buffers.push(buffer);
        }
        let padding = self.layout().metadata.padding();
        let kept = self.published_texts(published)?;
        let fills = self.fills()?;
        let fills: Vec<&[&[u8]]> = fills.iter().map(std::slice::from_ref).collect();
        let mut targets = self.targets(&[padding.as_slice()]);
        for target in &mut targets {
            if let Some(texts) = kept.get(&target.index) {
                let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
                self.keep(&mut target.raw, &texts, &target.index, 1);
            }
        }
        self.fill_unwritten(&mut targets, &fills, 1);
        for (piece, buffer) in self.pieces().iter().zip(&buffers) {
            let texts = split(buffer);
            let shape = self.buffer_shape(piece, texts.len())?;
            let target_shape = lengths(self.chunk_shape());
            self.for_each_overlap(piece, |slot, overlap| {
                let Some(target) = targets.get_mut(slot) else { return };
                region::copy(
                    &texts,
                    Region { shape: &shape, start: overlap.from },
                    &mut target.raw,
                    Region { shape: &target_shape, start: overlap.to },
                    overlap.extent,
                    1,
                );
            });
        }
        let chunks = targets.into_iter().map(|target| self.encode_texts(&target));
        let chunks = chunks.collect::<Result<_, _>>()?;
        Ok(BuiltBlock { chunks, decoded: self.pieces().len() as u64 })
    }

    /// The texts of the chunks that keep some.
    fn published_texts<E>(
        &self,
        published: &Retained,
    ) -> Result<HashMap<Vec<u64>, Vec<String>>, BuildError<E>> {
        let mut texts = HashMap::new();
        for chunk in self.retained() {
            let Some(stored) = published.get(&chunk.index).and_then(Option::as_ref) else {
                continue;
            };
            let decoded = self.layout().chain.decode_texts(stored);
            let decoded =
                decoded.map_err(|error| BuildError::Published { key: chunk.key, error })?;
            texts.insert(chunk.index, decoded);
        }
        Ok(texts)
    }

    fn encode_texts<E>(&self, target: &Target<&[u8]>) -> Result<BuiltChunk, BuildError<E>> {
        let layout = self.layout();
        let fill = layout.metadata.fill_value.as_deref();
        let omitted = fill.is_some_and(|fill| target.raw.iter().all(|text| *text == fill));
        let bytes = if omitted { None } else { Some(layout.chain.encode_texts(&target.raw)?) };
        Ok(self.built(target.index.clone(), bytes))
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
