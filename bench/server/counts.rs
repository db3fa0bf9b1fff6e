//! What clients asked for, by class.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::request::Parts;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::wire::Carried;

/// Counters since the last reset.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    classes: Mutex<BTreeMap<&'static str, u64>>,
    refused: AtomicU64,
    connections: AtomicU64,
    handshakes: AtomicU64,
    resumed: AtomicU64,
    in_flight: AtomicU64,
    in_flight_max: AtomicU64,
    pub(crate) carried: Arc<Carried>,
}

impl Counts {
    pub(crate) fn connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn handshake(&self, resumed: bool) {
        let counter = if resumed { &self.resumed } else { &self.handshakes };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request(&self, parts: &Parts) {
        *self.classes.lock().entry(class_of(parts)).or_default() += 1;
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.in_flight_max.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn answer(&self, status: http::StatusCode) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if status.is_server_error() || status == http::StatusCode::FORBIDDEN {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn told(&self) -> Value {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "classes": *self.classes.lock(),
            "refused": of(&self.refused),
            "connections": of(&self.connections),
            "handshakes": of(&self.handshakes),
            "resumed": of(&self.resumed),
            "in_flight_max": of(&self.in_flight_max),
            "bytes_in": of(&self.carried.bytes_in),
            "bytes_out": of(&self.carried.bytes_out),
        })
    }
}

/// The operation of the S3 API, by method and query.
fn class_of(parts: &Parts) -> &'static str {
    let query = parts.uri.query().unwrap_or_default();
    let has = |name: &str| {
        query.split('&').any(|pair| pair.split('=').next().unwrap_or_default() == name)
    };
    let key = parts.uri.path().trim_start_matches('/').split_once('/');
    let object = key.is_some_and(|(_bucket, key)| !key.is_empty());
    match parts.method.as_str() {
        _ if has("uploads") || has("uploadId") => "MULTIPART",
        "GET" if !object => "LIST",
        "GET" => "GET",
        "HEAD" => "HEAD",
        "PUT" if parts.headers.contains_key("x-amz-copy-source") => "COPY",
        "PUT" => "PUT",
        "POST" if has("delete") => "BULK DELETE",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}
