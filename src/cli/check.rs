//! `zarrmount check`.

use std::path::{Path, PathBuf};

use super::Globals;
use super::error::CliError;
use super::exit::Exit;
use super::import::{files, split};
use super::options::OptionFlags;
use super::output::say;
use super::progress::Display;
use crate::base::clock::Clock;
use crate::base::units::ByteSize;
use crate::check::{CheckError, Report, Wanted};
use crate::config::{Config, Machine};
use crate::mount::wiring;
use crate::store::Location;

/// Check a dataset, alone or against the files it was made from
///
/// Reads every metadata document, compares the consolidated metadata with them, looks whether each
/// object is a chunk that its array asks for, and decodes all of them. With `--against` every value and
/// every attribute of the files must be in the dataset: exit code 0 means that nothing would be lost with
/// the files. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The dataset: `s3://BUCKET/PREFIX/NAME.zarr`
    url: String,
    /// NetCDF files, folders (all NetCDF files below them), or patterns such as `'/data/*.nc'`
    #[arg(long, num_args = 1.., value_name = "FILE")]
    against: Vec<PathBuf>,
    /// Read more names of files to compare with from this file, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Do not fetch and decode the chunks
    #[arg(long)]
    metadata_only: bool,
    /// Read options from this TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: OptionFlags,
}

const EXAMPLES: &str = "Examples:
  zarrmount check s3://ocean-archive/v3/sst.zarr
  zarrmount check s3://ocean-archive/v3/sst.zarr --against /data/sst/

Exit codes: 0 nothing is wrong; 1 something is, or it could not be checked; 2 wrong arguments.";

pub(super) fn run(args: &Args, globals: &Globals) -> Result<Exit, CliError> {
    let sources = if args.against.is_empty() && args.files_from.is_none() {
        Vec::new()
    } else {
        files(&args.against, args.files_from.as_deref())?
    };
    let (store, name) = split(&args.url)?;
    let machine = Machine::this(|name| std::env::var(name).ok())?;
    let layers = args.options.layers(globals, &[], args.config.as_deref())?;
    // There is no mount: the dataset stands for it where a place has to be named.
    let config = Config::resolve(&store, &Path::new("/").join(&name), &layers, &machine)?;
    let dataset = Location::parse(&name)
        .map_err(|error| CliError::new(Exit::Usage, format!("{}: {error}", args.url)))?;
    let wanted =
        Wanted { dataset, chunks: !args.metadata_only, sources, encoding: config.encoding.clone() };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed)?;
    let display = Display::new();
    let outcome = runtime.block_on(async {
        let parts = wiring::open_check(&config, &Clock::system()).await?;
        Ok::<_, CliError>(crate::check::check(&parts, &wanted, &display).await?)
    });
    display.finish();
    let report = outcome?;
    describe(&args.url, &report, &wanted);
    Ok(if report.is_good() { Exit::Done } else { Exit::Failed })
}

impl From<CheckError> for CliError {
    fn from(error: CheckError) -> Self {
        Self::failed(error)
    }
}

fn describe(url: &str, report: &Report, wanted: &Wanted) {
    let consolidated = if report.consolidated { "consolidated" } else { "not consolidated" };
    say(format_args!(
        "{url}: Zarr version {}, {consolidated}; {}, {}",
        report.format,
        count(report.groups as u64, "group"),
        count(report.arrays as u64, "array")
    ));
    let decoded = if wanted.chunks {
        format!(", {} of them decode", report.decoded)
    } else {
        ", not decoded".to_owned()
    };
    say(format_args!(
        "{} ({}){decoded}; {} stand for chunks of nothing but fill value",
        count(report.chunk_objects, "chunk object"),
        ByteSize(report.chunk_bytes),
        count(report.omitted, "omitted object")
    ));
    if !wanted.sources.is_empty() {
        say(format_args!(
            "{} compared: {} with {} in all, equal",
            count(report.sources as u64, "file"),
            count(report.equal_variables, "variable"),
            count(report.values, "value"),
        ));
    }
    for (kind, lines) in [("note", &report.notes), ("problem", &report.problems)] {
        for line in lines.kept() {
            say(format_args!("{kind}: {line}"));
        }
        let more = lines.count() - lines.kept().len() as u64;
        if more > 0 {
            say(format_args!("{kind}: and {more} more"));
        }
    }
    let may_be_left_out = wanted.encoding.skip_unsupported;
    say(match (report.is_good(), wanted.sources.is_empty()) {
        (true, true) => "nothing is wrong".to_owned(),
        (true, false) if may_be_left_out => {
            "nothing is wrong: all that can be stored of the files is \
             in the dataset; the warnings name what was left out"
                .to_owned()
        }
        (true, false) => "nothing is wrong: all that the files hold is in the dataset".to_owned(),
        (false, _) => format!("{} found", count(report.problems.count(), "problem")),
    });
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
