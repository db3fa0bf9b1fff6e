//! A file system over a store and a spool in a temporary folder, without a kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use zarrmount::base::clock::Clock;
use zarrmount::base::permits::Budget;
use zarrmount::fs::{
    Attr, Caller, Changes, Error, Fs, FsOptions, Kind, OpenFlags, Opened, Parts, SetTime, Written,
};
use zarrmount::ingest::{self, Ingest, Options};
use zarrmount::namespace::{Ino, Tree, TreeOptions};
use zarrmount::plan::Encoding;
use zarrmount::staging::{Recovered, SpoolIdentity, SpoolOptions, Staging};
use zarrmount::store::{Link, Location, PutCondition, Store, StoreOptions, StoreUrl};
use zarrmount::telemetry::activities::Activities;
use zarrmount::telemetry::counters::{StoreCounters, StoreSnapshot};
use zarrmount::telemetry::tally::Tally;
use zarrmount::upload::{self, Queue};

use crate::support::S3Server;

pub(crate) const ME: Caller = Caller { uid: 1000, gid: 1000 };

/// `cat`: only reads.
pub(crate) const READ: OpenFlags =
    OpenFlags { read: true, write: false, append: false, truncate: false, exclusive: false };
/// `cp` to a new name.
pub(crate) const NEW: OpenFlags =
    OpenFlags { read: false, write: true, append: false, truncate: false, exclusive: true };
/// `cp` over a file.
pub(crate) const TRUNCATE: OpenFlags =
    OpenFlags { read: false, write: true, append: false, truncate: true, exclusive: false };
/// `>>`.
pub(crate) const APPEND: OpenFlags =
    OpenFlags { read: false, write: true, append: true, truncate: false, exclusive: false };
/// `r+`.
pub(crate) const UPDATE: OpenFlags =
    OpenFlags { read: true, write: true, append: false, truncate: false, exclusive: false };

#[derive(Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) size_max: u64,
    pub(crate) read_only: bool,
    pub(crate) clock: fn() -> Clock,
}

impl Default for Settings {
    fn default() -> Self {
        Self { size_max: 1 << 30, read_only: false, clock: Clock::system }
    }
}

pub(crate) struct Mount {
    pub(crate) fs: Arc<Fs>,
    pub(crate) store: Store,
    pub(crate) queue: Queue,
    pub(crate) clock: Clock,
    pub(crate) barriers: Arc<AtomicU32>,
    pub(crate) staging: Arc<Staging>,
    /// What an earlier daemon left.
    pub(crate) recovered: Recovered,
    settings: Settings,
    place: Place,
    spool: tempfile::TempDir,
}

/// Where the bucket is.
pub(crate) struct Place {
    url: StoreUrl,
    options: StoreOptions,
}

pub(crate) fn at(text: &str) -> Location {
    Location::parse(text).unwrap()
}

impl Mount {
    /// On an empty store in memory.
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("memory://filesystem-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let spool = tempfile::tempdir().unwrap();
        let place = Place { url: name.parse().unwrap(), options: StoreOptions::default() };
        Self::begin(settings, place, spool).await
    }

    /// On a prefix of a bucket behind a real S3 protocol server.
    pub(crate) async fn on_s3(server: &S3Server, settings: Settings) -> Self {
        let place = Place { url: server.url("p"), options: server.options() };
        Self::begin(settings, place, tempfile::tempdir().unwrap()).await
    }

    /// On a local folder.
    pub(crate) async fn on_folder(folder: &std::path::Path) -> Self {
        let url = format!("file://{}", folder.display()).parse().unwrap();
        let place = Place { url, options: StoreOptions::default() };
        Self::begin(Settings::default(), place, tempfile::tempdir().unwrap()).await
    }

    /// Ends as a killed daemon does, and begins again on the same store and spool.
    pub(crate) async fn restart(self) -> Self {
        let Self { fs, queue, staging, settings, place, spool, .. } = self;
        queue.stop();
        drop((fs, queue));
        let mut staging = Some(staging);
        while let Some(held) = staging.take() {
            if let Err(shared) = Arc::try_unwrap(held) {
                staging = Some(shared);
                tokio::task::yield_now().await;
            }
        }
        Self::begin(settings, place, spool).await
    }

    async fn begin(settings: Settings, place: Place, spool: tempfile::TempDir) -> Self {
        let clock = (settings.clock)();
        let counters = Arc::new(StoreCounters::default());
        let store = Store::open(&place.url, &place.options, counters).await.unwrap();
        let link = Link::new(store.clone(), clock.clone(), 8);
        let identity = SpoolIdentity {
            store: place.url.to_string(),
            mount_point: "/mnt".into(),
            settings: serde_json::Value::Null,
        };
        let spool_options = SpoolOptions {
            folder: spool.path().to_owned(),
            size_max: settings.size_max,
            inline_bytes_max: 64 << 10,
        };
        let (staging, recovered) = Staging::open(spool_options, &identity, clock.clone()).unwrap();
        let tree_options = TreeOptions {
            uid: 0,
            gid: 0,
            file_mode: 0o644,
            folder_mode: 0o755,
            metadata_ttl: Duration::from_mins(1),
        };
        let tree = Arc::new(Tree::new(link.clone(), clock.clone(), tree_options));
        let (budget, tally) = (Budget::new(256 << 20), Arc::new(Tally::default()));
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
                idle: Duration::from_mins(1),
            },
            link,
            staging: Arc::clone(&staging),
            tree: Arc::clone(&tree),
            queue: queue.clone(),
            budget,
            cpu_threads: 2,
            tally,
            clock: clock.clone(),
        });
        let barriers = Arc::new(AtomicU32::new(0));
        let barrier = {
            let (queue, barriers) = (queue.clone(), Arc::clone(&barriers));
            move || {
                barriers.fetch_add(1, Ordering::Relaxed);
                let queue = queue.clone();
                let flush = async move {
                    queue.flush().await;
                    let left = queue.pending();
                    if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
                };
                Box::pin(flush) as futures::future::BoxFuture<'static, _>
            }
        };
        let fs = Arc::new(Fs::new(Parts {
            tree,
            staging: Arc::clone(&staging),
            queue: queue.clone(),
            ingest,
            clock: clock.clone(),
            activities: Activities::default(),
            options: FsOptions {
                read_only: settings.read_only,
                uid: None,
                gid: None,
                umask: 0,
                stall_timeout: Duration::from_mins(5),
            },
            barrier: Arc::new(barrier),
            status_text: Arc::new(|| "all is well\n".to_owned()),
        }));
        fs.restore(&recovered);
        fs.resume_renames(&recovered).await.unwrap();
        Self { fs, store, queue, clock, barriers, staging, recovered, settings, place, spool }
    }

    /// The node at a path, looked up as a program's system call would.
    pub(crate) async fn stat(&self, path: &str) -> Result<Attr, Error> {
        let mut attr = self.fs.getattr(Ino::ROOT, None).await?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            attr = self.fs.lookup(attr.ino, name).await?;
        }
        Ok(attr)
    }

    /// Everything below a folder, as `rm -r` deletes it.
    pub(crate) async fn remove_all(&self, path: &str) {
        for name in self.list(path).await {
            let below = format!("{path}/{name}");
            match self.stat(&below).await.unwrap().kind {
                Kind::File => self.unlink(&below).await.unwrap(),
                Kind::Folder => Box::pin(self.remove_all(&below)).await,
            }
        }
        self.rmdir(path).await.unwrap();
    }

    async fn place<'a>(&self, path: &'a str) -> Result<(Ino, &'a str), Error> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.stat(folder).await?;
        // The kernel asks for nothing below a file.
        if folder.kind != Kind::Folder {
            return Err(Error::NotFolder);
        }
        Ok((folder.ino, name))
    }

    pub(crate) async fn mkdir(&self, path: &str) -> Result<Attr, Error> {
        let (parent, name) = self.place(path).await?;
        self.fs.mkdir(ME, parent, name, 0o755).await
    }

    pub(crate) async fn create(
        &self,
        path: &str,
        flags: OpenFlags,
    ) -> Result<(Attr, Opened), Error> {
        let (parent, name) = self.place(path).await?;
        self.fs.create(ME, parent, name, 0o644, flags).await
    }

    pub(crate) fn write(&self, opened: Opened, offset: u64, data: &[u8]) {
        let taken = self.fs.write(opened.fh, offset, data).unwrap();
        assert_eq!(taken, Written::Taken(u32::try_from(data.len()).unwrap()));
    }

    pub(crate) async fn close(&self, opened: Opened) -> Result<(), Error> {
        let flushed = self.fs.flush(opened.fh).await;
        self.fs.release(opened.fh);
        flushed
    }

    /// As `cp` does, to a new name.
    pub(crate) async fn copy_in(&self, path: &str, data: &[u8]) -> Attr {
        let (attr, opened) = self.create(path, NEW).await.unwrap();
        self.write(opened, 0, data);
        self.close(opened).await.unwrap();
        attr
    }

    /// As `cat` does.
    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let attr = self.stat(path).await?;
        let opened = self.fs.open(attr.ino, READ).await?;
        let read = self.fs.read(opened.fh, 0, attr.size + 1).await;
        self.fs.release(opened.fh);
        Ok(read?.to_vec())
    }

    pub(crate) async fn open(&self, path: &str, flags: OpenFlags) -> Result<Opened, Error> {
        self.fs.open(self.stat(path).await?.ino, flags).await
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let (from, to) = (self.place(from).await?, self.place(to).await?);
        self.fs.rename(from, to, false).await
    }

    pub(crate) async fn unlink(&self, path: &str) -> Result<(), Error> {
        let (parent, name) = self.place(path).await?;
        self.fs.unlink(parent, name).await
    }

    pub(crate) async fn rmdir(&self, path: &str) -> Result<(), Error> {
        let (parent, name) = self.place(path).await?;
        self.fs.rmdir(parent, name).await
    }

    pub(crate) async fn set_mtime(&self, path: &str, mtime: std::time::SystemTime) -> Attr {
        let ino = self.stat(path).await.unwrap().ino;
        let changes = Changes { mtime: Some(SetTime::At(mtime)), ..Changes::default() };
        self.fs.setattr(ino, None, changes).await.unwrap()
    }

    /// As `ls -a` does, without `.` and `..`.
    pub(crate) async fn list(&self, path: &str) -> Vec<String> {
        let folder = self.stat(path).await.unwrap();
        let fh = self.fs.opendir(folder.ino).await.unwrap();
        let lines = (2..).map_while(|index| self.fs.folder_line(fh, index).unwrap());
        let names = lines.map(|line| line.name.to_string()).collect();
        self.fs.releasedir(fh);
        names
    }

    /// Waits until everything is sent.
    pub(crate) async fn flush(&self) {
        self.queue.flush().await;
        assert_eq!(self.queue.pending(), []);
    }

    /// Puts an object behind the mount's back.
    pub(crate) async fn put(&self, path: &str, data: &[u8]) {
        let body = bytes::Bytes::copy_from_slice(data);
        self.store.put(&at(path), body, PutCondition::Always).await.unwrap();
    }

    /// Reads an object behind the mount's back.
    pub(crate) async fn object(&self, path: &str) -> Option<Vec<u8>> {
        self.store.get(&at(path), None).await.ok().map(|fetched| fetched.bytes.to_vec())
    }

    /// The keys in the bucket.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let page = self.store.list_below(&Location::root(), None).await.unwrap();
        let mut keys: Vec<_> =
            page.objects.into_iter().map(|object| object.location.to_string()).collect();
        keys.sort();
        keys
    }

    /// Requests so far: GET, HEAD, LIST, PUT, DELETE, COPY.
    pub(crate) fn requests(&self) -> Requests {
        let StoreSnapshot { get, head, list, put, delete, copy, .. } =
            self.store.counters().snapshot();
        Requests { get, head, list, put, delete, copy }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) get: u64,
    pub(crate) head: u64,
    pub(crate) list: u64,
    pub(crate) put: u64,
    pub(crate) delete: u64,
    pub(crate) copy: u64,
}

impl Requests {
    /// What came since.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            get: self.get - before.get,
            head: self.head - before.head,
            list: self.list - before.list,
            put: self.put - before.put,
            delete: self.delete - before.delete,
            copy: self.copy - before.copy,
        }
    }
}
