//! What can go wrong between a client and the test server.

use std::sync::atomic::{AtomicU64, Ordering};

use super::request_log::LoggedRequest;

/// A failure of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 503 `SlowDown`; the store does nothing.
    SlowDown,
    /// 500 `InternalError`; the store does nothing.
    InternalError,
    /// 403 `AccessDenied`; the store does nothing.
    Denied,
    /// Any other status with this error code; the store does nothing.
    Reply(u16, &'static str),
    /// The connection closes before the store sees the request.
    ResetBefore,
    /// The store does what was asked, then the connection closes without a reply.
    ResetAfter,
    /// Status 200 and an error in the body, as S3 may answer a copy or the end of an upload.
    ErrorAfterOk(&'static str),
    /// Status 200 and this body; the store does nothing.
    Body(&'static str),
    /// Nothing ever comes.
    Stall,
    /// The store does what was asked, and answers after so many milliseconds.
    Slow(u64),
    /// The connection closes in the middle of a request's body, before the store sees it, or of the
    /// answer where the request has none.
    ResetInBody,
    /// A bit of the request's body is turned over on its way.
    Damage,
}

impl Fault {
    /// By the name that programs in other languages use.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "slow-down" => Self::SlowDown,
            "internal-error" => Self::InternalError,
            "denied" => Self::Denied,
            "expired" => Self::Reply(400, "ExpiredToken"),
            "reset-before" => Self::ResetBefore,
            "reset-in-body" => Self::ResetInBody,
            "reset-after" => Self::ResetAfter,
            "damage" => Self::Damage,
            "stall" => Self::Stall,
            "slow" => Self::Slow(500),
            _ => return None,
        })
    }
}

/// Every request gets `fault`.
pub(crate) fn always(fault: Fault) -> Rule {
    Box::new(move |_| Some(fault))
}

/// Decides on the fault of each request; must give the same answer on every run.
pub(crate) type Rule = Box<dyn Fn(&LoggedRequest) -> Option<Fault> + Send + Sync>;

/// The first `count` requests that `matches` get `fault`.
pub(crate) fn first(
    count: u64,
    fault: Fault,
    matches: impl Fn(&LoggedRequest) -> bool + Send + Sync + 'static,
) -> Rule {
    let left = AtomicU64::new(count);
    Box::new(move |request| {
        let take = |left: u64| left.checked_sub(1);
        let taken = matches(request)
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        taken.then_some(fault)
    })
}

/// About `per_mille` of 1,000 requests get one of `faults`: which ones depends on `seed`, the
/// request's key and how often that key was asked for, and not on timing across keys.
pub(crate) fn randomly(seed: u64, per_mille: u64, faults: Vec<Fault>) -> Rule {
    let asked = parking_lot::Mutex::new(std::collections::HashMap::<String, u64>::new());
    Box::new(move |request| {
        let name = format!("{} {} {}", request.method, request.key, request.query);
        let mut asked = asked.lock();
        let times = asked.entry(name.clone()).or_default();
        *times += 1;
        let draw = mixed(seed, &name, *times);
        let which = usize::try_from(draw / 1000 % faults.len().max(1) as u64).unwrap();
        (draw % 1000 < per_mille).then(|| faults.get(which).copied()).flatten()
    })
}

/// FNV-1a: the same on every machine and compiler.
fn mixed(seed: u64, name: &str, times: u64) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes()).chain(times.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^ (hash >> 29)
}
