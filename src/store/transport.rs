//! The one HTTP client of a store, below the client library: it counts, it watches for stalls, and
//! it reports what it saw to the operation's [`Exchange`].
//!
//! - One pool of kept-alive connections, HTTP/1.1 with Nagle's algorithm off. HTTP/2 would put all
//!   requests on one connection, which object stores serve slower.
//! - No retry, no redirect, no compression: a request of the library is one request on the wire.
//! - A connection counts as opened once it stands, with TLS. A request counts as reusing one if
//!   none was opened for it while it waited.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::{Method, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use super::body::{Outgoing, incoming};
use super::class::classify;
use super::connections::{CountConnections, watching_for_a_connection};
use super::exchange::{Exchange, Failure, Transport};
use super::options::StoreOptions;
use super::xml;
use crate::telemetry::counters::{RequestClass, StoreCounters};

/// Servers close idle connections after 5 s (hyper, many proxies) to 60 s and more; hyper notices
/// a closed one before it writes, so keeping them longer than the server does costs nothing.
const IDLE: Duration = Duration::from_secs(90);
/// What S3 calls credentials whose time is over.
const EXPIRED: [&str; 3] = ["ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"];
/// Enough for any error document.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// A page of 1,000 keys of 1,024 bytes, each byte escaped as six, is 6 MB.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Why the client could not be built.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The file of certificate authorities cannot be read.
    #[error("cannot read the certificates in {path}: {source}")]
    CaBundle {
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file holds no certificates in PEM form, or TLS cannot start.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] reqwest::Error),
}

/// Hands the one client to the library, which asks for it once per purpose.
#[derive(Debug, Clone)]
pub(super) struct Connector(Arc<Service>);

#[derive(Debug)]
struct Service {
    client: reqwest::Client,
    counters: Arc<StoreCounters>,
    store_host: String,
    stall_timeout: Duration,
    /// Credentials that have expired may be followed by others.
    renews: bool,
}

impl Connector {
    /// `store_host`: how host and port of the store end; other requests count as "other". `renews`:
    /// whether credentials that have expired may be followed by others.
    pub(super) fn new(
        options: &StoreOptions,
        store_host: String,
        renews: bool,
        counters: Arc<StoreCounters>,
    ) -> Result<Self, TransportError> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("zarrmount/", env!("CARGO_PKG_VERSION")))
            .http1_only()
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(options.connect_timeout)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(options.connections.max(1))
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .connector_layer(CountConnections::new(Arc::clone(&counters)));
        let from_environment = || options.environment.get("AWS_CA_BUNDLE").map(Into::into);
        if let Some(path) = options.ca_bundle.clone().or_else(from_environment) {
            let pem =
                std::fs::read(&path).map_err(|source| TransportError::CaBundle { path, source })?;
            builder = builder.tls_certs_merge(reqwest::Certificate::from_pem_bundle(&pem)?);
        }
        let client = builder.build()?;
        let stall_timeout = options.stall_timeout;
        Ok(Self(Arc::new(Service { client, counters, store_host, stall_timeout, renews })))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Connector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let service = &self.0;
        let exchange = Exchange::current();
        let (parts, body) = request.into_parts();
        let class = classify(&parts.method, &parts.uri, &parts.headers, &service.store_host);
        let method = parts.method.clone();
        service.counters.of(class).add(1);
        exchange.begin(class == RequestClass::Other);
        let reply = service.send(parts, body, &exchange).await?;
        service.inspect(class, &method, reply, &exchange).await
    }
}

impl Service {
    async fn send(
        &self,
        parts: http::request::Parts,
        body: object_store::client::HttpRequestBody,
        exchange: &Exchange,
    ) -> Result<HttpResponse, HttpError> {
        let url = parts.uri.to_string().parse::<reqwest::Url>();
        let url = url.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        let progress = Arc::new(AtomicU64::new(0));
        *request.body_mut() = Some(reqwest::Body::wrap(Outgoing::new(
            body,
            Arc::clone(&progress),
            Arc::clone(&self.counters),
        )));
        let opened = Arc::new(AtomicBool::new(false));
        let answer = watching_for_a_connection(&opened, self.client.execute(request));
        let Some(answer) = unless_stalled(self.stall_timeout, &progress, answer).await else {
            exchange.fail(self.stalled());
            return Err(HttpError::new(HttpErrorKind::Timeout, Stalled));
        };
        let answer = answer.map_err(|error| {
            exchange.fail(failure_of(&error));
            HttpError::new(HttpErrorKind::Request, error.without_url())
        })?;
        if !opened.load(Ordering::Relaxed) {
            self.counters.connections_reused.add(1);
        }
        let (parts, body) = http::Response::<reqwest::Body>::from(answer).into_parts();
        let body = incoming(body, self.stall_timeout, exchange.clone(), Arc::clone(&self.counters));
        Ok(HttpResponse::from_parts(parts, body))
    }

    /// Reports failures, and takes out of replies what the library would trip over.
    async fn inspect(
        &self,
        class: RequestClass,
        method: &Method,
        reply: HttpResponse,
        exchange: &Exchange,
    ) -> Result<HttpResponse, HttpError> {
        if !reply.status().is_success() {
            return self.report(reply, exchange).await;
        }
        match class {
            RequestClass::List => {
                let (parts, page) = read(reply, PAGE_BYTES_MAX, exchange).await?;
                let (kept, left_out) = xml::keep_representable(&page);
                exchange.leave_out(left_out);
                Ok(HttpResponse::from_parts(parts, kept.map_or(page, Bytes::from).into()))
            }
            RequestClass::Delete if *method == Method::POST => {
                let (parts, body) = read(reply, PAGE_BYTES_MAX, exchange).await?;
                exchange.keep(xml::failed_deletes(&body));
                Ok(HttpResponse::from_parts(parts, body.into()))
            }
            RequestClass::Copy => self.unless_error(reply, exchange).await,
            RequestClass::Multipart if *method == Method::POST => {
                self.unless_error(reply, exchange).await
            }
            _ => Ok(reply),
        }
    }

    /// S3 begins the answer to a copy or a completed upload before it is done, and may end it with an
    /// error after status 200; here it gets the status it should have had.
    async fn unless_error(
        &self,
        reply: HttpResponse,
        exchange: &Exchange,
    ) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = read(reply, ERROR_BYTES_MAX, exchange).await?;
        if xml::error_reply(&body).is_none() {
            return Ok(HttpResponse::from_parts(parts, body.into()));
        }
        parts.status = StatusCode::INTERNAL_SERVER_ERROR;
        self.report(HttpResponse::from_parts(parts, body.into()), exchange).await
    }

    async fn report(
        &self,
        reply: HttpResponse,
        exchange: &Exchange,
    ) -> Result<HttpResponse, HttpError> {
        let (parts, body) = read(reply, ERROR_BYTES_MAX, exchange).await?;
        let said = xml::error_reply(&body).unwrap_or_default();
        let header = |name: &str| {
            let value = parts.headers.get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let code = if said.code.is_empty() {
            header("x-ms-error-code").unwrap_or_default()
        } else {
            said.code
        };
        let message =
            if said.message.is_empty() { words_for(parts.status, &body) } else { said.message };
        exchange.fail(Failure {
            status: Some(parts.status.as_u16()),
            may_be_renewed: self.renews && EXPIRED.contains(&code.as_str()),
            code,
            message,
            region: header("x-amz-bucket-region"),
            ..Failure::default()
        });
        Ok(HttpResponse::from_parts(parts, body.into()))
    }

    fn stalled(&self) -> Failure {
        let waited = self.stall_timeout.as_secs();
        Failure {
            message: format!("no progress for {waited} s"),
            transport: Some(Transport::Stalled),
            ..Failure::default()
        }
    }
}

/// A request made no progress for too long.
#[derive(Debug, thiserror::Error)]
#[error("no progress")]
pub(super) struct Stalled;

/// `None` once `timeout` passed without a change of `progress` (bytes sent so far).
async fn unless_stalled<F: Future>(
    timeout: Duration,
    progress: &AtomicU64,
    future: F,
) -> Option<F::Output> {
    tokio::pin!(future);
    let mut seen = 0;
    loop {
        if let Ok(output) = tokio::time::timeout(timeout, &mut future).await {
            return Some(output);
        }
        let now = progress.load(Ordering::Relaxed);
        if now == seen {
            return None;
        }
        seen = now;
    }
}

fn failure_of(error: &reqwest::Error) -> Failure {
    let (transport, before) = if error.is_connect() || error.is_timeout() {
        (Transport::Unreachable, "no connection: ")
    } else {
        (Transport::Interrupted, "the connection broke: ")
    };
    let message = format!("{before}{}", deepest(error));
    Failure { message, transport: Some(transport), ..Failure::default() }
}

/// The innermost cause: the outer ones repeat that a request failed.
pub(super) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The first line of a short text, else the standard words for the status.
fn words_for(status: StatusCode, body: &Bytes) -> String {
    let text = std::str::from_utf8(body).unwrap_or_default().trim();
    let line = text.lines().next().unwrap_or_default();
    if line.is_empty() || line.starts_with('<') || line.len() > 200 {
        return status.canonical_reason().unwrap_or("no reason given").to_lowercase();
    }
    line.to_owned()
}

async fn read(
    reply: HttpResponse,
    bytes_max: usize,
    exchange: &Exchange,
) -> Result<(http::response::Parts, Bytes), HttpError> {
    let (parts, body) = reply.into_parts();
    let mut stream = body.bytes_stream();
    let mut read = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        if read.len() + chunk.len() > bytes_max {
            exchange.fail(Failure {
                status: Some(parts.status.as_u16()),
                message: format!("an answer of more than {bytes_max} bytes"),
                ..Failure::default()
            });
            return Err(HttpError::new(HttpErrorKind::Decode, TooLong));
        }
        read.extend_from_slice(&chunk);
    }
    Ok((parts, read.freeze()))
}

#[derive(Debug, thiserror::Error)]
#[error("the answer is too long")]
struct TooLong;
