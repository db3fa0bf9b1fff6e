//! How many requests are on their way at once: as many as the user allows, and fewer while the store
//! asks for fewer.
//!
//! Halved at each 503 `SlowDown`, though only once for requests that were on their way together, and
//! raised by one for each round of good answers: the rule by which TCP shares a line.

use std::pin::pin;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The bound.
#[derive(Debug)]
pub(super) struct Pace {
    most: usize,
    state: Mutex<State>,
    /// A place may be free.
    freed: Notify,
}

#[derive(Debug)]
struct State {
    limit: usize,
    in_flight: usize,
    /// Requests begun so far.
    begun: u64,
    /// Requests begun when the limit was last halved.
    halved_at: u64,
    /// Good answers since the limit last changed.
    good: usize,
}

/// A place among the requests on their way.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pace: &'a Pace,
    number: u64,
}

impl Pace {
    /// At most `most` at once.
    pub(super) fn new(most: usize) -> Self {
        let limit = most.max(1);
        let state = State { limit, in_flight: 0, begun: 0, halved_at: 0, good: 0 };
        Self { most: limit, state: Mutex::new(state), freed: Notify::new() }
    }

    /// Waits for a place.
    pub(super) async fn enter(&self) -> Place<'_> {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Some(place) = self.try_enter() {
                return place;
            }
            freed.await;
        }
    }

    fn try_enter(&self) -> Option<Place<'_>> {
        let mut state = self.state.lock();
        if state.in_flight >= state.limit {
            return None;
        }
        state.in_flight += 1;
        state.begun += 1;
        Some(Place { pace: self, number: state.begun })
    }

    /// How many may be on their way now.
    pub(super) fn limit(&self) -> usize {
        self.state.lock().limit
    }
}

impl Place<'_> {
    /// The store asked for fewer requests.
    pub(super) fn slow_down(&self) {
        let mut state = self.pace.state.lock();
        if self.number > state.halved_at {
            state.limit = (state.limit / 2).max(1);
            state.halved_at = state.begun;
            state.good = 0;
        }
    }

    /// The store did what was asked.
    pub(super) fn went_well(&self) {
        let mut state = self.pace.state.lock();
        state.good += 1;
        if state.limit < self.pace.most && state.good >= state.limit {
            state.limit += 1;
            state.good = 0;
            drop(state);
            self.pace.freed.notify_one();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.pace.state.lock().in_flight -= 1;
        self.pace.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_bound_is_halved_once_for_requests_sent_together_and_comes_back_slowly() {
        let pace = Pace::new(8);
        let together: Vec<_> = [pace.enter().await, pace.enter().await, pace.enter().await].into();
        for place in &together {
            place.slow_down();
        }
        assert_eq!(pace.limit(), 4);
        drop(together);
        pace.enter().await.slow_down();
        assert_eq!(pace.limit(), 2);
        let mut rounds = vec![];
        while pace.limit() < 8 {
            pace.enter().await.went_well();
            rounds.push(pace.limit());
        }
        assert_eq!(rounds.len(), 2 + 3 + 4 + 5 + 6 + 7);
    }

    #[tokio::test]
    async fn no_more_than_the_bound_are_on_their_way_and_the_next_goes_when_one_ends() {
        let pace = Pace::new(2);
        let (first, _second) = (pace.enter().await, pace.enter().await);
        let mut third = pin!(pace.enter());
        assert!(futures::poll!(third.as_mut()).is_pending());
        drop(first);
        third.await;
    }
}
