//! The tree as the mount shows it: what is staged here, over what the bucket holds.
//!
//! For each name, the first that applies:
//! 1. a staged file, a folder made or changed here, or an ingested source file that is still held;
//! 2. a whiteout: deleted here, the bucket has it still;
//! 3. nothing, if the folder was made here and nothing was published below it;
//! 4. what the bucket has.
//!
//! Two steps must not come between each other: that a file is handed over to the bucket, and that it
//! is renamed or opened for writing. Both happen under the lock of the table:
//! [`Tree::publish`] and [`Tree::with_entry`].

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use moka::sync::Cache;
use parking_lot::Mutex;

use super::Ino;
use super::changes::Change;
use super::listing::Found;
use super::metadata::Metadata;
use super::names;
use super::node::{Attributes, Content, Entry, Folder, Node, Origin};
use super::table::Table;
use super::version::same_content;
use super::whiteouts::Whiteouts;
use crate::base::clock::Clock;
use crate::store::{Link, Location, ObjectAttributes, StoreError};

/// Files published here whose exact mtime, owner and mode are remembered after the kernel has
/// forgotten them; about 300 bytes each.
const OWN_ATTRIBUTES_MAX: u64 = 500_000;

/// How things are shown that carry no attributes of their own.
#[derive(Debug, Clone, Copy)]
pub struct TreeOptions {
    /// Owner of what the bucket holds.
    pub uid: u32,
    /// Group of what the bucket holds.
    pub gid: u32,
    /// Permission bits of objects.
    pub file_mode: u32,
    /// Permission bits of folders.
    pub folder_mode: u32,
    /// How long an answer of the bucket counts.
    pub metadata_ttl: Duration,
}

/// Why a name could not be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceError {
    /// The folder is gone, or is no folder.
    NoFolder,
    /// The name is taken by this node.
    Taken(Ino),
}

/// See the [module](super).
pub struct Tree {
    pub(super) inner: Mutex<Inner>,
    pub(super) metadata: Arc<Metadata>,
    pub(super) store: Link,
    /// Exact attributes of what this mount has published.
    own: Cache<Location, (ObjectAttributes, Attributes)>,
    options: TreeOptions,
    started: SystemTime,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) table: Table,
    pub(super) whiteouts: Whiteouts,
    /// Folders that are being renamed, each with the objects below it that are not to be taken along.
    pub(super) held: Vec<(Location, HashSet<Location>)>,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tree").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Tree {
    /// A tree over everything the store holds.
    pub fn new(store: Link, clock: Clock, options: TreeOptions) -> Self {
        let started = clock.wall();
        let root = folder_attributes(&options, started);
        Self {
            inner: Mutex::new(Inner {
                table: Table::new(root),
                whiteouts: Whiteouts::default(),
                held: Vec::new(),
            }),
            metadata: Metadata::new(store.clone(), clock, options.metadata_ttl),
            store,
            own: Cache::new(OWN_ATTRIBUTES_MAX),
            options,
            started,
        }
    }

    /// The store below.
    pub fn store(&self) -> &Link {
        &self.store
    }

    /// A number for something outside the tree.
    pub fn fresh_ino(&self) -> Ino {
        self.inner.lock().table.fresh()
    }

    /// Numbers below `next` are taken by files that an earlier daemon left in staging.
    pub fn reserve(&self, next: u64) {
        self.inner.lock().table.reserve(next);
    }

    /// Where a node is; `None` if it was deleted.
    pub fn path(&self, ino: Ino) -> Option<Location> {
        self.inner.lock().table.path(ino)
    }

    /// The node at a path, if it is in the tree; asks nobody.
    pub fn find(&self, path: &Location) -> Option<Ino> {
        self.inner.lock().table.find(path)
    }

    /// The node as it is now, without asking the bucket.
    pub fn entry(&self, ino: Ino) -> Option<Entry> {
        self.inner.lock().table.get(ino).map(|node| node.entry(ino))
    }

    /// Calls `work` with the node and its path (`None` if it was deleted) while nothing can be
    /// renamed or published. `work` must not call the tree.
    pub fn with_entry<T>(
        &self,
        ino: Ino,
        work: impl FnOnce(&Entry, Option<Location>) -> T,
    ) -> Option<T> {
        let inner = self.inner.lock();
        let entry = inner.table.get(ino)?.entry(ino);
        Some(work(&entry, inner.table.path(ino)))
    }

    /// The folder a node lies in; the root lies in itself.
    pub fn parent(&self, ino: Ino) -> Option<Ino> {
        let inner = self.inner.lock();
        inner.table.get(ino)?;
        Some(inner.table.ancestors(ino).first().copied().unwrap_or(Ino::ROOT))
    }

    /// The kernel holds one more reference. False if the node has gone since it was looked up.
    pub fn remember(&self, ino: Ino) -> bool {
        self.inner.lock().table.remember(ino)
    }

    /// The kernel gives `lookups` references back.
    pub fn forget(&self, ino: Ino, lookups: u64) {
        self.inner.lock().table.forget(ino, lookups);
    }

    /// What is at `name` in `parent`; asks the bucket only where nothing else tells.
    pub async fn lookup(&self, parent: Ino, name: &str) -> Result<Option<Entry>, StoreError> {
        let folder = match self.local(parent, name) {
            Local::Is(answer) => return Ok(answer),
            Local::AskBucket(folder) => folder,
        };
        let found = self.metadata.resolve(&folder, name).await?;
        let mut inner = self.inner.lock();
        // The world may have changed while the bucket was asked.
        match inner.local(parent, name) {
            Local::Is(answer) => Ok(answer),
            Local::AskBucket(now) if now != folder => Ok(None),
            Local::AskBucket(folder) => {
                let found = self.metadata.latest(&folder, name, found);
                Ok(self.adopt(&mut inner, parent, &folder, name, &found))
            }
        }
    }

    fn local(&self, parent: Ino, name: &str) -> Local {
        self.inner.lock().local(parent, name)
    }

    /// The node as it is now; an object of the bucket is looked up again if its time is over.
    pub async fn refreshed(&self, ino: Ino) -> Result<Option<Entry>, StoreError> {
        let place = {
            let inner = self.inner.lock();
            let Some(node) = inner.table.get(ino) else { return Ok(None) };
            match (&node.content, &node.place) {
                (Content::Published(_), Some((parent, name))) => (*parent, Arc::clone(name)),
                _ => return Ok(Some(node.entry(ino))),
            }
        };
        let found = self.lookup(place.0, &place.1).await?;
        Ok(found.filter(|entry| entry.ino == ino))
    }

    /// Makes the node say what the bucket said.
    pub(super) fn adopt(
        &self,
        inner: &mut Inner,
        parent: Ino,
        folder: &Location,
        name: &str,
        found: &Found,
    ) -> Option<Entry> {
        let present = inner.table.child(parent, name);
        let kept = present.and_then(|ino| inner.table.get(ino).map(|node| (ino, node)));
        match (kept, found) {
            (Some((ino, node)), Found::Folder) if node.folder().is_some() => Some(node.entry(ino)),
            (Some((ino, node)), Found::Object(object)) if node.folder().is_none() => {
                let attributes = match &node.content {
                    Content::Published(before) if same_content(before, object) => node.attributes,
                    _ => self.object_attributes(folder, name, object),
                };
                let node = inner.table.get_mut(ino)?;
                node.content = Content::Published(object.clone());
                node.attributes = attributes;
                Some(node.entry(ino))
            }
            (present, found) => {
                if let Some((ino, _)) = present {
                    inner.table.detach(ino);
                }
                let (attributes, content) = match found {
                    Found::Absent => return None,
                    Found::Folder => (
                        folder_attributes(&self.options, self.started),
                        Content::Folder(Folder::default()),
                    ),
                    Found::Object(object) => (
                        self.object_attributes(folder, name, object),
                        Content::Published(object.clone()),
                    ),
                };
                let ino = inner.table.fresh();
                inner.table.insert(ino, (parent, name), attributes, content);
                inner.table.get(ino).map(|node| node.entry(ino))
            }
        }
    }

    /// Attributes of an object: as this mount gave them, else the store's time and the defaults.
    pub(super) fn object_attributes(
        &self,
        folder: &Location,
        name: &str,
        object: &ObjectAttributes,
    ) -> Attributes {
        let own = folder.child(name).ok().and_then(|location| self.own.get(&location));
        match own {
            Some((of, attributes)) if same_content(&of, object) => attributes,
            _ => Attributes {
                mode: self.options.file_mode,
                uid: self.options.uid,
                gid: self.options.gid,
                atime: object.modified,
                mtime: object.modified,
                ctime: object.modified,
            },
        }
    }

    pub(super) fn folder_defaults(&self) -> Attributes {
        folder_attributes(&self.options, self.started)
    }

    /// Remembers what `stat` showed of a published object beyond the kernel's interest.
    pub(super) fn remember_own(
        &self,
        location: Location,
        object: ObjectAttributes,
        attributes: Attributes,
    ) {
        self.own.insert(location, (object, attributes));
    }

    pub(super) fn forget_own(&self, location: &Location) {
        self.own.invalidate(location);
    }

    /// Changes what `stat` shows; nothing is sent.
    pub fn set_attributes(&self, ino: Ino, change: impl FnOnce(&mut Attributes)) -> Option<Entry> {
        let mut inner = self.inner.lock();
        let node = inner.table.get_mut(ino)?;
        change(&mut node.attributes);
        let entry = node.entry(ino);
        if let (Origin::Published(object), Some(path)) = (&entry.origin, inner.table.path(ino)) {
            self.own.insert(path, (object.clone(), entry.attributes));
        }
        Some(entry)
    }

    /// Records that something happened to the bucket that did not go through a node.
    pub(super) fn note(&self, location: &Location, change: &Change) {
        self.metadata.note(location, change);
    }
}

/// What is known of a name without asking the bucket.
pub(super) enum Local {
    Is(Option<Entry>),
    /// In this folder.
    AskBucket(Location),
}

impl Inner {
    pub(super) fn local(&self, parent: Ino, name: &str) -> Local {
        let Some(folder) = self.table.get(parent).and_then(Node::folder) else {
            return Local::Is(None);
        };
        if names::is_hidden(name) {
            return Local::Is(None);
        }
        let child = folder.children.get(name).copied();
        if let Some((ino, node)) = child.and_then(|ino| Some((ino, self.table.get(ino)?)))
            && node.is_local()
        {
            return Local::Is(Some(node.entry(ino)));
        }
        let Some(path) = self.table.path(parent).filter(|_| !folder.absent) else {
            return Local::Is(None);
        };
        if path.child(name).is_ok_and(|at| self.is_hidden(&at)) {
            return Local::Is(None);
        }
        Local::AskBucket(path)
    }

    pub(super) fn is_held(&self, at: &Location) -> bool {
        self.held.iter().any(|(folder, _)| at.is_below(folder))
    }

    /// Hides an object whose deletion the caller asks for.
    pub(super) fn hide_object(&mut self, at: &Location) {
        self.whiteouts.hide_object(at);
        for (_, gone) in self.held.iter_mut().filter(|(folder, _)| at.is_below(folder)) {
            gone.insert(at.clone());
        }
    }

    pub(super) fn is_staged(&self, ino: Ino) -> bool {
        let node = self.table.get(ino);
        node.is_some_and(|node| matches!(node.content, Content::Staged { .. }))
    }

    /// The object that a node of this name is, as it was last known.
    pub(super) fn published(&self, parent: Ino, name: &str) -> Found {
        let node = self.table.child(parent, name).and_then(|ino| self.table.get(ino));
        match node.map(|node| &node.content) {
            Some(Content::Published(object)) => Found::Object(object.clone()),
            _ => Found::Absent,
        }
    }

    pub(super) fn is_hidden(&self, location: &Location) -> bool {
        self.whiteouts.hides_object(location) || self.whiteouts.hides_folder(location)
    }
}

fn folder_attributes(options: &TreeOptions, time: SystemTime) -> Attributes {
    Attributes {
        mode: options.folder_mode,
        uid: options.uid,
        gid: options.gid,
        atime: time,
        mtime: time,
        ctime: time,
    }
}
