//! Checks on the request log that no metadata document precedes a chunk that it shows.

use std::collections::BTreeMap;

use zarrmount::telemetry::counters::RequestClass;

use crate::bucket::{Bucket, is_compared};
use crate::support::LoggedRequest;

/// A raw file whose close was answered before the event of this number.
pub(crate) struct Acknowledged {
    pub(crate) key: String,
    pub(crate) event: u64,
    pub(crate) digest: u128,
}

enum Event<'a> {
    Arrived(&'a LoggedRequest),
    Answered(&'a LoggedRequest),
}

/// What is wrong with the order of `log`, in words. `states` are what the bucket may be after a step.
pub(crate) fn violations(
    log: &[LoggedRequest],
    states: &[Bucket],
    raw: &[Acknowledged],
) -> Vec<String> {
    let mut events: Vec<(u64, Event<'_>)> = Vec::new();
    for request in log {
        events.push((request.arrived, Event::Arrived(request)));
        events.extend(request.answered.map(|at| (at, Event::Answered(request))));
    }
    events.sort_by_key(|(at, _)| *at);
    let mut there = BTreeMap::<String, u128>::new();
    let mut found = Vec::new();
    for (at, event) in events {
        match event {
            Event::Answered(request) if request.is_done() => {
                if request.class == RequestClass::Put {
                    there.insert(request.key.clone(), request.digest);
                }
                for key in request.deleted_keys() {
                    there.remove(&key);
                }
            }
            Event::Arrived(request) if is_document(request) => {
                let early = if request.key.starts_with("p/raw.zarr/") {
                    missing_raw(request, at, raw, &there)
                } else {
                    missing_of_dataset(request, states, &there)
                };
                found.extend(early.map(|missing| {
                    format!("{} was put at event {at} before {missing}", request.key)
                }));
            }
            Event::Arrived(_) | Event::Answered(_) => {}
        }
    }
    found
}

fn is_document(request: &LoggedRequest) -> bool {
    request.class == RequestClass::Put
        && request.key.ends_with("zarr.json")
        && is_compared(&request.key)
}

/// A raw document waits for all raw files below it that were closed before.
fn missing_raw(
    document: &LoggedRequest,
    at: u64,
    raw: &[Acknowledged],
    there: &BTreeMap<String, u128>,
) -> Option<String> {
    let folder = document.key.strip_suffix("zarr.json")?;
    let below = raw.iter().filter(|chunk| chunk.event < at && chunk.key.starts_with(folder));
    below
        .filter(|chunk| !chunk.key.ends_with("zarr.json"))
        .find(|chunk| there.get(&chunk.key) != Some(&chunk.digest))
        .map(|chunk| chunk.key.clone())
}

/// Of a dataset made from source files: the document belongs to one of the states, and everything
/// below it is there as in that state.
fn missing_of_dataset(
    document: &LoggedRequest,
    states: &[Bucket],
    there: &BTreeMap<String, u128>,
) -> Option<String> {
    let folder = document.key.strip_suffix("zarr.json")?;
    let mut reason = Some("anything: no state has this document".to_owned());
    for state in states {
        if state.0.get(&document.key) != Some(&document.digest) {
            continue;
        }
        let below =
            state.0.iter().filter(|(key, _)| key.starts_with(folder) && **key != document.key);
        let missing = below.clone().find(|(key, digest)| there.get(*key) != Some(digest));
        match missing {
            None => return None,
            Some((key, _)) => reason = Some(key.clone()),
        }
    }
    reason
}
