//! Classic files: CDF-1, CDF-2 (64-bit offsets) and CDF-5 (64-bit data), after the NetCDF Classic
//! Format Specification (NUG appendix B) and the CDF-5 specification of `PnetCDF`.
//!
//! ```text
//! header = magic numrecs dim_list gatt_list var_list     all numbers big-endian
//! data   = fixed-size variables, then records: one slab of each record variable after the other
//! ```
//! Each record variable's slab is padded to four bytes, unless it is the only one. The sizes that
//! the header states redundantly (`vsize`) are not trusted but computed.

mod header;
mod layout;

use std::sync::Arc;

use super::error::NetcdfError;
use super::file::Inner;
use super::source::ByteSource;

/// Reads the header of a classic file.
pub(super) fn open(source: Arc<dyn ByteSource>, version: u8) -> Result<Inner, NetcdfError> {
    let header = header::read(source.as_ref(), version)?;
    layout::build(source, version, header)
}

#[cfg(test)]
mod tests {
    use super::super::NetcdfFile;
    use super::super::bytes::tests::Memory;
    use super::super::schema::{DataType, VariableId};
    use super::*;

    /// CDF-1 with `char v(x=2, n=3)`, an unwritten rest of one more row, and `_FillValue`.
    fn characters() -> Vec<u8> {
        let mut file = b"CDF\x01".to_vec();
        let mut words = |values: &[u32]| file.extend(values.iter().flat_map(|v| v.to_be_bytes()));
        words(&[0, 0x0a, 2, 1]);
        words(&[u32::from_be_bytes(*b"x\0\0\0")]);
        words(&[2, 1]);
        words(&[u32::from_be_bytes(*b"n\0\0\0")]);
        words(&[3, 0, 0, 0x0b, 1, 1]);
        words(&[u32::from_be_bytes(*b"v\0\0\0")]);
        words(&[2, 0, 1, 0x0c, 1, 10]);
        file.extend(b"_FillValue\0\0");
        let mut words = |values: &[u32]| file.extend(values.iter().flat_map(|v| v.to_be_bytes()));
        words(&[2, 1]);
        words(&[u32::from_be_bytes(*b" \0\0\0")]);
        words(&[2, 8]);
        let begin = u32::try_from(file.len()).unwrap() + 4;
        file.extend(begin.to_be_bytes());
        file.extend(b"ab\0\xe9  \0\0");
        file
    }

    #[test]
    fn characters_are_the_bytes_of_the_file() {
        let file = NetcdfFile::open(Arc::new(Memory(characters()))).unwrap();
        let variable = &file.schema().root.variables[0];
        assert_eq!((variable.data_type, &variable.unsupported), (DataType::Char, &None));
        assert_eq!((variable.shape.as_slice(), variable.fill.as_slice()), (&[2, 3][..], &b" "[..]));
        let locations: Vec<_> = file.chunks(&[VariableId(0)]).collect::<Result<_, _>>().unwrap();
        let mut out = Vec::new();
        file.read_chunk(&locations[0], &mut out).unwrap();
        assert_eq!((out.as_slice(), locations[0].text_bytes), (&b"ab\0\xe9  "[..], 0));
    }
}
