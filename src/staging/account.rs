//! What one file has been charged.

use super::WriteError;
use super::extents::Extents;
use super::quota::Quota;

/// Bytes paid, and what for.
#[derive(Debug, Default)]
pub(super) struct Account {
    paid: u64,
    /// Of a spool file only.
    extents: Extents,
}

impl Account {
    /// For a file that was found, its bytes paid already.
    pub(super) fn found(paid: u64, extents: Extents) -> Self {
        Self { paid, extents }
    }

    /// Content of `length` bytes, paid already, lies in a spool file now.
    pub(super) fn spilled(&mut self, length: u64) {
        self.extents = Extents::dense(length);
    }

    /// Pays for content in memory to be `bytes` long.
    pub(super) fn pay_length(&mut self, quota: &Quota, bytes: u64) -> Result<(), WriteError> {
        self.charge(quota, bytes)
    }

    /// Pays for a write to a spool file.
    pub(super) fn pay_range(
        &mut self,
        quota: &Quota,
        offset: u64,
        end: u64,
    ) -> Result<(), WriteError> {
        self.charge(quota, self.extents.bytes_with(offset, end))?;
        self.extents.add(offset, end);
        Ok(())
    }

    /// Pays for a spool file to end at `end`.
    pub(super) fn pay_end(&mut self, quota: &Quota, end: u64) -> Result<(), WriteError> {
        self.charge(quota, self.extents.bytes_at(end))
    }

    /// The spool file ends at `end`, whatever was paid for.
    pub(super) fn settle_end(&mut self, quota: &Quota, end: u64) {
        self.extents.set_end(end);
        let cost = self.extents.bytes();
        if cost < self.paid {
            quota.free(self.paid - cost);
        } else {
            quota.take_anyway(cost - self.paid);
        }
        self.paid = cost;
    }

    /// Gives everything back.
    pub(super) fn free_all(&mut self, quota: &Quota) {
        quota.free(std::mem::take(&mut self.paid));
    }

    fn charge(&mut self, quota: &Quota, cost: u64) -> Result<(), WriteError> {
        if cost > self.paid {
            quota.pay(cost - self.paid)?;
        } else {
            quota.free(self.paid - cost);
        }
        self.paid = cost;
        Ok(())
    }
}
