//! The chunk grid of an array.
//!
//! In this order: a coordinate along a growing dimension has chunks of [`COORDINATE_CHUNK`]
//! elements, any other 1-D coordinate is one chunk; with `--chunks` the named dimensions get
//! that length and the others their full extent; the source's own chunks stay when they hold 1 to
//! 128 MiB; else chunks hold about 16 MiB, whole in the innermost dimensions first, as multiples
//! or divisors of the source's chunks.
//!
//! Along a growing dimension chunks reach beyond the present length, since later files append
//! there, but at most to [`COORDINATE_CHUNK`] elements unless there are more already: the last
//! chunk is written again with each append.

use super::chunk_spec::{ChunkSpec, Extent};

const MIB: u64 = 1 << 20;
/// Source chunks below this many raw bytes are merged: each object costs a request.
const SOURCE_BYTES_MIN: u64 = MIB;
/// Source chunks above this many raw bytes are split: each reader must hold one.
pub(super) const SOURCE_BYTES_MAX: u64 = 128 * MIB;
/// Raw bytes of a chunk whose size is free: a request then moves more than it waits.
const TARGET_BYTES: u64 = 16 * MIB;
/// Elements in a chunk of a growing coordinate.
pub(super) const COORDINATE_CHUNK: u64 = 8192;

/// What the grid of a variable depends on. One entry for each dimension.
pub(super) struct Variable<'a> {
    /// Name of each dimension.
    pub dimensions: &'a [String],
    /// Present length.
    pub shape: &'a [u64],
    /// Whether the dimension can grow.
    pub growing: &'a [bool],
    /// The file's own chunks, where it has them; never zero.
    pub source_chunk: Option<&'a [u64]>,
    /// Bytes of an element.
    pub element_bytes: u64,
    /// Whether this is the 1-D variable that bears the name of its dimension.
    pub coordinate: bool,
}

/// The chunk shape, never zero.
pub(super) fn chunk_shape(variable: &Variable<'_>, chunks: &ChunkSpec) -> Vec<u64> {
    if variable.coordinate
        && let ([length], [growing]) = (variable.shape, variable.growing)
    {
        if *growing {
            return vec![COORDINATE_CHUNK];
        }
        if variable.bytes(&[*length]) <= SOURCE_BYTES_MAX {
            return vec![(*length).max(1)];
        }
    }
    if chunks.is_empty() { automatic(variable) } else { explicit(variable, chunks) }
}

fn explicit(variable: &Variable<'_>, chunks: &ChunkSpec) -> Vec<u64> {
    let dimensions = variable.dimensions.iter().zip(variable.shape).zip(variable.growing);
    dimensions
        .map(|((name, length), growing)| match chunks.extent(name) {
            None | Some(Extent::Full) => (*length).max(1),
            Some(Extent::Elements(elements)) if *growing => elements.get(),
            Some(Extent::Elements(elements)) => elements.get().min((*length).max(1)),
        })
        .collect()
}

fn automatic(variable: &Variable<'_>) -> Vec<u64> {
    let ones = vec![1; variable.shape.len()];
    let Some(source) = variable.source_chunk else { return merge(variable, ones) };
    let source: Vec<u64> = (0..source.len()).map(|d| source[d].min(variable.reach(d))).collect();
    match variable.bytes(&source) {
        bytes if bytes < SOURCE_BYTES_MIN => merge(variable, source),
        bytes if bytes > SOURCE_BYTES_MAX => split(variable, source),
        _ => source,
    }
}

/// Multiplies `base` from the innermost dimension outwards until a chunk is large enough.
fn merge(variable: &Variable<'_>, base: Vec<u64>) -> Vec<u64> {
    let mut chunk = base;
    for dimension in (0..chunk.len()).rev() {
        let (base, reach) = (chunk[dimension], variable.reach(dimension));
        let fitting = (TARGET_BYTES / variable.bytes(&chunk).max(1)).max(1);
        let present = reach.div_ceil(base);
        if fitting >= present {
            chunk[dimension] = reach;
            continue;
        }
        // Chunks of equal length rather than full ones and a small rest.
        let multiple = if variable.growing[dimension] {
            fitting
        } else {
            present.div_ceil(present.div_ceil(fitting))
        };
        chunk[dimension] = base.saturating_mul(multiple).min(reach);
        break;
    }
    chunk
}

/// Divides `source` from the outermost dimension inwards until a chunk is small enough.
fn split(variable: &Variable<'_>, source: Vec<u64>) -> Vec<u64> {
    let mut chunk = source;
    for dimension in 0..chunk.len() {
        let wanted = variable.bytes(&chunk).div_ceil(TARGET_BYTES);
        if wanted <= 1 {
            break;
        }
        chunk[dimension] /= divisor(chunk[dimension], wanted);
    }
    chunk
}

/// A divisor of `length` of at least `wanted`, if there is one not far above; else one that
/// leaves a rest. At most `length`.
fn divisor(length: u64, wanted: u64) -> u64 {
    if wanted >= length {
        return length.max(1);
    }
    let far = wanted.saturating_mul(2).min(length);
    (wanted..=far.min(wanted.saturating_add(10_000)))
        .find(|divisor| length.is_multiple_of(*divisor))
        .unwrap_or(wanted)
}

impl Variable<'_> {
    /// How far a chunk may reach along a dimension.
    fn reach(&self, dimension: usize) -> u64 {
        let least = if self.growing[dimension] { COORDINATE_CHUNK } else { 1 };
        self.shape[dimension].max(least)
    }

    /// Raw bytes of a chunk, saturating.
    fn bytes(&self, chunk: &[u64]) -> u64 {
        chunk.iter().fold(self.element_bytes, |bytes, length| bytes.saturating_mul(*length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(shape: &[u64], growing: &[bool], source: Option<&[u64]>, chunks: &str) -> Vec<u64> {
        let names: Vec<String> = ["time", "depth", "lat", "lon"][4 - shape.len()..]
            .iter()
            .map(|n| (*n).into())
            .collect();
        let variable = Variable {
            dimensions: &names,
            shape,
            growing,
            source_chunk: source,
            element_bytes: 4,
            coordinate: false,
        };
        chunk_shape(&variable, &chunks.parse().unwrap())
    }

    fn coordinate(length: u64, growing: bool, source: u64, chunks: &str) -> Vec<u64> {
        let variable = Variable {
            dimensions: &["time".to_owned()],
            shape: &[length],
            growing: &[growing],
            source_chunk: Some(&[source]),
            element_bytes: 8,
            coordinate: true,
        };
        chunk_shape(&variable, &chunks.parse().unwrap())
    }

    const F: bool = false;
    const T: bool = true;

    #[test]
    fn named_dimensions_get_their_length_and_others_their_extent() {
        let shape = [10, 5, 721, 1440];
        let growing = [T, F, F, F];
        assert_eq!(grid(&shape, &growing, None, "time=1,lat=256"), [1, 5, 256, 1440]);
        assert_eq!(grid(&shape, &growing, None, "time=100,lat=1000"), [100, 5, 721, 1440]);
        assert_eq!(grid(&shape, &growing, None, "lat=:"), [10, 5, 721, 1440]);
        assert_eq!(grid(&[0, 0], &[T, F], None, "lat=:"), [1, 1]);
    }

    #[test]
    fn source_chunks_of_a_good_size_stay() {
        let shape = [10, 5, 721, 1440];
        let source = [1, 1, 721, 1440];
        assert_eq!(grid(&shape, &[T, F, F, F], Some(&source), ""), source);
    }

    #[test]
    fn small_source_chunks_are_merged_to_multiples() {
        // 4 KiB chunks of 32 × 32.
        assert_eq!(grid(&[1024, 8192], &[F, F], Some(&[32, 32]), ""), [512, 8192]);
        let chunk = grid(&[100, 1000, 1000], &[T, F, F], Some(&[1, 100, 100]), "");
        assert_eq!(chunk, [4, 1000, 1000]);
        assert_eq!(grid(&[3, 3], &[F, F], Some(&[1, 1]), ""), [3, 3]);
    }

    #[test]
    fn large_source_chunks_are_split_evenly() {
        let chunk = grid(&[64, 1024, 1024], &[F, F, F], Some(&[64, 1024, 1024]), "");
        assert_eq!(chunk, [4, 1024, 1024]);
        assert_eq!(grid(&[1, 65536, 65536], &[F; 3], Some(&[1, 8192, 65536]), ""), [1, 64, 65536]);
    }

    #[test]
    fn without_chunks_in_the_file_a_chunk_holds_about_16_mib() {
        // 4.2 MB a step: four steps fit, and one file with one step plans for the next.
        assert_eq!(grid(&[1, 721, 1440], &[T, F, F], None, ""), [4, 721, 1440]);
        assert_eq!(grid(&[1, 721, 1440], &[F, F, F], None, ""), [1, 721, 1440]);
        // 20 pieces of at most 4: five chunks of four.
        assert_eq!(grid(&[20, 721, 1440], &[F, F, F], None, ""), [4, 721, 1440]);
        assert_eq!(grid(&[9, 721, 1440], &[F, F, F], None, ""), [3, 721, 1440]);
        assert_eq!(grid(&[], &[], None, ""), [0; 0]);
    }

    #[test]
    fn growing_dimensions_are_extended_but_not_endlessly() {
        assert_eq!(grid(&[3, 2], &[T, F], None, ""), [8192, 2]);
        assert_eq!(grid(&[3], &[T], Some(&[1_048_576]), ""), [8192]);
        assert_eq!(grid(&[100_000], &[T], Some(&[512]), ""), [100_000]);
        assert_eq!(grid(&[0, 10], &[T, F], None, ""), [8192, 10]);
    }

    #[test]
    fn coordinates_ignore_the_chunks_of_file_and_user() {
        assert_eq!(coordinate(3, true, 1, "time=1"), [8192]);
        assert_eq!(coordinate(3, true, 1_048_576, ""), [8192]);
        assert_eq!(coordinate(721, false, 10, "time=256"), [721]);
        assert_eq!(coordinate(0, false, 1, ""), [1]);
    }
}
