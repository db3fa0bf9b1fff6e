//! The resolved configuration of one mount.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::layers::Layers;
use super::machine::{Machine, free_bytes};
use super::options::{self, OptionSpec};
use crate::base::units::{ByteSize, parse_duration};
use crate::plan::Encoding;
use crate::plan::join::Rules;
use crate::store::{StoreUrl, StoreUrlError};
use crate::zarr::ZarrFormat;

/// Everything that one mount was told, resolved: immutable from here on. It is journaled with the
/// spool, so that what was accepted under it is sent under it, whatever a later mount says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "switches of the command line")]
pub struct Config {
    /// The store, in its canonical form.
    pub url: String,
    /// The folder the store appears at; absolute.
    pub mount_point: PathBuf,
    /// How new arrays are written.
    pub encoding: Encoding,
    /// Whether NetCDF files become Zarr.
    pub ingest: bool,
    /// A dataset that files are joined into is published after so long without open files or
    /// arrivals.
    pub idle: Duration,
    /// How long listings and metadata of the bucket are believed.
    pub metadata_ttl: Duration,
    /// Where staged bytes live; absolute.
    pub spool_dir: PathBuf,
    /// Quota of the spool.
    pub spool_bytes_max: u64,
    /// Budget of buffers.
    pub memory_bytes_max: u64,
    /// Most requests under way at once.
    pub connections: NonZeroUsize,
    /// umount and flush give up after so long without progress.
    pub timeout: Duration,
    /// A write that waits for room fails after so long in which nothing moved.
    pub stall_timeout: Duration,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Whether other users may use the mount.
    pub allow_other: bool,
    /// Owner of everything; else files belong to who makes them, and the bucket to who mounts.
    pub uid: Option<u32>,
    /// Group of everything.
    pub gid: Option<u32>,
    /// Permission bits taken away from what is in the bucket.
    pub umask: u32,
    /// How to reach the store.
    pub store: StoreSettings,
    /// Log of the daemon; `None` for the default place.
    pub log_file: Option<PathBuf>,
}

/// How to reach the store. Holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSettings {
    /// Address of the service.
    pub endpoint_url: Option<String>,
    /// Region of the bucket.
    pub region: Option<String>,
    /// Profile of the credentials.
    pub profile: Option<String>,
    /// Anonymous access.
    pub no_sign_request: bool,
    /// Certificates to trust besides those of the system; absolute.
    pub ca_bundle: Option<PathBuf>,
}

/// Why the arguments make no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value cannot be read.
    #[error("{given}: {reason}")]
    Invalid {
        /// The value and where it was given.
        given: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The URL names no store.
    #[error(transparent)]
    Url(#[from] StoreUrlError),
    /// One folder lies in the other, so that the mount would wait for itself.
    #[error("{what} {} and the mount point {} must not contain each other", folder.display(), mount_point.display())]
    Nested {
        /// Which folder.
        what: &'static str,
        /// Its path.
        folder: PathBuf,
        /// Where the mount would be.
        mount_point: PathBuf,
    },
}

const SPOOL_BYTES_DEFAULT: u64 = 20 << 30;
const MEMORY_BYTES_DEFAULT: u64 = 2 << 30;
/// Below this not even one default chunk could be encoded.
const MEMORY_BYTES_MIN: u64 = 64 << 20;

impl Config {
    /// Resolves the options for the store `url` at `mount_point`, which must be absolute.
    pub fn resolve(
        url: &str,
        mount_point: &Path,
        layers: &Layers,
        machine: &Machine,
    ) -> Result<Self, ConfigError> {
        let url = url.parse::<StoreUrl>()?;
        let texts = Texts { layers, machine };
        let spool_dir = match texts.path(&options::SPOOL_DIR)? {
            Some(folder) => folder,
            None => default_spool(&url, mount_point, machine),
        };
        let config = Self {
            url: url.to_string(),
            mount_point: mount_point.to_owned(),
            encoding: texts.encoding()?,
            ingest: texts.switch(&options::INGEST, true)?,
            idle: texts.duration(&options::IDLE, Duration::from_mins(1))?,
            metadata_ttl: texts.duration(&options::METADATA_TTL, Duration::from_mins(1))?,
            spool_bytes_max: texts.spool_bytes_max(&spool_dir)?,
            spool_dir,
            memory_bytes_max: texts.memory_bytes_max()?,
            connections: texts.number(&options::CONNECTIONS)?.unwrap_or(CONNECTIONS_DEFAULT),
            timeout: texts.duration(&options::TIMEOUT, Duration::from_mins(10))?,
            stall_timeout: texts.duration(&options::STALL_TIMEOUT, Duration::from_mins(5))?,
            read_only: texts.switch(&options::READ_ONLY, false)?,
            allow_other: texts.switch(&options::ALLOW_OTHER, false)?,
            uid: texts.number(&options::UID)?,
            gid: texts.number(&options::GID)?,
            umask: texts.umask()?,
            store: texts.store()?,
            log_file: texts.path(&options::LOG_FILE)?,
        };
        config.check_folders(url.folder())?;
        Ok(config)
    }

    /// A spool or a store inside the mount would wait for itself; a mount inside the store would
    /// show itself.
    fn check_folders(&self, store: Option<PathBuf>) -> Result<(), ConfigError> {
        let spool = ("the spool", self.spool_dir.clone());
        for (what, folder) in store.map(|folder| ("the store", folder)).into_iter().chain([spool]) {
            let mount_point = &self.mount_point;
            if folder.starts_with(mount_point) || mount_point.starts_with(&folder) {
                return Err(ConfigError::Nested { what, folder, mount_point: mount_point.clone() });
            }
        }
        Ok(())
    }
}

const CONNECTIONS_DEFAULT: NonZeroUsize = match NonZeroUsize::new(64) {
    Some(number) => number,
    None => NonZeroUsize::MIN,
};

/// Gives texts their types; every error says where the text was given.
struct Texts<'a> {
    layers: &'a Layers,
    machine: &'a Machine,
}

impl Texts<'_> {
    fn parse<T, E: ToString>(
        &self,
        option: &'static OptionSpec,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(found) = self.layers.get(option) else { return Ok(None) };
        parse(found.text).map(Some).map_err(|reason| ConfigError::Invalid {
            given: found.to_string(),
            reason: reason.to_string(),
        })
    }

    fn text(&self, option: &'static OptionSpec) -> Option<String> {
        self.layers.get(option).map(|found| found.text.to_owned())
    }

    fn path(&self, option: &'static OptionSpec) -> Result<Option<PathBuf>, ConfigError> {
        self.parse(option, |text| match text {
            "" => Err("a path is needed"),
            text => Ok(self.machine.working_folder.join(text)),
        })
    }

    fn number<T: FromStr>(&self, option: &'static OptionSpec) -> Result<Option<T>, ConfigError> {
        self.parse(option, |text| text.parse().ok().ok_or("not a number that fits here"))
    }

    fn switch(&self, option: &'static OptionSpec, default: bool) -> Result<bool, ConfigError> {
        let given = self.parse(option, |text| match text {
            "on" | "true" | "yes" | "1" => Ok(true),
            "off" | "false" | "no" | "0" => Ok(false),
            _ => Err("write `on` or `off`"),
        })?;
        Ok(given.unwrap_or(default))
    }

    fn duration(
        &self,
        option: &'static OptionSpec,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        Ok(self.parse(option, parse_duration)?.unwrap_or(default))
    }

    fn size(&self, option: &'static OptionSpec) -> Result<Option<u64>, ConfigError> {
        Ok(self.parse(option, str::parse::<ByteSize>)?.map(|size| size.0))
    }

    fn encoding(&self) -> Result<Encoding, ConfigError> {
        let format = self.parse(&options::ZARR_FORMAT, |text| match text {
            "2" => Ok(ZarrFormat::V2),
            "3" => Ok(ZarrFormat::V3),
            _ => Err("write `3` or `2`"),
        })?;
        let chunks = self.parse(&options::CHUNKS, |text| separated(text).parse())?;
        Ok(Encoding {
            chunks: chunks.unwrap_or_default(),
            codec: self.parse(&options::CODEC, str::parse)?.unwrap_or_default(),
            format: format.unwrap_or(ZarrFormat::V3),
            consolidated: !self.switch(&options::NO_CONSOLIDATED, false)?,
            skip_unsupported: self.switch(&options::SKIP_UNSUPPORTED, false)?,
            join: Rules {
                concat_dim: self
                    .parse(&options::CONCAT_DIM, |text| Ok::<_, &str>(text.to_owned()))?,
                overlap: self.parse(&options::OVERLAP, str::parse)?.unwrap_or_default(),
                schema: self.parse(&options::SCHEMA, str::parse)?.unwrap_or_default(),
                unpack: self.switch(&options::UNPACK, false)?,
            },
        })
    }

    fn spool_bytes_max(&self, spool: &Path) -> Result<u64, ConfigError> {
        let default = || {
            free_bytes(spool).map_or(SPOOL_BYTES_DEFAULT, |free| SPOOL_BYTES_DEFAULT.min(free / 2))
        };
        Ok(self.size(&options::SPOOL_SIZE)?.unwrap_or_else(default))
    }

    fn memory_bytes_max(&self) -> Result<u64, ConfigError> {
        let given = self.parse(&options::MEMORY, |text| {
            let ByteSize(bytes) = text.parse().map_err(|error| format!("{error}"))?;
            if bytes < MEMORY_BYTES_MIN {
                return Err(format!("at least {} is needed", ByteSize(MEMORY_BYTES_MIN)));
            }
            Ok(bytes)
        })?;
        let quarter = self.machine.memory_bytes.map(|bytes| bytes / 4);
        let default = MEMORY_BYTES_DEFAULT.min(quarter.unwrap_or(MEMORY_BYTES_DEFAULT));
        Ok(given.unwrap_or(default.max(MEMORY_BYTES_MIN)))
    }

    fn umask(&self) -> Result<u32, ConfigError> {
        let given = self.parse(&options::UMASK, |text| match u32::from_str_radix(text, 8) {
            Ok(bits) if bits <= 0o777 => Ok(bits),
            _ => Err("write an octal number such as `022`"),
        })?;
        Ok(given.unwrap_or(0o022))
    }

    fn store(&self) -> Result<StoreSettings, ConfigError> {
        Ok(StoreSettings {
            endpoint_url: self.text(&options::ENDPOINT_URL),
            region: self.text(&options::REGION),
            profile: self.text(&options::PROFILE),
            no_sign_request: self.switch(&options::NO_SIGN_REQUEST, false)?,
            ca_bundle: self.path(&options::CA_BUNDLE)?,
        })
    }
}

/// `time=1:lat=2` as `time=1,lat=2`. A `:` that is a length, as in `time=:`, stays.
fn separated(text: &str) -> String {
    let mut separated = String::with_capacity(text.len());
    for character in text.chars() {
        let ends_item = character == ':' && !separated.is_empty() && !separated.ends_with('=');
        separated.push(if ends_item { ',' } else { character });
    }
    separated
}

/// The host is part of the name because home folders are shared between machines, and the mount
/// point because one store may be mounted twice.
fn default_spool(url: &StoreUrl, mount_point: &Path, machine: &Machine) -> PathBuf {
    let key = format!("{url}\n{}", mount_point.display());
    machine.state_home.join(format!("{}-{}", machine.host, hash_of(key.as_bytes())))
}

/// A short name for `bytes`: the first 64 bits of SHA-256 in hexadecimal.
pub fn hash_of(bytes: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let first: [u8; 8] = *digest.first_chunk().unwrap_or(&[0; 8]);
    format!("{:016x}", u64::from_be_bytes(first))
}

#[cfg(test)]
mod tests {
    use super::super::layers::{Layer, Origin};
    use super::*;

    fn machine() -> Machine {
        Machine {
            host: "node7".into(),
            state_home: "/state/zarrmount".into(),
            working_folder: "/work".into(),
            memory_bytes: Some(4 << 30),
        }
    }

    fn resolve(url: &str, options: &str) -> Result<Config, ConfigError> {
        let mut layer = Layer::empty(Origin::CommandLine);
        layer.add_mount_options(options).unwrap();
        Config::resolve(url, Path::new("/mnt/x"), &Layers::new(vec![layer]), &machine())
    }

    #[test]
    fn defaults_depend_on_machine_and_user() {
        let config = resolve("s3://bucket/v3", "").unwrap();
        assert_eq!(config.memory_bytes_max, 1 << 30);
        assert_eq!((config.uid, config.gid, config.umask), (None, None, 0o022));
        assert_eq!(config.connections.get(), 64);
        assert!(config.encoding.consolidated && config.ingest);
        assert!(config.spool_dir.starts_with("/state/zarrmount"));
        assert!(config.spool_dir.to_str().unwrap().contains("/node7-"));
    }

    #[test]
    fn a_spool_belongs_to_store_and_mount_point() {
        let spool = |url: &str| resolve(url, "").unwrap().spool_dir;
        assert_eq!(spool("s3://bucket/v3"), spool("s3://bucket/v3/"));
        assert_ne!(spool("s3://bucket/v3"), spool("s3://bucket/v4"));
    }

    #[test]
    fn values_get_their_types_and_relative_paths_become_absolute() {
        let config = resolve(
            "s3://bucket",
            "chunks=time=1:lat=-1,no-consolidated,ingest=off,timeout=90s,spool-size=1GiB,umask=077,\
             spool-dir=spool,ro,zarr-format=2",
        )
        .unwrap();
        assert_eq!(config.encoding.chunks.to_string(), "time=1,lat=:");
        assert_eq!(config.encoding.format, ZarrFormat::V2);
        assert!(!config.encoding.consolidated && !config.ingest && config.read_only);
        assert_eq!(config.timeout, Duration::from_secs(90));
        assert_eq!((config.spool_bytes_max, config.umask), (1 << 30, 0o077));
        assert_eq!(config.spool_dir, Path::new("/work/spool"));
    }

    #[test]
    fn chunk_lengths_may_be_separated_by_colons() {
        for (given, read) in
            [("time=1:lat=256", "time=1,lat=256"), ("time=::lat=2", "time=:,lat=2")]
        {
            assert_eq!(separated(given), read);
            assert_eq!(separated(read), read);
        }
    }

    #[test]
    fn a_wrong_value_says_where_it_was_given() {
        for option in [
            "memory=1k",
            "timeout=soon",
            "connections=0",
            "umask=9",
            "ingest=maybe",
            "codec=zip",
            "chunks=time",
        ] {
            let error = resolve("s3://bucket", option).unwrap_err().to_string();
            let (name, text) = option.split_once('=').unwrap();
            assert!(error.starts_with(&format!("`--{name} {text}`: ")), "{error}");
        }
    }

    #[test]
    fn a_mount_inside_its_own_store_or_spool_is_refused() {
        for (url, option) in [
            ("file:///mnt/x/store", ""),
            ("file:///mnt", ""),
            ("s3://bucket", "spool-dir=/mnt/x/spool"),
            ("s3://bucket", "spool-dir=/mnt"),
        ] {
            assert!(matches!(resolve(url, option), Err(ConfigError::Nested { .. })), "{url}");
        }
        assert!(resolve("file:///mnt/xy", "").is_ok());
    }

    #[test]
    fn a_configuration_survives_its_journal() {
        let config = resolve("s3://bucket", "region=eu-west-1").unwrap();
        let json = serde_json::to_value(&config).unwrap();
        assert_eq!(serde_json::from_value::<Config>(json).unwrap(), config);
    }
}
