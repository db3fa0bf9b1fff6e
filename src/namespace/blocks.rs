//! The first bytes of objects that were looked up, and blocks that were read: bounded, in memory.
//!
//! Each block carries the version it is of. Who reads an object takes blocks of one version only.

use std::sync::Arc;

use bytes::Bytes;
use moka::sync::Cache;

use super::flights::Flights;
use crate::store::{Fetched, Link, Location, StoreError};

/// Bytes of a block, and of what a lookup reads of an object: most chunks and all documents come
/// with their lookup.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;

type Key = (Location, u64);

pub(super) struct Blocks {
    store: Link,
    cache: Cache<Key, Arc<Fetched>>,
    flights: Flights<Key, Result<Arc<Fetched>, StoreError>>,
}

impl Blocks {
    pub(super) fn new(store: Link, bytes_max: u64) -> Self {
        let weigh = |_: &Key, block: &Arc<Fetched>| {
            // A block is at most 1 MiB; the rest is what keeping it costs.
            u32::try_from(block.bytes.len()).unwrap_or(u32::MAX).saturating_add(256)
        };
        let cache = Cache::builder().weigher(weigh).max_capacity(bytes_max).build();
        Self { store, cache, flights: Flights::new() }
    }

    pub(super) fn cached(&self, at: &Location, block: u64) -> Option<Arc<Fetched>> {
        self.cache.get(&(at.clone(), block))
    }

    pub(super) fn forget(&self, at: &Location, block: u64) {
        self.cache.invalidate(&(at.clone(), block));
    }

    /// Asks the store, and keeps what it answers.
    pub(super) async fn fetch(
        &self,
        at: &Location,
        block: u64,
    ) -> Result<Arc<Fetched>, StoreError> {
        let key = (at.clone(), block);
        let start = block.saturating_mul(BLOCK_BYTES);
        let range = start..start.saturating_add(BLOCK_BYTES);
        let (store, cache) = (self.store.clone(), self.cache.clone());
        self.flights
            .join(key.clone(), move || async move {
                let fetched = store.get(&key.0, Some(range)).await?;
                let fetched = Arc::new(copied(fetched));
                cache.insert(key, Arc::clone(&fetched));
                Ok(fetched)
            })
            .await
    }
}

/// A slice of a larger buffer would keep that buffer alive for as long as it is cached.
fn copied(fetched: Fetched) -> Fetched {
    Fetched { bytes: Bytes::copy_from_slice(&fetched.bytes), ..fetched }
}
