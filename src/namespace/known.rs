//! What the tree can say of places that nobody has looked up through the mount.

use super::listing::Found;
use super::tree::Tree;
use crate::store::{Location, StoreError};

impl Tree {
    /// Whether an object of this name is known to be in `folder`, staged or in the bucket. Asks
    /// nobody: what was never listed or looked up is not known.
    pub fn knows_object(&self, folder: &Location, name: &str) -> bool {
        let Ok(location) = folder.child(name) else { return false };
        let staged = {
            let inner = self.inner.lock();
            inner.table.find(&location).is_some_and(|ino| {
                inner.table.get(ino).is_some_and(|node| node.is_local() && node.folder().is_none())
            })
        };
        staged || matches!(self.metadata.known(folder, name, &location), Some(Found::Object(_)))
    }

    /// Whether an object of this name is known to be in the bucket. Asks nobody.
    pub fn bucket_knows(&self, folder: &Location, name: &str) -> bool {
        let Ok(location) = folder.child(name) else { return false };
        matches!(self.metadata.known(folder, name, &location), Some(Found::Object(_)))
    }

    /// Whether the bucket holds anything at `location` or below it, as far as one listing of its
    /// parent tells. The mounted folder itself counts as held.
    pub async fn bucket_holds(&self, location: &Location) -> Result<bool, StoreError> {
        let Some(parent) = location.parent() else { return Ok(true) };
        let listing = self.metadata.list(&parent).await?;
        Ok(listing.get(location.name()) != Found::Absent)
    }

    /// Whether receipts of datasets were beside `location` when its parent was last listed.
    pub async fn has_receipts_beside(&self, location: &Location) -> Result<bool, StoreError> {
        let Some(parent) = location.parent() else { return Ok(false) };
        Ok(self.metadata.list(&parent).await?.has_receipts())
    }
}
