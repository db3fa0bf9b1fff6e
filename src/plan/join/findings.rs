//! What is still to be looked at before a file can be accepted: values that have to be read.

use crate::netcdf::VariableId;
use crate::plan::{ArrayPlan, Conversion};
use crate::zarr::NodePath;

/// What is still to be looked at before a file can be accepted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Variables that must have the same values as those of another file.
    pub statics: Vec<StaticArray>,
    /// Values that are there already.
    pub overlaps: Vec<Overlapping>,
    /// Variables whose values decide whether they can be converted.
    pub scans: Vec<Scan>,
    /// For the log.
    pub warnings: Vec<String>,
}

/// A variable that must have the same values everywhere.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticArray {
    /// The array.
    pub path: NodePath,
    /// The variable of the new file.
    pub variable: VariableId,
    /// The file to compare with; `None`: the published array.
    pub other: Option<u64>,
    /// What the elements go through before they are compared.
    pub conversion: Conversion,
}

/// Steps of a variable of the new file at which the array has values already.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlapping {
    /// The array.
    pub path: NodePath,
    /// Which of its dimensions it is.
    pub axis: usize,
    /// The name of the dimension.
    pub dimension: String,
    /// The coordinate variable of the dimension.
    pub coordinate: NodePath,
    /// Where the values are: a file, or what is published.
    pub other: Option<u64>,
    /// Steps in the new file, and in the other one.
    pub steps: Vec<(u64, u64)>,
    /// What the elements of the new file go through before they are compared.
    pub here: Conversion,
    /// What those of the other file go through; `None`: published elements are as they shall be.
    pub there: Option<Conversion>,
}

/// A variable to be converted.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// The array.
    pub path: NodePath,
    /// The variable.
    pub variable: VariableId,
    /// The accepted file that has it; `None`: the new one.
    pub file: Option<u64>,
    /// What its elements go through.
    pub conversion: Conversion,
}

impl Findings {
    pub(super) fn scan(&mut self, file: Option<u64>, array: &ArrayPlan, conversion: Conversion) {
        if !conversion.is_identity() && !conversion.is_always_exact() {
            let (path, variable) = (array.path.clone(), array.variable);
            self.scans.push(Scan { path, variable, file, conversion });
        }
    }

    /// What has to be compared with published values.
    #[must_use]
    pub fn of_published(&self) -> Self {
        let mut left = self.clone();
        left.statics.retain(|array| array.other.is_none());
        left.overlaps.retain(|overlap| overlap.other.is_none());
        left.scans.clear();
        left.warnings.clear();
        left
    }

    /// What is not among `known`.
    #[must_use]
    pub fn besides(mut self, known: &Self) -> Self {
        self.statics.retain(|it| !known.statics.contains(it));
        self.overlaps.retain(|it| !known.overlaps.contains(it));
        self.scans.retain(|it| !known.scans.contains(it));
        self.warnings.retain(|it| !known.warnings.contains(it));
        self
    }

    /// Takes others too.
    pub fn extend(&mut self, others: Self) {
        self.statics.extend(others.statics);
        self.overlaps.extend(others.overlaps);
        self.scans.extend(others.scans);
        self.warnings.extend(others.warnings);
    }

    /// Whether there is nothing to look at.
    pub fn is_empty(&self) -> bool {
        self.statics.is_empty() && self.overlaps.is_empty() && self.scans.is_empty()
    }
}
