//! A real S3 protocol server in this process, over a temporary folder, with a front that counts
//! connections, logs every request in order, adds latency and injects faults.
//!
//! It runs on threads of its own, so that blocking tests can use it too. Limits of the store
//! behind it: keys `a` and `a/b` cannot both exist at a time, and HEAD on a folder answers 500. That it answers
//! 403 about an upload that it does not know (any more) is put right here.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use s3s::Body;
use s3s::S3Result;
use s3s::auth::{S3Auth, SecretKey};
use s3s::service::{S3Service, S3ServiceBuilder};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::RwLock;
use zarrmount::store::{Environment, StoreOptions, StoreUrl};

use super::faults::{Fault, Rule};
use super::request_log::LoggedRequest;

/// Identifier of the key that the server accepts.
pub(crate) const ACCESS_KEY: &str = "testkey";
/// Secret of that key.
pub(crate) const SECRET_KEY: &str = "testsecret";

const BUCKET: &str = "bucket";

/// A running server; it stops when this is dropped.
pub(crate) struct S3Server {
    front: Arc<Front>,
    address: SocketAddr,
    root: TempDir,
    bucket: &'static str,
    keys: Keys,
    runtime: Option<Runtime>,
}

/// Secrets by the identifiers that go with them.
#[derive(Clone, Default)]
struct Keys(Arc<Mutex<HashMap<String, String>>>);

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let secret = self.0.lock().get(access_key).cloned();
        secret.map(SecretKey::from).ok_or_else(|| s3s::s3_error!(InvalidAccessKeyId))
    }
}

struct Front {
    store: S3Service,
    folder: PathBuf,
    /// The store behind checks a condition and writes in two steps: those requests go alone.
    alone: RwLock<()>,
    events: AtomicU64,
    connections: AtomicU64,
    log: Mutex<Vec<LoggedRequest>>,
    rule: Mutex<Option<Arc<Rule>>>,
    witness: Mutex<Option<Arc<Witness>>>,
    latency: Mutex<Duration>,
    outage: AtomicBool,
}

/// A moment in the life of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Its head is here, its body is not.
    Begun,
    /// All of it is here; the store has not seen it.
    Arrived,
    /// The store has done it; no answer is sent.
    Done,
}

/// Is told of each moment, and the request goes on when it returns.
pub(crate) type Witness = Box<dyn Fn(&LoggedRequest, Moment) + Send + Sync>;

impl S3Server {
    /// Starts a server with an empty bucket.
    pub(crate) fn start() -> Self {
        Self::start_with(true)
    }

    /// Starts one that accepts anonymous requests (and, then, only those).
    pub(crate) fn start_public() -> Self {
        Self::start_with(false)
    }

    fn start_with(authenticated: bool) -> Self {
        let root = TempDir::new().unwrap();
        std::fs::create_dir(root.path().join(BUCKET)).unwrap();
        let keys = Keys::default();
        keys.0.lock().insert(ACCESS_KEY.to_owned(), SECRET_KEY.to_owned());
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root.path()).unwrap());
        if authenticated {
            service.set_auth(keys.clone());
        }
        let front = Arc::new(Front {
            store: service.build(),
            folder: root.path().join(BUCKET),
            alone: RwLock::new(()),
            events: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            log: Mutex::default(),
            rule: Mutex::default(),
            witness: Mutex::default(),
            latency: Mutex::default(),
            outage: AtomicBool::new(false),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("s3-server")
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(accept(Arc::clone(&front), listener));
        Self { front, address, root, bucket: BUCKET, keys, runtime: Some(runtime) }
    }

    /// Such as `http://127.0.0.1:40123`.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Name of the bucket.
    pub(crate) fn bucket(&self) -> &'static str {
        self.bucket
    }

    /// The folder that holds the objects of the bucket as files.
    pub(crate) fn folder(&self) -> PathBuf {
        self.root.path().join(self.bucket)
    }

    /// The content of an object, read beside the protocol.
    pub(crate) fn object(&self, key: &str) -> Option<Vec<u8>> {
        std::fs::read(self.folder().join(key)).ok()
    }

    /// All keys in the bucket, sorted.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        collect_keys(&self.folder(), &self.folder(), &mut keys);
        keys.sort();
        keys
    }

    /// The URL of `prefix` in the bucket; of the bucket itself if it is empty.
    pub(crate) fn url(&self, prefix: &str) -> StoreUrl {
        format!("s3://{}/{prefix}", self.bucket).parse().unwrap()
    }

    /// What reaches this server, independent of this machine's settings.
    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions {
            endpoint_url: Some(self.endpoint()),
            environment: Environment::of(Self::environment()),
            ..StoreOptions::default()
        }
    }

    /// Variables for a program that is to reach this server.
    pub(crate) fn environment() -> [(&'static str, &'static str); 4] {
        [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_REGION", "us-east-1"),
            ("HOME", "/nonexistent"),
        ]
    }

    /// Another key is accepted, too.
    pub(crate) fn accept_also(&self, access_key: &str, secret_key: &str) {
        self.keys.0.lock().insert(access_key.to_owned(), secret_key.to_owned());
    }

    /// The requests so far, in the order they arrived.
    pub(crate) fn requests(&self) -> Vec<LoggedRequest> {
        self.front.log.lock().clone()
    }

    /// Forgets the requests so far.
    pub(crate) fn clear_requests(&self) {
        self.front.log.lock().clear();
    }

    /// TCP connections accepted since the start.
    pub(crate) fn connections(&self) -> u64 {
        self.front.connections.load(Ordering::Relaxed)
    }

    /// From now on `rule` decides which requests fail.
    pub(crate) fn set_fault(&self, rule: Rule) {
        *self.front.rule.lock() = Some(Arc::new(rule));
    }

    /// From now on `witness` is told of every request.
    pub(crate) fn set_witness(&self, witness: Witness) {
        *self.front.witness.lock() = Some(Arc::new(witness));
    }

    /// Nobody is told any more.
    pub(crate) fn clear_witness(&self) {
        *self.front.witness.lock() = None;
    }

    /// The number that the next event will have; see [`LoggedRequest::arrived`].
    pub(crate) fn now(&self) -> u64 {
        self.front.events.load(Ordering::SeqCst)
    }

    /// No request fails any more.
    pub(crate) fn clear_fault(&self) {
        *self.front.rule.lock() = None;
    }

    /// Every request waits this long before the store sees it.
    pub(crate) fn set_latency(&self, latency: Duration) {
        *self.front.latency.lock() = latency;
    }

    /// During an outage every connection is closed at once, open ones at their next request.
    pub(crate) fn set_outage(&self, outage: bool) {
        self.front.outage.store(outage, Ordering::SeqCst);
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn collect_keys(root: &Path, folder: &Path, keys: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_keys(root, &path, keys);
        } else {
            keys.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
}

async fn accept(front: Arc<Front>, listener: std::net::TcpListener) {
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((socket, _)) = listener.accept().await {
        front.connections.fetch_add(1, Ordering::Relaxed);
        if !front.outage.load(Ordering::SeqCst) {
            tokio::spawn(serve(Arc::clone(&front), socket));
        }
    }
}

async fn serve(front: Arc<Front>, socket: TcpStream) {
    socket.set_nodelay(true).unwrap();
    let service = service_fn(move |request| {
        let front = Arc::clone(&front);
        async move { front.answer(request).await }
    });
    // Clients go away, and faults end connections: both are errors here.
    let _ended =
        http1::Builder::new().serve_connection(TokioIo::new(socket), service).await.is_ok();
}

/// A bucket has no folders: what objects below a key leave behind must not be in the way of an object
/// with that key.
fn remove_empty(folder: &Path) {
    if let Ok(entries) = std::fs::read_dir(folder) {
        entries.flatten().for_each(|entry| remove_empty(&entry.path()));
        let _is_empty = std::fs::remove_dir(folder).is_ok();
    }
}

/// Ends the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
struct Cut;

fn error_document(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>injected</Message></Error>")
}

fn damaged(body: &Bytes) -> Bytes {
    let mut body = body.to_vec();
    let middle = body.len() / 2;
    if let Some(byte) = body.get_mut(middle) {
        *byte ^= 0x10;
    }
    body.into()
}

/// An answer that ends in its middle.
fn half_of(body: Body) -> Body {
    Body::http_body_unsync(Half { body, is_cut: false })
}

struct Half {
    body: Body,
    is_cut: bool,
}

impl http_body::Body for Half {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Cut>>> {
        if self.is_cut {
            return Poll::Ready(Some(Err(Cut)));
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(context));
        let data = frame.and_then(|frame| frame.ok()?.into_data().ok()).unwrap_or_default();
        self.is_cut = true;
        Poll::Ready(Some(Ok(http_body::Frame::data(data.slice(..data.len() / 2)))))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl Front {
    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
        if self.outage.load(Ordering::SeqCst) {
            return Err(Cut);
        }
        let (parts, body) = request.into_parts();
        let begun = LoggedRequest::new(&parts);
        let rule = self.rule.lock().clone();
        let fault = rule.and_then(|rule| rule(&begun));
        self.tell(&begun, Moment::Begun);
        if fault == Some(Fault::ResetInBody) && begun.bytes > 0 {
            return Err(self.cut_in_body(begun, body).await);
        }
        let body = body.collect().await.map_err(|_aborted| Cut)?.to_bytes();
        // A store goes on although its client is gone.
        let front = Arc::clone(self);
        let task = async move { front.obey(begun, parts, body, fault).await };
        tokio::spawn(task).await.unwrap()
    }

    async fn obey(
        &self,
        begun: LoggedRequest,
        parts: http::request::Parts,
        body: Bytes,
        fault: Option<Fault>,
    ) -> Result<Response<Body>, Cut> {
        let logged = self.log_arrival(begun.with_body(&body));
        self.tell(&logged, Moment::Arrived);
        let latency = *self.latency.lock();
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        let body = if fault == Some(Fault::Damage) { damaged(&body) } else { body };
        match fault {
            None
            | Some(Fault::ResetAfter | Fault::ResetInBody | Fault::Slow(_) | Fault::Damage) => {
                if logged.method == "PUT" {
                    remove_empty(&self.folder.join(&logged.key));
                }
                let answer = self.ask(parts, body).await;
                self.tell(&logged, Moment::Done);
                if let Some(Fault::Slow(pause_ms)) = fault {
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
                let lost = matches!(fault, Some(Fault::ResetAfter | Fault::ResetInBody));
                self.log_answer(&logged, Some(answer.status()), lost);
                match fault {
                    Some(Fault::ResetAfter) => Err(Cut),
                    Some(Fault::ResetInBody) => Ok(answer.map(half_of)),
                    _ => Ok(answer),
                }
            }
            Some(fault) => self.fail(fault, &logged).await,
        }
    }

    fn tell(&self, request: &LoggedRequest, moment: Moment) {
        let witness = self.witness.lock().clone();
        if let Some(witness) = witness {
            witness(request, moment);
        }
    }

    /// Takes a part of the body, then gives up.
    async fn cut_in_body(&self, begun: LoggedRequest, mut body: Incoming) -> Cut {
        let some = body.frame().await;
        let taken = some.and_then(|frame| frame.ok()?.into_data().ok()).unwrap_or_default();
        let logged = self.log_arrival(begun.with_body(&taken));
        self.log_answer(&logged, None, true);
        Cut
    }

    async fn ask(&self, parts: http::request::Parts, body: Bytes) -> Response<Body> {
        let conditional =
            ["if-match", "if-none-match"].iter().any(|name| parts.headers.contains_key(*name));
        let of_upload = parts.uri.query().is_some_and(|query| query.contains("uploadId="));
        let request = Request::from_parts(parts, Body::from(body));
        let answer = if conditional {
            let _alone = self.alone.write().await;
            self.store.call(request).await
        } else {
            let _beside_others = self.alone.read().await;
            self.store.call(request).await
        };
        let answer = answer.unwrap();
        if of_upload && answer.status() == StatusCode::FORBIDDEN {
            let body = Body::from(error_document("NoSuchUpload"));
            return Response::builder().status(StatusCode::NOT_FOUND).body(body).unwrap();
        }
        answer
    }

    async fn fail(&self, fault: Fault, logged: &LoggedRequest) -> Result<Response<Body>, Cut> {
        let error = error_document;
        let (status, body) = match fault {
            Fault::SlowDown => (503, error("SlowDown")),
            Fault::InternalError => (500, error("InternalError")),
            Fault::Denied => (403, error("AccessDenied")),
            Fault::Reply(status, code) => (status, error(code)),
            Fault::ErrorAfterOk(code) => (200, error(code)),
            Fault::Body(body) => (200, body.to_owned()),
            Fault::ResetBefore
            | Fault::ResetAfter
            | Fault::ResetInBody
            | Fault::Damage
            | Fault::Slow(_) => {
                self.log_answer(logged, None, true);
                return Err(Cut);
            }
            Fault::Stall => std::future::pending::<(u16, String)>().await,
        };
        let status = StatusCode::from_u16(status).unwrap();
        self.log_answer(logged, Some(status), false);
        Ok(Response::builder().status(status).body(Body::from(body)).unwrap())
    }

    fn log_arrival(&self, mut request: LoggedRequest) -> LoggedRequest {
        let mut log = self.log.lock();
        request.arrived = self.events.fetch_add(1, Ordering::Relaxed);
        log.push(request.clone());
        request
    }

    fn log_answer(&self, request: &LoggedRequest, status: Option<StatusCode>, reply_lost: bool) {
        let mut log = self.log.lock();
        let event = self.events.fetch_add(1, Ordering::Relaxed);
        if let Some(logged) = log.iter_mut().find(|logged| logged.arrived == request.arrived) {
            logged.answered = Some(event);
            logged.status = status.map(|status| status.as_u16());
            logged.reply_lost = reply_lost;
        }
    }
}
