//! Where a node stands in its hierarchy.
//!
//! A [`NodePath`] is relative to the hierarchy's root, its names are valid node names of the Zarr
//! v3 specification and valid file names, and no name is one of a metadata document.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::document::is_metadata_document;
use super::format::ZarrFormat;

/// Longest name in bytes that a Linux file system (and so the mount) can show.
const NAME_BYTES_MAX: usize = 255;

/// The names from the root of a hierarchy to a node, joined by `/`; empty for the root.
///
/// Ordered by depth, then by the characters of the whole path: the order of consolidated metadata.
/// With it the children of one group are neighbours, which zarr-python relies on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodePath(String);

/// Why a text cannot be the name of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// Nothing.
    #[error("it is empty")]
    Empty,
    /// Holds the separator of paths.
    #[error("it contains `/`")]
    Slash,
    /// Only periods: `.`, `..` and longer.
    #[error("it consists of periods only")]
    Periods,
    /// The prefix that the specification of format 3 reserves.
    #[error("names that start with `__` are reserved in Zarr format 3; format 2 takes them")]
    ReservedPrefix,
    /// zarr-python reads it as `/`, and then cannot open the hierarchy around it.
    #[error("it contains `\\`, which zarr-python takes for `/`")]
    Backslash,
    /// A document of Zarr has that name.
    #[error("a metadata document of Zarr has that name")]
    MetadataDocument,
    /// A character that object keys and terminals cannot carry.
    #[error("it contains a control character")]
    ControlCharacter,
    /// More bytes than a file name may have.
    #[error("it is longer than {NAME_BYTES_MAX} bytes")]
    TooLong,
}

/// Checks that `name` can be the name of a node, in both formats. What format 3 reserves besides
/// is for [`check_new_node_name`]: there are programs that write such names, and readers of them.
///
/// See <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#node-names>.
fn check_node_name(name: &str) -> Result<(), NodeNameError> {
    match name {
        _ if name.is_empty() => Err(NodeNameError::Empty),
        _ if name.contains('/') => Err(NodeNameError::Slash),
        _ if name.bytes().all(|byte| byte == b'.') => Err(NodeNameError::Periods),
        _ if is_metadata_document(name) => Err(NodeNameError::MetadataDocument),
        _ if name.chars().any(char::is_control) => Err(NodeNameError::ControlCharacter),
        _ if name.len() > NAME_BYTES_MAX => Err(NodeNameError::TooLong),
        _ => Ok(()),
    }
}

/// Checks that a node with this name may be made in a hierarchy of this format.
pub fn check_new_node_name(name: &str, format: ZarrFormat) -> Result<(), NodeNameError> {
    if format == ZarrFormat::V3 && name.starts_with("__") {
        return Err(NodeNameError::ReservedPrefix);
    }
    if name.contains('\\') {
        return Err(NodeNameError::Backslash);
    }
    check_node_name(name)
}

impl NodePath {
    /// The root of a hierarchy.
    pub fn root() -> Self {
        Self::default()
    }

    /// Reads a path such as `group/array`; empty for the root.
    pub fn parse(path: &str) -> Result<Self, NodeNameError> {
        if !path.is_empty() {
            path.split('/').try_for_each(check_node_name)?;
        }
        Ok(Self(path.to_owned()))
    }

    /// The child called `name`.
    pub fn child(&self, name: &str) -> Result<Self, NodeNameError> {
        check_node_name(name)?;
        Ok(Self(if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) }))
    }

    /// The node at `below`, seen from this one.
    #[must_use]
    pub fn join(&self, below: &Self) -> Self {
        match (self.is_root(), below.is_root()) {
            (true, _) => below.clone(),
            (_, true) => self.clone(),
            _ => Self(format!("{}/{}", self.0, below.0)),
        }
    }

    /// The key of an object of this node, relative to the hierarchy: `group/array/zarr.json`.
    pub fn key(&self, relative: &str) -> String {
        if self.0.is_empty() { relative.to_owned() } else { format!("{}/{relative}", self.0) }
    }

    /// The group that holds this node; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.0.rsplit_once('/').map_or_else(Self::root, |(above, _)| Self(above.to_owned())))
    }

    /// The last name; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, name)| name)
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of names.
    pub fn depth(&self) -> usize {
        if self.0.is_empty() { 0 } else { self.0.split('/').count() }
    }

    /// The path as text, without a leading `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ord for NodePath {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.depth().cmp(&other.depth()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for NodePath {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for NodePath {
    /// With a leading `/`, as h5py and xarray name groups.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0)
    }
}

impl TryFrom<String> for NodePath {
    type Error = NodeNameError;

    fn try_from(path: String) -> Result<Self, Self::Error> {
        Self::parse(&path)
    }
}

impl From<NodePath> for String {
    fn from(path: NodePath) -> Self {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_zarr_or_a_file_system_cannot_carry_are_refused() {
        let long = "x".repeat(256);
        for (name, error) in [
            ("", NodeNameError::Empty),
            ("a/b", NodeNameError::Slash),
            ("..", NodeNameError::Periods),
            ("zarr.json", NodeNameError::MetadataDocument),
            (".zarray", NodeNameError::MetadataDocument),
            ("a\u{7}b", NodeNameError::ControlCharacter),
            (&long, NodeNameError::TooLong),
        ] {
            assert_eq!(check_node_name(name), Err(error), "{name:?}");
        }
        for name in ["température", "a b", "_x", ".a", "x.y", "c", "a%20b", "my data [v1]~"] {
            assert_eq!(check_node_name(name), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn names_that_format_3_reserves_are_for_format_2() {
        let reserved = Err(NodeNameError::ReservedPrefix);
        assert_eq!(check_new_node_name("__hidden", ZarrFormat::V3), reserved);
        assert_eq!(check_new_node_name("_x__", ZarrFormat::V3), Ok(()));
        assert_eq!(check_new_node_name("__hidden", ZarrFormat::V2), Ok(()));
        assert_eq!(check_new_node_name("a/b", ZarrFormat::V2), Err(NodeNameError::Slash));
        assert_eq!(check_new_node_name("a\\b", ZarrFormat::V3), Err(NodeNameError::Backslash));
        assert_eq!(check_node_name("__hidden"), Ok(()));
    }

    #[test]
    fn paths_know_parents_keys_and_depth() {
        let path = NodePath::root().child("g").unwrap().child("v").unwrap();
        assert_eq!((path.as_str(), path.name(), path.depth()), ("g/v", "v", 2));
        assert_eq!(path.key("zarr.json"), "g/v/zarr.json");
        assert_eq!(path.parent().unwrap().as_str(), "g");
        assert_eq!(path.parent().unwrap().parent(), Some(NodePath::root()));
        assert_eq!(NodePath::root().parent(), None);
        assert_eq!(NodePath::root().key("zarr.json"), "zarr.json");
        assert_eq!(NodePath::parse("a").unwrap().join(&path).as_str(), "a/g/v");
    }

    #[test]
    fn siblings_are_neighbours_in_path_order() {
        let mut paths: Vec<_> = ["a/y", "z", "a b/x", "a/x", "a", "a b", "A/x", "A"]
            .map(|p| NodePath::parse(p).unwrap())
            .into();
        paths.sort();
        let paths: Vec<_> = paths.iter().map(NodePath::as_str).collect();
        assert_eq!(paths, ["A", "a", "a b", "z", "A/x", "a b/x", "a/x", "a/y"]);
    }
}
