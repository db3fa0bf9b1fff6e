//! Why a file cannot join the others.

use crate::base::units::ByteSize;
use crate::plan::{ConversionRefusal, Refusal};

/// Why a file cannot join the others. The text is a sentence for the user.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the text of each variant says what its fields are")]
pub enum JoinRefusal {
    #[error(
        "the files differ in the dimensions {}: name the one to join along with --concat-dim",
        dimensions.join(", ")
    )]
    AmbiguousAxis { dimensions: Vec<String> },
    #[error("{path} is a {here} in {other} and a {there} in this file")]
    OtherNode { path: String, here: &'static str, there: &'static str, other: String },
    #[error("variable {variable}: its dimensions are ({there}) and in {other} ({here})")]
    OtherDimensions { variable: String, here: String, there: String, other: String },
    #[error(
        "variable {variable}: the dimension {dimension} has {there} elements and in {other} {here}"
    )]
    OtherLength { variable: String, dimension: String, here: u64, there: u64, other: String },
    #[error(
        "variable {variable} has the dimension {dimension} twice, so nothing can be joined along it"
    )]
    TwiceAlong { variable: String, dimension: String },
    #[error(
        "variable {variable}: its dimension {dimension} belongs to the group {there} and in {other} \
         to the group {here}"
    )]
    OtherScope { variable: String, dimension: String, here: String, there: String, other: String },
    #[error("variable {variable}: {reason} (compared with {other})")]
    Encoding { variable: String, reason: Box<ConversionRefusal>, other: String },
    #[error("variable {variable} differs from the one in {other}: {difference}")]
    OtherValues { variable: String, difference: String, other: String },
    #[error("variable {variable} is not in {other}: --schema strict takes the same variables only")]
    Added { variable: String, other: String },
    #[error(
        "variable {variable} of {other} is missing: --schema strict takes the same variables only"
    )]
    Missing { variable: String, other: String },
    #[error(
        "variable {variable} is missing, and in {other} it has no `_FillValue` that could stand for \
         missing values"
    )]
    NoMissingValue { variable: String, other: String },
    #[error("coordinate {coordinate}: {reason}")]
    Coordinate { coordinate: String, reason: String },
    #[error("coordinate {coordinate}: the values are neither ascending nor descending at {value}")]
    NotMonotonic { coordinate: String, value: String },
    #[error("coordinate {coordinate}: the values run the other way than those in {other}")]
    OtherDirection { coordinate: String, other: String },
    #[error("coordinate {coordinate} is missing, and {other} has it")]
    NoCoordinate { coordinate: String, other: String },
    #[error(
        "coordinate {coordinate} is not in {other}, so that nothing tells where these values belong"
    )]
    NewCoordinate { coordinate: String, other: String },
    #[error(
        "{coordinate} {value} lies before values that are published already; {} would have to be \
         moved for it, which is not done", ByteSize(*moved_bytes)
    )]
    Insertion { coordinate: String, value: String, moved_bytes: u64 },
    #[error(
        "{coordinate} {values} {is} in {other} already, with other values of {variable}: \
         --overlap keep or --overlap replace says which hold",
        is = if *count == 1 { "is" } else { "are" }
    )]
    Overlap { coordinate: String, values: String, count: usize, variable: String, other: String },
    #[error("the published arrays disagree about the length of {dimension}")]
    Lengths { dimension: String },
    #[error(transparent)]
    Plan(#[from] Box<Refusal>),
}

impl JoinRefusal {
    /// Whether values are there already that the file would change.
    pub fn is_overlap(&self) -> bool {
        matches!(self, Self::Overlap { .. } | Self::Insertion { .. })
    }
}
