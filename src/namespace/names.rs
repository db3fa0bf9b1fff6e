//! What a name tells before anyone has asked the bucket.
//!
//! Only requests are saved by it: a wrong guess costs one request and never changes an answer.

/// The folder beside a dataset that holds its receipts. Never shown, never reachable.
pub const RECEIPTS: &str = ".zarrmount";

/// Whether a name in a folder of the bucket is hidden from the mount.
pub fn is_hidden(name: &str) -> bool {
    name == RECEIPTS
}

/// Whether the name can be the last segment of a chunk key: numbers joined by dots (v2, or the last
/// number of a v3 key), or such with a leading `c.` (v3 with the separator `.`).
pub(super) fn looks_like_chunk(name: &str) -> bool {
    let numbers = name.strip_prefix("c.").unwrap_or(name);
    !numbers.is_empty()
        && numbers
            .split('.')
            .all(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_keys_of_both_formats_are_recognised() {
        for name in ["0", "12", "0.0.1", "c.3.4"] {
            assert!(looks_like_chunk(name), "{name}");
        }
        for name in ["", "c", "c.", ".", "0.", ".0", "0.nc", "-1", "c0", "sst", "zarr.json"] {
            assert!(!looks_like_chunk(name), "{name}");
        }
    }
}
