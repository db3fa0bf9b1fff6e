//! Reading HDF5 structures at addresses, for our own parsers and for `hdf5-reader`'s.
//!
//! Addresses count from the superblock's base; offsets from the start of the file. Reads end at the
//! end-of-file address, so that nothing waits for bytes that a growing file will never have.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hdf5_reader::error::Error as Hdf5Error;
use hdf5_reader::{Storage, StorageBuffer};
use parking_lot::Mutex;

use super::heap::{Collection, Reference};
use crate::netcdf::bytes::{Bytes, read_vec};
use crate::netcdf::error::NetcdfError;
use crate::netcdf::source::ByteSource;

/// Collections of the global heap that are kept. They are about 4 KiB, at most 64 KiB.
const HEAPS_MAX: usize = 16;

/// An HDF5 file whose superblock is known.
pub(in crate::netcdf) struct Store {
    pub(super) source: Arc<dyn ByteSource>,
    /// Offset of the superblock.
    pub(super) base: u64,
    /// Offset of the end of the file, as the superblock says.
    pub(super) end: u64,
    /// Bytes of an address.
    pub(super) offset_size: u8,
    /// Bytes of a length.
    pub(super) length_size: u8,
    /// Collections of the global heap, the one used last at the end. Neighbouring elements share
    /// them.
    heaps: Mutex<Vec<Arc<Collection>>>,
    /// The last failure of [`Storage::read_range`], whose own error type is poorer.
    failure: Mutex<Option<NetcdfError>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("base", &self.base)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Store {
    pub(super) fn new(
        source: Arc<dyn ByteSource>,
        base: u64,
        end: u64,
        offset_size: u8,
        length_size: u8,
    ) -> Self {
        Self {
            source,
            base,
            end,
            offset_size,
            length_size,
            heaps: Mutex::new(Vec::new()),
            failure: Mutex::new(None),
        }
    }

    /// Offset of an address.
    pub(super) fn offset(&self, address: u64) -> u64 {
        address.saturating_add(self.base)
    }

    pub(super) fn read(
        &self,
        what: &str,
        address: u64,
        length: u64,
    ) -> Result<Vec<u8>, NetcdfError> {
        let offset = self.offset(address);
        if offset.checked_add(length).is_none_or(|end| end > self.end) {
            let reason =
                format!("its {length} bytes reach beyond the end of the file at {}", self.end);
            return Err(NetcdfError::corrupt(what, offset, reason));
        }
        read_vec(self.source.as_ref(), offset, length)
    }

    /// An address; `Some(None)` is the undefined one.
    #[allow(clippy::option_option, reason = "cut short, undefined and defined are three things")]
    pub(super) fn address(&self, bytes: &mut Bytes<'_>) -> Option<Option<u64>> {
        let size = usize::from(self.offset_size);
        let value = bytes.uint_le(size)?;
        let undefined = match self.offset_size {
            8.. => u64::MAX,
            size => (1_u64 << (u32::from(size).saturating_mul(8))).wrapping_sub(1),
        };
        Some((value != undefined).then_some(value))
    }

    /// A length.
    pub(super) fn length(&self, bytes: &mut Bytes<'_>) -> Option<u64> {
        bytes.uint_le(usize::from(self.length_size))
    }

    /// Calls into `hdf5-reader`.
    ///
    /// That crate is written for untrusted files, but some of its arithmetic is unchecked (as are
    /// its slices of what it computed), so a panic is taken for what it means: a damaged
    /// structure. Its state is made for the call and dropped with it, hence `AssertUnwindSafe`.
    pub(super) fn guard<T>(
        &self,
        what: &str,
        address: u64,
        call: impl FnOnce() -> Result<T, Hdf5Error>,
    ) -> Result<T, NetcdfError> {
        let offset = self.offset(address);
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Hdf5Error::Io(source))) => Err(self
                .failure
                .lock()
                .take()
                .unwrap_or(NetcdfError::Read { offset, length: 0, source })),
            Ok(Err(error)) => Err(NetcdfError::corrupt(what, offset, error.to_string())),
            Err(_panic) => Err(NetcdfError::corrupt(what, offset, "it contradicts itself")),
        }
    }

    /// An object of the global heap; empty for the null reference.
    pub(super) fn heap_object(
        &self,
        what: &str,
        reference: &mut Bytes<'_>,
    ) -> Result<Vec<u8>, NetcdfError> {
        match self.reference(what, reference)? {
            None => Ok(Vec::new()),
            Some(reference) => {
                self.heap(reference.address)?.object(self, reference.index, u64::MAX)
            }
        }
    }

    /// How many bytes the text that `reference` names has at most.
    pub(in crate::netcdf) fn text_length(
        &self,
        what: &str,
        reference: &[u8],
    ) -> Result<u64, NetcdfError> {
        let reference = self.reference(what, &mut Bytes::new(reference))?;
        Ok(reference.map_or(0, |reference| u64::from(reference.length)))
    }

    /// The bytes of the text that `reference` names, at most as many as the reference says.
    pub(in crate::netcdf) fn text(
        &self,
        what: &str,
        reference: &[u8],
    ) -> Result<Vec<u8>, NetcdfError> {
        let Some(reference) = self.reference(what, &mut Bytes::new(reference))? else {
            return Ok(Vec::new());
        };
        let length = u64::from(reference.length);
        let text = self.heap(reference.address)?.object(self, reference.index, length)?;
        if (text.len() as u64) < length {
            let reason = format!("a text has {} bytes instead of {length}", text.len());
            return Err(NetcdfError::corrupt(what, self.offset(reference.address), reason));
        }
        Ok(text)
    }

    fn reference(
        &self,
        what: &str,
        bytes: &mut Bytes<'_>,
    ) -> Result<Option<Reference>, NetcdfError> {
        Reference::read(self, bytes)
            .ok_or_else(|| NetcdfError::corrupt(what, 0, "a heap reference is cut short"))
    }

    fn heap(&self, address: u64) -> Result<Arc<Collection>, NetcdfError> {
        let mut heaps = self.heaps.lock();
        if let Some(place) = heaps.iter().rposition(|heap| heap.address == address) {
            let heap = heaps.remove(place);
            heaps.push(Arc::clone(&heap));
            return Ok(heap);
        }
        drop(heaps);
        let heap = Arc::new(Collection::read(self, address)?);
        let mut heaps = self.heaps.lock();
        if heaps.len() >= HEAPS_MAX {
            heaps.remove(0);
        }
        heaps.push(Arc::clone(&heap));
        Ok(heap)
    }
}

impl Storage for Store {
    fn len(&self) -> u64 {
        self.end.saturating_sub(self.base)
    }

    fn read_range(&self, offset: u64, len: usize) -> Result<StorageBuffer, Hdf5Error> {
        let failed = |error| {
            *self.failure.lock() = Some(error);
            Hdf5Error::Io(ErrorKind::Other.into())
        };
        let bytes = self.read("a structure", offset, len as u64).map_err(failed)?;
        Ok(StorageBuffer::from_vec(bytes))
    }
}
