//! What a comparison of one variable found.

use super::report::Report;
use crate::zarr::NodePath;

/// What a comparison found.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Values that were compared.
    pub(super) values: u64,
    /// Values that differ.
    pub(super) different: u64,
    /// Values that differ by less than the tolerance for variables that are the same in all files.
    pub(super) tolerable: u64,
    /// The first value that differs, in words.
    pub(super) first: Option<String>,
    /// Why values could not be compared.
    pub(super) failures: Vec<String>,
}

impl Outcome {
    /// It could not be made.
    pub(super) fn failed(reason: String) -> Self {
        Self { failures: vec![reason], ..Self::default() }
    }

    /// It could not be made because of an error of this program.
    pub(super) fn defect() -> Self {
        Self::failed("comparing it met a defect; please report it".to_owned())
    }

    /// Together with another part of the same variable.
    pub(super) fn add(&mut self, other: Self) {
        self.values += other.values;
        self.different += other.different;
        self.tolerable += other.tolerable;
        self.first = self.first.take().or(other.first);
        self.failures.extend(other.failures);
    }

    /// Puts it into the report.
    pub(super) fn tell(self, file: &str, path: &NodePath, report: &mut Report) {
        let variable = if path.is_root() { String::new() } else { format!(" variable `{path}`:") };
        report.values += self.values;
        for reason in &self.failures {
            report.problem(format!("{file}:{variable} {reason}"));
        }
        if self.different > 0 {
            let first = self.first.unwrap_or_default();
            let (different, values) = (self.different, self.values);
            report.problem(format!(
                "{file}:{variable} {different} of {values} values differ; the first {first}"
            ));
        } else if self.failures.is_empty() {
            report.equal_variables += 1;
        }
        if self.tolerable > 0 {
            report.note(format!(
                "{file}:{variable} {} values differ within the tolerance; the dataset keeps those of \
                 another file",
                self.tolerable
            ));
        }
    }
}
