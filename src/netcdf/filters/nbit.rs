//! The nbit filter (id 5): only the significant bits of each element (HDF5 library, `H5Znbit.c`).
//!
//! Client data: their number, whether nothing is done (because all bits are significant), number
//! of elements, then the type: 1, size, byte order (0 little, 1 big), significant bits, and how
//! many insignificant ones lie below them; or 4, size for a type that is stored whole. The other
//! bits are zero.

use super::FilterError;
use super::bits::{Bits, hold, put};

const ATOMIC: u32 = 1;
const WHOLE: u32 = 4;

/// What the client data say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::netcdf) enum Nbit {
    /// The data are as they were.
    Plain,
    Packed {
        elements: usize,
        size: usize,
        big_endian: bool,
        precision: u32,
        offset: u32,
    },
}

impl Nbit {
    pub(super) fn new(client_data: &[u32]) -> Result<Self, String> {
        match *client_data {
            [_, 1, ..] | [5, 0, _, WHOLE, _] => Ok(Self::Plain),
            [8, 0, elements, ATOMIC, size, order @ (0 | 1), precision, offset] => {
                let end = precision.checked_add(offset);
                if !(1..=8).contains(&size)
                    || precision == 0
                    || end.is_none_or(|end| end > size.saturating_mul(8))
                {
                    return Err(format!("with {precision} bits of {size} bytes"));
                }
                let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
                let (elements, size) = (count(elements), count(size));
                Ok(Self::Packed { elements, size, big_endian: order == 1, precision, offset })
            }
            _ => Err("of something else than numbers".to_owned()),
        }
    }

    /// Decodes `stored` into `out`, at most `most` bytes.
    pub(super) fn decode(
        self,
        stored: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        out.clear();
        let Self::Packed { elements, size, big_endian, precision, offset } = self else {
            out.extend_from_slice(stored);
            return Ok(());
        };
        let total = elements.checked_mul(size).filter(|total| *total <= most);
        let total = total.ok_or_else(|| FilterError::too_long("nbit", most))?;
        let cut = || FilterError::damaged("its packed numbers are cut short");
        if !hold(stored, elements, precision) {
            return Err(cut());
        }
        out.resize(total, 0);
        let mut bits = Bits::new(stored);
        for element in out.chunks_exact_mut(size) {
            let value = bits.take(precision).and_then(|value| value.checked_shl(offset));
            put(element, value.ok_or_else(cut)?, big_endian);
        }
        Ok(())
    }
}
