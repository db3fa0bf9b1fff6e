//! What happened on the wire during one operation, seen by the operation itself.
//!
//! The client library turns replies into errors without status or error code. Each operation
//! therefore runs inside an [`Exchange`] that the HTTP service below the library writes to; it is
//! found through the task, so operations running side by side never see each other's.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

use super::xml::ErrorReply;

/// Why no complete answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// No connection: name not found, refused, TLS.
    Unreachable,
    /// No progress for the stall timeout.
    Stalled,
    /// The connection ended in the middle.
    Interrupted,
}

/// A failed request.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure {
    /// HTTP status, if an answer came.
    pub(super) status: Option<u16>,
    /// The store's error code, or empty.
    pub(super) code: String,
    /// The store's words, or the system's.
    pub(super) message: String,
    /// Set if no complete answer came.
    pub(super) transport: Option<Transport>,
    /// It was not the store that failed, but a service that gives credentials.
    pub(super) elsewhere: bool,
    /// The credentials have expired, and others may come.
    pub(super) may_be_renewed: bool,
    /// Where S3 says the bucket lives.
    pub(super) region: Option<String>,
}

#[derive(Debug, Default)]
struct Seen {
    failure: Option<Failure>,
    unrepresentable: Vec<String>,
    kept: Vec<ErrorReply>,
    asked_elsewhere: bool,
}

/// Collects what the requests of one operation met.
#[derive(Debug, Clone, Default)]
pub(super) struct Exchange(Arc<Mutex<Seen>>);

tokio::task_local! {
    static CURRENT: Exchange;
}

impl Exchange {
    /// Runs `operation` so that its requests report here.
    pub(super) async fn run<F: Future>(&self, operation: F) -> F::Output {
        CURRENT.scope(self.clone(), operation).await
    }

    /// The exchange of the running operation; one that nobody reads outside of any.
    pub(super) fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// A request begins, to the store or `elsewhere`, such as for credentials.
    pub(super) fn begin(&self, elsewhere: bool) {
        self.0.lock().asked_elsewhere = elsewhere;
    }

    /// Whether the last request went to the store.
    pub(super) fn asked_elsewhere(&self) -> bool {
        self.0.lock().asked_elsewhere
    }

    /// The last failure wins.
    pub(super) fn fail(&self, failure: Failure) {
        let mut seen = self.0.lock();
        let elsewhere = seen.asked_elsewhere;
        seen.failure = Some(Failure { elsewhere, ..failure });
    }

    /// The failure of this operation.
    pub(super) fn take_failure(&self) -> Option<Failure> {
        self.0.lock().failure.take()
    }

    /// Keys left out of a listing.
    pub(super) fn leave_out(&self, keys: Vec<String>) {
        self.0.lock().unrepresentable.extend(keys);
    }

    /// The keys left out of a listing.
    pub(super) fn take_left_out(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unrepresentable)
    }

    /// Keys that a bulk delete did not remove.
    pub(super) fn keep(&self, kept: Vec<ErrorReply>) {
        self.0.lock().kept = kept;
    }

    /// The keys that a bulk delete did not remove.
    pub(super) fn take_kept(&self) -> Vec<ErrorReply> {
        std::mem::take(&mut self.0.lock().kept)
    }
}
