//! Random operations beside a model of what files and folders are.
//!
//! Names are few, so that they collide. Several handles are open at a time, as of several programs, and
//! the queue sends while the operations go on. What each operation answers is compared, and then
//! what is in the mount, what is in the bucket, and what a restart finds.
//!
//! The model is that of a local disk, except where docs/SEMANTICS.md says otherwise: a link is a copy,
//! empty folders do not outlive a restart, and who reads an object that was deleted may get an error.

use std::collections::BTreeMap;

use zarrmount::fs::{Changes, Error, Kind, OpenFlags, Opened};

use crate::mount::{APPEND, Mount, NEW, READ, Settings, TRUNCATE, UPDATE};
use crate::support::S3Server;

/// Numbers for one seed: splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

type Id = usize;

#[derive(Debug, Clone, PartialEq)]
enum Node {
    Folder(BTreeMap<String, Id>),
    File(Vec<u8>),
}

/// What there should be. Nodes are never removed, only names.
struct Model(Vec<Node>);

const ROOT: Id = 0;

impl Model {
    fn new() -> Self {
        Self(vec![Node::Folder(BTreeMap::new())])
    }

    fn find(&self, path: &str) -> Option<Id> {
        path.split('/').filter(|name| !name.is_empty()).try_fold(ROOT, |at, name| {
            match &self.0[at] {
                Node::Folder(children) => children.get(name).copied(),
                Node::File(_) => None,
            }
        })
    }

    fn is_folder(&self, id: Id) -> bool {
        matches!(self.0[id], Node::Folder(_))
    }

    fn is_empty(&self, id: Id) -> bool {
        matches!(&self.0[id], Node::Folder(children) if children.is_empty())
    }

    fn children(&mut self, path: &str) -> Option<(&mut BTreeMap<String, Id>, String)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = self.find(folder)?;
        match &mut self.0[folder] {
            Node::Folder(children) => Some((children, name.to_owned())),
            Node::File(_) => None,
        }
    }

    fn add(&mut self, path: &str, node: Node) -> Option<Id> {
        let id = self.0.len();
        let (children, name) = self.children(path)?;
        children.insert(name, id);
        self.0.push(node);
        Some(id)
    }

    fn put(&mut self, path: &str, id: Id) {
        let (children, name) = self.children(path).unwrap();
        children.insert(name, id);
    }

    fn remove(&mut self, path: &str) {
        let (children, name) = self.children(path).unwrap();
        children.remove(&name);
    }

    fn data(&mut self, id: Id) -> &mut Vec<u8> {
        match &mut self.0[id] {
            Node::File(data) => data,
            Node::Folder(_) => panic!("a folder has no bytes"),
        }
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        self.visit(ROOT, "", &mut |path, node| {
            if let Node::File(data) = node {
                files.insert(path.to_owned(), data.clone());
            }
        });
        files
    }

    fn visit(&self, id: Id, path: &str, visit: &mut impl FnMut(&str, &Node)) {
        let Node::Folder(children) = &self.0[id] else { return };
        for (name, child) in children {
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            visit(&below, &self.0[*child]);
            self.visit(*child, &below, visit);
        }
    }

    /// Folders without files do not outlive a restart.
    fn drop_empty_folders(&mut self, id: Id) -> bool {
        let Node::Folder(children) = self.0[id].clone() else { return true };
        let kept: BTreeMap<String, Id> =
            children.into_iter().filter(|(_, child)| self.drop_empty_folders(*child)).collect();
        let any = !kept.is_empty();
        self.0[id] = Node::Folder(kept);
        any
    }
}

struct Open {
    opened: Opened,
    node: Id,
    flags: OpenFlags,
}

const FOLDERS: [&str; 5] = ["", "a", "b", "a/c", "b/c"];
/// The last one is also the name of a folder: not for stores that are folders themselves, which cannot
/// hold `a` beside `a/b` as a bucket can.
const NAMES: [&str; 5] = ["f", "g", "0", "zarr.json", "c"];
/// Around a block of the reader and around what is kept in the journal.
const LENGTHS: [usize; 7] = [0, 1, 10, 1000, 65_535, 65_537, 150_000];

struct Run {
    mount: Option<Mount>,
    model: Model,
    open: Vec<Open>,
    dice: Dice,
    names: usize,
    step: usize,
    /// The last operations, for who has to find out why.
    log: Vec<String>,
}

impl Run {
    fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }

    fn path(&mut self) -> String {
        let folder = *self.dice.pick(&FOLDERS);
        let name = *self.dice.pick(&NAMES[..self.names]);
        if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = *self.dice.pick(&LENGTHS);
        let first = self.dice.next().to_le_bytes()[0];
        (0..length).map(|at| first.wrapping_add(u8::try_from(at % 251).unwrap())).collect()
    }

    fn expect<T: std::fmt::Debug>(&mut self, what: &str, got: &Result<T, Error>, should: bool) {
        self.log.push(format!("{}: {what} -> {}", self.step, got.is_ok()));
        assert_eq!(got.is_ok(), should, "{what}: {got:?}\n{}", self.tail());
    }

    fn tail(&self) -> String {
        self.log[self.log.len().saturating_sub(60)..].join("\n")
    }

    async fn step(&mut self) {
        self.step += 1;
        match self.dice.below(100) {
            0..20 => self.open_one().await,
            20..38 => self.write(),
            38..50 => self.read().await,
            50..62 => self.close_one().await,
            62..68 => self.unlink().await,
            68..78 => self.rename().await,
            78..83 => self.make_folder().await,
            83..87 => self.remove_folder().await,
            87..90 => self.link().await,
            90..94 => self.truncate().await,
            94..98 => self.look().await,
            98 => self.flush().await,
            _ => self.restart().await,
        }
        if self.step.is_multiple_of(7) {
            // The queue has a turn.
            tokio::task::yield_now().await;
        }
    }

    async fn open_one(&mut self) {
        if self.open.len() >= 6 {
            return self.close_one().await;
        }
        let path = self.path();
        let flags = *self.dice.pick(&[NEW, NEW, TRUNCATE, APPEND, UPDATE, READ, READ]);
        let there = self.model.find(&path);
        if there.is_none() && flags.write {
            let made = self.model.add(&path, Node::File(Vec::new()));
            let got = self.mount().create(&path, flags).await.map(|(_, opened)| opened);
            self.expect(&format!("create {path}"), &got, made.is_some());
            if let (Ok(opened), Some(node)) = (got, made) {
                self.open.push(Open { opened, node, flags });
            }
            return;
        }
        if flags.exclusive {
            let got = self.mount().create(&path, flags).await;
            self.expect(&format!("create {path} again"), &got, false);
            return;
        }
        let got = self.mount().open(&path, flags).await;
        let file = there.filter(|id| !self.model.is_folder(*id));
        self.expect(&format!("open {path} {flags:?}"), &got, file.is_some());
        if let (Ok(opened), Some(node)) = (got, file) {
            if flags.truncate {
                self.model.data(node).clear();
            }
            self.open.push(Open { opened, node, flags });
        }
    }

    fn write(&mut self) {
        let data = self.bytes();
        if self.open.is_empty() || data.is_empty() {
            return;
        }
        let at = self.dice.below(self.open.len());
        let (opened, node, flags) = (self.open[at].opened, self.open[at].node, self.open[at].flags);
        let length = self.model.data(node).len();
        let mut offset = self.dice.below(length + 2000);
        if !flags.write {
            let got = self.mount().fs.write(opened.fh, 0, &data);
            self.expect("write to what is open for reading", &got, false);
            return;
        }
        self.log.push(format!("{}: write {} at {offset} of {node}", self.step, data.len()));
        self.mount().write(opened, offset as u64, &data);
        if flags.append {
            offset = length;
        }
        let content = self.model.data(node);
        if content.len() < offset + data.len() {
            content.resize(offset + data.len(), 0);
        }
        content[offset..offset + data.len()].copy_from_slice(&data);
    }

    async fn read(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.dice.below(self.open.len());
        let (opened, node) = (self.open[at].opened, self.open[at].node);
        let content = self.model.data(node).clone();
        let offset = self.dice.below(content.len() + 10);
        let size = *self.dice.pick(&LENGTHS);
        let got = self.mount().fs.read(opened.fh, offset as u64, size as u64).await;
        self.log.push(format!("{}: read {size} at {offset} of {node}", self.step));
        let named = self.names_of(node);
        match got {
            Ok(bytes) => {
                let end = content.len().min(offset + size);
                let expected = content.get(offset..end).unwrap_or_default();
                assert!(bytes == expected, "other bytes of {node} {named:?}\n{}", self.tail());
            }
            // Deleted while it was open, and the bucket has nothing of it any more.
            Err(_) if named.is_empty() && !self.open[at].flags.write => {}
            Err(error) => panic!("read of {node} {named:?}: {error:?}\n{}", self.tail()),
        }
    }

    fn names_of(&self, node: Id) -> Vec<String> {
        let mut names = Vec::new();
        let wanted = std::ptr::from_ref(&self.model.0[node]);
        self.model.visit(ROOT, "", &mut |path, at| {
            if std::ptr::eq(at, wanted) {
                names.push(path.to_owned());
            }
        });
        names
    }

    async fn close_one(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.dice.below(self.open.len());
        let open = self.open.swap_remove(at);
        let got = self.mount().close(open.opened).await;
        self.expect(&format!("close {}", open.node), &got, true);
    }

    async fn unlink(&mut self) {
        let path = self.path();
        let file = self.model.find(&path).filter(|id| !self.model.is_folder(*id));
        let got = self.mount().unlink(&path).await;
        self.expect(&format!("unlink {path}"), &got, file.is_some());
        if file.is_some() {
            self.model.remove(&path);
        }
    }

    async fn rename(&mut self) {
        let (from, to) = (self.path(), self.path());
        let (source, target) = (self.model.find(&from), self.model.find(&to));
        if source.is_some_and(|id| self.model.is_folder(id)) && !may_be_folder(&to) {
            return;
        }
        let into_itself = to.starts_with(&format!("{from}/"));
        let fits = match (source, target) {
            (None, _) => false,
            (Some(_), _) if from == to => true,
            (Some(source), None) => {
                let _ = source;
                self.model.children(&to).is_some() && !into_itself
            }
            (Some(source), Some(target)) => {
                !into_itself
                    && match (self.model.is_folder(source), self.model.is_folder(target)) {
                        (true, true) => self.model.is_empty(target),
                        (one, other) => one == other,
                    }
            }
        };
        let got = self.mount().rename(&from, &to).await;
        let folder = source.is_some_and(|id| self.model.is_folder(id));
        // A folder in which something is on its way at this moment may be busy.
        if folder && got.as_ref().is_err_and(|error| error.errno() == libc::EBUSY) {
            self.log.push(format!("{}: rename {from} {to} busy", self.step));
            return;
        }
        self.expect(&format!("rename {from} {to}"), &got, fits);
        if let Some(id) = source.filter(|_| fits && from != to) {
            self.model.remove(&from);
            self.model.put(&to, id);
        }
    }

    async fn make_folder(&mut self) {
        let path = if self.dice.below(4) == 0 {
            self.path()
        } else {
            (*self.dice.pick(&FOLDERS[1..])).to_owned()
        };
        if !may_be_folder(&path) {
            return;
        }
        let fits = self.model.find(&path).is_none() && self.model.children(&path).is_some();
        let got = self.mount().mkdir(&path).await;
        self.expect(&format!("mkdir {path}"), &got, fits);
        if fits {
            self.model.add(&path, Node::Folder(BTreeMap::new()));
        }
    }

    async fn remove_folder(&mut self) {
        let path = *self.dice.pick(&FOLDERS[1..]);
        let fits = self.model.find(path).is_some_and(|id| self.model.is_empty(id));
        let got = self.mount().rmdir(path).await;
        self.expect(&format!("rmdir {path}"), &got, fits);
        if fits {
            self.model.remove(path);
        }
    }

    async fn link(&mut self) {
        let (from, to) = (self.path(), self.path());
        let source = self.model.find(&from).filter(|id| !self.model.is_folder(*id));
        let Some(source) = source else { return };
        let (folder, name) = to.rsplit_once('/').unwrap_or(("", to.as_str()));
        let Ok(parent) = self.mount().stat(folder).await else { return };
        if parent.kind != Kind::Folder {
            return;
        }
        let ino = self.mount().stat(&from).await.unwrap().ino;
        let fits = self.model.find(&to).is_none() && self.model.children(&to).is_some();
        let got = self.mount().fs.link(ino, parent.ino, name).await;
        let is_written = self.open.iter().any(|open| open.node == source && open.flags.write);
        if is_written {
            assert!(got.is_err(), "a link to what is being written\n{}", self.tail());
            self.log.push(format!("{}: link {from} {to} busy", self.step));
            return;
        }
        self.expect(&format!("link {from} {to}"), &got, fits);
        if fits {
            let content = self.model.data(source).clone();
            self.model.add(&to, Node::File(content));
        }
    }

    async fn truncate(&mut self) {
        let path = self.path();
        let Some(id) = self.model.find(&path).filter(|id| !self.model.is_folder(*id)) else {
            return;
        };
        let size = *self.dice.pick(&LENGTHS);
        let ino = self.mount().stat(&path).await.unwrap().ino;
        let changes = Changes { size: Some(size as u64), ..Changes::default() };
        let got = self.mount().fs.setattr(ino, None, changes).await;
        self.expect(&format!("truncate {path} {size}"), &got, true);
        self.model.data(id).resize(size, 0);
    }

    async fn look(&mut self) {
        let path = self.path();
        let got = self.mount().stat(&path).await;
        let there = self.model.find(&path);
        self.expect(&format!("stat {path}"), &got, there.is_some());
        if let (Ok(attr), Some(id)) = (got, there) {
            match &self.model.0[id] {
                Node::Folder(_) => assert_eq!(attr.kind, Kind::Folder, "{}", self.tail()),
                Node::File(data) => {
                    assert_eq!(attr.kind, Kind::File, "{}", self.tail());
                    assert_eq!(attr.size, data.len() as u64, "{path}\n{}", self.tail());
                }
            }
        }
        let folder = *self.dice.pick(&FOLDERS);
        if let Some(Node::Folder(children)) = self.model.find(folder).map(|id| &self.model.0[id]) {
            let expected: Vec<String> = children.keys().cloned().collect();
            let mut listed = self.mount().list(folder).await;
            listed.sort();
            assert_eq!(listed, expected, "{folder}\n{}", self.tail());
        }
    }

    async fn close_all(&mut self) {
        while !self.open.is_empty() {
            self.close_one().await;
        }
    }

    /// Everything is in the bucket, and nothing else.
    async fn flush(&mut self) {
        self.close_all().await;
        self.log.push(format!("{}: flush", self.step));
        self.mount().flush().await;
        let expected = self.model.files();
        let keys = self.mount().keys().await;
        let wanted: Vec<&String> = expected.keys().collect();
        assert_eq!(keys.iter().collect::<Vec<_>>(), wanted, "{}", self.tail());
        for (path, content) in &expected {
            let object = self.mount().object(path).await.unwrap();
            assert!(object == *content, "the object {path} has other bytes\n{}", self.tail());
        }
    }

    /// The daemon is killed, and a new one takes up what it left.
    async fn restart(&mut self) {
        self.close_all().await;
        self.log.push(format!("{}: restart", self.step));
        let mount = self.mount.take().unwrap();
        let owes_deletions = mount.queue.pending().iter().any(|at| at.file.is_none());
        self.mount = Some(mount.restart().await);
        // A folder is shown until the last object that was deleted in it has gone.
        if owes_deletions {
            self.mount().flush().await;
        }
        self.model.drop_empty_folders(ROOT);
        self.model_is_shown().await;
    }

    async fn model_is_shown(&mut self) {
        for (path, content) in self.model.files() {
            let read = self.mount().read(&path).await;
            let read = read.unwrap_or_else(|error| panic!("{path}: {error:?}\n{}", self.tail()));
            assert!(read == content, "{path} has other bytes\n{}", self.tail());
        }
    }
}

/// Names of documents and chunks are those of objects: nobody looks for a folder there.
fn may_be_folder(path: &str) -> bool {
    !path.ends_with("zarr.json") && !path.ends_with('0')
}

async fn run(mount: Mount, names: usize, seed: u64, steps: usize) {
    let mut run = Run {
        mount: Some(mount),
        model: Model::new(),
        open: Vec::new(),
        dice: Dice(seed),
        names,
        step: 0,
        log: vec![format!("seed {seed}")],
    };
    for _ in 0..steps {
        run.step().await;
    }
    run.flush().await;
    run.restart().await;
    run.flush().await;
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_leave_what_a_local_disk_would_hold() {
    let (runs, seed) = (number("N", 20), number("SEED", 1));
    for seed in seed..seed + runs {
        run(Mount::new().await, 5, seed, 400).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_leave_the_same_in_a_bucket() {
    let (runs, seed) = (number("N", 4).div_ceil(4), number("SEED", 1_000_000));
    for seed in seed..seed + runs {
        let server = S3Server::start();
        run(Mount::on_s3(&server, Settings::default()).await, 4, seed, 400).await;
    }
}
