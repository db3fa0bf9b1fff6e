//! What defaults depend on: this machine, its user and their folders.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nix::unistd::{User, geteuid};

/// The facts about machine and user that defaults are made from.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Name of this host: home folders are often shared by several.
    pub host: String,
    /// `$XDG_STATE_HOME/zarrmount`, by default `~/.local/state/zarrmount`.
    pub state_home: PathBuf,
    /// What relative paths begin at.
    pub working_folder: PathBuf,
    /// Memory of the machine or the limit of the control group, whichever is less. `None` if unknown.
    pub memory_bytes: Option<u64>,
}

/// Neither `XDG_STATE_HOME` nor a home folder is known.
#[derive(Debug, thiserror::Error)]
#[error("there is no folder to keep state in: neither XDG_STATE_HOME nor HOME is set")]
pub struct NoStateHome;

impl Machine {
    /// Looks at the machine this runs on.
    pub fn this(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, NoStateHome> {
        Ok(Self {
            host: host(),
            state_home: state_home(&lookup)?,
            working_folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            memory_bytes: memory_bytes(),
        })
    }
}

/// The folder that holds spools and the records of mounts.
pub fn state_home(lookup: &impl Fn(&str) -> Option<String>) -> Result<PathBuf, NoStateHome> {
    let absolute = |name| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(folder) = absolute("XDG_STATE_HOME") {
        return Ok(folder.join("zarrmount"));
    }
    let home = absolute("HOME")
        .or_else(|| User::from_uid(geteuid()).ok().flatten().map(|user| user.dir))
        .ok_or(NoStateHome)?;
    Ok(home.join(".local/state/zarrmount"))
}

/// Bytes free for this user on the file system that `path` is on, or will be once it is made.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists())?;
    let stat = statvfs(existing).ok()?;
    stat.blocks_available().checked_mul(stat.fragment_size())
}

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String =
        name.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

fn memory_bytes() -> Option<u64> {
    [physical_bytes(), control_group_bytes()].into_iter().flatten().min()
}

fn physical_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest limit on the way from this process's control group (version 2) to the root.
fn control_group_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Path::new(own)
        .ancestors()
        .filter_map(|group| {
            let limit = Path::new("/sys/fs/cgroup").join(group).join("memory.max");
            fs::read_to_string(limit).ok()?.trim().parse().ok()
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_memory_and_room() {
        let machine = Machine::this(|name| std::env::var(name).ok()).unwrap();
        assert!(!machine.host.is_empty());
        assert!(machine.memory_bytes.unwrap() > 1 << 20);
        assert!(free_bytes(Path::new("/tmp/not/there/yet")).is_some());
    }

    #[test]
    fn a_relative_state_folder_is_ignored_as_the_specification_says() {
        let lookup = |name: &str| match name {
            "XDG_STATE_HOME" => Some("relative".to_owned()),
            "HOME" => Some("/home/me".to_owned()),
            _ => None,
        };
        assert_eq!(state_home(&lookup).unwrap(), Path::new("/home/me/.local/state/zarrmount"));
    }
}
