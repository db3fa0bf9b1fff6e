//! `/run/mount/utab`, the file in which libmount keeps what the kernel does not know of a mount.
//!
//! Root's plain `umount DIR` calls `/sbin/umount.fuse.zarrmount`, and so waits for the bucket, only if
//! the mount has an entry there. mount(8) writes it, who knows its format best; it is removed here,
//! since umount(8) can only do so together with the unmount, by path, whatever lies there.
//!
//! ```text
//! SRC=s3://bucket/v3 TARGET=/mnt/archive ROOT=/ OPTS=x-zarrmount
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::FILE_SYSTEM_TYPE;
use super::table::unescape;
use crate::base::durable::write_atomically;

/// Where libmount looks for helpers.
const HELPER_FOLDERS: [&str; 3] = ["/sbin", "/sbin/fs.d", "/sbin/fs"];

const TABLE: &str = "/run/mount/utab";

/// Locked with flock(2) by all who change the table.
const LOCK: &str = "/run/mount/utab.lock";

/// A userspace option: it marks entries as ours, and an entry needs one to be written.
const MARK: &str = "x-zarrmount";

/// Has the mount at `path` entered, if that is of any use: if the helper is installed. The mount must
/// be served already: mount(8) looks at it.
pub(super) fn enter(source: &str, path: &Path) {
    if !helper_is_installed() {
        return;
    }
    // Nothing is mounted by this (-f), and no helper called (-i).
    let output = Command::new("mount")
        .args(["-i", "-f", "-c", "-t", FILE_SYSTEM_TYPE, "-o", MARK, "--", source])
        .arg(path)
        .stdin(Stdio::null())
        .output();
    let message = match output {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    tracing::warn!("a plain `umount` by root will not wait for the bucket: mount: {message}");
}

fn helper_is_installed() -> bool {
    let name = format!("umount.{FILE_SYSTEM_TYPE}");
    HELPER_FOLDERS.iter().any(|folder| Path::new(folder).join(&name).exists())
}

/// Removes our entries for `path`. What is left behind does no harm: it is added to a mount of the
/// same source at the same path only.
pub(super) fn remove(path: &Path) {
    if let Err(error) = try_remove(path) {
        tracing::debug!(%error, "{TABLE} keeps an entry");
    }
}

fn try_remove(path: &Path) -> io::Result<()> {
    if !has_entry(&read()?, path) {
        return Ok(());
    }
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o644);
    let lock = options.open(LOCK)?;
    lock.lock()?;
    let table = read()?;
    let kept: Vec<u8> =
        lines(&table).filter(|line| !is_ours(line, path)).flatten().copied().collect();
    write_atomically(Path::new(TABLE), &kept).map_err(|error| error.source)?;
    fs::set_permissions(TABLE, std::os::unix::fs::PermissionsExt::from_mode(0o644))
}

fn read() -> io::Result<Vec<u8>> {
    match fs::read(TABLE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

fn has_entry(table: &[u8], path: &Path) -> bool {
    lines(table).any(|line| is_ours(line, path))
}

fn lines(table: &[u8]) -> impl Iterator<Item = &[u8]> {
    table.split_inclusive(|byte| *byte == b'\n')
}

fn is_ours(line: &[u8], path: &Path) -> bool {
    let mut fields = line.trim_ascii().split(|byte| *byte == b' ');
    let is_target = |field: &[u8]| {
        field.strip_prefix(b"TARGET=").is_some_and(|at| unescape(at) == path.as_os_str().as_bytes())
    };
    let is_marked = |field: &[u8]| {
        let options = field.strip_prefix(b"OPTS=").unwrap_or_default();
        options.split(|byte| *byte == b',').any(|option| option == MARK.as_bytes())
    };
    fields.clone().any(is_target) && fields.any(is_marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_that_are_marked_and_for_this_path_are_ours() {
        let path = Path::new("/mnt/my data");
        for (line, ours) in [
            ("SRC=s3://b TARGET=/mnt/my\\040data ROOT=/ OPTS=x-zarrmount\n", true),
            ("ID=7 SRC=s3://b TARGET=/mnt/my\\040data ROOT=/ OPTS=x-a,x-zarrmount", true),
            ("SRC=s3://b TARGET=/mnt/my\\040data/below ROOT=/ OPTS=x-zarrmount\n", false),
            ("SRC=/dev/sda TARGET=/mnt/my\\040data ROOT=/ OPTS=uhelper=udisks2\n", false),
        ] {
            assert_eq!(is_ours(line.as_bytes(), path), ours, "{line}");
            assert_eq!(has_entry(format!("other\n{line}").as_bytes(), path), ours);
        }
    }
}
