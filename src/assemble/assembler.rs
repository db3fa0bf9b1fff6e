//! Collects the chunk locations of one array into blocks.
//!
//! ```text
//! push(part, location) ─► block incomplete: remembered
//!                      └► block complete:   returned, forgotten
//! finish()             ─► what is left: incomplete blocks, and blocks without any allocated chunk
//! ```
//!
//! What is remembered are the locations of incomplete blocks and the runs of complete ones; both
//! stay small while the order of the files is near the order of the blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::block::{Block, Piece};
use super::blocks::BlockLimits;
use super::layout::Layout;
use super::{AssembleError, LocationError};
use crate::netcdf::ChunkLocation;
use crate::plan::ArrayTarget;

/// Gathers the source chunks of one array until blocks are complete.
#[derive(Debug)]
pub struct Assembler {
    layout: Arc<Layout>,
    incomplete: BTreeMap<u64, Incomplete>,
    complete: Runs,
}

/// The pieces of a block that have been located.
#[derive(Debug)]
struct Incomplete {
    /// By part and first element.
    pieces: BTreeMap<(usize, Vec<u64>), ChunkLocation>,
    wanted: u64,
}

impl Assembler {
    /// An assembler for an array with blocks of limited size.
    pub fn new(
        target: &ArrayTarget,
        limits: impl Into<BlockLimits>,
    ) -> Result<Self, AssembleError> {
        let layout = Arc::new(Layout::new(target, limits)?);
        Ok(Self { layout, incomplete: BTreeMap::new(), complete: Runs::default() })
    }

    /// How the grids lie over each other.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Locations that are remembered at present. A location in several blocks counts in each.
    pub fn waiting(&self) -> usize {
        self.incomplete.values().map(|block| block.pieces.len()).sum()
    }

    /// Takes the location of a source chunk of one of the array's parts and returns the blocks that
    /// are complete with it.
    pub fn push(
        &mut self,
        part: usize,
        location: &ChunkLocation,
    ) -> Result<Vec<Block>, LocationError> {
        self.check(part, location)?;
        let mut ready = Vec::new();
        for linear in self.blocks_of(part, location) {
            let twice = || LocationError::Twice { origin: location.origin.clone() };
            if self.complete.contains(linear) {
                return Err(twice());
            }
            let index = self.layout.block_index(linear);
            let waiting = self.incomplete.entry(linear).or_insert_with(|| Incomplete {
                pieces: BTreeMap::new(),
                wanted: self.layout.source_chunks_of(&index),
            });
            let key = (part, location.origin.clone());
            if waiting.pieces.insert(key, location.clone()).is_some() {
                return Err(twice());
            }
            if waiting.pieces.len() as u64 == waiting.wanted {
                let pieces = self.incomplete.remove(&linear).map(|block| block.pieces);
                self.complete.insert(linear);
                ready.push(block(&self.layout, index, pieces.unwrap_or_default()));
            }
        }
        Ok(ready)
    }

    /// The blocks that are not complete: their other source chunks were never allocated. Made one
    /// by one; blocks for which nothing is to be done are left out.
    pub fn finish(self) -> Remaining {
        Remaining { assembler: self, next: 0 }
    }

    fn check(&self, part: usize, location: &ChunkLocation) -> Result<(), LocationError> {
        let origin = &location.origin;
        let other = LocationError::OtherVariable(location.variable);
        let Some(layout) = self.layout.parts.get(part) else { return Err(other) };
        let part = &layout.part;
        if location.variable != part.variable {
            return Err(other);
        }
        let inside = origin.len() == part.shape.len()
            && origin.iter().zip(&part.shape).all(|(origin, length)| origin < length);
        if !inside {
            let shape = part.shape.clone();
            return Err(LocationError::Outside { origin: origin.clone(), shape });
        }
        let mut dimensions = origin.iter().zip(&part.source_chunk_shape);
        if dimensions.all(|(origin, chunk)| origin.is_multiple_of(*chunk)) {
            Ok(())
        } else {
            let chunk_shape = part.source_chunk_shape.clone();
            Err(LocationError::OffGrid { origin: origin.clone(), chunk_shape })
        }
    }

    /// The row-major positions of the blocks that a source chunk meets.
    fn blocks_of(&self, part: usize, location: &ChunkLocation) -> Vec<u64> {
        let mut indices = vec![Vec::with_capacity(location.origin.len())];
        for (dimension, origin) in location.origin.iter().enumerate() {
            let along = self.layout.blocks_of(part, *origin, dimension);
            indices = indices
                .iter()
                .flat_map(|outer| {
                    let along = along.iter().cloned().flatten();
                    along.map(move |position| [outer.as_slice(), &[position]].concat())
                })
                .collect();
        }
        indices.iter().map(|index| self.layout.block_linear(index)).collect()
    }
}

/// A block that reads in the order of the files.
fn block(
    layout: &Arc<Layout>,
    index: Vec<u64>,
    pieces: BTreeMap<(usize, Vec<u64>), ChunkLocation>,
) -> Block {
    let pieces = pieces.into_iter().map(|((part, _), location)| Piece { part, location });
    let mut pieces: Vec<Piece> = pieces.collect();
    pieces.sort_by_key(|piece| (piece.part, piece.location.offset));
    Block::new(Arc::clone(layout), index, pieces)
}

/// What [`Assembler::finish`] leaves, in row-major order.
#[derive(Debug)]
pub struct Remaining {
    assembler: Assembler,
    next: u64,
}

impl Iterator for Remaining {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let Assembler { layout, incomplete, complete } = &mut self.assembler;
        let (linear, pieces) = if layout.omits_unallocated() {
            incomplete.pop_first()?
        } else {
            let mut linear = self.next;
            loop {
                let free = complete.first_absent(linear);
                linear = layout.next_built_block(free)?;
                if linear == free {
                    break;
                }
            }
            self.next = linear + 1;
            let none = || Incomplete { pieces: BTreeMap::new(), wanted: 0 };
            (linear, incomplete.remove(&linear).unwrap_or_else(none))
        };
        Some(block(layout, layout.block_index(linear), pieces.pieces))
    }
}
/// A set of numbers kept as runs: start to end (exclusive), never touching.
#[derive(Debug, Default)]
struct Runs(BTreeMap<u64, u64>);

impl Runs {
    fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// The smallest number from `number` on that is not in the set.
    fn first_absent(&self, number: u64) -> u64 {
        self.0.range(..=number).next_back().map_or(number, |(_, end)| number.max(*end))
    }

    /// Adds a number that is not in the set.
    fn insert(&mut self, number: u64) {
        let end = self.0.remove(&(number + 1)).unwrap_or(number + 1);
        match self.0.range_mut(..number).next_back() {
            Some((_, before)) if *before == number => *before = end,
            _ => {
                self.0.insert(number, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_any_order_join_to_one_run() {
        let mut runs = Runs::default();
        for number in [5, 3, 4, 0, 2, 9] {
            assert!(!runs.contains(number));
            runs.insert(number);
            assert!(runs.contains(number));
        }
        assert_eq!(runs.0.iter().collect::<Vec<_>>(), [(&0, &1), (&2, &6), (&9, &10)]);
        assert_eq!((runs.first_absent(0), runs.first_absent(3), runs.first_absent(7)), (1, 6, 7));
        runs.insert(1);
        assert_eq!(runs.0.len(), 2);
    }
}
