//! Comparisons of values in source files: what decides whether a file can join others. They block on
//! the disk.

use std::sync::Arc;

use super::refusal::{Cause, Refusal};
use super::{judge, values};
use crate::netcdf::{ByteSource, NetcdfFile};
use crate::plan::join::{Difference, Overlapping, Scan, StaticArray, compare};
use crate::plan::{ArrayPlan, Conversion};
use crate::zarr::{DataType, product};

/// The largest variable, in bytes, that is compared with that of another file.
const COMPARED_BYTES_MAX: u64 = 1 << 30;

/// Values of a variable.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Values {
    /// Little-endian.
    Elements(Vec<u8>),
    /// Of a string variable.
    Texts(Vec<String>),
}

/// A source file with its metadata.
pub(super) fn open(bytes: &Arc<dyn ByteSource>) -> Result<NetcdfFile, Refusal> {
    NetcdfFile::open(Arc::clone(bytes)).map_err(|error| judge::refusal(&error))
}

/// All values of a variable.
pub(super) fn values_in(file: &NetcdfFile, plan: &ArrayPlan) -> Result<Values, Refusal> {
    let bytes = product(plan.metadata.data_type.size() as u64, &plan.metadata.shape);
    if bytes.is_none_or(|bytes| bytes > COMPARED_BYTES_MAX) {
        let reason = "it does not lie along the dimension that files are joined along, and is too \
                      large to be compared with that of the other files";
        let message = format!("variable {}: {reason}", plan.path);
        return Err(Refusal::new(Cause::Unsupported, message));
    }
    let values = if plan.metadata.data_type == DataType::String {
        values::texts(file, plan).map(Values::Texts)
    } else {
        values::elements(file, plan).map(Values::Elements)
    };
    values.map_err(|error| judge::refusal(&error))
}

/// The values of a variable at one step.
pub(super) fn values_at(
    file: &NetcdfFile,
    plan: &ArrayPlan,
    axis: usize,
    step: u64,
) -> Result<Values, Refusal> {
    let values = if plan.metadata.data_type == DataType::String {
        values::texts_at(file, plan, axis, step).map(Values::Texts)
    } else {
        values::elements_at(file, plan, axis, step).map(Values::Elements)
    };
    values.map_err(|error| judge::refusal(&error))
}

/// Values as another array holds them.
pub(super) fn converted(values: Values, conversion: &Conversion) -> Result<Values, Refusal> {
    match values {
        Values::Elements(elements) if !conversion.is_identity() => {
            let mut converted = Vec::new();
            conversion
                .apply(&elements, &mut converted)
                .map_err(|error| Refusal::new(Cause::Unsupported, error.to_string()))?;
            Ok(Values::Elements(converted))
        }
        values => Ok(values),
    }
}

/// How the values of a variable that must be the same everywhere differ.
pub(super) fn difference(
    data_type: DataType,
    array: &StaticArray,
    here: &Values,
    there: Values,
) -> Result<Difference, Refusal> {
    let there = converted(there, &array.conversion)?;
    Ok(match (here, &there) {
        (Values::Elements(here), Values::Elements(there)) => compare(data_type, here, there),
        (here, there) if here == there => Difference::None,
        _ => Difference::Different("other texts".to_owned()),
    })
}

/// Whether a variable has other values at a step than `old`, which is as the array has it. What
/// cannot be converted is another value.
pub(super) fn differs(new: Values, conversion: &Conversion, old: &Values) -> bool {
    converted(new, conversion).map_or(true, |new| new != *old)
}

/// Steps at which a variable has other values than in another file.
pub(super) fn differing_steps(
    (file, plan): (&NetcdfFile, &ArrayPlan),
    (other, other_plan): (&NetcdfFile, &ArrayPlan),
    overlap: &Overlapping,
) -> Result<Vec<u64>, Refusal> {
    let mut differing = Vec::new();
    for (here, there) in &overlap.steps {
        let new = values_at(file, plan, overlap.axis, *here)?;
        let old = values_at(other, other_plan, overlap.axis, *there)?;
        let old = match &overlap.there {
            Some(conversion) => converted(old, conversion),
            None => Ok(old),
        };
        if old.map_or(true, |old| differs(new, &overlap.here, &old)) {
            differing.push(*here);
        }
    }
    Ok(differing)
}

/// Whether every value of a variable can be converted.
pub(super) fn scan(file: &NetcdfFile, plan: &ArrayPlan, scan: &Scan) -> Result<(), Refusal> {
    let mut converted = Vec::new();
    let mut outcome = Ok(());
    let read = values::for_each_chunk(
        file,
        scan.variable,
        &plan.metadata.shape,
        &plan.source_chunk_shape,
        scan.conversion.source_element_bytes(),
        |elements| {
            converted.clear();
            outcome = outcome.clone().and(scan.conversion.apply(elements, &mut converted));
        },
    );
    read.map_err(|error| judge::refusal(&error))?;
    outcome.map_err(|error| {
        Refusal::new(Cause::Unsupported, format!("variable {}: {error}", scan.path))
    })
}
