//! What a folder shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Ino;
use super::listing::Found;
use super::node::{Attributes, Entry, Node, Origin};
use super::tree::Tree;
use crate::store::{Location, StoreError};

/// A line of a folder's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The name in the folder.
    pub name: Arc<str>,
    /// The number, if it has one already.
    pub ino: Option<Ino>,
    /// Where its content is.
    pub origin: Origin,
    /// What `stat` shows.
    pub attributes: Attributes,
}

impl Tree {
    /// Everything a folder shows, by name: one LIST, unless that was asked lately. `None` if there is
    /// no such folder.
    pub async fn list(&self, folder: Ino) -> Result<Option<Vec<Listed>>, StoreError> {
        let (path, absent) = {
            let inner = self.inner.lock();
            let Some(node) = inner.table.get(folder).and_then(Node::folder) else {
                return Ok(None);
            };
            (inner.table.path(folder), node.absent)
        };
        let mut shown = BTreeMap::new();
        if let Some(path) = path.filter(|_| !absent) {
            let listing = self.metadata.list(&path).await?;
            self.add_from_bucket(folder, &path, listing.all(), &mut shown);
        }
        self.add_local(folder, &mut shown);
        Ok(Some(shown.into_values().collect()))
    }

    fn add_from_bucket(
        &self,
        folder: Ino,
        path: &Location,
        names: Vec<(Arc<str>, Found)>,
        shown: &mut BTreeMap<Arc<str>, Listed>,
    ) {
        let inner = self.inner.lock();
        for (name, found) in names {
            if path.child(&name).map_or(true, |at| inner.is_hidden(&at)) {
                continue;
            }
            let ino = inner.table.child(folder, &name);
            let known = ino.and_then(|ino| Some(inner.table.get(ino)?.attributes));
            let (origin, attributes) = match found {
                Found::Absent => continue,
                Found::Folder => (Origin::Folder, known.unwrap_or(self.folder_defaults())),
                Found::Object(object) => {
                    let attributes = self.object_attributes(path, &name, &object);
                    (Origin::Published(object), attributes)
                }
            };
            shown.insert(Arc::clone(&name), Listed { name, ino, origin, attributes });
        }
    }

    /// Staged files and folders made here. Source files that are only receipts are not shown, and
    /// hide nothing.
    fn add_local(&self, folder: Ino, shown: &mut BTreeMap<Arc<str>, Listed>) {
        let inner = self.inner.lock();
        let Some(node) = inner.table.get(folder).and_then(Node::folder) else { return };
        for (name, ino) in &node.children {
            let Some(node) = inner.table.get(*ino).filter(|node| node.is_local()) else { continue };
            let Entry { ino, origin, attributes } = node.entry(*ino);
            if matches!(origin, Origin::Source) {
                continue;
            }
            let name = Arc::clone(name);
            shown.insert(Arc::clone(&name), Listed { name, ino: Some(ino), origin, attributes });
        }
    }

    /// Gives a listed name its node, as a lookup would, without asking the bucket. `None` if it has
    /// gone since.
    pub fn resolve_listed(&self, folder: Ino, listed: &Listed) -> Option<Entry> {
        let mut inner = self.inner.lock();
        match inner.local(folder, &listed.name) {
            super::tree::Local::Is(answer) => answer,
            super::tree::Local::AskBucket(path) => {
                let found = match &listed.origin {
                    Origin::Folder => Found::Folder,
                    Origin::Published(object) => Found::Object(object.clone()),
                    Origin::Staged | Origin::Source => Found::Absent,
                };
                self.adopt(&mut inner, folder, &path, &listed.name, &found)
            }
        }
    }

    /// Whether a folder shows nothing: what `rmdir` needs. Keys that no path can have count.
    pub async fn is_empty(&self, folder: Ino) -> Result<bool, StoreError> {
        let Some(shown) = self.list(folder).await? else { return Ok(true) };
        if !shown.is_empty() {
            return Ok(false);
        }
        let Some(path) = self.path(folder).filter(|_| !self.is_absent(folder)) else {
            return Ok(true);
        };
        Ok(self.metadata.list(&path).await?.unrepresentable == 0)
    }
}
