//! Integers that use only some of the bits of their bytes, as the nbit filter is made for: where the
//! bits lie, and what whole integers they stand for.
//!
//! HDF5 gives the bits outside no meaning (by default they are zero, also of negative numbers), so
//! that readers convert each value.

use crate::netcdf::bytes::Bytes;

/// The significant bits of an integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::netcdf) struct Significant {
    size: usize,
    signed: bool,
    /// Significant bits, and insignificant ones below them.
    precision: u32,
    offset: u32,
}

impl Significant {
    /// `None` unless a whole integer of `size` bytes is the smallest that has room for the bits:
    /// netCDF would show a smaller type.
    pub(super) fn new(size: u8, signed: bool, precision: u16, offset: u16) -> Option<Self> {
        let bits = u32::from(size).checked_mul(8)?;
        let (precision, offset) = (u32::from(precision), u32::from(offset));
        let smaller = match size {
            1 => 0,
            2 | 4 | 8 => bits >> 1,
            _ => return None,
        };
        let fits = precision > smaller && precision.checked_add(offset)? <= bits;
        fits.then_some(Self { size: usize::from(size), signed, precision, offset })
    }

    /// Turns little-endian elements into whole integers.
    pub(in crate::netcdf) fn widen(&self, elements: &mut [u8]) {
        let unused = u64::BITS.saturating_sub(self.precision);
        let above = unused.saturating_sub(self.offset);
        for element in elements.chunks_exact_mut(self.size) {
            let Some(stored) = Bytes::new(element).uint_le(self.size) else { return };
            let top = stored.wrapping_shl(above);
            let whole = if self.signed {
                top.cast_signed().wrapping_shr(unused).cast_unsigned()
            } else {
                top.wrapping_shr(unused)
            };
            element.iter_mut().zip(whole.to_le_bytes()).for_each(|(slot, byte)| *slot = byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_is_the_highest_significant_bit() {
        // Three bits below and one above have no meaning.
        let widened = |signed, significant: u16| {
            let mut element = (significant << 3 | 0b101 | 1 << 15).to_le_bytes();
            Significant::new(2, signed, 12, 3).unwrap().widen(&mut element);
            u16::from_le_bytes(element)
        };
        assert_eq!(widened(true, 0xfff).cast_signed(), -1);
        assert_eq!(widened(true, 0x7ff).cast_signed(), 2047);
        assert_eq!(widened(false, 0xffe), 4094);
        let mut whole = (-5_i64).to_le_bytes();
        Significant::new(8, true, 64, 0).unwrap().widen(&mut whole);
        assert_eq!(i64::from_le_bytes(whole), -5);
    }

    #[test]
    fn bits_that_a_smaller_type_holds_or_this_one_does_not_are_refused() {
        assert_eq!(Significant::new(4, true, 16, 0), None);
        assert!(Significant::new(4, true, 17, 15).is_some());
        assert_eq!(Significant::new(4, true, 17, 16), None);
        assert_eq!(Significant::new(3, true, 20, 0), None);
        assert!(Significant::new(1, false, 1, 7).is_some());
        assert_eq!(Significant::new(1, false, 0, 0), None);
    }
}
