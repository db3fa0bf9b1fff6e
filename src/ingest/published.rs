//! What is in the bucket of one dataset: fetched once, then kept in step with our own epochs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::digest::Digest;
use super::names::receipts_folder;
use super::receipt::Receipt;
use crate::namespace::Tree;
use crate::store::{Link, Location, StoreError};
use crate::zarr::{DocumentRank, is_metadata_document};

/// What is in the bucket of one dataset.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Published {
    /// Nothing.
    Absent,
    /// A dataset that came wholly through ingest, as its receipts show.
    Receipted {
        /// Valid receipts with their locations.
        receipts: Vec<(Location, Receipt)>,
    },
    /// Leftovers of an ingest that never came to its end; nobody sees them as a dataset.
    Leftover {
        /// The receipt that its publication would have made valid.
        receipts: Vec<(Location, Receipt)>,
    },
    /// Something that was made otherwise, with the reason in words.
    Foreign(String),
}

/// The datasets asked for so far.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<Location, Arc<Published>>>);

impl Known {
    /// What is known without asking the store.
    pub(super) fn get(&self, dataset: &Location) -> Option<Arc<Published>> {
        self.0.lock().get(dataset).map(Arc::clone)
    }

    /// What is in the bucket: from memory, else fetched.
    pub(super) async fn fetch(
        &self,
        tree: &Tree,
        link: &Link,
        dataset: &Location,
    ) -> Result<Arc<Published>, StoreError> {
        if let Some(known) = self.get(dataset) {
            return Ok(known);
        }
        let published = Arc::new(fetch(tree, link, dataset).await?);
        // Our own epoch may have been published meanwhile: that is newer than what was fetched.
        Ok(Arc::clone(self.0.lock().entry(dataset.clone()).or_insert(published)))
    }

    /// An epoch of ours changed it.
    pub(super) fn set(&self, dataset: &Location, published: Published) {
        self.0.lock().insert(dataset.clone(), Arc::new(published));
    }

    /// It may have changed otherwise.
    pub(super) fn forget(&self, dataset: &Location) {
        self.0.lock().remove(dataset);
    }
}

/// Asks the store: nothing where the parent's listing shows nothing; else the dataset's own listing,
/// its root document and its receipts.
async fn fetch(tree: &Tree, link: &Link, dataset: &Location) -> Result<Published, StoreError> {
    if !tree.bucket_holds(dataset).await? {
        return Ok(Published::Absent);
    }
    let listing = link.list_folder(dataset).await?;
    if listing.objects.is_empty() && listing.folders.is_empty() {
        return Ok(Published::Absent);
    }
    let receipts = receipts(link, dataset).await?;
    let root = listing
        .objects
        .iter()
        .map(|object| &object.location)
        .filter_map(|location| root_rank(location.name()).map(|rank| (rank, location)))
        .max_by_key(|(rank, _)| *rank)
        .map(|(_, location)| location);
    let Some(root) = root else {
        return Ok(if receipts.is_empty() {
            Published::Foreign("it holds objects but no Zarr metadata".into())
        } else {
            Published::Leftover { receipts }
        });
    };
    let digest = match link.get(root, None).await {
        Ok(fetched) => Digest::of_bytes(&fetched.bytes),
        Err(StoreError::NotFound { .. }) => return Ok(Published::Leftover { receipts }),
        Err(error) => return Err(error),
    };
    let valid: Vec<(Location, Receipt)> =
        receipts.into_iter().filter(|(_, receipt)| receipt.root_document == digest).collect();
    if valid.is_empty() {
        return Ok(Published::Foreign("it was not made by copying NetCDF files here".into()));
    }
    let known = |name: &str| {
        valid.iter().any(|(_, receipt)| {
            receipt.nodes.iter().any(|node| node.split('/').next() == Some(name))
        })
    };
    let foreign_folder = listing.folders.iter().find(|name| !known(name)).map(String::as_str);
    let foreign_object = listing
        .objects
        .iter()
        .map(|object| object.location.name())
        .find(|name| !is_metadata_document(name));
    if let Some(name) = foreign_folder.or(foreign_object) {
        return Ok(Published::Foreign(format!("`{name}` in it does not come from a NetCDF file")));
    }
    Ok(Published::Receipted { receipts: valid })
}

/// Whether a document of this name at the root shows the dataset. Receipts name the one of the
/// highest rank, which is put last: `zarr.json`, in version 2 `.zmetadata`, else `.zgroup`.
fn root_rank(name: &str) -> Option<DocumentRank> {
    DocumentRank::of(name).filter(|rank| {
        matches!(rank, DocumentRank::Node | DocumentRank::Group | DocumentRank::Consolidated)
    })
}

async fn receipts(link: &Link, dataset: &Location) -> Result<Vec<(Location, Receipt)>, StoreError> {
    let Some(folder) = receipts_folder(dataset) else { return Ok(vec![]) };
    let listing = link.list_folder(&folder).await?;
    let fetched = listing.objects.iter().map(|object| async {
        match link.get(&object.location, None).await {
            Ok(fetched) => {
                Ok(Receipt::parse(&fetched.bytes).map(|receipt| (object.location.clone(), receipt)))
            }
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    });
    let found = futures::future::try_join_all(fetched).await?;
    Ok(found.into_iter().flatten().collect())
}
