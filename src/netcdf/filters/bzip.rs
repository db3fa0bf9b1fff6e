//! The bzip2 filter (id 307): one bzip2 stream, its checksums verified.

use bzip2::{Decompress, Status};

use super::FilterError;

/// The output grows in steps of this size.
const STEP_BYTES: usize = 256 << 10;

/// Decodes `stream` into `out`, at most `most` bytes.
pub(super) fn decode(stream: &[u8], most: usize, out: &mut Vec<u8>) -> Result<(), FilterError> {
    let mut decoder = Decompress::new(false);
    out.clear();
    let mut rest = stream;
    loop {
        if out.len() > most {
            return Err(FilterError::too_long("bzip2", most));
        }
        if out.len() == out.capacity() {
            // One byte more than expected tells a stream that is too long.
            let missing = most.saturating_sub(out.len()).saturating_add(1);
            out.reserve(missing.min(STEP_BYTES.max(out.len())));
        }
        let (read, written) = (decoder.total_in(), out.len());
        let status = decoder.decompress_vec(rest, out).map_err(|error| {
            FilterError::damaged(format!("its bzip2 stream is damaged ({error})"))
        })?;
        if status == Status::StreamEnd {
            return Ok(());
        }
        let taken = usize::try_from(decoder.total_in().saturating_sub(read)).unwrap_or(usize::MAX);
        rest = rest.get(taken..).unwrap_or_default();
        if rest.is_empty() && out.len() == written {
            return Err(FilterError::damaged("its bzip2 stream is cut short"));
        }
    }
}
