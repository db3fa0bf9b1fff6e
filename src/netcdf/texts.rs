//! String variables: from stored elements to texts.
//!
//! A text ends at its first NUL; padding with spaces is part of it. That is how netCDF-C shows
//! strings, of a fixed size or not. What is not UTF-8 is refused: its characters are not known.
//! (Attributes are more lenient, as netCDF4-python is with them.)

use std::sync::Arc;

use super::chunks::Chunks;
use super::error::NetcdfError;
use super::file::{Inner, Stored, for_each_variable};
use super::grid::product;
use super::hdf5::Store;
use super::read::read_elements;
use super::schema::{ChunkLocation, VariableId};

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

/// The file with its string variables read: those with a text that is not UTF-8 are unsupported.
/// Damaged ones are an error.
pub(super) fn checked(inner: Inner) -> Result<Arc<Inner>, NetcdfError> {
    let mut inner = Arc::new(inner);
    let strings = inner.stored.iter().enumerate().filter(|(_, stored)| stored.text.is_some());
    let ids: Vec<_> = strings.map(|(index, _)| VariableId(index)).collect();
    for id in ids {
        if inner.check_supported(id).is_err() {
            continue;
        }
        match check(&inner, id) {
            Ok(()) => {}
            Err(error @ NetcdfError::NotUtf8 { .. }) => {
                // The reading is over, so that nothing else refers to it.
                let Some(inner) = Arc::get_mut(&mut inner) else { return Err(error) };
                refuse(inner, id, &error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(inner)
}

fn check(inner: &Arc<Inner>, id: VariableId) -> Result<(), NetcdfError> {
    let stored = inner.stored(id)?;
    let Some(form) = &stored.text else { return Ok(()) };
    let mut raw = Vec::new();
    for location in Chunks::new(Arc::clone(inner), &[id]) {
        let location = location?;
        read_elements(inner, stored, &location, &mut raw)?;
        for (place, element) in elements(stored, &raw).enumerate() {
            let text = form.text(&stored.path, element)?;
            text.ok_or_else(|| not_utf8(stored, &location, place))?;
        }
    }
    Ok(())
}

fn refuse(inner: &mut Inner, id: VariableId, error: &NetcdfError) {
    let NetcdfError::NotUtf8 { element, .. } = error else { return };
    let reason = format!("a string that is not UTF-8, element {element:?}");
    for_each_variable(&mut inner.schema.root, &mut |variable| {
        if variable.id == id {
            variable.unsupported = Some(reason.clone());
        }
    });
}

fn not_utf8(stored: &Stored, location: &ChunkLocation, place: usize) -> NetcdfError {
    NetcdfError::NotUtf8 {
        variable: stored.path.clone(),
        element: element_index(stored, location, place),
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
        let text = form.text(&stored.path, element)?;
        let text = text.ok_or_else(|| not_utf8(stored, location, place))?;
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

#[cfg(test)]
mod tests {
    use super::super::NetcdfFile;
    use super::super::bytes::tests::Memory;
    use super::super::file::{Extent, Placement};
    use super::super::hdf5::heap_tests::{collection, reference, store};
    use super::super::schema::{DataType, Format, Group, Schema, Variable};
    use super::*;

    /// A file with one contiguous variable of three strings at `offset`.
    fn open(file: &[u8], form: TextForm, element_size: u64, offset: u64) -> NetcdfFile {
        let variable = Variable {
            id: VariableId(0),
            name: "v".into(),
            dimensions: vec!["x".into()],
            shape: vec![3],
            data_type: DataType::String,
            attributes: Vec::new(),
            chunk_shape: vec![2],
            chunked: false,
            fill: Vec::new(),
            unsupported: None,
        };
        let stored = Stored {
            path: "v".into(),
            extent: vec![3],
            chunk_shape: vec![2],
            element_size,
            text: Some(form),
            big_endian: false,
            fill: vec![0; usize::try_from(element_size).unwrap()],
            placement: Placement::Contiguous { offset },
        };
        let root = Group { variables: vec![variable], ..Group::default() };
        let needed = Extent { bytes: file.len() as u64, what: "the file".into() };
        let source = Arc::new(Memory(file.to_vec()));
        let schema = Schema { format: Format::Hdf5, root };
        NetcdfFile { inner: Arc::new(Inner { source, schema, stored: vec![stored], needed }) }
    }

    /// All texts of the file, chunk after chunk, with what is promised about their sizes.
    fn read(file: &NetcdfFile) -> Result<Vec<String>, NetcdfError> {
        let mut texts = Vec::new();
        for location in file.chunks(&[VariableId(0)]) {
            let location = location?;
            let mut out = vec![7];
            file.read_chunk(&location, &mut out)?;
            let (mut rest, mut bytes) = (out.as_slice(), 0);
            while let Some((length, after)) = rest.split_first_chunk() {
                let (text, after) = after.split_at(u32::from_le_bytes(*length) as usize);
                texts.push(String::from_utf8(text.to_vec()).unwrap());
                bytes += text.len() as u64;
                rest = after;
            }
            assert!(bytes <= location.text_bytes, "{bytes} {location:?}");
        }
        Ok(texts)
    }

    /// A heap at 8 with these objects, and references to some behind it.
    fn heap_file(objects: &[&[u8]], elements: [(u32, u32); 3]) -> (Vec<u8>, u64) {
        let mut file = [vec![0; 8], collection(objects)].concat();
        let offset = file.len() as u64;
        for (length, index) in elements {
            file.extend(reference(length, 8, index));
        }
        (file, offset)
    }

    fn open_heap(file: &[u8], offset: u64) -> NetcdfFile {
        open(file, TextForm::Heap(Arc::new(store(file))), 16, offset)
    }

    #[test]
    fn texts_of_the_heap_are_read_with_null_references_as_empty_ones() {
        let (file, offset) = heap_file(&[b"depth", "é\0x".as_bytes()], [(4, 2), (0, 0), (5, 1)]);
        // The fourth element pads the last chunk.
        assert_eq!(read(&open_heap(&file, offset)).unwrap(), ["é", "", "depth", ""]);
    }

    #[test]
    fn texts_of_a_fixed_size_end_at_nul_and_keep_spaces() {
        let file = open(b"ab\0xc  \0depth", TextForm::Fixed, 4, 0);
        assert_eq!(read(&file).unwrap(), ["ab", "c  ", "dept", ""]);
    }

    #[test]
    fn what_is_not_utf8_is_refused_by_element() {
        let (file, offset) = heap_file(&[b"a", b"b\xff"], [(1, 1), (1, 1), (2, 2)]);
        let error = read(&open_heap(&file, offset)).unwrap_err();
        assert!(matches!(&error, NetcdfError::NotUtf8 { element, .. } if *element == [2]));
        assert_eq!(error.to_string(), "variable `v`: the text of element [2] is not UTF-8");
    }

    #[test]
    fn a_variable_with_a_text_that_is_not_utf8_is_unsupported_once_the_file_was_checked() {
        let (file, offset) = heap_file(&[b"a", b"b\xff"], [(1, 1), (1, 1), (2, 2)]);
        let unchecked = Arc::into_inner(open_heap(&file, offset).inner).unwrap();
        let inner = checked(unchecked).unwrap();
        assert_eq!(
            inner.schema.root.variables[0].unsupported.as_deref(),
            Some("a string that is not UTF-8, element [2]")
        );
        let (file, offset) = heap_file(&[b"a", "é".as_bytes()], [(1, 1), (1, 1), (2, 2)]);
        let inner = checked(Arc::into_inner(open_heap(&file, offset).inner).unwrap()).unwrap();
        assert_eq!(inner.schema.root.variables[0].unsupported, None);
        // An object that is not there is damage, not an odd text.
        let (file, offset) = heap_file(&[b"a"], [(1, 1), (1, 7), (0, 0)]);
        let unchecked = Arc::into_inner(open_heap(&file, offset).inner).unwrap();
        assert!(matches!(checked(unchecked), Err(NetcdfError::Corrupt { .. })));
    }

    #[test]
    fn references_that_multiply_one_text_beyond_the_file_are_refused_before_it_is_read() {
        let long = vec![b'x'; 1000];
        let (file, offset) = heap_file(&[&long], [(1000, 1); 3]);
        let error = read(&open_heap(&file, offset)).unwrap_err();
        assert!(error.to_string().contains("more bytes than the file"), "{error}");
    }

    #[test]
    fn damage_anywhere_is_an_error_or_other_texts_but_no_panic() {
        let (intact, offset) =
            heap_file(&[b"depth", b"longer than eight"], [(5, 1), (17, 2), (0, 0)]);
        for at in 0..intact.len() {
            for bits in [0x01, 0x80, 0xff] {
                let mut file = intact.clone();
                file[at] ^= bits;
                drop(read(&open_heap(&file, offset)));
            }
            drop(read(&open_heap(&intact[..at], offset)));
        }
    }
}
