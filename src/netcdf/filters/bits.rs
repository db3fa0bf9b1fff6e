//! Numbers of any width from a stream of bits, most significant first.

/// A cursor over bits.
pub(super) struct Bits<'a> {
    rest: std::slice::Iter<'a, u8>,
    /// Bits taken from `rest` and not yet given out, at the low end.
    buffer: u128,
    buffered: u32,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes.iter(), buffer: 0, buffered: 0 }
    }

    /// The next `width` bits, at most 64; `None` if too few are left.
    pub(super) fn take(&mut self, width: u32) -> Option<u64> {
        while self.buffered < width {
            self.buffer = self.buffer << 8 | u128::from(*self.rest.next()?);
            self.buffered = self.buffered.saturating_add(8);
        }
        self.buffered = self.buffered.saturating_sub(width);
        let value = self.buffer.checked_shr(self.buffered)?;
        self.buffer ^= value.checked_shl(self.buffered)?;
        u64::try_from(value).ok()
    }
}

/// Whether `bytes` hold `count` numbers of `width` bits.
pub(super) fn hold(bytes: &[u8], count: usize, width: u32) -> bool {
    (bytes.len() as u128).saturating_mul(8) >= (count as u128).saturating_mul(u128::from(width))
}

/// Writes the low bytes of `value` as an element.
pub(super) fn put(element: &mut [u8], value: u64, big_endian: bool) {
    let bytes = value.to_le_bytes();
    if big_endian {
        element.iter_mut().rev().zip(bytes).for_each(|(slot, byte)| *slot = byte);
    } else {
        element.iter_mut().zip(bytes).for_each(|(slot, byte)| *slot = byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_cross_bytes_and_end_with_the_stream() {
        let mut bits = Bits::new(&[0b1010_0011, 0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bits.take(3), Some(0b101));
        assert_eq!(bits.take(0), Some(0));
        assert_eq!(bits.take(7), Some(0b000_1111));
        assert_eq!(bits.take(6), Some(0b11_1111));
        assert_eq!(bits.take(64), Some(0x0001_0203_0405_0607));
        assert_eq!(bits.take(9), None);
    }
}
