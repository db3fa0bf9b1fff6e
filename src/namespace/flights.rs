//! One request for everybody who wants the same thing at the same time.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;

type Running<K, T> = Arc<Mutex<HashMap<K, Shared<BoxFuture<'static, T>>>>>;

/// Requests under way, by what they ask for.
pub(super) struct Flights<K, T>(Running<K, T>);

impl<K, T> Flights<K, T>
where
    K: Hash + Eq + Clone + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(HashMap::new())))
    }

    /// Waits for the request that is under way for `key`, or for `start`.
    pub(super) async fn join<F>(&self, key: K, start: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        let flight = {
            let mut running = self.0.lock();
            if let Some(flight) = running.get(&key) {
                flight.clone()
            } else {
                let (request, all, own) = (start(), Arc::clone(&self.0), key.clone());
                let flight = async move {
                    let answer = request.await;
                    all.lock().remove(&own);
                    answer
                };
                let flight = flight.boxed().shared();
                running.insert(key, flight.clone());
                flight
            }
        };
        flight.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn those_who_come_while_a_request_runs_share_it_and_later_ones_do_not() {
        let flights = Flights::<&str, u32>::new();
        let (started, go) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let request = || {
            let (started, go) = (Arc::clone(&started), Arc::clone(&go));
            async move {
                let number = started.fetch_add(1, Ordering::SeqCst);
                go.notified().await;
                number
            }
        };
        let both = futures::future::join(flights.join("a", request), flights.join("a", request));
        tokio::pin!(both);
        assert!(futures::poll!(&mut both).is_pending());
        go.notify_one();
        assert_eq!(both.await, (0, 0));
        go.notify_one();
        assert_eq!(flights.join("a", request).await, 1);
    }
}
