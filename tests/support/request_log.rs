//! The requests a test server got, in the order of their events.

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
    /// `Range`, such as `bytes=0-9`.
    pub(crate) range: Option<String>,
    /// Of the body.
    pub(crate) bytes: usize,
    /// What the server decided, also if its reply was lost.
    pub(crate) status: Option<u16>,
    /// A fault kept the reply from the client.
    pub(crate) reply_lost: bool,
}

impl LoggedRequest {
    pub(super) fn new(parts: &Parts, bytes: usize) -> Self {
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
            range: header("Range"),
            bytes,
            status: None,
            reply_lost: false,
        }
    }
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
