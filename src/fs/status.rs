//! The virtual, read-only folder `.zarrmount-status` at the root: reachable by name, not listed.
//!
//! ```text
//! .zarrmount-status/status               how the mount is doing, as text
//! .zarrmount-status/refused/<path>.txt   why the source file at <path> was not taken
//! ```

use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::folders::is_status_name;
use super::{Attr, Error, Fs, Kind, OpenFlags, Opened, StatusText};
use crate::ingest::Ingest;
use crate::namespace::{Attributes, Ino, Listed, Origin};
use crate::store::{Location, ObjectAttributes};

/// Its name in the root.
pub const STATUS_FOLDER: &str = ".zarrmount-status";

/// Ending of a refusal's file, after the whole name of the source file.
const REFUSAL_ENDING: &str = ".txt";

/// Numbers of virtual nodes begin here; those of files never get so far.
const FIRST: u64 = 1 << 62;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum StatusNode {
    Root,
    Text,
    /// A folder of `refused`, by its path below that.
    Folder(Location),
    /// The refusal of this source file.
    Refusal(Location),
}

pub(super) struct Status {
    ingest: Ingest,
    text: StatusText,
    started: SystemTime,
    nodes: Mutex<Nodes>,
}

#[derive(Debug, Default)]
struct Nodes {
    by_number: Vec<StatusNode>,
    numbers: HashMap<StatusNode, Ino>,
}

impl Status {
    pub(super) fn new(ingest: Ingest, text: StatusText, started: SystemTime) -> Self {
        Self { ingest, text, started, nodes: Mutex::default() }
    }

    /// The virtual node of this number.
    pub(super) fn node(&self, ino: Ino) -> Option<StatusNode> {
        let index = usize::try_from(ino.0.checked_sub(FIRST)?).ok()?;
        self.nodes.lock().by_number.get(index).cloned()
    }

    fn number(&self, node: &StatusNode) -> Ino {
        let mut nodes = self.nodes.lock();
        if let Some(ino) = nodes.numbers.get(node) {
            return *ino;
        }
        let ino = Ino(FIRST + nodes.by_number.len() as u64);
        nodes.by_number.push(node.clone());
        nodes.numbers.insert(node.clone(), ino);
        ino
    }

    pub(super) fn lookup(&self, parent: Ino, name: &str) -> Option<(Ino, StatusNode)> {
        let node = if is_status_name(parent, name) {
            StatusNode::Root
        } else {
            match (self.node(parent)?, name) {
                (StatusNode::Root, "status") => StatusNode::Text,
                (StatusNode::Root, "refused") => StatusNode::Folder(Location::root()),
                (StatusNode::Folder(folder), name) => self.refused(&folder).remove(name)?,
                _ => return None,
            }
        };
        Some((self.number(&node), node))
    }

    /// What a folder of `refused` shows.
    fn refused(&self, folder: &Location) -> BTreeMap<String, StatusNode> {
        let mut shown = BTreeMap::new();
        for (path, _) in self.ingest.refusals() {
            let Some(below) = path.relative_to(folder) else { continue };
            let mut segments = below.segments();
            let Some(first) = segments.next() else { continue };
            if segments.next().is_none() {
                shown.insert(format!("{first}{REFUSAL_ENDING}"), StatusNode::Refusal(path.clone()));
            } else if let Ok(child) = folder.child(first) {
                shown.insert(first.to_owned(), StatusNode::Folder(child));
            }
        }
        shown
    }

    pub(super) fn list(&self, node: &StatusNode) -> Vec<Listed> {
        let shown = match node {
            StatusNode::Root => BTreeMap::from([
                ("refused".to_owned(), StatusNode::Folder(Location::root())),
                ("status".to_owned(), StatusNode::Text),
            ]),
            StatusNode::Folder(folder) => self.refused(folder),
            StatusNode::Text | StatusNode::Refusal(_) => BTreeMap::new(),
        };
        let attributes = self.attributes(true);
        let listed = |(name, node): (String, StatusNode)| Listed {
            name: name.into(),
            ino: Some(self.number(&node)),
            origin: self.origin(&node),
            attributes,
        };
        shown.into_iter().map(listed).collect()
    }

    /// Only its kind counts.
    fn origin(&self, node: &StatusNode) -> Origin {
        match node {
            StatusNode::Root | StatusNode::Folder(_) => Origin::Folder,
            StatusNode::Text | StatusNode::Refusal(_) => Origin::Published(ObjectAttributes {
                size: 0,
                modified: self.started,
                version: None,
            }),
        }
    }

    fn text(&self, node: &StatusNode) -> Option<String> {
        match node {
            StatusNode::Text => Some((self.text)()),
            StatusNode::Refusal(path) => {
                Some(format!("{path}: {}\n", self.ingest.refusal(path)?.message))
            }
            StatusNode::Root | StatusNode::Folder(_) => None,
        }
    }

    fn attributes(&self, folder: bool) -> Attributes {
        Attributes {
            mode: if folder { 0o555 } else { 0o444 },
            uid: 0,
            gid: 0,
            atime: self.started,
            mtime: self.started,
            ctime: self.started,
        }
    }
}

impl Fs {
    pub(super) fn status_attr(&self, ino: Ino, node: &StatusNode) -> Result<Attr, Error> {
        let folder = matches!(node, StatusNode::Root | StatusNode::Folder(_));
        let attributes = self.status.attributes(folder);
        if folder {
            return Ok(Attr { ino, kind: Kind::Folder, size: 0, attributes });
        }
        let size = self.status.text(node).ok_or(Error::NotFound)?.len() as u64;
        Ok(Attr { ino, kind: Kind::File, size, attributes })
    }

    pub(super) fn open_status(
        &self,
        ino: Ino,
        node: &StatusNode,
        flags: OpenFlags,
    ) -> Result<Opened, Error> {
        if flags.write || flags.truncate {
            return Err(Error::ReadOnly);
        }
        let text = self.status.text(node).ok_or(Error::IsFolder)?;
        Ok(self.open_text(ino, text))
    }
}
