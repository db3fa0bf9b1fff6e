//! Which credentials a request to S3 is signed with, in the order of the AWS command line:
//! a profile that was asked for, keys in the environment, the profile of the environment or
//! `default`, a web identity, a container's role, the role of the instance.
//!
//! Every source that was looked at is remembered, so that an error can name them all.

use super::options::StoreOptions;
use super::profile::{Keys, Profile, ProfileError};

/// The source that was found.
pub(super) enum Credentials {
    /// Requests are not signed.
    Anonymous,
    /// Fixed keys.
    Static(Keys),
    /// The client library fetches and renews them, told by these variables.
    Role(&'static [&'static str]),
    /// The role of the virtual machine, asked for at its metadata address.
    Instance,
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
        return Ok(Credentials::Static(keys));
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
