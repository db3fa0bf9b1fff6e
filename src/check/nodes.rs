//! What lies in a dataset: every object by key, and every node by its own document.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::CheckError;
use super::report::Report;
use crate::store::{Link, Location, StoreError};
use crate::zarr::{
    ArrayMetadata, DocumentError, Members, Node, NodePath, is_metadata_document, parse_zarr_json,
    parse_zarray, parse_zgroup, parse_zmetadata,
};

/// Documents asked for side by side.
const REQUESTS: usize = 32;

/// What lies in a dataset.
#[derive(Debug)]
pub(super) struct Content {
    /// Sizes of all objects but metadata documents, by key relative to the dataset.
    pub(super) objects: BTreeMap<String, u64>,
    /// Nodes whose own documents can be read.
    pub(super) nodes: BTreeMap<NodePath, Node>,
}

impl Content {
    /// Lists everything below the dataset and reads all metadata documents.
    pub(super) async fn read(
        link: &Link,
        dataset: &Location,
        report: &mut Report,
    ) -> Result<Self, CheckError> {
        let (objects, documents) = list(link, dataset, report).await?;
        let documents = fetch(link, dataset, documents).await?;
        let (nodes, consolidated) = if documents.contains_key("zarr.json") {
            report.format = 3;
            nodes_of_v3(&documents, report)
        } else if documents.contains_key(".zgroup")
            || documents.contains_key(".zarray")
            || documents.contains_key(".zmetadata")
        {
            report.format = 2;
            nodes_of_v2(&documents, report)
        } else {
            return Err(CheckError::Absent(dataset.clone()));
        };
        report.consolidated = consolidated.is_some();
        if let Some(members) = consolidated {
            compare(&nodes, &members, report);
        }
        let content = Self { objects, nodes };
        content.check_parents(report);
        content.check_lengths(report);
        report.arrays = content.arrays().count();
        report.groups = content.nodes.len() - report.arrays;
        Ok(content)
    }

    /// All arrays.
    pub(super) fn arrays(&self) -> impl Iterator<Item = (&NodePath, &ArrayMetadata)> {
        self.nodes.iter().filter_map(|(path, node)| match node {
            Node::Array(array) => Some((path, array)),
            Node::Group(_) => None,
        })
    }

    /// The array at `path`.
    pub(super) fn array(&self, path: &NodePath) -> Option<&ArrayMetadata> {
        match self.nodes.get(path) {
            Some(Node::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// Every node lies in a group that says so itself.
    fn check_parents(&self, report: &mut Report) {
        for path in self.nodes.keys() {
            let Some(parent) = path.parent() else { continue };
            match self.nodes.get(&parent) {
                Some(Node::Group(_)) => {}
                Some(Node::Array(_)) => {
                    report.problem(format!("`{path}` lies in `{parent}`, which is an array"));
                }
                None => report.problem(format!("`{path}`: the group `{parent}` has no document")),
            }
        }
    }

    /// Arrays of one group that share a dimension have the same length along it.
    fn check_lengths(&self, report: &mut Report) {
        let mut known: BTreeMap<(NodePath, &str), (u64, &NodePath)> = BTreeMap::new();
        for (path, array) in self.arrays() {
            let Some(group) = path.parent() else { continue };
            let names = array.dimension_names.iter().flatten();
            for (name, length) in names.zip(&array.shape) {
                let Some(name) = name.as_deref() else { continue };
                let (first, other) = *known.entry((group.clone(), name)).or_insert((*length, path));
                if first != *length {
                    report.problem(format!(
                        "dimension `{name}` has {length} steps in `{path}` and {first} in `{other}`"
                    ));
                }
            }
        }
    }
}

/// Everything below the dataset: sizes of other objects, and keys of documents.
async fn list(
    link: &Link,
    dataset: &Location,
    report: &mut Report,
) -> Result<(BTreeMap<String, u64>, Vec<String>), StoreError> {
    let (mut objects, mut documents) = (BTreeMap::new(), Vec::new());
    let mut after = None;
    loop {
        let page = link.list_below(dataset, after).await?;
        for object in page.objects {
            let Some(key) = object.location.relative_to(dataset) else { continue };
            let key = key.as_str().to_owned();
            // Receipts of a dataset that is the mounted folder itself, or of datasets inside.
            if key.split('/').any(|name| name == crate::ingest::RECEIPTS_FOLDER) {
                continue;
            }
            if is_metadata_document(object.location.name()) {
                documents.push(key);
            } else {
                objects.insert(key, object.attributes.size);
            }
        }
        for key in page.unrepresentable {
            report.note(format!("`{key}` has a key that no path can have"));
        }
        after = page.next;
        if after.is_none() {
            return Ok((objects, documents));
        }
    }
}

async fn fetch(
    link: &Link,
    dataset: &Location,
    keys: Vec<String>,
) -> Result<BTreeMap<String, Bytes>, StoreError> {
    stream::iter(keys)
        .map(|key| async move {
            let below = Location::parse(&key);
            let Ok(below) = below else { return Ok(None) };
            match link.get(&dataset.join(&below), None).await {
                Ok(fetched) => Ok(Some((key, fetched.bytes))),
                // Removed since it was listed.
                Err(StoreError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .buffer_unordered(REQUESTS)
        .try_filter_map(|found| async move { Ok(found) })
        .try_collect()
        .await
}

type Nodes = BTreeMap<NodePath, Node>;

fn nodes_of_v3(
    documents: &BTreeMap<String, Bytes>,
    report: &mut Report,
) -> (Nodes, Option<Members>) {
    let (mut nodes, mut consolidated) = (Nodes::new(), None);
    for (key, bytes) in documents {
        let Some((path, name)) = split(key, report) else { continue };
        if name != "zarr.json" {
            report.note(format!("`{key}` is a document of version 2 in a dataset of version 3"));
            continue;
        }
        match parse_zarr_json(bytes) {
            Ok(document) => {
                if path.is_root() {
                    consolidated = document.members;
                }
                nodes.insert(path, document.node);
            }
            Err(error) => report.problem(format!("`{key}`: {error}")),
        }
    }
    (nodes, consolidated)
}

fn nodes_of_v2(
    documents: &BTreeMap<String, Bytes>,
    report: &mut Report,
) -> (Nodes, Option<Members>) {
    let (mut nodes, mut consolidated) = (Nodes::new(), None);
    for (key, bytes) in documents {
        let Some((path, name)) = split(key, report) else { continue };
        let attributes = documents.get(&path.key(".zattrs")).map(|bytes| &bytes[..]);
        let node = match name {
            ".zarray" => parse_zarray(bytes, attributes),
            ".zgroup" => parse_zgroup(bytes, attributes),
            ".zmetadata" if path.is_root() => {
                match parse_zmetadata(bytes) {
                    Ok(members) => consolidated = Some(members),
                    Err(error) => report.problem(format!("`{key}`: {error}")),
                }
                continue;
            }
            ".zattrs" | ".zmetadata" => continue,
            _ => {
                report
                    .note(format!("`{key}` is a document of version 3 in a dataset of version 2"));
                continue;
            }
        };
        match node {
            Ok(node) => {
                if nodes.insert(path.clone(), node).is_some() {
                    report.problem(format!("`{path}` is a group and an array at once"));
                }
            }
            Err(error) => report.problem(format!("`{key}`: {error}")),
        }
    }
    (nodes, consolidated)
}

/// The node and the name of a document.
fn split<'a>(key: &'a str, report: &mut Report) -> Option<(NodePath, &'a str)> {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    match NodePath::parse(folder) {
        Ok(path) => Some((path, name)),
        Err(reason) => {
            report.problem(format!("`{key}`: `{folder}` is not the path of a node: {reason}"));
            None
        }
    }
}

/// Whether the consolidated metadata says what the nodes' own documents say.
fn compare(nodes: &Nodes, members: &Members, report: &mut Report) {
    let own: BTreeSet<&NodePath> = nodes.keys().filter(|path| !path.is_root()).collect();
    for (path, member) in members {
        if path.is_root() {
            continue;
        }
        match (nodes.get(path), member) {
            (_, Err(error)) => report.problem(unusable(path, error)),
            (None, Ok(_)) => report.problem(format!(
                "the consolidated metadata has `{path}`, which has no document of its own"
            )),
            (Some(own), Ok(member)) if own != member => report.problem(format!(
                "`{path}`: the consolidated metadata says {}, its own document {}",
                describe(member, own),
                describe(own, member)
            )),
            (Some(_), Ok(_)) => {}
        }
    }
    for path in own.into_iter().filter(|path| !members.contains_key(*path)) {
        report.problem(format!("the consolidated metadata lacks `{path}`"));
    }
}

fn unusable(path: &NodePath, error: &DocumentError) -> String {
    format!("`{path}` in the consolidated metadata: {error}")
}

/// What is peculiar to a node, seen from another one that differs from it.
fn describe(node: &Node, other: &Node) -> String {
    match (node, other) {
        (Node::Group(_), Node::Array(_)) => "a group".to_owned(),
        (Node::Array(_), Node::Group(_)) => "an array".to_owned(),
        (Node::Array(one), Node::Array(other)) => {
            if one.shape != other.shape {
                return format!("shape {:?}", one.shape);
            }
            if one.chunk_shape != other.chunk_shape {
                return format!("chunk shape {:?}", one.chunk_shape);
            }
            if one.data_type != other.data_type {
                return format!("data type {}", one.data_type);
            }
            if one.attributes != other.attributes {
                return attributes(&one.attributes, &other.attributes);
            }
            "another encoding".to_owned()
        }
        (Node::Group(one), Node::Group(other)) => attributes(&one.attributes, &other.attributes),
    }
}

fn attributes(one: &crate::zarr::Attributes, other: &crate::zarr::Attributes) -> String {
    let differing = one.iter().find(|(name, value)| other.get(*name) != Some(value));
    match differing {
        Some((name, value)) => format!("{name} = {value}"),
        None => "fewer attributes".to_owned(),
    }
}
