//! The daemon's side of the control socket.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};

use super::daemon::Daemon;
use super::engine::FlushReport;
use super::protocol::{
    Command, PROTOCOL_VERSION, REQUEST_BYTES_MAX, Reply, Request, UnmountOutcome, line_of,
    parse_line,
};
use super::status::Phase;
use crate::base::tasks;
use crate::fuse::session::UnmountError;
use crate::store::Location;
use crate::telemetry::progress::{Stage, Transfer};

/// Clients served at once; more wait to be accepted.
const CLIENTS_MAX: usize = 32;

/// A client that connects says at once what it wants.
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);

/// How often progress is told; well within the protocol's heartbeat.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// The client closed its connection.
#[derive(Debug)]
struct ClientGone;

/// Accepts clients until it is dropped. Each client's task holds a clone of `alive`, so that the
/// daemon can wait for final answers to be sent.
pub(super) async fn serve(daemon: Arc<Daemon>, listener: UnixListener, alive: mpsc::Sender<()>) {
    let places = Arc::new(Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (daemon, alive) = (Arc::clone(&daemon), alive.clone());
                tasks::spawn("control client", async move {
                    if Client::new(stream).serve(&daemon).await.is_err() {
                        tracing::debug!("a control client closed its connection early");
                    }
                    drop((place, alive));
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: some are given back in time.
                tracing::warn!(%error, "a control client could not be accepted");
                daemon.clock.sleep(REQUEST_PATIENCE).await;
            }
        }
    }
}

struct Client {
    /// The process that asks: its own working folder is no reason to call the mount busy by name.
    pid: Option<u32>,
    requests: BufReader<OwnedReadHalf>,
    replies: OwnedWriteHalf,
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        let pid = stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
        let (requests, replies) = stream.into_split();
        Self { pid, requests: BufReader::new(requests), replies }
    }

    async fn serve(mut self, daemon: &Arc<Daemon>) -> Result<(), ClientGone> {
        let request = tokio::select! {
            request = self.request() => request?,
            () = daemon.clock.sleep(REQUEST_PATIENCE) => return Err(ClientGone),
        };
        let reply = match request {
            Err(message) => Reply::Rejected { message },
            Ok(Command::Status) => Reply::Status(Box::new(daemon.status())),
            Ok(Command::Flush { path, timeout_ms }) => {
                self.flush(daemon, &path, timeout_ms.map(Duration::from_millis)).await?
            }
            Ok(Command::Unmount { timeout_ms }) => {
                let outcome = self.unmount(daemon, timeout_ms.map(Duration::from_millis)).await?;
                Reply::Unmount(outcome)
            }
        };
        self.send(&reply).await
    }

    async fn request(&mut self) -> Result<Result<Command, String>, ClientGone> {
        let mut line = Vec::new();
        let mut requests = (&mut self.requests).take(REQUEST_BYTES_MAX);
        requests.read_until(b'\n', &mut line).await.map_err(|error| gone(&error))?;
        Ok(match parse_line::<Request>(&line, REQUEST_BYTES_MAX) {
            Ok(Request { version: PROTOCOL_VERSION, command }) => Ok(command),
            Ok(Request { version, .. }) => Err(format!(
                "it speaks version {PROTOCOL_VERSION} of the control protocol and was asked in \
                 version {version}: unmount with the program that mounted"
            )),
            Err(error) => Err(error.to_string()),
        })
    }

    async fn flush(
        &mut self,
        daemon: &Daemon,
        path: &str,
        patience: Option<Duration>,
    ) -> Result<Reply, ClientGone> {
        match Location::parse(path) {
            Ok(scope) => Ok(Reply::Flushed(self.flushed(daemon, &scope, patience).await?)),
            Err(error) => Ok(Reply::Rejected { message: error.to_string() }),
        }
    }

    async fn flushed(
        &mut self,
        daemon: &Daemon,
        scope: &Location,
        patience: Option<Duration>,
    ) -> Result<FlushReport, ClientGone> {
        let (progress, seen) = watch::channel(Transfer::default());
        let patience = patience.unwrap_or(daemon.record.config.timeout);
        self.until(daemon, daemon.engine.flush(scope, &progress, patience), seen).await
    }

    /// A client that goes away before the mount is gone ends the attempt; the files go on being sent.
    async fn unmount(
        &mut self,
        daemon: &Arc<Daemon>,
        patience: Option<Duration>,
    ) -> Result<UnmountOutcome, ClientGone> {
        let _one_at_a_time = daemon.unmounting.lock().await;
        if daemon.phase() == Phase::Mounted {
            let report = self.flushed(daemon, &Location::root(), patience).await?;
            if !report.is_complete() {
                return Ok(UnmountOutcome::NotFlushed(report));
            }
            let transfer = Transfer { stage: Stage::Unmounting, ..Transfer::default() };
            self.send(&Reply::Progress(transfer)).await?;
            if let Err(error) = take_away(daemon).await {
                return Ok(match error {
                    UnmountError::Busy { mut holders, .. } => {
                        holders.retain(|holder| Some(holder.pid) != self.pid);
                        UnmountOutcome::Busy { holders }
                    }
                    UnmountError::Failed { message, .. } => UnmountOutcome::Failed { message },
                    UnmountError::Gone { .. } => UnmountOutcome::Detached { open: report.open },
                    error @ UnmountError::Covered { .. } => {
                        UnmountOutcome::Failed { message: error.to_string() }
                    }
                });
            }
        }
        let mut drained = daemon.drained.subscribe();
        let end = async {
            let report = drained.wait_for(Option::is_some).await;
            report.ok().and_then(|report| report.clone()).unwrap_or_default()
        };
        let report = self.until(daemon, end, daemon.drain_progress.subscribe()).await?;
        Ok(UnmountOutcome::Unmounted(report))
    }

    /// Runs `work` and tells the client how far it is; ends early if the client goes away.
    async fn until<T>(
        &mut self,
        daemon: &Daemon,
        work: impl Future<Output = T>,
        progress: watch::Receiver<Transfer>,
    ) -> Result<T, ClientGone> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                output = &mut work => return Ok(output),
                read = self.requests.read_u8() => match read {
                    Ok(_) => {}
                    Err(error) => return Err(gone(&error)),
                },
                () = daemon.clock.sleep(PROGRESS_INTERVAL) => {
                    let transfer = *progress.borrow();
                    self.send(&Reply::Progress(transfer)).await?;
                }
            }
        }
    }

    async fn send(&mut self, reply: &Reply) -> Result<(), ClientGone> {
        let line = line_of(reply).map_err(|error| {
            tracing::error!(%error, "an answer could not be written as JSON; this is a defect");
            ClientGone
        })?;
        self.replies.write_all(&line).await.map_err(|error| gone(&error))
    }
}

/// The kernel may wait for the daemon while it unmounts: never on an async thread.
async fn take_away(daemon: &Arc<Daemon>) -> Result<(), UnmountError> {
    let failed = UnmountError::Failed {
        path: daemon.record.mount.dir.clone(),
        message: "the attempt ended early".to_owned(),
    };
    let daemon = Arc::clone(daemon);
    tasks::blocking("unmount", move || daemon.detach()).await.unwrap_or(Err(failed))
}

fn gone(error: &std::io::Error) -> ClientGone {
    tracing::debug!(%error, "a control client is gone");
    ClientGone
}
