//! `zarrmount mount`.

use std::path::PathBuf;

use super::error::CliError;
use super::exit::Exit;
use super::options::OptionFlags;
use super::output::{say, tell};
use super::{Globals, target};
use crate::config::{Config, Machine};
use crate::mount::daemon::{self, Ended};
use crate::mount::launch::{Ready, ReadyPipe, Report, launch};
use crate::mount::registry::RecordFolder;
use crate::telemetry::logging::{LogTarget, Role, start};

/// Mount a bucket as a folder
///
/// Returns when the mount can be used; a daemon goes on serving it until `zarrmount umount`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The store: `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, `file:///FOLDER`
    url: String,
    /// The folder it appears at; must exist
    dir: PathBuf,
    /// Mount options as in /etc/fstab: any option below without its dashes
    #[arg(short = 'o', value_name = "OPTION[=VALUE],..")]
    mount_options: Vec<String>,
    /// Read options from this TOML file: `chunks = "time=1"`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Stay in the foreground and log to the terminal; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,
    #[command(flatten)]
    options: OptionFlags,
}

/// Stands in for `--config`.
const CONFIG_VARIABLE: &str = "ZARRMOUNT_CONFIG";

const EXAMPLES: &str = "Examples:
  mkdir -p ~/archive
  zarrmount mount s3://ocean-archive/v3 ~/archive
  zarrmount mount s3://ocean-archive/v3 ~/archive --chunks time=1,depth=1 --codec zstd:3
  zarrmount mount s3://bucket ~/archive --endpoint-url http://localhost:9000
  zarrmount mount file:///data/store ~/archive -o ro,memory=1GiB

Each option can also be given as an environment variable (ZARRMOUNT_CHUNKS for --chunks) or in the
file named by --config. The command line wins over the environment, and that over the file.";

pub(super) fn run(args: &Args, globals: &Globals) -> Result<Exit, CliError> {
    match ReadyPipe::from_environment() {
        Some(pipe) => Ok(as_daemon(args, globals, &pipe)),
        None if args.foreground => in_foreground(args, globals),
        None => start_daemon(args, globals),
    }
}

/// The process that the user started: waits until the daemon is ready.
fn start_daemon(args: &Args, globals: &Globals) -> Result<Exit, CliError> {
    let (config, machine) = resolve(args, globals)?;
    let log = log_file(&config, &machine)?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match launch(&arguments, &log) {
        Ok(Report::Ready(ready)) => {
            greet(&ready);
            Ok(Exit::Done)
        }
        Ok(Report::Failed { message, hints, exit }) => {
            Err(CliError { message, hints, exit: Exit::of(exit) })
        }
        Err(error) => Err(CliError::from(error).hint(format!("its log: {}", log.display()))),
    }
}

/// The process that [`start_daemon`] started.
fn as_daemon(args: &Args, globals: &Globals, pipe: &ReadyPipe) -> Exit {
    let outcome = resolve(args, globals).and_then(|(config, machine)| {
        start(&LogTarget::File(log_file(&config, &machine)?), Role::Daemon, globals.verbose)?;
        let ready = |ready| pipe.report(&Report::Ready(ready));
        Ok(daemon::run(config, &machine.state_home, ready)?)
    });
    match outcome {
        Ok(ended) => exit_of(&ended),
        Err(error) => {
            tracing::error!("{}", error.message);
            let report = Report::Failed {
                message: error.message.clone(),
                hints: error.hints.clone(),
                exit: error.exit as u8,
            };
            if let Err(error) = pipe.report(&report) {
                tracing::warn!(%error, "nobody waits for this report");
            }
            // Standard error is the log here, which has it already.
            error.exit
        }
    }
}

fn in_foreground(args: &Args, globals: &Globals) -> Result<Exit, CliError> {
    let (config, machine) = resolve(args, globals)?;
    let log = config.log_file.clone();
    start(&log.clone().map_or(LogTarget::Stderr, LogTarget::File), Role::Daemon, globals.verbose)?;
    let ended = daemon::run(config, &machine.state_home, |ready| {
        greet(&Ready { log, ..ready });
        Ok(())
    })?;
    Ok(exit_of(&ended))
}

fn resolve(args: &Args, globals: &Globals) -> Result<(Config, Machine), CliError> {
    let variable = |name: &str| std::env::var(name).ok();
    let machine = Machine::this(variable)?;
    let file = args.config.clone().or_else(|| variable(CONFIG_VARIABLE).map(PathBuf::from));
    let layers = args.options.layers(globals, &args.mount_options, file.as_deref())?;
    let dir = target::absolute(&args.dir)?;
    Ok((Config::resolve(&args.url, &dir, &layers, &machine)?, machine))
}

fn log_file(config: &Config, machine: &Machine) -> Result<PathBuf, CliError> {
    let folder = RecordFolder::of(&machine.state_home, &config.mount_point);
    folder.create()?;
    Ok(config.log_file.clone().unwrap_or_else(|| folder.log_file()))
}

fn greet(ready: &Ready) {
    for note in &ready.notes {
        tell(format_args!("note: {note}"));
    }
    let log = ready.log.as_ref().map(|log| format!("log: {}; ", log.display())).unwrap_or_default();
    let dir = ready.dir.display();
    say(format_args!(
        "{} is mounted at {dir} ({log}unmount with: zarrmount umount {dir})",
        ready.url
    ));
}

fn exit_of(ended: &Ended) -> Exit {
    match (&ended.session_error, ended.left.is_empty()) {
        (Some(_), _) => Exit::Failed,
        (None, false) => Exit::NotStored,
        (None, true) => Exit::Done,
    }
}
