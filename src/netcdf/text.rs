//! Text as netCDF4-python (and so xarray) shows it.
//!
//! Names and texts are UTF-8. Bytes that are not become U+FFFD, one per maximal invalid sequence
//! (`decode("utf-8", "replace")`). NUL characters are removed from texts wherever they are:
//! writers pad with them.

/// A text attribute or element.
pub(super) fn text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    text.retain(|character| character != '\0');
    text
}

/// A name; padding behind the first NUL is not part of it.
pub(super) fn name(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_is_replaced_and_nuls_are_removed() {
        assert_eq!(text(b"degrees \xb0C\0\0"), "degrees \u{fffd}C");
        assert_eq!(text("température\0 x".as_bytes()), "température x");
        assert_eq!(name(b"lon\0\0\0junk"), "lon");
    }
}
