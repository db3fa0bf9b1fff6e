//! All nodes of a hierarchy and the documents that say so.
//!
//! Consolidated metadata is written as zarr-python does it: in v3 inline in the root's `zarr.json`
//! (`kind: inline`, `must_understand: false`, members by relative path, ordered by depth and then
//! name), in v2 as `.zmetadata`. It is a copy: the nodes' own documents are always written too.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::document::Document;
use super::error::DocumentError;
use super::format::ZarrFormat;
use super::json;
use super::metadata::{GroupMetadata, Node};
use super::node_path::NodePath;
use super::{v2, v3};

/// The nodes of a hierarchy; the root is always there.
#[derive(Debug, Clone, PartialEq)]
pub struct Hierarchy {
    format: ZarrFormat,
    nodes: BTreeMap<NodePath, Node>,
}

/// Every node of a consolidated document; those that cannot be used keep their reason.
pub type Members = BTreeMap<NodePath, Result<Node, DocumentError>>;

/// What the `zarr.json` of a node says.
#[derive(Debug)]
pub struct RootDocument {
    /// The node itself.
    pub node: Node,
    /// The nodes below it, relative to it; `None` without consolidated metadata.
    pub members: Option<Members>,
}

impl Hierarchy {
    /// A hierarchy of one group.
    pub fn new(format: ZarrFormat, root: GroupMetadata) -> Self {
        Self { format, nodes: BTreeMap::from([(NodePath::root(), Node::Group(root))]) }
    }

    /// Adds or replaces a node. Missing groups above it are not made.
    pub fn insert(&mut self, path: NodePath, node: Node) {
        self.nodes.insert(path, node);
    }

    /// Removes a node, but not what lies below it.
    pub fn remove(&mut self, path: &NodePath) -> Option<Node> {
        self.nodes.remove(path)
    }

    /// The node at `path`.
    pub fn get(&self, path: &NodePath) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The version of its documents.
    pub fn format(&self) -> ZarrFormat {
        self.format
    }

    /// All nodes by depth and then name, the root first.
    pub fn nodes(&self) -> impl Iterator<Item = (&NodePath, &Node)> {
        self.nodes.iter()
    }

    /// All documents in the order of publication: below before above, arrays before groups, the
    /// root last. With `consolidated` the last one holds the consolidated metadata.
    pub fn documents(&self, consolidated: bool) -> Result<Vec<Document>, DocumentError> {
        let mut documents = Vec::new();
        let (arrays, groups): (Vec<_>, Vec<_>) =
            self.nodes.iter().rev().partition(|(_, node)| matches!(node, Node::Array(_)));
        for (path, node) in arrays.into_iter().chain(groups) {
            let whole = consolidated && path.is_root();
            match self.format {
                ZarrFormat::V2 => documents.extend(v2_documents(path, node)?),
                ZarrFormat::V3 => documents.push(self.v3_document(path, node, whole)?),
            }
        }
        if consolidated && self.format == ZarrFormat::V2 {
            documents.push(self.zmetadata()?);
        }
        Ok(documents)
    }

    fn v3_document(
        &self,
        path: &NodePath,
        node: &Node,
        consolidated: bool,
    ) -> Result<Document, DocumentError> {
        let value = match node {
            Node::Array(array) => v3::array_to_json(array)?,
            Node::Group(group) => {
                let members = if consolidated { Some(self.v3_members()?) } else { None };
                v3::group_to_json(group, members)
            }
        };
        Ok(document(path, "zarr.json", &value))
    }

    fn v3_members(&self) -> Result<Value, DocumentError> {
        let mut members = Map::new();
        for (path, node) in self.nodes.iter().filter(|(path, _)| !path.is_root()) {
            let value = match node {
                Node::Array(array) => v3::array_to_json(array)?,
                // zarr-python takes a group without this for one that is not consolidated.
                Node::Group(group) => v3::group_to_json(group, Some(inline(&Map::new()))),
            };
            members.insert(path.as_str().to_owned(), value);
        }
        Ok(inline(&members))
    }

    fn zmetadata(&self) -> Result<Document, DocumentError> {
        let mut metadata = Map::new();
        for (path, node) in &self.nodes {
            for (name, value) in v2_values(node)? {
                metadata.insert(path.key(name), value);
            }
        }
        let value = json!({"metadata": metadata, "zarr_consolidated_format": 1});
        Ok(document(&NodePath::root(), ".zmetadata", &value))
    }
}

fn inline(members: &Map<String, Value>) -> Value {
    json!({"kind": "inline", "must_understand": false, "metadata": members})
}

fn document(path: &NodePath, name: &str, value: &Value) -> Document {
    Document { key: path.key(name), bytes: json::to_bytes(value) }
}

/// The documents of one node, `.zattrs` first.
fn v2_documents(path: &NodePath, node: &Node) -> Result<Vec<Document>, DocumentError> {
    Ok(v2_values(node)?.iter().map(|(name, value)| document(path, name, value)).collect())
}

fn v2_values(node: &Node) -> Result<[(&'static str, Value); 2], DocumentError> {
    Ok(match node {
        Node::Array(array) => [
            (".zattrs", v2::array_attributes_to_json(array)),
            (".zarray", v2::array_to_json(array)?),
        ],
        Node::Group(group) => {
            [(".zattrs", Value::Object(group.attributes.clone())), (".zgroup", v2::group_to_json())]
        }
    })
}

/// Reads the `zarr.json` of a node with what it says about the nodes below.
pub fn parse_zarr_json(bytes: &[u8]) -> Result<RootDocument, DocumentError> {
    let document = json::parse(bytes)?;
    let node = v3::node_from_json(&document)?;
    let consolidated = document.get(v3::CONSOLIDATED).filter(|value| !value.is_null());
    let members = consolidated.map(v3_members_from_json).transpose()?;
    Ok(RootDocument { node, members })
}

fn v3_members_from_json(consolidated: &Value) -> Result<Members, DocumentError> {
    if consolidated.get("kind").and_then(Value::as_str) != Some("inline") {
        return Err(DocumentError::Unsupported("consolidated metadata that is not inline".into()));
    }
    let members = consolidated.get("metadata").and_then(Value::as_object);
    members
        .ok_or(v3::invalid("consolidated_metadata", "an object with `metadata`"))?
        .iter()
        .map(|(path, value)| Ok((parse_path(path)?, v3::node_from_json(value))))
        .collect()
}

/// Reads the `.zarray` of an array, with its `.zattrs` where there is one.
pub fn parse_zarray(zarray: &[u8], zattrs: Option<&[u8]>) -> Result<Node, DocumentError> {
    let attributes = zattrs.map(json::parse).transpose()?;
    v2::array_from_json(&json::parse(zarray)?, attributes.as_ref()).map(Node::Array)
}

/// Reads the `.zgroup` of a group, with its `.zattrs` where there is one.
pub fn parse_zgroup(zgroup: &[u8], zattrs: Option<&[u8]>) -> Result<Node, DocumentError> {
    let attributes = zattrs.map(json::parse).transpose()?;
    v2::group_from_json(&json::parse(zgroup)?, attributes.as_ref()).map(Node::Group)
}

/// Reads a `.zmetadata`: every node with the root among them.
pub fn parse_zmetadata(bytes: &[u8]) -> Result<Members, DocumentError> {
    let document = json::parse(bytes)?;
    if document.get("zarr_consolidated_format") != Some(&json!(1)) {
        return Err(v3::invalid("zarr_consolidated_format", "1"));
    }
    let entries = document.get("metadata").and_then(Value::as_object);
    let entries = entries.ok_or(v3::invalid("metadata", "an object"))?;
    let mut members = Members::new();
    for (key, value) in entries {
        let (path, name) = key.rsplit_once('/').unwrap_or(("", key));
        let attributes = || entries.get(&parse_path(path).ok()?.key(".zattrs"));
        let node = match name {
            ".zarray" => v2::array_from_json(value, attributes()).map(Node::Array),
            ".zgroup" => v2::group_from_json(value, attributes()).map(Node::Group),
            _ => continue,
        };
        members.insert(parse_path(path)?, node);
    }
    Ok(members)
}

fn parse_path(path: &str) -> Result<NodePath, DocumentError> {
    NodePath::parse(path).map_err(|reason| DocumentError::Path { path: path.to_owned(), reason })
}
