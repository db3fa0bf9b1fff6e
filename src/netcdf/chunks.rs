//! The stream of chunk locations: a merge over variables by the file offset that comes next.
//!
//! Each variable is a [`Walk`] that knows the offset of the next thing it would touch: a chunk, or
//! a node of its chunk index that has to be read first. The walk with the smallest offset is
//! taken a step further. On a file that is still growing the wait for one variable's index node
//! therefore comes only after everything that lies before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::error::NetcdfError;
use super::file::{Inner, Placement, Stored};
use super::grid::GridWalk;
use super::hdf5::IndexWalk;
use super::read::flat_location;
use super::schema::{ChunkLocation, VariableId};
use super::texts;

/// See [`NetcdfFile::chunks`](super::NetcdfFile::chunks).
pub(super) struct Chunks {
    inner: Arc<Inner>,
    walks: Vec<Walk>,
    /// Offset that each unfinished walk would touch next, with its place in `walks`.
    order: BinaryHeap<Reverse<(u64, usize)>>,
    state: State,
    /// Reused between chunks of texts.
    references: Vec<u8>,
}

enum State {
    /// Variables were refused; said by the first `next`.
    Refused(NetcdfError),
    Walking,
    Finished,
}

struct Walk {
    variable: VariableId,
    kind: Kind,
    /// Stored bytes of the chunks so far.
    stored_bytes: u64,
    /// Bytes of the texts of the chunks so far, at most.
    text_bytes: u64,
}

enum Kind {
    Flat(GridWalk),
    Indexed(IndexWalk),
}

impl Chunks {
    pub(super) fn new(inner: Arc<Inner>, variables: &[VariableId]) -> Self {
        let mut chunks = Self {
            inner,
            walks: Vec::new(),
            order: BinaryHeap::new(),
            state: State::Walking,
            references: Vec::new(),
        };
        for variable in variables {
            if let Err(error) = chunks.add(*variable) {
                chunks.state = State::Refused(error);
                break;
            }
        }
        chunks
    }

    fn add(&mut self, variable: VariableId) -> Result<(), NetcdfError> {
        self.inner.check_supported(variable)?;
        let stored = self.inner.stored(variable)?;
        let kind = match &stored.placement {
            Placement::Nowhere => return Ok(()),
            Placement::Contiguous { .. } | Placement::Records { .. } => {
                Kind::Flat(GridWalk::new(stored.extent.clone(), stored.chunk_shape.clone()))
            }
            Placement::Chunked(chunked) => {
                Kind::Indexed(IndexWalk::new(Arc::clone(chunked), stored.path.clone()))
            }
        };
        self.walks.push(Walk { variable, kind, stored_bytes: 0, text_bytes: 0 });
        self.schedule(self.walks.len().saturating_sub(1))
    }

    /// Puts a walk back into the order if it has something left.
    fn schedule(&mut self, index: usize) -> Result<(), NetcdfError> {
        let Some(walk) = self.walks.get(index) else { return Ok(()) };
        let stored = self.inner.stored(walk.variable)?;
        if let Some(offset) = walk.next_offset(stored)? {
            self.order.push(Reverse((offset, index)));
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<ChunkLocation>, NetcdfError> {
        while let Some(Reverse((_, index))) = self.order.pop() {
            let Some(walk) = self.walks.get_mut(index) else { continue };
            let stored = self.inner.stored(walk.variable)?;
            let found = walk.step(stored)?;
            self.schedule(index)?;
            if let Some(mut location) = found {
                self.check_inside(&location)?;
                self.check_distinct(index, &location)?;
                location.text_bytes = self.text_bytes(index, &location)?;
                return Ok(Some(location));
            }
        }
        let length = self.inner.source.len().map_err(NetcdfError::Length)?;
        self.inner.needed.check(length)?;
        Ok(None)
    }

    /// How many bytes the texts of a chunk have at most. No two elements share a text in what HDF5
    /// writes, so that all texts of a variable are smaller than the file.
    fn text_bytes(&mut self, walk: usize, location: &ChunkLocation) -> Result<u64, NetcdfError> {
        let stored = self.inner.stored(location.variable)?;
        let (Some(form), Some(walk)) = (&stored.text, self.walks.get_mut(walk)) else {
            return Ok(0);
        };
        let bytes = texts::text_bytes(&self.inner, stored, form, location, &mut self.references)?;
        walk.text_bytes = walk.text_bytes.saturating_add(bytes);
        if form.is_elsewhere() && walk.text_bytes > self.inner.needed.bytes {
            return Err(NetcdfError::corrupt(
                format!("variable `{}`", stored.path),
                location.offset,
                "its texts have more bytes than the file",
            ));
        }
        Ok(bytes)
    }

    /// No two chunks share bytes. Where an index is damaged or made up they may, which would multiply
    /// what a small file can ask for.
    fn check_distinct(&mut self, walk: usize, location: &ChunkLocation) -> Result<(), NetcdfError> {
        let Some(walk) = self.walks.get_mut(walk) else { return Ok(()) };
        walk.stored_bytes = walk.stored_bytes.saturating_add(location.size);
        if walk.stored_bytes <= self.inner.needed.bytes {
            return Ok(());
        }
        Err(NetcdfError::corrupt(
            format!("variable `{}`", self.inner.stored(location.variable)?.path),
            location.offset,
            "its chunks have more bytes than the file",
        ))
    }

    fn check_inside(&self, location: &ChunkLocation) -> Result<(), NetcdfError> {
        let end = location.offset.checked_add(location.size);
        if end.is_some_and(|end| end <= self.inner.needed.bytes) {
            return Ok(());
        }
        let path = &self.inner.stored(location.variable)?.path;
        Err(NetcdfError::corrupt(
            format!("variable `{path}`: the chunk of element {:?}", location.origin),
            location.offset,
            format!(
                "its {} bytes reach beyond the end of the file at {}",
                location.size, self.inner.needed.bytes
            ),
        ))
    }
}

impl Iterator for Chunks {
    type Item = Result<ChunkLocation, NetcdfError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = match std::mem::replace(&mut self.state, State::Finished) {
            State::Finished => return None,
            State::Refused(error) => return Some(Err(error)),
            State::Walking => self.step().transpose()?,
        };
        if found.is_ok() {
            self.state = State::Walking;
        }
        Some(found)
    }
}

impl Walk {
    fn next_offset(&self, stored: &Stored) -> Result<Option<u64>, NetcdfError> {
        match &self.kind {
            Kind::Flat(grid) => match grid.peek() {
                None => Ok(None),
                Some(origin) => Ok(Some(flat(stored, origin)?.0)),
            },
            Kind::Indexed(index) => Ok(index.next_offset()),
        }
    }

    /// One step; `None` if it only read a part of an index.
    fn step(&mut self, stored: &Stored) -> Result<Option<ChunkLocation>, NetcdfError> {
        match &mut self.kind {
            Kind::Flat(grid) => {
                let Some(origin) = grid.peek().map(<[u64]>::to_vec) else { return Ok(None) };
                grid.advance();
                let (offset, size) = flat(stored, &origin)?;
                let variable = self.variable;
                Ok(Some(ChunkLocation {
                    variable,
                    origin,
                    offset,
                    size,
                    filter_mask: 0,
                    text_bytes: 0,
                }))
            }
            Kind::Indexed(index) => Ok(index.step()?.map(|chunk| ChunkLocation {
                variable: self.variable,
                origin: chunk.origin,
                offset: chunk.offset,
                size: chunk.size,
                filter_mask: chunk.filter_mask,
                text_bytes: 0,
            })),
        }
    }
}

fn flat(stored: &Stored, origin: &[u64]) -> Result<(u64, u64), NetcdfError> {
    flat_location(stored, origin).ok_or_else(|| {
        let what = format!("variable `{}`", stored.path);
        NetcdfError::corrupt(what, 0, format!("element {origin:?} lies beyond any offset"))
    })
}
