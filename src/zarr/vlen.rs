//! The codec `vlen-utf8`: a chunk of texts as bytes.
//!
//! ```text
//! number of texts (u32) · for each text: its bytes (u32) · its UTF-8        all little-endian
//! ```
//! <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8>. It is written here
//! since the decoder of zarrs trusts the lengths in an object.

/// The bytes of texts. Both counts must fit 32 bits: `None` else.
pub(super) fn encode(texts: &[&[u8]]) -> Option<Vec<u8>> {
    let bytes: usize = texts.iter().map(|text| text.len() + 4).sum();
    let mut out = Vec::with_capacity(bytes + 4);
    out.extend(u32::try_from(texts.len()).ok()?.to_le_bytes());
    for text in texts {
        out.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
        out.extend_from_slice(text);
    }
    Some(out)
}

/// The `count` texts in these bytes; `None` if they hold anything else.
pub(super) fn decode(bytes: &[u8], count: usize) -> Option<Vec<String>> {
    let (stated, mut rest) = bytes.split_first_chunk()?;
    if usize::try_from(u32::from_le_bytes(*stated)).ok()? != count {
        return None;
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        let (length, behind) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (text, behind) = behind.split_at_checked(length)?;
        texts.push(std::str::from_utf8(text).ok()?.to_owned());
        rest = behind;
    }
    rest.is_empty().then_some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_framed_as_the_specification_says() {
        let bytes = encode(&[b"ab", b"", "é".as_bytes()]).unwrap();
        assert_eq!(bytes, b"\x03\0\0\0\x02\0\0\0ab\0\0\0\0\x02\0\0\0\xc3\xa9");
        assert_eq!(decode(&bytes, 3).unwrap(), ["ab", "", "é"]);
    }

    #[test]
    fn anything_else_is_no_chunk_of_texts() {
        let bytes = encode(&[b"ab", b"c"]).unwrap();
        assert_eq!(decode(&bytes, 3), None);
        assert_eq!(decode(&[&bytes[..], b"x"].concat(), 2), None);
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end], 2), None, "{end}");
        }
        assert_eq!(decode(b"\x01\0\0\0\xff\xff\xff\xffab", 1), None);
        assert_eq!(decode(b"\x01\0\0\0\x01\0\0\0\xff", 1), None);
        assert_eq!(decode(b"\xff\xff\xff\xff", 1 << 31), None);
    }
}
