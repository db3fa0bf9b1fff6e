//! One block: decode its source chunks, copy them into its target chunks, encode those.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::layout::{Layout, PartLayout};
use crate::netcdf::ChunkLocation;
use crate::plan::{Inexact, Segment};
use crate::zarr::region::{self, Region, for_each_index, length, lengths};
use crate::zarr::{CodecChain, CodecError, CodecSpec, DataType};

/// What an encoder may need beyond the raw size: headers and the worst case of incompressible
/// data, one part in so many, plus a constant.
const ENCODE_OVERHEAD_PARTS: u64 = 64;
/// See [`ENCODE_OVERHEAD_PARTS`], bytes.
const ENCODE_OVERHEAD_BYTES: u64 = 16 << 10;

/// Objects of chunks as they are published, by index; `None` for those that do not exist.
pub type Retained = HashMap<Vec<u64>, Option<Bytes>>;

/// A chunk of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Position of its part in the array.
    pub part: usize,
    /// Where it lies in its file.
    pub location: ChunkLocation,
}

/// Target chunks that are built together, with the locations of what they are made of.
#[derive(Debug, Clone)]
pub struct Block {
    layout: Arc<Layout>,
    index: Vec<u64>,
    pieces: Vec<Piece>,
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
    /// Whether an object may lie under the key already.
    pub may_exist: bool,
}

/// A chunk that keeps published values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetainedChunk {
    /// Index in the array's chunk grid.
    pub index: Vec<u64>,
    /// Key relative to the root of the hierarchy.
    pub key: String,
}

/// The result of [`Block::build`].
#[derive(Debug)]
pub struct BuiltBlock {
    /// Every target chunk of the block that is built, in C order.
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
    /// A value that the array cannot hold.
    #[error("variable {path}: {error}")]
    Inexact {
        /// The array.
        path: String,
        /// The value.
        error: Inexact,
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
    /// What is published cannot be decoded.
    #[error("the published chunk {key} cannot be read: {error}")]
    Published {
        /// Its key.
        key: String,
        /// What is wrong.
        error: CodecError,
    },
    /// The target chunk could not be encoded.
    #[error(transparent)]
    Encode(#[from] CodecError),
}

/// A target chunk before encoding: its elements as bytes, or one item for each.
#[derive(Debug)]
pub struct Target<T> {
    pub(super) index: Vec<u64>,
    pub(super) raw: Vec<T>,
}

impl Target<u8> {
    /// Its little-endian elements in C order.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }
}

/// Bytes of `chunks` chunks of together `raw` bytes after encoding, at most.
pub(super) fn encoded_bytes_max(raw: u64, chunks: u64) -> u64 {
    raw.saturating_add(raw / ENCODE_OVERHEAD_PARTS)
        .saturating_add(ENCODE_OVERHEAD_BYTES.saturating_mul(chunks))
}

impl Block {
    pub(super) fn new(layout: Arc<Layout>, index: Vec<u64>, pieces: Vec<Piece>) -> Self {
        Self { layout, index, pieces }
    }

    /// The source chunks it is made of, in the order in which they are read. Those that the source
    /// did not allocate are not among them.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The array it belongs to.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The file that a part belongs to.
    pub fn member(&self, part: usize) -> usize {
        self.layout.parts.get(part).map_or(0, |layout| layout.part.member)
    }

    /// Number of target chunks.
    pub fn chunk_count(&self) -> u64 {
        self.chunk_ranges().iter().map(|range| range.end - range.start).product()
    }

    /// The chunks whose published values are needed to build the block.
    pub fn retained(&self) -> Vec<RetainedChunk> {
        let mut retained = Vec::new();
        self.for_each_built(|index| {
            if self.layout.retained(index) > 0 {
                retained.push(RetainedChunk { index: index.to_vec(), key: self.key(index) });
            }
        });
        retained
    }

    /// The keys of the chunks that are built.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        self.for_each_built(|index| keys.push(self.key(index)));
        keys
    }

    /// The most memory that [`build`](Self::build) holds at one time in bytes, with its result and
    /// without what `read` needs besides the buffer it fills.
    pub fn memory_bytes(&self) -> u64 {
        if self.layout.metadata.data_type == DataType::String {
            return self.text_memory_bytes();
        }
        let encoded = encoded_bytes_max(self.layout.chain.chunk_bytes(), 1);
        // Raw chunks turn into encoded ones one by one: one is there in both forms. A published chunk
        // is there in its own form while it is decoded.
        let retained = u64::from(!self.retained().is_empty());
        let targets = encoded.saturating_mul(self.chunk_count().saturating_add(1 + retained));
        let part_bytes = |part: &PartLayout| {
            let source = Self::source_chunk_bytes(part) as u64;
            if part.part.conversion.is_identity() {
                return source;
            }
            let elements = source / part.part.conversion.source_element_bytes() as u64;
            source.saturating_add(elements.saturating_mul(self.element_bytes() as u64))
        };
        targets.saturating_add(self.layout.parts.iter().map(part_bytes).max().unwrap_or(0))
    }

    /// Builds all target chunks. `read` fills the (empty) buffer with the decoded elements of a
    /// source chunk: whole, or cut at the end of the array. Texts stand behind their lengths, as
    /// [`NetcdfFile::read_chunk`](crate::netcdf::NetcdfFile::read_chunk) delivers them. `published`
    /// holds what [`retained`](Self::retained) asks for.
    pub fn build<E>(
        &self,
        published: &Retained,
        mut read: impl FnMut(&Piece, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<BuiltBlock, BuildError<E>> {
        if self.holds_texts() {
            return self.build_texts(published, &mut read);
        }
        let targets = self.gather(published, read)?;
        let chunks =
            targets.into_iter().map(|target| self.encode(target)).collect::<Result<_, _>>()?;
        Ok(BuiltBlock { chunks, decoded: self.pieces.len() as u64 })
    }

    /// Whether its elements are texts: then only [`build`](Self::build) makes chunks of them.
    pub fn holds_texts(&self) -> bool {
        self.layout.metadata.data_type == DataType::String
    }

    /// The first half of [`build`](Self::build), not for texts: all target chunks before encoding.
    pub fn gather<E>(
        &self,
        published: &Retained,
        mut read: impl FnMut(&Piece, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Vec<Target<u8>>, BuildError<E>> {
        match self.single() {
            Some(piece) => Ok(vec![self.read_whole(piece, &mut read)?]),
            None => self.rechunk(published, &mut read),
        }
    }

    /// The only source chunk, when it is exactly the only target chunk.
    fn single(&self) -> Option<&Piece> {
        let [piece] = self.pieces.as_slice() else { return None };
        let metadata = &self.layout.metadata;
        let part = &self.layout.parts[piece.part].part;
        if part.source_chunk_shape != metadata.chunk_shape
            || !part.conversion.is_identity()
            || self.chunk_count() != 1
        {
            return None;
        }
        let index: Vec<u64> = self.chunk_ranges().iter().map(|range| range.start).collect();
        if !self.layout.builds(&index) || self.layout.retained(&index) > 0 {
            return None;
        }
        let origin = &piece.location.origin;
        let segment = match self.layout.segments_of(&self.index).as_slice() {
            [segment] => *segment,
            _ => return None,
        };
        let whole = (0..index.len()).all(|d| {
            let chunk = metadata.chunk_shape[d];
            let start = index[d] * chunk;
            if d == self.layout.axis() {
                let same = segment.source == origin[d] && segment.target == start;
                same && segment.length == chunk
            } else {
                origin[d] == start && start + chunk <= metadata.shape[d]
            }
        });
        whole.then_some(piece)
    }

    /// Decodes straight into the target chunk.
    fn read_whole<E>(
        &self,
        piece: &Piece,
        read: &mut impl FnMut(&Piece, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Target<u8>, BuildError<E>> {
        let part = &self.layout.parts[piece.part];
        let expected = Self::source_chunk_bytes(part);
        let mut raw = Vec::with_capacity(expected);
        read(piece, &mut raw).map_err(BuildError::Read)?;
        if raw.len() != expected {
            return Err(source_size(piece, expected, raw.len()));
        }
        let index = self.chunk_ranges().iter().map(|range| range.start).collect();
        Ok(Target { index, raw })
    }

    fn rechunk<E>(
        &self,
        published: &Retained,
        read: &mut impl FnMut(&Piece, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Vec<Target<u8>>, BuildError<E>> {
        let fills = self.fills()?;
        let mut targets = self.targets(&self.layout.metadata.padding());
        for target in &mut targets {
            if let Some(raw) = self.published(published, &target.index)? {
                self.keep(&mut target.raw, &raw, &target.index, self.element_bytes());
            }
        }
        self.fill_unwritten(&mut targets, &fills, self.element_bytes());
        let mut source = Vec::new();
        let mut converted = Vec::new();
        for piece in &self.pieces {
            let part = &self.layout.parts[piece.part];
            source.clear();
            read(piece, &mut source).map_err(BuildError::Read)?;
            let elements = source.len() / part.part.conversion.source_element_bytes();
            let shape = self.buffer_shape(piece, elements)?;
            let conversion = &part.part.conversion;
            if conversion.is_identity() {
                self.scatter(piece, &source, &shape, &mut targets, self.element_bytes());
                continue;
            }
            // What lies outside of the file's own array means nothing and need not convert.
            let cut = self.cut(piece);
            let inside = region::cut(&source, &shape, &cut, conversion.source_element_bytes());
            converted.clear();
            conversion.apply(&inside, &mut converted).map_err(|error| BuildError::Inexact {
                path: self.layout.path.to_string(),
                error,
            })?;
            self.scatter(piece, &converted, &cut, &mut targets, self.element_bytes());
        }
        Ok(targets)
    }

    /// The elements of a chunk as they are published; `None` when it keeps none, or has no object.
    fn published<E>(
        &self,
        published: &Retained,
        index: &[u64],
    ) -> Result<Option<Vec<u8>>, BuildError<E>> {
        if self.layout.retained(index) == 0 {
            return Ok(None);
        }
        let Some(stored) = published.get(index).and_then(Option::as_ref) else { return Ok(None) };
        let decoded = self.layout.chain.decode(stored);
        decoded.map(Some).map_err(|error| BuildError::Published { key: self.key(index), error })
    }

    /// Copies the published elements of a chunk into it; what lies beyond the published end is not
    /// looked at.
    pub(super) fn keep<T: Copy>(&self, to: &mut [T], from: &[T], index: &[u64], items: usize) {
        let metadata = &self.layout.metadata;
        let shape = lengths(&metadata.chunk_shape);
        let mut extent = self.inside(index);
        if let Some(along) = extent.get_mut(self.layout.axis()) {
            *along = length(self.layout.retained(index)).min(*along);
        }
        let start = vec![0; shape.len()];
        let region = Region { shape: &shape, start: &start };
        region::copy(from, region, to, region, &extent, items);
    }

    /// The target chunks of the block that are built, full of padding.
    pub(super) fn targets<T: Copy + PartialEq>(&self, padding: &[T]) -> Vec<Target<T>> {
        let elements = lengths(&self.layout.metadata.chunk_shape).iter().product();
        let mut targets = Vec::new();
        self.for_each_built(|index| {
            targets.push(Target { index: index.to_vec(), raw: region::filled(padding, elements) });
        });
        targets
    }

    /// What each part shows for elements that were never written, if there are any.
    pub(super) fn fills<E>(&self) -> Result<Vec<&[u8]>, BuildError<E>> {
        let all_written = self.pieces.len() as u64 >= self.layout.source_chunks_of(&self.index);
        let mut fills = Vec::with_capacity(self.layout.parts.len());
        for part in &self.layout.parts {
            fills.push(match &part.fill {
                Ok(fill) => fill.as_slice(),
                Err(_) if all_written => &[],
                Err(error) => {
                    let (path, error) = (self.layout.path.to_string(), error.clone());
                    return Err(BuildError::Inexact { path, error });
                }
            });
        }
        Ok(fills)
    }

    /// Sets the elements of every part to what it shows for those that were never written. Nothing
    /// is done where all chunks of the source are there.
    pub(super) fn fill_unwritten<T: Copy + PartialEq>(
        &self,
        targets: &mut [Target<T>],
        fills: &[&[T]],
        items: usize,
    ) {
        if self.pieces.len() as u64 >= self.layout.source_chunks_of(&self.index) {
            return;
        }
        let shape = lengths(&self.layout.metadata.chunk_shape);
        let axis = self.layout.axis();
        for target in targets {
            for segment in self.segments_of_chunk(&target.index) {
                let Some(fill) = fills.get(segment.part).filter(|fill| fill.len() == items) else {
                    continue;
                };
                let mut extent = self.inside(&target.index);
                let mut start = vec![0; shape.len()];
                if let (Some(extent), Some(start)) = (extent.get_mut(axis), start.get_mut(axis)) {
                    *extent = length(segment.length);
                    let chunk = self.layout.metadata.chunk_shape[axis];
                    *start = length(segment.target - target.index[axis] * chunk);
                }
                let region = Region { shape: &shape, start: &start };
                region::fill(&mut target.raw, region, &extent, fill);
            }
        }
    }

    /// Copies a decoded source chunk into every target chunk of the block that it meets.
    pub(super) fn scatter<T: Copy>(
        &self,
        piece: &Piece,
        source: &[T],
        source_shape: &[usize],
        targets: &mut [Target<T>],
        element_items: usize,
    ) {
        let metadata = &self.layout.metadata;
        let axis = self.layout.axis();
        let target_shape = lengths(&metadata.chunk_shape);
        let origin = &piece.location.origin;
        let ends = self.ends(piece);
        let along = origin.get(axis).copied().unwrap_or(0)..ends.get(axis).copied().unwrap_or(1);
        for target in targets {
            let within = self.along_axis(&target.index);
            for segment in self.layout.segments_of_part(piece.part, along.clone(), within) {
                let (mut from, mut to, mut extent) = (Vec::new(), Vec::new(), Vec::new());
                for d in 0..origin.len() {
                    let chunk_start = target.index[d] * metadata.chunk_shape[d];
                    // Indices of the source from here on; along the axis they are moved.
                    let (first, last, moved) = if d == axis {
                        let first = segment.source.max(origin[d]);
                        let last = (segment.source + segment.length).min(ends[d]);
                        let moved = segment.target + first.saturating_sub(segment.source);
                        (first, last, moved)
                    } else {
                        let first = chunk_start.max(origin[d]);
                        let last = (chunk_start + metadata.chunk_shape[d]).min(ends[d]);
                        (first, last, first)
                    };
                    from.push(length(first.saturating_sub(origin[d])));
                    to.push(length(moved.saturating_sub(chunk_start)));
                    extent.push(length(last.saturating_sub(first)));
                }
                if extent.contains(&0) {
                    continue;
                }
                region::copy(
                    source,
                    Region { shape: source_shape, start: &from },
                    &mut target.raw,
                    Region { shape: &target_shape, start: &to },
                    &extent,
                    element_items,
                );
            }
        }
    }

    /// The shape of what `read` delivered: the whole chunk, or the part inside the array.
    pub(super) fn buffer_shape<E>(
        &self,
        piece: &Piece,
        elements: usize,
    ) -> Result<Vec<usize>, BuildError<E>> {
        let part = &self.layout.parts[piece.part];
        let cut = self.cut(piece);
        let whole = lengths(&part.part.source_chunk_shape);
        if elements == whole.iter().product::<usize>() {
            Ok(whole)
        } else if elements == cut.iter().product::<usize>() {
            Ok(cut)
        } else {
            let element = part.part.conversion.source_element_bytes();
            Err(source_size(piece, Self::source_chunk_bytes(part), elements * element))
        }
    }

    /// The segments that lie in a chunk, cut to it.
    fn segments_of_chunk(&self, index: &[u64]) -> Vec<Segment> {
        self.layout.segments_in(self.along_axis(index)).collect()
    }

    /// The indices of a chunk along the axis; of a scalar one.
    fn along_axis(&self, index: &[u64]) -> Range<u64> {
        let axis = self.layout.axis();
        let Some(position) = index.get(axis) else { return 0..1 };
        let chunk = self.layout.metadata.chunk_shape[axis];
        position * chunk..((position + 1) * chunk).min(self.layout.metadata.shape[axis])
    }

    /// How far a chunk reaches into the array.
    fn inside(&self, index: &[u64]) -> Vec<usize> {
        let metadata = &self.layout.metadata;
        let dimensions = index.iter().zip(&metadata.chunk_shape).zip(&metadata.shape);
        dimensions.map(|((i, chunk), shape)| length((shape - i * chunk).min(*chunk))).collect()
    }

    /// How far a source chunk reaches inside its part.
    fn cut(&self, piece: &Piece) -> Vec<usize> {
        let cut = self.ends(piece).into_iter().zip(&piece.location.origin);
        cut.map(|(end, origin)| length(end - origin)).collect()
    }

    /// Where a source chunk ends inside its part.
    fn ends(&self, piece: &Piece) -> Vec<u64> {
        let part = &self.layout.parts[piece.part].part;
        let dimensions = piece.location.origin.iter().zip(&part.source_chunk_shape);
        let ends = dimensions.zip(&part.shape);
        ends.map(|((origin, chunk), length)| (origin + chunk).min(*length)).collect()
    }

    /// The second half of [`build`](Self::build): one target chunk.
    pub fn encode(&self, target: Target<u8>) -> Result<BuiltChunk, CodecError> {
        let fill = self.layout.metadata.fill_value.as_ref();
        let omitted = fill.is_some_and(|fill| region::is_filled(&target.raw, fill));
        let bytes = if omitted { None } else { Some(self.layout.chain.encode(target.raw)?) };
        Ok(self.built(target.index, bytes))
    }

    /// What another codec would make of a target chunk.
    pub fn encode_with(&self, codec: CodecSpec, target: &Target<u8>) -> Result<Bytes, CodecError> {
        let mut metadata = self.layout.metadata.clone();
        metadata.codecs = codec.codecs(metadata.data_type);
        CodecChain::new(&metadata)?.encode(target.raw.as_slice())
    }

    pub(super) fn built(&self, index: Vec<u64>, bytes: Option<Bytes>) -> BuiltChunk {
        let key = self.key(&index);
        let may_exist = self.layout.has_objects();
        BuiltChunk { index, key, bytes, may_exist }
    }

    /// The key of a chunk, relative to the root of the hierarchy.
    fn key(&self, index: &[u64]) -> String {
        self.layout.path.key(&self.layout.metadata.chunk_key(index))
    }

    fn for_each_built(&self, mut visit: impl FnMut(&[u64])) {
        for_each_index(&self.chunk_ranges(), |index| {
            if self.layout.builds(index) {
                visit(index);
            }
        });
    }

    fn chunk_ranges(&self) -> Vec<Range<u64>> {
        self.index.iter().enumerate().map(|(d, block)| self.layout.chunks_of(*block, d)).collect()
    }

    fn element_bytes(&self) -> usize {
        self.layout.metadata.data_type.size()
    }

    fn source_chunk_bytes(part: &PartLayout) -> usize {
        let elements = lengths(&part.part.source_chunk_shape).iter().product::<usize>();
        elements * part.part.conversion.source_element_bytes()
    }
}

fn source_size<E>(piece: &Piece, expected: usize, actual: usize) -> BuildError<E> {
    BuildError::SourceSize { origin: piece.location.origin.clone(), expected, actual }
}
