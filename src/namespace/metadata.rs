//! What the bucket is known to hold: listings, attributes, negative answers; with a time to live.
//!
//! - One LIST of a folder answers every lookup in it.
//! - A name that looks like a chunk or a metadata document, in a folder that is not listed yet, is
//!   asked for by a GET of at most 1 MiB: its answer serves the read that follows. If there is no
//!   such chunk, the folder is listed once.
//! - Puts and deletions of this mount are applied to what is known, and to answers that were on
//!   their way meanwhile.
//! - Who asks for the same thing at the same time shares one request.
//!
//! Nothing here knows the tree, or files that are only staged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use moka::sync::Cache;
use parking_lot::Mutex;

use super::blocks::{BLOCK_BYTES, Blocks};
use super::changes::{Change, Changes};
use super::flights::Flights;
use super::listing::{FolderListing, Found};
use super::names;
use super::version::same_version;
use crate::base::clock::Clock;
use crate::store::{Fetched, Link, Location, ObjectAttributes, StoreError, Version};
use crate::zarr::is_metadata_document;

/// Names in all cached listings together, about 200 bytes each.
const LISTED_NAMES_MAX: u64 = 1_000_000;

/// Objects known one by one, about 300 bytes each.
const KNOWN_OBJECTS_MAX: u64 = 200_000;

/// Bytes of objects kept in memory.
const BLOCKS_BYTES_MAX: u64 = 64 << 20;

/// Bytes of an object, or why there are none.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The store did not give them.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object is not the one that was opened.
    #[error("`{0}` was replaced in the bucket while it was being read")]
    Replaced(Location),
}

#[derive(Debug, Clone)]
struct Known {
    at: Instant,
    found: Found,
}

pub(super) struct Metadata {
    store: Link,
    clock: Clock,
    ttl: Duration,
    listings: Cache<Location, Arc<FolderListing>>,
    objects: Cache<Location, Known>,
    blocks: Blocks,
    changes: Mutex<Changes>,
    lists: Flights<Location, Result<Arc<FolderListing>, StoreError>>,
    gets: Flights<Location, Result<Found, StoreError>>,
}

impl Metadata {
    pub(super) fn new(store: Link, clock: Clock, ttl: Duration) -> Arc<Self> {
        let weigh = |_: &Location, listing: &Arc<FolderListing>| {
            u32::try_from(listing.len()).unwrap_or(u32::MAX).saturating_add(1)
        };
        Arc::new(Self {
            blocks: Blocks::new(store.clone(), BLOCKS_BYTES_MAX),
            store,
            clock,
            ttl,
            listings: Cache::builder().weigher(weigh).max_capacity(LISTED_NAMES_MAX).build(),
            objects: Cache::new(KNOWN_OBJECTS_MAX),
            changes: Mutex::default(),
            lists: Flights::new(),
            gets: Flights::new(),
        })
    }

    /// What the bucket has at `folder`/`name`.
    pub(super) async fn resolve(
        self: &Arc<Self>,
        folder: &Location,
        name: &str,
    ) -> Result<Found, StoreError> {
        let Ok(location) = folder.child(name) else { return Ok(Found::Absent) };
        if let Some(found) = self.known(folder, name, &location) {
            return Ok(found);
        }
        // A folder never has the name of a metadata document.
        let document = is_metadata_document(name);
        if document || names::looks_like_chunk(name) {
            match self.object(&location).await? {
                Found::Absent if !document => {}
                found => return Ok(found),
            }
        }
        Ok(self.list(folder).await?.get(name))
    }

    pub(super) fn known(
        &self,
        folder: &Location,
        name: &str,
        location: &Location,
    ) -> Option<Found> {
        if let Some(listing) = self.listings.get(folder).filter(|listing| self.is_fresh(listing.at))
        {
            return Some(listing.get(name));
        }
        let known = self.objects.get(location).filter(|known| self.is_fresh(known.at))?;
        Some(known.found)
    }

    fn is_fresh(&self, at: Instant) -> bool {
        self.clock.now().saturating_duration_since(at) < self.ttl
    }

    /// What lies directly in `folder`.
    pub(super) async fn list(
        self: &Arc<Self>,
        folder: &Location,
    ) -> Result<Arc<FolderListing>, StoreError> {
        if let Some(listing) = self.listings.get(folder).filter(|listing| self.is_fresh(listing.at))
        {
            return Ok(listing);
        }
        let (metadata, folder) = (Arc::clone(self), folder.clone());
        self.lists
            .join(folder.clone(), || async move { metadata.ask_for_listing(&folder).await })
            .await
    }

    async fn ask_for_listing(&self, folder: &Location) -> Result<Arc<FolderListing>, StoreError> {
        let (at, start) = (self.clock.now(), self.changes.lock().begin());
        let answer = self.store.list_folder(folder).await;
        let mut changes = self.changes.lock();
        let since = changes.end(start);
        let listing = Arc::new(FolderListing::new(folder, answer?, at));
        let mut keep = true;
        for (location, change) in since {
            match change {
                Change::Unknown => keep &= !touches(&location, folder),
                change => apply_to_listing(&listing, folder, &location, &change),
            }
        }
        if keep {
            self.listings.insert(folder.clone(), Arc::clone(&listing));
        }
        drop(changes);
        Ok(listing)
    }

    /// Looks one object up by reading its first block.
    async fn object(self: &Arc<Self>, location: &Location) -> Result<Found, StoreError> {
        let (metadata, location) = (Arc::clone(self), location.clone());
        self.gets
            .join(location.clone(), || async move { metadata.ask_for_object(&location).await })
            .await
    }

    async fn ask_for_object(&self, location: &Location) -> Result<Found, StoreError> {
        let (at, start) = (self.clock.now(), self.changes.lock().begin());
        let answer = match self.blocks.fetch(location, 0).await {
            Ok(first) => Ok(Found::Object(attributes_of(&first))),
            Err(StoreError::NotFound { .. }) => Ok(Found::Absent),
            // An empty object has no first byte to read.
            Err(error @ StoreError::Invalid { .. }) => match self.store.head(location).await {
                Ok(object) if object.size == 0 => Ok(Found::Object(object)),
                _ => Err(error),
            },
            Err(error) => Err(error),
        };
        let mut changes = self.changes.lock();
        let since = changes.end(start);
        let mut found = answer?;
        let mut keep = true;
        for (changed, change) in since {
            match change {
                Change::Put(object) if changed == *location => found = Found::Object(object),
                Change::Deleted if changed == *location => found = Found::Absent,
                Change::Unknown => keep &= !touches(&changed, location),
                _ => {}
            }
        }
        if keep && (found != Found::Absent || is_metadata_document(location.name())) {
            self.objects.insert(location.clone(), Known { at, found: found.clone() });
        }
        drop(changes);
        Ok(found)
    }

    /// This mount has put, deleted or changed something in the bucket.
    pub(super) fn note(&self, location: &Location, change: &Change) {
        let mut changes = self.changes.lock();
        changes.record(location, change);
        match change {
            Change::Put(object) => self.note_put(location, object),
            Change::Deleted => self.note_deleted(location),
            Change::FolderGone => {
                if let Some(listing) = location.parent().and_then(|at| self.listings.get(&at)) {
                    listing.remove_folder(location.name());
                }
            }
            Change::Unknown => self.drop_below(location),
        }
    }

    fn note_put(&self, location: &Location, object: &ObjectAttributes) {
        self.blocks.forget(location, 0);
        let listing = location.parent().and_then(|folder| self.listings.get(&folder));
        if let Some(listing) = listing.filter(|listing| self.is_fresh(listing.at)) {
            listing.put_object(location.name(), object.clone());
            self.objects.invalidate(location);
        } else {
            let known = Known { at: self.clock.now(), found: Found::Object(object.clone()) };
            self.objects.insert(location.clone(), known);
        }
        self.note_folders(location.parent());
    }

    fn note_deleted(&self, location: &Location) {
        self.blocks.forget(location, 0);
        if let Some(listing) = location.parent().and_then(|folder| self.listings.get(&folder)) {
            listing.remove_object(location.name());
        }
        if is_metadata_document(location.name()) {
            let known = Known { at: self.clock.now(), found: Found::Absent };
            self.objects.insert(location.clone(), known);
        } else {
            self.objects.invalidate(location);
        }
    }

    /// `folder` and those above it have something below them.
    pub(super) fn note_folders(&self, folder: Option<Location>) {
        let mut folder = folder;
        while let Some((at, parent)) = folder.and_then(|at| at.parent().map(|parent| (at, parent)))
        {
            let listing = self.listings.get(&parent);
            if listing.is_some_and(|listing| listing.put_folder(at.name())) {
                return;
            }
            folder = Some(parent);
        }
    }

    /// The bucket holds exactly `found` under `name` in `folder`: we know, nothing else was put.
    pub(super) fn know_only(&self, folder: &Location, name: Arc<str>, found: Found) {
        let listing = FolderListing::known([(name, found)], self.clock.now());
        self.listings.insert(folder.clone(), Arc::new(listing));
    }

    fn drop_below(&self, folder: &Location) {
        for (location, _) in &self.listings {
            if touches(folder, &location) {
                self.listings.invalidate(&*location);
            }
        }
        for (location, _) in &self.objects {
            if touches(folder, &location) {
                self.objects.invalidate(&*location);
            }
        }
    }

    /// Reads within one block of an object: the bytes from `offset`, at most `length`, ending with
    /// the block or the object. Empty at and beyond the end.
    pub(super) async fn read(
        &self,
        at: &Location,
        version: Option<&Version>,
        offset: u64,
        length: u64,
    ) -> Result<(Bytes, Version), ReadError> {
        let index = offset / BLOCK_BYTES;
        let fits = |block: &Arc<Fetched>| {
            version.is_none_or(|version| same_version(&block.version, version) != Some(false))
        };
        let block = match self.blocks.cached(at, index).filter(fits) {
            Some(block) => block,
            None => self.blocks.fetch(at, index).await?,
        };
        if !fits(&block) {
            return Err(ReadError::Replaced(at.clone()));
        }
        let available = block.bytes.len() as u64;
        let from = (offset % BLOCK_BYTES).min(available);
        let to = from.saturating_add(length).min(available);
        // Both are at most the length of a buffer.
        let (from, to) = (usize::try_from(from).unwrap_or(0), usize::try_from(to).unwrap_or(0));
        Ok((block.bytes.slice(from..to), block.version.clone()))
    }
}

/// Whether a change of everything below `changed` concerns `location`.
fn touches(changed: &Location, location: &Location) -> bool {
    location == changed || location.is_below(changed)
}

fn attributes_of(fetched: &Fetched) -> ObjectAttributes {
    ObjectAttributes {
        size: fetched.size,
        modified: fetched.modified,
        version: Some(fetched.version.clone()),
    }
}

/// Corrects the listing of `folder` by what happened at `location` after it began.
fn apply_to_listing(
    listing: &FolderListing,
    folder: &Location,
    location: &Location,
    change: &Change,
) {
    let Some(below) = location.relative_to(folder) else { return };
    let direct = below.segments().count() == 1;
    match (change, direct) {
        (Change::Put(object), true) => listing.put_object(below.name(), object.clone()),
        (Change::Put(_), false) => {
            if let Some(name) = below.segments().next() {
                listing.put_folder(name);
            }
        }
        (Change::Deleted, true) => listing.remove_object(below.name()),
        (Change::FolderGone, true) => listing.remove_folder(below.name()),
        _ => {}
    }
}
