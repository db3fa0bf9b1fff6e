//! What the life cycle needs of everything below the file system: staging, ingest, upload, store.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::status::{EngineStatus, Left};
use crate::fs::SessionEnd;
use crate::store::Location;
use crate::telemetry::activities::Bottleneck;
use crate::telemetry::progress::Progress;

/// The parts that bring staged files into the bucket, as one.
#[async_trait]
pub trait Engine: Debug + Send + Sync + 'static {
    /// How things are now. Quick, and does not wait for the network.
    fn status(&self) -> EngineStatus;

    /// Brings everything that was released before the call at or below `scope` into the bucket and
    /// publishes it. Returns when that is done, when nothing that is left can move, or when nothing
    /// has moved for `patience`; without any patience it only says what is left. May be dropped at
    /// any time: what is queued stays queued.
    async fn flush(
        &self,
        scope: &Location,
        progress: &dyn Progress,
        patience: Duration,
    ) -> FlushReport;

    /// Nobody can write any more. Files that were closed count as released: the kernel may have thrown
    /// away the last RELEASE requests. Answers those that were not closed: they are kept, and never
    /// sent as they are.
    fn session_ended(&self, end: SessionEnd) -> Vec<Left>;

    /// Ends all work and closes staging; what is in it stays for a later start.
    async fn shutdown(&self);
}

/// How a flush went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlushReport {
    /// What is not in the bucket.
    pub left: Vec<Left>,
    /// Files that are open for writing and therefore not waited for.
    pub open: Vec<String>,
    /// Set if it gave up because nothing moved for so long.
    pub gave_up_after: Option<Duration>,
    /// Where the time went since the flush before.
    #[serde(default)]
    pub bottleneck: Option<Bottleneck>,
}

impl FlushReport {
    /// Whether everything that was asked for is in the bucket.
    pub fn is_complete(&self) -> bool {
        self.left.is_empty() && self.gave_up_after.is_none()
    }
}
