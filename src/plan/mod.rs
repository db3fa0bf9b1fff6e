//! Pure: from a NetCDF schema and the encoding options to the arrays to write. No I/O.
//!
//! The same schema and the same [`Encoding`] always give the same plan: an ingest that is taken up
//! again after a crash relies on it. What cannot be stored exactly is a [`Refusal`] that names
//! variable and reason.

mod attributes;
mod cf;
mod chunk_spec;
mod dataset;
mod encoding;
mod fill;
mod grid;
pub mod join;
mod refusal;
mod summary;
mod target;
#[cfg(test)]
mod tests;
mod text;

pub use attributes::{TEXT_MARK, attribute_to_json};
pub use cf::{
    AxisError, AxisKey, Calendar, Conversion, ConversionRefusal, Decoding, Inexact, InexactReason,
    Target, TimeUnit, TimeUnits, Unpacked, Unpacking, axis_keys, common_encoding,
};
pub use chunk_spec::{ChunkSpec, ChunkSpecError, Extent};
pub use dataset::{ArrayPlan, DatasetPlan, GroupPlan, plan_dataset};
pub use encoding::Encoding;
pub use refusal::Refusal;
pub use summary::{ArraySummary, DimensionSummary, PlanSummary};
pub use target::{ArrayTarget, Part, Segment};
