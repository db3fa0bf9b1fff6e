//! The one place that starts background tasks, so that none is forgotten or dies in silence.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Starts `future` on `runtime`; a panic in it is logged with the task's name and ends only it.
#[allow(clippy::disallowed_methods, reason = "the wrapper that others must use")]
pub fn spawn_on<F>(runtime: &Handle, name: &'static str, future: F) -> JoinHandle<Option<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    runtime.spawn(async move {
        let outcome = AssertUnwindSafe(future).catch_unwind().await;
        if outcome.is_err() {
            tracing::error!(task = name, "a background task panicked; this is a defect");
        }
        outcome.ok()
    })
}

/// [`spawn_on`] the current runtime.
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<Option<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_on(&Handle::current(), name, future)
}

/// Runs blocking or CPU-bound work off the async threads. `None` if it panicked (logged).
pub async fn blocking<T, W>(name: &'static str, work: W) -> Option<T>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(output) => Some(output),
        Err(error) => {
            tracing::error!(task = name, %error, "blocking work ended early; this is a defect");
            None
        }
    }
}
