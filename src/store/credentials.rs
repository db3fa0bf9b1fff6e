//! Which credentials a request to S3 is signed with, in the order of the AWS command line:
//! a profile that was asked for, keys in the environment, the profile of the environment or
//! `default`, a web identity, a container's role, the role of the instance.
//!
//! Those of a role are renewed by the client library before they expire. Those of a profile are read
//! again whenever its files change, as the tools that write temporary keys there expect. Those of the
//! environment cannot change for this process.
//!
//! Every source that was looked at is remembered, so that an error can name them all.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use parking_lot::Mutex;

use super::options::StoreOptions;
use super::profile::{Keys, Profile, ProfileError};

/// The source that was found.
pub(super) enum Credentials {
    /// Requests are not signed.
    Anonymous,
    /// Keys that this process cannot get anew.
    Static(Keys),
    /// Keys in files, which are read again when they change.
    Profile(Keys),
    /// The client library fetches and renews them, told by these variables.
    Role(&'static [&'static str]),
    /// The role of the virtual machine, asked for at its metadata address.
    Instance,
}

impl Credentials {
    /// Whether others may be had once these have expired.
    pub(super) const fn are_renewed(&self) -> bool {
        matches!(self, Self::Profile(_) | Self::Role(_) | Self::Instance)
    }
}

/// Credentials and the settings of the profile they may come from.
pub(super) struct Resolved {
    pub(super) credentials: Credentials,
    pub(super) profile: Profile,
    /// Sources in the order they were looked at, each with what was found there.
    pub(super) tried: Vec<String>,
}

const WEB_IDENTITY: &[&str] = &[
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
];
const TASK: &[&str] = &["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
const POD: &[&str] =
    &["AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];

/// Finds the credentials; touches files but never the network.
pub(super) fn resolve(options: &StoreOptions) -> Result<Resolved, ProfileError> {
    let environment = &options.environment;
    let profile = Profile::load(options.profile.as_deref(), environment)?;
    let mut tried = Vec::new();
    let credentials = find(options, &profile, &mut tried)?;
    Ok(Resolved { credentials, profile, tried })
}

fn find(
    options: &StoreOptions,
    profile: &Profile,
    tried: &mut Vec<String>,
) -> Result<Credentials, ProfileError> {
    let environment = &options.environment;
    if options.no_sign_request {
        tried.push("none, as asked (anonymous requests)".to_owned());
        return Ok(Credentials::Anonymous);
    }
    if options.profile.is_none() {
        let key_id = environment.get("AWS_ACCESS_KEY_ID");
        if let (Some(key_id), Some(secret)) = (key_id, environment.get("AWS_SECRET_ACCESS_KEY")) {
            tried.push("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (used)".to_owned());
            let token = environment.get("AWS_SESSION_TOKEN").map(str::to_owned);
            let (key_id, secret) = (key_id.to_owned(), secret.to_owned());
            return Ok(Credentials::Static(Keys { key_id, secret, token }));
        }
        tried.push("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (not set)".to_owned());
    }
    let [first, second] = &profile.files;
    let place =
        format!("profile `{}` in {} and {}", profile.name, first.display(), second.display());
    if let Some(keys) = profile.keys()? {
        tried.push(format!("{place} (used)"));
        return Ok(Credentials::Profile(keys));
    }
    tried.push(format!("{place} (no keys there)"));
    for (what, variables, needed) in
        [("web identity", WEB_IDENTITY, 2), ("container role", TASK, 1), ("pod identity", POD, 2)]
    {
        let wanted = variables.get(..needed).unwrap_or_default();
        if wanted.iter().all(|name| environment.get(name).is_some()) {
            tried.push(format!("{what} ({} set)", wanted.join(" and ")));
            return Ok(Credentials::Role(variables));
        }
        tried.push(format!("{what} ({} not set)", wanted.join(" and ")));
    }
    tried.push("the instance's role, at its metadata address".to_owned());
    Ok(Credentials::Instance)
}

/// The keys of a profile, as its files have them now.
#[derive(Debug)]
pub(super) struct ProfileKeys {
    options: StoreOptions,
    files: [PathBuf; 2],
    current: Mutex<(FileStamps, Arc<AwsCredential>)>,
}

/// When and how large each file of a profile was.
type FileStamps = [Option<(SystemTime, u64)>; 2];

impl ProfileKeys {
    pub(super) fn new(options: &StoreOptions, profile: &Profile, keys: &Keys) -> Self {
        let files = profile.files.clone();
        let current = Mutex::new((stamps(&files), credential(keys)));
        Self { options: options.clone(), files, current }
    }
}

#[async_trait]
impl CredentialProvider for ProfileKeys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut current = self.current.lock();
        // Two calls of stat(2) for a request are nothing.
        let now = stamps(&self.files);
        if now != current.0 {
            let options = &self.options;
            let profile = Profile::load(options.profile.as_deref(), &options.environment);
            match profile.and_then(|profile| profile.keys()) {
                Ok(Some(keys)) => {
                    tracing::info!("the credentials were read again");
                    *current = (now, credential(&keys));
                }
                // Somebody may be writing them: the former ones hold until they are there.
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "the credentials could not be read again"),
            }
        }
        Ok(Arc::clone(&current.1))
    }
}

fn credential(keys: &Keys) -> Arc<AwsCredential> {
    Arc::new(AwsCredential {
        key_id: keys.key_id.clone(),
        secret_key: keys.secret.clone(),
        token: keys.token.clone(),
    })
}

fn stamps(files: &[PathBuf; 2]) -> FileStamps {
    let stamp = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.each_ref().map(|path| stamp(path))
}
