//! The control socket with a real engine, without a kernel.

use std::io::{BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::client::{ClientError, ask};
use super::daemon::{Daemon, listen, record};
use super::engine::FlushReport;
use super::protocol::{Command, Reply, UnmountOutcome, read_message};
use super::registry::RecordFolder;
use super::status::Phase;
use super::{server, wiring};
use crate::base::clock::Clock;
use crate::base::tasks;
use crate::config::layers::{Layer, Layers, Origin};
use crate::config::{Config, Machine};
use crate::fs::{Caller, Fs, OpenFlags};
use crate::namespace::Ino;
use crate::telemetry::progress::Silent;

struct Place {
    home: tempfile::TempDir,
    bucket: tempfile::TempDir,
}

struct Served {
    daemon: Arc<Daemon>,
    files: Arc<Fs>,
}

impl Place {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), bucket: tempfile::tempdir().unwrap() }
    }

    fn config(&self) -> Config {
        let url = format!("file://{}", self.bucket.path().display());
        let machine = Machine {
            state_home: self.home.path().to_owned(),
            ..Machine::this(|name| std::env::var(name).ok()).unwrap()
        };
        let layers = Layers::new(vec![Layer::empty(Origin::CommandLine)]);
        Config::resolve(&url, Path::new("/not/mounted"), &layers, &machine).unwrap()
    }

    /// A daemon without a kernel: everything but the mount.
    async fn serve(&self) -> Served {
        let (config, clock) = (self.config(), Clock::system());
        let folder = RecordFolder::of(self.home.path(), &config.mount_point);
        folder.create().unwrap();
        let parts = wiring::open(&config, &clock).await.unwrap();
        let record = record(&folder, config, &clock).unwrap();
        let listener = listen(&record.socket).unwrap();
        let daemon = Arc::new(Daemon::new(record, parts.engine, clock, None, folder));
        daemon.enter(Phase::Mounted);
        let (alive, _) = mpsc::channel(1);
        tasks::spawn("control socket", server::serve(Arc::clone(&daemon), listener, alive));
        Served { daemon, files: parts.files }
    }
}

impl Served {
    async fn ask(&self, command: Command) -> Result<Reply, ClientError> {
        let record = self.daemon.record.clone();
        tasks::blocking("ask", move || ask(&record, command, &Silent)).await.unwrap()
    }

    async fn write(&self, name: &str, content: &[u8]) {
        let caller = Caller { uid: 0, gid: 0 };
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let (_, opened) = self.files.create(caller, Ino::ROOT, name, 0o644, flags).await.unwrap();
        self.files.write(opened.fh, 0, content).unwrap();
        self.files.flush(opened.fh).await.unwrap();
        self.files.release(opened.fh);
    }
}

fn flush_all() -> Command {
    Command::Flush { path: String::new(), timeout_ms: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn flush_answers_once_everything_is_in_the_bucket() {
    let place = Place::new();
    let served = place.serve().await;
    served.write("a.txt", b"content").await;

    let Reply::Flushed(report) = served.ask(flush_all()).await.unwrap() else {
        panic!("not a flush report")
    };
    // What it waited for depends on the machine.
    assert_eq!(FlushReport { bottleneck: None, ..report }, FlushReport::default());
    assert_eq!(std::fs::read(place.bucket.path().join("a.txt")).unwrap(), b"content");

    let Reply::Status(status) = served.ask(Command::Status).await.unwrap() else {
        panic!("not a status")
    };
    assert_eq!(status.mount.phase, Phase::Mounted);
    let engine = status.engine.unwrap();
    assert_eq!((engine.queue.items, engine.spool.files, engine.requests.put), (0, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_open_for_writing_is_named_and_not_waited_for() {
    let place = Place::new();
    let served = place.serve().await;
    let caller = Caller { uid: 0, gid: 0 };
    let flags = OpenFlags { write: true, ..OpenFlags::default() };
    served.files.create(caller, Ino::ROOT, "open.txt", 0o644, flags).await.unwrap();

    let Reply::Flushed(report) = served.ask(flush_all()).await.unwrap() else {
        panic!("not a flush report")
    };
    assert!(report.is_complete());
    assert_eq!(report.open, ["open.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unmount_while_the_last_files_are_sent_waits_for_the_end() {
    let place = Place::new();
    let served = place.serve().await;
    served.daemon.enter(Phase::Draining);
    let asked = served.ask(Command::Unmount { timeout_ms: None });
    tokio::pin!(asked);
    assert!(futures::poll!(&mut asked).is_pending());
    served.daemon.drained.send_replace(Some(FlushReport::default()));
    let reply = asked.await.unwrap();
    assert_eq!(reply, Reply::Unmount(UnmountOutcome::Unmounted(FlushReport::default())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_another_version_or_of_none_is_rejected_with_a_sentence() {
    let place = Place::new();
    let served = place.serve().await;
    let socket = served.daemon.record.socket.clone();
    for (line, expected) in [
        ("{\"version\":99,\"command\":\"status\"}\n", "version 99"),
        ("{\"version\":1,\"command\":\"explode\"}\n", "not understood"),
        ("{\"version\":1,\"command\":\"flush\",\"path\":\"../up\"}\n", "`..`"),
    ] {
        let socket = socket.clone();
        let reply = tasks::blocking("ask", move || {
            let mut stream = UnixStream::connect(socket).unwrap();
            stream.write_all(line.as_bytes()).unwrap();
            read_message::<Reply>(&mut BufReader::new(stream), 1 << 20).unwrap()
        });
        let Some(Reply::Rejected { message }) = reply.await else { panic!("{line}") };
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_tells_the_phase_to_those_who_cannot_ask() {
    let place = Place::new();
    let served = place.serve().await;
    served.daemon.enter(Phase::Draining);
    let folder = RecordFolder::all(place.home.path()).remove(0);
    assert_eq!(folder.read().unwrap().unwrap().mount.phase, Phase::Draining);
}
