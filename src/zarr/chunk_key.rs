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

    /// The chunk index that a key of an array with so many dimensions stands for; `None` if it is
    /// the key of no chunk.
    pub fn index(self, key: &str, dimensions: usize) -> Option<Vec<u64>> {
        let (rest, separator) = match self {
            Self::Default { .. } if dimensions == 0 => return (key == "c").then(Vec::new),
            Self::V2 { .. } if dimensions == 0 => return (key == "0").then(Vec::new),
            Self::Default { separator } => {
                (key.strip_prefix('c')?.strip_prefix(separator)?, separator)
            }
            Self::V2 { separator } => (key, separator),
        };
        let index: Vec<u64> =
            rest.split(separator).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        // Numbers can be written in several ways; a key is written in one.
        (index.len() == dimensions && self.key(&index) == key).then_some(index)
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

    #[test]
    fn a_key_is_read_as_the_index_that_it_was_made_of_and_no_other_name_is_one() {
        let v3 = ChunkKeyEncoding::of(ZarrFormat::V3);
        let v2 = ChunkKeyEncoding::of(ZarrFormat::V2);
        for index in [vec![], vec![7], vec![0, 12, 3]] {
            for encoding in [v3, v2, ChunkKeyEncoding::V2 { separator: '/' }] {
                assert_eq!(encoding.index(&encoding.key(&index), index.len()), Some(index.clone()));
            }
        }
        for wrong in ["c", "c/", "c/1", "c/1/2/3", "c/01/2", "c/+1/2", "c/-1/2", "1/2", "c/1/2/"] {
            assert_eq!(v3.index(wrong, 2), None, "{wrong}");
        }
        assert_eq!(v2.index("1.2.3", 2), None);
        assert_eq!(v2.index("", 1), None);
    }
}
