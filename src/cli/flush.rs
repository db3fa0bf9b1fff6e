//! `zarrmount flush`, and how what could not be sent is shown.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::CliError;
use super::exit::Exit;
use super::output::{say, tell};
use super::progress::Display;
use super::target::{absolute, record_around, this_state_home};
use crate::base::units::{ByteSize, parse_duration};
use crate::mount::client::ask;
use crate::mount::engine::FlushReport;
use crate::mount::protocol::{Command, Reply};
use crate::mount::registry::MountRecord;
use crate::mount::status::Left;
use crate::telemetry::activities::Bottleneck;

/// Wait until what was copied is in the bucket
///
/// Sends and publishes every file that was closed before the call. The mount stays.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  zarrmount flush ~/archive
  zarrmount flush ~/archive sst.zarr
  zarrmount flush ~/archive/sst.zarr")]
pub(super) struct Args {
    /// The mounted folder, or a folder in it
    dir: PathBuf,
    /// Only what is at or below this path in DIR
    path: Option<PathBuf>,
    /// Give up after so long without any progress [default: what the mount was told, 10min]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

pub(super) fn run(args: &Args) -> Result<Exit, CliError> {
    let home = this_state_home()?;
    let whole = args.path.as_ref().map_or_else(|| args.dir.clone(), |path| args.dir.join(path));
    let whole = absolute(&whole)?;
    let (_, record) = record_around(&home, &whole)?;
    let below = whole.strip_prefix(&record.mount.dir).unwrap_or(&whole);
    let command = Command::Flush {
        path: below.to_string_lossy().into_owned(),
        timeout_ms: args.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
    };
    let display = Display::new();
    let reply = ask(&record, command, &display);
    display.finish();
    let Reply::Flushed(report) = reply? else {
        return Err(CliError::failed("the daemon answered something else"));
    };
    if !report.open.is_empty() {
        tell(format_args!("note: open for writing and not waited for: {}", report.open.join(", ")));
    }
    if !report.is_complete() {
        return Err(not_stored(&report, &record));
    }
    say(format_args!("{} is in {}", whole.display(), record.mount.url));
    say_bottleneck(report.bottleneck.as_ref());
    Ok(Exit::Done)
}

/// Where the time went, if it was long enough to ask.
pub(super) fn say_bottleneck(bottleneck: Option<&Bottleneck>) {
    const SECONDS_MIN: f64 = 1.0;
    if let Some(bottleneck) = bottleneck.filter(|it| it.seconds.sum() >= SECONDS_MIN) {
        say(format_args!("it waited for {bottleneck}"));
    }
}

/// Names what could not be sent, and where it is.
pub(super) fn not_stored(report: &FlushReport, record: &MountRecord) -> CliError {
    not_stored_in(report, &record.mount.spool)
        .hint(format!("`zarrmount status {}` says more", record.mount.dir.display()))
}

/// The same where there is no mount.
pub(super) fn not_stored_in(report: &FlushReport, spool: &Path) -> CliError {
    tell_left(&report.left);
    let mut message = format!("{} not in the bucket", files_are(report.left.len()));
    if let Some(patience) = report.gave_up_after {
        let patience = humantime::format_duration(patience);
        message = format!("{message}: nothing moved for {patience}");
    }
    CliError::new(Exit::NotStored, message)
        .hint(format!("what is not is kept in {}", spool.display()))
}

/// `1 file is`, `2 files are`
pub(super) fn files_are(count: usize) -> String {
    if count == 1 { "1 file is".to_owned() } else { format!("{count} files are") }
}

/// A line for each, up to a screenful.
pub(super) fn tell_left(left: &[Left]) {
    const LINES_MAX: usize = 20;
    for item in left.iter().take(LINES_MAX) {
        tell(left_line(item));
    }
    if left.len() > LINES_MAX {
        tell(format_args!("  … and {} more", left.len() - LINES_MAX));
    }
}

/// `  refused  a/b.nc (1.0 MiB): the reason`
pub(super) fn left_line(item: &Left) -> String {
    let reason = item.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let size = ByteSize(item.bytes);
    format!("  {:10} {} ({size}){reason}", item.state.as_str(), item.path)
}
