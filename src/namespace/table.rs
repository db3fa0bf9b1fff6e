//! The inode table: numbers, names and parents. Pure; knows no bucket.
//!
//! - Every node but the root has a place (parent and name) until it is detached; then it lives on
//!   for as long as the kernel holds it.
//! - A node goes when the kernel holds no reference, nothing is below it, and nothing depends on it:
//!   staged files and kept folders stay.
//! - Numbers only grow.

use std::collections::HashMap;
use std::sync::Arc;

use super::Ino;
use super::node::{Attributes, Content, Folder, Node};
use crate::store::Location;

#[derive(Debug)]
pub(super) struct Table {
    nodes: HashMap<Ino, Node>,
    next: u64,
}

impl Table {
    pub(super) fn new(root: Attributes) -> Self {
        let folder = Folder { kept: true, ..Folder::default() };
        let root =
            Node { place: None, lookups: 1, attributes: root, content: Content::Folder(folder) };
        Self { nodes: HashMap::from([(Ino::ROOT, root)]), next: Ino::ROOT.0 + 1 }
    }

    /// Numbers below `next` are taken.
    pub(super) fn reserve(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    pub(super) fn fresh(&mut self) -> Ino {
        let ino = Ino(self.next);
        self.next = self.next.saturating_add(1);
        ino
    }

    pub(super) fn get(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    pub(super) fn get_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.nodes.get_mut(&ino)
    }

    pub(super) fn child(&self, parent: Ino, name: &str) -> Option<Ino> {
        self.nodes.get(&parent)?.folder()?.children.get(name).copied()
    }

    /// The node at a location, if every folder on the way is in the table.
    pub(super) fn find(&self, location: &Location) -> Option<Ino> {
        location.segments().try_fold(Ino::ROOT, |folder, name| self.child(folder, name))
    }

    /// `None` for what is unlinked or below something unlinked.
    pub(super) fn path(&self, ino: Ino) -> Option<Location> {
        let mut names = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT {
            let (parent, name) = self.nodes.get(&at)?.place.as_ref()?;
            names.push(name);
            at = *parent;
        }
        names.iter().rev().try_fold(Location::root(), |path, name| path.child(name).ok())
    }

    /// The folders above a node, innermost first, the root last.
    pub(super) fn ancestors(&self, ino: Ino) -> Vec<Ino> {
        let parent = |ino: &Ino| self.nodes.get(ino)?.place.as_ref().map(|(parent, _)| *parent);
        std::iter::successors(parent(&ino), parent).collect()
    }

    /// Everything below a folder that is in the table, parents before children.
    pub(super) fn descendants(&self, ino: Ino) -> Vec<Ino> {
        let mut found = vec![ino];
        let mut next = 0;
        while let Some(folder) = found.get(next) {
            if let Some(folder) = self.nodes.get(folder).and_then(Node::folder) {
                found.extend(folder.children.values());
            }
            next += 1;
        }
        found.remove(0);
        found
    }

    /// Adds a node under its own number. Whatever had the name is detached.
    pub(super) fn insert(
        &mut self,
        ino: Ino,
        place: (Ino, &str),
        attributes: Attributes,
        content: Content,
    ) {
        self.reserve(ino.0.saturating_add(1));
        self.nodes.insert(ino, Node { place: None, lookups: 0, attributes, content });
        self.attach(ino, place.0, place.1);
    }

    /// Gives a detached node a name. Whatever had the name is detached.
    pub(super) fn attach(&mut self, ino: Ino, parent: Ino, name: &str) {
        let name: Arc<str> = name.into();
        let Some(folder) = self.nodes.get_mut(&parent).and_then(Node::folder_mut) else { return };
        let replaced = folder.children.insert(Arc::clone(&name), ino);
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.place = Some((parent, name));
        }
        if let Some(replaced) = replaced.filter(|replaced| *replaced != ino) {
            if let Some(node) = self.nodes.get_mut(&replaced) {
                node.place = None;
            }
            self.reap(replaced);
        }
    }

    /// Takes a node's name away; it lives on while someone holds it.
    pub(super) fn detach(&mut self, ino: Ino) {
        self.unplace(ino);
        self.reap(ino);
    }

    pub(super) fn rename(&mut self, ino: Ino, parent: Ino, name: &str) {
        let old = self.unplace(ino);
        self.attach(ino, parent, name);
        if let Some(old) = old {
            self.reap(old);
        }
    }

    /// Returns the former parent.
    fn unplace(&mut self, ino: Ino) -> Option<Ino> {
        let (parent, name) = self.nodes.get_mut(&ino)?.place.take()?;
        if let Some(folder) = self.nodes.get_mut(&parent).and_then(Node::folder_mut) {
            folder.children.remove(&name);
        }
        Some(parent)
    }

    /// This folder, and those above it, stay when the bucket has nothing below them.
    pub(super) fn keep(&mut self, folder: Ino) {
        let mut at = Some(folder);
        while let Some(node) = at.and_then(|ino| self.nodes.get_mut(&ino)) {
            if let Some(folder) = node.folder_mut() {
                folder.kept = true;
            }
            at = node.place.as_ref().map(|(parent, _)| *parent);
        }
    }

    pub(super) fn remember(&mut self, ino: Ino) -> bool {
        let Some(node) = self.nodes.get_mut(&ino) else { return false };
        node.lookups = node.lookups.saturating_add(1);
        true
    }

    pub(super) fn forget(&mut self, ino: Ino, lookups: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.lookups = node.lookups.saturating_sub(lookups);
            self.reap(ino);
        }
    }

    /// Drops a node that nothing needs, then its parent if that was kept for it only.
    pub(super) fn reap(&mut self, ino: Ino) {
        let mut at = Some(ino).filter(|ino| *ino != Ino::ROOT);
        while let Some(ino) = at {
            if self.nodes.get(&ino).is_none_or(is_needed) {
                return;
            }
            at = self.unplace(ino).filter(|parent| *parent != Ino::ROOT);
            self.nodes.remove(&ino);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}

fn is_needed(node: &Node) -> bool {
    let attached = node.place.is_some();
    node.lookups > 0
        || match &node.content {
            Content::Folder(folder) => !folder.children.is_empty() || (attached && folder.kept),
            Content::Staged { .. } => attached,
            Content::Published(_) | Content::Source => false,
        }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const ATTRIBUTES: Attributes = Attributes {
        mode: 0o644,
        uid: 0,
        gid: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
    };

    fn add(table: &mut Table, parent: Ino, name: &str, content: Content) -> Ino {
        let ino = table.fresh();
        table.insert(ino, (parent, name), ATTRIBUTES, content);
        ino
    }

    fn folder() -> Content {
        Content::Folder(Folder::default())
    }

    fn path(table: &Table, ino: Ino) -> Option<String> {
        table.path(ino).map(String::from)
    }

    #[test]
    fn a_folder_that_moves_takes_what_is_below_it_along() {
        let mut table = Table::new(ATTRIBUTES);
        let a = add(&mut table, Ino::ROOT, "a", folder());
        let b = add(&mut table, a, "b", folder());
        let file = add(&mut table, b, "f", Content::Staged { covers: false });
        table.rename(b, Ino::ROOT, "c");
        assert_eq!(path(&table, file).as_deref(), Some("c/f"));
        assert_eq!(table.find(&Location::parse("c/f").unwrap()), Some(file));
    }

    #[test]
    fn what_the_kernel_forgot_goes_with_the_folders_that_only_led_to_it() {
        let mut table = Table::new(ATTRIBUTES);
        let a = add(&mut table, Ino::ROOT, "a", folder());
        let b = add(&mut table, a, "b", folder());
        let source = add(&mut table, b, "f.nc", Content::Source);
        table.remember(source);
        table.remember(b);
        table.forget(b, 1);
        assert_eq!(table.len(), 4);
        table.forget(source, 1);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn staged_files_and_kept_folders_outlive_the_kernels_interest() {
        let mut table = Table::new(ATTRIBUTES);
        let a = add(&mut table, Ino::ROOT, "a", folder());
        let file = add(&mut table, a, "f", Content::Staged { covers: false });
        table.keep(a);
        table.remember(file);
        table.forget(file, 1);
        assert_eq!(path(&table, file).as_deref(), Some("a/f"));
        table.detach(file);
        assert_eq!(path(&table, file), None);
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn a_replaced_file_has_no_path_but_lives_while_it_is_held() {
        let mut table = Table::new(ATTRIBUTES);
        let old = add(&mut table, Ino::ROOT, "x", Content::Staged { covers: false });
        table.remember(old);
        let new = add(&mut table, Ino::ROOT, "y", Content::Staged { covers: false });
        table.rename(new, Ino::ROOT, "x");
        assert_eq!(path(&table, old), None);
        assert_eq!(table.child(Ino::ROOT, "x"), Some(new));
        table.forget(old, 1);
        assert!(table.get(old).is_none());
        assert_eq!(path(&table, new).as_deref(), Some("x"));
    }

    #[test]
    fn numbers_are_never_given_twice() {
        let mut table = Table::new(ATTRIBUTES);
        let first = add(&mut table, Ino::ROOT, "x", folder());
        table.detach(first);
        table.reserve(1000);
        assert!(table.fresh() > first);
        table.insert(Ino(5000), (Ino::ROOT, "y"), ATTRIBUTES, folder());
        assert_eq!(table.fresh(), Ino(5001));
    }
}
