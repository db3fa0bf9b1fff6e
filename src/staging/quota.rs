//! What is paid before it is taken: bytes of the spool, and memory for small open files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::WriteError;

/// A number of bytes that may be taken at most.
#[derive(Debug)]
struct Budget {
    used: AtomicU64,
    max: u64,
}

impl Budget {
    fn new(max: u64) -> Self {
        Self { used: AtomicU64::new(0), max }
    }

    fn try_take(&self, bytes: u64) -> bool {
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                used.checked_add(bytes).filter(|used| *used <= self.max)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// Bytes of content that may be staged, and who waits for room.
#[derive(Debug)]
pub(super) struct Quota {
    budget: Budget,
    waiting: Mutex<Waiting>,
    freed: watch::Sender<()>,
}

/// `Full` and `room` are separate calls, and room may be freed between them.
#[derive(Debug, Default)]
struct Waiting {
    /// Answers `Full` since room was last freed.
    refused: u64,
    /// Answers `Full` before room was freed: so many calls of `room` need not wait.
    wakes: u64,
}

impl Quota {
    pub(super) fn new(bytes_max: u64) -> Self {
        let freed = watch::Sender::new(());
        Self { budget: Budget::new(bytes_max), waiting: Mutex::default(), freed }
    }

    /// Takes `bytes` or answers `Full`.
    pub(super) fn pay(&self, bytes: u64) -> Result<(), WriteError> {
        if bytes == 0 || self.budget.try_take(bytes) {
            return Ok(());
        }
        Err(self.full())
    }

    /// Takes `bytes` that are there already, whatever the limit: of a spool that was found.
    pub(super) fn take_anyway(&self, bytes: u64) {
        self.budget.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// The answer `Full`, also for a full file system below.
    pub(super) fn full(&self) -> WriteError {
        self.waiting.lock().refused += 1;
        WriteError::Full
    }

    pub(super) fn free(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.budget.give_back(bytes);
        let mut waiting = self.waiting.lock();
        waiting.wakes += std::mem::take(&mut waiting.refused);
        self.freed.send_replace(());
    }

    /// Waits until something was freed after `Full` was answered. May return early, never late.
    pub(super) async fn room(&self) {
        let mut freed = {
            let mut waiting = self.waiting.lock();
            if waiting.wakes > 0 {
                waiting.wakes -= 1;
                return;
            }
            waiting.refused = waiting.refused.saturating_sub(1);
            self.freed.subscribe()
        };
        // The sender lives in `self`, so waiting cannot end early.
        let _ended = freed.changed().await.is_ok();
    }

    pub(super) fn used(&self) -> u64 {
        self.budget.used.load(Ordering::Acquire)
    }

    pub(super) fn max(&self) -> u64 {
        self.budget.max
    }
}

/// Memory for the content of small open files.
#[derive(Debug)]
pub(super) struct MemoryBudget(Budget);

impl MemoryBudget {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self(Budget::new(bytes_max))
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.0.used.load(Ordering::Acquire)
    }
}

/// The content of a small open file, its memory paid for.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    paid: u64,
    budget: Arc<MemoryBudget>,
}

impl Memory {
    pub(super) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { bytes: Vec::new(), paid: 0, budget: Arc::clone(budget) }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Pays for `length` bytes: doubling at first, so that appending is not quadratic. False if the
    /// budget does not allow it.
    pub(super) fn reserve(&mut self, length: usize, length_max: usize) -> bool {
        if length as u64 <= self.paid {
            return true;
        }
        let roomy = length.checked_next_power_of_two().unwrap_or(length).min(length_max);
        for target in [roomy.max(length), length] {
            if self.budget.0.try_take(target as u64 - self.paid) {
                self.paid = target as u64;
                self.bytes.reserve_exact(target - self.bytes.len());
                return true;
            }
        }
        false
    }

    /// Shrinks, or grows by zeros within what was reserved.
    pub(super) fn resize(&mut self, length: usize) {
        debug_assert!(length as u64 <= self.paid, "memory is paid before it is used");
        self.bytes.resize(length, 0);
    }

    /// Writes within what was reserved.
    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        debug_assert!(end as u64 <= self.paid, "memory is paid before it is used");
        if offset > self.bytes.len() {
            self.bytes.resize(offset, 0);
        }
        let overlap = data.len().min(self.bytes.len() - offset);
        let (over, beyond) = data.split_at(overlap);
        if let Some(place) = self.bytes.get_mut(offset..offset + overlap) {
            place.copy_from_slice(over);
        }
        self.bytes.extend_from_slice(beyond);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.budget.0.give_back(self.paid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn room_freed_between_full_and_waiting_is_not_missed() {
        let quota = Quota::new(10);
        quota.pay(10).unwrap();
        assert!(matches!(quota.pay(1), Err(WriteError::Full)));
        assert!(matches!(quota.pay(1), Err(WriteError::Full)));
        quota.free(5);
        quota.room().await;
        quota.room().await;
        assert!(futures::poll!(std::pin::pin!(quota.room())).is_pending());
    }

    #[tokio::test]
    async fn every_waiter_is_woken() {
        let quota = Quota::new(10);
        quota.pay(10).unwrap();
        assert!(matches!(quota.pay(1), Err(WriteError::Full)));
        let (mut first, mut second) = (Box::pin(quota.room()), Box::pin(quota.room()));
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        quota.free(1);
        first.await;
        second.await;
    }

    #[test]
    fn memory_is_given_back_with_its_content() {
        let budget = Arc::new(MemoryBudget::new(1000));
        let mut memory = Memory::new(&budget);
        assert!(memory.reserve(600, 4096));
        memory.write(595, b"hello");
        assert_eq!(memory.bytes().len(), 600);
        assert!(!memory.reserve(1001, 4096));
        assert_eq!(budget.used(), 600);
        drop(memory);
        assert_eq!(budget.used(), 0);
    }
}
