//! Sizes and durations as people write them: `20GiB`, `64 MB`, `10min`, `60s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// Why a text is not a size or a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct UnitError {
    text: String,
    expected: &'static str,
}

const SIZES: [(&str, u64); 13] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text, &SIZES).map(Self).ok_or_else(|| UnitError {
            text: text.to_owned(),
            expected: "a size such as `20GiB`, `64MB` or `1048576`",
        })
    }
}

impl fmt::Display for ByteSize {
    /// With a binary unit and one decimal; exact below 1 KiB.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut tenths = u128::from(self.0) * 10 / 1024;
        let mut unit = UNITS[0];
        for next in &UNITS[1..] {
            if tenths < 10_240 {
                break;
            }
            tenths /= 1024;
            unit = next;
        }
        write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

const DURATIONS_MS: [(&str, u64); 8] = [
    ("ms", 1),
    ("", 1_000),
    ("s", 1_000),
    ("sec", 1_000),
    ("m", 60_000),
    ("min", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Parses `500ms`, `60s`, `10min`, `1h`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    parse(text, &DURATIONS_MS).map(Duration::from_millis).ok_or_else(|| UnitError {
        text: text.to_owned(),
        expected: "a duration such as `60s`, `10min` or `1h`",
    })
}

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = unit.trim().to_ascii_lowercase();
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_decimal_and_binary_units() {
        for (text, bytes) in
            [("0", 0), ("1k", 1024), ("64MB", 64_000_000), ("20 GiB", 20 << 30), ("3TiB", 3 << 40)]
        {
            assert_eq!(text.parse::<ByteSize>().map(|size| size.0), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "1.5GiB", "1 parsec", "99999999999TiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_with_units() {
        assert_eq!(parse_duration("10min"), Ok(Duration::from_mins(10)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("60"), Ok(Duration::from_mins(1)));
        assert!(parse_duration("soon").is_err());
    }

    #[test]
    fn sizes_are_shown_with_one_decimal() {
        assert_eq!(ByteSize(1023).to_string(), "1023 B");
        assert_eq!(ByteSize(1536).to_string(), "1.5 KiB");
        assert_eq!(ByteSize(20 << 30).to_string(), "20.0 GiB");
    }
}
