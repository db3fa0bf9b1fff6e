//! From the parsed header of a classic file to its schema and the placement of its data.

use std::sync::Arc;

use super::header::{Header, HeaderVariable};
use crate::netcdf::error::NetcdfError;
use crate::netcdf::file::{Extent, Inner, Placement, Stored};
use crate::netcdf::fill::{attribute_fill, default_fill};
use crate::netcdf::grid;
use crate::netcdf::schema::{Dimension, Format, Group, Schema, Variable, VariableId};
use crate::netcdf::source::ByteSource;

/// Where the records lie.
struct Records {
    /// Index of the record dimension.
    dimension: Option<usize>,
    count: u64,
    /// Bytes from one record to the next.
    stride: u64,
    /// Number of variables that share a record.
    variables: usize,
}

pub(super) fn build(
    source: Arc<dyn ByteSource>,
    version: u8,
    header: Header,
) -> Result<Inner, NetcdfError> {
    let records = records(source.as_ref(), &header)?;
    check_order(&header, &records)?;
    let dimensions = header
        .dimensions
        .iter()
        .enumerate()
        .map(|(index, (name, length))| {
            let unlimited = records.dimension == Some(index);
            let length = if unlimited { records.count } else { *length };
            Dimension { name: name.clone(), length, unlimited }
        })
        .collect::<Vec<_>>();
    let mut needed = Extent { bytes: header.end, what: "the header".to_owned() };
    let mut variables = Vec::new();
    let mut stored = Vec::new();
    for (index, declared) in header.variables.into_iter().enumerate() {
        let placed = place(&declared, &dimensions, &records)?;
        let end = end_of_data(&placed, &declared.name)?;
        if end > needed.bytes {
            needed = Extent { bytes: end, what: format!("variable `{}`", declared.name) };
        }
        variables.push(variable(VariableId(index), declared, &placed, &dimensions));
        stored.push(placed);
    }
    let root = Group { dimensions, variables, attributes: header.attributes, ..Group::default() };
    let schema = Schema { format: Format::Classic(version), root };
    Ok(Inner { source, schema, stored, needed })
}

fn variable(
    id: VariableId,
    declared: HeaderVariable,
    placed: &Stored,
    dimensions: &[Dimension],
) -> Variable {
    let names = declared.dimensions.iter().filter_map(|index| dimensions.get(*index));
    Variable {
        id,
        name: declared.name,
        dimensions: names.map(|dimension| dimension.name.clone()).collect(),
        shape: placed.extent.clone(),
        data_type: declared.data_type,
        attributes: declared.attributes,
        chunk_shape: placed.chunk_shape.clone(),
        chunked: false,
        fill: placed.fill.clone(),
        unsupported: None,
    }
}

fn is_record(variable: &HeaderVariable, dimension: Option<usize>) -> bool {
    dimension.is_some() && variable.dimensions.first().copied() == dimension
}

fn element_size(variable: &HeaderVariable) -> u64 {
    variable.data_type.size().unwrap_or(1) as u64
}

/// Bytes of a fixed-size variable, or of one record of a record variable, without padding.
fn slab_bytes(
    variable: &HeaderVariable,
    dimensions: &[(String, u64)],
    record: bool,
) -> Option<u64> {
    let fixed = variable.dimensions.iter().skip(usize::from(record));
    fixed
        .filter_map(|index| dimensions.get(*index))
        .try_fold(element_size(variable), |bytes, (_, length)| bytes.checked_mul(*length))
}

fn too_large(variable: &HeaderVariable) -> NetcdfError {
    let what = format!("variable `{}`", variable.name);
    NetcdfError::corrupt(what, variable.begin, "it is larger than any file")
}

fn records(source: &dyn ByteSource, header: &Header) -> Result<Records, NetcdfError> {
    let mut open = header.dimensions.iter().enumerate().filter(|(_, (_, length))| *length == 0);
    let dimension = open.next().map(|(index, _)| index);
    if open.next().is_some() {
        let reason = "it has more than one unlimited dimension";
        return Err(NetcdfError::corrupt("the header", 0, reason));
    }
    let (mut stride, mut variables, mut last, mut begin) = (0_u64, 0_usize, (0, 0), u64::MAX);
    for variable in header.variables.iter().filter(|variable| is_record(variable, dimension)) {
        let bytes = slab_bytes(variable, &header.dimensions, true);
        let bytes = bytes.ok_or_else(|| too_large(variable))?;
        let padded = bytes.checked_add(bytes.wrapping_neg() & 3);
        last = (padded.ok_or_else(|| too_large(variable))?, bytes);
        stride = stride.checked_add(last.0).ok_or_else(|| too_large(variable))?;
        variables = variables.saturating_add(1);
        begin = begin.min(variable.begin);
    }
    // A record that holds nothing but the last variable is not padded (as in netCDF-C).
    if stride == last.0 {
        stride = last.1;
    }
    let count = match header.records {
        Some(count) => count,
        None if stride == 0 => 0,
        None => {
            let length = source.len().map_err(NetcdfError::Length)?;
            length.saturating_sub(begin).checked_div(stride).unwrap_or(0)
        }
    };
    Ok(Records { dimension, count, stride, variables })
}

/// Data may not overlap the header or other data; netCDF-C refuses such files as well.
fn check_order(header: &Header, records: &Records) -> Result<(), NetcdfError> {
    let mut free_from = header.end;
    for record_pass in [false, true] {
        let pass = header.variables.iter();
        for variable in pass.filter(|v| is_record(v, records.dimension) == record_pass) {
            if variable.begin < free_from {
                return Err(NetcdfError::corrupt(
                    format!("variable `{}`", variable.name),
                    variable.begin,
                    format!("it starts before {free_from}, where what precedes it ends"),
                ));
            }
            let bytes = slab_bytes(variable, &header.dimensions, record_pass);
            free_from = bytes
                .and_then(|bytes| variable.begin.checked_add(bytes))
                .ok_or_else(|| too_large(variable))?;
        }
    }
    Ok(())
}

fn place(
    variable: &HeaderVariable,
    dimensions: &[Dimension],
    records: &Records,
) -> Result<Stored, NetcdfError> {
    let shape: Vec<u64> = variable
        .dimensions
        .iter()
        .filter_map(|index| dimensions.get(*index))
        .map(|dimension| dimension.length)
        .collect();
    let record = is_record(variable, records.dimension);
    let inside = variable.dimensions.iter().skip(1).any(|d| Some(*d) == records.dimension);
    if inside {
        let what = format!("variable `{}`", variable.name);
        let reason = "the unlimited dimension is not its first";
        return Err(NetcdfError::corrupt(what, variable.begin, reason));
    }
    let element_size = element_size(variable);
    let offset = variable.begin;
    let (placement, chunk_shape) = match shape.split_first() {
        Some((count, record_shape)) if record && records.variables > 1 => {
            let stride = records.stride;
            let shape = grid::record_shape(*count, record_shape, element_size, stride);
            (Placement::Records { offset, stride }, shape)
        }
        _ => (Placement::Contiguous { offset }, grid::slab_shape(&shape, element_size)),
    };
    let fill = attribute_fill(&variable.attributes, variable.data_type);
    Ok(Stored {
        path: variable.name.clone(),
        extent: shape,
        chunk_shape,
        element_size,
        text: None,
        big_endian: true,
        fill: fill.unwrap_or_else(|| default_fill(variable.data_type)),
        placement,
    })
}

/// First byte behind the data of a variable.
fn end_of_data(stored: &Stored, name: &str) -> Result<u64, NetcdfError> {
    let overflow = |offset: u64| {
        let what = format!("variable `{name}`");
        NetcdfError::corrupt(what, offset, "it reaches beyond any file")
    };
    let bytes = |shape: &[u64]| {
        shape.iter().try_fold(stored.element_size, |bytes, length| bytes.checked_mul(*length))
    };
    if stored.extent.contains(&0) {
        return Ok(0);
    }
    let end = match (&stored.placement, stored.extent.split_first()) {
        (Placement::Records { offset, stride }, Some((records, record_shape))) => records
            .saturating_sub(1)
            .checked_mul(*stride)
            .and_then(|before| offset.checked_add(before))
            .and_then(|start| start.checked_add(bytes(record_shape)?)),
        (Placement::Contiguous { offset }, _) => {
            bytes(&stored.extent).and_then(|bytes| offset.checked_add(bytes))
        }
        _ => Some(0),
    };
    end.ok_or_else(|| overflow(0))
}
