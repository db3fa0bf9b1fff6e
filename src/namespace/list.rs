//! What a folder shows.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::Ino;
use super::listing::Found;
use super::node::{Attributes, Content, Entry, Node, Origin};
use super::tree::{Inner, Local, Tree};
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
        let (path, before) = {
            let inner = self.inner.lock();
            let Some(node) = inner.table.get(folder).and_then(Node::folder) else {
                return Ok(None);
            };
            let path = inner.table.path(folder).filter(|_| !node.absent);
            let staged = node.children.values().copied().filter(|ino| inner.is_staged(*ino));
            (path, staged.collect::<HashSet<_>>())
        };
        let listing = match &path {
            Some(path) => Some(self.metadata.list(path).await?),
            None => None,
        };
        // From here on nothing may move between staging and the bucket: it would be in neither.
        let inner = self.inner.lock();
        let mut shown = BTreeMap::new();
        if let Some((path, listing)) = path.zip(listing) {
            self.add_from_bucket(&inner, folder, &path, listing.all(), &mut shown);
        }
        add_nodes(&inner, folder, &before, &mut shown);
        Ok(Some(shown.into_values().collect()))
    }

    fn add_from_bucket(
        &self,
        inner: &Inner,
        folder: Ino,
        path: &Location,
        names: Vec<(Arc<str>, Found)>,
        shown: &mut BTreeMap<Arc<str>, Listed>,
    ) {
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

    /// Gives a listed name its node, as a lookup would, without asking the bucket. `None` if it has
    /// gone since.
    pub fn resolve_listed(&self, folder: Ino, listed: &Listed) -> Option<Entry> {
        let mut inner = self.inner.lock();
        match inner.local(folder, &listed.name) {
            Local::Is(answer) => answer,
            Local::AskBucket(path) => {
                let found = match &listed.origin {
                    Origin::Folder => Found::Folder,
                    Origin::Published(object) => Found::Object(object.clone()),
                    // It has arrived in the bucket meanwhile, or is gone.
                    Origin::Staged | Origin::Source => inner.published(folder, &listed.name),
                };
                let found = self.metadata.latest(&path, &listed.name, found);
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

/// Adds staged files and folders made here, and what was staged `before` the bucket was asked and
/// has arrived there since: the bucket's answer may lack it. Source files that are only receipts are
/// not shown, and hide nothing.
fn add_nodes(
    inner: &Inner,
    folder: Ino,
    before: &HashSet<Ino>,
    shown: &mut BTreeMap<Arc<str>, Listed>,
) {
    let Some(folder_node) = inner.table.get(folder).and_then(Node::folder) else { return };
    let mut add = |name: &Arc<str>, entry: Entry, replace: bool| {
        let Entry { ino, origin, attributes } = entry;
        if replace || !shown.contains_key(name) {
            let name = Arc::clone(name);
            shown.insert(Arc::clone(&name), Listed { name, ino: Some(ino), origin, attributes });
        }
    };
    for (name, ino) in &folder_node.children {
        let Some(node) = inner.table.get(*ino) else { continue };
        match &node.content {
            Content::Source => {}
            Content::Published(_) if before.contains(ino) => {
                add(name, node.entry(*ino), false);
            }
            _ if node.is_local() => add(name, node.entry(*ino), true),
            _ => {}
        }
    }
}
