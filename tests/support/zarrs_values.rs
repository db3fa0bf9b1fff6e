//! Prints what zarrs, another implementation of Zarr, reads: for each array path one line of JSON with
//! the array's shape and its little-endian elements, or its texts.
//!
//! `zarrs_values FOLDER PATH...`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use zarrs::array::{Array, ArrayBytes};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{StoreKey, WritableStorageTraits as _};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let store = Arc::new(loaded(&PathBuf::from(arguments.next().unwrap())));
    for path in arguments {
        let array = Array::open(Arc::clone(&store), &format!("/{path}")).unwrap();
        let values: ArrayBytes<'_> = array.retrieve_array_subset(&array.subset_all()).unwrap();
        let mut line = json!({"path": path, "shape": array.shape()});
        match values {
            ArrayBytes::Variable(values) => {
                let (bytes, offsets) = values.into_parts();
                let texts = offsets.windows(2).map(|ends| &bytes[ends[0]..ends[1]]);
                let texts: Vec<_> = texts.map(String::from_utf8_lossy).collect();
                line["texts"] = json!(texts);
            }
            fixed => line["bytes"] = json!(STANDARD.encode(fixed.into_fixed().unwrap())),
        }
        println!("{line}");
    }
}

/// Every file of a folder under its path.
fn loaded(folder: &Path) -> MemoryStore {
    let store = MemoryStore::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.strip_prefix(folder).unwrap().to_str().unwrap();
            let key = StoreKey::new(key).unwrap();
            store.set(&key, fs::read(&path).unwrap().into()).unwrap();
        }
    }
    store
}
