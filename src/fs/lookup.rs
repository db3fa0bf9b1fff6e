//! Names: which are possible, and what they lead to.

use super::status::STATUS_FOLDER;
use super::{Attr, Error, Fs};
use crate::namespace::{Attributes, Entry, Ino, Origin, is_hidden};
use crate::store::Location;

/// As `NAME_MAX` of Linux file systems.
const NAME_BYTES_MAX: usize = 255;

/// Longest key of S3, Google Cloud Storage and Azure.
const KEY_BYTES_MAX: usize = 1024;

impl Fs {
    /// What `name` in `parent` is. The kernel holds it from now on, until [`Fs::forget`].
    pub async fn lookup(&self, parent: Ino, name: &str) -> Result<Attr, Error> {
        if let Some((ino, node)) = self.status.lookup(parent, name) {
            return self.status_attr(ino, &node);
        }
        if self.status.node(parent).is_some() {
            return Err(Error::NotFound);
        }
        loop {
            let entry = self.find(parent, name).await?.ok_or(Error::NotFound)?;
            let attr = self.attr(&entry).await?;
            if self.tree.remember(entry.ino) {
                return Ok(attr);
            }
        }
    }

    /// The kernel gives `lookups` references back.
    pub fn forget(&self, ino: Ino, lookups: u64) {
        if self.status.node(ino).is_some() {
            return;
        }
        self.tree.forget(ino, lookups);
        if self.tree.entry(ino).is_none() {
            self.cached.lock().remove(&ino);
        }
    }

    /// The node of a name, also of a source file of which only the receipt is left.
    pub(super) async fn find(&self, parent: Ino, name: &str) -> Result<Option<Entry>, Error> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        let found = self.tree.lookup(parent, name).await?;
        let source = match found {
            Some(entry) if entry.origin != Origin::Source => return Ok(Some(entry)),
            source => source,
        };
        let Ok(path) = self.child_path(parent, name) else { return Ok(None) };
        if is_hidden(name) || !self.claims(&path) {
            return Ok(source);
        }
        let Some(receipt) = self.ingest.receipt(&path).await else {
            if let Some(source) = source {
                self.tree.remove_file(source.ino);
            }
            return Ok(None);
        };
        let attributes = Attributes {
            mode: self.new_mode(0o644),
            uid: self.options.uid.unwrap_or(0),
            gid: self.options.gid.unwrap_or(0),
            atime: receipt.mtime,
            mtime: receipt.mtime,
            ctime: receipt.mtime,
        };
        Ok(source.or_else(|| self.tree.show_source(parent, name, attributes)))
    }

    /// Checks that something may be made, changed or removed under this name.
    pub(super) fn writable(&self, parent: Ino, name: &str) -> Result<(), Error> {
        if self.options.read_only || self.status.node(parent).is_some() {
            return Err(Error::ReadOnly);
        }
        if is_hidden(name) || (parent == Ino::ROOT && name == STATUS_FOLDER) {
            return Err(Error::Reserved(name.to_owned()));
        }
        Ok(())
    }

    /// The path of a name that something is to be made under.
    pub(super) fn new_path(&self, parent: Ino, name: &str) -> Result<Location, Error> {
        self.writable(parent, name)?;
        let path = self.child_path(parent, name)?;
        let prefix = self.tree.store().identity().prefix.as_str();
        // One for the slash between them.
        if name.len() > NAME_BYTES_MAX || prefix.len() + 1 + path.as_str().len() > KEY_BYTES_MAX {
            return Err(Error::NameTooLong);
        }
        Ok(path)
    }

    fn child_path(&self, parent: Ino, name: &str) -> Result<Location, Error> {
        let folder = self.tree.path(parent).ok_or(Error::NotFound)?;
        folder.child(name).map_err(|error| {
            tracing::debug!(%error, "a name that no key can have");
            Error::BadName(name.to_owned())
        })
    }
}
