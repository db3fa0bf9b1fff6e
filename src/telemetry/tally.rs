//! How much of the staged work is in the bucket. The engine counts here; a flush shows it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::activities::Activities;

/// Bytes and objects sent since the mount began, and staged bytes that are settled.
#[derive(Debug, Default)]
pub struct Tally {
    settled_bytes: AtomicU64,
    objects: AtomicU64,
    decoded: AtomicU64,
    activities: Activities,
}

impl Tally {
    /// Nothing is sent yet.
    pub fn new(activities: Activities) -> Self {
        Self { activities, ..Self::default() }
    }

    /// What the time goes into meanwhile.
    pub fn activities(&self) -> &Activities {
        &self.activities
    }

    /// `bytes` of staging are no longer needed there because their objects are in the bucket.
    pub fn settled(&self, bytes: u64) {
        self.settled_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// An object was written.
    pub fn object(&self) {
        self.objects.fetch_add(1, Ordering::Relaxed);
    }

    /// So many chunks of sources were decoded.
    pub fn decoded(&self, chunks: u64) {
        self.decoded.fetch_add(chunks, Ordering::Relaxed);
    }

    /// Chunks of sources decoded so far; one that was decoded twice counts twice.
    pub fn chunks_decoded(&self) -> u64 {
        self.decoded.load(Ordering::Relaxed)
    }

    /// Staged bytes settled so far.
    pub fn settled_bytes(&self) -> u64 {
        self.settled_bytes.load(Ordering::Relaxed)
    }

    /// Objects written so far.
    pub fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }
}
