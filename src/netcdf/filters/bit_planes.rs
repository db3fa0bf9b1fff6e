//! The bit transposition of the bitshuffle library: the lowest bits of the first bytes of all
//! elements, then their second bits, and so on, as a shuffle of bits.

use super::shuffle;

/// Elements come in groups of this many.
pub(super) const GROUP: usize = 8;

/// Appends to `out` the elements whose bit planes `data` holds: a multiple of [`GROUP`] elements.
/// `bytes` is a buffer.
pub(super) fn append_joined(
    data: &[u8],
    element_size: usize,
    bytes: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let elements = data.len().checked_div(element_size).unwrap_or(0);
    let plane_bytes = elements.checked_div(GROUP).unwrap_or(0);
    // First the bits of each byte are joined, which leaves the data byte-shuffled.
    bytes.clear();
    bytes.resize(data.len(), 0);
    if plane_bytes > 0 {
        let joined = bytes.chunks_exact_mut(elements);
        for (planes, byte_plane) in data.chunks_exact(elements).zip(joined) {
            join_bits(planes, plane_bytes, byte_plane);
        }
    }
    let start = out.len();
    out.resize(start.saturating_add(data.len()), 0);
    if let Some(whole) = out.get_mut(start..) {
        shuffle::unshuffle_into(bytes, element_size, whole);
    }
}

/// Joins eight bit planes of `plane_bytes` each.
fn join_bits(planes: &[u8], plane_bytes: usize, bytes: &mut [u8]) {
    let mut of_bit: [&[u8]; GROUP] = [&[]; GROUP];
    for (slot, plane) in of_bit.iter_mut().zip(planes.chunks_exact(plane_bytes)) {
        *slot = plane;
    }
    let (groups, _) = bytes.as_chunks_mut::<GROUP>();
    for (index, group) in groups.iter_mut().enumerate() {
        let mut rows = [0; GROUP];
        for (row, plane) in rows.iter_mut().zip(&of_bit) {
            *row = plane.get(index).copied().unwrap_or(0);
        }
        *group = transposed(u64::from_le_bytes(rows)).to_le_bytes();
    }
}

/// Swaps bit *i* of byte *k* with bit *k* of byte *i* (Hacker's Delight, 7-3).
fn transposed(bits: u64) -> u64 {
    let swap = |bits: u64, mask: u64, distance: u32| {
        let moved = (bits ^ bits.wrapping_shr(distance)) & mask;
        bits ^ moved ^ moved.wrapping_shl(distance)
    };
    let bits = swap(bits, 0x00aa_00aa_00aa_00aa, 7);
    let bits = swap(bits, 0x0000_cccc_0000_cccc, 14);
    swap(bits, 0x0000_0000_f0f0_f0f0, 28)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_joined_as_the_definition_says() {
        for element_size in [1, 2, 3, 4, 8] {
            let elements = 24;
            let length = elements * element_size;
            let data: Vec<u8> = (0..=255).cycle().step_by(37).take(length).collect();
            let mut expected = vec![0_u8; length];
            for (at, byte) in data.iter().enumerate() {
                for bit in 0..8 {
                    let plane = at / (elements / 8);
                    let element = at % (elements / 8) * 8 + bit;
                    let target = element * element_size + plane / 8;
                    expected[target] |= (byte >> bit & 1) << (plane % 8);
                }
            }
            let mut out = vec![7];
            append_joined(&data, element_size, &mut Vec::new(), &mut out);
            assert_eq!(out[1..], expected, "{element_size}");
        }
    }
}
