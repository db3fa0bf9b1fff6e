//! The LZF filter (id 32000): one stream of Marc Lehmann's liblzf.
//!
//! A control byte below 32 announces that many and one literal bytes. Any other starts a
//! repetition: its upper three bits are the length less 2 (7: a byte is added), its lower five
//! and the next byte the distance less 1.

use super::{FilterError, lz};
use crate::netcdf::bytes::Bytes;

const LITERALS_BELOW: u8 = 32;

/// Decodes `stream` into `out`, at most `most` bytes.
pub(super) fn decode(stream: &[u8], most: usize, out: &mut Vec<u8>) -> Result<(), FilterError> {
    out.clear();
    let mut input = Bytes::new(stream);
    while let Some(control) = input.u8() {
        step(control, &mut input, out)
            .ok_or_else(|| FilterError::damaged("its LZF stream is damaged"))?;
        if out.len() > most {
            return Err(FilterError::too_long("LZF", most));
        }
    }
    Ok(())
}

fn step(control: u8, input: &mut Bytes<'_>, out: &mut Vec<u8>) -> Option<()> {
    if control < LITERALS_BELOW {
        out.extend_from_slice(input.take(usize::from(control).saturating_add(1))?);
        return Some(());
    }
    let mut length = usize::from(control >> 5).saturating_add(2);
    if control >> 5 == 7 {
        length = length.saturating_add(usize::from(input.u8()?));
    }
    let distance = (usize::from(control & 31) << 8 | usize::from(input.u8()?)).saturating_add(1);
    lz::repeat(out, 0, distance, length)
}
