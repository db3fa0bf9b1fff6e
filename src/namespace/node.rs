//! One file or folder of the tree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use super::Ino;
use crate::store::ObjectAttributes;

/// What `stat` shows besides kind and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits only.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read, as far as someone set it; reading does not move it.
    pub atime: SystemTime,
    /// Last change of the content.
    pub mtime: SystemTime,
    /// Last change of the content or of these attributes.
    pub ctime: SystemTime,
}

/// Where the content of a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A folder; whether the bucket has anything below it is another matter.
    Folder,
    /// A file whose content is in staging, under the number of its inode.
    Staged,
    /// An object of the bucket.
    Published(ObjectAttributes),
    /// A source file that has become part of a dataset: only its receipt is left, which knows its
    /// size and mtime.
    Source,
}

/// A node as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub ino: Ino,
    /// Where its content is.
    pub origin: Origin,
    /// Its attributes.
    pub attributes: Attributes,
}

impl Entry {
    /// Whether this is a folder.
    pub fn is_folder(&self) -> bool {
        self.origin == Origin::Folder
    }
}

#[derive(Debug)]
pub(super) struct Node {
    /// `None` for the root and for what was unlinked while someone still holds it.
    pub(super) place: Option<(Ino, Arc<str>)>,
    /// References the kernel holds.
    pub(super) lookups: u64,
    pub(super) attributes: Attributes,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    Folder(Folder),
    Staged {
        /// Whether the bucket holds, or may hold, an object of this name.
        covers: bool,
    },
    Published(ObjectAttributes),
    Source,
}

#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) children: BTreeMap<Arc<str>, Ino>,
    /// It was made, or something in it was changed, here: it stays when the bucket has nothing
    /// below it, until someone removes it.
    pub(super) kept: bool,
    /// The bucket is known to have nothing below it: no request can tell more.
    pub(super) absent: bool,
}

impl Node {
    /// Whether this node, rather than the bucket, says what is at its place.
    pub(super) fn is_local(&self) -> bool {
        match &self.content {
            Content::Folder(folder) => folder.kept,
            Content::Staged { .. } | Content::Source => true,
            Content::Published(_) => false,
        }
    }

    pub(super) fn folder(&self) -> Option<&Folder> {
        match &self.content {
            Content::Folder(folder) => Some(folder),
            _ => None,
        }
    }

    pub(super) fn folder_mut(&mut self) -> Option<&mut Folder> {
        match &mut self.content {
            Content::Folder(folder) => Some(folder),
            _ => None,
        }
    }

    pub(super) fn entry(&self, ino: Ino) -> Entry {
        let origin = match &self.content {
            Content::Folder(_) => Origin::Folder,
            Content::Staged { .. } => Origin::Staged,
            Content::Published(object) => Origin::Published(object.clone()),
            Content::Source => Origin::Source,
        };
        Entry { ino, origin, attributes: self.attributes }
    }
}
