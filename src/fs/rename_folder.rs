//! Renaming folders: free for what is staged, server-side copies for what is published.

use std::collections::HashSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::rename::Place;
use super::{Error, Fs};
use crate::namespace::{Entry, Held, Ino};
use crate::staging::FileId;
use crate::store::{Location, ObjectAttributes};
use crate::zarr::DocumentRank;

/// Most objects that are copied while a program waits.
const OBJECTS_MAX: usize = 10_000;

/// Copies under way at once.
const COPIES: usize = 32;

impl Fs {
    pub(super) async fn rename_folder(
        &self,
        source: &Entry,
        target: Option<&Entry>,
        to: Place<'_>,
        new: &Location,
    ) -> Result<(), Error> {
        let old = self.tree.path(source.ino).ok_or(Error::NotFound)?;
        if new.is_below(&old) {
            return Err(Error::BadFlags("a folder inside itself"));
        }
        self.refuse_growing(source.ino)?;
        self.ingest.moving(&old, new).await?;
        if let Some(target) = target {
            self.remove_if_empty(target.ino).await?;
        }
        let held = self.tree.hold_below(&old);
        let moved = self.move_folder(source, to, &old, new, &held).await;
        if moved.is_err() {
            // What arrived meanwhile was not taken note of: it is sent again.
            for (ino, _) in self.tree.staged_below(source.ino) {
                self.moved_with_folder(ino);
            }
        }
        moved
    }

    async fn move_folder(
        &self,
        source: &Entry,
        to: Place<'_>,
        old: &Location,
        new: &Location,
        held: &Held,
    ) -> Result<(), Error> {
        let mut objects = if self.tree.is_absent(source.ino) {
            Vec::new()
        } else {
            self.objects_below(old, OBJECTS_MAX).await?
        };
        let gone = held.gone();
        objects.retain(|(object, _)| !gone.contains(object));
        if !objects.is_empty() {
            self.wait_for_deletions(new).await?;
            self.copy_below(&objects, old, new).await?;
        }
        self.refuse_growing(source.ino)?;
        let staged = self.tree.staged_below(source.ino);
        for (ino, _) in &staged {
            self.files.unsettle(*ino);
        }
        self.staging.rename_folder(old, new)?;
        let covered = self.tree.rename_folder(source.ino, to.0, to.1);
        for (ino, _) in staged {
            self.moved_with_folder(ino);
        }
        self.delete_after_rename(&objects, covered, &held.gone(), (old, new));
        self.forget_rename(old);
        Ok(())
    }

    /// What was deleted lately at the new name must be gone before something else comes there.
    async fn wait_for_deletions(&self, new: &Location) -> Result<(), Error> {
        tokio::select! {
            () = self.queue.flush_within(new) => {}
            () = self.clock.sleep(self.options.stall_timeout) => {}
        }
        if self.queue.is_pending(new) { Err(Error::Busy(new.clone())) } else { Ok(()) }
    }

    /// A dataset that takes in source files keeps its name until they are in.
    fn refuse_growing(&self, folder: Ino) -> Result<(), Error> {
        let staged = self.tree.staged_below(folder);
        match staged.into_iter().find(|(_, path)| self.claims(path)) {
            Some((_, path)) => Err(Error::Busy(path)),
            None => Ok(()),
        }
    }

    async fn objects_below(
        &self,
        path: &Location,
        objects_max: usize,
    ) -> Result<Vec<(Location, ObjectAttributes)>, Error> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let page = self.tree.store().list_below(path, after).await?;
            found.extend(page.objects.into_iter().map(|at| (at.location, at.attributes)));
            if found.len() > objects_max {
                let reason = format!("it holds more than {objects_max} objects");
                return Err(Error::CrossDevice { from: path.clone(), reason });
            }
            after = page.next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    /// Copies, metadata documents after everything else and outer ones last: a reader of the new
    /// name finds nothing, or everything. If it fails, the copies are deleted again.
    async fn copy_below(
        &self,
        objects: &[(Location, ObjectAttributes)],
        old: &Location,
        new: &Location,
    ) -> Result<(), Error> {
        // Names the debris, should this process end now.
        let note = serde_json::to_value(Cut::new(old, new));
        self.staging.note(&note_key(old), Some(&note.map_err(std::io::Error::other)?))?;
        let done = self.copy_in_order(objects, old, new).await;
        if done.is_err() {
            for (from, _) in objects {
                if let Some(below) = from.relative_to(old) {
                    self.tree.hide_object(&new.join(&below));
                    self.queue.delete(&new.join(&below));
                }
            }
            self.forget_rename(old);
        }
        done
    }

    async fn copy_in_order(
        &self,
        objects: &[(Location, ObjectAttributes)],
        old: &Location,
        new: &Location,
    ) -> Result<(), Error> {
        let mut documents = Vec::new();
        let mut others = Vec::new();
        for (from, _) in objects {
            let Some(below) = from.relative_to(old) else { continue };
            let pair = (from.clone(), new.join(&below));
            match DocumentRank::of(from.name()) {
                Some(rank) => documents.push((usize::MAX - depth(from), rank, pair)),
                None => others.push(pair),
            }
        }
        documents.sort();
        let mut done = self.copy_all(others, COPIES).await;
        for (_, _, pair) in documents {
            if done.is_ok() {
                done = self.copy_all(vec![pair], 1).await;
            }
        }
        done
    }

    async fn copy_all(
        &self,
        pairs: Vec<(Location, Location)>,
        at_once: usize,
    ) -> Result<(), Error> {
        let store = self.tree.store();
        let copies =
            stream::iter(pairs).map(|(from, to)| async move { store.copy(&from, &to).await });
        Ok(copies.buffer_unordered(at_once).try_collect::<()>().await?)
    }

    /// Deletes what is left at the old name; and at the new one, the copy of what a program deleted
    /// while it was being copied.
    fn delete_after_rename(
        &self,
        objects: &[(Location, ObjectAttributes)],
        covered: Vec<Location>,
        gone: &HashSet<Location>,
        (old, new): (&Location, &Location),
    ) {
        for (object, _) in objects.iter().filter(|(object, _)| gone.contains(object)) {
            if let Some(copy) = object.relative_to(old).map(|below| new.join(&below)) {
                self.tree.hide_object(&copy);
                self.queue.delete(&copy);
            }
        }
        for object in covered {
            self.tree.hide_object(&object);
            self.queue.delete(&object);
        }
        self.delete_below(objects, old);
    }

    fn delete_below(&self, objects: &[(Location, ObjectAttributes)], old: &Location) {
        for (object, _) in objects {
            self.tree.hide_object(object);
            self.queue.delete(object);
        }
        self.tree.hide_folder(old);
    }

    /// A staged file now has another path; if it was closed, it goes on its way to that.
    fn moved_with_folder(&self, ino: Ino) {
        let Some(now) = self.tree.path(ino) else { return };
        let Some(file) = self.staging.file(FileId(ino.0)) else { return };
        if let Err(error) = self.tell_name(ino, &file, &now) {
            tracing::error!(path = %now, %error, "cannot record a closed file");
        }
    }

    /// Ends a rename that the end of an earlier daemon has cut short, whose copies may be there in
    /// part: the rest is copied, and what is left at the old name goes.
    pub(super) async fn end_rename(&self, cut: &Cut) -> Result<(), Error> {
        let objects = self.objects_below(&cut.from, usize::MAX).await?;
        self.copy_in_order(&objects, &cut.from, &cut.to).await?;
        self.staging.rename_folder(&cut.from, &cut.to)?;
        let folder = self.tree.find(&cut.from);
        for (ino, was) in folder.map(|ino| self.tree.staged_below(ino)).unwrap_or_default() {
            let Some(below) = was.relative_to(&cut.from) else { continue };
            let (now, entry) = (cut.to.join(&below), self.tree.entry(ino));
            self.tree.remove_file(ino);
            if let Some(entry) = entry {
                self.tree.restore_file(ino, &now, entry.attributes);
                self.moved_with_folder(ino);
            }
        }
        self.delete_below(&objects, &cut.from);
        if let Some(folder) = folder {
            self.tree.remove_folder(folder);
        }
        self.forget_rename(&cut.from);
        Ok(())
    }

    fn forget_rename(&self, old: &Location) {
        if let Err(error) = self.staging.note(&note_key(old), None) {
            tracing::error!(folder = %old, %error, "cannot record that a folder was renamed");
        }
    }
}

/// What the journal keeps of a rename while objects are being copied.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct Cut {
    pub(super) from: Location,
    pub(super) to: Location,
}

impl Cut {
    pub(super) fn new(from: &Location, to: &Location) -> Self {
        Self { from: from.clone(), to: to.clone() }
    }
}

/// What its key in the journal begins with.
pub(super) const NOTE_PREFIX: &str = "rename/";

fn note_key(old: &Location) -> String {
    format!("{NOTE_PREFIX}{old}")
}

fn depth(location: &Location) -> usize {
    location.segments().count()
}
