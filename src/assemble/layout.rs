//! How the chunks of sources and the chunks of an array lie over each other.
//!
//! Target chunks are built in **blocks**: boxes of whole target chunks, whose shape `blocks.rs` finds.
//!
//! Only chunks that change are built: those that take values of a file, and the last published one
//! of an array that grows. What they hold already is *retained*.

use std::collections::BTreeMap;
use std::ops::Range;

use super::AssembleError;
use super::blocks::{self, BlockLimits, Blocks, work_bytes};
use crate::plan::{ArrayTarget, Inexact, Part, Segment};
use crate::zarr::{ArrayMetadata, CodecChain, DataType, NodePath, product};

/// Longest dimension in elements: sums of two lengths stay far from the limits of 64 bits.
const LENGTH_MAX: u64 = 1 << 61;
/// Largest source chunk in bytes before encoding: the limit of HDF5.
const SOURCE_CHUNK_BYTES_MAX: u64 = u32::MAX as u64;

/// The geometry and the codecs of one array. All vectors have one entry for each dimension.
#[derive(Debug)]
pub struct Layout {
    pub(super) path: NodePath,
    pub(super) metadata: ArrayMetadata,
    pub(super) chain: CodecChain,
    pub(super) parts: Vec<PartLayout>,
    axis: usize,
    /// Ascending along the axis.
    segments: Vec<Segment>,
    published_length: u64,
    has_objects: bool,
    /// Chunks along the axis that are built; ascending, never touching.
    built: Vec<Range<u64>>,
    /// Target chunks of a block.
    block_chunks: Vec<u64>,
    /// Blocks of the array.
    block_grid: Vec<u64>,
    block_count: u64,
    /// See [`Layout::reads`].
    reads: f64,
    /// See [`Layout::work_bytes`]; each for one thread.
    decoding_bytes: u64,
    encoding_bytes: u64,
}

/// A part, and where its values go.
#[derive(Debug)]
pub(super) struct PartLayout {
    pub(super) part: Part,
    /// One element of what was never written, as the array holds it; an error if it cannot.
    pub(super) fill: Result<Vec<u8>, Inexact>,
    /// Its stretches of the axis, ascending in the source.
    segments: Vec<Segment>,
}

impl PartLayout {
    /// Bytes of a source chunk after decoding.
    pub(super) fn source_bytes(&self) -> u64 {
        let element = self.part.conversion.source_element_bytes() as u64;
        // The product was checked when the layout was made.
        self.part.source_chunk_shape.iter().fold(element, |bytes, n| bytes.saturating_mul(*n))
    }
}

impl Layout {
    /// The layout of an array with blocks of limited size.
    pub fn new(
        target: &ArrayTarget,
        limits: impl Into<BlockLimits>,
    ) -> Result<Self, AssembleError> {
        let metadata = &target.metadata;
        check(target)?;
        let chain = CodecChain::new(metadata)?;
        let Blocks { chunks: block_chunks, reads } = blocks::blocks(target, limits.into());
        let block_grid: Vec<u64> = metadata
            .grid_shape()
            .iter()
            .zip(&block_chunks)
            .map(|(chunks, block)| chunks.div_ceil(*block))
            .collect();
        let block_count = product(1, &block_grid).ok_or(AssembleError::ArrayTooLarge)?;
        let mut parts = Vec::with_capacity(target.parts.len());
        for part in &target.parts {
            let fill = part.conversion.convert_one(&part.source_fill);
            parts.push(PartLayout { part: part.clone(), fill, segments: Vec::new() });
        }
        for segment in &target.segments {
            parts[segment.part].segments.push(*segment);
        }
        for part in &mut parts {
            part.segments.sort_by_key(|segment| segment.source);
        }
        Ok(Self {
            path: target.path.clone(),
            metadata: metadata.clone(),
            chain,
            parts,
            axis: target.axis,
            segments: target.segments.clone(),
            published_length: target.published_length,
            has_objects: target.has_objects,
            built: built_chunks(target),
            block_chunks,
            block_grid,
            block_count,
            reads,
            decoding_bytes: work_bytes(target, 1, 0),
            encoding_bytes: work_bytes(target, 0, 1),
        })
    }

    /// How often a source chunk is decoded, on average.
    pub fn reads(&self) -> f64 {
        self.reads
    }

    /// Memory in bytes for so many threads that decode, or then encode, besides the target chunks.
    pub(super) fn work_bytes(&self, decoding: usize, encoding: usize) -> u64 {
        let decoding = self.decoding_bytes.saturating_mul(decoding as u64);
        decoding.max(self.encoding_bytes.saturating_mul(encoding as u64))
    }

    /// Number of blocks, whether anything in them is built or not.
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

    /// Whether a block without any allocated source chunk needs nothing to be done: all its chunks
    /// would be omitted, and no object can lie under their keys.
    pub fn omits_unallocated(&self) -> bool {
        let fill = self.metadata.fill_value.as_ref();
        !self.has_objects
            && self.parts.iter().all(|part| fill == part.fill.as_ref().ok())
            && fill.is_some()
    }

    /// Whether objects may lie under the keys of chunks.
    pub(super) fn has_objects(&self) -> bool {
        self.has_objects
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

    /// The first block from `linear` on in which something is built.
    pub(super) fn next_built_block(&self, linear: u64) -> Option<u64> {
        if linear >= self.block_count {
            return None;
        }
        let Some(blocks) = self.block_grid.get(self.axis) else { return Some(linear) };
        let inner: u64 = self.block_grid[self.axis + 1..].iter().product();
        let (row, position) = (linear / inner / blocks, linear / inner % blocks);
        if self.builds_in(position) {
            return Some(linear);
        }
        let chunks = self.block_chunks[self.axis];
        let later = |from: u64| {
            let next = self.built.partition_point(|range| range.end <= from * chunks);
            self.built.get(next).map(|range| (range.start / chunks).max(from))
        };
        let (row, position) = match later(position + 1) {
            Some(position) => (row, position),
            None => (row + 1, later(0)?),
        };
        let next = (row * blocks + position) * inner;
        (next < self.block_count).then_some(next)
    }

    /// Whether anything is built in a block that stands here along the axis.
    fn builds_in(&self, position: u64) -> bool {
        let chunks = self.chunks_of(position, self.axis);
        let next = self.built.partition_point(|range| range.end <= chunks.start);
        self.built.get(next).is_some_and(|range| range.start < chunks.end)
    }

    /// Whether a chunk is built.
    pub(super) fn builds(&self, chunk: &[u64]) -> bool {
        let Some(position) = chunk.get(self.axis) else { return true };
        let next = self.built.partition_point(|range| range.end <= *position);
        self.built.get(next).is_some_and(|range| range.start <= *position)
    }

    /// How many elements along the axis a chunk keeps from what is published, unless files give all
    /// of them: 0 when nothing of it is retained.
    pub(super) fn retained(&self, chunk: &[u64]) -> u64 {
        let Some(position) = chunk.get(self.axis) else { return 0 };
        let length = self.metadata.chunk_shape[self.axis];
        let start = position * length;
        let end = self.published_length.min(start + length);
        if end <= start {
            return 0;
        }
        let given: u64 = self.segments_in(start..end).map(|segment| segment.length).sum();
        if given == end - start { 0 } else { end - start }
    }

    /// The dimension along which parts stand.
    pub(super) fn axis(&self) -> usize {
        self.axis
    }

    /// The chunk indices of a block along a dimension.
    pub(super) fn chunks_of(&self, block: u64, dimension: usize) -> Range<u64> {
        let grid = self.metadata.shape[dimension].div_ceil(self.metadata.chunk_shape[dimension]);
        let start = block * self.block_chunks[dimension];
        start..(start + self.block_chunks[dimension]).min(grid)
    }

    /// The elements of a block that lie in the array, along a dimension.
    pub(super) fn elements_of(&self, block: u64, dimension: usize) -> Range<u64> {
        let chunks = self.chunks_of(block, dimension);
        let chunk = self.metadata.chunk_shape[dimension];
        chunks.start * chunk..(chunks.end * chunk).min(self.metadata.shape[dimension])
    }

    /// The segments that meet a range of the axis, cut to it.
    pub(super) fn segments_in(&self, range: Range<u64>) -> impl Iterator<Item = Segment> + '_ {
        let first = self.segments.partition_point(|s| s.target + s.length <= range.start);
        let end = range.end;
        let met = self.segments[first..].iter().take_while(move |s| s.target < end);
        met.filter_map(move |segment| cut(segment, &range))
    }

    /// The segments of a part that take values from `source` indices and lie in `range` of the axis,
    /// cut to that range.
    pub(super) fn segments_of_part(
        &self,
        part: usize,
        source: Range<u64>,
        range: Range<u64>,
    ) -> impl Iterator<Item = Segment> + '_ {
        let segments = &self.parts[part].segments;
        let first = segments.partition_point(|s| s.source + s.length <= source.start);
        let met = segments[first..].iter().take_while(move |s| s.source < source.end);
        met.filter_map(move |segment| cut(segment, &range))
    }

    /// The segments of a block, cut to it.
    pub(super) fn segments_of(&self, block: &[u64]) -> Vec<Segment> {
        match block.get(self.axis) {
            Some(position) => self.segments_in(self.elements_of(*position, self.axis)).collect(),
            None => self.segments.clone(),
        }
    }

    /// How many source chunks a block meets.
    pub(super) fn source_chunks_of(&self, block: &[u64]) -> u64 {
        // Along the axis: distinct chunks of each part. Segments of one part ascend, so that only
        // the last chunk can be met again.
        let mut along_axis: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for segment in self.segments_of(block) {
            let length = self.parts[segment.part]
                .part
                .source_chunk_shape
                .get(self.axis)
                .copied()
                .unwrap_or(1);
            let (count, next) = along_axis.entry(segment.part).or_default();
            let first = (segment.source / length).max(*next);
            let end = (segment.source + segment.length).div_ceil(length);
            *count += end.saturating_sub(first);
            *next = end.max(*next);
        }
        let of_part = |(part, (count, _)): (usize, (u64, u64))| {
            let part = &self.parts[part].part;
            let others = (0..block.len()).filter(|d| *d != self.axis).map(|d| {
                let elements = self.elements_of(block[d], d);
                let chunk = part.source_chunk_shape[d];
                elements.end.div_ceil(chunk) - elements.start / chunk
            });
            others.fold(count, u64::saturating_mul)
        };
        along_axis.into_iter().map(of_part).sum()
    }

    /// The blocks along a dimension that the chunk of a part at `origin` meets, as ranges.
    pub(super) fn blocks_of(&self, part: usize, origin: u64, dimension: usize) -> Vec<Range<u64>> {
        let block = self.block_chunks[dimension] * self.metadata.chunk_shape[dimension];
        let PartLayout { part, segments, .. } = &self.parts[part];
        let end = (origin + part.source_chunk_shape[dimension]).min(part.shape[dimension]);
        if dimension != self.axis {
            return std::iter::once(origin / block..end.div_ceil(block)).collect();
        }
        let first = segments.partition_point(|s| s.source + s.length <= origin);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for segment in segments[first..].iter().take_while(|segment| segment.source < end) {
            let from = segment.target + origin.saturating_sub(segment.source);
            let to = segment.target + (end - segment.source).min(segment.length);
            let (from, to) = (from / block, to.div_ceil(block));
            match ranges.last_mut() {
                // Segments of a part ascend in the target too.
                Some(last) if from < last.end => last.end = last.end.max(to),
                _ => ranges.push(from..to),
            }
        }
        ranges
    }
}

/// The part of a segment in `range` of the target.
fn cut(segment: &Segment, range: &Range<u64>) -> Option<Segment> {
    let start = segment.target.max(range.start);
    let end = (segment.target + segment.length).min(range.end);
    (start < end).then(|| Segment {
        target: start,
        source: segment.source + (start - segment.target),
        length: end - start,
        part: segment.part,
    })
}

fn check(target: &ArrayTarget) -> Result<(), AssembleError> {
    let metadata = &target.metadata;
    let rank = metadata.shape.len();
    let element = metadata.data_type.size();
    let is_text = metadata.data_type == DataType::String;
    let fits = |fill: &Vec<u8>| is_text || fill.len() == element;
    let chunks_fit = metadata.chunk_shape.len() == rank
        && !metadata.chunk_shape.contains(&0)
        && metadata.fill_value.as_ref().is_none_or(fits)
        && (target.axis < rank || rank == 0);
    if !chunks_fit {
        return Err(AssembleError::Inconsistent);
    }
    if metadata.shape.iter().any(|length| *length > LENGTH_MAX) {
        return Err(AssembleError::ArrayTooLarge);
    }
    for part in &target.parts {
        let same_shape = part.shape.len() == rank
            && (0..rank).all(|d| d == target.axis || part.shape[d] == metadata.shape[d]);
        let fits = same_shape
            && part.source_chunk_shape.len() == rank
            && !part.source_chunk_shape.contains(&0)
            && part.shape.iter().all(|length| *length <= LENGTH_MAX);
        if !fits {
            return Err(AssembleError::Inconsistent);
        }
        let element = part.conversion.source_element_bytes() as u64;
        let bytes = part
            .source_chunk_shape
            .iter()
            .try_fold(element, |bytes, length| bytes.checked_mul(*length));
        if bytes.is_none_or(|bytes| bytes > SOURCE_CHUNK_BYTES_MAX) {
            return Err(AssembleError::SourceChunkTooLarge);
        }
    }
    let length = metadata.shape.get(target.axis).copied().unwrap_or(1);
    let mut end = 0;
    for segment in &target.segments {
        let part = target.parts.get(segment.part).ok_or(AssembleError::Inconsistent)?;
        let available = part.shape.get(target.axis).copied().unwrap_or(1);
        let inside = segment.target >= end
            && segment.target.checked_add(segment.length).is_some_and(|end| end <= length)
            && segment.source.checked_add(segment.length).is_some_and(|end| end <= available);
        if !inside {
            return Err(AssembleError::Inconsistent);
        }
        end = segment.target + segment.length;
    }
    if target.published_length > length { Err(AssembleError::Inconsistent) } else { Ok(()) }
}

/// The chunks along the axis that are built.
fn built_chunks(target: &ArrayTarget) -> Vec<Range<u64>> {
    let metadata = &target.metadata;
    let (Some(length), Some(chunk)) =
        (metadata.shape.get(target.axis), metadata.chunk_shape.get(target.axis))
    else {
        return std::iter::once(0..1).collect();
    };
    let mut ranges: Vec<Range<u64>> = target
        .segments
        .iter()
        .filter(|segment| segment.length > 0)
        .map(|s| s.target / chunk..(s.target + s.length).div_ceil(*chunk))
        .collect();
    let published = target.published_length;
    if published < *length {
        // What lies behind the published end in its chunk may be anything: it is written again. The
        // rest is new; no object may be left there from an epoch that was given up.
        if target.has_objects || metadata.fill_value.is_none() {
            ranges.push(published / chunk..length.div_ceil(*chunk));
        }
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
