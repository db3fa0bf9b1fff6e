//! Memory that is paid for before it is allocated.
//!
//! One [`Budget`] serves all buffers of a mount. Work acquires what it needs at once and never asks
//! for more while it holds some, so that nobody waits for memory held by somebody who waits.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit of account: fine enough for small chunks, coarse enough for a 32-bit count of terabytes.
const UNIT_BYTES: u64 = 4096;

/// A bounded number of bytes, shared by all who buffer.
#[derive(Debug, Clone)]
pub struct Budget {
    units: Arc<Semaphore>,
    units_max: u32,
}

/// Bytes that have been paid for; dropping it pays them back.
#[derive(Debug)]
pub struct Paid(Option<OwnedSemaphorePermit>);

impl Budget {
    /// A budget of `bytes`, at least one unit.
    pub fn new(bytes: u64) -> Self {
        let units_max = units(bytes).clamp(1, 1 << 28);
        Self { units: Arc::new(Semaphore::new(units_max as usize)), units_max }
    }

    /// Waits until `bytes` are free and takes them. An item larger than the whole budget waits until
    /// it is alone and then runs.
    pub async fn acquire(&self, bytes: u64) -> Paid {
        let wanted = units(bytes).min(self.units_max);
        // The semaphore is never closed, so acquiring cannot fail.
        Paid(Arc::clone(&self.units).acquire_many_owned(wanted).await.ok())
    }

    /// The whole budget in bytes.
    pub fn bytes_max(&self) -> u64 {
        u64::from(self.units_max) * UNIT_BYTES
    }
}

impl Paid {
    /// Pays back all but `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if let Some(permit) = &mut self.0 {
            let surplus = permit.num_permits().saturating_sub(units(bytes) as usize);
            drop(permit.split(surplus));
        }
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_item_above_the_budget_runs_alone() {
        let budget = Budget::new(1 << 20);
        let mut small = budget.acquire(8192).await;
        let large = budget.acquire(1 << 30);
        tokio::pin!(large);
        assert!(futures::poll!(&mut large).is_pending());
        small.shrink_to(4096);
        assert!(futures::poll!(&mut large).is_pending());
        drop(small);
        let _large = large.await;
        let next = budget.acquire(1);
        tokio::pin!(next);
        assert!(futures::poll!(&mut next).is_pending());
    }
}
