//! The structure of the source: modules use only modules below them, each outside crate has one
//! home, and every file says what it is for.
#![allow(clippy::unwrap_used, clippy::string_slice, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// From the user down to the foundation, as in `src/lib.rs`.
const ORDER: [&str; 16] = [
    "cli",
    "mount",
    "config",
    "fuse",
    "fs",
    "check",
    "ingest",
    "assemble",
    "plan",
    "upload",
    "staging",
    "namespace",
    "netcdf",
    "store",
    "zarr",
    "telemetry",
];

/// Below all of them.
const FOUNDATION: &str = "base";

/// Outside crates that may be used in one module only.
const HOMES: [(&str, &[&str]); 19] = [
    ("fuser", &["fuse"]),
    ("object_store", &["store"]),
    ("reqwest", &["store"]),
    ("zarrs", &["zarr"]),
    ("moka", &["namespace"]),
    ("hdf5_reader", &["netcdf"]),
    ("half", &["netcdf", "plan", "zarr"]),
    ("libdeflater", &["netcdf"]),
    ("bzip2", &["netcdf"]),
    ("lz4_flex", &["netcdf"]),
    ("snap", &["netcdf"]),
    ("zstd", &["netcdf"]),
    ("quick_xml", &["store"]),
    ("rustix", &["fuse"]),
    ("clap", &["cli", "config"]),
    ("indicatif", &["cli"]),
    ("crc32fast", &["staging", "netcdf"]),
    ("xxhash_rust", &["ingest"]),
    ("uuid", &["ingest", "store"]),
];

struct SourceFile {
    path: PathBuf,
    module: String,
    text: String,
}

fn source_files() -> Vec<SourceFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![];
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let relative = path.strip_prefix(&root).unwrap();
                let module = match relative.components().count() {
                    1 => String::new(),
                    _ => relative.iter().next().unwrap().to_string_lossy().into_owned(),
                };
                let text = fs::read_to_string(&path).unwrap();
                files.push(SourceFile { path: relative.to_owned(), module, text });
            }
        }
    }
    assert!(files.len() > ORDER.len(), "the walk found the source");
    files
}

/// The code of a file without its comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//"))
}

/// Names that follow `prefix::` somewhere in the code.
fn names_after<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for line in code(text) {
        for (at, _) in line.match_indices(prefix) {
            let before = line[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &line[at + prefix.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            names.insert(&rest[..end]);
        }
    }
    names
}

#[test]
fn modules_use_only_modules_below_them() {
    let rank = |module: &str| ORDER.iter().position(|name| *name == module);
    let mut wrong = vec![];
    for file in source_files() {
        for used in names_after(&file.text, "crate::") {
            if used == file.module || used == FOUNDATION || file.module.is_empty() {
                continue;
            }
            match (rank(&file.module), rank(used)) {
                (Some(own), Some(other)) if own < other => {}
                (None, _) if file.module == FOUNDATION => {
                    wrong.push(format!("{} uses {used}", file.path.display()));
                }
                (Some(_), Some(_)) => wrong.push(format!("{} uses {used}", file.path.display())),
                // `crate::` followed by something that is no module, such as a macro.
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "imports that go up:\n{}", wrong.join("\n"));
}

#[test]
fn each_outside_crate_is_used_in_its_home_only() {
    let mut wrong = vec![];
    for file in source_files() {
        for (krate, homes) in HOMES {
            let used = !names_after(&file.text, &format!("{krate}::")).is_empty();
            if used && !homes.contains(&file.module.as_str()) {
                wrong.push(format!("{} uses {krate}", file.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "crates used outside their home:\n{}", wrong.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<_> = source_files()
        .into_iter()
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| file.path)
        .collect();
    assert!(silent.is_empty(), "files without a first `//!` line: {silent:?}");
}

#[test]
fn the_order_of_modules_is_the_one_that_the_crate_documents() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let start = lib.find("```text").unwrap();
    let documented: Vec<&str> = lib[start..]
        .lines()
        .skip(1)
        .take_while(|line| !line.contains("```"))
        .filter_map(|line| line.trim_start_matches("//! ").split_whitespace().next())
        .collect();
    let expected: Vec<&str> = ORDER.into_iter().chain([FOUNDATION]).collect();
    assert_eq!(documented, expected);
}
