//! TLS in front of a test server: it ends TLS with a certificate of its own, counts handshakes, and
//! hands the bytes on.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::NamedTempFile;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use zarrmount::store::StoreOptions;

use super::S3Server;

/// A running front; it stops when this is dropped.
pub(crate) struct TlsFront {
    port: u16,
    certificates: NamedTempFile,
    handshakes: Arc<AtomicU64>,
    runtime: Option<Runtime>,
}

impl TlsFront {
    /// In front of `server`.
    pub(crate) fn of(server: &S3Server) -> Self {
        let names = ["localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let certificates = NamedTempFile::new().unwrap();
        std::fs::write(certificates.path(), made.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tls-front")
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let handshakes = Arc::new(AtomicU64::new(0));
        let behind = server.endpoint().trim_start_matches("http://").to_owned();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        runtime.spawn(accept(listener, acceptor, behind, Arc::clone(&handshakes)));
        Self { port, certificates, handshakes, runtime: Some(runtime) }
    }

    /// What reaches `server` through this front.
    pub(crate) fn options(&self, server: &S3Server) -> StoreOptions {
        StoreOptions {
            endpoint_url: Some(format!("https://localhost:{}", self.port)),
            ca_bundle: Some(self.certificates().to_owned()),
            ..server.options()
        }
    }

    /// The file of certificates that a client has to trust.
    pub(crate) fn certificates(&self) -> &Path {
        self.certificates.path()
    }

    /// Handshakes completed since the start.
    pub(crate) fn handshakes(&self) -> u64 {
        self.handshakes.load(Ordering::Relaxed)
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(
    listener: std::net::TcpListener,
    acceptor: TlsAcceptor,
    behind: String,
    handshakes: Arc<AtomicU64>,
) {
    let listener = TcpListener::from_std(listener).unwrap();
    while let Ok((socket, _)) = listener.accept().await {
        let (acceptor, behind) = (acceptor.clone(), behind.clone());
        let handshakes = Arc::clone(&handshakes);
        tokio::spawn(async move {
            let Ok(mut outside) = acceptor.accept(socket).await else { return };
            handshakes.fetch_add(1, Ordering::Relaxed);
            let Ok(mut inside) = TcpStream::connect(&behind).await else { return };
            inside.set_nodelay(true).unwrap();
            // Clients go away: an error here.
            let _ended = tokio::io::copy_bidirectional(&mut outside, &mut inside).await.is_ok();
        });
    }
}
