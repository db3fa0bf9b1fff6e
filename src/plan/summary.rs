//! A plan in numbers, and as text for `--dry-run`.

use std::fmt;

use serde::Serialize;

use super::dataset::{ArrayPlan, DatasetPlan};
use crate::base::units::ByteSize;

/// What a plan would write. Counts saturate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlanSummary {
    /// One entry for each array, in the order of the file.
    pub arrays: Vec<ArraySummary>,
    /// Number of groups, the root among them.
    pub groups: usize,
    /// Chunk objects, if none can be omitted.
    pub chunk_objects: u64,
    /// Bytes of all values before encoding.
    pub raw_bytes: u64,
    /// Why something is left out, one sentence each.
    pub left_out: Vec<String>,
}

/// One array of a [`PlanSummary`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArraySummary {
    /// Path with a leading `/`.
    pub path: String,
    /// Type as Zarr names it.
    pub data_type: String,
    /// The dimensions, outermost first.
    pub dimensions: Vec<DimensionSummary>,
    /// Chunk objects, if none can be omitted.
    pub chunk_objects: u64,
    /// Bytes of one chunk before encoding.
    pub chunk_bytes: u64,
    /// Bytes of all values before encoding.
    pub raw_bytes: u64,
}

/// One dimension of an [`ArraySummary`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DimensionSummary {
    /// Name.
    pub name: String,
    /// Length in elements.
    pub length: u64,
    /// Length of a chunk in elements.
    pub chunk: u64,
    /// Whether it can grow.
    pub growing: bool,
}

impl DatasetPlan {
    /// The plan in numbers.
    pub fn summary(&self) -> PlanSummary {
        let arrays: Vec<_> = self.arrays.iter().map(ArraySummary::of).collect();
        let sum =
            |count: fn(&ArraySummary) -> u64| arrays.iter().map(count).fold(0, u64::saturating_add);
        PlanSummary {
            chunk_objects: sum(|array| array.chunk_objects),
            raw_bytes: sum(|array| array.raw_bytes),
            arrays,
            groups: self.groups.len(),
            left_out: self.left_out.iter().map(ToString::to_string).collect(),
        }
    }
}

impl ArraySummary {
    fn of(plan: &ArrayPlan) -> Self {
        let metadata = &plan.metadata;
        let names = metadata.dimension_names.iter().flatten();
        let lengths = metadata.shape.iter().zip(&metadata.chunk_shape).zip(&plan.growing);
        Self {
            path: plan.path.to_string(),
            data_type: metadata.data_type.to_string(),
            dimensions: names
                .zip(lengths)
                .map(|(name, ((length, chunk), growing))| DimensionSummary {
                    name: name.clone().unwrap_or_default(),
                    length: *length,
                    chunk: *chunk,
                    growing: *growing,
                })
                .collect(),
            chunk_objects: metadata.chunk_count().unwrap_or(u64::MAX),
            chunk_bytes: metadata.chunk_bytes().unwrap_or(u64::MAX),
            raw_bytes: metadata.raw_bytes().unwrap_or(u64::MAX),
        }
    }
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for array in &self.arrays {
            writeln!(f, "{array}")?;
        }
        write!(
            f,
            "{} arrays in {} groups: {} in at most {} chunk objects",
            self.arrays.len(),
            self.groups,
            ByteSize(self.raw_bytes),
            self.chunk_objects
        )?;
        for reason in &self.left_out {
            write!(f, "\nleft out: {reason}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ArraySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.path, self.data_type)?;
        for (position, dimension) in self.dimensions.iter().enumerate() {
            let before = if position == 0 { "  " } else { ", " };
            let grows = if dimension.growing { "+" } else { "" };
            write!(
                f,
                "{before}{}={}{grows}/{}",
                dimension.name, dimension.length, dimension.chunk
            )?;
        }
        write!(
            f,
            "  {} in {} objects of {}",
            ByteSize(self.raw_bytes),
            self.chunk_objects,
            ByteSize(self.chunk_bytes)
        )
    }
}
