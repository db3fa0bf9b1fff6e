//! An engine over a store and a spool in a temporary folder, without a kernel.

use std::sync::Arc;

use zarrmount::base::clock::Clock;
use zarrmount::base::permits::Budget;
use zarrmount::ingest::{self, Ingest, Options};
use zarrmount::namespace::{Attributes, Ino, Tree, TreeOptions};
use zarrmount::plan::Encoding;
use zarrmount::staging::{FileAttributes, FileId, SpoolIdentity, SpoolOptions, Staging};
use zarrmount::store::{Link, Location, Store, StoreOptions, StoreUrl};
use zarrmount::telemetry::activities::Activities;
use zarrmount::telemetry::counters::StoreCounters;
use zarrmount::telemetry::tally::Tally;
use zarrmount::upload::{self, Queue};

use crate::support::S3Server;

pub(crate) struct Engine {
    pub(crate) store: Store,
    pub(crate) link: Link,
    pub(crate) staging: Arc<Staging>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) queue: Queue,
    pub(crate) ingest: Ingest,
    pub(crate) activities: Activities,
    clock: Clock,
    place: Place,
}

/// What outlives an engine.
struct Place {
    spool: tempfile::TempDir,
    url: StoreUrl,
    options: StoreOptions,
}

pub(crate) fn at(text: &str) -> Location {
    Location::parse(text).unwrap()
}

impl Engine {
    /// An engine on an S3 server, with an empty spool.
    pub(crate) async fn on(server: &S3Server) -> Self {
        Self::with_clock(server, Clock::system()).await
    }

    /// The same with a time of its own.
    pub(crate) async fn with_clock(server: &S3Server, clock: Clock) -> Self {
        Self::with_options(server, server.options(), clock).await
    }

    /// The same with another way to the store.
    pub(crate) async fn with_options(
        server: &S3Server,
        options: StoreOptions,
        clock: Clock,
    ) -> Self {
        let spool = tempfile::tempdir().unwrap();
        let place = Place { spool, url: server.url("data"), options };
        Self::open(place, clock).await
    }

    /// Ends this engine as a crash would, and starts another one on the same spool and store.
    pub(crate) async fn restart(self) -> Self {
        let Self { place, queue, staging, tree, ingest, store, link, .. } = self;
        queue.stop();
        // The tasks of the old engine hold the spool until they notice.
        drop((queue, tree, ingest, store, link));
        let mut staging = Some(staging);
        while let Some(held) = staging.take() {
            match Arc::try_unwrap(held) {
                Ok(alone) => drop(alone),
                Err(shared) => {
                    staging = Some(shared);
                    tokio::task::yield_now().await;
                }
            }
        }
        Self::open(place, Clock::system()).await
    }

    async fn open(place: Place, clock: Clock) -> Self {
        let counters = Arc::new(StoreCounters::default());
        let store = Store::open(&place.url, &place.options, counters).await.unwrap();
        let activities = Activities::new(clock.clone(), 2);
        let link = Link::new(store.clone(), clock.clone(), 8).with_activities(&activities);
        let identity = SpoolIdentity {
            store: place.url.to_string(),
            mount_point: "/mnt".into(),
            settings: serde_json::Value::Null,
        };
        let options = SpoolOptions {
            folder: place.spool.path().to_owned(),
            size_max: 1 << 30,
            inline_bytes_max: 256 << 10,
        };
        let (staging, recovered) = Staging::open(options, &identity, clock.clone()).unwrap();
        let tree_options = TreeOptions {
            uid: 0,
            gid: 0,
            file_mode: 0o644,
            folder_mode: 0o755,
            metadata_ttl: std::time::Duration::from_mins(1),
        };
        let tree = Arc::new(Tree::new(link.clone(), clock.clone(), tree_options));
        tree.reserve(recovered.next_id);
        let budget = Budget::new(256 << 20);
        let tally = Arc::new(Tally::new(activities.clone()));
        let queue = Queue::start(upload::Parts {
            link: link.clone(),
            staging: Arc::clone(&staging),
            tree: Arc::clone(&tree),
            budget: budget.clone(),
            connections: 8,
            clock: clock.clone(),
            tally: Arc::clone(&tally),
        });
        let ingest = Ingest::new(ingest::Parts {
            options: Options {
                enabled: true,
                encoding: Encoding::default(),
                idle: std::time::Duration::from_mins(1),
            },
            link: link.clone(),
            staging: Arc::clone(&staging),
            tree: Arc::clone(&tree),
            queue: queue.clone(),
            budget,
            cpu_threads: 2,
            tally,
            clock: clock.clone(),
        });
        for file in recovered.files.iter().filter(|file| file.closed) {
            tree.restore_file(Ino(file.id.0), &file.path, attributes(&clock));
            if ingest.claims(&file.path) {
                ingest.sealed(file.id, &file.path);
            } else {
                queue.released(file.id);
            }
        }
        Self { store, link, staging, tree, queue, ingest, activities, clock, place }
    }

    /// Stages a closed file, as copying it into the mount would, and gives it to who takes it.
    pub(crate) fn copy(&self, name: &str, bytes: &[u8]) -> FileId {
        let id = self.stage(name, bytes);
        if self.ingest.claims(&at(name)) {
            self.ingest.sealed(id, &at(name));
        } else {
            self.queue.released(id);
        }
        id
    }

    /// Stages a closed file and gives it to nobody yet.
    pub(crate) fn stage(&self, name: &str, bytes: &[u8]) -> FileId {
        let location = at(name);
        let ino = self.tree.fresh_ino();
        self.tree.restore_file(ino, &location, attributes(&self.clock));
        let id = FileId(ino.0);
        let record = FileAttributes { mode: 0o644, uid: 0, gid: 0, mtime_ns: 1_000_000_001 };
        let file = self.staging.create(id, &location, &record).unwrap();
        file.write_at(0, bytes).unwrap();
        self.staging.seal(&file, &location, &record).unwrap();
        id
    }

    /// What is not in the store although it was acknowledged, in words.
    pub(crate) fn failures(&self) -> Vec<String> {
        let refusals = self.ingest.refusals().into_iter().map(|(_, refusal)| refusal.to_string());
        let pending = self.queue.pending().into_iter().map(|pending| format!("{pending:?}"));
        refusals.chain(pending).collect()
    }

    /// Every object of the store with its bytes, receipts left out.
    pub(crate) async fn objects(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = vec![];
        let mut after = None;
        loop {
            let page = self.store.list_below(&Location::root(), after).await.unwrap();
            for object in page.objects {
                let name = object.location.to_string();
                if !name.contains(".zarrmount/") {
                    let fetched = self.store.get(&object.location, None).await.unwrap();
                    found.push((name, fetched.bytes.to_vec()));
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        found.sort();
        found
    }
}

fn attributes(clock: &Clock) -> Attributes {
    let now = clock.wall();
    Attributes { mode: 0o644, uid: 0, gid: 0, atime: now, mtime: now, ctime: now }
}
