//! The scaleoffset filter (id 6): elements less their minimum in as few bits as that needs (HDF5
//! library, `H5Zscaleoffset.c`).
//!
//! Client data: scale type (0 decimal digits of floating-point numbers, 2 integers), scale factor,
//! number of elements, class (0 integer, 1 floating-point), size, sign, byte order (1 big), whether
//! there is a fill value, then that (little-endian). Stored: bits of an element (u32), size of the
//! minimum (u8), the minimum (room for 16 bytes), then the packed numbers. All bits set mean the
//! fill value.
//!
//! A floating-point number is the packed one divided by a power of ten, plus the minimum, each
//! step rounded to the type. Only powers that the type holds exactly are accepted, since what the
//! library computes for others depends on the machine's C library.

use super::FilterError;
use super::bits::{Bits, hold, put};
use crate::netcdf::bytes::Bytes;

const DECIMAL: u32 = 0;
const INTEGER: u32 = 2;
const HEADER_BYTES: usize = 21;
const FILL_AT: usize = 8;

/// What the client data say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::netcdf) struct Scaleoffset {
    numbers: Numbers,
    elements: usize,
    /// Bytes of an element.
    size: usize,
    big_endian: bool,
    fill: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Numbers {
    /// Stored as they are: the user asked for all bits.
    Plain,
    Integer,
    Float {
        divisor: f32,
    },
    Double {
        divisor: f64,
    },
}

impl Scaleoffset {
    pub(super) fn new(client_data: &[u32]) -> Result<Self, String> {
        let [scale, factor, elements, class, size, _sign, order, has_fill, ..] = *client_data
        else {
            return Err("without its parameters".to_owned());
        };
        let numbers = numbers(scale, factor, class, size)?;
        let word = |index: usize| client_data.get(index).copied().map_or(0, u64::from);
        let fill = word(FILL_AT) | word(FILL_AT.saturating_add(1)) << 32;
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Self {
            numbers,
            elements: count(elements),
            size: count(size),
            big_endian: order == 1,
            fill: (has_fill != 0).then_some(fill),
        })
    }

    /// Decodes `stored` into `out`, at most `most` bytes.
    pub(super) fn decode(
        &self,
        stored: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        out.clear();
        if self.numbers == Numbers::Plain {
            out.extend_from_slice(stored);
            return Ok(());
        }
        let cut = || FilterError::damaged("its packed numbers are cut short");
        let total = self.elements.checked_mul(self.size).filter(|total| *total <= most);
        let total = total.ok_or_else(|| FilterError::too_long("scaleoffset", most))?;
        let (header, packed) = stored.split_at_checked(HEADER_BYTES).ok_or_else(cut)?;
        let mut header = Bytes::new(header);
        let (Some(width), Some(minimum_size)) = (header.u32_le(), header.u8()) else {
            return Err(cut());
        };
        let minimum = header.uint_le(usize::from(minimum_size).min(8)).ok_or_else(cut)?;
        let element_bits = u32::try_from(self.size.saturating_mul(8)).unwrap_or(u32::MAX);
        if width > element_bits {
            return Err(FilterError::damaged(format!("it states {width} bits for an element")));
        }
        if !hold(packed, self.elements, width) {
            return Err(cut());
        }
        out.resize(total, 0);
        let mut bits = Bits::new(packed);
        if width == element_bits {
            // Whole numbers in this machine's order, without the minimum taken off.
            for (element, whole) in out.chunks_exact_mut(self.size).zip(packed.chunks(self.size)) {
                let whole = Bytes::new(whole).uint_le(self.size).ok_or_else(cut)?;
                put(element, whole, self.big_endian);
            }
            return Ok(());
        }
        let filled = 1_u64.checked_shl(width).unwrap_or(0).wrapping_sub(1);
        for element in out.chunks_exact_mut(self.size) {
            let packed = bits.take(width).ok_or_else(cut)?;
            let value = match self.fill {
                Some(fill) if packed == filled => fill,
                _ => self.value(packed, minimum),
            };
            put(element, value, self.big_endian);
        }
        Ok(())
    }

    /// The bits of an element.
    fn value(&self, packed: u64, minimum: u64) -> u64 {
        #![allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_precision_loss,
            reason = "the casts are those of the library"
        )]
        match self.numbers {
            Numbers::Plain | Numbers::Integer => packed.wrapping_add(minimum),
            Numbers::Float { divisor } => {
                let value = (packed as i32) as f32 / divisor + f32::from_bits(minimum as u32);
                u64::from(value.to_bits())
            }
            Numbers::Double { divisor } => {
                ((packed as i64) as f64 / divisor + f64::from_bits(minimum)).to_bits()
            }
        }
    }
}

fn numbers(scale: u32, factor: u32, class: u32, size: u32) -> Result<Numbers, String> {
    match (class, scale, size) {
        (0, INTEGER, 1 | 2 | 4 | 8) if factor == size.saturating_mul(8) => Ok(Numbers::Plain),
        (0, INTEGER, 1 | 2 | 4 | 8) => Ok(Numbers::Integer),
        (1, DECIMAL, 4 | 8) => {
            let digits = factor.cast_signed();
            // 5^10 and 5^22 are the largest powers that fit the mantissas.
            let exact_max = if size == 4 { 10 } else { 22 };
            if !(0..=exact_max).contains(&digits) {
                return Err(format!("with {digits} decimal digits"));
            }
            Ok(match size {
                4 => Numbers::Float { divisor: 10_f32.powi(digits) },
                _ => Numbers::Double { divisor: 10_f64.powi(digits) },
            })
        }
        _ => Err(format!("of class {class}, scale type {scale} and {size} bytes")),
    }
}
