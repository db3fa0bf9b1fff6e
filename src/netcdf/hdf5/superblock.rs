//! The superblock, versions 0 to 3 (HDF5 File Format Specification, section II.A).

use std::sync::Arc;

use hdf5_reader::checksum::jenkins_lookup3;

use super::store::Store;
use crate::netcdf::bytes::{Bytes, read_vec};
use crate::netcdf::error::NetcdfError;
use crate::netcdf::source::ByteSource;

/// Flag of version 3: a writer has the file open, or died without closing it.
const OPEN_FOR_WRITING: u8 = 0x01;

/// Bytes of the fixed part: enough to know the version and the sizes.
const PREFIX_BYTES: u64 = 16;

struct Fields {
    base: Option<u64>,
    end: Option<u64>,
    root: Option<u64>,
}

/// The file, and the address of its root group.
pub(super) fn read(source: Arc<dyn ByteSource>, offset: u64) -> Result<(Store, u64), NetcdfError> {
    let corrupt = |reason: &str| NetcdfError::corrupt("the superblock", offset, reason);
    let prefix = read_vec(source.as_ref(), offset, PREFIX_BYTES)?;
    let (version, at_sizes) = match prefix.get(8) {
        Some(version @ (0 | 1)) => (*version, 13),
        Some(version @ (2 | 3)) => (*version, 9),
        _ => {
            return Err(NetcdfError::Unsupported(
                "an unknown version of the superblock".to_owned(),
            ));
        }
    };
    let sizes = prefix.get(at_sizes..).and_then(<[u8]>::first_chunk::<2>);
    let Some([offset_size @ (2 | 4 | 8), length_size @ (2 | 4 | 8)]) = sizes.copied() else {
        return Err(corrupt("its sizes of addresses and lengths are impossible"));
    };
    let store = Store::new(source, offset, u64::MAX, offset_size, length_size);
    let fields = match version {
        0 | 1 => version_0_1(&store, version)?,
        _ => version_2_3(&store, version)?,
    };
    let (Some(base), Some(end), Some(root)) = (fields.base, fields.end, fields.root) else {
        return Err(corrupt("an address is undefined"));
    };
    // A file that was moved behind a user block afterwards still has its old base.
    let end = end.saturating_sub(base).saturating_add(offset);
    Ok((Store::new(store.source, offset, end, offset_size, length_size), root))
}

fn short(store: &Store) -> NetcdfError {
    NetcdfError::corrupt("the superblock", store.base, "it is cut short")
}

fn version_0_1(store: &Store, version: u8) -> Result<Fields, NetcdfError> {
    let fixed = if version == 0 { 24_u64 } else { 28 };
    let addresses = u64::from(store.offset_size).saturating_mul(6);
    let block = store.read("the superblock", 0, fixed.saturating_add(addresses))?;
    let mut bytes = Bytes::new(&block);
    let parse = |bytes: &mut Bytes<'_>| {
        bytes.skip(usize::try_from(fixed).ok()?)?;
        let base = store.address(bytes)?;
        store.address(bytes)?;
        let end = store.address(bytes)?;
        let driver = store.address(bytes)?;
        store.address(bytes)?;
        Some((driver, Fields { base, end, root: store.address(bytes)? }))
    };
    let (driver, fields) = parse(&mut bytes).ok_or_else(|| short(store))?;
    if driver.is_some() {
        return Err(NetcdfError::Unsupported("a file driver (family or multi files)".to_owned()));
    }
    Ok(fields)
}

fn version_2_3(store: &Store, version: u8) -> Result<Fields, NetcdfError> {
    let summed = u64::from(store.offset_size).saturating_mul(4).saturating_add(12);
    let block = store.read("the superblock", 0, summed.saturating_add(4))?;
    let (body, checksum) = block.split_last_chunk::<4>().ok_or_else(|| short(store))?;
    if jenkins_lookup3(body) != u32::from_le_bytes(*checksum) {
        return Err(NetcdfError::corrupt("the superblock", store.base, "its checksum is wrong"));
    }
    let mut bytes = Bytes::new(body);
    let parse = |bytes: &mut Bytes<'_>| {
        bytes.skip(11)?;
        let flags = bytes.u8()?;
        let base = store.address(bytes)?;
        store.address(bytes)?;
        let end = store.address(bytes)?;
        Some((flags, Fields { base, end, root: store.address(bytes)? }))
    };
    let (flags, fields) = parse(&mut bytes).ok_or_else(|| short(store))?;
    if version == 3 && flags & OPEN_FOR_WRITING != 0 {
        let reason = "its writer has not closed the file";
        return Err(NetcdfError::corrupt("the superblock", store.base, reason));
    }
    Ok(fields)
}
