//! Opening a store: one client is built, and one small listing finds out at once whether the
//! bucket is there and the credentials work.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use object_store::ClientOptions;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::memory::InMemory;
use parking_lot::Mutex;

use super::client::{Backend, StoreIdentity};
use super::credentials::{self, Credentials, Resolved};
use super::error::from_failure;
use super::error::{Operation, Reply, StoreError};
use super::exchange::Exchange;
use super::folder::Folder;
use super::location::Location;
use super::options::StoreOptions;
use super::profile::ProfileError;
use super::remote::Remote;
use super::s3::{self, S3Address, host_of, no_retry};
use super::transport::{Connector, TransportError, deepest};
use super::url::{Scheme, StoreUrl};
use crate::telemetry::counters::StoreCounters;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The profile cannot be used.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The HTTP client cannot be built.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// A setting makes no sense to the client.
    #[error("the settings for {url} do not work: {reason}")]
    Settings {
        /// The store.
        url: StoreUrl,
        /// What the client says.
        reason: String,
    },
    /// A local folder is missing, or cannot be read.
    #[error("cannot open {}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No credentials were found.
    #[error("found no credentials for {url}; looked at: {}", tried.join("; "))]
    NoCredentials {
        /// The store.
        url: StoreUrl,
        /// The sources, in order.
        tried: Vec<String>,
    },
    /// There is no such bucket.
    #[error("there is no bucket `{}`: {said}", url.bucket())]
    BucketMissing {
        /// The store.
        url: StoreUrl,
        /// The store's words.
        said: Box<Reply>,
    },
    /// The store does not accept the credentials, or they do not allow to list the bucket.
    #[error("{url} does not let us in: {said}; credentials: {}", tried.join("; "))]
    Denied {
        /// The store.
        url: StoreUrl,
        /// The sources of credentials, in order.
        tried: Vec<String>,
        /// The store's words.
        said: Box<Reply>,
    },
    /// The store does not answer, or not now.
    #[error("{at} does not answer: {reason}")]
    Unreachable {
        /// The address.
        at: String,
        /// What happened.
        reason: String,
    },
    /// The store refuses to list the bucket.
    #[error("{url} cannot be used: {said}")]
    Refused {
        /// The store.
        url: StoreUrl,
        /// The store's words.
        said: Box<Reply>,
    },
}

impl OpenError {
    pub(super) fn settings(url: &StoreUrl, error: &object_store::Error) -> Self {
        Self::Settings { url: url.clone(), reason: deepest(error) }
    }
}

/// What was built, before anyone asked whether it works.
struct Built {
    remote: Remote,
    endpoint: Option<String>,
    /// Where requests go, for messages.
    at: String,
    tried: Vec<String>,
    asks_instance: bool,
}

/// Builds the store behind `url` and asks it once.
pub(super) async fn open(
    url: &StoreUrl,
    options: &StoreOptions,
    counters: &Arc<StoreCounters>,
) -> Result<(Backend, StoreIdentity), OpenError> {
    let built = match url.scheme() {
        Scheme::File => return open_folder(url),
        Scheme::Memory => return Ok((Backend::Memory(memory(url)), identity(url, None))),
        Scheme::S3 => return open_s3(url, options, counters).await,
        Scheme::Gs => google(url, options, counters)?,
        Scheme::Az => azure(url, options, counters)?,
    };
    probe(url, options, &built).await.map_err(|(error, _)| error)?;
    Ok((Backend::Cloud(built.remote), identity(url, built.endpoint)))
}

fn identity(url: &StoreUrl, endpoint: Option<String>) -> StoreIdentity {
    let (bucket, prefix) = match url.folder() {
        Some(folder) => (folder.to_string_lossy().into_owned(), Location::root()),
        None => (url.bucket().to_owned(), url.prefix()),
    };
    StoreIdentity { scheme: url.scheme(), endpoint, bucket, prefix }
}

fn open_folder(url: &StoreUrl) -> Result<(Backend, StoreIdentity), OpenError> {
    let path = url.folder().unwrap_or_default();
    let folder = Folder::open(&path).map_err(|source| OpenError::Folder { path, source })?;
    let mut identity = identity(url, None);
    // Links resolved: the same folder is the same store.
    identity.bucket = folder.root.to_string_lossy().into_owned();
    Ok((Backend::Folder(Arc::new(folder)), identity))
}

/// The store in memory of this name, which lives as long as the process.
fn memory(url: &StoreUrl) -> Remote {
    static STORES: LazyLock<Mutex<HashMap<String, Arc<InMemory>>>> = LazyLock::new(Mutex::default);
    let store = Arc::clone(STORES.lock().entry(url.bucket().to_owned()).or_default());
    Remote {
        objects: Arc::<InMemory>::clone(&store),
        parts: store,
        pages: None,
        prefix: url.prefix(),
        bulk: None,
        generations: false,
    }
}

async fn open_s3(
    url: &StoreUrl,
    options: &StoreOptions,
    counters: &Arc<StoreCounters>,
) -> Result<(Backend, StoreIdentity), OpenError> {
    let resolved = credentials::resolve(options)?;
    let no_metadata = options.environment.get("AWS_EC2_METADATA_DISABLED") == Some("true");
    if matches!(resolved.credentials, Credentials::Instance) && no_metadata {
        return Err(OpenError::NoCredentials { url: url.clone(), tried: resolved.tried });
    }
    let mut address = S3Address::resolve(url, options, &resolved);
    let mut built = build_s3(url, options, counters, &resolved, &address)?;
    match probe(url, options, &built).await {
        Ok(()) => {}
        // Amazon says where the bucket lives; go there unless someone chose the region.
        Err((_, Some(region))) if !address.region_given && region != address.region => {
            address.region = region;
            built = build_s3(url, options, counters, &resolved, &address)?;
            probe(url, options, &built).await.map_err(|(error, _)| error)?;
        }
        Err((error, _)) => return Err(error),
    }
    Ok((Backend::Cloud(built.remote), identity(url, built.endpoint)))
}

fn build_s3(
    url: &StoreUrl,
    options: &StoreOptions,
    counters: &Arc<StoreCounters>,
    resolved: &Resolved,
    address: &S3Address,
) -> Result<Built, OpenError> {
    let renews = resolved.credentials.are_renewed();
    let connector = Connector::new(options, address.host(), renews, Arc::clone(counters))?;
    let clients = s3::build(url, options, resolved, address, connector)?;
    let single = Arc::new(clients.single);
    Ok(Built {
        remote: Remote {
            objects: Arc::<object_store::aws::AmazonS3>::clone(&single),
            parts: Arc::<object_store::aws::AmazonS3>::clone(&single),
            pages: Some(single),
            prefix: url.prefix(),
            bulk: Some(Arc::new(clients.bulk)),
            generations: false,
        },
        endpoint: address.endpoint.clone(),
        at: address.endpoint.clone().unwrap_or_else(|| address.host()),
        tried: resolved.tried.clone(),
        asks_instance: matches!(resolved.credentials, Credentials::Instance),
    })
}

/// Google, with the credentials of its own variables or of the machine.
fn google(
    url: &StoreUrl,
    options: &StoreOptions,
    counters: &Arc<StoreCounters>,
) -> Result<Built, OpenError> {
    let at = options.endpoint_url.as_deref().unwrap_or("https://storage.googleapis.com");
    let connector = Connector::new(options, host_of(at).to_owned(), true, Arc::clone(counters))?;
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(url.bucket())
        .with_skip_signature(options.no_sign_request)
        .with_client_options(ClientOptions::new().with_allow_http(at.starts_with("http://")))
        .with_retry(no_retry())
        .with_http_connector(connector);
    if let Some(endpoint) = &options.endpoint_url {
        builder = builder.with_base_url(endpoint);
    }
    let client = Arc::new(builder.build().map_err(|error| OpenError::settings(url, &error))?);
    Ok(Built {
        remote: Remote {
            objects: Arc::<object_store::gcp::GoogleCloudStorage>::clone(&client),
            parts: Arc::<object_store::gcp::GoogleCloudStorage>::clone(&client),
            pages: Some(client),
            prefix: url.prefix(),
            bulk: None,
            generations: true,
        },
        endpoint: options.endpoint_url.clone(),
        at: at.to_owned(),
        tried: vec![
            "GOOGLE_* variables".to_owned(),
            "application default credentials".to_owned(),
            "the machine's service account".to_owned(),
        ],
        asks_instance: false,
    })
}

/// Azure, with the account and credentials of its own variables.
fn azure(
    url: &StoreUrl,
    options: &StoreOptions,
    counters: &Arc<StoreCounters>,
) -> Result<Built, OpenError> {
    let account = options.environment.get("AZURE_STORAGE_ACCOUNT_NAME").unwrap_or_default();
    let standard = format!("https://{account}.blob.core.windows.net");
    let at = options.endpoint_url.clone().unwrap_or(standard);
    let connector = Connector::new(options, host_of(&at).to_owned(), true, Arc::clone(counters))?;
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(url.bucket())
        .with_skip_signature(options.no_sign_request)
        .with_allow_http(at.starts_with("http://"))
        .with_retry(no_retry())
        .with_http_connector(connector);
    if let Some(endpoint) = &options.endpoint_url {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let client = Arc::new(builder.build().map_err(|error| OpenError::settings(url, &error))?);
    Ok(Built {
        remote: Remote {
            objects: Arc::<object_store::azure::MicrosoftAzure>::clone(&client),
            parts: Arc::<object_store::azure::MicrosoftAzure>::clone(&client),
            pages: Some(client),
            prefix: url.prefix(),
            bulk: None,
            generations: false,
        },
        endpoint: Some(at.clone()),
        at,
        tried: vec!["AZURE_* variables".to_owned(), "the machine's managed identity".to_owned()],
        asks_instance: false,
    })
}

/// Lists one key. The second value of the error is the region S3 names.
async fn probe(
    url: &StoreUrl,
    options: &StoreOptions,
    built: &Built,
) -> Result<(), (OpenError, Option<String>)> {
    let exchange = Exchange::default();
    let asked = tokio::time::timeout(options.open_timeout, built.remote.probe(&exchange)).await;
    let failure = exchange.take_failure();
    let error = match asked {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        Err(_) if exchange.asked_elsewhere() && built.asks_instance => {
            let tried = built.tried.clone();
            return Err((OpenError::NoCredentials { url: url.clone(), tried }, None));
        }
        Err(_) => {
            let reason = format!("nothing came within {} s", options.open_timeout.as_secs());
            return Err((OpenError::Unreachable { at: built.at.clone(), reason }, None));
        }
    };
    let region = failure.as_ref().and_then(|failure| failure.region.clone());
    let error = from_failure(Operation::List, &Location::root(), failure, &error);
    Err((explain(url, built, exchange.asked_elsewhere(), &error), region))
}

fn explain(url: &StoreUrl, built: &Built, elsewhere: bool, error: &StoreError) -> OpenError {
    let said = Box::new(error.reply().clone());
    let (url, tried) = (url.clone(), built.tried.clone());
    if elsewhere && built.asks_instance {
        return OpenError::NoCredentials { url, tried };
    }
    match error {
        StoreError::Denied { .. } => OpenError::Denied { url, tried, said },
        StoreError::Passing { .. } => {
            OpenError::Unreachable { at: built.at.clone(), reason: said.to_string() }
        }
        _ if said.status == Some(404) => OpenError::BucketMissing { url, said },
        _ => OpenError::Refused { url, said },
    }
}

impl Remote {
    async fn probe(&self, exchange: &Exchange) -> object_store::Result<()> {
        let Some(pages) = &self.pages else { return Ok(()) };
        let prefix = (!self.prefix.is_root()).then(|| format!("{}/", self.prefix));
        let options = object_store::list::PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(1),
            ..Default::default()
        };
        exchange.run(pages.list_paginated(prefix.as_deref(), options)).await.map(drop)
    }
}
