//! Changes that programs make to the tree: create, delete, rename. None of them asks the bucket.

use std::collections::HashSet;
use std::sync::Arc;

use super::Ino;
use super::changes::Change;
use super::node::{Attributes, Content, Entry, Folder, Node, Origin};
use super::tree::{Inner, PlaceError, Tree};
use crate::store::{Location, ObjectAttributes};

impl Tree {
    /// A new staged file. A lookup has just said that the bucket has nothing there.
    pub fn create_file(
        &self,
        parent: Ino,
        name: &str,
        attributes: Attributes,
    ) -> Result<Ino, PlaceError> {
        let content = Content::Staged { covers: false };
        self.create(parent, name, attributes, content)
    }

    /// A new folder. The bucket has nothing below it: a lookup has just said so.
    pub fn create_folder(
        &self,
        parent: Ino,
        name: &str,
        attributes: Attributes,
    ) -> Result<Ino, PlaceError> {
        let folder = Folder { kept: true, absent: true, ..Folder::default() };
        self.create(parent, name, attributes, Content::Folder(folder))
    }

    fn create(
        &self,
        parent: Ino,
        name: &str,
        attributes: Attributes,
        content: Content,
    ) -> Result<Ino, PlaceError> {
        let mut inner = self.inner.lock();
        let reachable = parent == Ino::ROOT || inner.table.path(parent).is_some();
        if !reachable || inner.table.get(parent).and_then(Node::folder).is_none() {
            return Err(PlaceError::NoFolder);
        }
        if let Some(taken) = inner.table.child(parent, name) {
            // A source file that is only a receipt gives way: the new file takes its name.
            let node = inner.table.get(taken);
            if !node.is_some_and(|node| matches!(node.content, Content::Source)) {
                return Err(PlaceError::Taken(taken));
            }
        }
        let mut content = content;
        if let Content::Staged { covers } = &mut content {
            *covers = is_owed(&inner, parent, name);
        }
        let ino = inner.table.fresh();
        inner.table.keep(parent);
        inner.table.insert(ino, (parent, name), attributes, content);
        Ok(ino)
    }

    /// A file left in staging by an earlier daemon. Folders on its way are made.
    pub fn restore_file(&self, ino: Ino, path: &Location, attributes: Attributes) {
        let folder_attributes = self.folder_defaults();
        let mut inner = self.inner.lock();
        let mut parent = Ino::ROOT;
        let folder = path.parent().unwrap_or_default();
        for name in folder.segments() {
            parent = if let Some(known) = inner.table.child(parent, name) {
                known
            } else {
                let ino = inner.table.fresh();
                let content = Content::Folder(Folder { kept: true, ..Folder::default() });
                inner.table.insert(ino, (parent, name), folder_attributes, content);
                ino
            };
        }
        inner.table.keep(parent);
        // Nobody knows any more whether some version of it has arrived.
        let content = Content::Staged { covers: true };
        inner.table.insert(ino, (parent, path.name()), attributes, content);
    }

    /// A deletion that an earlier daemon left undone.
    pub fn restore_deletion(&self, location: &Location) {
        self.inner.lock().hide_object(location);
    }

    /// A receipt says that a source file of this name was ingested: it can be looked at.
    pub fn show_source(&self, parent: Ino, name: &str, attributes: Attributes) -> Option<Entry> {
        let mut inner = self.inner.lock();
        if let Some(ino) = inner.table.child(parent, name) {
            return inner.table.get(ino).map(|node| node.entry(ino));
        }
        let ino = inner.table.fresh();
        inner.table.insert(ino, (parent, name), attributes, Content::Source);
        inner.table.get(ino).map(|node| node.entry(ino))
    }

    /// The file's content is in staging from now on.
    pub fn stage(&self, ino: Ino) {
        let mut inner = self.inner.lock();
        let Some(node) = inner.table.get_mut(ino) else { return };
        let covers =
            matches!(node.content, Content::Published(_) | Content::Staged { covers: true });
        if node.folder().is_none() {
            node.content = Content::Staged { covers };
        }
        keep_parent(&mut inner.table, ino);
    }

    /// The staged copy was not changed: if the file still is at `at`, and `drop_copy` (which lets go of
    /// the staged bytes) answers true, the object is the content again. Opens for writing come before
    /// or after this as a whole. `drop_copy` must not call the tree.
    pub fn unstage<E>(
        &self,
        ino: Ino,
        at: &Location,
        object: ObjectAttributes,
        drop_copy: impl FnOnce() -> Result<bool, E>,
    ) -> Result<bool, E> {
        let mut inner = self.inner.lock();
        if inner.table.path(ino).as_ref() != Some(at) || inner.is_held(at) {
            return Ok(false);
        }
        let Some(node) = inner.table.get_mut(ino) else { return Ok(false) };
        let dropped = drop_copy()?;
        if dropped {
            node.content = Content::Published(object);
        }
        Ok(dropped)
    }

    /// The file is about to be put at `at`, if it still is there: from now on an object may be in the
    /// bucket, and who takes the name away has that deleted. False if it is not there any more.
    pub fn sending(&self, ino: Ino, at: &Location) -> bool {
        let mut inner = self.inner.lock();
        if inner.table.path(ino).as_ref() != Some(at) {
            return false;
        }
        if let Some(Node { content: Content::Staged { covers }, .. }) = inner.table.get_mut(ino) {
            *covers = true;
        }
        true
    }

    /// Takes the name of a file away. Returns its path if the bucket holds an object there: that is
    /// hidden from now on, and the caller has it deleted.
    pub fn remove_file(&self, ino: Ino) -> Option<Location> {
        let mut inner = self.inner.lock();
        let path = inner.table.path(ino)?;
        let in_bucket = match &inner.table.get(ino)?.content {
            Content::Staged { covers } => *covers,
            Content::Published(_) => true,
            Content::Source | Content::Folder(_) => false,
        };
        keep_parent(&mut inner.table, ino);
        inner.table.detach(ino);
        if in_bucket {
            inner.hide_object(&path);
            self.forget_own(&path);
        }
        Some(path).filter(|_| in_bucket)
    }

    /// Takes the name of an empty folder away.
    pub fn remove_folder(&self, ino: Ino) {
        let mut inner = self.inner.lock();
        let Some(path) = inner.table.path(ino).filter(|path| !path.is_root()) else { return };
        let absent = inner.table.get(ino).and_then(Node::folder).is_some_and(|at| at.absent);
        keep_parent(&mut inner.table, ino);
        inner.table.detach(ino);
        if !absent && !inner.whiteouts.hide_folder(&path) {
            // Nothing below it is left to delete: the bucket shows it no more.
            self.note(&path, &Change::FolderGone);
        }
    }

    /// Gives a file another name, if it still is what it was `expected` to be: it may have arrived in
    /// the bucket, or been brought back into staging, since the caller looked. For an object, `copied`
    /// is its copy at the new place. What had that name loses it: the caller has seen to its bytes.
    ///
    /// Returns the old path if the bucket holds an object there: it is hidden from now on, and the
    /// caller has it deleted.
    pub fn rename(
        &self,
        ino: Ino,
        expected: &Origin,
        to: (Ino, &str),
        copied: Option<ObjectAttributes>,
    ) -> Result<Option<Location>, Changed> {
        let mut inner = self.inner.lock();
        let old = inner.table.path(ino).ok_or(Changed)?;
        if inner.table.get(ino).map(|node| node.entry(ino).origin).as_ref() != Some(expected) {
            return Err(Changed);
        }
        let covers_now = covers_at(&inner, to);
        keep_parent(&mut inner.table, ino);
        inner.table.keep(to.0);
        inner.table.rename(ino, to.0, to.1);
        let new = inner.table.path(ino);
        let Some(node) = inner.table.get_mut(ino) else { return Err(Changed) };
        let covered = match (&mut node.content, copied) {
            (Content::Staged { covers }, _) => std::mem::replace(covers, covers_now),
            (Content::Published(object), copied) => {
                *object = copied.unwrap_or(ObjectAttributes { version: None, ..object.clone() });
                let (object, attributes) = (object.clone(), node.attributes);
                if let Some(new) = new {
                    self.remember_own(new, object, attributes);
                }
                true
            }
            _ => false,
        };
        if covered {
            inner.hide_object(&old);
            self.forget_own(&old);
        }
        Ok(Some(old).filter(|_| covered))
    }

    /// From now until the guard is dropped, nothing below `folder` is handed over to the bucket: it
    /// would arrive at a place that is being left.
    pub fn hold_below(self: &Arc<Self>, folder: &Location) -> Held {
        let mut inner = self.inner.lock();
        let gone = inner.whiteouts.below(folder).collect();
        inner.held.push((folder.clone(), gone));
        Held { tree: Arc::clone(self), folder: folder.clone() }
    }

    /// Whether the place is about to move, with a folder above it.
    pub fn is_held(&self, at: &Location) -> bool {
        self.inner.lock().is_held(at)
    }

    /// The bucket's part of a folder was copied to the folder's new name; here it moves at once.
    /// What is below the old name in the bucket is hidden object by object as it is deleted. Returns
    /// the old paths of staged files of which some version may be in the bucket.
    pub fn rename_folder(&self, ino: Ino, parent: Ino, name: &str) -> Vec<Location> {
        let mut inner = self.inner.lock();
        let Some(old) = inner.table.path(ino) else { return Vec::new() };
        let mut covered = Vec::new();
        for below in inner.table.descendants(ino) {
            let path = inner.table.path(below);
            match inner.table.get_mut(below).map(|node| &mut node.content) {
                // The copy has the same bytes and a version of its own, which nobody has told us.
                Some(Content::Published(copied)) => copied.version = None,
                Some(Content::Staged { covers: true }) => covered.extend(path),
                _ => {}
            }
        }
        keep_parent(&mut inner.table, ino);
        inner.table.keep(parent);
        inner.table.rename(ino, parent, name);
        inner.table.keep(ino);
        let new = inner.table.path(ino);
        self.note(&old, &Change::Unknown);
        if let Some(new) = new {
            self.note(&new, &Change::Unknown);
        }
        covered
    }

    /// Hides an object that is being deleted without a node of its own.
    pub fn hide_object(&self, location: &Location) {
        self.inner.lock().hide_object(location);
        self.forget_own(location);
    }

    /// Hides a folder whose objects are being deleted.
    pub fn hide_folder(&self, location: &Location) {
        if !self.inner.lock().whiteouts.hide_folder(location) {
            self.note(location, &Change::FolderGone);
        }
    }

    /// Whether the object is being deleted by this mount.
    pub fn hides(&self, location: &Location) -> bool {
        self.inner.lock().whiteouts.hides_object(location)
    }

    /// Whether the bucket is known to have nothing below the folder.
    pub fn is_absent(&self, ino: Ino) -> bool {
        let inner = self.inner.lock();
        inner.table.get(ino).and_then(Node::folder).is_some_and(|folder| folder.absent)
    }

    /// Everything below a folder that is in the table, with its path.
    pub fn below(&self, folder: Ino) -> Vec<(Entry, Location)> {
        let inner = self.inner.lock();
        let nodes = inner.table.descendants(folder);
        let entry = |ino| Some((inner.table.get(ino)?.entry(ino), inner.table.path(ino)?));
        nodes.into_iter().filter_map(entry).collect()
    }

    /// The staged files directly or indirectly below a folder.
    pub fn staged_below(&self, folder: Ino) -> Vec<(Ino, Location)> {
        let staged = |(entry, path): (Entry, Location)| {
            (entry.origin == Origin::Staged).then_some((entry.ino, path))
        };
        self.below(folder).into_iter().filter_map(staged).collect()
    }
}

/// The file is not where, or what, it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed;

/// See [`Tree::hold_below`].
#[derive(Debug)]
pub struct Held {
    tree: Arc<Tree>,
    folder: Location,
}

impl Held {
    /// Objects below the folder that are not to be taken along: their deletion was under way when the
    /// hold began, or was asked for since. Also those whose deletion has been done.
    pub fn gone(&self) -> HashSet<Location> {
        let inner = self.tree.inner.lock();
        let held = inner.held.iter().find(|(folder, _)| *folder == self.folder);
        held.map(|(_, gone)| gone.clone()).unwrap_or_default()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = &mut self.tree.inner.lock().held;
        if let Some(index) = held.iter().position(|(folder, _)| *folder == self.folder) {
            held.swap_remove(index);
        }
    }
}

/// Whether the bucket holds, or may hold, an object at a place that a staged file takes.
fn covers_at(inner: &Inner, to: (Ino, &str)) -> bool {
    let replaced = inner.table.child(to.0, to.1).and_then(|ino| inner.table.get(ino));
    match replaced.map(|node| &node.content) {
        Some(Content::Published(_)) => true,
        Some(Content::Staged { covers }) => *covers,
        _ => is_owed(inner, to.0, to.1),
    }
}

/// Whether the deletion of an object of this name is still under way: it may be called off in favour
/// of the new file, so that the object is still there if that goes too.
fn is_owed(inner: &Inner, parent: Ino, name: &str) -> bool {
    let at = inner.table.path(parent).and_then(|folder| folder.child(name).ok());
    at.is_some_and(|at| inner.whiteouts.hides_object(&at))
}

/// A folder does not vanish because a program takes the last thing out of it.
fn keep_parent(table: &mut super::table::Table, ino: Ino) {
    if let Some(parent) = table.ancestors(ino).first().copied() {
        table.keep(parent);
    }
}
