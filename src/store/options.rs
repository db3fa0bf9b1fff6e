//! What a user can set about the connection to a store, and the environment it is read from.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the connection to a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Address of the service where it is not the provider's own, such as `http://localhost:9000`.
    pub endpoint_url: Option<String>,
    /// Region of an S3 bucket.
    pub region: Option<String>,
    /// Profile in `~/.aws/credentials` and `~/.aws/config`; wins over keys in the environment.
    pub profile: Option<String>,
    /// Send anonymous requests and look for no credentials.
    pub no_sign_request: bool,
    /// PEM file of certificate authorities to trust besides those of the system.
    pub ca_bundle: Option<PathBuf>,
    /// Bucket in the path (`true`) or in the host name (`false`) of an S3 address. By default in
    /// the path with an `endpoint_url`, and in the host name at Amazon.
    pub path_style: Option<bool>,
    /// Open connections kept for reuse.
    pub connections: usize,
    /// Longest wait for a connection, with its TLS handshake.
    pub connect_timeout: Duration,
    /// Longest time in which a request may make no progress: no byte sent and none received.
    pub stall_timeout: Duration,
    /// Longest time for [`Store::open`](super::Store::open) to find out whether the store answers.
    pub open_timeout: Duration,
    /// Where `AWS_*`, `HOME` and the like are read.
    pub environment: Environment,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            endpoint_url: None,
            region: None,
            profile: None,
            no_sign_request: false,
            ca_bundle: None,
            path_style: None,
            connections: 32,
            connect_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            open_timeout: Duration::from_secs(10),
            environment: Environment::process(),
        }
    }
}

/// Environment variables: those of the process, or given ones.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// A copy of this process's variables; those that are not Unicode are left out.
    pub fn process() -> Self {
        let unicode = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(unicode).collect())
    }

    /// These variables only.
    pub fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    /// The value of `name`; an empty one counts as not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The user's home folder.
    pub(super) fn home(&self) -> PathBuf {
        PathBuf::from(self.get("HOME").unwrap_or("/"))
    }
}

impl std::fmt::Debug for Environment {
    /// Names only: values hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
