//! Boxes of elements inside chunk buffers: copy, fill, compare.
//!
//! Buffers are in C order. Callers guarantee that boxes lie inside the buffers they name: they
//! check shapes once and the length of every buffer they did not make, so that indexing cannot
//! fail here.

use std::borrow::Cow;
use std::ops::Range;

/// A box inside a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region<'a> {
    /// Shape of the whole buffer in elements.
    pub(crate) shape: &'a [usize],
    /// First element of the box in each dimension.
    pub(crate) start: &'a [usize],
}

/// `count` copies of one element.
pub(crate) fn filled<T: Copy + PartialEq>(element: &[T], count: usize) -> Vec<T> {
    let total = element.len() * count;
    match element {
        [first, rest @ ..] if rest.iter().all(|item| item == first) => vec![*first; total],
        element => {
            let mut buffer = Vec::with_capacity(total);
            buffer.extend_from_slice(element);
            while buffer.len() < total {
                buffer.extend_from_within(..buffer.len().min(total - buffer.len()));
            }
            buffer.truncate(total);
            buffer
        }
    }
}

/// Whether `buffer` consists of copies of `element`, compared bit by bit.
pub(crate) fn is_filled(buffer: &[u8], element: &[u8]) -> bool {
    // Equal to itself one element later and equal in the first: one pass of memcmp.
    let shift = element.len().min(buffer.len());
    buffer.starts_with(element) && buffer[shift..] == buffer[..buffer.len() - shift]
}

/// Copies a box of `extent` elements from one buffer into another. An element consists of `size`
/// items: bytes, or one thing that stands for a whole element.
pub(crate) fn copy<T: Copy>(
    from: &[T],
    from_region: Region<'_>,
    to: &mut [T],
    to_region: Region<'_>,
    extent: &[usize],
    size: usize,
) {
    let shapes = [from_region.shape, to_region.shape];
    let (outer, run) = runs(extent, &shapes);
    let items = run * size;
    for_each_run(&extent[..outer], |index| {
        let from_start = offset(from_region, index) * size;
        let to_start = offset(to_region, index) * size;
        to[to_start..to_start + items].copy_from_slice(&from[from_start..from_start + items]);
    });
}

/// The first `extent` elements of a buffer in each dimension, as a buffer of that shape.
pub(crate) fn cut<'a>(
    from: &'a [u8],
    shape: &[usize],
    extent: &[usize],
    size: usize,
) -> Cow<'a, [u8]> {
    if shape == extent {
        return Cow::Borrowed(from);
    }
    let zero = vec![0; shape.len()];
    let mut to = vec![0; extent.iter().product::<usize>() * size];
    let target = Region { shape: extent, start: &zero };
    copy(from, Region { shape, start: &zero }, &mut to, target, extent, size);
    Cow::Owned(to)
}

/// Sets every element of a box of `extent` elements.
pub(crate) fn fill<T: Copy + PartialEq>(
    to: &mut [T],
    region: Region<'_>,
    extent: &[usize],
    element: &[T],
) {
    let (outer, run) = runs(extent, &[region.shape]);
    let line = filled(element, run);
    for_each_run(&extent[..outer], |index| {
        let start = offset(region, index) * element.len();
        to[start..start + line.len()].copy_from_slice(&line);
    });
}

/// How many outer dimensions must be iterated, and how many elements follow each other without a
/// gap in all buffers.
fn runs(extent: &[usize], shapes: &[&[usize]]) -> (usize, usize) {
    let mut outer = extent.len();
    let mut run = 1;
    while outer > 0 {
        outer -= 1;
        run *= extent[outer];
        if shapes.iter().any(|shape| shape[outer] != extent[outer]) {
            break;
        }
    }
    (outer, run)
}

/// Calls `visit` with every index in a box of a chunk grid, in C order; once for no dimensions.
pub(crate) fn for_each_index(ranges: &[Range<u64>], mut visit: impl FnMut(&[u64])) {
    let extent: Vec<usize> =
        ranges.iter().map(|range| length(range.end.saturating_sub(range.start))).collect();
    let mut index = vec![0; ranges.len()];
    for_each_run(&extent, |offsets| {
        for ((position, range), offset) in index.iter_mut().zip(ranges).zip(offsets) {
            *position = range.start + *offset as u64;
        }
        visit(&index);
    });
}

/// Lengths inside a chunk as what indexes memory. Callers have checked that chunks fit into it.
pub(crate) fn lengths(lengths: &[u64]) -> Vec<usize> {
    lengths.iter().map(|value| length(*value)).collect()
}

/// See [`lengths`].
pub(crate) fn length(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Calls `visit` with every index below `extent`, in C order; once for no dimensions.
fn for_each_run(extent: &[usize], mut visit: impl FnMut(&[usize])) {
    if extent.contains(&0) {
        return;
    }
    let mut index = vec![0; extent.len()];
    loop {
        visit(&index);
        let Some(dimension) = (0..extent.len()).rev().find(|d| index[*d] + 1 < extent[*d]) else {
            return;
        };
        index[dimension] += 1;
        index[dimension + 1..].fill(0);
    }
}

/// Offset in elements of the run that starts at `index` (outer dimensions) of the box.
fn offset(region: Region<'_>, index: &[usize]) -> usize {
    region.shape.iter().zip(region.start).enumerate().fold(0, |offset, (d, (length, start))| {
        offset * length + start + index.get(d).copied().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_filled_with_whole_elements() {
        assert_eq!(filled(&[7], 3), [7, 7, 7]);
        assert_eq!(filled(&[1, 2, 3], 5), [1, 2, 3].repeat(5));
        assert_eq!(filled(&[1, 2], 0), [0; 0]);
        assert_eq!(filled(&[0, 0], 0), [0; 0]);
    }

    #[test]
    fn a_single_different_bit_is_noticed_anywhere() {
        let element = [1, 2, 3, 4];
        let mut buffer = filled(&element, 9);
        assert!(is_filled(&buffer, &element));
        assert!(!is_filled(&buffer, &[1, 2, 3, 5]));
        for position in 0..buffer.len() {
            buffer[position] ^= 0x80;
            assert!(!is_filled(&buffer, &element), "{position}");
            buffer[position] ^= 0x80;
        }
        // −0.0 is not 0.0.
        assert!(!is_filled(&(-0.0f64).to_le_bytes(), &0.0f64.to_le_bytes()));
    }

    #[test]
    fn boxes_move_between_buffers_of_different_shape() {
        let from: Vec<u8> = (0..24).collect();
        let mut to = vec![99; 20];
        let from_region = Region { shape: &[2, 3, 4], start: &[1, 1, 2] };
        let to_region = Region { shape: &[1, 4, 5], start: &[0, 2, 3] };
        copy(&from, from_region, &mut to, to_region, &[1, 2, 2], 1);
        let mut expected = vec![99; 20];
        (expected[13], expected[14], expected[18], expected[19]) = (18, 19, 22, 23);
        assert_eq!(to, expected);
        fill(&mut to, Region { shape: &[20], start: &[13] }, &[7], &[99]);
        assert_eq!(to, [99; 20]);
    }
}
