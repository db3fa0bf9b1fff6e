//! What landed in a local bucket, for people: folders with their objects, counted and summed up.

use std::fs;
use std::path::Path;

use crate::base::durable::{AtPath as _, FileError};
use crate::base::units::ByteSize;

/// `sst.nc  1.2 MiB`
pub(super) fn file_line(path: &Path) -> String {
    let size = path.metadata().map(|metadata| metadata.len()).unwrap_or_default();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{name:24} {:>10}", ByteSize(size).to_string())
}

/// The datasets in `bucket`, their documents, and each array with its chunks summed up.
pub(super) fn lines(bucket: &Path) -> Result<Vec<String>, FileError> {
    let mut lines = Vec::new();
    for dataset in sorted(bucket)?.iter().filter(|path| path.is_dir() && !is_hidden(path)) {
        let (objects, bytes) = total(dataset)?;
        lines.push(format!("{}/  {objects} objects, {}", name(dataset), ByteSize(bytes)));
        for entry in sorted(dataset)? {
            if entry.is_dir() {
                let (objects, bytes) = total(&entry)?;
                let text = format!("{}/", name(&entry));
                lines.push(format!(
                    "  {text:22} {:>10}  {objects} objects",
                    ByteSize(bytes).to_string()
                ));
            } else {
                lines.push(format!("  {}", file_line(&entry)));
            }
        }
    }
    Ok(lines)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn is_hidden(path: &Path) -> bool {
    name(path).starts_with('.')
}

fn sorted(folder: &Path) -> Result<Vec<std::path::PathBuf>, FileError> {
    let entries = fs::read_dir(folder).at(folder)?;
    let mut paths =
        entries.map(|entry| Ok(entry.at(folder)?.path())).collect::<Result<Vec<_>, FileError>>()?;
    paths.sort();
    Ok(paths)
}

/// Objects and bytes below `path`.
fn total(path: &Path) -> Result<(u64, u64), FileError> {
    if !path.is_dir() {
        return Ok((1, path.metadata().at(path)?.len()));
    }
    sorted(path)?.iter().try_fold((0, 0), |(objects, bytes), entry| {
        let (more, size) = total(entry)?;
        Ok((objects + more, bytes + size))
    })
}
