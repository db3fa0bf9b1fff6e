//! `zarrmount import`.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::Globals;
use super::error::CliError;
use super::exit::Exit;
use super::flush::say_bottleneck;
use super::options::OptionFlags;
use super::output::{say, tell};
use super::progress::Display;
use crate::base::clock::Clock;
use crate::base::durable::AtPath as _;
use crate::base::units::ByteSize;
use crate::config::{Config, Machine};
use crate::ingest::import::{Import, ImportError, ImportSummary};
use crate::mount::wiring;
use crate::store::Location;
use crate::zarr::{ArrayMetadata, NodePath};

/// Import NetCDF files into one dataset
///
/// All files are read and checked before the first byte is sent. What was sent is journaled: the same
/// command goes on where an interrupted one was. Files that the dataset has already (by name, size
/// and modification time) are skipped.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The dataset: `s3://BUCKET/PREFIX/NAME.zarr`
    url: String,
    /// Files, folders (all NetCDF files below them), or patterns such as `'/data/*/sst_*.nc'`
    #[arg(required_unless_present = "files_from")]
    files: Vec<PathBuf>,
    /// Read more file names from this file, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Show what the dataset would be, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Read options from this TOML file: `chunks = "time=1"`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: OptionFlags,
}

const EXAMPLES: &str = "Examples:
  zarrmount import s3://ocean-archive/v3/sst.zarr /data/sst/ --dry-run
  zarrmount import s3://ocean-archive/v3/sst.zarr /data/sst/*.nc --chunks time=1,depth=1
  find /data -name '*.nc' | zarrmount import s3://ocean-archive/v3/sst.zarr --files-from -";

/// Endings of the files that are taken from a folder.
const ENDINGS: [&str; 4] = ["nc", "nc4", "cdf", "netcdf"];

pub(super) fn run(args: &Args, globals: &Globals) -> Result<Exit, CliError> {
    let files = files(&args.files, args.files_from.as_deref())?;
    let (store, name) = split(&args.url)?;
    let machine = Machine::this(|name| std::env::var(name).ok())?;
    let layers = args.options.layers(globals, &[], args.config.as_deref())?;
    // There is no mount: the dataset stands for it where a place has to be named.
    let place = Path::new("/").join(&name);
    let config = Config::resolve(&store, &place, &layers, &machine)?;
    let dataset = Location::parse(&name)
        .map_err(|error| CliError::new(Exit::Usage, format!("{}: {error}", args.url)))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed)?;
    let display = Display::new();
    let outcome = runtime.block_on(async {
        let parts = wiring::open_import(&config, &Clock::system()).await?;
        let import = Import::prepare(parts, dataset, files, &config.encoding).await?;
        let summary = import.summary();
        if args.dry_run {
            return Ok(summary);
        }
        tell_rereading(&summary, config.memory_bytes_max);
        Ok::<_, CliError>(import.run(&display).await?)
    });
    display.finish();
    let summary = outcome?;
    describe(&args.url, &summary);
    if args.dry_run {
        tell_rereading(&summary, config.memory_bytes_max);
        say("nothing was sent");
    } else {
        say(format_args!("{} is complete", args.url));
        say(format_args!("{} source chunks were decoded", summary.chunks_decoded));
        say_bottleneck(summary.bottleneck.as_ref());
    }
    Ok(Exit::Done)
}

impl From<ImportError> for CliError {
    fn from(error: ImportError) -> Self {
        let hint = match &error {
            ImportError::Refused { .. } => "nothing was sent; leave these files out or mend them",
            ImportError::Interrupted(_) => "the same command goes on where this one was",
            ImportError::Dataset(_) | ImportError::Store(_) => return Self::failed(error),
        };
        Self::failed(error).hint(hint)
    }
}

/// The store and the name of the dataset in it.
pub(super) fn split(url: &str) -> Result<(String, String), CliError> {
    let trimmed = url.trim_end_matches('/');
    let split = trimmed
        .rsplit_once('/')
        .filter(|(store, name)| !name.is_empty() && !store.ends_with('/') && store.contains("://"));
    let (store, name) = split.ok_or_else(|| {
        let message = format!("{url}: a dataset has a name, such as s3://bucket/sst.zarr");
        CliError::new(Exit::Usage, message)
    })?;
    if !Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zarr")) {
        let message = format!("{url}: the name of a dataset ends in `.zarr`");
        return Err(CliError::new(Exit::Usage, message));
    }
    Ok((store.to_owned(), name.to_owned()))
}

/// The files, each once, in the order in which they were named.
pub(super) fn files(
    named: &[PathBuf],
    files_from: Option<&Path>,
) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for path in named {
        add(path, &mut files)?;
    }
    if let Some(list) = files_from {
        let mut text = String::new();
        if list == Path::new("-") {
            io::stdin().read_to_string(&mut text).at(list)?;
        } else {
            text = fs::read_to_string(list).at(list)?;
        }
        files.extend(text.lines().filter(|line| !line.is_empty()).map(PathBuf::from));
    }
    let mut seen = std::collections::HashSet::new();
    files.retain(|path| seen.insert(path.clone()));
    if files.is_empty() {
        return Err(CliError::new(Exit::Usage, "there are no NetCDF files"));
    }
    Ok(files)
}

fn add(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), CliError> {
    if path.is_dir() {
        let mut below: Vec<PathBuf> = fs::read_dir(path)
            .at(path)?
            .map(|entry| entry.map(|e| e.path()))
            .collect::<Result<_, _>>()
            .at(path)?;
        below.sort();
        for path in below {
            if path.is_dir() || is_source(&path) {
                add(&path, files)?;
            }
        }
        return Ok(());
    }
    let pattern = path.to_string_lossy();
    if path.exists() || !pattern.contains(['*', '?', '[']) {
        files.push(path.to_owned());
        return Ok(());
    }
    let found = glob::glob(&pattern)
        .map_err(|error| CliError::new(Exit::Usage, format!("{pattern}: {error}")))?;
    let before = files.len();
    for path in found {
        add(&path.map_err(CliError::failed)?, files)?;
    }
    if files.len() == before {
        return Err(CliError::new(Exit::Usage, format!("{pattern}: no such files")));
    }
    Ok(())
}

fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// The dataset, as xarray shows one.
fn describe(url: &str, summary: &ImportSummary) {
    say(format_args!("<dataset {url}>"));
    let mut dimensions: Vec<(&str, u64)> = Vec::new();
    for (_, array) in summary.arrays() {
        for (name, length) in names(array).into_iter().zip(&array.shape) {
            if !dimensions.contains(&(name, *length)) {
                dimensions.push((name, *length));
            }
        }
    }
    let sizes: Vec<String> =
        dimensions.iter().map(|(name, length)| format!("{name}: {length}")).collect();
    say(format_args!("Dimensions:  ({})", sizes.join(", ")));
    for (heading, coordinates) in [("Coordinates:", true), ("Data variables:", false)] {
        say(heading);
        for (path, array) in summary.arrays() {
            let is_coordinate = names(array) == [path.name()];
            if is_coordinate == coordinates {
                say(line(path, array));
            }
        }
    }
    for (group, axis) in &summary.axes {
        let group = if group.is_root() { String::new() } else { format!(" in {group}") };
        say(format_args!("Joined along {axis}{group}"));
    }
    let verb = if summary.extends { "add to" } else { "make" };
    say(format_args!(
        "{} files ({}) {verb} it; {} are in it already",
        summary.files,
        ByteSize(summary.source_bytes),
        summary.skipped
    ));
    say(format_args!(
        "At most {} chunk objects to write, {} before compression; the largest chunk has {}",
        summary.chunk_objects,
        ByteSize(summary.raw_bytes),
        ByteSize(summary.chunk_bytes_max)
    ));
}

/// What costs more processor time than it has to, for want of memory.
fn tell_rereading(summary: &ImportSummary, memory: u64) {
    const MIB: u64 = 1 << 20;
    for (path, rereading) in &summary.rereading {
        tell(format_args!(
            "note: with --memory {} each chunk of {path} in the files is decoded {:.1} times; once with \
             --memory {}MiB",
            ByteSize(memory),
            rereading.times,
            rereading.bytes_for_once.div_ceil(MIB)
        ));
    }
}

fn names(array: &ArrayMetadata) -> Vec<&str> {
    let names = array.dimension_names.iter().flatten();
    names.map(|name| name.as_deref().unwrap_or_default()).collect()
}

fn line(path: &NodePath, array: &ArrayMetadata) -> String {
    let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    format!(
        "    {:<20} ({}) {} chunks ({})",
        path.as_str(),
        names(array).join(", "),
        array.data_type,
        list(&array.chunk_shape)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_is_a_name_in_a_store() {
        let split = |url| split(url).ok();
        let of = |store: &str, name: &str| Some((store.to_owned(), name.to_owned()));
        assert_eq!(split("s3://bucket/a/sst.zarr"), of("s3://bucket/a", "sst.zarr"));
        assert_eq!(split("file:///data/sst.zarr/"), of("file:///data", "sst.zarr"));
        assert_eq!(split("s3://bucket"), None);
        assert_eq!(split("s3://bucket/sst"), None);
    }
}
