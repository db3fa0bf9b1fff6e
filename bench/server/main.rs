//! The server that `make bench` measures clients against: an S3 server over a folder, at the end of a
//! wire of chosen round-trip time and bandwidth, plain and with TLS, which counts connections,
//! handshakes and requests.
//!
//! `bench_server FOLDER` prints one line of JSON that says where it listens, and runs until its
//! standard input ends. `direct` is the same store without the wire, not counted: for verifying.
//! `control` answers `GET /set?rtt_ms=20&connection_mbps=50&service_ms=0`, `/reset` and `/counts`.
//! A new shape holds for connections that are opened afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::string_slice,
    reason = "a program for measuring, beside the product"
)]

mod counts;
mod wire;

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use s3s::Body;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{HandshakeKind, ServerConfig};

use counts::Counts;
use wire::{Shape, Wire};

const ACCESS_KEY: &str = "benchkey";
const SECRET_KEY: &str = "benchsecret";
const BUCKET: &str = "bench";

#[derive(Default, Clone, Copy)]
struct Settings {
    shape: Shape,
    /// How long the store thinks about each request.
    service: Duration,
}

struct Server {
    store: S3Service,
    settings: Mutex<Settings>,
    counts: Mutex<Arc<Counts>>,
    tls: TlsAcceptor,
}

/// How a listener's connections are served.
#[derive(Clone, Copy)]
enum Way {
    Plain,
    Tls,
    Direct,
    Control,
}

fn main() {
    let folder = PathBuf::from(std::env::args_os().nth(1).expect("bench_server FOLDER"));
    std::fs::create_dir_all(folder.join("objects").join(BUCKET)).unwrap();
    let certificates = folder.join("ca.pem");
    let mut service =
        S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder.join("objects")).unwrap());
    service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
    let server = Arc::new(Server {
        store: service.build(),
        settings: Mutex::default(),
        counts: Mutex::default(),
        tls: acceptor(&certificates),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let listen = |way| {
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(accept(Arc::clone(&server), listener, way));
        port
    };
    let place = serde_json::json!({
        "endpoint": format!("http://127.0.0.1:{}", listen(Way::Plain)),
        "tls": format!("https://localhost:{}", listen(Way::Tls)),
        "direct": format!("http://127.0.0.1:{}", listen(Way::Direct)),
        "control": format!("http://127.0.0.1:{}", listen(Way::Control)),
        "certificates": certificates,
        "bucket": BUCKET,
        "access_key": ACCESS_KEY,
        "secret_key": SECRET_KEY,
        "pid": std::process::id(),
    });
    println!("{place}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A certificate for `localhost` that signs itself, put into a file for the clients.
fn acceptor(certificates: &Path) -> TlsAcceptor {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(certificates, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(server: Arc<Server>, listener: TcpListener, way: Way) {
    while let Ok((socket, _)) = listener.accept().await {
        socket.set_nodelay(true).unwrap();
        tokio::spawn(serve(Arc::clone(&server), socket, way));
    }
}

async fn serve(server: Arc<Server>, socket: TcpStream, way: Way) {
    let counts = Arc::clone(&server.counts.lock());
    let wire = |socket| {
        counts.connection();
        Wire::new(socket, server.settings.lock().shape, Arc::clone(&counts.carried))
    };
    match way {
        Way::Direct => answer_on(socket, |request| server.ask(request)).await,
        Way::Control => {
            answer_on(socket, |request| std::future::ready(server.control(&request))).await;
        }
        Way::Plain => answer_on(wire(socket), |request| server.count(request)).await,
        Way::Tls => {
            let Ok(stream) = server.tls.accept(wire(socket)).await else { return };
            let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
            counts.handshake(resumed);
            answer_on(stream, |request| server.count(request)).await;
        }
    }
}

async fn answer_on<S, A, F, B>(stream: S, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: http_body::Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let service = service_fn(|request| {
        let answer = answer(request);
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    // Clients go away: an error here.
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Server {
    async fn ask(&self, request: Request<Incoming>) -> Response<Body> {
        self.store.call(request.map(Body::from)).await.unwrap()
    }

    async fn count(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let counts = Arc::clone(&self.counts.lock());
        counts.request(&parts);
        let service = self.settings.lock().service;
        if !service.is_zero() {
            tokio::time::sleep(service).await;
        }
        let answer = self.ask(Request::from_parts(parts, body)).await;
        counts.answer(answer.status());
        answer
    }

    fn control(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let query = request.uri().query().unwrap_or_default();
        let pairs: HashMap<&str, u64> = query
            .split('&')
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=')?;
                Some((name, value.parse().ok()?))
            })
            .collect();
        let of = |name| pairs.get(name).copied().unwrap_or_default();
        match request.uri().path() {
            "/set" => {
                let rate = of("connection_mbps") * 1_000_000;
                *self.settings.lock() = Settings {
                    shape: Shape {
                        rtt: Duration::from_millis(of("rtt_ms")),
                        bytes_per_second: Some(rate).filter(|rate| *rate > 0),
                    },
                    service: Duration::from_millis(of("service_ms")),
                };
            }
            "/reset" => *self.counts.lock() = Arc::default(),
            _ => {}
        }
        let counts = self.counts.lock().told();
        Response::new(Full::new(counts.to_string().into()))
    }
}
