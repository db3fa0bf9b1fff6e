//! Puts the real parts together: the only place of `mount` that knows them by name.

use std::path::Path;
use std::sync::{Arc, Weak};

use nix::unistd::{getegid, geteuid};
use tokio::runtime::Handle;

use super::engine::Engine;
use super::running::{Core, Running};
use super::status::{Left, State};
use crate::base::clock::Clock;
use crate::base::durable::create_private_folder;
use crate::base::permits::Budget;
use crate::base::tasks;
use crate::check;
use crate::config::Config;
use crate::fs::{self, Fs, FsOptions};
use crate::fuse::FuseFilesystem;
use crate::ingest::import::ImportParts;
use crate::ingest::{self, Ingest};
use crate::namespace::{Tree, TreeOptions};
use crate::staging::{self, RecoveredFile, SpoolIdentity, SpoolOptions, Staging};
use crate::store::{Link, Location, Patience, Store, StoreOptions, StoreUrl};
use crate::telemetry::activities::Activities;
use crate::telemetry::counters::StoreCounters;
use crate::telemetry::tally::Tally;
use crate::upload::{self, Queue};

/// Files up to this size are kept in the journal instead of a file each: creating a file costs more
/// than copying so many bytes.
const INLINE_BYTES_MAX: usize = 256 << 10;

/// How long a lookup, a listing or a read of the bucket is tried before the program that waits for
/// it gets an error.
const ANSWER_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// What a daemon runs.
#[derive(Debug)]
pub struct Parts<F> {
    /// Brings staged files into the bucket.
    pub engine: Arc<dyn Engine>,
    /// The file system itself.
    pub files: Arc<Fs>,
    /// Answers the kernel.
    pub filesystem: F,
}

/// Why the parts cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is none.
    #[error(transparent)]
    Url(#[from] crate::store::StoreUrlError),
    /// The bucket cannot be used.
    #[error(transparent)]
    Store(#[from] crate::store::OpenError),
    /// Staging.
    #[error(transparent)]
    Staging(#[from] staging::OpenError),
    /// A folder cannot be made.
    #[error(transparent)]
    Folder(#[from] crate::base::durable::FileError),
    /// The spool took no change.
    #[error("the spool cannot be changed: {0}")]
    Spool(#[from] std::io::Error),
}

/// What an earlier daemon left in a spool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SpoolContent {
    /// The configuration it ran with.
    pub config: Option<Config>,
    /// What is not in the bucket.
    pub left: Vec<Left>,
}

/// What an import needs of `config`: a store, and no staging.
pub async fn open_import(config: &Config, clock: &Clock) -> Result<ImportParts, OpenError> {
    let url: StoreUrl = config.url.parse()?;
    let store =
        Store::open(&url, &store_options(config), Arc::new(StoreCounters::default())).await?;
    let threads = cpu_threads();
    let activities = Activities::new(clock.clone(), threads);
    let link = Link::new(store, clock.clone(), config.connections.get());
    let link = link.with_activities(&activities);
    let journals = config.spool_dir.join("import");
    create_private_folder(&journals)?;
    Ok(ImportParts {
        tree: Arc::new(Tree::new(link.clone(), clock.clone(), tree_options(config))),
        link,
        budget: Budget::new(config.memory_bytes_max),
        cpu_threads: threads,
        tally: Arc::new(Tally::new(activities)),
        clock: clock.clone(),
        journals,
    })
}

/// Opens the store of `config` to read a dataset back.
pub async fn open_check(config: &Config, clock: &Clock) -> Result<check::Parts, OpenError> {
    let url: StoreUrl = config.url.parse()?;
    let store =
        Store::open(&url, &store_options(config), Arc::new(StoreCounters::default())).await?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(check::Parts {
        link: Link::new(store, clock.clone(), config.connections.get()),
        budget: Budget::new(config.memory_bytes_max),
        cpu: Arc::new(tokio::sync::Semaphore::new(threads)),
    })
}

/// Opens store and staging of `config` and starts everything that sends.
pub async fn open(config: &Config, clock: &Clock) -> Result<Parts<FuseFilesystem>, OpenError> {
    let url: StoreUrl = config.url.parse()?;
    let counters = Arc::new(StoreCounters::default());
    let store = Store::open(&url, &store_options(config), Arc::clone(&counters)).await?;
    let threads = cpu_threads();
    let activities = Activities::new(clock.clone(), threads);
    let link = Link::new(store, clock.clone(), config.connections.get());
    let link = link.with_activities(&activities);
    let options = SpoolOptions {
        folder: config.spool_dir.clone(),
        size_max: config.spool_bytes_max,
        inline_bytes_max: INLINE_BYTES_MAX,
    };
    let identity = SpoolIdentity {
        store: link.identity().to_string(),
        mount_point: config.mount_point.clone(),
        settings: serde_json::to_value(config).map_err(std::io::Error::other)?,
    };
    let (staging, recovered) = Staging::open(options, &identity, clock.clone())?;
    tasks::spawn("sync of staging", sync_regularly(Arc::downgrade(&staging), clock.clone()));
    let answers = link.with_patience(Patience::UpTo(ANSWER_PATIENCE));
    let tree = Arc::new(Tree::new(answers, clock.clone(), tree_options(config)));
    let budget = Budget::new(config.memory_bytes_max);
    let tally = Arc::new(Tally::new(activities.clone()));
    let queue = Queue::start(upload::Parts {
        link: link.clone(),
        staging: Arc::clone(&staging),
        tree: Arc::clone(&tree),
        budget: budget.clone(),
        connections: config.connections.get(),
        clock: clock.clone(),
        tally: Arc::clone(&tally),
    });
    let ingest = Ingest::new(ingest::Parts {
        options: ingest::Options {
            enabled: config.ingest,
            encoding: config.encoding.clone(),
            idle: config.idle,
        },
        link: link.clone(),
        staging: Arc::clone(&staging),
        tree: Arc::clone(&tree),
        queue: queue.clone(),
        budget,
        cpu_threads: threads,
        tally: Arc::clone(&tally),
        clock: clock.clone(),
    });
    let core = Arc::new(Core {
        link,
        counters,
        staging: Arc::clone(&staging),
        tree: Arc::clone(&tree),
        queue: queue.clone(),
        ingest: ingest.clone(),
        tally,
        clock: clock.clone(),
        timeout: config.timeout,
    });
    let filesystem = Arc::new(Fs::new(fs::Parts {
        tree,
        staging,
        queue,
        ingest,
        clock: clock.clone(),
        activities,
        options: fs_options(config),
        barrier: core.barrier(),
        status_text: core.status_text(),
    }));
    filesystem.restore(&recovered);
    if let Err(error) = filesystem.resume_renames(&recovered).await {
        tracing::error!(%error, "a folder rename that was cut short cannot be settled");
    }
    let engine = Arc::new(Running::new(core, Arc::clone(&filesystem), &recovered));
    let kernel_side = FuseFilesystem::new(Arc::clone(&filesystem), Handle::current());
    Ok(Parts { engine, files: filesystem, filesystem: kernel_side })
}

/// Threads that decode and encode.
fn cpu_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A power cut takes at most this much of what was closed and never synced.
const SYNC_INTERVAL: std::time::Duration = std::time::Duration::from_secs(10);

async fn sync_regularly(staging: Weak<Staging>, clock: Clock) {
    loop {
        clock.sleep(SYNC_INTERVAL).await;
        let Some(staging) = staging.upgrade() else { return };
        if let Some(Err(error)) = tasks::blocking("sync of staging", move || staging.sync()).await {
            tracing::warn!(%error, "staging could not be synced");
        }
    }
}

fn store_options(config: &Config) -> StoreOptions {
    StoreOptions {
        endpoint_url: config.store.endpoint_url.clone(),
        region: config.store.region.clone(),
        profile: config.store.profile.clone(),
        no_sign_request: config.store.no_sign_request,
        ca_bundle: config.store.ca_bundle.clone(),
        connections: config.connections.get(),
        ..StoreOptions::default()
    }
}

fn tree_options(config: &Config) -> TreeOptions {
    TreeOptions {
        uid: config.uid.unwrap_or_else(|| geteuid().as_raw()),
        gid: config.gid.unwrap_or_else(|| getegid().as_raw()),
        file_mode: 0o666 & !config.umask,
        folder_mode: 0o777 & !config.umask,
        metadata_ttl: config.metadata_ttl,
    }
}

fn fs_options(config: &Config) -> FsOptions {
    FsOptions {
        read_only: config.read_only,
        uid: config.uid,
        gid: config.gid,
        umask: 0,
        stall_timeout: config.stall_timeout,
    }
}

/// Reads what is left in the spool `folder` without changing it. `None` if it is no spool.
pub fn inspect(folder: &Path) -> Result<Option<SpoolContent>, OpenError> {
    let found = match Staging::inspect(folder) {
        Ok(found) => found,
        Err(staging::OpenError::NoSpool { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let deletes = found.recovered.deletes.iter().map(|location| Left {
        path: location.to_string(),
        state: State::Waiting,
        reason: Some("deleted in the mount, not yet in the bucket".to_owned()),
        bytes: 0,
    });
    let left = found.recovered.files.iter().map(left_of).chain(deletes).collect();
    // A spool of a newer version may hold settings that this one does not know.
    let config = serde_json::from_value(found.identity.settings).ok();
    Ok(Some(SpoolContent { config, left }))
}

/// Throws away what is left in the spool `folder` at or below `path`; answers what that was.
pub fn discard(folder: &Path, path: &Location) -> Result<Vec<Left>, OpenError> {
    let found = Staging::inspect(folder)?;
    let options = SpoolOptions {
        folder: folder.to_owned(),
        size_max: u64::MAX,
        inline_bytes_max: INLINE_BYTES_MAX,
    };
    let (staging, recovered) = Staging::open(options, &found.identity, Clock::system())?;
    let mut gone = Vec::new();
    for file in recovered.files.iter().filter(|file| is_within(&file.path, path)) {
        staging.discard(file.id)?;
        gone.push(left_of(file));
    }
    for location in recovered.deletes.iter().filter(|location| is_within(location, path)) {
        staging.deleted(location)?;
    }
    if path.is_root() {
        for (key, _) in &recovered.notes {
            staging.note(key, None)?;
        }
    }
    staging.close_clean()?;
    Ok(gone)
}

fn is_within(location: &Location, folder: &Location) -> bool {
    location == folder || location.is_below(folder)
}

/// A file of a spool, for people.
pub(super) fn left_of(file: &RecoveredFile) -> Left {
    use crate::staging::RecoveredState;
    let (state, reason) = match file.state {
        RecoveredState::Closed if fs::is_temporary(file.path.name()) => {
            (State::Waiting, Some("a temporary name is never sent"))
        }
        RecoveredState::Closed => (State::Waiting, None),
        RecoveredState::Writing => {
            (State::Partial, Some("it was still being written when the daemon ended"))
        }
        RecoveredState::Unsynced => {
            (State::Partial, Some("the machine went down before its bytes were on the disk"))
        }
        RecoveredState::Incomplete => (State::Partial, Some("its bytes are not complete")),
    };
    Left { path: file.path.to_string(), state, reason: reason.map(str::to_owned), bytes: file.size }
}
