//! From a path that the user types to the mount it is about.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::error::CliError;
use super::exit::Exit;
use crate::config::machine::state_home;
use crate::mount::registry::{MountRecord, RecordFolder};

/// The folder that holds this user's spools and records of mounts.
pub(super) fn this_state_home() -> Result<PathBuf, CliError> {
    Ok(state_home(&|name| std::env::var(name).ok())?)
}

/// The absolute path without symbolic links; of a folder that is not there, or whose mount is dead,
/// only the folders above it are resolved.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    let unresolvable =
        |error: io::Error| CliError::new(Exit::Usage, format!("{}: {error}", path.display()));
    let dead = Errno::ENOTCONN as i32;
    let resolved = match path.canonicalize() {
        Err(error)
            if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(dead) =>
        {
            let whole = std::path::absolute(path).map_err(unresolvable)?;
            match (whole.parent().map(Path::canonicalize), whole.file_name()) {
                (Some(Ok(parent)), Some(name)) => parent.join(name),
                _ => whole,
            }
        }
        resolved => resolved.map_err(unresolvable)?,
    };
    match resolved.to_str() {
        Some(_) => Ok(resolved),
        None => Err(CliError::new(Exit::Usage, format!("{}: not UTF-8", path.display()))),
    }
}

/// The record of the mount at `dir`.
pub(super) fn record_at(
    home: &Path,
    dir: &Path,
) -> Result<(RecordFolder, Option<MountRecord>), CliError> {
    let folder = RecordFolder::of(home, dir);
    let record = folder.read()?;
    Ok((folder, record))
}

/// The record of the mount that `path` is in.
pub(super) fn record_around(
    home: &Path,
    path: &Path,
) -> Result<(RecordFolder, MountRecord), CliError> {
    for dir in path.ancestors() {
        if let (folder, Some(record)) = record_at(home, dir)? {
            return Ok((folder, record));
        }
    }
    Err(not_mounted(path))
}

/// Nothing of this user is mounted there.
pub(super) fn not_mounted(path: &Path) -> CliError {
    CliError::new(Exit::Usage, format!("nothing is mounted by you at {}", path.display()))
        .hint("`zarrmount status` lists your mounts")
}
