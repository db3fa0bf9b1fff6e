//! What a user does in a mount, step by step, and what is in the bucket after each step of a day on
//! which nothing goes wrong.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use zarrmount::netcdf::fixtures::{ocean, write_classic, write_netcdf4};

use crate::bucket::Bucket;
use crate::daemon::{Place, copy_in};
use crate::support::S3Server;

/// One thing that a user does.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Copy(&'static str, Vec<u8>),
    Remove(&'static str),
    Rename(&'static str, &'static str),
    Flush,
}

/// Chunks of the raw hierarchy.
const RAW_CHUNKS: [&str; 6] = ["0", "1", "2", "3", "4", "5"];

/// Small source files of both formats, raw chunks with their documents, a replacement, an append,
/// deletions, a rename, and at the end files that are too large for the journal.
pub(crate) fn ops() -> Vec<Op> {
    let day = |first, days| write_netcdf4(&ocean(first, days, 6, 8));
    let mut ops = vec![
        Op::Copy("a.nc", day(0, 6)),
        Op::Copy("raw.zarr/zarr.json", br#"{"zarr_format":3,"node_type":"group"}"#.to_vec()),
        Op::Copy("raw.zarr/x/zarr.json", br#"{"zarr_format":3,"node_type":"array"}"#.to_vec()),
    ];
    for chunk in RAW_CHUNKS {
        let path = format!("raw.zarr/x/c/{chunk}").leak();
        ops.push(Op::Copy(path, format!("chunk {chunk} ").repeat(300).into_bytes()));
    }
    ops.extend([
        Op::Copy("j.zarr/1.nc", day(0, 5)),
        Op::Copy("j.zarr/2.nc", day(5, 5)),
        Op::Copy("c.nc", write_classic(&ocean(5, 5, 6, 8), 2)),
        Op::Copy("notes.txt", b"first".to_vec()),
        Op::Flush,
        Op::Copy("a.nc", day(100, 6)),
        Op::Copy("j.zarr/3.nc", day(10, 5)),
        Op::Remove("raw.zarr/x/c/3"),
        Op::Copy("raw.zarr/x/c/4", b"another chunk 4".to_vec()),
        Op::Rename("notes.txt", "old.txt"),
        Op::Copy("notes.txt", b"second".to_vec()),
        Op::Copy("large.bin", (0..400_000_u32).flat_map(u32::to_le_bytes).collect()),
        Op::Copy("b.nc", write_netcdf4(&ocean(0, 30, 24, 30))),
    ]);
    ops
}

impl Op {
    /// Does it; an error says that it was not acknowledged.
    pub(crate) fn apply(&self, place: &Place) -> io::Result<()> {
        let root = place.mount_point();
        match self {
            Self::Copy(path, content) => copy_in(&root.join(path), content),
            Self::Remove(path) => fs::remove_file(root.join(path)),
            Self::Rename(from, to) => fs::rename(root.join(from), root.join(to)),
            Self::Flush => place.flush().map_err(io::Error::other),
        }
    }

    /// Does it after an attempt of which nobody knows how far it came.
    pub(crate) fn apply_again(&self, place: &Place) -> io::Result<()> {
        let root = place.mount_point();
        match self {
            Self::Remove(path) if !root.join(path).exists() => Ok(()),
            Self::Rename(from, to) if !root.join(from).exists() && root.join(to).exists() => Ok(()),
            other => other.apply(place),
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Copy(path, content) => format!("copy of {path}, {} bytes", content.len()),
            Self::Remove(path) => format!("removal of {path}"),
            Self::Rename(from, to) => format!("rename of {from} to {to}"),
            Self::Flush => "flush".to_owned(),
        }
    }

    /// What it changes in the bucket.
    pub(crate) fn touches(&self) -> Vec<String> {
        let keys = |path: &str| match path.strip_suffix(".nc") {
            Some(_) if path.contains(".zarr/") => vec![key(path.split('/').next().unwrap())],
            Some(stem) => vec![key(&format!("{stem}.zarr"))],
            None => vec![key(path)],
        };
        match self {
            Self::Copy(path, _) | Self::Remove(path) => keys(path),
            Self::Rename(from, to) => [keys(from), keys(to)].concat(),
            Self::Flush => vec![],
        }
    }
}

/// The key of a path in the mount.
pub(crate) fn key(path: &str) -> String {
    format!("p/{path}")
}

/// What a file holds after the first `done` steps, if it is there and stays what was copied.
pub(crate) fn files_after(done: usize) -> BTreeMap<&'static str, Vec<u8>> {
    let mut files = BTreeMap::new();
    for op in ops().into_iter().take(done) {
        match op {
            Op::Copy(path, content) => drop(files.insert(path, content)),
            Op::Remove(path) => drop(files.remove(path)),
            Op::Rename(from, to) => {
                let moved = files.remove(from).unwrap();
                files.insert(to, moved);
            }
            Op::Flush => {}
        }
    }
    files
}

/// An uninterrupted run.
pub(crate) struct Reference {
    /// What is in the bucket after so many steps.
    pub(crate) after: Vec<Bucket>,
    /// Requests of a run that flushes where the workload does.
    pub(crate) requests: usize,
    /// How large its journal became.
    pub(crate) journal_bytes: u64,
    /// How long it took.
    pub(crate) took: std::time::Duration,
}

/// Made once for all runs.
pub(crate) fn reference() -> &'static Reference {
    static REFERENCE: OnceLock<Reference> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let (after, _) = run(true);
        let (end, (requests, journal_bytes, took)) = run(false);
        let (last, stepwise) = (end.last().unwrap(), after.last().unwrap());
        assert_eq!(last.differences(stepwise), "", "the end depends on when it is flushed");
        Reference { after, requests, journal_bytes, took }
    })
}

fn run(flush_each: bool) -> (Vec<Bucket>, (usize, u64, std::time::Duration)) {
    let server = S3Server::start();
    let place = Place::new(&server);
    let start = std::time::Instant::now();
    let mut daemon = place.mount(None, Arc::default()).unwrap();
    let mut after = vec![Bucket::of(&server)];
    for op in ops() {
        if let Err(error) = op.apply(&place) {
            panic!("{}: {error}; log in {}", op.name(), place.keep_log("reference"));
        }
        if flush_each {
            place.flush().unwrap();
            after.push(Bucket::of(&server));
        }
    }
    let journal_bytes = place.journal_bytes();
    place.umount().unwrap();
    daemon.wait();
    after.push(Bucket::of(&server));
    (after, (server.requests().len(), journal_bytes, start.elapsed()))
}

/// The content of a file in a mount.
pub(crate) fn content_in(root: &Path, path: &str) -> io::Result<Vec<u8>> {
    fs::read(root.join(path))
}
