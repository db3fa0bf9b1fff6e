//! The global heap (HDF5 File Format Specification, section III.E): where the values of
//! variable-length elements are.
//!
//! ```text
//! reference   length in elements (4 bytes) · address of a collection · index of an object (4)
//! collection  "GCOL" · version 1 · 3 bytes · size of the whole · objects
//! object      index (2) · reference count (2) · 4 bytes · size · data, padded to 8 bytes
//! ```
//!
//! An object with index 0 is the free space that ends a collection. Only the places of objects are
//! remembered of a collection, with its bytes when it is small.

use super::store::Store;
use crate::netcdf::bytes::Bytes;
use crate::netcdf::error::NetcdfError;

/// Collections up to this size are read at once. HDF5 makes them larger only for a single object
/// that does not fit.
const WHOLE_BYTES_MAX: u64 = 64 << 10;

/// A reference to an object of the global heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference {
    /// Elements of the value; bytes for texts.
    pub(super) length: u32,
    pub(super) address: u64,
    pub(super) index: u32,
}

impl Reference {
    /// Reads a reference. The inner `None` is the null reference.
    #[allow(clippy::option_option, reason = "cut short, null and an object are three things")]
    pub(super) fn read(store: &Store, bytes: &mut Bytes<'_>) -> Option<Option<Self>> {
        let length = bytes.u32_le()?;
        let address = store.address(bytes)?;
        let index = bytes.u32_le()?;
        Some(match address {
            Some(address) if address != 0 && index != 0 && length != 0 => {
                Some(Self { length, address, index })
            }
            _ => None,
        })
    }
}

/// Where an object's data is.
#[derive(Debug)]
struct Object {
    index: u16,
    address: u64,
    size: u64,
}

/// The objects of one collection.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) address: u64,
    /// By index.
    objects: Vec<Object>,
    /// The whole collection, if it is small; empty if not.
    bytes: Vec<u8>,
}

impl Collection {
    pub(super) fn read(store: &Store, address: u64) -> Result<Self, NetcdfError> {
        let mut collection = Self { address, objects: Vec::new(), bytes: Vec::new() };
        let header_bytes = u64::from(store.length_size).saturating_add(8);
        let header = store.read("a global heap", address, header_bytes)?;
        let mut bytes = Bytes::new(&header);
        let size = match (bytes.array::<4>(), bytes.u8(), bytes.skip(3), store.length(&mut bytes)) {
            (Some(signature), Some(1), Some(()), Some(size)) if signature == *b"GCOL" => size,
            _ => return Err(collection.corrupt(store, "it has no known version")),
        };
        let end = address.saturating_add(size);
        if store.offset(address).checked_add(size).is_none_or(|end| end > store.end) {
            return Err(collection.corrupt(store, "it reaches beyond the end of the file"));
        }
        if size <= WHOLE_BYTES_MAX {
            collection.bytes = store.read("a global heap", address, size)?;
        }
        let mut at = address.saturating_add(header_bytes);
        while end.checked_sub(at).is_some_and(|left| left >= header_bytes) {
            let Some(object) = collection.object_at(store, at, header_bytes)? else { break };
            let padded = object.size.checked_next_multiple_of(8);
            let behind = object.address.checked_add(object.size);
            match (behind, padded.and_then(|padded| object.address.checked_add(padded))) {
                (Some(behind), Some(next)) if behind <= end => at = next,
                _ => return Err(collection.corrupt(store, "an object is larger than it")),
            }
            collection.objects.push(object);
            if collection.objects.len() > usize::from(u16::MAX) {
                return Err(collection.corrupt(store, "it has too many objects"));
            }
        }
        collection.objects.sort_by_key(|object| object.index);
        if !collection.objects.is_sorted_by(|a, b| a.index < b.index) {
            return Err(collection.corrupt(store, "two objects have the same index"));
        }
        Ok(collection)
    }

    /// The object whose header is at `at`; `None` for the free space.
    fn object_at(
        &self,
        store: &Store,
        at: u64,
        header_bytes: u64,
    ) -> Result<Option<Object>, NetcdfError> {
        let header = self.stretch(store, at, header_bytes)?;
        let mut bytes = Bytes::new(&header);
        let index = bytes.u16_le().filter(|index| *index != 0);
        let size = bytes.skip(6).and_then(|()| store.length(&mut bytes));
        let address = at.saturating_add(header_bytes);
        Ok(index.zip(size).map(|(index, size)| Object { index, address, size }))
    }

    /// The first `length_max` bytes of an object, all of it if that is less.
    pub(super) fn object(
        &self,
        store: &Store,
        index: u32,
        length_max: u64,
    ) -> Result<Vec<u8>, NetcdfError> {
        let place = u16::try_from(index)
            .ok()
            .and_then(|index| self.objects.binary_search_by_key(&index, |o| o.index).ok());
        let Some(object) = place.and_then(|place| self.objects.get(place)) else {
            let reason = format!("object {index} is referred to and not there");
            return Err(self.corrupt(store, &reason));
        };
        self.stretch(store, object.address, object.size.min(length_max))
    }

    fn stretch(&self, store: &Store, address: u64, length: u64) -> Result<Vec<u8>, NetcdfError> {
        if self.bytes.is_empty() {
            return store.read("an object of a global heap", address, length);
        }
        let start = usize::try_from(address.saturating_sub(self.address)).ok();
        let length = usize::try_from(length).ok();
        let inside = start
            .zip(length)
            .and_then(|(start, length)| self.bytes.get(start..)?.get(..length).map(<[u8]>::to_vec));
        inside.ok_or_else(|| self.corrupt(store, "an object is larger than it"))
    }

    fn corrupt(&self, store: &Store, reason: &str) -> NetcdfError {
        NetcdfError::corrupt("a global heap", store.offset(self.address), reason)
    }
}

#[cfg(test)]
pub(in crate::netcdf) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::netcdf::bytes::tests::Memory;

    /// A collection of objects with indices from 1, ended by free space.
    pub(in crate::netcdf) fn collection(objects: &[&[u8]]) -> Vec<u8> {
        let mut body = Vec::new();
        for (index, object) in (1_u16..).zip(objects) {
            body.extend(index.to_le_bytes());
            body.extend([1, 0, 0, 0, 0, 0]);
            body.extend((object.len() as u64).to_le_bytes());
            body.extend(*object);
            body.resize(body.len().next_multiple_of(8), 0xee);
        }
        body.extend([0; 16]);
        let mut bytes = b"GCOL\x01\0\0\0".to_vec();
        bytes.extend((body.len() as u64 + 16).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    pub(in crate::netcdf) fn reference(length: u32, address: u64, index: u32) -> Vec<u8> {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(address.to_le_bytes());
        bytes.extend(index.to_le_bytes());
        bytes
    }

    pub(in crate::netcdf) fn store(file: &[u8]) -> Store {
        Store::new(Arc::new(Memory(file.to_vec())), 0, file.len() as u64, 8, 8)
    }

    #[test]
    fn objects_are_found_in_small_and_in_large_collections() {
        let long = vec![b'x'; 100_000];
        for objects in [[&b"one"[..], b"", b"three"], [b"one", &long, b"three"]] {
            let mut file = vec![0; 40];
            file.extend(collection(&objects));
            let store = store(&file);
            for (index, object) in (1..).zip(objects) {
                let length = u32::try_from(object.len()).unwrap();
                assert_eq!(store.text("v", &reference(length, 40, index)).unwrap(), object);
            }
            assert_eq!(store.text("v", &reference(2, 40, 3)).unwrap(), b"th");
            let whole = store.heap_object("v", &mut Bytes::new(&reference(2, 40, 3)));
            assert_eq!(whole.unwrap(), b"three");
        }
    }

    #[test]
    fn null_references_are_empty_texts() {
        let store = store(b"no heap at all");
        for null in [reference(0, 8, 1), reference(5, 0, 1), reference(5, u64::MAX, 1)] {
            assert_eq!(store.text("v", &null).unwrap(), b"");
            assert_eq!(store.text_length("v", &null).unwrap(), 0);
        }
    }

    #[test]
    fn references_to_what_is_not_there_are_errors() {
        let good = collection(&[b"one", b"two"]);
        let store_of = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut file = good.clone();
            change(&mut file);
            store(&file)
        };
        let text = |store: &Store, length, address, index| {
            store.text("v", &reference(length, address, index))
        };
        let intact = store_of(&|_| {});
        assert_eq!(text(&intact, 3, 0, 2).unwrap(), b"", "address 0 is null");
        let shifted = store(&[vec![0; 8], good.clone()].concat());
        assert_eq!(text(&shifted, 3, 8, 2).unwrap(), b"two");
        assert!(text(&shifted, 3, 8, 3).is_err(), "no such object");
        assert!(text(&shifted, 3, 8, 65_538).is_err(), "the index has 16 bits");
        assert!(text(&shifted, 4, 8, 2).is_err(), "shorter than the reference says");
        assert!(text(&shifted, 3, 9, 2).is_err(), "no collection there");
        assert!(text(&shifted, 3, u64::MAX - 8, 2).is_err(), "beyond the file");
        assert!(shifted.text("v", &reference(3, 8, 2)[..15]).is_err(), "cut short");
        let damaged = |at: usize, bytes: &[u8]| {
            let mut file = [vec![0; 8], good.clone()].concat();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            text(&store(&file), 3, 8, 2)
        };
        assert!(damaged(12, &[2]).is_err(), "another version");
        assert!(damaged(16, &u64::MAX.to_le_bytes()).is_err(), "a collection beyond the file");
        assert!(damaged(32, &u64::MAX.to_le_bytes()).is_err(), "an object beyond it");
        assert!(damaged(32, &(u64::MAX - 7).to_le_bytes()).is_err(), "an object around 64 bits");
        assert!(damaged(48, &[1, 0]).is_err(), "an index twice");
    }
}
