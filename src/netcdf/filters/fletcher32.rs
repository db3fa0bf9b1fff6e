//! The Fletcher-32 filter: a little-endian checksum behind the data.
//!
//! The sum is over big-endian 16-bit words; an odd last byte counts as a high byte (HDF5 library,
//! `H5_checksum_fletcher32`). Files of HDF5 1.6.2 hold the bytes of each half swapped; as the
//! library does, that form is accepted too.

use super::FilterError;

/// Bytes that the filter appends.
pub(super) const CHECKSUM_BYTES: usize = 4;

/// Words that can be summed before the 32-bit sums could overflow.
const WORDS_PER_BLOCK: usize = 360;

/// Checks the checksum at the end of `data` and removes it.
pub(super) fn verify_and_strip(data: &mut Vec<u8>) -> Result<(), FilterError> {
    let Some((payload, checksum)) = data.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(FilterError::Damaged("it is too short for its checksum".to_owned()));
    };
    let expected = u32::from_le_bytes(*checksum);
    let actual = fletcher32(payload);
    let [a, b, c, d] = actual.to_le_bytes();
    if expected != actual && expected != u32::from_le_bytes([b, a, d, c]) {
        return Err(FilterError::Checksum { expected, actual });
    }
    let length = payload.len();
    data.truncate(length);
    Ok(())
}

fn fletcher32(data: &[u8]) -> u32 {
    let fold = |sum: u32| (sum & 0xffff).wrapping_add(sum >> 16);
    let (mut low, mut high) = (0_u32, 0_u32);
    for block in data.chunks(WORDS_PER_BLOCK.saturating_mul(2)) {
        for word in block.chunks(2) {
            let word = match word {
                [first, second] => u16::from_be_bytes([*first, *second]),
                [last] => u16::from_be_bytes([*last, 0]),
                _ => 0,
            };
            low = low.wrapping_add(u32::from(word));
            high = high.wrapping_add(low);
        }
        low = fold(low);
        high = fold(high);
    }
    (fold(high) << 16) | fold(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_checksum_is_stripped_and_a_flipped_bit_is_found() {
        let payload: Vec<u8> = (0..251).cycle().step_by(7).take(5001).collect();
        let sum = fletcher32(&payload);
        let mut stored = [&payload[..], &sum.to_le_bytes()].concat();
        let mut damaged = stored.clone();
        verify_and_strip(&mut stored).unwrap();
        assert_eq!(stored, payload);
        damaged[1234] ^= 4;
        assert!(matches!(verify_and_strip(&mut damaged), Err(FilterError::Checksum { .. })));
        assert!(verify_and_strip(&mut vec![1, 2, 3]).is_err());
    }

    #[test]
    fn the_sum_is_that_of_the_definition() {
        assert_eq!(fletcher32(&[]), 0);
        assert_eq!(fletcher32(b"ab"), 0x6162_6162);
        assert_eq!(fletcher32(b"abc"), (0x6162_u32 + 0x6162 + 0x6300 - 0xffff) << 16 | 0xc462);
    }
}
