//! JSON as metadata documents need it.
//!
//! Written: strict JSON, two spaces of indentation as zarr-python has. Read: strict JSON, and the
//! bare `NaN`, `Infinity` and `-Infinity` that Python writes, which become what this program
//! writes for them (`null` and texts). An integer beyond 64 bits is an error: it would come back as
//! a rounded float.

use bytes::Bytes;
use serde_json::Value;

/// Why a text is not usable JSON.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// Not JSON.
    #[error("it is not JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// An integer that no 64-bit type holds.
    #[error("the integer {0} has more than 64 bits")]
    WideInteger(String),
}

/// Writes a document.
pub(super) fn to_bytes(value: &Value) -> Bytes {
    // With `{:#}` serde_json indents by two spaces; writing a `Value` cannot fail.
    Bytes::from(format!("{value:#}"))
}

/// Reads a document.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    Ok(serde_json::from_slice(&strict(bytes)?)?)
}

/// The same document without bare non-finite numbers.
fn strict(bytes: &[u8]) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(&first) = rest.first() {
        let (length, replacement): (usize, Option<&[u8]>) = match first {
            b'"' => (string_length(rest), None),
            b'N' if rest.starts_with(b"NaN") => (3, Some(b"null")),
            b'I' if rest.starts_with(b"Infinity") => (8, Some(b"\"Infinity\"")),
            b'-' if rest.starts_with(b"-Infinity") => (9, Some(b"\"-Infinity\"")),
            b'-' | b'0'..=b'9' => (number_length(rest)?, None),
            _ => (1, None),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        out.extend_from_slice(replacement.unwrap_or(token));
        rest = after;
    }
    Ok(out)
}

/// Bytes of the string at the start of `text`, with both quotes when it is closed.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = true; // The opening quote.
    for (index, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// Bytes of the number at the start of `text`.
fn number_length(text: &[u8]) -> Result<usize, JsonError> {
    let length = text
        .iter()
        .position(|byte| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
        .unwrap_or(text.len());
    let number = String::from_utf8_lossy(text.get(..length).unwrap_or(text));
    let integer = !number.contains(['.', 'e', 'E']);
    if integer
        && number.len() > 18
        && number.parse::<i64>().is_err()
        && number.parse::<u64>().is_err()
    {
        return Err(JsonError::WideInteger(number.into_owned()));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bare_non_finite_numbers_of_python_are_read() {
        let text = br#"{"a": NaN, "b": [Infinity, -Infinity, -1], "NaN \" Infinity": "NaN \\"}"#;
        assert_eq!(
            parse(text).unwrap(),
            json!({"a": null, "b": ["Infinity", "-Infinity", -1], "NaN \" Infinity": "NaN \\"})
        );
    }

    #[test]
    fn integers_and_floats_survive_exactly() {
        let value = json!({
            "i": i64::MIN, "u": u64::MAX, "f": [0.1 + 0.2, 5e-324, 1e300, -0.0, 1.0]
        });
        let bytes = to_bytes(&value);
        assert_eq!(to_bytes(&parse(&bytes).unwrap()), bytes);
        assert_eq!(parse(&bytes).unwrap(), value);
        // Digits that a fast float parser gets wrong in the last bit.
        for text in ["51.248178375505404", "-93.31137037688033", "-36.57399484275343"] {
            assert_eq!(parse(text.as_bytes()).unwrap().as_f64(), text.parse().ok());
        }
    }

    #[test]
    fn an_integer_that_would_be_rounded_is_an_error() {
        assert!(matches!(parse(b"[18446744073709551616]"), Err(JsonError::WideInteger(_))));
        assert!(matches!(parse(b"-9223372036854775809"), Err(JsonError::WideInteger(_))));
        assert!(parse(b"18446744073709551615").is_ok());
    }

    #[test]
    fn damaged_text_is_an_error() {
        for text in ["", "{", "\"open", "{\"a\":}", "nan", "[1,]", "\"\\"] {
            assert!(matches!(parse(text.as_bytes()), Err(JsonError::Syntax(_))), "{text}");
        }
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
