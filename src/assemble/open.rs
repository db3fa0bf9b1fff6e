//! A block under way: source chunks are decoded and copied into its target chunks in any order, and
//! by several threads at a time.
//!
//! Each target chunk has a lock of its own. What takes the time is decoding, which happens outside
//! of any.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::block::{Block, BuildError, Piece, Retained, Target};
use crate::zarr::region::{self, Region, lengths};

/// Decoded bytes that are worth a thread's turn: far above what giving it one costs.
const GROUP_BYTES_MIN: u64 = 4 << 20;

/// The target chunks of a block, before all of its source chunks are in them. Not for texts.
#[derive(Debug)]
pub struct OpenBlock {
    block: Arc<Block>,
    published: Retained,
    /// Each without elements until it is first written to.
    targets: Vec<Mutex<Target<u8>>>,
    /// Its only source chunk is its only target chunk, and becomes it where it is decoded.
    is_whole: bool,
}

impl OpenBlock {
    /// Begins a block. `published` holds what [`Block::retained`] asks for.
    pub fn new(block: Arc<Block>, published: Retained) -> Self {
        let is_whole = block.single().is_some();
        let targets = block.unmade().into_iter().map(Mutex::new).collect();
        Self { block, published, targets, is_whole }
    }

    /// The block.
    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// Number of target chunks.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether nothing is to be built.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Decodes source chunks into the target chunks. `read` fills the (empty) buffer with the
    /// decoded elements of a source chunk: whole, or cut at the end of the array.
    pub fn add<E>(
        &self,
        pieces: Range<usize>,
        mut read: impl FnMut(&Piece, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), BuildError<E>> {
        let pieces = self.block.pieces().get(pieces).unwrap_or_default();
        if self.is_whole {
            for (piece, target) in pieces.iter().zip(&self.targets) {
                target.lock().raw = self.block.read_whole(piece, &mut read)?;
            }
            return Ok(());
        }
        let (mut source, mut converted) = (Vec::new(), Vec::new());
        let shape = lengths(self.block.chunk_shape());
        let size = self.block.element_bytes();
        for piece in pieces {
            source.clear();
            read(piece, &mut source).map_err(BuildError::Read)?;
            let decoded = self.block.converted(piece, &source, &mut converted)?;
            let mut outcome = Ok(());
            self.block.for_each_overlap(piece, |slot, overlap| {
                let Some(target) = self.targets.get(slot).filter(|_| outcome.is_ok()) else {
                    return;
                };
                let mut target = target.lock();
                if let Err(error) = self.make(&mut target) {
                    outcome = Err(error);
                    return;
                }
                region::copy(
                    decoded.bytes,
                    Region { shape: &decoded.shape, start: overlap.from },
                    &mut target.raw,
                    Region { shape: &shape, start: overlap.to },
                    overlap.extent,
                    size,
                );
            });
            outcome?;
        }
        Ok(())
    }

    /// Takes a target chunk, once all source chunks are in it.
    pub fn take<E>(&self, slot: usize) -> Result<Target<u8>, BuildError<E>> {
        let mut target = self.targets[slot].lock();
        self.make(&mut target)?;
        let (index, raw) = (target.index.clone(), std::mem::take(&mut target.raw));
        Ok(Target { index, raw })
    }

    /// Gives a target chunk what it holds before any source chunk is in it.
    fn make<E>(&self, target: &mut Target<u8>) -> Result<(), BuildError<E>> {
        if target.raw.is_empty() {
            self.block.make(target, &self.published)?;
        }
        Ok(())
    }
}

impl Block {
    /// Its source chunks in groups of which each is worth a turn of a thread.
    pub fn groups(&self) -> Vec<Range<usize>> {
        let mut groups = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for (position, piece) in self.pieces().iter().enumerate() {
            bytes += self.source_bytes(piece);
            if bytes >= GROUP_BYTES_MIN {
                groups.push(start..position + 1);
                (start, bytes) = (position + 1, 0);
            }
        }
        if start < self.pieces().len() {
            groups.push(start..self.pieces().len());
        }
        groups
    }
}
