//! `zarrmount demo`: the whole way of a file, with the same commands that a user would type, in a
//! temporary folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::CliError;
use super::exit::Exit;
use super::flush::not_stored_in;
use super::output::say;
use super::progress::Display;
use crate::base::durable::{AtPath as _, create_private_folder};
use crate::config::layers::Layers;
use crate::config::{Config, Machine};
use crate::fuse::session::prepare;
use crate::mount::without_kernel::{CopyError, copy_in};
use crate::netcdf::fixtures::{ocean, write_classic, write_netcdf4};

mod tree;
mod verify;

/// See it at work in a temporary folder
///
/// Makes a bucket in a local folder, mounts it, copies two NetCDF files in, unmounts, shows the Zarr
/// that arrived, and compares every value with the sources. Nothing outside the temporary folder is
/// touched, and it is removed at the end.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keep the temporary folder
    #[arg(long)]
    keep: bool,
}

/// The places of the demonstration.
struct Stage {
    folder: PathBuf,
    bucket: PathBuf,
    mount_point: PathBuf,
    sources: Vec<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<Exit, CliError> {
    let folder = std::env::temp_dir().join(format!("zarrmount-demo-{}", std::process::id()));
    let outcome = Stage::set(folder.clone()).and_then(|stage| stage.perform());
    let kept = format!("the folder of the demonstration is kept: {}", folder.display());
    match outcome {
        Ok(()) if args.keep => say(kept),
        Ok(()) => fs::remove_dir_all(&folder).at(&folder)?,
        Err(error) => return Err(error.hint(kept)),
    }
    Ok(Exit::Done)
}

impl Stage {
    fn set(folder: PathBuf) -> Result<Self, CliError> {
        let [sources, bucket, mount_point] =
            ["sources", "bucket", "mnt"].map(|name| folder.join(name));
        for new in [&folder, &sources, &bucket, &mount_point] {
            create_private_folder(new)?;
        }
        let file = ocean(0, 60, 90, 180);
        let sources =
            [("classic.nc", write_classic(&file, 2)), ("netcdf4.nc", write_netcdf4(&file))].map(
                |(name, bytes)| {
                    let path = sources.join(name);
                    fs::write(&path, bytes).at(&path).map(|()| path)
                },
            );
        let sources = sources.into_iter().collect::<Result<_, _>>()?;
        Ok(Self { folder, bucket, mount_point, sources })
    }

    fn perform(&self) -> Result<(), CliError> {
        say("Sixty days of a small ocean, as a classic and as a NetCDF-4 file:");
        for source in &self.sources {
            say(format_args!("  {}", tree::file_line(source)));
        }
        match prepare(&self.mount_point) {
            Ok(_) => self.through_a_mount()?,
            Err(error) => {
                say(format_args!("\nNothing can be mounted here: {error}."));
                say("The files go the same way without a mount.\n");
                self.without_a_mount()?;
            }
        }
        say("\nWhat is in the bucket now:");
        for line in tree::lines(&self.bucket)? {
            say(format_args!("  {line}"));
        }
        say("\nEvery value of the Zarr arrays against its source:");
        for source in &self.sources {
            let checked = verify::compare(source, &self.dataset_of(source))?;
            say(format_args!("  {checked}"));
        }
        Ok(())
    }

    fn dataset_of(&self, source: &Path) -> PathBuf {
        let name = source.with_extension("zarr");
        self.bucket.join(name.file_name().unwrap_or_default())
    }

    fn url(&self) -> String {
        format!("file://{}", self.bucket.display())
    }

    fn through_a_mount(&self) -> Result<(), CliError> {
        let mount_point = self.mount_point.display().to_string();
        self.zarrmount(&["mount", &self.url(), &mount_point])?;
        let copied = self.copy();
        let unmounted = self.zarrmount(&["umount", &mount_point]);
        copied.and(unmounted)
    }

    fn copy(&self) -> Result<(), CliError> {
        for source in &self.sources {
            let target = self.mount_point.join(source.file_name().unwrap_or_default());
            say(format_args!("$ cp {} {}", source.display(), target.display()));
            fs::copy(source, &target).at(&target)?;
        }
        Ok(())
    }

    /// Runs this program as a user would, with its state in the temporary folder.
    fn zarrmount(&self, arguments: &[&str]) -> Result<(), CliError> {
        let program = std::env::current_exe().at("/proc/self/exe")?;
        say(format_args!("\n$ zarrmount {}", arguments.join(" ")));
        let status = Command::new(program)
            .args(arguments)
            .env("XDG_STATE_HOME", self.folder.join("state"))
            .env_remove(crate::config::options::SPOOL_DIR.variable)
            .status()
            .at("zarrmount")?;
        if status.success() {
            return Ok(());
        }
        Err(CliError::failed(format!("`zarrmount {}` failed: {status}", arguments.join(" "))))
    }

    fn without_a_mount(&self) -> Result<(), CliError> {
        let state_home = self.folder.join("state");
        let machine = Machine { state_home, ..Machine::this(|name| std::env::var(name).ok())? };
        let layers = Layers::new(Vec::new());
        let config = Config::resolve(&self.url(), &self.mount_point, &layers, &machine)?;
        let display = Display::new();
        let report = copy_in(&config, &self.sources, &display);
        display.finish();
        let report = report?;
        if report.is_complete() { Ok(()) } else { Err(not_stored_in(&report, &config.spool_dir)) }
    }
}

impl From<CopyError> for CliError {
    fn from(error: CopyError) -> Self {
        Self::failed(error)
    }
}
