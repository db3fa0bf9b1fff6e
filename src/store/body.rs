//! Request and response bodies that count bytes and notice when they stop moving.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpErrorKind, HttpRequestBody, HttpResponseBody};
use tokio::time::Sleep;

use super::exchange::{Exchange, Failure, Transport};
use super::transport::{Stalled, deepest};
use crate::telemetry::counters::StoreCounters;

/// Bytes handed to the socket at a time, so that progress can be seen on a slow line.
const SLICE_BYTES: usize = 256 * 1024;

/// A request body that is sent in slices.
pub(super) struct Outgoing {
    body: HttpRequestBody,
    frame: Bytes,
    left: u64,
    progress: Arc<AtomicU64>,
    counters: Arc<StoreCounters>,
}

impl Outgoing {
    /// `progress` grows with the bytes sent.
    pub(super) fn new(
        body: HttpRequestBody,
        progress: Arc<AtomicU64>,
        counters: Arc<StoreCounters>,
    ) -> Self {
        let left = body.content_length() as u64;
        Self { body, frame: Bytes::new(), left, progress, counters }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        while this.frame.is_empty() {
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => this.frame = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let slice = this.frame.split_to(this.frame.len().min(SLICE_BYTES));
        let bytes = slice.len() as u64;
        this.left = this.left.saturating_sub(bytes);
        this.progress.fetch_add(bytes, Ordering::Relaxed);
        this.counters.bytes_sent.add(bytes);
        Poll::Ready(Some(Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A response body that fails once nothing arrives for `stall_timeout`, and reports it.
pub(super) fn incoming(
    body: reqwest::Body,
    stall_timeout: Duration,
    exchange: Exchange,
    counters: Arc<StoreCounters>,
) -> HttpResponseBody {
    HttpResponseBody::new(Incoming { body, stall_timeout, stalled: None, exchange, counters })
}

struct Incoming {
    body: reqwest::Body,
    stall_timeout: Duration,
    /// Set while waiting.
    stalled: Option<Pin<Box<Sleep>>>,
    exchange: Exchange,
    counters: Arc<StoreCounters>,
}

impl Incoming {
    fn broken(&self, message: String, transport: Transport) {
        self.exchange.fail(Failure { message, transport: Some(transport), ..Failure::default() });
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.stalled = None;
                this.counters.bytes_received.add(frame.data_ref().map_or(0, Bytes::len) as u64);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                let cause = format!("the answer broke off: {}", deepest(&error));
                this.broken(cause, Transport::Interrupted);
                Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Interrupted, error))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let timeout = this.stall_timeout;
                let stalled =
                    this.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                ready!(stalled.as_mut().poll(context));
                this.broken(
                    format!("the answer stopped for {} s", timeout.as_secs()),
                    Transport::Stalled,
                );
                Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Timeout, Stalled))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
