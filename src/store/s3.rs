//! S3 and what speaks its protocol: address, region and signing from options, environment and
//! profile.

use std::sync::Arc;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::{ClientOptions, RetryConfig};

use super::credentials::{Credentials, ProfileKeys, Resolved};
use super::open::OpenError;
use super::options::StoreOptions;
use super::transport::Connector;
use super::url::StoreUrl;

/// What a request to S3 needs to know about the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct S3Address {
    /// `None` is Amazon.
    pub(super) endpoint: Option<String>,
    pub(super) region: String,
    /// Whether someone chose the region.
    pub(super) region_given: bool,
    pub(super) path_style: bool,
}

/// Encryption and billing, passed on as the library understands them.
const PASSED_ON: [&str; 4] = [
    "AWS_REQUEST_PAYER",
    "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SSE_KMS_KEY_ID",
    "AWS_SSE_BUCKET_KEY_ENABLED",
];

impl S3Address {
    /// From options first, then the environment, then the profile.
    pub(super) fn resolve(url: &StoreUrl, options: &StoreOptions, resolved: &Resolved) -> Self {
        let environment = |name| options.environment.get(name);
        let profile = |name| resolved.profile.get(name);
        let endpoint = options
            .endpoint_url
            .as_deref()
            .or_else(|| environment("AWS_ENDPOINT_URL_S3"))
            .or_else(|| environment("AWS_ENDPOINT_URL"))
            .or_else(|| profile("endpoint_url"))
            .map(|endpoint| endpoint.trim_end_matches('/').to_owned());
        let region = options
            .region
            .as_deref()
            .or_else(|| environment("AWS_REGION"))
            .or_else(|| environment("AWS_DEFAULT_REGION"))
            .or_else(|| profile("region"));
        // A dot in the bucket's name does not fit the certificate of `*.s3.REGION.amazonaws.com`.
        let path_style =
            options.path_style.unwrap_or_else(|| endpoint.is_some() || url.bucket().contains('.'));
        Self {
            endpoint,
            region: region.unwrap_or("us-east-1").to_owned(),
            region_given: region.is_some(),
            path_style,
        }
    }

    /// How host and port of this service end.
    pub(super) fn host(&self) -> String {
        match &self.endpoint {
            Some(endpoint) => host_of(endpoint).to_owned(),
            None => format!("s3.{}.amazonaws.com", self.region),
        }
    }

    /// With the bucket where the client library expects it in the host name.
    fn endpoint_for(&self, bucket: &str) -> Option<String> {
        let endpoint = self.endpoint.as_ref()?;
        match (self.path_style, endpoint.split_once("://")) {
            (false, Some((scheme, rest))) => Some(format!("{scheme}://{bucket}.{rest}")),
            _ => Some(endpoint.clone()),
        }
    }
}

/// Host and port of a URL.
pub(super) fn host_of(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// Clients of one bucket that share connections and credentials.
pub(super) struct S3Clients {
    /// Deletes one by one.
    pub(super) single: AmazonS3,
    /// Deletes up to 1,000 at once.
    pub(super) bulk: AmazonS3,
}

/// Builds the clients of one bucket. Nothing is sent yet.
pub(super) fn build(
    url: &StoreUrl,
    options: &StoreOptions,
    resolved: &Resolved,
    address: &S3Address,
    connector: Connector,
) -> Result<S3Clients, OpenError> {
    let insecure = address.endpoint.as_ref().is_some_and(|e| e.starts_with("http://"));
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(url.bucket())
        .with_region(&address.region)
        .with_virtual_hosted_style_request(!address.path_style)
        .with_allow_http(insecure)
        .with_client_options(ClientOptions::new().with_allow_http(insecure))
        .with_retry(no_retry())
        .with_http_connector(connector);
    if let Some(endpoint) = address.endpoint_for(url.bucket()) {
        builder = builder.with_endpoint(endpoint);
    }
    builder = match &resolved.credentials {
        Credentials::Anonymous => builder.with_skip_signature(true),
        Credentials::Static(keys) => {
            let builder =
                builder.with_access_key_id(&keys.key_id).with_secret_access_key(&keys.secret);
            match &keys.token {
                Some(token) => builder.with_token(token),
                None => builder,
            }
        }
        Credentials::Profile(keys) => {
            let keys = ProfileKeys::new(options, &resolved.profile, keys);
            builder.with_credentials(Arc::new(keys))
        }
        Credentials::Role(variables) => pass_on(builder, url, options, variables)?,
        Credentials::Instance => {
            pass_on(builder, url, options, &["AWS_METADATA_ENDPOINT", "AWS_IMDSV1_FALLBACK"])?
        }
    };
    builder = pass_on(builder, url, options, &PASSED_ON)?;
    let settings = |error| OpenError::settings(url, &error);
    let single = builder.clone().with_disable_bulk_delete(true).build().map_err(settings)?;
    let bulk = builder.with_credentials(single.credentials().clone()).build().map_err(settings)?;
    Ok(S3Clients { single, bulk })
}

fn pass_on(
    mut builder: AmazonS3Builder,
    url: &StoreUrl,
    options: &StoreOptions,
    variables: &[&str],
) -> Result<AmazonS3Builder, OpenError> {
    for name in variables {
        let Some(value) = options.environment.get(name) else { continue };
        let key: AmazonS3ConfigKey =
            name.to_ascii_lowercase().parse().map_err(|error| OpenError::settings(url, &error))?;
        builder = builder.with_config(key, value);
    }
    Ok(builder)
}

/// Retrying is the caller's: it knows the deadline, and what a lost reply may have done.
pub(super) fn no_retry() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        retry_timeout: std::time::Duration::ZERO,
        ..RetryConfig::default()
    }
}
