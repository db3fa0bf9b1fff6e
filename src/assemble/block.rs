//! One block: decode its source chunks, copy them into its target chunks, encode those.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::layout::Layout;
use crate::netcdf::ChunkLocation;
use crate::zarr::region::{self, Region, for_each_index, length, lengths};
use crate::zarr::{CodecError, DataType};

/// What an encoder may need beyond the raw size: headers and the worst case of incompressible
/// data, one part in so many, plus a constant.
const ENCODE_OVERHEAD_PARTS: u64 = 64;
/// See [`ENCODE_OVERHEAD_PARTS`], bytes.
const ENCODE_OVERHEAD_BYTES: u64 = 16 << 10;

/// Target chunks that are built together, with the locations of what they are made of.
#[derive(Debug, Clone)]
pub struct Block {
    layout: Arc<Layout>,
    index: Vec<u64>,
    locations: Vec<ChunkLocation>,
}

/// A target chunk after encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltChunk {
    /// Index in the array's chunk grid.
    pub index: Vec<u64>,
    /// Key relative to the root of the hierarchy.
    pub key: String,
    /// The object; `None` when there must be none, because every element is bit-equal to the
    /// array's fill value.
    pub bytes: Option<Bytes>,
}

/// The result of [`Block::build`].
#[derive(Debug)]
pub struct BuiltBlock {
    /// Every target chunk of the block in C order.
    pub chunks: Vec<BuiltChunk>,
    /// How many source chunks were read and decoded.
    pub decoded: u64,
}

/// Why a block cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError<E> {
    /// The source chunk could not be read or decoded.
    #[error(transparent)]
    Read(E),
    /// The source chunk has another size than its variable says.
    #[error("the chunk at {origin:?} decodes to {actual} bytes instead of {expected}")]
    SourceSize {
        /// First element of the chunk.
        origin: Vec<u64>,
        /// Bytes of a whole chunk.
        expected: usize,
        /// Bytes it has.
        actual: usize,
    },
    /// The texts of a block are beyond what a chunk can hold.
    #[error(
        "the texts of {path} that are built at one time may have {bytes} bytes, and at most 2 GiB \
         work: set --chunks to smaller chunks"
    )]
    TextsTooLarge {
        /// The array.
        path: String,
        /// Bytes they have at most.
        bytes: u64,
    },
    /// The target chunk could not be encoded.
    #[error(transparent)]
    Encode(#[from] CodecError),
}

/// A target chunk before encoding: its elements as bytes, or one item for each.
pub(super) struct Target<T> {
    pub(super) index: Vec<u64>,
    pub(super) raw: Vec<T>,
}

/// Bytes of `chunks` chunks of together `raw` bytes after encoding, at most.
pub(super) fn encoded_bytes_max(raw: u64, chunks: u64) -> u64 {
    raw.saturating_add(raw / ENCODE_OVERHEAD_PARTS)
        .saturating_add(ENCODE_OVERHEAD_BYTES.saturating_mul(chunks))
}

impl Block {
    pub(super) fn new(layout: Arc<Layout>, index: Vec<u64>, locations: Vec<ChunkLocation>) -> Self {
        Self { layout, index, locations }
    }

    /// The source chunks it is made of, in the order in which they are read. Those that the source
    /// did not allocate are not among them.
    pub fn locations(&self) -> &[ChunkLocation] {
        &self.locations
    }

    /// The array it belongs to.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Number of target chunks.
    pub fn chunk_count(&self) -> u64 {
        self.chunk_ranges().iter().map(|range| range.end - range.start).product()
    }

    /// The most memory that [`build`](Self::build) holds at one time in bytes, with its result and
    /// without what `read` needs besides the buffer it fills.
    pub fn memory_bytes(&self) -> u64 {
        if self.layout.metadata.data_type == DataType::String {
            return self.text_memory_bytes();
        }
        let encoded = encoded_bytes_max(self.layout.chain.chunk_bytes(), 1);
        // Raw chunks turn into encoded ones one by one: one is there in both forms.
        let targets = encoded.saturating_mul(self.chunk_count().saturating_add(1));
        targets.saturating_add(self.source_chunk_bytes() as u64)
    }

    /// Builds all target chunks. `read` fills the (empty) buffer with the decoded elements of a
    /// source chunk: whole, or cut at the end of the array. Texts stand behind their lengths, as
    /// [`NetcdfFile::read_chunk`](crate::netcdf::NetcdfFile::read_chunk) delivers them.
    pub fn build<E>(
        &self,
        mut read: impl FnMut(&ChunkLocation, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<BuiltBlock, BuildError<E>> {
        if self.layout.metadata.data_type == DataType::String {
            return self.build_texts(&mut read);
        }
        let targets = match self.single() {
            Some(location) => vec![self.read_whole(location, &mut read)?],
            None => self.rechunk(&mut read)?,
        };
        let chunks =
            targets.into_iter().map(|target| self.encode(target)).collect::<Result<_, _>>()?;
        Ok(BuiltBlock { chunks, decoded: self.locations.len() as u64 })
    }

    /// The only source chunk, when it is exactly the only target chunk.
    fn single(&self) -> Option<&ChunkLocation> {
        let [location] = self.locations.as_slice() else { return None };
        let metadata = &self.layout.metadata;
        let inside = location
            .origin
            .iter()
            .zip(&self.layout.source_chunk)
            .zip(&metadata.shape)
            .all(|((origin, chunk), length)| origin + chunk <= *length);
        let same = self.layout.source_chunk == metadata.chunk_shape;
        (same && inside && self.chunk_count() == 1).then_some(location)
    }

    /// Decodes straight into the target chunk.
    fn read_whole<E>(
        &self,
        location: &ChunkLocation,
        read: &mut impl FnMut(&ChunkLocation, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Target<u8>, BuildError<E>> {
        let mut raw = Vec::with_capacity(self.source_chunk_bytes());
        read(location, &mut raw).map_err(BuildError::Read)?;
        if raw.len() != self.source_chunk_bytes() {
            return Err(self.source_size(location, raw.len()));
        }
        let index = self.chunk_ranges().iter().map(|range| range.start).collect();
        Ok(Target { index, raw })
    }

    fn rechunk<E>(
        &self,
        read: &mut impl FnMut(&ChunkLocation, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Vec<Target<u8>>, BuildError<E>> {
        let mut targets = self.targets(&self.layout.metadata.padding(), &self.layout.source_fill);
        let mut source = Vec::new();
        for location in &self.locations {
            source.clear();
            read(location, &mut source).map_err(BuildError::Read)?;
            let buffer_shape = self.buffer_shape(location, source.len(), self.element_bytes())?;
            self.scatter(location, &source, &buffer_shape, &mut targets, self.element_bytes());
        }
        Ok(targets)
    }

    /// All target chunks of the block as they are without any source chunk: what the source shows
    /// for unwritten elements inside the array, the array's fill value outside of it.
    pub(super) fn targets<T: Copy + PartialEq>(
        &self,
        padding: &[T],
        source_fill: &[T],
    ) -> Vec<Target<T>> {
        let metadata = &self.layout.metadata;
        let shape = lengths(&metadata.chunk_shape);
        let elements = shape.iter().product();
        let differs = padding != source_fill
            && (self.locations.len() as u64) < self.layout.source_chunks_of(&self.index);
        let mut targets = Vec::new();
        for_each_index(&self.chunk_ranges(), |index| {
            let mut raw = region::filled(padding, elements);
            if differs {
                let extent: Vec<usize> = (0..shape.len())
                    .map(|d| {
                        let start = index[d] * metadata.chunk_shape[d];
                        length(metadata.shape[d] - start).min(shape[d])
                    })
                    .collect();
                let start = vec![0; shape.len()];
                let inside = Region { shape: &shape, start: &start };
                region::fill(&mut raw, inside, &extent, source_fill);
            }
            targets.push(Target { index: index.to_vec(), raw });
        });
        targets
    }

    /// Copies a decoded source chunk into every target chunk of the block that it meets.
    pub(super) fn scatter<T: Copy>(
        &self,
        location: &ChunkLocation,
        source: &[T],
        source_shape: &[usize],
        targets: &mut [Target<T>],
        element_items: usize,
    ) {
        let metadata = &self.layout.metadata;
        let target_shape = lengths(&metadata.chunk_shape);
        let ranges = self.chunk_ranges();
        let ends = self.ends(location);
        let met: Vec<Range<u64>> = (0..ranges.len())
            .map(|d| {
                let chunk = metadata.chunk_shape[d];
                let first = (location.origin[d] / chunk).max(ranges[d].start);
                first..ends[d].div_ceil(chunk).min(ranges[d].end)
            })
            .collect();
        for_each_index(&met, |index| {
            let (mut from, mut to, mut extent) = (Vec::new(), Vec::new(), Vec::new());
            for d in 0..index.len() {
                let chunk_start = index[d] * metadata.chunk_shape[d];
                let start = chunk_start.max(location.origin[d]);
                let end = (chunk_start + metadata.chunk_shape[d]).min(ends[d]);
                from.push(length(start - location.origin[d]));
                to.push(length(start - chunk_start));
                extent.push(length(end - start));
            }
            let position = index.iter().zip(&ranges).fold(0, |position, (i, range)| {
                position * length(range.end - range.start) + length(i - range.start)
            });
            region::copy(
                source,
                Region { shape: source_shape, start: &from },
                &mut targets[position].raw,
                Region { shape: &target_shape, start: &to },
                &extent,
                element_items,
            );
        });
    }

    /// The shape of what `read` delivered: the whole chunk, or the part inside the array.
    pub(super) fn buffer_shape<E>(
        &self,
        location: &ChunkLocation,
        items: usize,
        element_items: usize,
    ) -> Result<Vec<usize>, BuildError<E>> {
        let cut = self.ends(location).into_iter().zip(&location.origin);
        let cut: Vec<usize> = cut.map(|(end, origin)| length(end - origin)).collect();
        let whole = lengths(&self.layout.source_chunk);
        if items == whole.iter().product::<usize>() * element_items {
            Ok(whole)
        } else if items == cut.iter().product::<usize>() * element_items {
            Ok(cut)
        } else {
            Err(self.source_size(location, items))
        }
    }

    /// Where a source chunk ends inside the array.
    fn ends(&self, location: &ChunkLocation) -> Vec<u64> {
        let dimensions = location.origin.iter().zip(&self.layout.source_chunk);
        let ends = dimensions.zip(&self.layout.metadata.shape);
        ends.map(|((origin, chunk), length)| (origin + chunk).min(*length)).collect()
    }

    fn encode(&self, target: Target<u8>) -> Result<BuiltChunk, CodecError> {
        let metadata = &self.layout.metadata;
        let key = self.layout.path.key(&metadata.chunk_key(&target.index));
        let omitted =
            metadata.fill_value.as_ref().is_some_and(|fill| region::is_filled(&target.raw, fill));
        let bytes = if omitted { None } else { Some(self.layout.chain.encode(target.raw)?) };
        Ok(BuiltChunk { index: target.index, key, bytes })
    }

    fn chunk_ranges(&self) -> Vec<Range<u64>> {
        self.index.iter().enumerate().map(|(d, block)| self.layout.chunks_of(*block, d)).collect()
    }

    fn element_bytes(&self) -> usize {
        self.layout.metadata.data_type.size()
    }

    fn source_chunk_bytes(&self) -> usize {
        lengths(&self.layout.source_chunk).iter().product::<usize>() * self.element_bytes()
    }

    fn source_size<E>(&self, location: &ChunkLocation, actual: usize) -> BuildError<E> {
        BuildError::SourceSize {
            origin: location.origin.clone(),
            expected: self.source_chunk_bytes(),
            actual,
        }
    }
}
