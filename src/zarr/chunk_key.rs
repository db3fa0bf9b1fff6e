//! Keys of chunk objects, relative to their array.

use super::format::ZarrFormat;

/// How a chunk index becomes a key.
///
/// See <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#chunk-key-encoding>.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkKeyEncoding {
    /// `c/0/1`, scalars `c`; the separator is `/` or `.`.
    Default {
        /// Between the parts, also after `c`.
        separator: char,
    },
    /// `0.1`, scalars `0`; the separator is `.` or `/`.
    V2 {
        /// Between the indices.
        separator: char,
    },
}

impl ChunkKeyEncoding {
    /// What zarr-python writes for a new array.
    pub fn of(format: ZarrFormat) -> Self {
        match format {
            ZarrFormat::V2 => Self::V2 { separator: '.' },
            ZarrFormat::V3 => Self::Default { separator: '/' },
        }
    }

    /// The key of the chunk at `index`.
    pub fn key(self, index: &[u64]) -> String {
        let (mut key, separator) = match self {
            Self::Default { separator } => (String::from("c"), separator),
            Self::V2 { .. } if index.is_empty() => return String::from("0"),
            Self::V2 { separator } => (String::new(), separator),
        };
        for number in index {
            if !key.is_empty() {
                key.push(separator);
            }
            key.push_str(&number.to_string());
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_follow_the_specification() {
        let v3 = ChunkKeyEncoding::of(ZarrFormat::V3);
        assert_eq!(v3.key(&[0, 12, 3]), "c/0/12/3");
        assert_eq!(v3.key(&[]), "c");
        let v2 = ChunkKeyEncoding::of(ZarrFormat::V2);
        assert_eq!(v2.key(&[0, 12]), "0.12");
        assert_eq!(v2.key(&[]), "0");
        assert_eq!(ChunkKeyEncoding::Default { separator: '.' }.key(&[1, 2]), "c.1.2");
    }
}
