//! Whether chunks of sources have to be decoded several times, because memory does not hold all
//! target chunks that they give values to.
//!
//! A copy into a mount is refused then when it is closed: whoever copies learns at once which chunks
//! would fit. An import does it, and says so before it begins.

use super::chunks::Pipeline;
use super::refusal::{Cause, Refusal};
use crate::assemble::{self, Rereading};
use crate::base::units::ByteSize;
use crate::plan::join::{Existing, Member};
use crate::plan::{ArrayPlan, ArrayTarget, Conversion, Part, Segment};
use crate::zarr::{ArrayMetadata, DataType, NodePath};

/// Decoding so many times as much as there is, on average, is nothing to speak of: it happens where
/// grids lie over each other in some odd way.
const TIMES_MAX: f64 = 2.0;

/// The arrays whose sources are decoded several times.
pub(super) fn of_plan(arrays: &[ArrayTarget], pipeline: &Pipeline) -> Vec<(NodePath, Rereading)> {
    let each = arrays.iter().filter_map(|array| Some((array.path.clone(), of(array, pipeline)?)));
    each.collect()
}

fn of(array: &ArrayTarget, pipeline: &Pipeline) -> Option<Rereading> {
    // Texts are not built side by side; their sources are small.
    if array.metadata.data_type == DataType::String {
        return None;
    }
    let (memory, threads) = (pipeline.memory(), pipeline.threads());
    assemble::rereading(array, memory, threads, TIMES_MAX)
}

/// Refuses a file of a mount that would have to be decoded several times, taken alone.
pub(super) fn check(
    member: &Member,
    existing: Option<&Existing>,
    pipeline: &Pipeline,
) -> Result<(), Refusal> {
    for array in &member.arrays {
        let published = existing.and_then(|existing| existing.array(&array.path));
        let target = alone(array, published);
        let Some(rereading) = of(&target, pipeline) else { continue };
        let (memory, threads) = (pipeline.memory(), pipeline.threads());
        let fitting = assemble::fitting_chunk(&target, memory, threads, TIMES_MAX);
        let fitting = fitting.filter(|_| published.is_none()).map_or_else(String::new, |chunk| {
            format!(", or chunks of at most {} (--chunks)", named(array, &chunk))
        });
        return Err(Refusal::new(
            Cause::Quota,
            format!(
                "variable {}: each chunk of the file holds values of so many chunks of the dataset \
                 ({}) that with --memory {} it would have to be decoded {:.1} times. Needed are {} \
                 of memory{fitting}; `zarrmount import` takes the file as it is",
                array.path,
                named(array, &target.metadata.chunk_shape),
                ByteSize(memory),
                rereading.times,
                ByteSize(rereading.bytes_for_once),
            ),
        ));
    }
    Ok(())
}

fn named(array: &ArrayPlan, chunk: &[u64]) -> String {
    let named = array.dimension_names().into_iter().zip(chunk);
    named.map(|(name, length)| format!("{name}={length}")).collect::<Vec<_>>().join(",")
}

/// What is written of an array if its file is the only one.
fn alone(array: &ArrayPlan, published: Option<&ArrayMetadata>) -> ArrayTarget {
    let mut metadata = array.metadata.clone();
    if let Some(published) = published
        && published.chunk_shape.len() == metadata.chunk_shape.len()
    {
        metadata.chunk_shape.clone_from(&published.chunk_shape);
    }
    let length = metadata.shape.first().copied().unwrap_or(1);
    let part = Part {
        member: 0,
        variable: array.variable,
        shape: metadata.shape.clone(),
        source_chunk_shape: array.source_chunk_shape.clone(),
        source_fill: array.source_fill.clone(),
        conversion: Conversion::none(metadata.data_type),
    };
    ArrayTarget {
        path: array.path.clone(),
        metadata,
        axis: 0,
        published_length: 0,
        has_objects: false,
        parts: vec![part],
        segments: vec![Segment { target: 0, source: 0, length, part: 0 }],
    }
}
