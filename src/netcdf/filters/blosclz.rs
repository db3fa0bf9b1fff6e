//! The `BloscLZ` codec of c-blosc, derived from `FastLZ`.
//!
//! A control byte below 32 announces that many and one literal bytes; the first control byte of
//! a stream always does, whatever its upper bits. Any other starts a repetition: its upper three
//! bits are the length less 2 (7: bytes are added up to the first that is not 255), its lower
//! five and the next byte the distance less 1. When all 13 bits are set, two more bytes follow,
//! which are the distance beyond 8192 (big-endian).

use super::lz;
use crate::netcdf::bytes::Bytes;

const LITERALS_BELOW: u8 = 32;
const FAR: usize = 0x1fff;

/// Appends the decoded `stream`, which must have exactly `length` bytes, to `out`.
pub(super) fn append(stream: &[u8], length: usize, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let end = start.checked_add(length)?;
    let mut input = Bytes::new(stream);
    let mut control = input.u8()? & 31;
    loop {
        if control < LITERALS_BELOW {
            out.extend_from_slice(input.take(usize::from(control).saturating_add(1))?);
        } else {
            let (distance, length) = repetition(control, &mut input)?;
            let room = end.checked_sub(out.len())?;
            (length <= room).then_some(())?;
            lz::repeat(out, start, distance, length)?;
        }
        match input.u8() {
            Some(next) => control = next,
            None => return (out.len() == end).then_some(()),
        }
    }
}

fn repetition(control: u8, input: &mut Bytes<'_>) -> Option<(usize, usize)> {
    let mut length = usize::from(control >> 5).saturating_add(2);
    if control >> 5 == 7 {
        loop {
            let more = input.u8()?;
            length = length.saturating_add(usize::from(more));
            if more != 255 {
                break;
            }
        }
    }
    let near = usize::from(control & 31) << 8 | usize::from(input.u8()?);
    let beyond = match near {
        FAR => usize::from(u16::from_be_bytes(input.array()?)),
        _ => 0,
    };
    Some((near.saturating_add(beyond).saturating_add(1), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repetition_may_lie_further_back_than_thirteen_bits_tell() {
        // One literal, 9000 repetitions of it, another literal, and what lies 9001 bytes before.
        let mut stream = vec![0, b'a', 0xe0];
        stream.extend([255; 35]);
        stream.extend([66, 0]);
        stream.extend([0, b'b']);
        stream.extend([0x20 | 31, 255]);
        stream.extend((9001_u16 - 8192).to_be_bytes());
        stream.extend([0, b'c']);
        let mut expected = vec![b'a'; 9001];
        expected.extend(b"baaac");
        let mut out = vec![1, 2, 3];
        append(&stream, expected.len(), &mut out).unwrap();
        assert_eq!(out[3..], expected);
        for length in [expected.len() - 1, expected.len() + 1] {
            assert_eq!(append(&stream, length, &mut Vec::new()), None);
        }
    }

    #[test]
    fn a_stream_does_not_repeat_what_came_before_it() {
        assert_eq!(append(&[0, b'a', 0x20, 1, 0, b'b'], 5, &mut vec![7; 100]), None);
    }
}
