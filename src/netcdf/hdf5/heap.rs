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
        match place.and_then(|place| self.objects.get(place)) {
            Some(object) => self.stretch(store, object.address, object.size.min(length_max)),
            None => {
                let reason = format!("object {index} is referred to and not there");
                Err(self.corrupt(store, &reason))
            }
        }
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
