//! The URL a user mounts: `s3://bucket/prefix`, `gs://…`, `az://…`, `file:///folder`, `memory://name`.
//!
//! Everything after the scheme is literal: no percent-decoding, and `?` and `#` are ordinary
//! characters, as in the keys of a bucket.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::location::{Location, LocationError};

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// Amazon S3 and everything that speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gs,
    /// Azure Blob Storage.
    Az,
    /// A folder of this machine.
    File,
    /// The memory of this process; for tests and demonstrations.
    Memory,
}

impl Scheme {
    /// As it is written before `://`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gs => "gs",
            Self::Az => "az",
            Self::File => "file",
            Self::Memory => "memory",
        }
    }
}

/// A parsed URL of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoreUrl {
    scheme: Scheme,
    /// Bucket, container or name in memory; empty for `file`.
    bucket: String,
    /// For `file`, the path without its leading `/`.
    prefix: Location,
}

/// Why a text is not a URL of a store. Each says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// There is no `scheme://`.
    #[error(
        "`{0}` is not a URL: write `s3://BUCKET/PREFIX`, or `file:///FOLDER` for a local folder"
    )]
    NoScheme(String),
    /// The scheme is none of ours.
    #[error("`{scheme}://` is not supported: {instead}")]
    UnknownScheme {
        /// What was written.
        scheme: String,
        /// What works.
        instead: &'static str,
    },
    /// Nothing follows `://`.
    #[error("`{0}` names no bucket: write `{0}BUCKET` or `{0}BUCKET/PREFIX`")]
    NoBucket(String),
    /// The bucket's name holds a character no store allows.
    #[error(
        "`{0}` is not the name of a bucket: only letters, digits, `.`, `-` and `_` can be used"
    )]
    BadBucket(String),
    /// `file://` must be followed by an absolute path.
    #[error("`{0}` needs an absolute path: write three slashes, as in `file:///data/store`")]
    RelativeFile(String),
    /// The part after the bucket cannot be a prefix of keys.
    #[error("the path of `{url}` cannot be used: {reason}")]
    BadPrefix {
        /// What was written.
        url: String,
        /// What is wrong with it.
        reason: LocationError,
    },
}

impl StoreUrl {
    /// The kind of store.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Bucket, container, or the name of a store in memory; empty for `file://`.
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// What every key begins with; the root for `file://`.
    pub fn prefix(&self) -> Location {
        match self.scheme {
            Scheme::File => Location::root(),
            _ => self.prefix.clone(),
        }
    }

    /// The folder of a `file://` URL.
    pub fn folder(&self) -> Option<PathBuf> {
        (self.scheme == Scheme::File).then(|| PathBuf::from(format!("/{}", self.prefix)))
    }

    /// The URL of `location` below this one.
    #[must_use]
    pub fn below(&self, location: &Location) -> Self {
        Self { prefix: self.prefix.join(location), ..self.clone() }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(StoreUrlError::NoScheme(text.to_owned()));
        };
        let scheme = scheme_of(scheme)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if scheme == Scheme::File {
            if !bucket.is_empty() || !rest.starts_with('/') {
                return Err(StoreUrlError::RelativeFile(text.to_owned()));
            }
        } else if bucket.is_empty() {
            return Err(StoreUrlError::NoBucket(format!("{}://", scheme.as_str())));
        } else if !bucket.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c)) {
            return Err(StoreUrlError::BadBucket(bucket.to_owned()));
        }
        let prefix = Location::parse(prefix.trim_end_matches('/'))
            .map_err(|reason| StoreUrlError::BadPrefix { url: text.to_owned(), reason })?;
        Ok(Self { scheme, bucket: bucket.to_owned(), prefix })
    }
}

fn scheme_of(scheme: &str) -> Result<Scheme, StoreUrlError> {
    let instead = match scheme.to_ascii_lowercase().as_str() {
        "s3" => return Ok(Scheme::S3),
        "gs" => return Ok(Scheme::Gs),
        "az" => return Ok(Scheme::Az),
        "file" => return Ok(Scheme::File),
        "memory" => return Ok(Scheme::Memory),
        "http" | "https" => "write `s3://BUCKET/PREFIX` and give the address with `--endpoint-url`",
        "s3a" | "s3n" => "write `s3://BUCKET/PREFIX`",
        "gcs" | "google" => "write `gs://BUCKET/PREFIX`",
        "azure" | "abfs" | "abfss" | "adl" => "write `az://CONTAINER/PREFIX`",
        _ => "use `s3://`, `gs://`, `az://` or `file:///`",
    };
    Err(StoreUrlError::UnknownScheme { scheme: scheme.to_owned(), instead })
}

impl fmt::Display for StoreUrl {
    /// Canonical: the same store and prefix always give the same text, without a trailing `/`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.as_str();
        match (self.scheme, self.prefix.is_root()) {
            (Scheme::File, _) => write!(f, "file:///{}", self.prefix),
            (_, true) => write!(f, "{scheme}://{}", self.bucket),
            (_, false) => write!(f, "{scheme}://{}/{}", self.bucket, self.prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StoreUrl, StoreUrlError> {
        text.parse()
    }

    #[test]
    fn urls_are_shown_canonically_and_stay_literal() {
        for (given, shown) in [
            ("s3://bucket", "s3://bucket"),
            ("S3://bucket/", "s3://bucket"),
            ("s3://bucket/a%20b/x#y?/température/", "s3://bucket/a%20b/x#y?/température"),
            ("file:///data/store/", "file:///data/store"),
            ("file:///", "file:///"),
            ("memory://scratch/a", "memory://scratch/a"),
        ] {
            assert_eq!(parse(given).unwrap().to_string(), shown);
        }
        assert_eq!(parse("file:///data/x").unwrap().folder(), Some(PathBuf::from("/data/x")));
        assert_eq!(parse("s3://b/p/q").unwrap().prefix().as_str(), "p/q");
    }

    #[test]
    fn a_wrong_url_says_what_to_write_instead() {
        for (given, hint) in [
            ("/data/store", "file:///FOLDER"),
            ("bucket", "s3://BUCKET/PREFIX"),
            ("https://s3.example.org/bucket", "--endpoint-url"),
            ("gcs://bucket", "gs://BUCKET"),
            ("abfss://c@account/x", "az://CONTAINER"),
            ("ftp://x", "use `s3://`"),
            ("s3://", "s3://BUCKET"),
            ("s3:///prefix", "s3://BUCKET"),
            ("s3://my bucket", "only letters"),
            ("file://data/store", "three slashes"),
            ("s3://bucket/a//b", "empty"),
            ("file:///data/../etc", "`..`"),
        ] {
            let error = parse(given).unwrap_err().to_string();
            assert!(error.contains(hint), "{given}: {error}");
        }
    }
}
