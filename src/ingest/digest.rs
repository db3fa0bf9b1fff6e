//! Digests that tell whether two files, or two documents, have the same content.
//!
//! XXH3 with 128 bits: it guards against accidents, not against somebody who makes collisions on
//! purpose, and runs at memory speed.

use std::io;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::netcdf::ByteSource;

/// A digest as text, such as `xxh3:2d06800538d394c2…`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

const PIECE_BYTES: usize = 1 << 20;

impl Digest {
    /// Of a document.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::text(xxh3_128(bytes))
    }

    /// Of a whole file. Blocks.
    pub fn of_source(source: &dyn ByteSource) -> io::Result<Self> {
        let size = source.len()?;
        let mut hasher = Xxh3::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut offset = 0;
        while offset < size {
            let wanted = usize::try_from(size - offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let piece = piece.get_mut(..wanted).unwrap_or_default();
            source.read_exact_at(offset, piece)?;
            hasher.update(piece);
            offset += wanted as u64;
        }
        Ok(Self::text(hasher.digest128()))
    }

    /// Of a file that was not read for it: equal to no digest that was computed.
    pub(super) fn unknown() -> Self {
        Self("unknown".to_owned())
    }

    fn text(hash: u128) -> Self {
        Self(format!("xxh3:{hash:032x}"))
    }
}
