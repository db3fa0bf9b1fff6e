//! Segments: files of the journal. Writes a new one whole, reads one back, and tells a torn tail
//! from damage.
//!
//! **Torn or damaged.** A writer that dies leaves the last record of the last segment incomplete.
//! So when a frame cannot be read (its end lies beyond the file's, or mark, sequence number or CRC
//! are wrong), the rest of the file is searched for any later frame:
//! - none in the last segment: the tail is torn; it is cut off and said so;
//! - one is found, or the segment is not the last: records that were whole are damaged. That is
//!   [`OpenError::Damaged`] with segment and offset. Nothing is ever skipped.
//!
//! A segment is written under another name with its checkpoint, synced and then renamed, so that
//! one whose header or checkpoint cannot be read is damaged too.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::frame::{
    DOCUMENT_BYTES_MAX, Draft, FRAME_HEADER_BYTES, FrameHeader, HeaderError, PAYLOAD_BYTES_MAX,
    SEGMENT_HEADER_BYTES, SegmentHeader, VERSION,
};
use super::record::Record;
use super::state::{FrameEnd, State};
use super::{Damage, OpenError, SpoolIdentity};
use crate::base::durable::{AtPath, FileError, rename_durably};

/// Checkpoints are written, and damaged segments searched, in pieces of this size: large enough
/// that system calls do not count, small enough for any machine.
const PIECE_BYTES: usize = 1 << 20;

/// The document of a segment header.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) identity: SpoolIdentity,
    /// Names the run of the machine: another one means that unsynced bytes may be gone.
    pub(super) boot_id: String,
}

/// An open segment.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) file: File,
}

/// Where segment `number` lies.
pub(super) fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.seg"))
}

/// The segments in `folder` in order; what a dying writer had not renamed yet is left out.
pub(super) fn list(folder: &Path) -> Result<Vec<u64>, FileError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.at(folder)?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.at(folder)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".seg"));
        numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Writes a new segment: header first, then frames, then [`Self::publish`].
pub(super) struct Creation {
    segment: Segment,
    temporary: PathBuf,
    mark: u32,
    sequence: u64,
    written: u64,
    buffer: Vec<u8>,
}

/// A segment that is in place.
pub(super) struct Published {
    pub(super) segment: Segment,
    pub(super) mark: u32,
    /// The sequence number of the next frame.
    pub(super) sequence: u64,
    pub(super) bytes: u64,
}

impl Creation {
    pub(super) fn begin(
        folder: &Path,
        number: u64,
        sequence: u64,
        document: &[u8],
    ) -> Result<Self, FileError> {
        let path = path_of(folder, number);
        let temporary = path.with_added_extension("new");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&temporary).at(&temporary)?;
        if document.len() > DOCUMENT_BYTES_MAX {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "settings are too long");
            return Err(FileError { path, source: error });
        }
        let mark = random_mark()?;
        let buffer = SegmentHeader::encode(number, sequence, mark, document);
        let segment = Segment { number, path, file };
        Ok(Self { segment, temporary, mark, sequence, written: 0, buffer })
    }

    pub(super) fn put(&mut self, mut draft: Draft) -> Result<FrameEnd, FileError> {
        self.buffer.extend_from_slice(draft.finish(self.mark, self.sequence));
        self.sequence = self.sequence.saturating_add(1);
        let end = FrameEnd { segment: self.segment.number, offset: self.bytes() };
        if self.buffer.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(end)
    }

    /// Syncs the segment and gives it its name.
    pub(super) fn publish(mut self) -> Result<Published, FileError> {
        self.flush()?;
        self.segment.file.sync_all().at(&self.temporary)?;
        rename_durably(&self.temporary, &self.segment.path)?;
        let (mark, sequence, bytes) = (self.mark, self.sequence, self.written);
        Ok(Published { segment: self.segment, mark, sequence, bytes })
    }

    fn bytes(&self) -> u64 {
        self.written.saturating_add(self.buffer.len() as u64)
    }

    fn flush(&mut self) -> Result<(), FileError> {
        self.segment.file.write_all_at(&self.buffer, self.written).at(&self.temporary)?;
        self.written = self.bytes();
        self.buffer.clear();
        Ok(())
    }
}

fn random_mark() -> Result<u32, FileError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; 4];
    File::open(source).and_then(|mut file| file.read_exact(&mut bytes)).at(source)?;
    Ok(u32::from_le_bytes(bytes))
}

/// What a segment holds.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) document: Document,
    pub(super) state: State,
    pub(super) next_sequence: u64,
    /// Bytes up to the end of the last whole frame.
    pub(super) bytes: u64,
    /// Bytes of an incomplete record behind that.
    pub(super) torn_bytes: u64,
}

/// Reads segment `number` from its first to its last frame. Only the `last` one may have a torn tail.
pub(super) fn replay(folder: &Path, number: u64, last: bool) -> Result<Replay, OpenError> {
    let mut reader = Reader::open(path_of(folder, number), number)?;
    let mut state = State::default();
    let mut payload = Vec::new();
    while reader.offset < reader.length {
        let start = reader.offset;
        let Some(kind) = reader.next_frame(&mut payload)? else {
            return reader.torn_tail(start, last, state);
        };
        let record = Record::decode(kind, &payload)
            .ok_or_else(|| reader.damaged(start, Damage::Record { kind }))?;
        let end = FrameEnd { segment: number, offset: reader.offset };
        if state.apply(record, end).is_err() {
            return Err(reader.damaged(start, Damage::OutOfPlace));
        }
    }
    let end = reader.offset;
    reader.finish(end, state)
}

/// Reads only the document of a segment.
pub(super) fn document(folder: &Path, number: u64) -> Result<Document, OpenError> {
    Reader::open(path_of(folder, number), number).map(|reader| reader.document)
}

struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    length: u64,
    offset: u64,
    mark: u32,
    sequence: u64,
    document: Document,
}

impl Reader {
    fn open(path: PathBuf, number: u64) -> Result<Self, OpenError> {
        let damaged =
            || OpenError::Damaged { segment: path.clone(), offset: 0, damage: Damage::Header };
        let file = File::open(&path).at(&path)?;
        let length = file.metadata().at(&path)?.len();
        let mut file = BufReader::with_capacity(1 << 18, file);
        let mut fixed = [0; SEGMENT_HEADER_BYTES];
        read_or(&mut file, &mut fixed, &path)?.then_some(()).ok_or_else(damaged)?;
        let header = SegmentHeader::decode(&fixed).map_err(|error| match error {
            HeaderError::OtherVersion(found) => {
                OpenError::OtherVersion { segment: path.clone(), found, expected: VERSION }
            }
            HeaderError::NotASegment | HeaderError::DocumentTooLong => damaged(),
        })?;
        // Bounded by DOCUMENT_BYTES_MAX.
        let mut document = vec![0; header.document_length as usize];
        read_or(&mut file, &mut document, &path)?.then_some(()).ok_or_else(damaged)?;
        if !header.covers(&fixed, &document) || header.number != number {
            return Err(damaged());
        }
        let offset = (SEGMENT_HEADER_BYTES as u64).saturating_add(document.len() as u64);
        let document = serde_json::from_slice(&document).ok().ok_or_else(damaged)?;
        let (mark, sequence) = (header.mark, header.first_sequence);
        Ok(Self { path, file, length, offset, mark, sequence, document })
    }

    /// The next frame's kind and payload, or `None` if there is no whole one here.
    fn next_frame(&mut self, payload: &mut Vec<u8>) -> Result<Option<u8>, OpenError> {
        let mut fixed = [0; FRAME_HEADER_BYTES];
        if !read_or(&mut self.file, &mut fixed, &self.path)? {
            return Ok(None);
        }
        let Some(header) = FrameHeader::decode(&fixed) else { return Ok(None) };
        let body = self.offset.saturating_add(FRAME_HEADER_BYTES as u64);
        let end = body.saturating_add(u64::from(header.length));
        let length = header.length as usize;
        let fits = length <= PAYLOAD_BYTES_MAX && end <= self.length;
        if header.mark != self.mark || header.sequence != self.sequence || !fits {
            return Ok(None);
        }
        payload.resize(length, 0);
        if !read_or(&mut self.file, payload, &self.path)? || !header.covers(&fixed, payload) {
            return Ok(None);
        }
        self.offset = end;
        self.sequence = self.sequence.saturating_add(1);
        Ok(Some(header.kind))
    }

    /// Ends a replay at a frame that cannot be read.
    fn torn_tail(self, start: u64, last: bool, state: State) -> Result<Replay, OpenError> {
        if !last || !state.checkpointed || self.any_frame_after(start).at(&self.path)? {
            return Err(self.damaged(start, Damage::Frame));
        }
        self.finish(start, state)
    }

    fn finish(self, bytes: u64, state: State) -> Result<Replay, OpenError> {
        if !state.checkpointed {
            return Err(self.damaged(bytes, Damage::Checkpoint));
        }
        let torn_bytes = self.length.saturating_sub(bytes);
        let (document, next_sequence) = (self.document, self.sequence);
        Ok(Replay { document, state, next_sequence, bytes, torn_bytes })
    }

    /// Whether a whole frame lies anywhere behind `start`.
    fn any_frame_after(&self, start: u64) -> io::Result<bool> {
        let file = self.file.get_ref();
        let mark = self.mark.to_le_bytes();
        let mut piece = vec![0; PIECE_BYTES];
        let mut offset = start.saturating_add(1);
        while offset < self.length {
            let count = read_up_to(file, &mut piece, offset)?;
            let Some(bytes) = piece.get(..count).filter(|bytes| bytes.len() >= mark.len()) else {
                return Ok(false);
            };
            for (index, _) in bytes.windows(mark.len()).enumerate().filter(|(_, at)| *at == mark) {
                if self.is_frame(file, offset.saturating_add(index as u64))? {
                    return Ok(true);
                }
            }
            // The last three bytes may begin a mark that the next piece ends.
            offset =
                offset.saturating_add(count.saturating_sub(mark.len().saturating_sub(1)) as u64);
        }
        Ok(false)
    }

    fn is_frame(&self, file: &File, offset: u64) -> io::Result<bool> {
        let mut fixed = [0; FRAME_HEADER_BYTES];
        if read_up_to(file, &mut fixed, offset)? < fixed.len() {
            return Ok(false);
        }
        let Some(header) = FrameHeader::decode(&fixed) else { return Ok(false) };
        let body = offset.saturating_add(FRAME_HEADER_BYTES as u64);
        let end = body.saturating_add(u64::from(header.length));
        let length = header.length as usize;
        if header.sequence < self.sequence || length > PAYLOAD_BYTES_MAX || end > self.length {
            return Ok(false);
        }
        let mut payload = vec![0; length];
        Ok(read_up_to(file, &mut payload, body)? == length && header.covers(&fixed, &payload))
    }

    fn damaged(&self, offset: u64, damage: Damage) -> OpenError {
        OpenError::Damaged { segment: self.path.clone(), offset, damage }
    }
}

/// Fills `buf`; false if the file ends before.
fn read_or(file: &mut impl Read, buf: &mut [u8], path: &Path) -> Result<bool, FileError> {
    match file.read_exact(buf) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error).at(path),
    }
}

/// Reads until `buf` is full or the file ends.
fn read_up_to(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buf.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled = filled.saturating_add(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
