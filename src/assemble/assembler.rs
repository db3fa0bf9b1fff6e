//! Collects the chunk locations of one variable into blocks.
//!
//! ```text
//! push(location) ─► block incomplete: remembered
//!                └► block complete:   returned, forgotten
//! finish()       ─► what is left: incomplete blocks, and blocks without any allocated chunk
//! ```
//!
//! What is remembered are the locations of incomplete blocks and the runs of complete ones; both
//! stay small while the order of the file is near the order of the blocks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::block::Block;
use super::layout::Layout;
use super::{AssembleError, LocationError};
use crate::netcdf::ChunkLocation;
use crate::plan::ArrayPlan;

/// Gathers the source chunks of one array until blocks are complete.
#[derive(Debug)]
pub struct Assembler {
    layout: Arc<Layout>,
    /// By block, then by the position of the source chunk in the block.
    incomplete: BTreeMap<u64, BTreeMap<u64, ChunkLocation>>,
    complete: Runs,
}

impl Assembler {
    /// An assembler for a planned array; blocks hold at most `block_bytes_max` raw bytes, or one
    /// target chunk where that is larger.
    pub fn new(plan: &ArrayPlan, block_bytes_max: u64) -> Result<Self, AssembleError> {
        let layout = Arc::new(Layout::new(plan, block_bytes_max)?);
        Ok(Self { layout, incomplete: BTreeMap::new(), complete: Runs::default() })
    }

    /// How the grids lie over each other.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Locations that are remembered at present. A location in several blocks counts in each.
    pub fn waiting(&self) -> usize {
        self.incomplete.values().map(BTreeMap::len).sum()
    }

    /// Takes the location of a source chunk and returns the blocks that are complete with it.
    pub fn push(&mut self, location: &ChunkLocation) -> Result<Vec<Block>, LocationError> {
        self.check(location)?;
        let mut ready = Vec::new();
        for linear in self.blocks_of(location) {
            let twice = || LocationError::Twice { origin: location.origin.clone() };
            if self.complete.contains(linear) {
                return Err(twice());
            }
            let index = self.layout.block_index(linear);
            let position = self.layout.source_position(&index, &location.origin);
            let waiting = self.incomplete.entry(linear).or_default();
            if waiting.contains_key(&position) {
                return Err(twice());
            }
            waiting.insert(position, location.clone());
            if waiting.len() as u64 == self.layout.source_chunks_of(&index) {
                let locations = self.incomplete.remove(&linear).unwrap_or_default();
                self.complete.insert(linear);
                ready.push(block(&self.layout, index, locations));
            }
        }
        Ok(ready)
    }

    /// The blocks that are not complete: their other source chunks were never allocated. Made one
    /// by one; blocks that would consist of omitted chunks only are left out.
    pub fn finish(self) -> Remaining {
        Remaining { assembler: self, next: 0 }
    }

    fn check(&self, location: &ChunkLocation) -> Result<(), LocationError> {
        let (layout, origin) = (&self.layout, &location.origin);
        if location.variable != layout.variable {
            return Err(LocationError::OtherVariable(location.variable));
        }
        let shape = &layout.metadata.shape;
        let inside = origin.len() == shape.len()
            && origin.iter().zip(shape).all(|(origin, length)| origin < length);
        if !inside {
            return Err(LocationError::Outside { origin: origin.clone(), shape: shape.clone() });
        }
        let mut dimensions = origin.iter().zip(&layout.source_chunk);
        if dimensions.all(|(origin, chunk)| origin.is_multiple_of(*chunk)) {
            Ok(())
        } else {
            Err(LocationError::OffGrid {
                origin: origin.clone(),
                chunk_shape: layout.source_chunk.clone(),
            })
        }
    }

    /// The row-major positions of the blocks that a source chunk meets.
    fn blocks_of(&self, location: &ChunkLocation) -> Vec<u64> {
        let mut indices = vec![Vec::with_capacity(location.origin.len())];
        for (dimension, origin) in location.origin.iter().enumerate() {
            let along = self.layout.blocks_of(*origin, dimension);
            indices = indices
                .iter()
                .flat_map(|outer| {
                    along.clone().map(move |position| [outer.as_slice(), &[position]].concat())
                })
                .collect();
        }
        indices.iter().map(|index| self.layout.block_linear(index)).collect()
    }
}

/// A block that reads in the order of the file.
fn block(layout: &Arc<Layout>, index: Vec<u64>, locations: BTreeMap<u64, ChunkLocation>) -> Block {
    let mut locations: Vec<_> = locations.into_values().collect();
    locations.sort_by_key(|location| location.offset);
    Block::new(Arc::clone(layout), index, locations)
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
        let (linear, locations) = if layout.omits_unallocated() {
            incomplete.pop_first()?
        } else {
            let linear = complete.first_absent(self.next);
            if linear >= layout.block_count() {
                return None;
            }
            self.next = linear + 1;
            (linear, incomplete.remove(&linear).unwrap_or_default())
        };
        Some(block(layout, layout.block_index(linear), locations))
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
