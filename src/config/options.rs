//! The table of options. One row gives the flag, the `-o` key, the TOML key, the environment
//! variable, the help text and the row of `docs/CONFIGURATION.md`; nothing else lists them.

/// One option of `zarrmount mount`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionSpec {
    /// The flag without its dashes; also the `-o` key and the TOML key.
    pub name: &'static str,
    /// What the value is called in help texts; `None` for a switch.
    pub value: Option<&'static str>,
    /// The default, in words.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
    /// The environment variable.
    pub variable: &'static str,
}

macro_rules! options {
    ($($(#[$doc:meta])* $row:ident = $name:literal $value:expr, $variable:literal, $default:literal, $help:literal;)*) => {
        $(
            $(#[$doc])*
            pub const $row: OptionSpec = OptionSpec {
                name: $name, value: $value, default: $default, help: $help, variable: $variable,
            };
        )*
        /// Every option, in the order of the help text.
        pub const ALL: &[&OptionSpec] = &[$(&$row),*];
    };
}

options! {
    /// Chunk shape of new arrays.
    CHUNKS = "chunks" Some("DIM=N,.."), "ZARRMOUNT_CHUNKS",
        "the source's chunks where they hold 1 to 128 MiB, else about 16 MiB",
        "Chunk shape of new arrays, such as `time=1,lat=256`. Dimensions that are not named take their full extent; `-1` is the full extent too. `:` may stand for `,`";
    /// Codecs of new arrays.
    CODEC = "codec" Some("CODEC"), "ZARRMOUNT_CODEC", "blosc:zstd:5:shuffle",
        "Compression of new arrays: `blosc:zstd:5:shuffle`, `zstd:N`, `gzip:N`, `none`";
    /// Zarr version of new datasets.
    ZARR_FORMAT = "zarr-format" Some("3|2"), "ZARRMOUNT_ZARR_FORMAT", "3",
        "Version of the Zarr format of new datasets";
    /// Leave consolidated metadata away.
    NO_CONSOLIDATED = "no-consolidated" None, "ZARRMOUNT_NO_CONSOLIDATED", "off",
        "Write no consolidated metadata into the root of new datasets";
    /// Whether NetCDF files become Zarr.
    INGEST = "ingest" Some("on|off"), "ZARRMOUNT_INGEST", "on",
        "Turn NetCDF files into Zarr (`on`), or store them byte for byte like any other file (`off`)";
    /// Leave out variables that Zarr cannot hold.
    SKIP_UNSUPPORTED = "skip-unsupported" None, "ZARRMOUNT_SKIP_UNSUPPORTED", "off",
        "Leave out variables of types that Zarr cannot hold instead of refusing the whole file";
    /// The dimension that files are joined along.
    CONCAT_DIM = "concat-dim" Some("DIM"), "ZARRMOUNT_CONCAT_DIM",
        "the unlimited one, else the only one whose coordinates differ",
        "Dimension along which files copied into one dataset folder are joined";
    /// Values that are there already.
    OVERLAP = "overlap" Some("error|keep|replace"), "ZARRMOUNT_OVERLAP", "error",
        "Values for coordinates that a dataset has already: they must be the same (`error`), those that are there stay (`keep`), or those that come hold (`replace`)";
    /// Files with different variables.
    SCHEMA = "schema" Some("union|strict"), "ZARRMOUNT_SCHEMA", "union",
        "Files of one dataset with different variables: all of them, gaps are missing values (`union`), or refused (`strict`)";
    /// Packed variables.
    UNPACK = "unpack" None, "ZARRMOUNT_UNPACK", "off",
        "Store packed variables (`scale_factor`, `add_offset`) as the values they mean; for files that are packed differently";
    /// When a dataset publishes itself.
    IDLE = "idle" Some("TIME"), "ZARRMOUNT_IDLE", "60s",
        "A dataset folder that files were copied into is published after so long without open files or arrivals; at the latest by `flush`, `sync` and `umount`";
    /// How long metadata read from the bucket is believed.
    METADATA_TTL = "metadata-ttl" Some("TIME"), "ZARRMOUNT_METADATA_TTL", "60s",
        "How long listings and metadata read from the bucket are believed";
    /// Where copied files wait until they are in the bucket.
    SPOOL_DIR = "spool-dir" Some("FOLDER"), "ZARRMOUNT_SPOOL",
        "$XDG_STATE_HOME/zarrmount/HOST-HASH",
        "Folder where copied files are kept until they are in the bucket; one mount each. Put it on a disk that survives a reboot";
    /// Quota of the spool.
    SPOOL_SIZE = "spool-size" Some("SIZE"), "ZARRMOUNT_SPOOL_SIZE",
        "20GiB, or half of the free space if that is less",
        "Most that the spool may hold; a copy is slowed down, not refused, while it is full";
    /// Budget of buffers.
    MEMORY = "memory" Some("SIZE"), "ZARRMOUNT_MEMORY",
        "2GiB, or a quarter of the memory if that is less",
        "Memory for buffers";
    /// Connection pool.
    CONNECTIONS = "connections" Some("N"), "ZARRMOUNT_CONNECTIONS", "64",
        "Most requests under way at once, each on a connection that is kept open";
    /// Patience of umount and flush.
    TIMEOUT = "timeout" Some("TIME"), "ZARRMOUNT_TIMEOUT", "10min",
        "umount and flush give up after so long without any progress";
    /// Patience of a write that waits for room.
    STALL_TIMEOUT = "stall-timeout" Some("TIME"), "ZARRMOUNT_STALL_TIMEOUT", "5min",
        "A write that waits for room in a full spool fails (ENOSPC) after so long in which nothing moved";
    /// No writes.
    READ_ONLY = "read-only" None, "ZARRMOUNT_READ_ONLY", "off",
        "Allow no changes";
    /// Let other users in.
    ALLOW_OTHER = "allow-other" None, "ZARRMOUNT_ALLOW_OTHER", "off",
        "Let other users use the mount, within the permissions it shows";
    /// Owner shown.
    UID = "uid" Some("UID"), "ZARRMOUNT_UID", "the user who mounts",
        "Owner shown for what is in the bucket";
    /// Group shown.
    GID = "gid" Some("GID"), "ZARRMOUNT_GID", "the group of the user who mounts",
        "Group shown for what is in the bucket";
    /// Permission bits taken away.
    UMASK = "umask" Some("OCTAL"), "ZARRMOUNT_UMASK", "022",
        "Permissions taken away from what is in the bucket";
    /// Address of the store.
    ENDPOINT_URL = "endpoint-url" Some("URL"), "ZARRMOUNT_ENDPOINT_URL",
        "the provider's; AWS_ENDPOINT_URL",
        "Address of an S3-compatible service, such as `http://localhost:9000`";
    /// Region.
    REGION = "region" Some("REGION"), "ZARRMOUNT_REGION", "AWS_REGION, else asked of the bucket",
        "Region of the bucket";
    /// Credentials profile.
    PROFILE = "profile" Some("NAME"), "ZARRMOUNT_PROFILE", "AWS_PROFILE",
        "Profile in `~/.aws/config` and `~/.aws/credentials` to take credentials from";
    /// Anonymous access.
    NO_SIGN_REQUEST = "no-sign-request" None, "ZARRMOUNT_NO_SIGN_REQUEST", "off",
        "Send no credentials: for public buckets";
    /// Trusted certificates.
    CA_BUNDLE = "ca-bundle" Some("FILE"), "ZARRMOUNT_CA_BUNDLE", "AWS_CA_BUNDLE",
        "Certificates (PEM) to trust besides those of the system";
    /// Log of the daemon.
    LOG_FILE = "log-file" Some("FILE"), "ZARRMOUNT_LOG_FILE",
        "$XDG_STATE_HOME/zarrmount/mounts/HASH/daemon.log",
        "Where the mount writes its log";
}

impl OptionSpec {
    /// The row of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().copied().find(|spec| spec.name == name)
    }

    /// Whether it takes no value.
    pub const fn is_switch(&self) -> bool {
        self.value.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_variables_are_distinct_and_follow_from_each_other() {
        for spec in ALL {
            assert_eq!(OptionSpec::find(spec.name), Some(*spec));
            let variable = format!("ZARRMOUNT_{}", spec.name.replace('-', "_").to_uppercase());
            // The one exception is a name that is already in use in job scripts.
            assert!(spec.variable == variable || spec.variable == "ZARRMOUNT_SPOOL");
        }
    }
}
