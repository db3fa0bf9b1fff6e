//! A source file after its commit: it keeps its name, size and mtime through its receipt.

use std::time::SystemTime;

use super::driver::{Ingest, refusal_of_store};
use super::intake::ASKING_PATIENCE;
use super::published::{Published, PublishedDataset};
use super::receipt::{Receipt, nanoseconds};
use super::refusal::{Cause, Refusal};
use crate::store::{Link, Location, Patience, PutCondition};

/// What `stat` shows for a source file that is in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceAttributes {
    /// Size in bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: SystemTime,
}

impl Ingest {
    /// Size and mtime of a committed source file. May wait for the network, once per dataset.
    /// `None` where there is no valid receipt of that name, or the store does not answer.
    pub async fn receipt(&self, location: &Location) -> Option<SourceAttributes> {
        let (_, receipt) = self.find(location).await.ok()??;
        let record = receipt.source(&self.record_name(location)?)?;
        Some(SourceAttributes { size: record.bytes, mtime: record.mtime() })
    }

    /// utimes on a committed source file.
    pub async fn set_receipt_mtime(
        &self,
        location: &Location,
        mtime: SystemTime,
    ) -> Result<(), Refusal> {
        let mtime_ns = nanoseconds(mtime);
        self.change(location, |receipt, name| {
            for source in receipt.sources.iter_mut().filter(|s| s.name == name) {
                source.mtime_ns = mtime_ns;
            }
        })
        .await
    }

    /// `rm name.nc` after the commit: the receipt forgets it, the dataset stays.
    pub async fn remove_receipt(&self, location: &Location) -> Result<(), Refusal> {
        self.change(location, |receipt, name| {
            receipt.sources.retain(|source| source.name != name);
            // Nobody can say any more that the dataset came from what is left alone.
            receipt.has_others = true;
        })
        .await
    }

    /// Rename inside its folder after the commit. `false` where that cannot be: another folder, or
    /// a name that would belong to another dataset.
    pub async fn rename_receipt(&self, from: &Location, to: &Location) -> Result<bool, Refusal> {
        let (Some(before), Some(after)) = (self.target(from), self.target(to)) else {
            return Ok(false);
        };
        if before != after {
            return Ok(false);
        }
        self.change(from, |receipt, name| {
            for source in receipt.sources.iter_mut().filter(|s| s.name == name) {
                source.name = after.record_name(to.name());
            }
        })
        .await?;
        Ok(true)
    }

    fn record_name(&self, location: &Location) -> Option<String> {
        Some(self.target(location)?.record_name(location.name()))
    }

    async fn find(&self, location: &Location) -> Result<Option<(Location, Receipt)>, Refusal> {
        let Some(target) = self.target(location) else { return Ok(None) };
        let known = self.ask(target.dataset()).await?;
        let Published::Dataset(PublishedDataset { receipts, .. }) = &*known else {
            return Ok(None);
        };
        let name = target.record_name(location.name());
        let found = receipts.iter().find(|(_, receipt)| receipt.source(&name).is_some());
        Ok(found.cloned())
    }

    async fn change(
        &self,
        location: &Location,
        change: impl FnOnce(&mut Receipt, &str),
    ) -> Result<(), Refusal> {
        let missing = || Refusal::new(Cause::Unsupported, "there is no receipt");
        let (at, before) = self.find(location).await?.ok_or_else(missing)?;
        let mut after = before.clone();
        let name = self.record_name(location).unwrap_or_default();
        change(&mut after, &name);
        if after == before {
            return Ok(());
        }
        let link = self.asking();
        let changed = if after.sources.is_empty() {
            link.delete(&at).await
        } else {
            let bytes = after
                .to_bytes()
                .map_err(|error| Refusal::new(Cause::Unsupported, error.to_string()))?;
            link.put(&at, bytes.into(), PutCondition::Always).await.map(|_| ())
        };
        changed.map_err(|error| refusal_of_store(&error))?;
        if let Some(target) = self.target(location) {
            self.0.known.forget(target.dataset());
        }
        Ok(())
    }

    pub(super) fn asking(&self) -> Link {
        self.0.pipeline.link.with_patience(Patience::UpTo(ASKING_PATIENCE))
    }
}
