//! Frames: how one record lies in a segment, and the header at a segment's start.
//!
//! All numbers are little-endian. `docs/JOURNAL.md` describes the whole format.
//!
//! ```text
//! segment header, 40 bytes                frame header, 24 bytes
//!  0  magic "ZMSPOOL\0"                    0  mark u32: random per segment
//!  8  version u32                          4  payload length u32
//! 12  document length u32                  8  sequence number u64
//! 16  segment number u64                  16  kind u8, then three zero bytes
//! 24  first sequence number u64           20  CRC32 of payload, then bytes 0..20
//! 32  mark u32                            24  payload
//! 36  CRC32 of document, then bytes 0..36
//! 40  document (JSON)
//! ```
//!
//! The mark is how a frame is recognised when the one before it cannot be read. It is random, so
//! that the content of a staged file (a copy of a journal, say) is never taken for a frame.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crc32fast::Hasher;

/// Size of a segment header without its document.
pub(super) const SEGMENT_HEADER_BYTES: usize = 40;
/// Size of a frame header.
pub(super) const FRAME_HEADER_BYTES: usize = 24;
/// The version of everything in a segment.
pub(super) const VERSION: u32 = 1;
/// A longer payload is never written, so a longer length is damage: the bound on what a reader
/// allocates for one record.
pub(super) const PAYLOAD_BYTES_MAX: usize = 32 << 20;
/// A longer document is never written.
pub(super) const DOCUMENT_BYTES_MAX: usize = 4 << 20;

const MAGIC: [u8; 8] = *b"ZMSPOOL\0";

/// The fixed part of a segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) number: u64,
    pub(super) first_sequence: u64,
    pub(super) mark: u32,
    pub(super) document_length: u32,
    crc: u32,
}

/// Why the start of a file is not a segment header of this version.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    NotASegment,
    OtherVersion(u32),
    DocumentTooLong,
}

impl SegmentHeader {
    /// Header and document as they lie at the start of a segment.
    pub(super) fn encode(number: u64, first_sequence: u64, mark: u32, document: &[u8]) -> Vec<u8> {
        let length = u32::try_from(document.len()).unwrap_or(u32::MAX);
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES.saturating_add(document.len()));
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&first_sequence.to_le_bytes());
        bytes.extend_from_slice(&mark.to_le_bytes());
        let crc = crc_of(document, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(document);
        bytes
    }

    /// Reads the fixed part. Its CRC covers the document too, see [`Self::covers`].
    pub(super) fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<Self, HeaderError> {
        let fields = || {
            let (magic, rest) = bytes.split_first_chunk::<8>()?;
            let (version, rest) = take_u32(rest)?;
            let (document_length, rest) = take_u32(rest)?;
            let (number, rest) = take_u64(rest)?;
            let (first_sequence, rest) = take_u64(rest)?;
            let (mark, rest) = take_u32(rest)?;
            let (crc, _) = take_u32(rest)?;
            Some((*magic, version, Self { number, first_sequence, mark, document_length, crc }))
        };
        let (magic, version, header) = fields().ok_or(HeaderError::NotASegment)?;
        if magic != MAGIC {
            return Err(HeaderError::NotASegment);
        }
        if version != VERSION {
            return Err(HeaderError::OtherVersion(version));
        }
        if usize::try_from(header.document_length).is_ok_and(|length| length <= DOCUMENT_BYTES_MAX)
        {
            return Ok(header);
        }
        Err(HeaderError::DocumentTooLong)
    }

    /// Whether header and document are those that were written.
    pub(super) fn covers(self, bytes: &[u8; SEGMENT_HEADER_BYTES], document: &[u8]) -> bool {
        let (fixed, _) = bytes.split_at(36);
        crc_of(document, fixed) == self.crc
    }
}

/// The header of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) mark: u32,
    pub(super) length: u32,
    pub(super) sequence: u64,
    pub(super) kind: u8,
    crc: u32,
}

impl FrameHeader {
    /// Reads a header; whether it is one shows in its mark and CRC.
    pub(super) fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Option<Self> {
        let (mark, rest) = take_u32(bytes)?;
        let (length, rest) = take_u32(rest)?;
        let (sequence, rest) = take_u64(rest)?;
        let ([kind, ..], rest) = rest.split_first_chunk::<4>()?;
        let (crc, _) = take_u32(rest)?;
        Some(Self { mark, length, sequence, kind: *kind, crc })
    }

    /// Whether header and payload are those that were written.
    pub(super) fn covers(self, bytes: &[u8; FRAME_HEADER_BYTES], payload: &[u8]) -> bool {
        let (fixed, _) = bytes.split_at(20);
        crc_of(payload, fixed) == self.crc
    }
}

/// A frame in the making: everything but its place is settled, so that the costly part (encoding,
/// CRC of the payload) is done without a lock.
#[derive(Debug)]
pub(super) struct Draft {
    bytes: Vec<u8>,
    kind: u8,
    crc: Hasher,
}

impl Draft {
    /// Takes a buffer whose first [`FRAME_HEADER_BYTES`] bytes are free for the header. `None` if
    /// the payload is longer than any reader takes.
    pub(super) fn new(kind: u8, bytes: Vec<u8>) -> Option<Self> {
        let payload = bytes.get(FRAME_HEADER_BYTES..)?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return None;
        }
        let mut crc = Hasher::new();
        crc.update(payload);
        Some(Self { bytes, kind, crc })
    }

    /// Size of the frame.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The finished frame.
    pub(super) fn finish(&mut self, mark: u32, sequence: u64) -> &[u8] {
        let length = self.bytes.len().saturating_sub(FRAME_HEADER_BYTES);
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        if let Some(header) = self.bytes.first_chunk_mut::<FRAME_HEADER_BYTES>() {
            let (fixed, crc_field) = header.split_at_mut(20);
            let fields = mark.to_le_bytes().into_iter();
            let fields = fields.chain(length.to_le_bytes()).chain(sequence.to_le_bytes());
            let fields = fields.chain([self.kind, 0, 0, 0]);
            fixed.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
            let mut crc = self.crc.clone();
            crc.update(fixed);
            crc_field.copy_from_slice(&crc.finalize().to_le_bytes());
        }
        &self.bytes
    }
}

fn crc_of(first: &[u8], second: &[u8]) -> u32 {
    let mut crc = Hasher::new();
    crc.update(first);
    crc.update(second);
    crc.finalize()
}

/// Splits a number off the front.
pub(super) fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*number), rest))
}

/// Splits a number off the front.
pub(super) fn take_u64(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_headers_is_pinned() {
        let segment = SegmentHeader::encode(0x0102, 0x0304, 0x0506, b"{}");
        assert_eq!(segment.len(), 42);
        assert_eq!(&segment[..16], b"ZMSPOOL\0\x01\0\0\0\x02\0\0\0");
        assert_eq!(&segment[16..36], b"\x02\x01\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0\x06\x05\0\0");
        assert_eq!(segment[36..40], 0x244b_54f4_u32.to_le_bytes());

        let mut draft = Draft::new(7, [[0; 24].as_slice(), b"payload"].concat()).unwrap();
        let frame = draft.finish(0xAABB_CCDD, 0x1122).to_vec();
        assert_eq!(frame.len(), 31);
        assert_eq!(&frame[..20], b"\xDD\xCC\xBB\xAA\x07\0\0\0\x22\x11\0\0\0\0\0\0\x07\0\0\0");
        assert_eq!(frame[20..24], 0x588d_f577_u32.to_le_bytes());
    }

    #[test]
    fn any_changed_bit_of_a_frame_is_noticed() {
        let mut draft = Draft::new(3, [[0; 24].as_slice(), b"some payload"].concat()).unwrap();
        let frame = draft.finish(99, 5).to_vec();
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (header, payload) = damaged.split_first_chunk::<24>().unwrap();
            assert!(!FrameHeader::decode(header).unwrap().covers(header, payload), "bit {bit}");
        }
    }

    #[test]
    fn a_header_of_another_version_is_told_from_another_kind_of_file() {
        let segment = SegmentHeader::encode(1, 1, 1, b"");
        let mut other: [u8; 40] = segment.try_into().unwrap();
        other[8] = 9;
        assert_eq!(SegmentHeader::decode(&other), Err(HeaderError::OtherVersion(9)));
        other[0] = b'x';
        assert_eq!(SegmentHeader::decode(&other), Err(HeaderError::NotASegment));
    }
}
