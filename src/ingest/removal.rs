//! Datasets that are removed, in whole or in part, through the mount.
//!
//! A receipt says which files a dataset was made from. It dies with what it speaks of, and first:
//! were it left behind, the next copy of such a file would be taken for one that is there already.

use super::driver::{Ingest, refusal_of_store};
use super::intake::ASKING_PATIENCE;
use super::names::{self, receipts_folder};
use super::refusal::{Cause, Refusal};
use crate::store::{Link, Location, StoreError};

impl Ingest {
    /// Before an object of the bucket is deleted here, or gets another name. If it is of a dataset,
    /// that has no receipts afterwards. Waits for the network once for each dataset.
    pub async fn removing(&self, object: &Location) -> Result<(), Refusal> {
        let Some(dataset) = self.dataset_of(object) else { return Ok(()) };
        self.forget(&dataset);
        if self.0.without_receipts.lock().contains(&dataset) {
            return Ok(());
        }
        let dropped = self.drop_receipts(&dataset, &self.asking()).await;
        dropped.map_err(|error| refusal_of_store(&error))?;
        self.0.without_receipts.lock().insert(dataset);
        Ok(())
    }

    /// Before a folder gets another name. Receipts of datasets below it go with it.
    pub async fn moving(&self, old: &Location, new: &Location) -> Result<(), Refusal> {
        for folder in [old, new] {
            self.0.known.forget_below(folder);
            self.0.gatherings.lock().retain(|dataset, _| !dataset.is_below(folder));
            self.0.without_receipts.lock().retain(|dataset| !dataset.is_below(folder));
            self.removing(folder).await?;
        }
        Ok(())
    }

    /// What is known of a dataset does not hold any more.
    pub(super) fn forget(&self, dataset: &Location) {
        self.0.known.forget(dataset);
        self.gathering_published(dataset);
    }

    /// Waits until what was deleted here in a dataset is gone, so that it is not taken for something
    /// that is there. For how long is told by `link`.
    pub(super) async fn await_deletions(
        &self,
        dataset: &Location,
        patient: bool,
    ) -> Result<(), Refusal> {
        if self.0.known.get(dataset).is_some() || !self.0.queue.is_deleting(dataset) {
            return Ok(());
        }
        let deleted = self.0.queue.flush_within(dataset);
        if patient {
            deleted.await;
        } else {
            tokio::select! {
                () = deleted => {}
                () = self.0.clock.sleep(ASKING_PATIENCE) => {}
            }
        }
        if self.0.queue.is_deleting(dataset) {
            let message =
                format!("what was deleted in `{dataset}` is not gone from the bucket yet");
            return Err(Refusal::new(Cause::Unreachable, message));
        }
        Ok(())
    }

    /// Deletes all receipts of a dataset that is not there any more, or is about to be changed by
    /// other means.
    pub(super) async fn drop_receipts(
        &self,
        dataset: &Location,
        link: &Link,
    ) -> Result<(), StoreError> {
        let Some(folder) = receipts_folder(dataset) else { return Ok(()) };
        let may_exist = self.0.with_receipts.lock().contains(dataset)
            || self.0.tree.has_receipts_beside(dataset).await?;
        if !may_exist {
            return Ok(());
        }
        let found = link.list_folder(&folder).await?.objects;
        let found: Vec<Location> = found.into_iter().map(|object| object.location).collect();
        for (_, deleted) in link.delete_many(found).await {
            deleted?;
        }
        Ok(())
    }

    /// The dataset that this is, or is a part of.
    fn dataset_of(&self, at: &Location) -> Option<Location> {
        names::dataset_of(at, |folder| self.is_hierarchy(folder))
    }
}
