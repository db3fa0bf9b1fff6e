//! The szip filter (id 4): the extended Rice coding of CCSDS 121.0-B behind the decoded size (u32,
//! little-endian). Client data: options, pixels in a block, bits of a pixel, pixels in a scanline.

use hdf5_reader::filters::szip;

use super::{FilterError, check_expansion};

/// No stream expands further: a run of zeros is at most 64 blocks of 32 samples of 4 bytes, from
/// more than a byte.
const EXPANSION_MAX: usize = 8192;

/// What the client data say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::netcdf) struct Szip([u32; 4]);

impl Szip {
    pub(super) fn new(client_data: &[u32]) -> Result<Self, String> {
        let parameters = client_data.try_into();
        parameters.map(Self).map_err(|_error| "without its parameters".to_owned())
    }

    /// Decodes `stored` into `out`, at most `most` bytes.
    pub(super) fn decode(
        self,
        stored: &[u8],
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FilterError> {
        let stated = stored.first_chunk().map_or(0, |size| u64::from(u32::from_le_bytes(*size)));
        let total = super::stated_length(stated, most)?;
        check_expansion(stored.len(), total, EXPANSION_MAX)?;
        *out = szip::decompress_with_limit(stored, &self.0, total)
            .map_err(|error| FilterError::damaged(error.to_string()))?;
        Ok(())
    }
}
