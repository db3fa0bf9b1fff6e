//! Why a file, or a part of it, cannot become Zarr.

use crate::base::units::ByteSize;
use crate::zarr::{DataType, NodeNameError};

/// Why a file, or a part of it, cannot become Zarr. The text is a sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The values of a variable cannot be stored.
    #[error("variable {variable}: {reason}")]
    UnsupportedVariable {
        /// Its path.
        variable: String,
        /// What is not supported.
        reason: String,
    },
    /// An attribute cannot be stored.
    #[error("attribute `{attribute}` of {node}: {reason}")]
    UnsupportedAttribute {
        /// Path of its variable or group.
        node: String,
        /// Its name.
        attribute: String,
        /// What is not supported.
        reason: String,
    },
    /// `_FillValue` is none of the values that the variable can have.
    #[error("variable {variable}: `_FillValue` ({found}) is not one {data_type} value")]
    FillValue {
        /// Path of the variable.
        variable: String,
        /// What the attribute holds.
        found: String,
        /// Type of the variable.
        data_type: DataType,
    },
    /// A name that no node can have.
    #[error("the name `{name}` in {group} cannot be used in Zarr: {reason}")]
    Name {
        /// The variable or group.
        name: String,
        /// Path of the group around it.
        group: String,
        /// What is wrong with it.
        reason: NodeNameError,
    },
    /// Two things in one group have the same name.
    #[error("{path} is there twice")]
    DuplicateName {
        /// The path both would have.
        path: String,
    },
    /// `--chunks` names a dimension that the file does not have.
    #[error("--chunks: no variable has a dimension `{name}`; the file has {known}")]
    UnknownDimension {
        /// The dimension asked for.
        name: String,
        /// The file's dimensions.
        known: String,
    },
    /// A chunk that compressors and readers cannot take.
    #[error(
        "variable {variable}: a chunk of {chunk} has {} and at most 2 GiB work: \
         set --chunks, for example `{suggestion}`",
        size_text(*.bytes)
    )]
    ChunkTooLarge {
        /// Path of the variable.
        variable: String,
        /// Chunk length of each dimension.
        chunk: String,
        /// Raw bytes of the chunk; `None` beyond 64 bits.
        bytes: Option<u64>,
        /// What to write instead.
        suggestion: String,
    },
    /// Everything in a file that cannot be stored, if that is more than one thing.
    #[error("{} things cannot be stored: {}", .0.len(), listed(.0))]
    Several(Vec<Refusal>),
    /// An option that does not exist yet.
    #[error("--codec source is not supported yet: leave the option out, or name a codec")]
    SourceCodec,
    /// The schema contradicts itself.
    #[error("variable {variable}: the file contradicts itself: {what}")]
    Inconsistent {
        /// Path of the variable.
        variable: String,
        /// What does not fit.
        what: &'static str,
    },
}

/// Most things that a sentence names.
const LISTED_MAX: usize = 200;

impl Refusal {
    /// One refusal for all of these.
    pub(super) fn of_all(mut refusals: Vec<Self>) -> Self {
        match (refusals.pop(), refusals.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                refusals.extend(last);
                Self::Several(refusals)
            }
        }
    }

    /// Whether leaving out the variable or attribute it names resolves it.
    pub fn can_be_left_out(&self) -> bool {
        matches!(
            self,
            Self::UnsupportedVariable { .. }
                | Self::UnsupportedAttribute { .. }
                | Self::FillValue { .. }
                | Self::Name { .. }
        )
    }
}

fn listed(refusals: &[Refusal]) -> String {
    let mut sentences: Vec<String> =
        refusals.iter().take(LISTED_MAX).map(ToString::to_string).collect();
    if let Some(more) = refusals.len().checked_sub(LISTED_MAX).filter(|more| *more > 0) {
        sentences.push(format!("and {more} more"));
    }
    sentences.join("; ")
}

fn size_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(
        || "more bytes than can be counted".to_owned(),
        |bytes| ByteSize(bytes).to_string(),
    )
}
