//! Blocks of target chunks beside the values of a file that lie in them. Blocks on the disk.

use std::ops::Range;

use super::outcome::Outcome;
use super::positions::Positions;
use crate::ingest::reading;
use crate::netcdf::{ChunkLocation, NetcdfFile};
use crate::plan::join::{Difference, compare as difference};
use crate::plan::{ArrayPlan, Conversion};
use crate::zarr::region::{self, for_each_index};
use crate::zarr::{ArrayMetadata, CodecChain, DataType, Kind, fill_value_to_json};

/// A box of target chunks, and the steps of the file that lie in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// Chunk indices in each dimension.
    pub(super) grid: Vec<Range<u64>>,
    /// Steps of the file in each dimension.
    pub(super) steps: Vec<Range<u64>>,
}

/// Values of a file in the encoding of the dataset.
#[derive(Debug)]
pub(super) enum Window {
    /// Little-endian elements in C order.
    Elements(Vec<u8>),
    /// Texts in C order.
    Texts(Vec<String>),
}

impl Block {
    /// Elements of the file in it.
    pub(super) fn elements(&self) -> u64 {
        self.steps.iter().map(|steps| steps.end - steps.start).fold(1, u64::saturating_mul)
    }

    /// The indices of its chunks.
    pub(super) fn chunks(&self) -> Vec<Vec<u64>> {
        let mut chunks = Vec::new();
        for_each_index(&self.grid, |index| chunks.push(index.to_vec()));
        chunks
    }
}

/// All blocks in which values of the file lie. Each is as long as a source chunk and as a target
/// chunk in every dimension, or shorter where it would not fit into `bytes_max`.
pub(super) fn blocks(
    positions: &[Positions],
    source_chunk: &[u64],
    target_chunk: &[u64],
    element_bytes: u64,
    bytes_max: u64,
) -> Vec<Block> {
    if positions.iter().any(|along| along.len() == 0) {
        return Vec::new();
    }
    let spans: Vec<Range<u64>> = positions
        .iter()
        .zip(target_chunk)
        .map(|(along, chunk)| {
            let span = along.span();
            span.start / chunk..span.end.div_ceil(*chunk)
        })
        .collect();
    let mut lengths: Vec<u64> = source_chunk
        .iter()
        .zip(target_chunk)
        .zip(&spans)
        .map(|((source, target), span)| source.div_ceil(*target).clamp(1, span.end - span.start))
        .collect();
    let bytes = |lengths: &[u64]| {
        lengths.iter().zip(target_chunk).fold(element_bytes, |bytes, (length, chunk)| {
            bytes.saturating_mul(length.saturating_mul(*chunk))
        })
    };
    while bytes(&lengths) > bytes_max {
        match lengths.iter_mut().max() {
            Some(longest) if *longest > 1 => *longest = longest.div_ceil(2),
            _ => break,
        }
    }
    let counts: Vec<Range<u64>> = spans
        .iter()
        .zip(&lengths)
        .map(|(span, length)| 0..(span.end - span.start).div_ceil(*length))
        .collect();
    let mut blocks = Vec::new();
    for_each_index(&counts, |at| {
        let grid: Vec<Range<u64>> = (0..at.len())
            .map(|d| {
                let start = spans[d].start + at[d] * lengths[d];
                start..(start + lengths[d]).min(spans[d].end)
            })
            .collect();
        let steps: Vec<Range<u64>> = (0..at.len())
            .map(|d| positions[d].steps_in(&places(&grid[d], target_chunk[d])))
            .collect();
        if !steps.iter().any(Range::is_empty) {
            blocks.push(Block { grid, steps });
        }
    });
    blocks
}

/// The elements of chunks along one dimension.
fn places(chunks: &Range<u64>, length: u64) -> Range<u64> {
    chunks.start.saturating_mul(length)..chunks.end.saturating_mul(length)
}

/// Reads values of the file and converts them to what the dataset holds.
pub(super) fn read(
    file: &NetcdfFile,
    plan: &ArrayPlan,
    locations: &[ChunkLocation],
    steps: &[Range<u64>],
    conversion: &Conversion,
) -> Result<Window, String> {
    if plan.metadata.data_type == DataType::String {
        let texts = reading::texts_in(file, plan, locations, steps);
        return texts.map(Window::Texts).map_err(|error| error.to_string());
    }
    let elements = reading::elements_in(file, plan, locations, steps);
    let elements = elements.map_err(|error| error.to_string())?;
    if conversion.is_identity() {
        return Ok(Window::Elements(elements));
    }
    let mut converted = Vec::new();
    conversion.apply(&elements, &mut converted).map_err(|error| error.to_string())?;
    Ok(Window::Elements(converted))
}

/// One target chunk beside the values of the file.
pub(super) struct Comparing<'a> {
    pub(super) array: &'a ArrayMetadata,
    pub(super) chain: &'a CodecChain,
    /// `None` if it is omitted.
    pub(super) object: Option<&'a [u8]>,
    pub(super) index: &'a [u64],
    pub(super) positions: &'a [Positions],
    pub(super) window: &'a Window,
    pub(super) block: &'a Block,
    pub(super) tolerant: bool,
}

/// Compares every value of the file that lies in the chunk.
pub(super) fn compare(this: &Comparing<'_>) -> Result<Outcome, String> {
    let mut outcome = Outcome::default();
    match this.window {
        Window::Elements(window) => {
            let chunk = elements_of(this)?;
            let size = this.array.data_type.size();
            this.for_each_run(|step, here, there, length| {
                let bytes = |at: usize| at * size..(at + length) * size;
                let (here, there) = (window.get(bytes(here)), chunk.get(bytes(there)));
                compare_run(this, step, here, there, length, &mut outcome);
            });
        }
        Window::Texts(window) => {
            let chunk = texts_of(this)?;
            this.for_each_run(|step, here, there, length| {
                for item in 0..length {
                    let (here, there) = (window.get(here + item), chunk.get(there + item));
                    outcome.values += 1;
                    if here.is_none() || here != there {
                        outcome.different += 1;
                        outcome.first.get_or_insert_with(|| sentence(step, item, here, there));
                    }
                }
            });
        }
    }
    Ok(outcome)
}

fn elements_of(this: &Comparing<'_>) -> Result<Vec<u8>, String> {
    match (this.object, &this.array.fill_value) {
        (Some(object), _) => this.chain.decode(object).map_err(|error| error.to_string()),
        (None, Some(fill)) => {
            let count = region::lengths(&this.array.chunk_shape).iter().product();
            Ok(region::filled(fill, count))
        }
        (None, None) => Err("it is missing".to_owned()),
    }
}

fn texts_of(this: &Comparing<'_>) -> Result<Vec<String>, String> {
    match (this.object, &this.array.fill_value) {
        (Some(object), _) => this.chain.decode_texts(object).map_err(|error| error.to_string()),
        (None, Some(fill)) => {
            let count = region::lengths(&this.array.chunk_shape).iter().product();
            Ok(vec![String::from_utf8_lossy(fill).into_owned(); count])
        }
        (None, None) => Err("it is missing".to_owned()),
    }
}

impl Comparing<'_> {
    /// Calls `visit` with the first step, its place in the window and in the chunk, and the length of
    /// every run of elements that follow each other in both.
    fn for_each_run(&self, mut visit: impl FnMut(&[u64], usize, usize, usize)) {
        let chunk_shape = &self.array.chunk_shape;
        let ranges: Vec<Range<u64>> = (0..self.index.len())
            .map(|d| {
                let chunk = self.index[d]..self.index[d] + 1;
                self.positions[d].steps_in(&places(&chunk, chunk_shape[d]))
            })
            .collect();
        let Some((inner, outer)) = ranges.split_last() else {
            visit(&[], 0, 0, 1);
            return;
        };
        let last = outer.len();
        let is_run = matches!(self.positions[last], Positions::Run { .. });
        let inner_length = region::length(inner.end.saturating_sub(inner.start));
        let (runs, length) = if is_run { (1, inner_length) } else { (inner_length, 1) };
        if length == 0 {
            return;
        }
        let mut step = vec![0; ranges.len()];
        for_each_index(outer, |at| {
            step[..last].copy_from_slice(at);
            for run in 0..runs {
                step[last] = inner.start + run as u64;
                let (mut here, mut there) = (0, 0);
                for d in 0..=last {
                    let window = &self.block.steps[d];
                    let place = self.positions[d].place(step[d]);
                    here = here * (window.end - window.start) + step[d] - window.start;
                    there = there * chunk_shape[d] + place - self.index[d] * chunk_shape[d];
                }
                visit(&step, region::length(here), region::length(there), length);
            }
        });
    }
}

fn compare_run(
    this: &Comparing<'_>,
    step: &[u64],
    here: Option<&[u8]>,
    there: Option<&[u8]>,
    length: usize,
    outcome: &mut Outcome,
) {
    outcome.values += length as u64;
    let (Some(here), Some(there)) = (here, there) else {
        outcome.different += length as u64;
        return;
    };
    if here == there {
        return;
    }
    let data_type = this.array.data_type;
    let elements = here.chunks_exact(data_type.size()).zip(there.chunks_exact(data_type.size()));
    for (item, (here, there)) in elements.enumerate().filter(|(_, (here, there))| here != there) {
        match difference(data_type, here, there) {
            // Both zeros are equal, and all that is no number, whatever else the bits say.
            Difference::None | Difference::Tolerable(0.0) => continue,
            Difference::Tolerable(_) if this.tolerant && data_type.kind() == Kind::Float => {
                outcome.tolerable += 1;
                continue;
            }
            Difference::Tolerable(_) | Difference::Different(_) => {}
        }
        outcome.different += 1;
        outcome.first.get_or_insert_with(|| {
            let text = |bytes: &[u8]| {
                fill_value_to_json(data_type, bytes).map(|value| value.to_string()).ok()
            };
            sentence(step, item, text(here), text(there))
        });
    }
}

fn sentence<T: AsRef<str>>(step: &[u64], item: usize, here: Option<T>, there: Option<T>) -> String {
    let mut step = step.to_vec();
    if let Some(last) = step.last_mut() {
        *last += item as u64;
    }
    let text =
        |value: Option<T>| value.map_or_else(|| "none".to_owned(), |v| v.as_ref().to_owned());
    format!("at {step:?}: the file has {}, the dataset {}", text(here), text(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_every_step_once_and_hold_whole_source_chunks() {
        let positions = [Positions::Run { first: 5, length: 20 }, Positions::same(7)];
        let all = blocks(&positions, &[6, 7], &[4, 3], 1, u64::MAX);
        let mut seen = vec![0; 20 * 7];
        for block in &all {
            for_each_index(&block.steps, |at| seen[region::length(at[0] * 7 + at[1])] += 1);
        }
        assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
        assert_eq!(all[0].grid, [1..3, 0..3]);
        // A block shrinks to what memory holds, but never below one chunk.
        let small = blocks(&positions, &[6, 7], &[4, 3], 1, 12);
        assert!(small.iter().all(|block| block.chunks().len() == 1));
        assert!(blocks(&[Positions::same(0)], &[1], &[1], 1, 9).is_empty());
        let scalar = blocks(&[], &[], &[], 8, 100);
        assert_eq!(scalar, [Block { grid: vec![], steps: vec![] }]);
    }
}
