//! What the user types: one file per verb. The only place that prints, and it does so through
//! [`output`], because a closed pipe is no reason to panic.

use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};

mod check;
mod demo;
mod error;
mod exit;
mod flush;
mod import;
mod mount;
mod options;
mod output;
mod progress;
mod recover;
mod status;
mod target;
mod umount;

use error::CliError;
use exit::Exit;

/// Mounts a bucket as a folder; NetCDF files copied into it arrive as Zarr.
#[derive(Debug, Parser)]
#[command(
    name = "zarrmount",
    version,
    about,
    long_about = "Mounts a bucket (S3, Google Cloud Storage, Azure Blob, a local folder) as a folder.\n\
        NetCDF files copied into it arrive in the bucket as Zarr; every other file arrives byte for \
        byte. Unmounting waits until everything is in the bucket.",
    after_long_help = EXAMPLES,
    after_help = "`zarrmount help VERB` says more about each verb; `zarrmount demo` shows it at work.",
    propagate_version = true,
    disable_help_subcommand = false
)]
pub struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "Examples:
  zarrmount demo
  zarrmount mount s3://ocean-archive/v3 ~/archive --chunks time=1,depth=1
  mkdir ~/archive/sst.zarr && cp sst_*.nc ~/archive/sst.zarr/
  zarrmount status
  zarrmount umount ~/archive
  zarrmount import s3://ocean-archive/v3/sst.zarr /data/sst/ --dry-run

Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 not everything is in the bucket;
4 the mount is in use.";

/// Options of every verb.
#[derive(Debug, clap::Args)]
struct Globals {
    /// Log more: -v for debugging, -vv for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
    /// Write the log to this file
    #[arg(long, global = true, value_name = "FILE")]
    log_file: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Mount(mount::Args),
    Umount(umount::Args),
    Flush(flush::Args),
    Import(import::Args),
    Check(check::Args),
    Status(status::Args),
    Recover(recover::Args),
    Demo(demo::Args),
}

/// Parses the command line, runs the verb and turns its outcome into an exit code.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way, too, and print to standard output.
            let _printed = error.print().is_ok();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done }.into();
        }
    };
    let globals = &cli.globals;
    let outcome = match &cli.verb {
        Verb::Mount(args) => mount::run(args, globals),
        Verb::Umount(args) => logged(globals).and_then(|()| umount::run(args)),
        Verb::Flush(args) => logged(globals).and_then(|()| flush::run(args)),
        Verb::Import(args) => logged(globals).and_then(|()| import::run(args, globals)),
        Verb::Check(args) => logged(globals).and_then(|()| check::run(args, globals)),
        Verb::Status(args) => logged(globals).and_then(|()| status::run(args)),
        Verb::Recover(args) => logged(globals).and_then(|()| recover::run(args)),
        Verb::Demo(args) => logged(globals).and_then(|()| demo::run(args)),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.print();
            error.exit.into()
        }
    }
}

/// Starts logging for a verb that runs in the foreground.
fn logged(globals: &Globals) -> Result<(), CliError> {
    use crate::telemetry::logging::{LogTarget, Role, start};
    let target =
        globals.log_file.as_ref().map_or(LogTarget::Stderr, |path| LogTarget::File(path.into()));
    Ok(start(&target, Role::Command, globals.verbose)?)
}

#[cfg(test)]
mod tests;
