//! What is in a bucket, to compare.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::support::S3Server;
use crate::support::request_log::digest;

/// Keys with the digests of their objects. Receipts are left out: their names are random.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Bucket(pub(crate) BTreeMap<String, u128>);

impl Bucket {
    pub(crate) fn of(server: &S3Server) -> Self {
        let keys = server.keys().into_iter().filter(|key| is_compared(key));
        Self(keys.filter_map(|key| Some((key.clone(), digest(&server.object(&key)?)))).collect())
    }

    /// Without the objects at and below `path`.
    pub(crate) fn without(&self, path: &str) -> Self {
        let is_other = |key: &&String| **key != path && !key.starts_with(&format!("{path}/"));
        Self(self.0.iter().filter(|(key, _)| is_other(key)).map(|(k, d)| (k.clone(), *d)).collect())
    }

    /// What differs, in words.
    pub(crate) fn differences(&self, expected: &Self) -> String {
        let mut text = String::new();
        for key in expected.0.keys().filter(|key| !self.0.contains_key(*key)) {
            write!(text, "{key} is missing; ").unwrap();
        }
        for (key, digest) in &self.0 {
            match expected.0.get(key) {
                None => write!(text, "{key} is too much; ").unwrap(),
                Some(other) if other != digest => write!(text, "{key} differs; ").unwrap(),
                Some(_) => {}
            }
        }
        text
    }
}

/// Whether a key belongs to what is compared.
pub(crate) fn is_compared(key: &str) -> bool {
    !key.contains(".zarrmount/")
}
