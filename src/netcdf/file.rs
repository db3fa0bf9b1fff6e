//! An open source file: its schema, and where and how each variable is stored.

use std::sync::Arc;

use super::error::NetcdfError;
use super::hdf5::Chunked;
use super::schema::{ChunkLocation, Format, Group, Schema, Variable, VariableId};
use super::source::ByteSource;
use super::texts::TextForm;
use super::{chunks, classic, hdf5, read, sniff, texts};

/// A NetCDF file whose metadata has been read. Clones share everything.
#[derive(Clone)]
pub struct NetcdfFile {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) source: Arc<dyn ByteSource>,
    pub(super) schema: Schema,
    /// By [`VariableId`].
    pub(super) stored: Vec<Stored>,
    /// Bytes the file must have at least, with the name of what ends there.
    pub(super) needed: Extent,
}

/// Where the file ends at least.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    pub(super) bytes: u64,
    pub(super) what: String,
}

/// How one variable is stored.
#[derive(Debug)]
pub(super) struct Stored {
    /// Path for messages.
    pub(super) path: String,
    /// Shape of what the file stores. Shorter than the variable's shape where another variable
    /// made an unlimited dimension longer.
    pub(super) extent: Vec<u64>,
    pub(super) chunk_shape: Vec<u64>,
    /// Bytes of one element as stored; 0 when the variable is unsupported.
    pub(super) element_size: u64,
    /// How elements are texts, for strings.
    pub(super) text: Option<TextForm>,
    /// Whether the file holds the elements big-endian.
    pub(super) big_endian: bool,
    /// One element, little-endian; as stored if it is a text.
    pub(super) fill: Vec<u8>,
    pub(super) placement: Placement,
}

/// Where a variable's values lie.
#[derive(Debug)]
pub(super) enum Placement {
    /// Nowhere: nothing was ever written, or [`Variable::unsupported`] is set.
    Nowhere,
    /// In one stretch that starts at `offset`, in C order.
    Contiguous { offset: u64 },
    /// One record after the other, `stride` bytes apart.
    Records { offset: u64, stride: u64 },
    /// In HDF5 chunks.
    Chunked(Arc<Chunked>),
}

impl NetcdfFile {
    /// Reads the metadata. Of a growing file this waits for the metadata only, which usually lies
    /// in front; where attributes were added last it may lie at the end.
    ///
    /// A file that is shorter than its header says is refused here if its length is known, and
    /// by [`check_complete`](Self::check_complete) or at the end of [`chunks`](Self::chunks) if
    /// not. Strings are all read here if the length is known: variables with some that are not
    /// UTF-8 are [`unsupported`](Variable::unsupported) then.
    pub fn open(source: Arc<dyn ByteSource>) -> Result<Self, NetcdfError> {
        let (format, header_offset) = sniff::sniff_source(source.as_ref())?;
        let inner = match format {
            Format::Classic(version) => classic::open(source, version)?,
            Format::Hdf5 => hdf5::open(source, header_offset)?,
        };
        let Some(length) = inner.source.len_if_known().map_err(NetcdfError::Length)? else {
            return Ok(Self { inner: Arc::new(inner) });
        };
        inner.needed.check(length)?;
        texts::checked(inner).map(|inner| Self { inner })
    }

    /// What the file contains.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }

    /// Waits for the length of the file and compares it with what the metadata needs.
    pub fn check_complete(&self) -> Result<(), NetcdfError> {
        self.inner.needed.check(self.inner.source.len().map_err(NetcdfError::Length)?)
    }

    /// Bytes the file must have at least by its own metadata. Known before they have arrived.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        self.inner.needed.bytes
    }

    /// Locations of the stored chunks of these variables, merged in file order: ascending by
    /// offset as far as that can be known while the file may still be growing. Chunks that were
    /// never allocated do not appear; they read as [`Variable::fill`].
    ///
    /// Lazy: an index is read as far as it is needed, and waiting for bytes of a growing file
    /// happens inside `next`. The first error ends the stream. Its end is reached only if
    /// the file is as long as it must be.
    pub fn chunks(
        &self,
        variables: &[VariableId],
    ) -> impl Iterator<Item = Result<ChunkLocation, NetcdfError>> + Send + use<> {
        chunks::Chunks::new(Arc::clone(&self.inner), variables)
    }

    /// Reads and decodes one chunk: little-endian elements in C order, always the full
    /// [`Variable::chunk_shape`]; `out` is resized to that. Elements outside of the variable's
    /// shape are fill.
    ///
    /// Each element of a string variable is its length in bytes (a little-endian `u32`), then its
    /// UTF-8. Together the texts have at most [`ChunkLocation::text_bytes`].
    pub fn read_chunk(
        &self,
        location: &ChunkLocation,
        out: &mut Vec<u8>,
    ) -> Result<(), NetcdfError> {
        read::read_chunk(&self.inner, location, out)
    }

    /// The byte ranges of the file that this chunk, and nothing else, is stored in. One range,
    /// except for chunks that gather several records of a classic file.
    pub fn stored_ranges(
        &self,
        location: &ChunkLocation,
    ) -> Result<Vec<std::ops::Range<u64>>, NetcdfError> {
        read::stored_ranges(&self.inner, location)
    }
}

impl Inner {
    pub(super) fn stored(&self, id: VariableId) -> Result<&Stored, NetcdfError> {
        self.stored.get(id.0).ok_or(NetcdfError::UnknownChunk(id))
    }

    /// Fails if the variable is unsupported.
    pub(super) fn check_supported(&self, id: VariableId) -> Result<(), NetcdfError> {
        let variable = find(&self.schema.root, id).ok_or(NetcdfError::UnknownChunk(id))?;
        match &variable.unsupported {
            None => Ok(()),
            Some(reason) => Err(NetcdfError::UnsupportedVariable {
                variable: self.stored(id)?.path.clone(),
                reason: reason.clone(),
            }),
        }
    }
}

impl Extent {
    pub(super) fn check(&self, length: u64) -> Result<(), NetcdfError> {
        if length >= self.bytes {
            return Ok(());
        }
        Err(NetcdfError::Truncated {
            what: self.what.clone(),
            expected: self.bytes,
            actual: length,
        })
    }
}

/// Goes through the variables of a group and all below it.
pub(super) fn for_each_variable(group: &mut Group, visit: &mut impl FnMut(&mut Variable)) {
    group.variables.iter_mut().for_each(&mut *visit);
    for child in &mut group.groups {
        for_each_variable(child, visit);
    }
}

fn find(group: &Group, id: VariableId) -> Option<&Variable> {
    let here = group.variables.iter().find(|variable| variable.id == id);
    here.or_else(|| group.groups.iter().find_map(|child| find(child, id)))
}
