//! The requests a test server got, in the order of their events.

use bytes::Bytes;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use zarrmount::telemetry::counters::RequestClass;

/// A request as the server saw it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LoggedRequest {
    /// Number of the event of its arrival; arrivals and answers count in one sequence.
    pub(crate) arrived: u64,
    /// Number of the event of its answer; `None` while it is being served. `a.answered <
    /// Some(b.arrived)` says that `b` was sent after `a` was answered.
    pub(crate) answered: Option<u64>,
    pub(crate) class: RequestClass,
    pub(crate) method: String,
    /// Decoded key without the bucket; for a listing its prefix, for a bulk delete empty.
    pub(crate) key: String,
    /// Query as it was sent.
    pub(crate) query: String,
    /// `If-Match` or `If-None-Match`, such as `If-None-Match: *`.
    pub(crate) condition: Option<String>,
    /// `Authorization`, or empty.
    pub(crate) authorization: String,
    /// `Range`, such as `bytes=0-9`.
    pub(crate) range: Option<String>,
    /// Of the body.
    pub(crate) bytes: usize,
    /// Of the body: equal for equal bodies.
    pub(crate) digest: u128,
    /// The body of a Zarr metadata document, or of a bulk delete.
    pub(crate) document: Option<Bytes>,
    /// What the server decided, also if its reply was lost.
    pub(crate) status: Option<u16>,
    /// A fault kept the reply from the client.
    pub(crate) reply_lost: bool,
}

impl LoggedRequest {
    /// From what comes before the body.
    pub(super) fn new(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let class = class_of(parts, &query);
        let path = parts.uri.path().trim_start_matches('/');
        let key = path.split_once('/').map_or("", |(_bucket, key)| key);
        let key = match class {
            RequestClass::List => value_of(&query, "prefix"),
            _ => decoded(key),
        };
        let header = |name: &str| Some(parts.headers.get(name)?.to_str().ok()?.to_owned());
        let condition = ["If-Match", "If-None-Match"]
            .iter()
            .find_map(|name| Some(format!("{name}: {}", header(name)?)));
        Self {
            arrived: 0,
            answered: None,
            class,
            method: parts.method.to_string(),
            key,
            query,
            condition,
            authorization: header("Authorization").unwrap_or_default(),
            range: header("Range"),
            bytes: header("Content-Length").and_then(|n| n.parse().ok()).unwrap_or_default(),
            digest: 0,
            document: None,
            status: None,
            reply_lost: false,
        }
    }

    pub(super) fn with_body(mut self, body: &Bytes) -> Self {
        self.bytes = body.len();
        self.digest = digest(body);
        let name = self.key.rsplit('/').next().unwrap_or_default();
        if matches!(name, "zarr.json" | ".zarray" | ".zgroup" | ".zattrs" | ".zmetadata")
            || self.class == RequestClass::Delete
        {
            self.document = Some(body.clone());
        }
        self
    }

    /// The keys that it deletes, without the bucket.
    pub(crate) fn deleted_keys(&self) -> Vec<String> {
        match (&self.class, self.method.as_str()) {
            (RequestClass::Delete, "DELETE") => vec![self.key.clone()],
            (RequestClass::Delete, _) => {
                let body = self.document.clone().unwrap_or_default();
                let text = String::from_utf8_lossy(&body).into_owned();
                let keys = text.split("<Key>").skip(1);
                keys.filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned())).collect()
            }
            _ => vec![],
        }
    }

    /// The store did it.
    pub(crate) fn is_done(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// What [`LoggedRequest::digest`] is of a body.
pub(crate) fn digest(body: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(body)
}

fn class_of(parts: &Parts, query: &str) -> RequestClass {
    let has = |name: &str| {
        query.split('&').any(|pair| pair.split('=').next().is_some_and(|key| key == name))
    };
    match parts.method.as_str() {
        _ if has("uploads") || has("uploadId") => RequestClass::Multipart,
        "PUT" if parts.headers.contains_key("x-amz-copy-source") => RequestClass::Copy,
        "PUT" => RequestClass::Put,
        "GET" if has("list-type") => RequestClass::List,
        "GET" => RequestClass::Get,
        "HEAD" => RequestClass::Head,
        "POST" if has("delete") => RequestClass::Delete,
        "DELETE" => RequestClass::Delete,
        _ => RequestClass::Other,
    }
}

fn value_of(query: &str, name: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value);
    decoded(&value.unwrap_or_default().replace('+', " "))
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
