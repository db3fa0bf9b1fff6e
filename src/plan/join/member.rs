//! What has to be known of a file to join it with others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::encoding::is_read_alike;
use crate::plan::{ArrayPlan, AxisKey, DatasetPlan, GroupPlan};
use crate::zarr::{NodeNameError, NodePath, ZarrFormat};

/// A file that may become part of a dataset. Small: there may be a hundred thousand.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its name, for messages and for the order of files without coordinates.
    pub name: String,
    /// The group of the dataset that its root group becomes.
    pub landing: NodePath,
    /// Version of the documents that it was planned for.
    pub format: ZarrFormat,
    /// Its groups, with paths in the dataset.
    pub groups: Arc<[GroupPlan]>,
    /// Its arrays as if it were alone, with paths in the dataset.
    pub arrays: Vec<Arc<ArrayPlan>>,
    /// Values of the one-dimensional variables that bear the name of their dimension.
    pub coordinates: BTreeMap<NodePath, Coordinate>,
}

/// The values of a coordinate variable.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinate {
    /// As they are stored: little-endian elements; of texts nothing.
    pub raw: Arc<[u8]>,
    /// As they compare, or why they do not.
    pub keys: Result<Arc<[AxisKey]>, String>,
}

impl Member {
    /// A member from the plan of its file.
    pub fn new(
        name: String,
        landing: NodePath,
        plan: &DatasetPlan,
        coordinates: BTreeMap<NodePath, Coordinate>,
    ) -> Self {
        let below = |path: &NodePath| landing.join(path);
        let groups = plan
            .groups
            .iter()
            .map(|group| GroupPlan { path: below(&group.path), metadata: group.metadata.clone() });
        let arrays = plan.arrays.iter().map(|array| {
            Arc::new(ArrayPlan {
                path: below(&array.path),
                scopes: array.scopes.iter().map(below).collect(),
                ..array.clone()
            })
        });
        let coordinates = coordinates.into_iter().map(|(path, values)| (below(&path), values));
        Self {
            name,
            format: plan.format,
            groups: groups.collect(),
            arrays: arrays.collect(),
            coordinates: coordinates.collect(),
            landing,
        }
    }

    /// Shares with another file of the dataset what is the same in both: there may be very many.
    pub fn share_with(&mut self, before: &Self) {
        for array in &mut self.arrays {
            let known = before.arrays.iter().find(|known| known.path == array.path);
            if let Some(known) = known.filter(|known| is_interchangeable(known, array)) {
                *array = Arc::clone(known);
            }
        }
        if paths(&before.groups).eq(paths(&self.groups)) {
            self.groups = Arc::clone(&before.groups);
        }
        for (path, values) in &mut self.coordinates {
            if let Some(known) = before.coordinates.get(path).filter(|known| *known == values) {
                *values = known.clone();
            }
        }
    }

    /// The array at `path`.
    pub fn array(&self, path: &NodePath) -> Option<&Arc<ArrayPlan>> {
        self.arrays.iter().find(|array| array.path == *path)
    }
}

/// A dimension of a dataset: the group that declares it, and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DimensionId {
    pub(super) scope: NodePath,
    pub(super) name: String,
}

impl DimensionId {
    /// Where the coordinate variable of the dimension stands.
    pub(super) fn coordinate(&self) -> Result<NodePath, NodeNameError> {
        self.scope.child(&self.name)
    }
}

/// The dimensions of an array.
pub(super) fn dimensions(array: &ArrayPlan) -> impl Iterator<Item = DimensionId> + '_ {
    let names = array.dimension_names().into_iter();
    names
        .zip(&array.scopes)
        .map(|(name, scope)| DimensionId { scope: scope.clone(), name: name.to_owned() })
}

/// Whether two arrays differ in nothing but attributes that do not say how values are decoded.
pub(super) fn is_interchangeable(before: &ArrayPlan, array: &ArrayPlan) -> bool {
    let same = |plan: &ArrayPlan| {
        let ArrayPlan { variable, growing, source_fill, .. } = plan;
        (*variable, growing.clone(), source_fill.clone())
    };
    same(before) == same(array)
        && before.source_chunk_shape == array.source_chunk_shape
        && before.is_chunked == array.is_chunked
        && before.scopes == array.scopes
        && is_read_alike(&before.metadata, &array.metadata)
}

fn paths(groups: &[GroupPlan]) -> impl Iterator<Item = &NodePath> {
    groups.iter().map(|group| &group.path)
}
