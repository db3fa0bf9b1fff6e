//! String variables: from stored elements to texts.
//!
//! A text ends at its first NUL; padding with spaces is part of it. That is how netCDF-C shows
//! strings, of a fixed size or not. What is not UTF-8 is refused: its characters are not known.
//! (Attributes are more lenient, as netCDF4-python is with them.)

use std::sync::Arc;

use super::error::NetcdfError;
use super::file::{Inner, Stored};
use super::grid::product;
use super::hdf5::Store;
use super::read::read_elements;
use super::schema::ChunkLocation;

/// How an element holds its text.
#[derive(Debug)]
pub(super) enum TextForm {
    /// The element is the text, padded.
    Fixed,
    /// The element refers to an object in the global heap of this file.
    Heap(Arc<Store>),
}

impl TextForm {
    /// Whether texts are outside of the chunk.
    pub(super) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Heap(_))
    }

    /// The text of an element; `None` if it is not UTF-8.
    pub(super) fn text(&self, path: &str, element: &[u8]) -> Result<Option<Vec<u8>>, NetcdfError> {
        let mut text = match self {
            Self::Fixed => element.to_vec(),
            Self::Heap(store) => store.text(&format!("variable `{path}`"), element)?,
        };
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        text.truncate(end);
        Ok(std::str::from_utf8(&text).is_ok().then_some(text))
    }
}

/// How many bytes the texts of a chunk have together at most. `buffer` is for reuse.
pub(super) fn text_bytes(
    inner: &Inner,
    stored: &Stored,
    form: &TextForm,
    location: &ChunkLocation,
    buffer: &mut Vec<u8>,
) -> Result<u64, NetcdfError> {
    let TextForm::Heap(store) = form else {
        return Ok(product(&stored.chunk_shape).saturating_mul(stored.element_size));
    };
    read_elements(inner, stored, location, buffer)?;
    let what = format!("variable `{}`", stored.path);
    elements(stored, buffer).try_fold(0_u64, |bytes, element| {
        Ok(bytes.saturating_add(store.text_length(&what, element)?))
    })
}

/// See [`NetcdfFile::read_chunk`](super::NetcdfFile::read_chunk).
pub(super) fn read_chunk(
    inner: &Inner,
    stored: &Stored,
    form: &TextForm,
    location: &ChunkLocation,
    out: &mut Vec<u8>,
) -> Result<(), NetcdfError> {
    let mut raw = Vec::new();
    read_elements(inner, stored, location, &mut raw)?;
    let mut left = location.text_bytes;
    out.clear();
    for (place, element) in elements(stored, &raw).enumerate() {
        let text = form.text(&stored.path, element)?.ok_or_else(|| NetcdfError::NotUtf8 {
            variable: stored.path.clone(),
            element: element_index(stored, location, place),
        })?;
        let wrong = || NetcdfError::UnknownChunk(location.variable);
        let length = u32::try_from(text.len()).map_err(|_error| wrong())?;
        left = left.checked_sub(u64::from(length)).ok_or_else(wrong)?;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&text);
    }
    Ok(())
}

fn elements<'a>(stored: &Stored, raw: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    raw.chunks_exact(usize::try_from(stored.element_size).unwrap_or(usize::MAX).max(1))
}

/// Index in the variable of the element at a place in the chunk, for messages.
fn element_index(stored: &Stored, location: &ChunkLocation, place: usize) -> Vec<u64> {
    let mut place = place as u64;
    let mut index = location.origin.clone();
    for (at, length) in index.iter_mut().zip(&stored.chunk_shape).rev() {
        *at = at.saturating_add(place.checked_rem(*length).unwrap_or(0));
        place = place.checked_div(*length).unwrap_or(0);
    }
    index
}
