//! What the uploader, the ingest and the bucket do to the tree.

use std::sync::Arc;

use super::Ino;
use super::changes::Change;
use super::listing::Found;
use super::node::{Content, Node};
use super::tree::{Inner, Tree};
use crate::store::{Location, ObjectAttributes};

impl Tree {
    /// Hands a staged file over to the bucket: if it still is at `at`, and `settle` (which frees the
    /// staged bytes) answers true, the object is its content from now on. Renames and opens for
    /// writing come before or after this as a whole. `settle` must not call the tree.
    ///
    /// Returns false if the file has moved, is gone, or has changed: the object that was put is known
    /// to be there all the same.
    pub fn publish<E>(
        &self,
        ino: Ino,
        at: &Location,
        object: ObjectAttributes,
        settle: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut inner = self.inner.lock();
        if inner.table.path(ino).as_ref() != Some(at) {
            // Renamed or deleted on its way. If its deletion was asked for, it stays hidden.
            if !inner.whiteouts.hides_object(at) {
                self.arrive(&mut inner, at, &object);
            }
            return Ok(false);
        }
        self.arrive(&mut inner, at, &object);
        if inner.is_held(at) {
            return Ok(false);
        }
        let settled = settle()?;
        self.settle(&mut inner, ino, at, object, settled);
        Ok(settled)
    }

    /// A staged file has arrived in the bucket at the path it has here, and staging has let go of
    /// it. [`publish`](Self::publish) does both in one step.
    pub fn published(&self, ino: Ino, object: ObjectAttributes) {
        let mut inner = self.inner.lock();
        let Some(path) = inner.table.path(ino) else { return };
        self.arrive(&mut inner, &path, &object);
        self.settle(&mut inner, ino, &path, object, true);
    }

    fn settle(
        &self,
        inner: &mut Inner,
        ino: Ino,
        at: &Location,
        object: ObjectAttributes,
        settled: bool,
    ) {
        let Some(node) = inner.table.get_mut(ino) else { return };
        if let Content::Staged { covers } = &mut node.content {
            *covers = true;
            if settled {
                self.remember_own(at.clone(), object.clone(), node.attributes);
                node.content = Content::Published(object);
                inner.table.reap(ino);
            }
        }
    }

    /// An object was put by this mount in another way than through the queue.
    pub fn arrived(&self, at: &Location, object: &ObjectAttributes) {
        self.arrive(&mut self.inner.lock(), at, object);
    }

    fn arrive(&self, inner: &mut Inner, at: &Location, object: &ObjectAttributes) {
        inner.whiteouts.arrived(at);
        if let Some(ino) = inner.table.find(at)
            && let Some(Node { content: Content::Staged { covers }, .. }) = inner.table.get_mut(ino)
        {
            *covers = true;
        }
        self.note(at, &Change::Put(object.clone()));
        self.make_present(inner, at, Found::Object(object.clone()));
    }

    /// Folders above `at` are no longer known to be empty; what they hold is known all the same.
    fn make_present(&self, inner: &mut Inner, at: &Location, found: Found) {
        let (mut child, mut found) = (at.clone(), found);
        while let Some(folder) = child.parent() {
            if let Some(ino) = inner.table.find(&folder)
                && let Some(node) = inner.table.get_mut(ino).and_then(Node::folder_mut)
                && node.absent
            {
                node.absent = false;
                self.metadata.know_only(&folder, Arc::from(child.name()), found);
            }
            (child, found) = (folder, Found::Folder);
        }
    }

    /// An object is gone from the bucket, as was asked for.
    pub fn deleted(&self, location: &Location) {
        let mut inner = self.inner.lock();
        let folders = inner.whiteouts.deleted(location);
        self.note(location, &Change::Deleted);
        for folder in folders {
            self.note(&folder, &Change::FolderGone);
        }
    }

    /// Objects at or below `folder` were put or deleted without going through the tree: they are
    /// asked for again. The folder itself appears in its parent.
    pub fn invalidate(&self, folder: &Location) {
        let mut inner = self.inner.lock();
        inner.whiteouts.show_folders(Some(folder.clone()));
        if let Some(ino) = inner.table.find(folder) {
            let below = inner.table.descendants(ino);
            for ino in std::iter::once(ino).chain(below) {
                if let Some(node) = inner.table.get_mut(ino).and_then(Node::folder_mut) {
                    node.absent = false;
                }
            }
        }
        self.note(folder, &Change::Unknown);
        self.make_present(&mut inner, folder, Found::Folder);
        self.metadata.note_folders(Some(folder.clone()));
    }

    /// A source file has become part of its dataset. Its name is not listed from now on; a lookup
    /// asks for its receipt.
    pub fn ingested(&self, ino: Ino) {
        let mut inner = self.inner.lock();
        let Some(node) = inner.table.get_mut(ino) else { return };
        if matches!(node.content, Content::Staged { .. }) {
            node.content = Content::Source;
            inner.table.reap(ino);
        }
    }
}
