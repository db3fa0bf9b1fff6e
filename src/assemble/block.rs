//! One block: which target chunks it consists of, and which elements of a source chunk go where.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::layout::{Layout, PartLayout};
use super::open::OpenBlock;
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
    /// Whether the source allocated all chunks that it is made of.
    is_complete: bool,
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

/// Elements of a source chunk as the array holds them.
pub(super) struct Decoded<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) shape: Vec<usize>,
}

/// The box that a source chunk and a target chunk share.
pub(super) struct Overlap<'a> {
    /// Its first element in the source chunk.
    pub(super) from: &'a [usize],
    /// Its first element in the target chunk.
    pub(super) to: &'a [usize],
    pub(super) extent: &'a [usize],
}

/// Where target chunks stand among those of a block that are built, in C order.
struct Slots {
    axis: usize,
    /// First chunk of the block in each dimension.
    starts: Vec<u64>,
    /// Along the axis: positions among those that are built.
    along: Vec<Option<usize>>,
    /// Chunks that are built in each dimension.
    counts: Vec<usize>,
}

impl Slots {
    /// `None` if the chunk is not built.
    fn of(&self, index: &[u64]) -> Option<usize> {
        let mut slot = 0;
        for (d, (position, start)) in index.iter().zip(&self.starts).enumerate() {
            let inside = length(position.checked_sub(*start)?);
            let place = if d == self.axis { (*self.along.get(inside)?)? } else { inside };
            slot = slot * self.counts.get(d)? + place;
        }
        Some(slot)
    }
}

impl Block {
    pub(super) fn new(layout: Arc<Layout>, index: Vec<u64>, pieces: Vec<Piece>) -> Self {
        let is_complete = pieces.len() as u64 >= layout.source_chunks_of(&index);
        Self { layout, index, pieces, is_complete }
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

    /// The most memory that building it on so many threads holds at one time in bytes, with its
    /// result and with what `read` needs besides the buffer it fills.
    pub fn memory_bytes(&self, threads: usize) -> u64 {
        if self.holds_texts() {
            return self.text_memory_bytes();
        }
        let work = self.layout.work_bytes(threads.min(self.groups().len()), threads);
        let chunk = self.layout.chain.chunk_bytes();
        // A published chunk is there in its own form until all are made.
        let retained = encoded_bytes_max(chunk, 1).saturating_mul(self.retained().len() as u64);
        chunk.saturating_mul(self.chunk_count()).saturating_add(retained).saturating_add(work)
    }

    /// The same once all source chunks are decoded.
    pub fn encoding_bytes(&self, threads: usize) -> u64 {
        let chunks = self.layout.chain.chunk_bytes().saturating_mul(self.chunk_count());
        chunks.saturating_add(self.layout.work_bytes(0, threads))
    }

    /// Bytes of a target chunk before encoding.
    pub fn chunk_bytes(&self) -> u64 {
        self.layout.chain.chunk_bytes()
    }

    /// Builds all target chunks on this thread. `read` fills the (empty) buffer with the decoded
    /// elements of a source chunk: whole, or cut at the end of the array. Texts stand behind their
    /// lengths, as [`NetcdfFile::read_chunk`](crate::netcdf::NetcdfFile::read_chunk) delivers them.
    /// `published` holds what [`retained`](Self::retained) asks for.
    pub fn build<E>(
        &self,
        published: &Retained,
        mut read: impl FnMut(&Piece, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<BuiltBlock, BuildError<E>> {
        if self.holds_texts() {
            return self.build_texts(published, &mut read);
        }
        let open = OpenBlock::new(Arc::new(self.clone()), published.clone());
        open.add(0..self.pieces.len(), read)?;
        let mut chunks = Vec::with_capacity(open.len());
        for slot in 0..open.len() {
            chunks.push(self.encode(open.take(slot)?)?);
        }
        Ok(BuiltBlock { chunks, decoded: self.pieces.len() as u64 })
    }

    /// Whether its elements are texts: then only [`build`](Self::build) makes chunks of them.
    pub fn holds_texts(&self) -> bool {
        self.layout.metadata.data_type == DataType::String
    }

    /// The only source chunk, when it is exactly the only target chunk.
    pub(super) fn single(&self) -> Option<&Piece> {
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

    /// Decodes what is exactly a target chunk.
    pub(super) fn read_whole<E>(
        &self,
        piece: &Piece,
        read: &mut impl FnMut(&Piece, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Vec<u8>, BuildError<E>> {
        let part = &self.layout.parts[piece.part];
        let expected = Self::source_chunk_bytes(part);
        let mut raw = Vec::with_capacity(expected);
        read(piece, &mut raw).map_err(BuildError::Read)?;
        if raw.len() == expected {
            return Ok(raw);
        }
        Err(source_size(piece, expected, raw.len()))
    }

    /// The target chunks of the block that are built, without elements.
    pub(super) fn unmade(&self) -> Vec<Target<u8>> {
        let mut targets = Vec::new();
        self.for_each_built(|index| {
            targets.push(Target { index: index.to_vec(), raw: Vec::new() });
        });
        targets
    }

    /// What a target chunk holds before any source chunk is copied into it: padding, what is
    /// published, and what files show for elements that were never written.
    pub(super) fn make<E>(
        &self,
        target: &mut Target<u8>,
        published: &Retained,
    ) -> Result<(), BuildError<E>> {
        let fills = self.fills()?;
        let size = self.element_bytes();
        let elements = lengths(&self.layout.metadata.chunk_shape).iter().product();
        target.raw = region::filled(&self.layout.metadata.padding(), elements);
        if let Some(raw) = self.published(published, &target.index)? {
            self.keep(&mut target.raw, &raw, &target.index, size);
        }
        self.fill_unwritten(std::slice::from_mut(target), &fills, size);
        Ok(())
    }

    /// A decoded source chunk as the array holds its elements; `buffer` is for those that are
    /// converted.
    pub(super) fn converted<'a, E>(
        &self,
        piece: &Piece,
        source: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<Decoded<'a>, BuildError<E>> {
        let conversion = &self.layout.parts[piece.part].part.conversion;
        let elements = source.len() / conversion.source_element_bytes();
        let shape = self.buffer_shape(piece, elements)?;
        if conversion.is_identity() {
            return Ok(Decoded { bytes: source, shape });
        }
        // What lies outside of the file's own array means nothing and need not convert.
        let cut = self.cut(piece);
        let inside = region::cut(source, &shape, &cut, conversion.source_element_bytes());
        buffer.clear();
        conversion
            .apply(&inside, buffer)
            .map_err(|error| BuildError::Inexact { path: self.layout.path.to_string(), error })?;
        Ok(Decoded { bytes: buffer, shape: cut })
    }

    /// Bytes of a source chunk after decoding.
    pub(super) fn source_bytes(&self, piece: &Piece) -> u64 {
        self.layout.parts.get(piece.part).map_or(0, |part| Self::source_chunk_bytes(part) as u64)
    }

    /// Shape of a target chunk.
    pub(super) fn chunk_shape(&self) -> &[u64] {
        &self.layout.metadata.chunk_shape
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
        let mut fills = Vec::with_capacity(self.layout.parts.len());
        for part in &self.layout.parts {
            fills.push(match &part.fill {
                Ok(fill) => fill.as_slice(),
                Err(_) if self.is_complete => &[],
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
        if self.is_complete {
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

    /// Visits every target chunk that a source chunk gives elements to, by its position among those
    /// that are built.
    pub(super) fn for_each_overlap(
        &self,
        piece: &Piece,
        mut visit: impl FnMut(usize, Overlap<'_>),
    ) {
        let metadata = &self.layout.metadata;
        let axis = self.layout.axis();
        let origin = &piece.location.origin;
        let ends = self.ends(piece);
        let in_block = self.chunk_ranges();
        let slots = self.slots(&in_block);
        let along = origin.get(axis).copied().unwrap_or(0)..ends.get(axis).copied().unwrap_or(1);
        let rank = origin.len();
        let (mut from, mut to, mut extent) = (vec![0; rank], vec![0; rank], vec![0; rank]);
        for segment in self.layout.segments_of_part(piece.part, along.clone(), self.elements()) {
            let first = segment.source.max(along.start);
            let last = (segment.source + segment.length).min(along.end);
            if first >= last {
                continue;
            }
            // Indices of the target; along the axis they are not those of the source.
            let moved = segment.target + (first - segment.source);
            let span = |d: usize| {
                if d == axis { moved..moved + (last - first) } else { origin[d]..ends[d] }
            };
            let chunks = (0..rank).map(|d| {
                let (span, chunk) = (span(d), metadata.chunk_shape[d]);
                let (start, end) = (span.start / chunk, span.end.div_ceil(chunk));
                start.max(in_block[d].start)..end.min(in_block[d].end)
            });
            let chunks: Vec<Range<u64>> = chunks.collect();
            for_each_index(&chunks, |index| {
                let Some(slot) = slots.of(index) else { return };
                for d in 0..rank {
                    let (span, chunk) = (span(d), metadata.chunk_shape[d]);
                    let start = span.start.max(index[d] * chunk);
                    let end = span.end.min((index[d] + 1) * chunk);
                    let source = if d == axis { start - moved + first } else { start };
                    from[d] = length(source - origin[d]);
                    to[d] = length(start - index[d] * chunk);
                    extent[d] = length(end - start);
                }
                visit(slot, Overlap { from: &from, to: &to, extent: &extent });
            });
        }
    }

    /// The elements of the block along the axis; of a scalar one.
    fn elements(&self) -> Range<u64> {
        let axis = self.layout.axis();
        self.index.get(axis).map_or(0..1, |block| self.layout.elements_of(*block, axis))
    }

    fn slots(&self, in_block: &[Range<u64>]) -> Slots {
        let axis = self.layout.axis();
        let mut built = 0;
        let along = in_block.get(axis).cloned().unwrap_or(0..1).map(|position| {
            let mut index: Vec<u64> = in_block.iter().map(|range| range.start).collect();
            if let Some(along) = index.get_mut(axis) {
                *along = position;
            }
            self.layout.builds(&index).then(|| {
                built += 1;
                built - 1
            })
        });
        let along = along.collect();
        let mut counts: Vec<usize> =
            in_block.iter().map(|range| length(range.end - range.start)).collect();
        if let Some(count) = counts.get_mut(axis) {
            *count = built;
        }
        let starts = in_block.iter().map(|range| range.start).collect();
        Slots { axis, starts, along, counts }
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

    pub(super) fn element_bytes(&self) -> usize {
        self.layout.metadata.data_type.size()
    }

    fn source_chunk_bytes(part: &PartLayout) -> usize {
        length(part.source_bytes())
    }
}

fn source_size<E>(piece: &Piece, expected: usize, actual: usize) -> BuildError<E> {
    BuildError::SourceSize { origin: piece.location.origin.clone(), expected, actual }
}
