//! Folders: reading, making and removing them.

use std::sync::Arc;

use super::handles::Snapshot;
use super::status::STATUS_FOLDER;
use super::{Attr, Caller, Error, Fs, Kind};
use crate::namespace::{Ino, Listed, Origin};

/// A line of an open folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderLine {
    /// `.`, `..` or a name.
    pub name: Arc<str>,
    /// `None` if it has no number yet.
    pub ino: Option<Ino>,
    /// File or folder.
    pub kind: Kind,
}

impl Fs {
    /// Opens a folder: takes a snapshot of what it shows.
    pub async fn opendir(&self, ino: Ino) -> Result<u64, Error> {
        if let Some(node) = self.status.node(ino) {
            let entries = self.status.list(&node);
            return Ok(self.handles.add_folder(Snapshot { folder: ino, parent: ino, entries }));
        }
        let entry = self.tree.entry(ino).ok_or(Error::NotFound)?;
        if !entry.is_folder() {
            return Err(Error::NotFolder);
        }
        let entries = self.tree.list(ino).await?.ok_or(Error::NotFolder)?;
        let parent = self.tree.parent(ino).unwrap_or(Ino::ROOT);
        Ok(self.handles.add_folder(Snapshot { folder: ino, parent, entries }))
    }

    /// Line `index` of an open folder: `.`, `..`, then its entries by name; `None` after the last.
    pub fn folder_line(&self, fh: u64, index: u64) -> Result<Option<FolderLine>, Error> {
        let snapshot = self.handles.folder(fh).ok_or(Error::BadHandle)?;
        let own = |name: &str, ino| FolderLine { name: name.into(), ino, kind: Kind::Folder };
        Ok(match index {
            0 => Some(own(".", Some(snapshot.folder))),
            1 => Some(own("..", Some(snapshot.parent))),
            index => entry_at(&snapshot, index).map(|listed| FolderLine {
                name: Arc::clone(&listed.name),
                ino: listed.ino,
                kind: kind_of(&listed.origin),
            }),
        })
    }

    /// Attributes of line `index`, as a lookup answers them: the kernel holds the node from now on.
    /// `None` for `.` and `..`, which the kernel knows, and for what has gone meanwhile.
    pub fn lookup_line(&self, fh: u64, index: u64) -> Result<Option<Attr>, Error> {
        let snapshot = self.handles.folder(fh).ok_or(Error::BadHandle)?;
        let Some(listed) = entry_at(&snapshot, index) else { return Ok(None) };
        if self.status.node(snapshot.folder).is_some() {
            return Ok(None);
        }
        let Some(entry) = self.tree.resolve_listed(snapshot.folder, listed) else {
            return Ok(None);
        };
        if entry.origin == Origin::Source || !self.tree.remember(entry.ino) {
            return Ok(None);
        }
        let attr = self.local_attr(&entry);
        if attr.is_err() {
            self.tree.forget(entry.ino, 1);
        }
        Ok(attr.ok())
    }

    /// Closes a folder.
    pub fn releasedir(&self, fh: u64) {
        self.handles.remove_folder(fh);
    }

    /// Makes a folder. Nothing is sent. The kernel holds it from now on.
    pub async fn mkdir(
        &self,
        caller: Caller,
        parent: Ino,
        name: &str,
        mode: u32,
    ) -> Result<Attr, Error> {
        self.new_path(parent, name)?;
        if self.find(parent, name).await?.is_some() {
            return Err(Error::Exists);
        }
        let attributes = self.new_attributes(caller, mode);
        let ino = self.tree.create_folder(parent, name, attributes)?;
        self.tree.remember(ino);
        Ok(Attr { ino, kind: Kind::Folder, size: 0, attributes })
    }

    /// Removes a folder that shows nothing.
    pub async fn rmdir(&self, parent: Ino, name: &str) -> Result<(), Error> {
        self.writable(parent, name)?;
        let entry = self.find(parent, name).await?.ok_or(Error::NotFound)?;
        if !entry.is_folder() {
            return Err(Error::NotFolder);
        }
        self.remove_if_empty(entry.ino).await
    }

    pub(super) async fn remove_if_empty(&self, folder: Ino) -> Result<(), Error> {
        if !self.tree.is_empty(folder).await? {
            return Err(Error::NotEmpty);
        }
        self.tree.remove_folder(folder);
        Ok(())
    }
}

fn entry_at(snapshot: &Snapshot, index: u64) -> Option<&Listed> {
    snapshot.entries.get(usize::try_from(index.checked_sub(2)?).ok()?)
}

fn kind_of(origin: &Origin) -> Kind {
    if *origin == Origin::Folder { Kind::Folder } else { Kind::File }
}

/// The status folder is reachable at the root, and not listed.
pub(super) fn is_status_name(parent: Ino, name: &str) -> bool {
    parent == Ino::ROOT && name == STATUS_FOLDER
}
