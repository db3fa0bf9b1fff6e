//! The queue itself: takes jobs from [`Order`], does them, settles them.
//!
//! A file is read completely (or, above the multipart threshold, part by part) and then its
//! generation is compared with the one before: what was written meanwhile is not sent as a mixture,
//! it goes again when its writer has closed it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::order::{Failure, Job, Order, Outcome, Pending, Ticket};
use crate::base::clock::Clock;
use crate::base::permits::Budget;
use crate::base::tasks;
use crate::namespace::{Ino, Origin, Tree};
use crate::staging::{FileId, StagedFile, Staging};
use crate::store::{Link, Location, ObjectAttributes, PutCondition, StoreError};
use crate::telemetry::tally::Tally;

/// Larger objects go as multipart uploads, read part by part.
const WHOLE_BYTES_MAX: u64 = 32 << 20;

/// Parts of one large object on the wire at once.
const PARTS_IN_FLIGHT: usize = 8;

/// What those parts cost in memory: 8 MiB each for objects below 80 GB.
const LARGE_MEMORY_BYTES: u64 = 8 * (8 << 20);

/// The queue of raw files and deletions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Queue(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    order: Mutex<Order>,
    /// Something was queued or settled.
    changed: Notify,
    /// A job was settled; who waits for a flush looks again.
    settled: Notify,
    stopped: AtomicBool,
    slots: Arc<Semaphore>,
    link: Link,
    staging: Arc<Staging>,
    tree: Arc<Tree>,
    budget: Budget,
    clock: Clock,
    tally: Arc<Tally>,
}

/// What the queue works with.
#[derive(Debug)]
pub struct Parts {
    /// The way to the bucket.
    pub link: Link,
    /// Where the bytes are.
    pub staging: Arc<Staging>,
    /// Where the names are.
    pub tree: Arc<Tree>,
    /// Memory for bodies.
    pub budget: Budget,
    /// Files in flight at most.
    pub connections: usize,
    /// Time.
    pub clock: Clock,
    /// Bytes and objects sent.
    pub tally: Arc<Tally>,
}

impl Queue {
    /// Starts the queue on the current runtime.
    pub fn start(parts: Parts) -> Self {
        let queue = Self(Arc::new(Inner {
            order: Mutex::new(Order::default()),
            changed: Notify::new(),
            settled: Notify::new(),
            stopped: AtomicBool::new(false),
            slots: Arc::new(Semaphore::new(parts.connections.max(1))),
            link: parts.link,
            staging: parts.staging,
            tree: parts.tree,
            budget: parts.budget,
            clock: parts.clock,
            tally: parts.tally,
        }));
        tasks::spawn("upload queue", queue.clone().run());
        queue
    }

    /// A raw file was opened for writing, or has another name and is open for writing. Documents above
    /// it wait until it is closed.
    pub fn opened(&self, id: FileId) {
        let Some(path) = self.0.tree.path(Ino(id.0)) else { return };
        self.0.order.lock().opened(id, path, self.0.clock.now());
        self.0.settled.notify_waiters();
    }

    /// A raw file was closed by its last writer and sealed in staging. It becomes due after its
    /// quiet time, or at a flush. A file that is queued already starts its quiet time again.
    pub fn released(&self, id: FileId) {
        let Some(path) = self.0.tree.path(Ino(id.0)) else { return };
        let mut order = self.0.order.lock();
        if let Some(location) = order.released(id, path, self.0.clock.now()) {
            self.0.forget_deletion(&location);
        }
        drop(order);
        self.0.changed.notify_one();
    }

    /// The last writer of the file at `path` has closed it: it is sent if it is `wanted` in the bucket.
    /// False, and nothing is done, if the file is not there any more.
    pub fn closed(&self, id: FileId, path: &Location, wanted: bool) -> bool {
        let (mut order, now) = (self.0.order.lock(), self.0.clock.now());
        // Who renames it tells the queue afterwards.
        if self.0.tree.path(Ino(id.0)).as_ref() != Some(path) {
            return false;
        }
        if !wanted {
            order.cancelled(id, now);
        } else if let Some(location) = order.released(id, path.clone(), now) {
            self.0.forget_deletion(&location);
        }
        drop(order);
        self.0.changed.notify_one();
        self.0.settled.notify_waiters();
        true
    }

    /// The file was deleted, superseded, or given a name that is not sent: it must not be sent (any
    /// more). What is on its way at this moment may still arrive: the tree knows that, and has the
    /// object deleted.
    pub fn cancelled(&self, id: FileId) {
        self.0.order.lock().cancelled(id, self.0.clock.now());
        self.0.changed.notify_one();
        self.0.settled.notify_waiters();
    }

    /// The staged copy of an object was not changed and has been dropped: nothing waits for it. Does
    /// nothing if the object is in staging again by now.
    pub fn let_go(&self, id: FileId) {
        let mut order = self.0.order.lock();
        let origin = self.0.tree.entry(Ino(id.0)).map(|entry| entry.origin);
        if origin != Some(Origin::Staged) {
            order.cancelled(id, self.0.clock.now());
        }
        drop(order);
        self.0.changed.notify_one();
        self.0.settled.notify_waiters();
    }

    /// An object of the bucket was deleted here, and the tree hides it: journaled, then sent in the
    /// order that publication needs. Does nothing if the name has been taken again meanwhile by
    /// something that is in the bucket or on its way there.
    pub fn delete(&self, location: &Location) {
        // What the journal owes and what the queue does change together: else a deletion that ends in
        // this moment could take this one with it, and the next mount would delete what came later.
        let mut order = self.0.order.lock();
        if !self.0.tree.hides(location) {
            return;
        }
        let again = self.0.tree.find(location).map(|ino| FileId(ino.0));
        if order.delete(location, again, self.0.clock.now())
            && let Err(error) = self.0.staging.record_delete(location)
        {
            tracing::error!(%location, %error, "cannot journal a deletion; it would not survive a crash");
        }
        drop(order);
        self.0.changed.notify_one();
    }

    /// Whether the object, or anything below the folder, waits, is on its way or has failed.
    pub fn is_pending(&self, location: &Location) -> bool {
        self.0.order.lock().is_pending(location)
    }

    /// Whether the object, or anything below the folder, is to be deleted and is not yet.
    pub fn is_deleting(&self, location: &Location) -> bool {
        self.0.order.lock().is_deleting(location)
    }

    /// Whether anything in the queue can leave staging without a program's doing.
    pub fn is_moving(&self) -> bool {
        self.0.order.lock().is_moving()
    }

    /// Puts and deletions outstanding or failed.
    pub fn len(&self) -> usize {
        self.0.order.lock().len()
    }

    /// Whether nothing is outstanding or failed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lasting error of a file, in words, if there is one.
    pub fn failure(&self, id: FileId) -> Option<String> {
        self.0.order.lock().failure(id).map(|failure| failure.reason.clone())
    }

    /// Everything that is outstanding or failed, by location.
    pub fn pending(&self) -> Vec<Pending> {
        self.0.order.lock().pending()
    }

    /// Sends everything at or below `scope` that was released before the call, and tries again what
    /// had failed there. Returns when each of it is in the bucket, has failed for good, or waits for a
    /// program that writes: see [`Self::pending`]. During an outage that is not before the outage
    /// ends: who cannot wait drops the future.
    pub async fn flush_within(&self, scope: &Location) {
        let flush = Flush { inner: &self.0, ticket: self.0.order.lock().flush(scope) };
        self.0.changed.notify_one();
        loop {
            let settled = self.0.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if !self.0.order.lock().is_outstanding(flush.ticket) {
                return;
            }
            settled.await;
        }
    }

    /// [`flush_within`](Self::flush_within) of everything.
    pub async fn flush(&self) {
        self.flush_within(&Location::root()).await;
    }

    /// Begins nothing more. What is on its way ends by itself.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.changed.notify_one();
    }

    async fn run(self) {
        while !self.0.stopped.load(Ordering::Acquire) {
            let Ok(slot) = Arc::clone(&self.0.slots).acquire_owned().await else { return };
            let (job, due) = {
                let (mut order, now) = (self.0.order.lock(), self.0.clock.now());
                (order.next(now), order.next_due(now))
            };
            let Some(job) = job else {
                drop(slot);
                self.wait(due).await;
                continue;
            };
            let inner = Arc::clone(&self.0);
            tasks::spawn("upload", async move {
                inner.run_job(job).await;
                drop(slot);
                inner.changed.notify_one();
                inner.settled.notify_waiters();
            });
        }
    }

    /// Until something changes or becomes due.
    async fn wait(&self, due: Option<std::time::Instant>) {
        let changed = self.0.changed.notified();
        let Some(due) = due else { return changed.await };
        let pause = due.saturating_duration_since(self.0.clock.now());
        tokio::select! {
            () = changed => {}
            () = self.0.clock.sleep(pause) => {}
        }
    }
}

/// A flush that somebody waits for.
struct Flush<'a> {
    inner: &'a Inner,
    ticket: Ticket,
}

impl Drop for Flush<'_> {
    fn drop(&mut self) {
        self.inner.order.lock().flush_ended(self.ticket);
    }
}

impl Inner {
    async fn run_job(&self, job: Job) {
        match job {
            Job::Put(id, path) => self.put(id, &path).await,
            Job::Delete(locations) => self.delete(locations).await,
        }
    }

    async fn put(&self, id: FileId, path: &Location) {
        let outcome = match self.staging.file(id) {
            // Discarded since: nothing to send.
            None => Outcome::Done,
            Some(file) => self.send(id, &file, path).await,
        };
        if let Outcome::Failed(failure) = &outcome {
            tracing::error!(object = %path, reason = failure.reason, "upload failed; the bytes are kept");
        }
        let path_now = self.staging.file(id).and_then(|_| self.tree.path(Ino(id.0)));
        self.order.lock().put_ended(id, &outcome, path_now);
    }

    async fn send(&self, id: FileId, file: &Arc<StagedFile>, path: &Location) -> Outcome {
        if file.writers() > 0 {
            return Outcome::Changed;
        }
        let generation = file.generation();
        let size = file.len();
        if !self.tree.sending(Ino(id.0), path) {
            return Outcome::Changed;
        }
        let sent = if size <= WHOLE_BYTES_MAX {
            self.send_whole(file, path, size, generation).await
        } else {
            self.send_parts(file, path, size).await
        };
        match sent {
            Ok(None) => Outcome::Changed,
            Ok(Some(attributes)) => self.settle(id, generation, path, attributes),
            Err(reason) => Outcome::Failed(self.failure(reason)),
        }
    }

    async fn send_whole(
        &self,
        file: &Arc<StagedFile>,
        path: &Location,
        size: u64,
        generation: u64,
    ) -> Result<Option<ObjectAttributes>, String> {
        let _paid = self.budget.acquire(size).await;
        let body = {
            let file = Arc::clone(file);
            tasks::blocking("read staged file", move || read(&file, 0..size)).await
        };
        let body = match body {
            Some(Ok(body)) => body,
            Some(Err(error)) => return Err(format!("cannot read the staged bytes: {error}")),
            None => return Err("cannot read the staged bytes".to_owned()),
        };
        if file.generation() != generation {
            return Ok(None);
        }
        let version =
            self.link.put(path, body, PutCondition::Always).await.map_err(|e| e.to_string())?;
        Ok(Some(self.attributes(size, version)))
    }

    async fn send_parts(
        &self,
        file: &Arc<StagedFile>,
        path: &Location,
        size: u64,
    ) -> Result<Option<ObjectAttributes>, String> {
        let _paid = self.budget.acquire(LARGE_MEMORY_BYTES).await;
        let source = Arc::clone(file);
        let version = self
            .link
            .put_large(path, size, move |range| read(&source, range), PARTS_IN_FLIGHT)
            .await
            .map_err(|error| error.to_string())?;
        Ok(Some(self.attributes(size, version)))
    }

    fn attributes(&self, size: u64, version: crate::store::Version) -> ObjectAttributes {
        ObjectAttributes { size, version: Some(version), modified: self.clock.wall() }
    }

    /// The object has arrived: frees staging, unless the file has changed or moved meanwhile. The
    /// tree knows that an object is at the old name, and has it deleted if the name is given up.
    fn settle(
        &self,
        id: FileId,
        generation: u64,
        path: &Location,
        attributes: ObjectAttributes,
    ) -> Outcome {
        let size = attributes.size;
        let freed = self
            .tree
            .publish(Ino(id.0), path, attributes, || self.staging.uploaded(id, generation));
        match freed {
            Ok(true) => {
                self.tally.settled(size);
                self.tally.object();
                Outcome::Done
            }
            Ok(false) => Outcome::Changed,
            Err(error) => {
                Outcome::Failed(self.failure(format!("cannot write the journal: {error}")))
            }
        }
    }

    async fn delete(&self, locations: Vec<Location>) {
        for (location, answer) in self.link.delete_many(locations).await {
            let mut order = self.order.lock();
            let outcome = match answer {
                Ok(()) | Err(StoreError::NotFound { .. }) => {
                    self.forget_deletion(&location);
                    self.tree.deleted(&location);
                    Outcome::Done
                }
                Err(error) => Outcome::Failed(self.failure(error.to_string())),
            };
            order.delete_ended(&location, outcome);
        }
    }

    fn forget_deletion(&self, location: &Location) {
        if let Err(error) = self.staging.deleted(location) {
            tracing::error!(%location, %error, "cannot journal that a deletion was done");
        }
    }

    fn failure(&self, reason: String) -> Failure {
        let since_ms = self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        Failure { reason, since_ms: u64::try_from(since_ms).unwrap_or(u64::MAX) }
    }
}

/// Reads a range of a staged file completely.
fn read(file: &StagedFile, range: std::ops::Range<u64>) -> std::io::Result<Bytes> {
    let length =
        usize::try_from(range.end.saturating_sub(range.start)).map_err(std::io::Error::other)?;
    let mut body = vec![0; length];
    let mut filled = 0;
    while let Some(rest) = body.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(range.start + filled as u64, rest)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(body.into())
}
