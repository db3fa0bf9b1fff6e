//! What `status --json` shows: one versioned document. Field names are stable within a version;
//! fields may be added.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::telemetry::activities::Bottleneck;
use crate::telemetry::counters::StoreSnapshot;

/// Version of [`StatusDocument`].
pub const STATUS_VERSION: u32 = 1;

/// The state of one mount.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusDocument {
    /// [`STATUS_VERSION`].
    pub version: u32,
    /// The mount.
    pub mount: MountStatus,
    /// What the daemon does; `None` if there is no daemon.
    #[serde(flatten)]
    pub engine: Option<EngineStatus>,
    /// What was left behind, where there is no daemon and the spool could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Left>,
}

/// What a mount is, and how it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MountStatus {
    /// The store.
    pub url: String,
    /// The folder.
    pub dir: PathBuf,
    /// The daemon.
    pub pid: u32,
    /// Start of the daemon, RFC 3339.
    pub since: String,
    /// Version of the daemon.
    pub zarrmount: String,
    /// What it is doing.
    pub phase: Phase,
    /// Where copied files wait.
    pub spool: PathBuf,
    /// The daemon's log.
    pub log: Option<PathBuf>,
}

/// The life of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Getting ready.
    Starting,
    /// In use.
    Mounted,
    /// The folder is unmounted; the daemon sends what is left and then ends.
    Draining,
    /// The daemon ended without cleaning up.
    Dead,
}

impl Phase {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Mounted => "mounted",
            Self::Draining => "draining",
            Self::Dead => "dead",
        }
    }
}

/// What the engine knows about itself at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineStatus {
    /// The store behind the mount.
    pub store: StoreStatus,
    /// Files that are not (or not yet) in the bucket.
    pub files: Vec<ItemStatus>,
    /// Datasets that files are joined to.
    pub datasets: Vec<ItemStatus>,
    /// What waits to be sent.
    pub queue: QueueStatus,
    /// The staging area.
    pub spool: SpoolStatus,
    /// Requests and bytes since the start.
    pub requests: StoreSnapshot,
    /// What this daemon took over from an earlier one.
    pub recovered: QueueStatus,
    /// The stage that the rest waited for in the last minutes; `None` if nothing happened.
    pub bottleneck: Option<Bottleneck>,
}

/// The store, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Canonical URL with the endpoint.
    pub identity: String,
    /// What it can do, by name.
    pub capabilities: serde_json::Map<String, serde_json::Value>,
    /// Why it cannot be reached, if so: `offline since 14:02, retry in 20 s`.
    pub offline: Option<String>,
}

/// A file or dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemStatus {
    /// Its path below the mount.
    pub path: String,
    /// How it is.
    pub state: State,
    /// Why it is so, in a sentence.
    pub reason: Option<String>,
    /// Since when, RFC 3339.
    pub since: Option<String>,
    /// Its size in staging.
    pub bytes: u64,
}

/// The states of a file or dataset that somebody may ask about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Open for writing.
    Growing,
    /// Closed and being looked at.
    Sealed,
    /// Understood, and waiting for its turn or for another file.
    Waiting,
    /// Being sent.
    Sending,
    /// Its data is sent and its metadata is being written.
    Publishing,
    /// Not taken: what was copied cannot be stored as asked.
    Refused,
    /// Taken, and the store gave a definite no.
    Failed,
    /// The daemon died while it was being written.
    Partial,
}

impl State {
    /// For people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Growing => "open",
            Self::Sealed => "closed",
            Self::Waiting => "waiting",
            Self::Sending => "sending",
            Self::Publishing => "publishing",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Partial => "partial",
        }
    }

    /// Whether somebody has to do something about it.
    pub const fn needs_attention(self) -> bool {
        matches!(self, Self::Refused | Self::Failed | Self::Partial)
    }
}

/// A number of things and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// How many.
    pub items: u64,
    /// Their size.
    pub bytes: u64,
}

/// Fill level of the staging area.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpoolStatus {
    /// Bytes in it.
    pub bytes: u64,
    /// Bytes it may hold.
    pub bytes_max: u64,
    /// Files in it.
    pub files: u64,
}

/// Something that is in staging and not in the bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Its path below the mount.
    pub path: String,
    /// How it is.
    pub state: State,
    /// Why, in a sentence.
    pub reason: Option<String>,
    /// Its size in staging.
    pub bytes: u64,
}

impl StatusDocument {
    /// Whether something is refused or failed, or the daemon is gone.
    pub fn needs_attention(&self) -> bool {
        let items =
            self.engine.iter().flat_map(|engine| engine.files.iter().chain(&engine.datasets));
        self.mount.phase == Phase::Dead
            || !self.left.is_empty()
            || items.into_iter().any(|item| item.state.needs_attention())
    }
}
