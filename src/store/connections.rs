//! Counts connections where they are made, below the pool.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::telemetry::counters::StoreCounters;

tokio::task_local! {
    /// Set once a connection was made for the request that is being awaited.
    static OPENED: Arc<AtomicBool>;
}

/// Awaits `request`; `opened` tells afterwards whether a connection was made for it. A connection
/// that lost the race against one that became free is finished in another task: it counts as
/// opened, and the request as reusing.
pub(super) async fn watching_for_a_connection<F: Future>(
    opened: &Arc<AtomicBool>,
    request: F,
) -> F::Output {
    OPENED.scope(Arc::clone(opened), request).await
}

/// A layer over the connector of the HTTP client.
#[derive(Clone)]
pub(super) struct CountConnections(Arc<StoreCounters>);

impl CountConnections {
    pub(super) const fn new(counters: Arc<StoreCounters>) -> Self {
        Self(counters)
    }
}

impl<S> Layer<S> for CountConnections {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, counters: Arc::clone(&self.0) }
    }
}

/// A connector that counts.
#[derive(Clone)]
pub(super) struct Counted<S> {
    inner: S,
    counters: Arc<StoreCounters>,
}

impl<S, Target> Service<Target> for Counted<S>
where
    S: Service<Target>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, target: Target) -> Self::Future {
        let connecting = self.inner.call(target);
        let counters = Arc::clone(&self.counters);
        Box::pin(async move {
            let connection = connecting.await?;
            counters.connections_opened.add(1);
            // Fails in a task of its own, where no request waits.
            let _request_waits =
                OPENED.try_with(|opened| opened.store(true, Ordering::Relaxed)).is_ok();
            Ok(connection)
        })
    }
}
