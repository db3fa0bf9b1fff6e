//! The built program, mounting a bucket of the test server as users do, and killed.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::support::S3Server;
use crate::sweep::until;

/// A folder to mount on and a home for what survives a daemon.
pub(crate) struct Place {
    folder: TempDir,
    url: String,
    endpoint: String,
}

/// A daemon in the foreground.
pub(crate) struct Daemon {
    child: Child,
    /// Whom somebody may kill: nobody once it has ended, since numbers are used again.
    victim: Arc<AtomicI32>,
}

impl Place {
    pub(crate) fn new(server: &S3Server) -> Self {
        let folder = tempfile::Builder::new().prefix("zm").tempdir().unwrap();
        fs::create_dir(folder.path().join("mnt")).unwrap();
        let url = format!("s3://{}/p", server.bucket());
        Self { folder, url, endpoint: server.endpoint() }
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn program(&self, wrapper: &[String]) -> Command {
        let binary = env!("CARGO_BIN_EXE_zarrmount");
        let mut command = match wrapper.split_first() {
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(binary);
                command
            }
            None => Command::new(binary),
        };
        let state = self.folder.path().join("state");
        command.env_clear().envs(S3Server::environment());
        command.env("XDG_STATE_HOME", &state).env("XDG_RUNTIME_DIR", &state);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// Starts a daemon and waits until it serves; `None` if it died before.
    ///
    /// `journal_bytes_max`: the system kills it with the write that would make any file longer.
    pub(crate) fn mount(
        &self,
        journal_bytes_max: Option<u64>,
        victim: Arc<AtomicI32>,
    ) -> Option<Daemon> {
        let wrapper = journal_bytes_max
            .map(|bytes| {
                vec!["prlimit".to_owned(), "--core=0".to_owned(), format!("--fsize={bytes}")]
            })
            .unwrap_or_default();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut child = self
            .program(&wrapper)
            .args(["mount", "--foreground", "--chunks", "time=4", "--region", "us-east-1"])
            .args(["--endpoint-url", &self.endpoint, "--spool-size", "1GiB", &self.url])
            .arg(self.mount_point())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        victim.store(pid_of(&child).as_raw(), Ordering::SeqCst);
        let mut greeting = String::new();
        let stdout = child.stdout.take().unwrap();
        // At the end of the file the daemon is gone.
        let read = BufReader::new(stdout).read_line(&mut greeting).unwrap();
        let mut daemon = Daemon { child, victim };
        if read == 0 {
            daemon.wait();
            return None;
        }
        Some(daemon)
    }

    /// Runs a command about the mount.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.program(&[]).args(arguments).output().unwrap()
    }

    pub(crate) fn flush(&self) -> Result<(), String> {
        self.succeeds("flush")
    }

    pub(crate) fn umount(&self) -> Result<(), String> {
        self.succeeds("umount")
    }

    fn succeeds(&self, verb: &str) -> Result<(), String> {
        let done = self.run(&[verb, self.mount_point().to_str().unwrap()]);
        if done.status.success() {
            return Ok(());
        }
        Err(format!("{verb}: {}: {}", done.status, String::from_utf8_lossy(&done.stderr)))
    }

    pub(crate) fn status(&self) -> serde_json::Value {
        let done = self.run(&["status", self.mount_point().to_str().unwrap(), "--json"]);
        serde_json::from_slice(&done.stdout).unwrap_or_default()
    }

    /// Paths that are shown as being in `state`.
    pub(crate) fn files_in_state(&self, state: &str) -> Vec<String> {
        let status = self.status();
        let files = status["files"].as_array().cloned().unwrap_or_default();
        let found = files.iter().filter(|file| file["state"] == state);
        found.filter_map(|file| Some(file["path"].as_str()?.to_owned())).collect()
    }

    /// What `recover` finds; empty if there is nothing.
    pub(crate) fn left_behind(&self) -> String {
        let done = self.run(&["recover"]);
        if done.status.success() {
            return String::new();
        }
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// The size of the largest segment of the journal.
    pub(crate) fn journal_bytes(&self) -> u64 {
        let mut largest = 0;
        let mut folders = vec![self.folder.path().join("state")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "seg") {
                    largest = largest.max(entry.metadata().map_or(0, |metadata| metadata.len()));
                }
            }
        }
        largest
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// The daemons' log, for who looks for a cause.
    pub(crate) fn keep_log(&self, name: &str) -> String {
        let kept = std::env::temp_dir().join(format!("zarrmount-{name}.log"));
        fs::copy(self.log(), &kept).unwrap();
        kept.display().to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whatever is still mounted there must not outlive the test.
        let unmount = Command::new("umount").arg("-l").arg(self.mount_point()).output();
        drop(unmount);
    }
}

impl Daemon {
    pub(crate) fn pid(&self) -> Pid {
        pid_of(&self.child)
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may be gone by itself.
        let _gone = kill(self.pid(), signal).is_err();
    }

    /// Until it has ended.
    pub(crate) fn wait(&mut self) {
        self.child.wait().unwrap();
        self.victim.store(0, Ordering::SeqCst);
    }

    /// Whether it has ended within a time in which a killed process does.
    pub(crate) fn dies(&mut self) -> bool {
        until(Duration::from_secs(10), || self.is_dead())
    }

    pub(crate) fn is_dead(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.is_dead() {
            self.kill();
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Writes a whole file as `cp` does; when this returns the close was answered.
pub(crate) fn copy_in(path: &Path, content: &[u8]) -> io::Result<()> {
    const PIECE_BYTES: usize = 128 << 10;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::File::create(path)?;
    for piece in content.chunks(PIECE_BYTES) {
        file.write_all(piece)?;
    }
    // Dropping would not tell what close(2) said.
    Ok(nix::unistd::close(file)?)
}
