//! Changes that programs make to the tree: create, delete, rename. None of them asks the bucket.

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
        self.inner.lock().whiteouts.hide_object(location);
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

    /// The staged copy was not changed and is dropped: the object is the content again.
    pub fn unstage(&self, ino: Ino, object: ObjectAttributes) {
        if let Some(node) = self.inner.lock().table.get_mut(ino)
            && node.folder().is_none()
        {
            node.content = Content::Published(object);
        }
    }

    /// A version of the file may be in the bucket: deleting it must delete that too.
    pub fn may_cover(&self, ino: Ino) {
        if let Some(Node { content: Content::Staged { covers }, .. }) =
            self.inner.lock().table.get_mut(ino)
        {
            *covers = true;
        }
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
            inner.whiteouts.hide_object(&path);
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

    /// Gives a file another name. What had that name loses it: the caller has seen to its bytes.
    /// Returns the old path if the bucket holds an object there: it is hidden from now on, and the
    /// caller has it deleted.
    pub fn rename(&self, ino: Ino, parent: Ino, name: &str) -> Option<Location> {
        let mut inner = self.inner.lock();
        let old = inner.table.path(ino)?;
        let replaced = inner.table.child(parent, name).and_then(|ino| inner.table.get(ino));
        let covers_now = match replaced.map(|node| &node.content) {
            Some(Content::Published(_)) => true,
            Some(Content::Staged { covers }) => *covers,
            _ => is_owed(&inner, parent, name),
        };
        keep_parent(&mut inner.table, ino);
        inner.table.keep(parent);
        inner.table.rename(ino, parent, name);
        let covered = match inner.table.get_mut(ino).map(|node| &mut node.content) {
            Some(Content::Staged { covers }) => std::mem::replace(covers, covers_now),
            Some(Content::Published(copied)) => {
                copied.version = None;
                true
            }
            _ => false,
        };
        if covered {
            inner.whiteouts.hide_object(&old);
            self.forget_own(&old);
        }
        Some(old).filter(|_| covered)
    }

    /// The bucket's part of a folder was copied to the folder's new name; here it moves at once.
    /// What is below the old name in the bucket is hidden object by object as it is deleted.
    pub fn rename_folder(&self, ino: Ino, parent: Ino, name: &str) {
        let mut inner = self.inner.lock();
        let Some(old) = inner.table.path(ino) else { return };
        keep_parent(&mut inner.table, ino);
        inner.table.keep(parent);
        inner.table.rename(ino, parent, name);
        inner.table.keep(ino);
        for below in inner.table.descendants(ino) {
            // The copy has the same bytes and a version of its own, which nobody has told us.
            if let Some(Content::Published(copied)) =
                inner.table.get_mut(below).map(|node| &mut node.content)
            {
                copied.version = None;
            }
        }
        let new = inner.table.path(ino);
        drop(inner);
        self.note(&old, &Change::Unknown);
        if let Some(new) = new {
            self.note(&new, &Change::Unknown);
        }
    }

    /// Hides an object that is being deleted without a node of its own.
    pub fn hide_object(&self, location: &Location) {
        self.inner.lock().whiteouts.hide_object(location);
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
