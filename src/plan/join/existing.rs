//! What is published already.

use std::collections::BTreeMap;

use super::along::{along_dimensions, coordinate_of, length};
use super::fit::is_below;
use super::member::{Coordinate, DimensionId, Member};
use crate::zarr::{ArrayMetadata, Hierarchy, Node, NodePath};

/// A published dataset, as far as joining has to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct Existing {
    /// Its nodes.
    pub hierarchy: Hierarchy,
    /// Whether its root document repeats the metadata of all nodes.
    pub consolidated: bool,
    /// Values of the one-dimensional arrays that bear the name of their dimension.
    pub coordinates: BTreeMap<NodePath, Coordinate>,
    /// The dimension that files were joined along before, for each group that files went into.
    pub axes: BTreeMap<NodePath, String>,
}

impl Existing {
    /// The published array at `path`.
    pub fn array(&self, path: &NodePath) -> Option<&ArrayMetadata> {
        match self.hierarchy.get(path) {
            Some(Node::Array(array)) => Some(array),
            _ => None,
        }
    }

    /// All published arrays.
    pub fn arrays(&self) -> impl Iterator<Item = (&NodePath, &ArrayMetadata)> {
        self.hierarchy.nodes().filter_map(|(path, node)| match node {
            Node::Array(array) => Some((path, array)),
            Node::Group(_) => None,
        })
    }

    /// Whether another copy of a file that is part of the dataset adds nothing: its steps have
    /// coordinates, which tell that they are there.
    pub fn is_idempotent(&self, member: &Member) -> bool {
        let Some(axis) = self.axes.get(&member.landing) else { return true };
        along_dimensions(member, axis).iter().all(|dimension| {
            length(member, dimension) == 0
                || coordinate_of(member, dimension).is_some_and(|values| values.keys.is_ok())
        })
    }

    /// The dimensions of a published array. Documents do not say which group declares a dimension:
    /// it is the nearest one that has a coordinate of that name, else the one that files were copied
    /// into.
    pub(super) fn dimensions(&self, path: &NodePath, array: &ArrayMetadata) -> Vec<DimensionId> {
        let names = array.dimension_names.iter().flatten();
        let names = names.map(|name| name.clone().unwrap_or_default());
        names.map(|name| DimensionId { scope: self.scope(path, &name), name }).collect()
    }

    fn scope(&self, path: &NodePath, name: &str) -> NodePath {
        let mut group = path.parent();
        while let Some(scope) = group {
            let coordinate = scope.child(name).ok().and_then(|at| self.array(&at));
            if coordinate.is_some_and(|array| array.shape.len() == 1) {
                return scope;
            }
            group = scope.parent();
        }
        let mut landings = self.axes.keys().filter(|landing| is_below(path, landing));
        landings.next_back().cloned().unwrap_or_else(NodePath::root)
    }
}
