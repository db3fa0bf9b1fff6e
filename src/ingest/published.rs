//! What is in the bucket of one dataset: fetched once, then kept in step with our own epochs.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::digest::Digest;
use super::names::receipts_folder;
use super::receipt::Receipt;
use crate::namespace::Tree;
use crate::plan::join::Existing;
use crate::store::{Link, Location, StoreError, Version};
use crate::zarr::{DocumentRank, is_metadata_document};

/// What is in the bucket of one dataset.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Published {
    /// Nothing.
    Absent,
    /// A dataset.
    Dataset(PublishedDataset),
    /// Leftovers of an ingest that never came to its end; nobody sees them as a dataset.
    Leftover {
        /// The receipt that its publication would have made valid.
        receipts: Vec<(Location, Receipt)>,
    },
    /// Objects that are no dataset, with the reason in words.
    Foreign(String),
}

/// A dataset that readers see.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PublishedDataset {
    /// The document that shows it.
    pub(super) root: RootObject,
    /// Valid receipts with their locations.
    pub(super) receipts: Vec<(Location, Receipt)>,
    /// Why it is not wholly made from source files, if it is not.
    pub(super) others: Option<String>,
}

/// The document that shows a dataset.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RootObject {
    pub(super) at: Location,
    pub(super) version: Version,
    pub(super) bytes: Bytes,
}

impl Published {
    /// Receipts, valid or left over.
    pub(super) fn receipts(&self) -> &[(Location, Receipt)] {
        match self {
            Self::Dataset(PublishedDataset { receipts, .. }) | Self::Leftover { receipts } => {
                receipts
            }
            Self::Absent | Self::Foreign(_) => &[],
        }
    }
}

/// The datasets asked for so far.
#[derive(Debug, Default)]
pub(super) struct Known {
    published: Mutex<HashMap<Location, Arc<Published>>>,
    existing: Mutex<HashMap<Location, Arc<Existing>>>,
}

impl Known {
    /// What is known without asking the store.
    pub(super) fn get(&self, dataset: &Location) -> Option<Arc<Published>> {
        self.published.lock().get(dataset).map(Arc::clone)
    }

    /// What is known of the inside of a published dataset without asking the store.
    pub(super) fn existing(&self, dataset: &Location) -> Option<Arc<Existing>> {
        self.existing.lock().get(dataset).map(Arc::clone)
    }

    /// Remembers the inside of a published dataset.
    pub(super) fn set_existing(&self, dataset: &Location, existing: Arc<Existing>) {
        self.existing.lock().insert(dataset.clone(), existing);
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
        Ok(Arc::clone(self.published.lock().entry(dataset.clone()).or_insert(published)))
    }

    /// An epoch of ours changed it.
    pub(super) fn set(&self, dataset: &Location, published: Published) {
        self.existing.lock().remove(dataset);
        self.published.lock().insert(dataset.clone(), Arc::new(published));
    }

    /// What is at or below a folder may have changed otherwise.
    pub(super) fn forget_below(&self, folder: &Location) {
        let is_other = |at: &Location| at != folder && !at.is_below(folder);
        self.existing.lock().retain(|at, _| is_other(at));
        self.published.lock().retain(|at, _| is_other(at));
    }

    /// It may have changed otherwise.
    pub(super) fn forget(&self, dataset: &Location) {
        self.existing.lock().remove(dataset);
        self.published.lock().remove(dataset);
    }
}

/// Asks the store: nothing where the parent's listing shows nothing; else the dataset's own listing,
/// its root document and its receipts.
async fn fetch(tree: &Tree, link: &Link, dataset: &Location) -> Result<Published, StoreError> {
    if !dataset.is_root() && !tree.bucket_holds(dataset).await? {
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
    let root = match link.get(root, None).await {
        Ok(fetched) => {
            RootObject { at: root.clone(), version: fetched.version, bytes: fetched.bytes }
        }
        Err(StoreError::NotFound { .. }) => return Ok(Published::Leftover { receipts }),
        Err(error) => return Err(error),
    };
    let digest = Digest::of_bytes(&root.bytes);
    let valid: Vec<(Location, Receipt)> =
        receipts.into_iter().filter(|(_, receipt)| receipt.root_document == digest).collect();
    let others = if valid.is_empty() {
        Some("it was not made by copying NetCDF files here".to_owned())
    } else if valid.iter().any(|(_, receipt)| receipt.has_others) {
        Some("it is not made from NetCDF files alone".to_owned())
    } else {
        let known = |name: &str| {
            valid.iter().any(|(_, receipt)| {
                receipt.nodes.iter().any(|node| node.split('/').next() == Some(name))
            })
        };
        let folder = listing.folders.iter().find(|name| !known(name)).map(String::as_str);
        let object = listing
            .objects
            .iter()
            .map(|object| object.location.name())
            .find(|name| !is_metadata_document(name));
        folder.or(object).map(|name| format!("`{name}` in it does not come from a NetCDF file"))
    };
    Ok(Published::Dataset(PublishedDataset { root, receipts: valid, others }))
}

/// Whether a document of this name at the root shows the dataset. Receipts name the one of the
/// highest rank, which is put last: `zarr.json`, in version 2 `.zmetadata`, else `.zgroup`.
fn root_rank(name: &str) -> Option<DocumentRank> {
    DocumentRank::of(name).filter(|rank| {
        matches!(rank, DocumentRank::Node | DocumentRank::Group | DocumentRank::Consolidated)
    })
}

/// All receipts of a dataset, void ones too.
pub(super) async fn receipts(
    link: &Link,
    dataset: &Location,
) -> Result<Vec<(Location, Receipt)>, StoreError> {
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
