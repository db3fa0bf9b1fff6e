//! The rules of CF, as xarray has them, by which the raw numbers of an array mean values, and the
//! exact conversion of raw elements from one encoding to another.
//!
//! Files that become one array may count time from different days, have other `_FillValue`s or
//! narrower integers. What cannot be put into the array's encoding without changing what it means
//! is an error; nothing is rounded.

mod axis_key;
mod calendar;
mod common;
mod conversion;
mod decoding;
mod element;
mod refusal;
#[cfg(test)]
mod tests;
mod time_units;
mod unpack;

pub use axis_key::{AxisError, AxisKey, axis_keys};
pub use calendar::Calendar;
pub use common::{Target, common_encoding};
pub use conversion::Conversion;
pub use decoding::Decoding;
pub use refusal::{ConversionRefusal, Inexact, InexactReason};
pub use time_units::{TimeUnit, TimeUnits};
pub use unpack::{Unpacked, Unpacking};
