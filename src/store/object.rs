//! What the store tells about objects: versions, attributes, listings.

use std::time::SystemTime;

use bytes::Bytes;

use super::location::Location;

/// Most objects are chunks of a few MiB; larger ones are read in ranges.
pub(super) const WHOLE_GET_BYTES_MAX: u64 = 1 << 30;

/// One content of an object, as the store names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Version {
    /// The entity tag, literally as the store writes it. Not a checksum. Empty where the store
    /// names none; such a version matches nothing.
    pub etag: String,
    /// The generation of an object in Google Cloud Storage, which compares that instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
}

/// Names one write, so that its writer can find out whether an object is of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteId(String);

impl WriteId {
    /// The name of the object's metadata that holds it.
    pub(super) const METADATA: &str = "zarrmount-write";

    /// A name that no other write has.
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7().to_string())
    }

    pub(super) fn found(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for WriteId {
    fn default() -> Self {
        Self::new()
    }
}

/// When a put may take effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutCondition {
    /// In any case.
    Always,
    /// Only if there is no object.
    Absent,
    /// Only if the object is still this version.
    Matches(Version),
}

/// What is known of an object without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectAttributes {
    /// In bytes.
    pub size: u64,
    /// When the store took it, by the store's clock.
    pub modified: SystemTime,
    /// `None` where a listing does not say.
    pub version: Option<Version>,
}

/// Bytes of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The bytes asked for.
    pub bytes: Bytes,
    /// Of the whole object, in bytes.
    pub size: u64,
    /// The version the bytes are of.
    pub version: Version,
    /// When the store took it.
    pub modified: SystemTime,
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Below the opened URL.
    pub location: Location,
    /// As far as the listing tells.
    pub attributes: ObjectAttributes,
}

/// What lies directly in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Objects, by location.
    pub objects: Vec<ListedObject>,
    /// Names of the folders, in order.
    pub folders: Vec<String>,
    /// Keys that no path can have, such as `a//b`, in full. The marker of the folder itself, which
    /// some tools write as `folder/`, is not among them.
    pub unrepresentable: Vec<String>,
}

/// A part of the objects below a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects at any depth, in no particular order.
    pub objects: Vec<ListedObject>,
    /// Keys that no path can have, in full.
    pub unrepresentable: Vec<String>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<PageToken>,
}

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageToken(pub(super) Token);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// The store's own.
    Store(String),
    /// Folders that were not read yet.
    Folders(Vec<Location>),
}
