//! Where the content of a staged file lies, and what the journal says about it.

use std::io;
use std::sync::Arc;

use nix::errno::Errno;

use super::WriteError;
use super::quota::Memory;
use super::segment::Segment;
use super::spool::SpoolFile;

/// Everything about the content that changes under the file's lock.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) content: Content,
    pub(super) known: Known,
    /// As it is, the content is covered by the journal or a sync: of no use to sync again.
    pub(super) synced: bool,
    /// Forgotten by the journal. Who has it open may still read it.
    pub(super) gone: Option<Gone>,
}

/// Where it lies.
#[derive(Debug)]
pub(super) enum Content {
    Memory(Memory),
    /// `offset` is where it begins in the segment.
    Journal {
        segment: Arc<Segment>,
        offset: u64,
    },
    Spool(SpoolFile),
}

/// What the journal says about the content, and so what recovery would see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Not closed; the spool file holds what there is.
    Open,
    /// Not closed; content of an earlier fsync is in the journal.
    InlineSynced,
    /// Closed, content in the journal.
    InlineSealed,
    /// Closed, content in the spool file.
    SpoolSealed,
}

/// Why the journal has forgotten it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    Discarded,
    Uploaded,
}

impl Body {
    /// Whether the content is what the journal calls closed.
    pub(super) fn is_sealed(&self) -> bool {
        matches!(
            (&self.content, self.known),
            (Content::Journal { .. }, Known::InlineSealed)
                | (Content::Spool(_), Known::SpoolSealed)
        )
    }

    /// A write into a file that was uploaded would be lost without a word: `ESTALE`. One that was
    /// deleted while open may be written, as everywhere.
    pub(super) fn check_writable(&self) -> Result<(), WriteError> {
        match self.gone {
            Some(Gone::Uploaded) => Err(io::Error::from(Errno::ESTALE).into()),
            Some(Gone::Discarded) | None => Ok(()),
        }
    }
}
