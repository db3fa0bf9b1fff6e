//! `zarrmount umount`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::CliError;
use super::exit::Exit;
use super::flush::{files_are, not_stored, say_bottleneck, tell_left};
use super::output::{say, tell};
use super::progress::Display;
use super::target::{absolute, not_mounted, record_at, this_state_home};
use crate::base::clock::Clock;
use crate::base::units::parse_duration;
use crate::fuse::session::{State, detach_now, state};
use crate::mount::client::ask;
use crate::mount::engine::FlushReport;
use crate::mount::protocol::{Command, Reply, UnmountOutcome};
use crate::mount::registry::{MountRecord, RecordFolder};
use crate::mount::wiring;

/// Send everything to the bucket, then unmount
///
/// Ends with exit code 0 only if everything is in the bucket, the mount is gone and its daemon has
/// ended. If something cannot be sent, the mount stays and what is missing is named; calling it
/// again tries again.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  zarrmount umount ~/archive
  zarrmount umount ~/archive --timeout 1h")]
pub(super) struct Args {
    /// The mounted folder
    dir: PathBuf,
    /// Give up after so long without any progress [default: what the mount was told, 10min]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

/// How long the daemon may take to end once everything is done.
const END_PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(args: &Args) -> Result<Exit, CliError> {
    let home = this_state_home()?;
    let dir = absolute(&args.dir)?;
    let (folder, record) = record_at(&home, &dir)?;
    match record {
        Some(record) if folder.has_daemon() => with_daemon(&folder, &record, args.timeout),
        Some(record) => without_daemon(&folder, &record),
        None => without_record(&dir),
    }
}

fn with_daemon(
    folder: &RecordFolder,
    record: &MountRecord,
    timeout: Option<Duration>,
) -> Result<Exit, CliError> {
    let timeout_ms = timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
    let display = Display::new();
    let reply = ask(record, Command::Unmount { timeout_ms }, &display);
    display.finish();
    let dir = record.mount.dir.display();
    match reply? {
        Reply::Unmount(UnmountOutcome::Unmounted(report)) => unmounted(folder, record, &report),
        Reply::Unmount(UnmountOutcome::NotFlushed(report)) => Err(not_stored(&report, record)
            .hint(format!("{dir} is still mounted; `zarrmount umount {dir}` tries again"))),
        Reply::Unmount(UnmountOutcome::Busy { holders }) => {
            for holder in &holders {
                tell(format_args!("  {holder}"));
            }
            Err(CliError::new(Exit::Busy, format!("{dir} is in use and still mounted"))
                .hint("everything released so far is in the bucket")
                .hint("close those files and leave the folder, then unmount again"))
        }
        Reply::Unmount(UnmountOutcome::Detached { open }) => {
            for path in &open {
                tell(format_args!("  open: {path}"));
            }
            let pid = record.mount.pid;
            let message = format!("{dir} was unmounted before, but files of it are still open");
            Err(CliError::new(Exit::Busy, message)
                .hint("everything released so far is in the bucket")
                .hint(format!("once they are closed, process {pid} sends them and ends")))
        }
        Reply::Unmount(UnmountOutcome::Failed { message }) => {
            Err(CliError::failed(format!("{dir} is still mounted: {message}")))
        }
        _ => Err(CliError::failed("the daemon answered something else")),
    }
}

fn unmounted(
    folder: &RecordFolder,
    record: &MountRecord,
    report: &FlushReport,
) -> Result<Exit, CliError> {
    wait_for_end(folder, record)?;
    let dir = record.mount.dir.display();
    if !report.is_complete() {
        return Err(not_stored(report, record)
            .hint(format!("{dir} is unmounted; `zarrmount recover` shows and resumes the rest")));
    }
    say(format_args!("{dir} is unmounted; everything is in {}", record.mount.url));
    say_bottleneck(report.bottleneck.as_ref());
    Ok(Exit::Done)
}

/// The lock of the record is free once the daemon's process is gone.
fn wait_for_end(folder: &RecordFolder, record: &MountRecord) -> Result<(), CliError> {
    const POLL: Duration = Duration::from_millis(20);
    let clock = Clock::system();
    let start = clock.now();
    while folder.is_locked() {
        if clock.now().duration_since(start) > END_PATIENCE {
            let pid = record.mount.pid;
            return Err(CliError::failed(format!(
                "everything is sent and unmounted, but the daemon (process {pid}) does not end"
            )));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The daemon died. What it had accepted is in its spool.
fn without_daemon(folder: &RecordFolder, record: &MountRecord) -> Result<Exit, CliError> {
    let dir = &record.mount.dir;
    if let State::Dead(_) = state(dir) {
        detach_now(dir)?;
    }
    tell(format_args!("the daemon of {} had died; the dead mount is taken away", dir.display()));
    let content = wiring::inspect(&record.mount.spool)?;
    folder.remove(record);
    let left = content.map(|content| content.left).unwrap_or_default();
    if left.is_empty() {
        say(format_args!("{} is unmounted; nothing was left to send", dir.display()));
        return Ok(Exit::Done);
    }
    tell_left(&left);
    let spool = record.mount.spool.display();
    Err(CliError::new(Exit::NotStored, format!("{} not in the bucket", files_are(left.len())))
        .hint(format!("what is not is kept in {spool}"))
        .hint(format!("`zarrmount recover resume {spool}` sends it, and so does mounting again")))
}

fn without_record(dir: &Path) -> Result<Exit, CliError> {
    match state(dir) {
        State::Dead(entry) => {
            detach_now(dir)?;
            say(format_args!("a dead mount of {} was taken away", entry.source));
            Ok(Exit::Done)
        }
        State::Alive(entry) => {
            let user = entry.user_id.map_or_else(|| "another user".to_owned(), user_name);
            Err(CliError::failed(format!(
                "{} at {} was mounted by {user}",
                entry.source,
                dir.display()
            ))
            .hint("only that user can unmount it and wait for its files"))
        }
        State::Free | State::ForeignDead(_) => Err(not_mounted(dir)),
    }
}

fn user_name(id: u32) -> String {
    let user = nix::unistd::User::from_uid(id.into()).ok().flatten();
    user.map_or_else(|| format!("user {id}"), |user| user.name)
}
