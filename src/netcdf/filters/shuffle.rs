//! The shuffle filter: the first bytes of all elements, then the second bytes, and so on. Bytes
//! behind the last whole element stay where they are.

/// Undoes the shuffle of `data` into `out`, whose content is replaced.
pub(super) fn unshuffle(data: &[u8], element_size: usize, out: &mut Vec<u8>) {
    out.resize(data.len(), 0);
    unshuffle_into(data, element_size, out);
}

/// Like [`unshuffle`], into as many bytes as `data` has.
pub(super) fn unshuffle_into(data: &[u8], element_size: usize, out: &mut [u8]) {
    let elements = data.len().checked_div(element_size).unwrap_or(0);
    let (planes, left_over) = data.split_at(elements.saturating_mul(element_size));
    let (whole, tail) = out.split_at_mut(planes.len().min(out.len()));
    tail.iter_mut().zip(left_over).for_each(|(byte, stored)| *byte = *stored);
    if elements == 0 {
        return;
    }
    match element_size {
        2 => join::<2>(planes, elements, whole),
        4 => join::<4>(planes, elements, whole),
        8 => join::<8>(planes, elements, whole),
        _ => {
            for (index, plane) in planes.chunks_exact(elements).enumerate() {
                let bytes = whole.iter_mut().skip(index).step_by(element_size);
                bytes.zip(plane).for_each(|(byte, stored)| *byte = *stored);
            }
        }
    }
}

/// Elements handled at a time, so that the planes of one block stay in registers and cache.
const BLOCK: usize = 32;

fn join<const N: usize>(planes: &[u8], elements: usize, whole: &mut [u8]) {
    let mut rest: [&[u8]; N] = [&[]; N];
    for (slot, plane) in rest.iter_mut().zip(planes.chunks_exact(elements)) {
        *slot = plane;
    }
    let (elements_out, _) = whole.as_chunks_mut::<N>();
    for block in elements_out.chunks_mut(BLOCK) {
        for (index, plane) in rest.iter_mut().enumerate() {
            let (bytes, later) = plane.split_at(block.len().min(plane.len()));
            for (element, byte) in block.iter_mut().zip(bytes) {
                if let Some(slot) = element.get_mut(index) {
                    *slot = *byte;
                }
            }
            *plane = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffle(data: &[u8], size: usize) -> Vec<u8> {
        let whole = data.len() / size * size;
        let mut out = Vec::new();
        for index in 0..size {
            out.extend(data[..whole].iter().skip(index).step_by(size));
        }
        out.extend(&data[whole..]);
        out
    }

    #[test]
    fn unshuffle_undoes_shuffle_for_any_element_size_and_left_over() {
        for size in [1, 2, 3, 4, 8, 16] {
            for length in [0, 1, 7, 64, 1000, 1003] {
                let data: Vec<u8> = (0..=255).cycle().step_by(31).take(length).collect();
                let mut out = vec![9; 5];
                unshuffle(&shuffle(&data, size), size, &mut out);
                assert_eq!(out, data, "element size {size}, length {length}");
            }
        }
    }
}
