//! The chunk grid that is made up for data that the file does not store in chunks: contiguous
//! and compact HDF5 variables and everything in classic files.
//!
//! # The rule
//! Trailing dimensions are taken whole as long as they fit into [`SLAB_BYTES`]; the first
//! dimension (going outwards) that does not fit is split into as many rows as do; all dimensions
//! outside of it are 1. A slab is therefore contiguous in the file, holds at most 1 MiB (or one
//! element), and a variable has at most about two slabs per MiB. At the end of the split dimension
//! a slab is clipped: the stored bytes are a prefix of the chunk.
//!
//! Record variables that share their records with others are split per record, each record by
//! the same rule. If a record of the variable is small, several are gathered in one
//! chunk: as many as fit into [`GATHER_BYTES`] while the stretch of file they are spread over is at
//! most [`GATHER_SPAN_BYTES`].

/// Most bytes of a slab.
pub(super) const SLAB_BYTES: u64 = 1 << 20;

/// Most bytes of a chunk that gathers records.
const GATHER_BYTES: u64 = 64 << 10;

/// Longest stretch of file that a chunk which gathers records is spread over. It bounds how long
/// a growing file has to be waited for, and what a reader has to go through for one chunk.
const GATHER_SPAN_BYTES: u64 = 16 << 20;

/// The slab shape for a contiguous array.
pub(super) fn slab_shape(shape: &[u64], element_size: u64) -> Vec<u64> {
    let mut slab = vec![1; shape.len()];
    let mut inner = element_size.max(1);
    for (length, slab_length) in shape.iter().zip(slab.iter_mut()).rev() {
        let length = (*length).max(1);
        match inner.checked_mul(length) {
            Some(bytes) if bytes <= SLAB_BYTES => {
                *slab_length = length;
                inner = bytes;
            }
            _ => {
                *slab_length = SLAB_BYTES.checked_div(inner).unwrap_or(1).clamp(1, length);
                break;
            }
        }
    }
    slab
}

/// The chunk shape for a variable whose records of `record_shape` lie `stride` bytes apart.
pub(super) fn record_shape(
    records: u64,
    record_shape: &[u64],
    element_size: u64,
    stride: u64,
) -> Vec<u64> {
    let slab = slab_shape(record_shape, element_size);
    let record_bytes = product(record_shape).saturating_mul(element_size).max(1);
    let by_bytes = GATHER_BYTES.checked_div(record_bytes).unwrap_or(1);
    let by_span = GATHER_SPAN_BYTES.checked_div(stride.max(1)).unwrap_or(1);
    let gathered = by_bytes.min(by_span).clamp(1, records.max(1));
    std::iter::once(gathered).chain(slab).collect()
}

/// Saturating number of elements.
pub(super) fn product(shape: &[u64]) -> u64 {
    shape.iter().fold(1, |all, length| all.saturating_mul(*length))
}

/// Walks the chunks of a grid in C order.
#[derive(Debug, Clone)]
pub(super) struct GridWalk {
    shape: Vec<u64>,
    chunk_shape: Vec<u64>,
    next: Option<Vec<u64>>,
}

impl GridWalk {
    /// `chunk_shape` has the rank of `shape` and no zero.
    pub(super) fn new(shape: Vec<u64>, chunk_shape: Vec<u64>) -> Self {
        let next = (!shape.contains(&0)).then(|| vec![0; shape.len()]);
        Self { shape, chunk_shape, next }
    }

    /// Origin of the chunk that comes next.
    pub(super) fn peek(&self) -> Option<&[u64]> {
        self.next.as_deref()
    }

    pub(super) fn advance(&mut self) {
        let Some(origin) = &mut self.next else { return };
        for ((at, length), step) in origin.iter_mut().zip(&self.shape).zip(&self.chunk_shape).rev()
        {
            *at = at.saturating_add((*step).max(1));
            if *at < *length {
                return;
            }
            *at = 0;
        }
        self.next = None;
    }
}

/// Row-major index of the element at `origin`; `None` on overflow.
pub(super) fn linear_index(origin: &[u64], shape: &[u64]) -> Option<u64> {
    origin
        .iter()
        .zip(shape)
        .try_fold(0_u64, |index, (at, length)| index.checked_mul(*length)?.checked_add(*at))
}

/// Number of elements of the chunk at `origin` that lie inside `shape`.
pub(super) fn clipped_elements(origin: &[u64], chunk_shape: &[u64], shape: &[u64]) -> u64 {
    origin.iter().zip(chunk_shape).zip(shape).fold(1, |all, ((at, chunk), length)| {
        all.saturating_mul((*chunk).min(length.saturating_sub(*at)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_contiguous_and_at_most_one_mebibyte() {
        assert_eq!(slab_shape(&[], 8), [0_u64; 0]);
        assert_eq!(slab_shape(&[10], 4), [10]);
        assert_eq!(slab_shape(&[1000, 500, 500], 4), [1, 500, 500]);
        assert_eq!(slab_shape(&[10, 4000, 4000], 4), [1, 65, 4000]);
        assert_eq!(slab_shape(&[5, 1 << 30], 8), [1, 1 << 17]);
        assert_eq!(slab_shape(&[0, 7], 8), [1, 7]);
        assert_eq!(slab_shape(&[u64::MAX, u64::MAX], 8), [1, 1 << 17]);
    }

    #[test]
    fn small_records_are_gathered_and_large_ones_are_not() {
        // A time coordinate between records of 100 bytes: 64 KiB worth of it.
        assert_eq!(record_shape(1_000_000, &[], 8, 100), [8192]);
        // Records of 4 MiB: only as many as 16 MiB of file hold.
        assert_eq!(record_shape(1000, &[], 8, 4 << 20), [4]);
        // A field is taken per record, and split by the slab rule.
        assert_eq!(record_shape(1000, &[600, 600], 4, 2 << 20), [1, 436, 600]);
        assert_eq!(record_shape(3, &[2], 2, 100), [3, 2]);
    }

    #[test]
    fn a_walk_visits_each_chunk_once_in_c_order() {
        let mut walk = GridWalk::new(vec![3, 4], vec![2, 3]);
        let mut seen = Vec::new();
        while let Some(origin) = walk.peek() {
            seen.push(origin.to_vec());
            walk.advance();
        }
        assert_eq!(seen, [[0, 0], [0, 3], [2, 0], [2, 3]]);
        assert!(GridWalk::new(vec![3, 0], vec![2, 3]).peek().is_none());
        let mut scalar = GridWalk::new(vec![], vec![]);
        assert_eq!(scalar.peek(), Some(&[][..]));
        scalar.advance();
        assert!(scalar.peek().is_none());
    }
}
