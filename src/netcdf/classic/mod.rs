//! Classic files: CDF-1, CDF-2 (64-bit offsets) and CDF-5 (64-bit data), after the NetCDF Classic
//! Format Specification (NUG appendix B) and the CDF-5 specification of `PnetCDF`.
//!
//! ```text
//! header = magic numrecs dim_list gatt_list var_list     all numbers big-endian
//! data   = fixed-size variables, then records: one slab of each record variable after the other
//! ```
//! Each record variable's slab is padded to four bytes, unless it is the only one. The sizes that
//! the header states redundantly (`vsize`) are not trusted but computed.

mod header;
mod layout;

use std::sync::Arc;

use super::error::NetcdfError;
use super::file::Inner;
use super::source::ByteSource;

/// Reads the header of a classic file.
pub(super) fn open(source: Arc<dyn ByteSource>, version: u8) -> Result<Inner, NetcdfError> {
    let header = header::read(source.as_ref(), version)?;
    layout::build(source, version, header)
}
