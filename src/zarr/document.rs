//! Names and order of the metadata documents of both formats.

use bytes::Bytes;

/// A metadata document ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Key relative to the root of the hierarchy, such as `group/array/zarr.json`.
    pub key: String,
    /// Strict JSON in UTF-8.
    pub bytes: Bytes,
}

/// When a document of a folder is published relative to the others in the same folder: the
/// smaller ones first, so that the document that makes a node visible comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentRank {
    /// `.zattrs` (v2): without it a reader would see a node with no attributes.
    Attributes,
    /// `.zarray` (v2).
    Array,
    /// `.zgroup` (v2).
    Group,
    /// `zarr.json` (v3).
    Node,
    /// `.zmetadata` (v2): what readers of consolidated metadata look at first.
    Consolidated,
}

impl DocumentRank {
    /// The rank of a file name; `None` when it names no metadata document.
    pub fn of(file_name: &str) -> Option<Self> {
        match file_name {
            ".zattrs" => Some(Self::Attributes),
            ".zarray" => Some(Self::Array),
            ".zgroup" => Some(Self::Group),
            "zarr.json" => Some(Self::Node),
            ".zmetadata" => Some(Self::Consolidated),
            _ => None,
        }
    }
}

/// Whether a file name (the last part of a key) is one of a metadata document.
pub fn is_metadata_document(file_name: &str) -> bool {
    DocumentRank::of(file_name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_that_makes_a_node_visible_is_published_last() {
        let mut names = [".zmetadata", ".zgroup", ".zattrs", ".zarray"];
        names.sort_by_key(|name| DocumentRank::of(name));
        assert_eq!(names, [".zattrs", ".zarray", ".zgroup", ".zmetadata"]);
        assert!(is_metadata_document("zarr.json"));
        assert!(!is_metadata_document("0.0"));
        assert!(!is_metadata_document("a/zarr.json"));
    }
}
