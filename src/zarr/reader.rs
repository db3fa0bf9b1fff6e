//! Reads arrays back, to compare what was written with what it was made of.
//!
//! Nothing is fetched here: the caller's function answers keys with objects.

use std::ops::Range;

use bytes::Bytes;

use super::codec_chain::{CodecChain, CodecError};
use super::data_type::DataType;
use super::metadata::ArrayMetadata;
use super::node_path::NodePath;
use super::region::{self, Region, for_each_index, length, lengths};

/// Largest region in bytes that is read at once.
const REGION_BYTES_MAX: u64 = 1 << 32;

/// Why an array cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<E> {
    /// An object could not be fetched.
    #[error("{key}: {error}")]
    Fetch {
        /// Its key.
        key: String,
        /// The caller's error.
        error: E,
    },
    /// An object does not decode.
    #[error("{key}: {error}")]
    Decode {
        /// Its key.
        key: String,
        /// What is wrong.
        error: CodecError,
    },
    /// An object is missing though the array has no fill value to stand for it.
    #[error("{0} is missing")]
    Missing(String),
    /// The region reaches beyond the array.
    #[error("the region lies outside of the array")]
    Outside,
    /// The region has more than 4 GiB.
    #[error("the region is too large to be read at once")]
    TooLarge,
}

/// Reads one array.
#[derive(Debug)]
pub struct ArrayReader {
    path: NodePath,
    metadata: ArrayMetadata,
    chain: CodecChain,
}

impl ArrayReader {
    /// A reader for the array at `path` in its hierarchy.
    pub fn new(path: NodePath, metadata: ArrayMetadata) -> Result<Self, CodecError> {
        let chain = CodecChain::new(&metadata)?;
        Ok(Self { path, metadata, chain })
    }

    /// What the array's documents say.
    pub fn metadata(&self) -> &ArrayMetadata {
        &self.metadata
    }

    /// The little-endian elements of a whole chunk. `get` answers a key relative to the root of
    /// the hierarchy, with `None` when there is no such object.
    pub fn chunk<E>(
        &self,
        index: &[u64],
        get: impl FnOnce(&str) -> Result<Option<Bytes>, E>,
    ) -> Result<Vec<u8>, ReadError<E>> {
        let key = self.path.key(&self.metadata.chunk_key(index));
        match get(&key) {
            Err(error) => Err(ReadError::Fetch { key, error }),
            Ok(Some(stored)) => {
                self.chain.decode(&stored).map_err(|error| ReadError::Decode { key, error })
            }
            Ok(None) if self.metadata.data_type == DataType::String => {
                Err(ReadError::Decode { key, error: CodecError::Kind })
            }
            Ok(None) => {
                let elements = lengths(&self.metadata.chunk_shape).iter().product();
                let fill = self.metadata.fill_value.as_ref().ok_or(ReadError::Missing(key))?;
                Ok(region::filled(fill, elements))
            }
        }
    }

    /// The texts of a whole chunk of an array of strings; `get` as for [`chunk`](Self::chunk).
    pub fn texts<E>(
        &self,
        index: &[u64],
        get: impl FnOnce(&str) -> Result<Option<Bytes>, E>,
    ) -> Result<Vec<String>, ReadError<E>> {
        let key = self.path.key(&self.metadata.chunk_key(index));
        let decode = |error| ReadError::Decode { key: key.clone(), error };
        match (get(&key), &self.metadata.fill_value) {
            (Err(error), _) => Err(ReadError::Fetch { key, error }),
            (Ok(Some(stored)), _) => self.chain.decode_texts(&stored).map_err(decode),
            (Ok(None), None) => Err(ReadError::Missing(key)),
            (Ok(None), Some(fill)) => {
                let elements = lengths(&self.metadata.chunk_shape).iter().product();
                let fill = String::from_utf8(fill.clone());
                let fill = fill.map_err(|_not_utf8| decode(CodecError::Kind))?;
                Ok(vec![fill; elements])
            }
        }
    }

    /// The little-endian elements of a region in C order. Not for strings. `start` and `extent` have one entry for
    /// each dimension.
    pub fn region<E>(
        &self,
        start: &[u64],
        extent: &[u64],
        get: impl Fn(&str) -> Result<Option<Bytes>, E>,
    ) -> Result<Vec<u8>, ReadError<E>> {
        let metadata = &self.metadata;
        let (ends, chunks) = self.chunks_in(start, extent).ok_or(ReadError::Outside)?;
        let element = metadata.data_type.size();
        let mut elements =
            extent.iter().try_fold(element as u64, |n, length| n.checked_mul(*length));
        elements = elements.filter(|bytes| *bytes <= REGION_BYTES_MAX);
        let total = length(elements.ok_or(ReadError::TooLarge)?);

        let mut out = vec![0; total];
        if total == 0 {
            return Ok(out);
        }
        let mut result = Ok(());
        for_each_index(&chunks, |index| {
            if result.is_ok() {
                result = self.chunk(index, &get).map(|chunk| {
                    self.copy_overlap(index, &chunk, start, &ends, &mut out, element);
                });
            }
        });
        result.map(|()| out)
    }

    /// The texts of a region of an array of strings, otherwise as [`region`](Self::region).
    pub fn texts_in<E>(
        &self,
        start: &[u64],
        extent: &[u64],
        get: impl Fn(&str) -> Result<Option<Bytes>, E>,
    ) -> Result<Vec<String>, ReadError<E>> {
        let (ends, chunks) = self.chunks_in(start, extent).ok_or(ReadError::Outside)?;
        let total = extent.iter().try_fold(1u64, |n, length| n.checked_mul(*length));
        let total = total.filter(|texts| *texts <= REGION_BYTES_MAX).ok_or(ReadError::TooLarge)?;
        // Texts do not move as boxes of plain items: their positions do.
        let mut positions: Vec<Option<(usize, usize)>> = vec![None; length(total)];
        if total == 0 {
            return Ok(Vec::new());
        }
        let mut texts: Vec<Vec<String>> = Vec::new();
        let mut result = Ok(());
        for_each_index(&chunks, |index| {
            if result.is_ok() {
                result = self.texts(index, &get).map(|chunk| {
                    let numbers = (0..chunk.len()).map(|at| Some((texts.len(), at)));
                    let numbers: Vec<_> = numbers.collect();
                    self.copy_overlap(index, &numbers, start, &ends, &mut positions, 1);
                    texts.push(chunk);
                });
            }
        });
        result?;
        let mut take = |at: Option<(usize, usize)>| {
            let (chunk, at) = at?;
            texts.get_mut(chunk)?.get_mut(at).map(std::mem::take)
        };
        Ok(positions.into_iter().map(|at| take(at).unwrap_or_default()).collect())
    }

    /// The end of a region, and the chunks that it meets; `None` if it is not inside the array.
    fn chunks_in(&self, start: &[u64], extent: &[u64]) -> Option<(Vec<u64>, Vec<Range<u64>>)> {
        let metadata = &self.metadata;
        let rank = metadata.shape.len();
        if start.len() != rank || extent.len() != rank {
            return None;
        }
        let ends = start.iter().zip(extent).map(|(start, extent)| start.checked_add(*extent));
        let ends: Vec<u64> = ends.collect::<Option<_>>()?;
        if ends.iter().zip(&metadata.shape).any(|(end, length)| end > length) {
            return None;
        }
        let chunks = start.iter().zip(&ends).zip(&metadata.chunk_shape);
        let chunks = chunks.map(|((start, end), chunk)| start / chunk..end.div_ceil(*chunk));
        let chunks = chunks.collect();
        Some((ends, chunks))
    }

    /// The elements of the whole array.
    pub fn whole<E>(
        &self,
        get: impl Fn(&str) -> Result<Option<Bytes>, E>,
    ) -> Result<Vec<u8>, ReadError<E>> {
        self.region(&vec![0; self.metadata.shape.len()], &self.metadata.shape, get)
    }

    /// Copies what a chunk has of a region. An element consists of `items`.
    fn copy_overlap<T: Copy>(
        &self,
        index: &[u64],
        chunk: &[T],
        start: &[u64],
        ends: &[u64],
        out: &mut [T],
        items: usize,
    ) {
        let shape = &self.metadata.chunk_shape;
        let (mut from, mut to, mut extent, mut out_shape) = (vec![], vec![], vec![], vec![]);
        for d in 0..index.len() {
            let chunk_start = index[d] * shape[d];
            // Only chunks that meet the region are read; the first may begin before it.
            let first = chunk_start.max(start[d]);
            let last = ends[d].min(chunk_start.saturating_add(shape[d]));
            from.push(length(first - chunk_start));
            to.push(length(first - start[d]));
            extent.push(length(last - first));
            out_shape.push(length(ends[d] - start[d]));
        }
        region::copy(
            chunk,
            Region { shape: &lengths(shape), start: &from },
            out,
            Region { shape: &out_shape, start: &to },
            &extent,
            items,
        );
    }
}
