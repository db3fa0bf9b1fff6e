//! How the chunks of a source and the chunks of an array lie over each other.
//!
//! Target chunks are built in **blocks**. A block is a box of whole target chunks that reaches at
//! least as far as a source chunk in each dimension; where the grids are nested (or the block may
//! be large enough to end where both end) each source chunk lies in one block only and is decoded
//! once. A block that would exceed the byte budget has fewer target chunks; source chunks then are
//! decoded by several blocks, and [`Layout::decodes`] says how often.

use std::ops::Range;

use super::AssembleError;
use crate::netcdf::VariableId;
use crate::plan::ArrayPlan;
use crate::zarr::{ArrayMetadata, CodecChain, DataType, NodePath, product};

/// Longest dimension in elements: sums of two lengths stay far from the limits of 64 bits.
const LENGTH_MAX: u64 = 1 << 61;
/// Largest source chunk in bytes before encoding: the limit of HDF5.
const SOURCE_CHUNK_BYTES_MAX: u64 = u32::MAX as u64;
/// Largest block in bytes: its elements are counted without overflow.
const BLOCK_BYTES_MAX: u64 = 1 << 40;

/// The geometry and the codecs of one array. All vectors have one entry for each dimension.
#[derive(Debug)]
pub struct Layout {
    pub(super) path: NodePath,
    pub(super) variable: VariableId,
    pub(super) metadata: ArrayMetadata,
    pub(super) chain: CodecChain,
    /// One element of what was never written in the source, as bytes or UTF-8.
    pub(super) source_fill: Vec<u8>,
    pub(super) source_chunk: Vec<u64>,
    /// Target chunks of a block.
    block_chunks: Vec<u64>,
    /// Blocks of the array.
    block_grid: Vec<u64>,
    block_count: u64,
}

impl Layout {
    /// The layout of a planned array whose blocks hold at most `block_bytes_max` raw bytes, or one
    /// target chunk where that is larger.
    pub fn new(plan: &ArrayPlan, block_bytes_max: u64) -> Result<Self, AssembleError> {
        let metadata = &plan.metadata;
        let rank = metadata.shape.len();
        let element = metadata.data_type.size();
        let is_text = metadata.data_type == DataType::String;
        let fits = |fill: &Vec<u8>| is_text || fill.len() == element;
        let source_bytes = plan
            .source_chunk_shape
            .iter()
            .try_fold(element as u64, |bytes, length| bytes.checked_mul(*length));
        let consistent = plan.source_chunk_shape.len() == rank
            && metadata.chunk_shape.len() == rank
            && !plan.source_chunk_shape.contains(&0)
            && !metadata.chunk_shape.contains(&0)
            && fits(&plan.source_fill)
            && metadata.fill_value.as_ref().is_none_or(fits);
        if !consistent {
            return Err(AssembleError::Inconsistent);
        }
        if source_bytes.is_none_or(|bytes| bytes > SOURCE_CHUNK_BYTES_MAX) {
            return Err(AssembleError::SourceChunkTooLarge);
        }
        if metadata.shape.iter().any(|length| *length > LENGTH_MAX) {
            return Err(AssembleError::ArrayTooLarge);
        }
        let chain = CodecChain::new(metadata)?;
        let bytes_max = block_bytes_max.min(BLOCK_BYTES_MAX);
        let block_chunks = block_chunks(metadata, &plan.source_chunk_shape, bytes_max);
        let block_grid: Vec<u64> = metadata
            .grid_shape()
            .iter()
            .zip(&block_chunks)
            .map(|(chunks, block)| chunks.div_ceil(*block))
            .collect();
        let block_count = product(1, &block_grid).ok_or(AssembleError::ArrayTooLarge)?;
        Ok(Self {
            path: plan.path.clone(),
            variable: plan.variable,
            metadata: metadata.clone(),
            chain,
            source_fill: plan.source_fill.clone(),
            source_chunk: plan.source_chunk_shape.clone(),
            block_chunks,
            block_grid,
            block_count,
        })
    }

    /// Number of blocks.
    pub fn block_count(&self) -> u64 {
        self.block_count
    }

    /// Shape of a whole block in elements.
    pub fn block_shape(&self) -> Vec<u64> {
        self.block_chunks
            .iter()
            .zip(&self.metadata.chunk_shape)
            .map(|(n, chunk)| n * chunk)
            .collect()
    }

    /// Source chunks of the whole array, whether allocated or not. Saturates.
    pub fn source_chunks(&self) -> u64 {
        let grid = self.metadata.shape.iter().zip(&self.source_chunk);
        grid.map(|(length, chunk)| length.div_ceil(*chunk)).fold(1, u64::saturating_mul)
    }

    /// How many times source chunks are decoded in total if all are allocated: equal to
    /// [`source_chunks`](Self::source_chunks) when each is decoded once. Saturates.
    pub fn decodes(&self) -> u64 {
        // Blocks are a product of ranges, so their counts are a product of sums.
        let dimensions = 0..self.block_grid.len();
        dimensions.map(|d| self.decodes_along(d)).fold(1, u64::saturating_mul)
    }

    /// Whether no source chunk lies in two blocks.
    pub fn decodes_once(&self) -> bool {
        self.decodes() == self.source_chunks()
    }

    /// Whether a block without any allocated source chunk consists of omitted chunks only.
    pub fn omits_unallocated(&self) -> bool {
        self.metadata.fill_value.as_ref() == Some(&self.source_fill)
    }

    /// Sum over the blocks along a dimension of the source chunks each meets: the number of source
    /// chunks plus the block boundaries that cut one.
    fn decodes_along(&self, dimension: usize) -> u64 {
        let length = self.metadata.shape[dimension];
        let source = self.source_chunk[dimension];
        let block = self.block_chunks[dimension] * self.metadata.chunk_shape[dimension];
        let boundaries = self.block_grid[dimension].saturating_sub(1);
        // Boundaries at multiples of `block`; every `period`-th is also a multiple of `source`.
        let period = source / gcd(source, block);
        length.div_ceil(source) + boundaries - boundaries / period
    }

    /// The position of a block in row-major order as an index.
    pub(super) fn block_index(&self, mut linear: u64) -> Vec<u64> {
        let mut index = vec![0; self.block_grid.len()];
        for (position, length) in index.iter_mut().zip(&self.block_grid).rev() {
            *position = linear % (*length).max(1);
            linear /= (*length).max(1);
        }
        index
    }

    /// The row-major position of a block.
    pub(super) fn block_linear(&self, index: &[u64]) -> u64 {
        // Below `block_count`, which has been computed.
        index.iter().zip(&self.block_grid).fold(0, |linear, (i, length)| linear * length + i)
    }

    /// The chunk indices of a block along a dimension.
    pub(super) fn chunks_of(&self, block: u64, dimension: usize) -> Range<u64> {
        let grid = self.metadata.shape[dimension].div_ceil(self.metadata.chunk_shape[dimension]);
        let start = block * self.block_chunks[dimension];
        start..(start + self.block_chunks[dimension]).min(grid)
    }

    /// The elements of a block that lie in the array, along a dimension.
    fn elements_of(&self, block: u64, dimension: usize) -> Range<u64> {
        let chunks = self.chunks_of(block, dimension);
        let chunk = self.metadata.chunk_shape[dimension];
        chunks.start * chunk..(chunks.end * chunk).min(self.metadata.shape[dimension])
    }

    /// The source chunks that a block meets along a dimension, as indices of the source's grid.
    fn source_chunks_along(&self, block: u64, dimension: usize) -> Range<u64> {
        let elements = self.elements_of(block, dimension);
        let chunk = self.source_chunk[dimension];
        elements.start / chunk..elements.end.div_ceil(chunk)
    }

    /// How many source chunks a block meets.
    pub(super) fn source_chunks_of(&self, block: &[u64]) -> u64 {
        let along = block.iter().enumerate().map(|(d, block)| self.source_chunks_along(*block, d));
        along.map(|range| range.end - range.start).product()
    }

    /// The row-major position of a source chunk among those that a block meets.
    pub(super) fn source_position(&self, block: &[u64], origin: &[u64]) -> u64 {
        block.iter().enumerate().fold(0, |position, (d, block)| {
            let met = self.source_chunks_along(*block, d);
            position * (met.end - met.start) + origin[d] / self.source_chunk[d] - met.start
        })
    }

    /// The blocks along a dimension that the source chunk at `origin` meets.
    pub(super) fn blocks_of(&self, origin: u64, dimension: usize) -> Range<u64> {
        let block = self.block_chunks[dimension] * self.metadata.chunk_shape[dimension];
        let end = (origin + self.source_chunk[dimension]).min(self.metadata.shape[dimension]);
        origin / block..end.div_ceil(block)
    }
}

/// How many target chunks a block has in each dimension; never zero.
fn block_chunks(metadata: &ArrayMetadata, source: &[u64], bytes_max: u64) -> Vec<u64> {
    let grid = metadata.grid_shape();
    let chunk_bytes = metadata.chunk_bytes().unwrap_or(u64::MAX);
    let bytes =
        |chunks: &[u64]| chunks.iter().fold(chunk_bytes, |bytes, n| bytes.saturating_mul(*n));
    let each = |count: fn(u64, u64) -> u64| -> Vec<u64> {
        let dimensions = metadata.chunk_shape.iter().zip(source).zip(&grid);
        dimensions.map(|((target, source), n)| count(*target, *source).min(*n).max(1)).collect()
    };
    // To where the grids meet next; then each source chunk is decoded once.
    let aligned = each(|target, source| source / gcd(source, target));
    if bytes(&aligned) <= bytes_max {
        return aligned;
    }
    let mut chunks = each(|target, source| source.div_ceil(target));
    while bytes(&chunks) > bytes_max {
        let Some(most) = chunks.iter_mut().max().filter(|most| **most > 1) else { break };
        *most = most.div_ceil(2);
    }
    chunks
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
