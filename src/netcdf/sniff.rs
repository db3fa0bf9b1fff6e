//! Which format a file has, by its first bytes.
//!
//! Classic files start with `CDF` and a version byte. HDF5 files start with an eight-byte
//! signature, or have it behind a user block at offset 512, 1024, 2048, ... (HDF5 File Format
//! Specification, "Superblock").

use super::error::NetcdfError;
use super::schema::Format;
use super::source::ByteSource;

pub(super) const HDF5_SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// Largest user block searched for: beyond it only the end of the file would stop the search.
const USER_BLOCK_BYTES_MAX: u64 = 1 << 26;

/// The format, judged by the first bytes of a file. The more bytes, the larger the user block
/// that is seen through; eight are enough for files without one.
#[must_use]
pub fn sniff(first_bytes: &[u8]) -> Option<Format> {
    if let Some(format) = classic(first_bytes) {
        return Some(format);
    }
    let mut at = 0_usize;
    loop {
        let signature = first_bytes.get(at..)?.get(..HDF5_SIGNATURE.len())?;
        if signature == HDF5_SIGNATURE {
            return Some(Format::Hdf5);
        }
        at = at.saturating_mul(2).max(512);
    }
}

/// The format of a file, and the offset of its header (the size of the user block; 0 without).
pub(super) fn sniff_source(source: &dyn ByteSource) -> Result<(Format, u64), NetcdfError> {
    let mut at = 0_u64;
    let mut signature = [0; 8];
    while at <= USER_BLOCK_BYTES_MAX {
        match source.read_exact_at(at, &mut signature) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(NetcdfError::Read { offset: at, length: 8, source: error }),
        }
        if at == 0
            && let Some(format) = classic(&signature)
        {
            return Ok((format, 0));
        }
        if signature == HDF5_SIGNATURE {
            return Ok((Format::Hdf5, at));
        }
        at = at.saturating_mul(2).max(512);
    }
    Err(NetcdfError::UnknownFormat)
}

fn classic(first_bytes: &[u8]) -> Option<Format> {
    match first_bytes {
        [b'C', b'D', b'F', version @ (1 | 2 | 5), ..] => Some(Format::Classic(*version)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::tests::Memory;
    use super::*;

    #[test]
    fn formats_are_recognised_by_magic_also_behind_a_user_block() {
        assert_eq!(sniff(b"CDF\x01"), Some(Format::Classic(1)));
        assert_eq!(sniff(b"CDF\x05....."), Some(Format::Classic(5)));
        assert_eq!(sniff(b"CDF\x03....."), None);
        assert_eq!(sniff(&HDF5_SIGNATURE), Some(Format::Hdf5));
        for user_block in [512, 1024, 4096] {
            let mut file = vec![0; user_block];
            file.extend_from_slice(&HDF5_SIGNATURE);
            assert_eq!(sniff(&file), Some(Format::Hdf5), "{user_block}");
            assert_eq!(
                sniff_source(&Memory(file)).unwrap(),
                (Format::Hdf5, user_block as u64),
                "{user_block}"
            );
        }
        assert_eq!(sniff(&[0; 600]), None);
    }

    #[test]
    fn short_and_foreign_files_are_not_netcdf() {
        for file in [&b""[..], b"CDF", b"\x89HDF\r\n\x1a", b"hello, world"] {
            assert_eq!(sniff(file), None);
            assert!(matches!(
                sniff_source(&Memory(file.to_vec())),
                Err(NetcdfError::UnknownFormat)
            ));
        }
    }
}
