//! The process behind a mount, from its start to its end.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use super::engine::{Engine, FlushReport};
use super::launch::Ready;
use super::registry::{DaemonLock, MountRecord, RecordFolder, RegistryError};
use super::status::{
    EngineStatus, ItemStatus, Left, MountStatus, Phase, STATUS_VERSION, State, StatusDocument,
};
use super::{server, wiring};
use crate::base::clock::Clock;
use crate::base::durable::{AtPath as _, FileError};
use crate::base::tasks;
use crate::base::units::ByteSize;
use crate::config::Config;
use crate::fs::SessionEnd;
use crate::fuse::session::{
    Filesystem, MountError, MountOptions, Mounted, Prepared, UnmountError, attach, prepare,
    raise_open_files_limit,
};
use crate::store::Location;
use crate::telemetry::progress::{Silent, Transfer};

/// How long a signal to end lets the daemon send what is staged. systemd allows 90 s by default
/// before it kills.
const SIGNAL_PATIENCE: Duration = Duration::from_mins(1);

/// How long clients get to read their final answer, and the kernel to end the session.
const FAREWELL: Duration = Duration::from_secs(5);

/// Why a mount could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The record of the mount.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Mounting.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// Store or staging.
    #[error(transparent)]
    Open(#[from] wiring::OpenError),
    /// The control socket.
    #[error("the control socket cannot be made: {0}")]
    Socket(FileError),
    /// Threads, signals.
    #[error("the daemon could not be set up: {0}")]
    System(#[from] io::Error),
    /// Nobody waits for the mount any more.
    #[error("whoever asked for the mount is gone: {0}")]
    Abandoned(io::Error),
}

/// How a daemon ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// What is still in staging.
    pub left: Vec<Left>,
    /// Set if the session with the kernel broke.
    pub session_error: Option<io::Error>,
}

/// What the tasks of a daemon share.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) record: MountRecord,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) clock: Clock,
    /// `None` if the kernel has no part in it.
    pub(super) mounted: Option<Mounted>,
    /// Held by the client that unmounts.
    pub(super) unmounting: Mutex<()>,
    /// How far the drain after the end of the session is.
    pub(super) drain_progress: watch::Sender<Transfer>,
    /// What was left when the drain ended.
    pub(super) drained: watch::Sender<Option<FlushReport>>,
    phase: watch::Sender<Phase>,
    folder: RecordFolder,
}

impl Daemon {
    pub(super) fn new(
        record: MountRecord,
        engine: Arc<dyn Engine>,
        clock: Clock,
        mounted: Option<Mounted>,
        folder: RecordFolder,
    ) -> Self {
        Self {
            record,
            engine,
            clock,
            mounted,
            unmounting: Mutex::default(),
            drain_progress: watch::Sender::default(),
            drained: watch::Sender::default(),
            phase: watch::Sender::new(Phase::Starting),
            folder,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Unmounts if nobody uses the mount.
    pub(super) fn detach(&self) -> Result<(), UnmountError> {
        self.mounted.as_ref().map_or(Ok(()), Mounted::detach)
    }

    fn detach_now(&self) -> Result<(), UnmountError> {
        self.mounted.as_ref().map_or(Ok(()), Mounted::detach_now)
    }

    pub(super) fn status(&self) -> StatusDocument {
        StatusDocument {
            version: STATUS_VERSION,
            mount: MountStatus { phase: self.phase(), ..self.record.mount.clone() },
            engine: Some(self.engine.status()),
            left: Vec::new(),
        }
    }

    /// Records the phase for those who cannot ask.
    pub(super) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
        let mut record = self.record.clone();
        record.mount.phase = phase;
        if let Err(error) = self.folder.write(&record) {
            tracing::warn!(%error, "the record of the mount could not be written");
        }
    }
}

/// Mounts, calls `ready`, and serves until the mount is gone and everything that can be sent is.
pub fn run(
    config: Config,
    state_home: &Path,
    ready: impl FnOnce(Ready) -> io::Result<()>,
) -> Result<Ended, StartError> {
    raise_open_files_limit();
    // The daemon must not keep a folder in use only because it was started there.
    std::env::set_current_dir("/")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let started = Started::start(config, state_home).await?;
        if let Err(error) = ready(started.ready()) {
            started.abandon().await;
            return Err(StartError::Abandoned(error));
        }
        Ok(started.serve().await)
    });
    runtime.shutdown_timeout(FAREWELL);
    outcome
}

/// A mount that is live.
struct Started {
    daemon: Arc<Daemon>,
    listener: UnixListener,
    session: oneshot::Receiver<io::Result<()>>,
    signals: Signals,
    prepared: Prepared,
    _lock: DaemonLock,
}

impl Started {
    async fn start(config: Config, state_home: &Path) -> Result<Self, StartError> {
        let folder = RecordFolder::of(state_home, &config.mount_point);
        let lock = folder.lock(&config.mount_point)?;
        let signals = Signals::new()?;
        let prepared = prepare(&config.mount_point)?;
        let clock = Clock::system();
        let parts = wiring::open(&config, &clock).await?;
        let record = record(&folder, config, &clock)?;
        let listener = listen(&record.socket)?;
        folder.write(&record)?;
        let session = mount(&record.config, parts.filesystem).await;
        let (mounted, session) = match session {
            Ok(session) => session,
            Err(error) => {
                folder.remove(&record);
                parts.engine.shutdown().await;
                return Err(error.into());
            }
        };
        let daemon = Arc::new(Daemon::new(record, parts.engine, clock, Some(mounted), folder));
        daemon.enter(Phase::Mounted);
        tracing::info!(
            url = daemon.record.mount.url,
            dir = %daemon.record.mount.dir.display(),
            spool = %daemon.record.mount.spool.display(),
            "mounted"
        );
        Ok(Self { daemon, listener, session, signals, prepared, _lock: lock })
    }

    fn ready(&self) -> Ready {
        let mut notes = Vec::new();
        if self.prepared.removed_dead_mount {
            notes.push("a dead mount that lay there was taken away".to_owned());
        }
        if self.prepared.hidden_entries > 0 {
            let count = self.prepared.hidden_entries;
            notes
                .push(format!("the folder is not empty: {count} entries are hidden while mounted"));
        }
        let status = self.daemon.engine.status();
        let recovered = status.recovered;
        if recovered.items > 0 {
            let size = ByteSize(recovered.bytes);
            notes.push(format!(
                "an earlier mount left {} changes ({size}) that are being sent now",
                recovered.items
            ));
        }
        notes.extend(partial_note(&status));
        let mount = &self.daemon.record.mount;
        Ready { url: mount.url.clone(), dir: mount.dir.clone(), log: mount.log.clone(), notes }
    }

    async fn abandon(self) {
        if let Err(error) = self.daemon.detach_now() {
            tracing::warn!(%error, "the mount could not be taken away");
        }
        self.daemon.engine.shutdown().await;
        self.daemon.folder.remove(&self.daemon.record);
    }

    async fn serve(mut self) -> Ended {
        let (alive, mut all_served) = mpsc::channel(1);
        let server = server::serve(Arc::clone(&self.daemon), self.listener, alive.clone());
        let server = tasks::spawn("control socket", server);

        let timeout = self.daemon.record.config.timeout;
        let (session_error, end, patience) = tokio::select! {
            outcome = &mut self.session => {
                (session_outcome(outcome), SessionEnd::ByKernel, timeout)
            }
            () = self.signals.recv() => {
                let daemon = &self.daemon;
                let outcome = end_by_signal(daemon, &mut self.signals, &mut self.session).await;
                match outcome {
                    Some(outcome) => {
                        (session_outcome(outcome), SessionEnd::ByKernel, Duration::ZERO)
                    }
                    None => (None, SessionEnd::ByDaemon, Duration::ZERO),
                }
            }
        };
        if session_error.is_some()
            && let Err(error) = self.daemon.detach_now()
        {
            tracing::warn!(%error, "the broken mount could not be taken away");
        }
        let report = drain(&self.daemon, &mut self.signals, end, patience).await;
        self.daemon.engine.shutdown().await;
        log_left(&self.daemon, &report);
        self.daemon.folder.remove(&self.daemon.record);
        self.daemon.drained.send_replace(Some(report.clone()));

        server.abort();
        drop(alive);
        tokio::select! {
            // Nothing is ever sent: this ends when the last client's task does.
            _none = all_served.recv() => {}
            () = self.daemon.clock.sleep(FAREWELL) => {}
        }
        Ended { left: report.left, session_error }
    }
}

/// Copies that were cut short are named: nobody else will send them.
fn partial_note(status: &EngineStatus) -> Option<String> {
    const NAMES_MAX: usize = 5;
    let is_partial = |item: &&ItemStatus| item.state == State::Partial;
    let names: Vec<_> =
        status.files.iter().filter(is_partial).map(|item| item.path.as_str()).collect();
    let more = match names.len().saturating_sub(NAMES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = names.get(..NAMES_MAX).unwrap_or(&names).join(", ");
    (!names.is_empty()).then(|| {
        format!("copies that were cut short are kept and not sent, copy them again: {first}{more}")
    })
}

pub(super) fn record(
    folder: &RecordFolder,
    config: Config,
    clock: &Clock,
) -> Result<MountRecord, RegistryError> {
    let log = config.log_file.clone().unwrap_or_else(|| folder.log_file());
    let mount = MountStatus {
        url: config.url.clone(),
        dir: config.mount_point.clone(),
        pid: std::process::id(),
        since: humantime::format_rfc3339_seconds(clock.wall()).to_string(),
        zarrmount: env!("CARGO_PKG_VERSION").to_owned(),
        phase: Phase::Starting,
        spool: config.spool_dir.clone(),
        log: Some(log),
    };
    Ok(MountRecord { mount, socket: folder.socket()?, config })
}

/// The lock is held, so that a socket that is there belongs to a dead daemon.
pub(super) fn listen(socket: &Path) -> Result<UnixListener, StartError> {
    use std::os::unix::fs::PermissionsExt as _;
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(StartError::Socket(FileError { path: socket.to_owned(), source: error }));
        }
        _ => {}
    }
    let listener = UnixListener::bind(socket).at(socket).map_err(StartError::Socket)?;
    // Its folder is closed to others already; this says it once more.
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))
        .at(socket)
        .map_err(StartError::Socket)?;
    Ok(listener)
}

async fn mount<F>(config: &Config, filesystem: F) -> Result<(Mounted, Session), MountError>
where
    F: Filesystem,
{
    let options = MountOptions {
        source: config.url.clone(),
        mount_point: config.mount_point.clone(),
        read_only: config.read_only,
        allow_other: config.allow_other,
    };
    let failed = || MountError::Handshake(io::ErrorKind::Other.into());
    tasks::blocking("mount", move || attach(options)?.serve(filesystem))
        .await
        .unwrap_or_else(|| Err(failed()))
}

/// SIGTERM, SIGINT (Ctrl-C in the foreground) and SIGHUP ask the daemon to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _some = self.terminate.recv() => {}
            _some = self.interrupt.recv() => {}
            _some = self.hangup.recv() => {}
        }
    }
}

type Session = oneshot::Receiver<io::Result<()>>;
type Outcome = Result<io::Result<()>, oneshot::error::RecvError>;

fn session_outcome(outcome: Outcome) -> Option<io::Error> {
    let error = match outcome {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => error,
        Err(gone) => io::Error::other(gone),
    };
    tracing::error!(%error, "the session with the kernel broke");
    Some(error)
}

/// Sends what is staged within a bound, then takes the mount away, used or not: this process is
/// about to end, and a mount without its daemon is worse than none. `None` if the session goes on
/// because files are open.
async fn end_by_signal(
    daemon: &Arc<Daemon>,
    signals: &mut Signals,
    session: &mut Session,
) -> Option<Outcome> {
    tracing::info!("asked to end: sending what is staged for at most {SIGNAL_PATIENCE:?}");
    let root = Location::root();
    tokio::select! {
        _report = daemon.engine.flush(&root, &Silent, SIGNAL_PATIENCE) => {}
        () = daemon.clock.sleep(SIGNAL_PATIENCE) => {
            tracing::warn!("not everything could be sent in time");
        }
        () = signals.recv() => tracing::warn!("asked again to end: leaving the rest in staging"),
        outcome = &mut *session => return Some(outcome),
    }
    let detaching = Arc::clone(daemon);
    let detached = tasks::blocking("unmount", move || {
        detaching.detach().or_else(|error| match error {
            UnmountError::Gone { .. } => Ok(()),
            error => {
                tracing::warn!(%error, "unmounting although it is in use");
                detaching.detach_now()
            }
        })
    });
    if let Some(Err(error)) = detached.await {
        tracing::error!(%error, "the mount could not be taken away");
    }
    tokio::select! {
        outcome = session => Some(outcome),
        // A mount that is in use keeps its session until this process ends.
        () = daemon.clock.sleep(FAREWELL) => None,
    }
}

/// The folder is unmounted. Sends what is left, for as long as it moves.
async fn drain(
    daemon: &Daemon,
    signals: &mut Signals,
    end: SessionEnd,
    patience: Duration,
) -> FlushReport {
    let cut = daemon.engine.session_ended(end);
    daemon.enter(Phase::Draining);
    let root = Location::root();
    let flush = daemon.engine.flush(&root, &daemon.drain_progress, patience);
    let mut report = tokio::select! {
        report = flush => report,
        () = signals.recv() => {
            tracing::warn!("asked to end while sending the last files");
            daemon.engine.flush(&root, &Silent, Duration::ZERO).await
        }
    };
    report.left.extend(cut);
    report
}

fn log_left(daemon: &Daemon, report: &FlushReport) {
    if report.left.is_empty() {
        tracing::info!("unmounted; everything is in the bucket");
        return;
    }
    for left in &report.left {
        let reason = left.reason.as_deref().unwrap_or("no reason is known");
        tracing::warn!(
            path = left.path,
            state = left.state.as_str(),
            "not in the bucket: {reason}"
        );
    }
    tracing::warn!(
        files = report.left.len(),
        spool = %daemon.record.mount.spool.display(),
        "kept in staging: `zarrmount recover` shows and resumes it"
    );
}
