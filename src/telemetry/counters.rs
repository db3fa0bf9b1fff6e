//! The counters of one mount. Every name is stable: `status --json` shows them as they stand here.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Reads the count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a request to the store was, in the terms of the S3 API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestClass {
    /// GET of an object or a range of it.
    Get,
    /// HEAD of an object.
    Head,
    /// A page of a listing.
    List,
    /// PUT of a whole object.
    Put,
    /// Creation, a part, completion or abort of a multipart upload.
    Multipart,
    /// DELETE of one object, or one bulk delete.
    Delete,
    /// A server-side copy.
    Copy,
    /// Anything else, such as a request for credentials.
    Other,
}

/// Requests, bytes and connections of one store client.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "the names are those of RequestClass")]
pub struct StoreCounters {
    pub get: Counter,
    pub head: Counter,
    pub list: Counter,
    pub put: Counter,
    pub multipart: Counter,
    pub delete: Counter,
    pub copy: Counter,
    pub other: Counter,
    /// Requests that were sent again after a failure that may pass.
    pub retried: Counter,
    /// Bytes of request bodies.
    pub bytes_sent: Counter,
    /// Bytes of response bodies.
    pub bytes_received: Counter,
    /// Connections opened, each with its TLS handshake where there is one.
    pub connections_opened: Counter,
    /// Requests that found an open connection in the pool.
    pub connections_reused: Counter,
}

impl StoreCounters {
    /// The counter of one class.
    pub fn of(&self, class: RequestClass) -> &Counter {
        match class {
            RequestClass::Get => &self.get,
            RequestClass::Head => &self.head,
            RequestClass::List => &self.list,
            RequestClass::Put => &self.put,
            RequestClass::Multipart => &self.multipart,
            RequestClass::Delete => &self.delete,
            RequestClass::Copy => &self.copy,
            RequestClass::Other => &self.other,
        }
    }

    /// All of them at one moment.
    pub fn snapshot(&self) -> StoreSnapshot {
        StoreSnapshot {
            get: self.get.get(),
            head: self.head.get(),
            list: self.list.get(),
            put: self.put.get(),
            multipart: self.multipart.get(),
            delete: self.delete.get(),
            copy: self.copy.get(),
            other: self.other.get(),
            retried: self.retried.get(),
            bytes_sent: self.bytes_sent.get(),
            bytes_received: self.bytes_received.get(),
            connections_opened: self.connections_opened.get(),
            connections_reused: self.connections_reused.get(),
        }
    }
}

/// [`StoreCounters`] at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[allow(missing_docs, reason = "the fields are those of StoreCounters")]
pub struct StoreSnapshot {
    pub get: u64,
    pub head: u64,
    pub list: u64,
    pub put: u64,
    pub multipart: u64,
    pub delete: u64,
    pub copy: u64,
    pub other: u64,
    pub retried: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    pub connections_opened: u64,
    pub connections_reused: u64,
}
