//! How many target chunks are built together.
//!
//! A block is a box of whole target chunks. A source chunk that lies in several blocks is decoded by
//! each of them: once for every block boundary that cuts it, dimension by dimension. So for each
//! dimension there is a list of block lengths, each longer than the one before and with fewer cuts.
//! The lists are combined to the boxes that fit into memory, and the smallest is taken whose cuts
//! are about as few as can be.
//!
//! Small blocks are preferred, so that several are in work at once. One that takes most of the
//! memory is used where it saves decoding: then its parts are worked on side by side.

use std::ops::Range;

use super::block::encoded_bytes_max;
use crate::plan::{ArrayTarget, Segment};

/// Largest block in bytes: its elements are counted without overflow.
const BLOCK_BYTES_MAX: u64 = 1 << 40;

/// A block usually takes one part in so many of the memory.
const USUAL_PARTS: u64 = 8;

/// A large block leaves one part in so many of the memory to others.
const LARGE_PARTS_LEFT: u64 = 4;

/// Buffers of the size of a source chunk for each thread that decodes: what is stored, what is
/// between two filters, and the elements.
const DECODING_BUFFERS: u64 = 3;

/// Decoding so many times as much as at best is as good.
const ABOUT: f64 = 1.05;

/// A larger block has to save this share of the decoding.
const WORTHWHILE: f64 = 0.9;

/// Boxes that are looked at after each dimension.
const BOXES_MAX: usize = 256;

/// Block boundaries that are looked at for each stretch of a file, before it is taken that the others
/// are like them.
const BOUNDARIES_MAX: u64 = 512;

/// How many bytes a block may have before encoding. One target chunk may always be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLimits {
    /// Usually.
    pub usual: u64,
    /// Where that saves decoding.
    pub most: u64,
}

impl BlockLimits {
    /// The limits for an array when `memory` bytes are for chunks and so many threads decode and
    /// encode.
    pub fn of(target: &ArrayTarget, memory: u64, threads: usize) -> Self {
        let work = work_bytes(target, threads, threads);
        let left = memory.saturating_sub(work);
        Self { usual: memory / USUAL_PARTS, most: left - left / LARGE_PARTS_LEFT }
    }
}

impl From<u64> for BlockLimits {
    fn from(bytes: u64) -> Self {
        Self { usual: bytes, most: bytes }
    }
}

/// The blocks of an array.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Blocks {
    /// Target chunks in each dimension; never zero.
    pub(super) chunks: Vec<u64>,
    /// How often a source chunk is decoded, on average.
    pub(super) reads: f64,
}

/// What it takes to decode an array's source chunks about once, where memory does not allow it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rereading {
    /// How often a source chunk is decoded, on average.
    pub times: f64,
    /// Memory in bytes with which it would be about once.
    pub bytes_for_once: u64,
}

/// Whether source chunks are decoded more than about `times_max` times with so much memory.
pub fn rereading(
    target: &ArrayTarget,
    memory: u64,
    threads: usize,
    times_max: f64,
) -> Option<Rereading> {
    let boxes = boxes(target);
    let limits = BlockLimits::of(target, memory, threads);
    let times = choose(&boxes, limits).reads;
    if times <= times_max {
        return None;
    }
    let once = fewest(&boxes, u64::MAX)?;
    // So much that the block is among the large ones.
    let left = once.bytes.saturating_add(once.bytes.div_ceil(LARGE_PARTS_LEFT - 1));
    let bytes_for_once = left.saturating_add(work_bytes(target, threads, threads));
    Some(Rereading { times, bytes_for_once })
}

/// The largest chunk shape like that of the array whose source chunks are decoded at most about
/// `times_max` times: shorter where a target chunk reaches furthest beyond a source chunk.
pub fn fitting_chunk(
    target: &ArrayTarget,
    memory: u64,
    threads: usize,
    times_max: f64,
) -> Option<Vec<u64>> {
    let mut fitting = target.clone();
    let source = source_chunk(target);
    while rereading(&fitting, memory, threads, times_max).is_some() {
        // In source chunks, of which at least one stays.
        let chunk = &mut fitting.metadata.chunk_shape;
        let spans = chunk.iter().zip(&source).map(|(chunk, source)| chunk.div_ceil(*source));
        let (longest, span) = spans.enumerate().max_by_key(|(_, span)| *span)?;
        if span <= 1 {
            return None;
        }
        chunk[longest] = (span / 2) * source[longest];
    }
    Some(fitting.metadata.chunk_shape)
}

/// Memory in bytes that is needed besides the target chunks before encoding, with so many threads that
/// decode or then encode.
pub(super) fn work_bytes(target: &ArrayTarget, decoding: usize, encoding: usize) -> u64 {
    let part_bytes = target.parts.iter().map(|part| {
        let elements =
            part.source_chunk_shape.iter().fold(1, |n: u64, length| n.saturating_mul(*length));
        let source = elements.saturating_mul(part.conversion.source_element_bytes() as u64);
        let converted = if part.conversion.is_identity() {
            0
        } else {
            elements.saturating_mul(target.metadata.data_type.size() as u64)
        };
        source.saturating_mul(DECODING_BUFFERS).saturating_add(converted)
    });
    let decoded = part_bytes.max().unwrap_or(0);
    let encoded = encoded_bytes_max(target.metadata.chunk_bytes().unwrap_or(u64::MAX), 1);
    decoded.saturating_mul(decoding as u64).max(encoded.saturating_mul(encoding as u64))
}

/// The blocks of an array.
pub(super) fn blocks(target: &ArrayTarget, limits: BlockLimits) -> Blocks {
    choose(&boxes(target), limits)
}

/// A possible block.
#[derive(Debug, Clone)]
struct Candidate {
    bytes: u64,
    reads: f64,
    chunks: Vec<u64>,
}

fn choose(boxes: &[Candidate], limits: BlockLimits) -> Blocks {
    let usual = fewest(boxes, limits.usual.min(BLOCK_BYTES_MAX));
    let large = fewest(boxes, limits.most.min(BLOCK_BYTES_MAX));
    let chosen = match (usual, large) {
        (Some(usual), Some(large)) if large.reads < usual.reads * WORTHWHILE => Some(large),
        (Some(usual), _) => Some(usual),
        (None, large) => large,
    };
    // One target chunk is always built.
    let chosen = chosen.or_else(|| boxes.iter().min_by_key(|candidate| candidate.bytes));
    chosen.map_or_else(
        || Blocks { chunks: Vec::new(), reads: 1.0 },
        |it| Blocks { chunks: it.chunks.clone(), reads: it.reads },
    )
}

/// The smallest of at most so many bytes with about as few cuts as any of them.
fn fewest(boxes: &[Candidate], bytes_max: u64) -> Option<&Candidate> {
    let fitting = || boxes.iter().filter(|candidate| candidate.bytes <= bytes_max);
    let best = fitting().map(|candidate| candidate.reads).min_by(f64::total_cmp)?;
    fitting().filter(|it| it.reads <= best * ABOUT).min_by_key(|candidate| candidate.bytes)
}

/// Boxes of which none is both larger and cut more often than another.
fn boxes(target: &ArrayTarget) -> Vec<Candidate> {
    let grid = target.metadata.grid_shape();
    let chunk_bytes = target.metadata.chunk_bytes().unwrap_or(u64::MAX);
    let mut boxes = vec![Candidate { bytes: chunk_bytes, reads: 1.0, chunks: Vec::new() }];
    for (dimension, chunks) in grid.into_iter().enumerate() {
        let lengths = block_lengths(target, dimension, chunks.max(1));
        let longer = |outer: &Candidate| {
            let each = lengths.iter().map(|(length, reads)| Candidate {
                bytes: outer.bytes.saturating_mul(*length),
                reads: outer.reads * reads,
                chunks: [outer.chunks.as_slice(), &[*length]].concat(),
            });
            each.collect::<Vec<_>>()
        };
        boxes = without_worse(boxes.iter().flat_map(longer).collect());
    }
    boxes
}

fn without_worse(mut boxes: Vec<Candidate>) -> Vec<Candidate> {
    boxes.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(a.reads.total_cmp(&b.reads)));
    let mut fewest = f64::INFINITY;
    boxes.retain(|candidate| {
        let is_better = candidate.reads < fewest;
        fewest = fewest.min(candidate.reads);
        is_better
    });
    // The smallest and the largest stay.
    while boxes.len() > BOXES_MAX {
        let last = boxes.len() - 1;
        let mut position = 0;
        boxes.retain(|_| {
            position += 1;
            position == 1 || position % 2 == 0 || position == last + 1
        });
    }
    boxes
}

/// Block lengths in target chunks, ascending, with how often a source chunk is decoded because of
/// boundaries across this dimension: descending.
fn block_lengths(target: &ArrayTarget, dimension: usize, grid: u64) -> Vec<(u64, f64)> {
    let chunk = target.metadata.chunk_shape[dimension];
    let source = source_chunk(target)[dimension];
    let meeting = source / gcd(source, chunk);
    let mut lengths: Vec<u64> = (1..=16).collect();
    lengths.extend((0..48).map(|power| 1 << power));
    lengths.extend((0..32).map(|power| meeting.saturating_mul(1 << power)));
    lengths.extend((1..=64).map(|parts| grid.div_ceil(parts)));
    lengths.retain(|length| *length >= 1 && *length <= grid);
    lengths.sort_unstable();
    lengths.dedup();
    let mut best = f64::INFINITY;
    let mut kept = Vec::new();
    for length in lengths {
        let reads = reads(target, dimension, length.saturating_mul(chunk));
        if reads < best {
            best = reads;
            kept.push((length, reads));
        }
        if reads <= 1.0 {
            break;
        }
    }
    kept
}

/// How often a source chunk is decoded, on average, because of block boundaries every `block` elements
/// along a dimension.
#[allow(clippy::cast_precision_loss, reason = "a ratio of counts")]
fn reads(target: &ArrayTarget, dimension: usize, block: u64) -> f64 {
    let (mut chunks, mut cuts) = (0, 0);
    let mut add = |stretch: &Segment| {
        let source = target
            .parts
            .get(stretch.part)
            .and_then(|part| part.source_chunk_shape.get(dimension))
            .map_or(1, |length| (*length).max(1));
        let end = stretch.source + stretch.length;
        chunks += end.div_ceil(source) - stretch.source / source;
        cuts += boundaries_inside(stretch, block, source);
    };
    if dimension == target.axis {
        target.segments.iter().filter(|segment| segment.length > 0).for_each(&mut add);
    } else {
        let length = target.metadata.shape[dimension];
        for part in 0..target.parts.len() {
            add(&Segment { target: 0, source: 0, length, part });
        }
    }
    if chunks == 0 { 1.0 } else { (chunks + cuts) as f64 / chunks as f64 }
}

/// How many block boundaries lie inside a source chunk of a stretch.
fn boundaries_inside(stretch: &Segment, block: u64, source: u64) -> u64 {
    if source == 1 {
        return 0;
    }
    let Range { start, end } = stretch.target..stretch.target + stretch.length;
    let (first, last) = (start / block + 1, end.div_ceil(block));
    let all = last.saturating_sub(first);
    if stretch.target == stretch.source {
        // Those at multiples of both are between two source chunks.
        let period = source / gcd(source, block);
        return all - (last.saturating_sub(1) / period - (first - 1) / period).min(all);
    }
    let seen = all.min(BOUNDARIES_MAX);
    let inside = (first..first + seen)
        .filter(|boundary| !(boundary * block - start + stretch.source).is_multiple_of(source))
        .count() as u64;
    if seen == all { inside } else { inside * (all / seen) }
}

/// The longest of the parts' chunks in each dimension.
fn source_chunk(target: &ArrayTarget) -> Vec<u64> {
    let longest = |d: usize| target.parts.iter().map(|part| part.source_chunk_shape[d]).max();
    (0..target.metadata.shape.len()).map(|d| longest(d).unwrap_or(1).max(1)).collect()
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
