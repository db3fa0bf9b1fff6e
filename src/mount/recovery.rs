//! Spools whose daemon is gone: finding them, and sending what is in them without a mount.

use std::fs;
use std::path::{Path, PathBuf};

use super::engine::FlushReport;
use super::registry::{RecordFolder, RegistryError};
use super::wiring::{self, OpenError, SpoolContent};
use crate::base::clock::Clock;
use crate::config::Config;
use crate::fuse::session::raise_open_files_limit;
use crate::store::Location;
use crate::telemetry::progress::Progress;

/// Why a spool could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// Another daemon works for the same mount point.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Store or staging.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Threads.
    #[error("the process could not be set up: {0}")]
    System(#[from] std::io::Error),
}

/// A spool that no daemon uses.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftSpool {
    /// Its folder.
    pub folder: PathBuf,
    /// What is in it.
    pub content: SpoolContent,
}

/// The spools in the default place and those that a record names, without those in use and those
/// in which nothing is left.
pub fn left_spools(state_home: &Path) -> Result<Vec<LeftSpool>, RegistryError> {
    let mut folders: Vec<PathBuf> = fs::read_dir(state_home)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && path.file_name().is_some_and(|name| name != "mounts"))
        .collect();
    for record in RecordFolder::all(state_home) {
        let Some(mount) = record.read()? else { continue };
        folders.retain(|folder| *folder != mount.mount.spool);
        if !record.has_daemon() {
            folders.push(mount.mount.spool);
        }
    }
    folders.sort();
    Ok(folders.into_iter().filter_map(left_in).collect())
}

fn left_in(folder: PathBuf) -> Option<LeftSpool> {
    match wiring::inspect(&folder) {
        Ok(Some(content)) if !content.left.is_empty() => Some(LeftSpool { folder, content }),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "skipped");
            None
        }
    }
}

/// Sends what is left in the spool of `config`, under the configuration it was accepted with.
pub fn resume(
    config: &Config,
    state_home: &Path,
    progress: &dyn Progress,
) -> Result<FlushReport, ResumeError> {
    raise_open_files_limit();
    let folder = RecordFolder::of(state_home, &config.mount_point);
    let _lock = folder.lock(&config.mount_point)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let clock = Clock::system();
        let parts = wiring::open(config, &clock).await?;
        let report = parts.engine.flush(&Location::root(), progress, config.timeout).await;
        parts.engine.shutdown().await;
        Ok(report)
    })
}
