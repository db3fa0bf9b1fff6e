//! Names that tools give to files until they are complete. They stay in staging.

/// Whether a file of this name is on its way to another name, or only guards one. Such a file is
/// sent nowhere; renamed to a lasting name, it is. No chunk or document may ever have such a name.
///
/// - zarr-python: `zarr.<32 hex>.partial`; generally `*.partial`
/// - rsync: `.NAME.XXXXXX` (six letters or digits); below `.~tmp~/` with `--delay-updates`
/// - `TensorStore`: `NAME.__lock`
/// - editors: vim's `.NAME.swp`, `.swo`, `.swx` and its probe `4913`; emacs' `.#NAME`; GNOME's
///   `.goutputstream-XXXXXX`
/// - NFS and FUSE: `.nfs*`, `.fuse_hidden*`
pub fn is_temporary(name: &str) -> bool {
    name.ends_with(".partial")
        || name.ends_with(".__lock")
        || is_rsync(name)
        || is_hidden_helper(name)
}

/// Whether everything in a folder of this name is temporary.
pub(super) fn is_temporary_folder(name: &str) -> bool {
    name == ".~tmp~"
}

/// Whether the file at the end of this path is temporary, by its own name or a folder's.
pub(super) fn is_temporary_path(path: &crate::store::Location) -> bool {
    let in_folder = path.parent().is_some_and(|folder| folder.segments().any(is_temporary_folder));
    in_folder || is_temporary(path.name())
}

/// `.NAME.XXXXXX` with a NAME of at least one character.
fn is_rsync(name: &str) -> bool {
    let Some((stem, suffix)) = name.strip_prefix('.').and_then(|rest| rest.rsplit_once('.')) else {
        return false;
    };
    !stem.is_empty() && suffix.len() == 6 && is_random(suffix)
}

/// Random letters, rather than a word such as `.bashrc.backup` or a document such as `.x.zarray`:
/// rsync draws from letters and digits, so that six lower-case letters in a row come once in 200.
fn is_random(suffix: &str) -> bool {
    suffix.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && !suffix.bytes().all(|byte| byte.is_ascii_lowercase())
        && !suffix.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_hidden_helper(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('.') else { return false };
    let swap = [".swp", ".swo", ".swx", ".swpx"].iter().any(|ending| rest.ends_with(ending));
    swap || rest.starts_with('#')
        || rest.starts_with("goutputstream-")
        || rest.strip_prefix("nfs").is_some_and(is_long_hex)
        || rest.strip_prefix("fuse_hidden").is_some_and(is_long_hex)
}

fn is_long_hex(text: &str) -> bool {
    text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Location;

    #[test]
    fn names_of_unfinished_files_are_told_from_lasting_ones() {
        for name in [
            "zarr.0f3a9c5e7b1d4f6080a2c4e6f8091b3d.partial",
            "0.0f3a9c5e7b1d4f6080a2c4e6f8091b3d.partial",
            ".sst_2020.nc.Xy3kQ9",
            ".zarr.json.aB12cD",
            "0.0.0.__lock",
            ".notes.txt.swp",
            ".#notes.txt",
            ".nfs00000000abcdef0100000002",
            ".fuse_hidden0000123400000001",
        ] {
            assert!(is_temporary(name), "{name}");
        }
        for name in [
            "zarr.json",
            ".zarray",
            ".zattrs",
            ".zgroup",
            ".zmetadata",
            "0.0.0",
            "c",
            // Vim makes and deletes a file of this name; it is also that of a chunk.
            "4913",
            "sst.nc",
            ".hidden",
            ".a.zarray",
            ".x.123456",
            ".nfsroot",
            "partial",
            "..Xy3kQ9",
            "name.Xy3kQ9",
            ".",
        ] {
            assert!(!is_temporary(name), "{name}");
        }
    }

    #[test]
    fn everything_below_rsyncs_delay_folder_is_temporary() {
        let at = |text| Location::parse(text).unwrap();
        assert!(is_temporary_path(&at("a.zarr/.~tmp~/zarr.json")));
        assert!(!is_temporary_path(&at("a.zarr/zarr.json")));
    }
}
