//! Who keeps a mount busy: processes with an open file, their working folder or their program in it.
//! Links in /proc are read and never followed, so that a stuck mount cannot stop this.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A process that uses a mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// One of the paths it uses.
    pub path: PathBuf,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {}): {}", self.name, self.pid, self.path.display())
    }
}

/// The processes that use something at or below `mount_point`, as far as this user may see them.
pub fn holders(mount_point: &Path) -> Vec<Holder> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            let path = used_path(&process.path(), mount_point)?;
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            Some(Holder { pid, name: name.trim().to_owned(), path })
        })
        .collect()
}

fn used_path(process: &Path, mount_point: &Path) -> Option<PathBuf> {
    let links = ["cwd", "root", "exe"].map(|name| process.join(name));
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    links
        .into_iter()
        .chain(files.map(|file| file.path()))
        .filter_map(|link| fs::read_link(link).ok())
        .find(|target| target.starts_with(mount_point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_an_open_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        assert_eq!(holders(&folder), []);
        let path = folder.join("open");
        let _file = fs::File::create(&path).unwrap();
        let found = holders(&folder);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].pid, &found[0].path), (std::process::id(), &path));
    }
}
