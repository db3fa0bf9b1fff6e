//! Puts the real parts together: the only file of `mount` that knows them by name.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::engine::{Engine, FlushReport};
use super::status::{EngineStatus, Left, SpoolStatus};
use crate::base::clock::Clock;
use crate::config::Config;
use crate::fuse::session::Filesystem;
use crate::store::Location;
use crate::telemetry::progress::{Progress, Stage, Transfer};

/// What a daemon runs.
#[derive(Debug)]
pub struct Parts<F> {
    /// Brings staged files into the bucket.
    pub engine: Arc<dyn Engine>,
    /// Answers the kernel.
    pub filesystem: F,
}

/// Why the parts cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Staging.
    #[error(transparent)]
    Staging(#[from] crate::staging::OpenError),
}

/// What an earlier daemon left in a spool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpoolContent {
    /// The configuration it ran with.
    pub config: Option<Config>,
    /// What is not in the bucket.
    pub left: Vec<Left>,
}

/// Opens store and staging of `config` and starts everything that sends.
#[allow(clippy::unused_async, reason = "opening the store waits for its answer")]
pub async fn open(config: &Config, _clock: &Clock) -> Result<Parts<impl Filesystem>, OpenError> {
    let engine = Arc::new(Unwired { spool_bytes_max: config.spool_bytes_max });
    Ok(Parts { engine, filesystem: NoFiles })
}

/// Reads what is left in the spool `folder` without changing it. `None` if it is no spool.
pub fn inspect(_folder: &Path) -> Result<Option<SpoolContent>, OpenError> {
    Ok(None)
}

/// Throws away what is left in the spool `folder` at or below `path`; answers what that was.
pub fn discard(_folder: &Path, _path: &Location) -> Result<Vec<Left>, OpenError> {
    Ok(Vec::new())
}

/// Stands in until the parts are there: holds nothing and sends nothing.
#[derive(Debug)]
struct Unwired {
    spool_bytes_max: u64,
}

#[async_trait]
impl Engine for Unwired {
    fn status(&self) -> EngineStatus {
        let spool = SpoolStatus { bytes_max: self.spool_bytes_max, ..SpoolStatus::default() };
        EngineStatus { spool, ..EngineStatus::default() }
    }

    async fn flush(
        &self,
        _scope: &Location,
        progress: &dyn Progress,
        _patience: Duration,
    ) -> FlushReport {
        progress.report(Transfer { stage: Stage::Done, ..Transfer::default() });
        FlushReport::default()
    }

    fn session_ended(&self) {}

    async fn shutdown(&self) {}
}

/// Answers every request with ENOSYS.
#[derive(Debug)]
struct NoFiles;

impl Filesystem for NoFiles {}
