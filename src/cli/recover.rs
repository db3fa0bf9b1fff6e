//! `zarrmount recover`.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::error::CliError;
use super::exit::Exit;
use super::flush::{files_are, left_line, tell_left};
use super::output::{say, tell};
use super::progress::Display;
use super::target::this_state_home;
use crate::mount::recovery::{LeftSpool, ResumeError, left_spools, resume};
use crate::mount::wiring;
use crate::store::Location;

/// Show, send or discard what a daemon that died left behind
///
/// Without a verb it lists the spools in which something is left. Mounting the same URL at the same
/// folder again sends it, too.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  zarrmount recover
  zarrmount recover resume s3://ocean-archive/v3
  zarrmount recover discard ~/.local/state/zarrmount/node7-0123456789abcdef sst.zarr/bad.nc --yes")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the spools in which something is left
    List,
    /// Send what is left, without mounting
    Resume {
        /// The spool's folder, or the URL of the store
        #[arg(value_name = "SPOOL|URL")]
        spool: String,
    },
    /// Throw away what is left; it cannot be had back
    Discard {
        /// The spool's folder
        spool: PathBuf,
        /// Only this file or what is below this folder, as `recover` lists it
        path: Option<String>,
        /// Do it; without this it only says what would be thrown away
        #[arg(long)]
        yes: bool,
    },
}

pub(super) fn run(args: &Args) -> Result<Exit, CliError> {
    let home = this_state_home()?;
    match &args.verb {
        None | Some(Verb::List) => list(&home),
        Some(Verb::Resume { spool }) => resume_all(&home, spool),
        Some(Verb::Discard { spool, path, yes }) => discard(&home, spool, path.as_deref(), *yes),
    }
}

fn list(home: &Path) -> Result<Exit, CliError> {
    let spools = left_spools(home)?;
    if spools.is_empty() {
        say("nothing is left behind");
        return Ok(Exit::Done);
    }
    for spool in &spools {
        let url = spool.content.config.as_ref().map_or("an unknown store", |config| &config.url);
        say(format_args!("{} for {url}:", spool.folder.display()));
        for left in &spool.content.left {
            say(left_line(left));
        }
    }
    tell("hint: `zarrmount recover resume SPOOL` sends it");
    Ok(Exit::NotStored)
}

fn resume_all(home: &Path, wanted: &str) -> Result<Exit, CliError> {
    let spools: Vec<_> =
        left_spools(home)?.into_iter().filter(|spool| is_wanted(spool, wanted)).collect();
    if spools.is_empty() {
        return Err(nothing_left(wanted));
    }
    let mut exit = Exit::Done;
    for spool in spools {
        if resume_one(home, &spool)? != Exit::Done {
            exit = Exit::NotStored;
        }
    }
    Ok(exit)
}

fn resume_one(home: &Path, spool: &LeftSpool) -> Result<Exit, CliError> {
    let folder = spool.folder.display();
    let Some(config) = &spool.content.config else {
        return Err(CliError::failed(format!("{folder}: it is not known how this was mounted"))
            .hint("mount the same URL at the same folder again, with --spool-dir"));
    };
    let display = Display::new();
    let report = resume(config, home, &display);
    display.finish();
    let report = report?;
    if report.is_complete() {
        say(format_args!("{folder}: everything is in {}", config.url));
        return Ok(Exit::Done);
    }
    tell_left(&report.left);
    tell(format_args!(
        "error: {} not in the bucket, kept in {folder}",
        files_are(report.left.len())
    ));
    Ok(Exit::NotStored)
}

fn discard(home: &Path, spool: &Path, path: Option<&str>, yes: bool) -> Result<Exit, CliError> {
    let scope = Location::parse(path.unwrap_or_default())
        .map_err(|error| CliError::new(Exit::Usage, error))?;
    let text = spool.to_string_lossy();
    let Some(found) = left_spools(home)?.into_iter().find(|left| is_wanted(left, &text)) else {
        return Err(nothing_left(&text));
    };
    if !yes {
        for left in found.content.left.iter().filter(|left| is_below(&left.path, &scope)) {
            say(left_line(left));
        }
        return Err(CliError::new(Exit::Usage, "nothing is thrown away yet")
            .hint("this is the only copy of these files; `--yes` throws them away"));
    }
    for left in wiring::discard(&found.folder, &scope)? {
        say(format_args!("thrown away: {}", left_line(&left).trim_start()));
    }
    Ok(Exit::Done)
}

fn is_below(path: &str, scope: &Location) -> bool {
    Location::parse(path).is_ok_and(|path| path == *scope || path.is_below(scope))
}

fn is_wanted(spool: &LeftSpool, wanted: &str) -> bool {
    let url = spool.content.config.as_ref().map(|config| config.url.trim_end_matches('/'));
    let folder = Path::new(wanted).canonicalize();
    url == Some(wanted.trim_end_matches('/'))
        || folder.is_ok_and(|folder| spool.folder.canonicalize().is_ok_and(|own| own == folder))
}

fn nothing_left(wanted: &str) -> CliError {
    CliError::new(Exit::Usage, format!("nothing is left behind for {wanted}"))
        .hint("`zarrmount recover` lists what is; a mount that is alive is not listed")
}

impl From<ResumeError> for CliError {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::Registry(error) => error.into(),
            ResumeError::Open(error) => error.into(),
            ResumeError::System(_) => Self::failed(error),
        }
    }
}
