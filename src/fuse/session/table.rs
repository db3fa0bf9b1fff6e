//! The kernel's table of mounts, `/proc/self/mountinfo` (proc(5)). Reading it never touches a mount,
//! so that it works where the daemon behind one is dead or stuck.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Number of the mount. It is used again once the mount is gone.
    pub number: u64,
    /// Number of the mount that this one lies in or on.
    pub parent: u64,
    /// Number of the file system, `major:minor`.
    pub device: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The file system type, such as `fuse.zarrmount`.
    pub kind: String,
    /// What is mounted: for our mounts the URL.
    pub source: String,
    /// The user who mounted it, for FUSE.
    pub user_id: Option<u32>,
}

/// The topmost mount at exactly this path.
pub fn entry_at(path: &Path) -> Option<Entry> {
    let table = fs::read("/proc/self/mountinfo").ok()?;
    // Later lines lie on top of earlier ones.
    parse(&table).into_iter().rev().find(|entry| entry.mount_point == path)
}

/// The mount of this number and file system, wherever it is, and whether another one hides it.
pub(super) fn find(number: u64, device: &str) -> Option<(Entry, bool)> {
    let table = parse(&fs::read("/proc/self/mountinfo").ok()?);
    let entry = table.iter().find(|entry| entry.number == number && entry.device == device)?;
    let is_hidden =
        table.iter().any(|above| above.parent == number && above.mount_point == entry.mount_point);
    Some((entry.clone(), is_hidden))
}

fn parse(table: &[u8]) -> Vec<Entry> {
    table.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /mount/point options [optional fields] - type source super-options`
fn parse_line(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|&byte| byte == b' ');
    let number = parse_number(fields.next()?)?;
    let parent = parse_number(fields.next()?)?;
    let device = String::from_utf8_lossy(fields.next()?).into_owned();
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = String::from_utf8_lossy(fields.next()?).into_owned();
    let source = String::from_utf8_lossy(&unescape(fields.next()?)).into_owned();
    let options = String::from_utf8_lossy(fields.next()?).into_owned();
    let user_id = options.split(',').find_map(|option| option.strip_prefix("user_id="));
    let user_id = user_id.and_then(|id| id.parse().ok());
    Some(Entry { number, parent, device, mount_point, kind, source, user_id })
}

fn parse_number(field: &[u8]) -> Option<u64> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Space, tab, newline and backslash are written as three octal digits.
pub(super) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let (b'\\', Some(code)) = (byte, code) {
            bytes.push(code);
            rest = after.get(3..).unwrap_or_default();
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_with_escaped_names_and_optional_fields() {
        let table = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
            60 22 0:50 / /home/me/my\\040data rw,nosuid master:1 shared:9 - fuse.zarrmount \
            s3://b/a\\040b rw,user_id=1000,group_id=100\n\nbroken line\n";
        let entries = parse(table);
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[1],
            Entry {
                number: 60,
                parent: 22,
                device: "0:50".into(),
                mount_point: "/home/me/my data".into(),
                kind: "fuse.zarrmount".into(),
                source: "s3://b/a b".into(),
                user_id: Some(1000),
            }
        );
    }

    #[test]
    fn the_root_of_this_system_is_in_the_table() {
        assert!(entry_at(Path::new("/")).is_some());
        assert_eq!(entry_at(Path::new("/no/such/mount")), None);
    }
}
