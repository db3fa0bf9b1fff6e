//! Reproducible damage that gets past checksums.
//!
//! HDF5 puts a checksum behind most of its newer structures. A mutant with a wrong one is refused
//! before anything else is looked at, so that the checksums are made right again: where they are is
//! found by trying, since the seeds themselves are intact.

use std::ops::Range;

use hdf5_reader::checksum::jenkins_lookup3;

/// Signatures of the structures that end with a checksum.
const SIGNATURES: [&[u8]; 14] = [
    b"OHDR", b"OCHK", b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTIN", b"BTLF", b"FAHD", b"FADB",
    b"EAHD", b"EAIB", b"EASB", b"EADB",
];
const SUPERBLOCK: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Longest structure that is looked for in bytes; those of the seeds are smaller.
const STRUCTURE_BYTES_MAX: usize = 4096;

/// A small generator of reproducible numbers (`SplitMix64`).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// An intact file.
pub(crate) struct Seed {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// What is summed up; the checksum follows.
    summed: Vec<Range<usize>>,
}

impl Seed {
    pub(crate) fn new(name: String, bytes: Vec<u8>) -> Self {
        let summed = if bytes.starts_with(b"CDF") { Vec::new() } else { summed(&bytes) };
        Self { name, bytes, summed }
    }

    /// A damaged copy, with parts of another seed perhaps.
    pub(crate) fn mutated(&self, other: &Self, numbers: &mut Numbers) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for _ in 0..=numbers.below(4) {
            let at = self.place(numbers);
            damage(&mut bytes, at, &other.bytes, numbers);
        }
        if numbers.below(16) == 0 {
            bytes.truncate(numbers.below(self.bytes.len()));
        }
        if numbers.below(8) != 0 {
            self.repair(&mut bytes);
        }
        bytes
    }

    /// Mostly where structures are, sometimes anywhere.
    fn place(&self, numbers: &mut Numbers) -> usize {
        match self.summed.get(numbers.below(self.summed.len() + 1)) {
            Some(range) if numbers.below(4) != 0 => range.start + numbers.below(range.len()),
            _ => numbers.below(self.bytes.len()),
        }
    }

    fn repair(&self, bytes: &mut [u8]) {
        for range in &self.summed {
            if range.end + 4 <= bytes.len() {
                let sum = jenkins_lookup3(&bytes[range.clone()]).to_le_bytes();
                bytes[range.end..range.end + 4].copy_from_slice(&sum);
            }
        }
    }
}

fn summed(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for start in 0..bytes.len() {
        let rest = &bytes[start..];
        let is_start = SIGNATURES.iter().any(|signature| rest.starts_with(signature))
            || (rest.starts_with(SUPERBLOCK) && rest.get(8).is_some_and(|version| *version > 1));
        if !is_start {
            continue;
        }
        let ends = start + 8..(start + STRUCTURE_BYTES_MAX).min(bytes.len().saturating_sub(3));
        let is_end = |end: &usize| {
            jenkins_lookup3(&bytes[start..*end]).to_le_bytes() == bytes[*end..*end + 4]
        };
        found.extend(ends.into_iter().find(is_end).map(|end| start..end));
    }
    found
}

/// One stroke at a place.
fn damage(bytes: &mut [u8], at: usize, other: &[u8], numbers: &mut Numbers) {
    /// Numbers at the edges of what formats can say.
    const EDGES: [u64; 12] =
        [0, 1, 2, 7, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 32, 1 << 62, u64::MAX];
    if bytes.is_empty() {
        return;
    }
    let at = at.min(bytes.len() - 1);
    let width = [1, 2, 4, 8][numbers.below(4)].min(bytes.len() - at);
    match numbers.below(9) {
        0 | 1 => bytes[at] ^= 1 << numbers.below(8),
        2 => bytes[at] = numbers.byte(),
        3 | 4 => {
            let mut edge = EDGES[numbers.below(EDGES.len())].to_le_bytes();
            if numbers.below(3) == 0 {
                edge[..width].reverse();
            }
            bytes[at..at + width].copy_from_slice(&edge[..width]);
        }
        // A number that means something elsewhere in the file, an address perhaps.
        5 | 6 => {
            let from = numbers.below(bytes.len() + 1 - width);
            bytes.copy_within(from..from + width, at);
        }
        7 => {
            let length = numbers.below(64).min(other.len()).min(bytes.len() - at);
            let from = numbers.below(other.len() + 1 - length);
            bytes[at..at + length].copy_from_slice(&other[from..from + length]);
        }
        _ => {
            // A little more or less, as an error in counting would have it.
            let value = &mut bytes[at];
            *value = value.wrapping_add([1, 2, 254, 255][numbers.below(4)]);
        }
    }
}
