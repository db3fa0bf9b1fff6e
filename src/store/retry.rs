//! The one retry of the program.
//!
//! A [`Link`] is a [`Store`] that repeats what may succeed later. How long depends on who asks: an
//! upload is patient without limit, because an outage is never final while mounted; somebody who
//! waits for a listing gets an answer in reasonable time. What the store says for good is returned
//! at once.
//!
//! A conditional put whose answer was lost looks like a conflict with one's own write. So it carries a
//! write id, and after such a failure a conflict is settled by whose id the object has: the same bytes
//! may be another writer's.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::pace::{Pace, Place};
use super::parts::{Answer, Persist};
use super::{
    Fetched, Listing, Location, ObjectAttributes, Page, PageToken, PutCondition, PutLargeError,
    Store, StoreError, StoreIdentity, Version, WriteId,
};
use crate::base::clock::Clock;
use crate::telemetry::activities::{Activities, Activity, AtWork};

/// First pause after a failure; doubled for each further one.
const BACKOFF_FIRST: Duration = Duration::from_millis(200);

/// Longest pause: an outage that ends is noticed within this time.
const BACKOFF_MAX: Duration = Duration::from_secs(20);

/// How long to try again what may succeed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Somebody is waiting for the answer.
    UpTo(Duration),
    /// Until it succeeds or the store says no.
    Unlimited,
}

/// An outage under way.
#[derive(Debug, Clone)]
pub struct Outage {
    /// When the first request failed.
    pub since: SystemTime,
    /// What the last failure was.
    pub reason: String,
    /// When the next attempt is due.
    pub next_attempt: SystemTime,
}

/// A store with patience. Cheap to clone; clones share the bound on requests and the outage.
#[derive(Debug, Clone)]
pub struct Link {
    store: Store,
    patience: Patience,
    shared: Arc<Shared>,
    activities: Activities,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    pace: Pace,
    outage: Mutex<Option<Outage>>,
    /// An outage has ended.
    restored: Notify,
}

impl Link {
    /// A link of unlimited patience with at most `connections` requests in flight.
    pub fn new(store: Store, clock: Clock, connections: usize) -> Self {
        Self {
            store,
            patience: Patience::Unlimited,
            shared: Arc::new(Shared {
                clock,
                pace: Pace::new(connections),
                outage: Mutex::new(None),
                restored: Notify::new(),
            }),
            activities: Activities::default(),
        }
    }

    /// The same link, which counts there what it waits for on behalf of the data.
    #[must_use]
    pub fn with_activities(&self, activities: &Activities) -> Self {
        Self { activities: activities.clone(), ..self.clone() }
    }

    /// The same link for somebody with other patience.
    #[must_use]
    pub fn with_patience(&self, patience: Patience) -> Self {
        Self { patience, ..self.clone() }
    }

    /// What this is a link to.
    pub fn identity(&self) -> &StoreIdentity {
        self.store.identity()
    }

    /// The outage under way, if the last request failed.
    pub fn outage(&self) -> Option<Outage> {
        self.shared.outage.lock().clone()
    }

    /// How many requests may be on their way at once: fewer than at the start after the store asked
    /// for fewer.
    pub fn requests_at_once(&self) -> usize {
        self.shared.pace.limit()
    }

    /// [`Store::put`].
    pub async fn put(
        &self,
        at: &Location,
        body: Bytes,
        condition: PutCondition,
    ) -> Result<Version, StoreError> {
        let write_id = match condition {
            PutCondition::Always => None,
            PutCondition::Absent | PutCondition::Matches(_) => Some(WriteId::new()),
        };
        let mut is_lost = false;
        let mut attempts = Attempts::new(self);
        loop {
            let put = || self.store.put_as(at, body.clone(), condition.clone(), write_id.as_ref());
            match (attempts.once(put).await, &write_id) {
                (Err(error @ StoreError::Conflict { .. }), Some(id)) if is_lost => {
                    return match self.retry(|| self.store.written_by(at)).await {
                        Ok((Some(found), version)) if found == *id => Ok(version),
                        _ => Err(error),
                    };
                }
                (Err(error), _) if attempts.again(&error).await => is_lost = true,
                (answer, _) => return attempts.done(answer),
            }
        }
    }

    /// [`Store::put_large`]. What has arrived of it is not sent again, unless the store has forgotten
    /// the upload.
    pub async fn put_large<R>(
        &self,
        at: &Location,
        size: u64,
        read: R,
        in_flight: usize,
    ) -> Result<Version, PutLargeError>
    where
        R: Fn(Range<u64>) -> std::io::Result<Bytes> + Clone + Send + Sync + 'static,
    {
        let mut attempts = Attempts::new(self);
        loop {
            match self.store.put_large(at, size, read.clone(), in_flight, self).await {
                Err(PutLargeError::Store(error)) => {
                    if !attempts.again(&error).await {
                        return attempts.done(Err(error)).map_err(PutLargeError::Store);
                    }
                }
                answer => return answer,
            }
        }
    }

    /// [`Store::get`].
    pub async fn get(
        &self,
        at: &Location,
        range: Option<Range<u64>>,
    ) -> Result<Fetched, StoreError> {
        self.retry(|| self.store.get(at, range.clone())).await
    }

    /// [`Store::head`].
    pub async fn head(&self, at: &Location) -> Result<ObjectAttributes, StoreError> {
        self.retry(|| self.store.head(at)).await
    }

    /// [`Store::list_folder`].
    pub async fn list_folder(&self, folder: &Location) -> Result<Listing, StoreError> {
        self.retry(|| self.store.list_folder(folder)).await
    }

    /// One page of [`Store::list_below`].
    pub async fn list_below(
        &self,
        folder: &Location,
        after: Option<PageToken>,
    ) -> Result<Page, StoreError> {
        self.retry(|| self.store.list_below(folder, after.clone())).await
    }

    /// [`Store::delete`].
    pub async fn delete(&self, at: &Location) -> Result<(), StoreError> {
        self.retry(|| self.store.delete(at)).await
    }

    /// [`Store::delete_many`]; what failed in passing is asked for again.
    pub async fn delete_many(&self, at: Vec<Location>) -> Vec<(Location, Result<(), StoreError>)> {
        let mut done = Vec::with_capacity(at.len());
        let mut left = at;
        let mut attempts = Attempts::new(self);
        while !left.is_empty() {
            let answers = {
                let _place = self.place().await;
                self.store.delete_many(&left).await
            };
            let (passing, settled): (Vec<_>, Vec<_>) = left
                .into_iter()
                .zip(answers)
                .partition(|(_, answer)| answer.as_ref().is_err_and(StoreError::is_passing));
            done.extend(settled);
            let first = passing.iter().find_map(|(_, answer)| answer.as_ref().err().cloned());
            match first {
                Some(error) if attempts.again(&error).await => {
                    left = passing.into_iter().map(|(location, _)| location).collect();
                }
                _ => {
                    done.extend(passing);
                    break;
                }
            }
        }
        done
    }

    /// [`Store::copy`].
    pub async fn copy(&self, from: &Location, to: &Location) -> Result<(), StoreError> {
        self.retry(|| self.store.copy(from, to)).await
    }

    /// A place among the requests in flight. Who waits for an answer does not queue behind uploads.
    async fn place(&self) -> Option<Place<'_>> {
        match self.patience {
            Patience::UpTo(_) => None,
            Patience::Unlimited => Some(self.shared.pace.enter().await),
        }
    }

    async fn retry<T, F>(&self, operation: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut attempts = Attempts::new(self);
        loop {
            match attempts.once(&operation).await {
                Err(error) if attempts.again(&error).await => {}
                answer => return attempts.done(answer),
            }
        }
    }
}

impl Persist for Link {
    fn persist<'a, T: Send + 'a>(
        &'a self,
        request: &'a (dyn Fn() -> Answer<'a, T> + Send + Sync),
    ) -> Answer<'a, T> {
        self.retry(request).boxed()
    }
}

/// The attempts at one operation.
struct Attempts<'a> {
    link: &'a Link,
    began: Instant,
    pause: Duration,
    /// Somebody who looks something up is not on the way of the data.
    _at_work: Option<AtWork>,
}

impl<'a> Attempts<'a> {
    fn new(link: &'a Link) -> Self {
        let is_data = link.patience == Patience::Unlimited;
        Self {
            link,
            began: link.shared.clock.now(),
            pause: BACKOFF_FIRST,
            _at_work: is_data.then(|| link.activities.enter(Activity::Network)),
        }
    }

    /// One attempt, which the pace of the next ones depends on.
    async fn once<T, F>(&self, operation: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let place = self.link.place().await;
        let answer = operation().await;
        if let Some(place) = &place {
            match &answer {
                Ok(_) => place.went_well(),
                Err(error) if error.is_slow_down() => place.slow_down(),
                Err(_) => {}
            }
        }
        answer
    }

    /// After a failure: waits and answers true if the operation is to be tried again.
    async fn again(&mut self, error: &StoreError) -> bool {
        let Shared { clock, restored, .. } = &*self.link.shared;
        if !error.is_passing() {
            return false;
        }
        // Full jitter, so that many requests that failed together do not come back together.
        let pause = self.pause.mul_f64(fastrand::f64());
        let restored = restored.notified();
        tokio::pin!(restored);
        restored.as_mut().enable();
        if !error.is_slow_down() {
            self.note(error, pause);
        }
        if let Patience::UpTo(limit) = self.link.patience
            && clock.now().duration_since(self.began) + pause > limit
        {
            return false;
        }
        self.link.store.counters().retried.add(1);
        tokio::select! {
            () = clock.sleep(pause) => {}
            // Another request got through: no need to wait out a long pause. A store that asks for
            // fewer requests has not been away.
            () = restored, if !error.is_slow_down() => {
                clock.sleep(BACKOFF_FIRST.min(pause).mul_f64(fastrand::f64())).await;
            }
        }
        self.pause = (self.pause * 2).min(BACKOFF_MAX);
        true
    }

    fn note(&self, error: &StoreError, pause: Duration) {
        let now = self.link.shared.clock.wall();
        let mut outage = self.link.shared.outage.lock();
        if outage.is_none() {
            tracing::warn!(%error, "the store does not answer as it should; trying again");
        }
        let since = outage.as_ref().map_or(now, |outage| outage.since);
        // Of all the requests that wait, the first one tells.
        let others = outage.as_ref().map(|outage| outage.next_attempt).filter(|at| *at > now);
        let own = now + pause;
        let next_attempt = others.map_or(own, |others| others.min(own));
        *outage = Some(Outage { since, reason: error.to_string(), next_attempt });
    }

    /// After an answer that counts: an outage is over if the store answered at all.
    fn done<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if !answer.as_ref().is_err_and(StoreError::is_passing) {
            let outage = self.link.shared.outage.lock().take();
            if outage.is_some() {
                tracing::info!("the store answers again");
                self.link.shared.restored.notify_waiters();
            }
        }
        answer
    }
}
