//! What the bucket has directly in a folder, as of one LIST and corrected since.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::RwLock;

use super::names;
use crate::store::{Listing, Location, ObjectAttributes};

/// What the bucket has under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// At least one object below it. Wins over an object of the same name, which then has no path.
    Folder,
    Object(ObjectAttributes),
    Absent,
}

#[derive(Debug)]
pub(super) struct FolderListing {
    /// When the request began.
    pub(super) at: Instant,
    names: RwLock<BTreeMap<Arc<str>, Found>>,
    /// Keys that no path can have: the folder is not empty, though it may look so.
    pub(super) unrepresentable: usize,
    has_receipts: bool,
}

impl FolderListing {
    pub(super) fn new(folder: &Location, listing: Listing, at: Instant) -> Self {
        let unrepresentable = listing.unrepresentable.len();
        if let Some(key) = listing.unrepresentable.first() {
            tracing::warn!(%folder, unrepresentable, key, "keys that cannot be shown as paths");
        }
        let has_receipts = listing.folders.iter().any(|name| names::is_hidden(name));
        let objects = listing.objects.into_iter();
        let objects =
            objects.map(|object| (object.location.name().into(), Found::Object(object.attributes)));
        let folders = listing.folders.into_iter().map(|name| (name.into(), Found::Folder));
        let names = objects.chain(folders).filter(|(name, _): &(Arc<str>, _)| {
            // Left out here, receipts cannot be reached in any way.
            !names::is_hidden(name)
        });
        Self { at, names: RwLock::new(names.collect()), unrepresentable, has_receipts }
    }

    /// Of a folder of which everything is known.
    pub(super) fn known(names: impl IntoIterator<Item = (Arc<str>, Found)>, at: Instant) -> Self {
        Self {
            at,
            names: RwLock::new(names.into_iter().collect()),
            unrepresentable: 0,
            has_receipts: false,
        }
    }

    /// Whether there were receipts of datasets in it when it was listed.
    pub(super) fn has_receipts(&self) -> bool {
        self.has_receipts
    }

    pub(super) fn get(&self, name: &str) -> Found {
        self.names.read().get(name).cloned().unwrap_or(Found::Absent)
    }

    pub(super) fn all(&self) -> Vec<(Arc<str>, Found)> {
        self.names.read().iter().map(|(name, found)| (Arc::clone(name), found.clone())).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.names.read().len()
    }

    /// Returns whether the name was there as a folder already.
    pub(super) fn put_folder(&self, name: &str) -> bool {
        if names::is_hidden(name) {
            return true;
        }
        self.names.write().insert(name.into(), Found::Folder) == Some(Found::Folder)
    }

    pub(super) fn put_object(&self, name: &str, object: ObjectAttributes) {
        let mut names = self.names.write();
        if names.get(name) != Some(&Found::Folder) {
            names.insert(name.into(), Found::Object(object));
        }
    }

    pub(super) fn remove_object(&self, name: &str) {
        let mut names = self.names.write();
        if matches!(names.get(name), Some(Found::Object(_))) {
            names.remove(name);
        }
    }

    pub(super) fn remove_folder(&self, name: &str) {
        let mut names = self.names.write();
        if names.get(name) == Some(&Found::Folder) {
            names.remove(name);
        }
    }
}
