//! Values of variables, read from a source file. Blocks.

use std::ops::Range;

use crate::netcdf::{ChunkLocation, NetcdfError, NetcdfFile, VariableId};
use crate::plan::ArrayPlan;
use crate::zarr::region::{self, Region, length, lengths};

/// The elements of a variable in C order, little-endian. Not for strings.
pub(super) fn elements(file: &NetcdfFile, array: &ArrayPlan) -> Result<Vec<u8>, NetcdfError> {
    elements_in(file, array, file.chunks(&[array.variable]), &whole(array))
}

/// The elements at one step along a dimension.
pub(super) fn elements_at(
    file: &NetcdfFile,
    array: &ArrayPlan,
    axis: usize,
    step: u64,
) -> Result<Vec<u8>, NetcdfError> {
    elements_in(file, array, file.chunks(&[array.variable]), &at(array, axis, step))
}

/// The texts of a string variable in C order.
pub(super) fn texts(file: &NetcdfFile, array: &ArrayPlan) -> Result<Vec<String>, NetcdfError> {
    texts_in(file, array, file.chunks(&[array.variable]), &whole(array))
}

/// The texts at one step along a dimension.
pub(super) fn texts_at(
    file: &NetcdfFile,
    array: &ArrayPlan,
    axis: usize,
    step: u64,
) -> Result<Vec<String>, NetcdfError> {
    texts_in(file, array, file.chunks(&[array.variable]), &at(array, axis, step))
}

fn whole(array: &ArrayPlan) -> Vec<Range<u64>> {
    array.metadata.shape.iter().map(|length| 0..*length).collect()
}

fn at(array: &ArrayPlan, axis: usize, step: u64) -> Vec<Range<u64>> {
    let mut window = whole(array);
    if let Some(range) = window.get_mut(axis) {
        *range = step..step + 1;
    }
    window
}

fn count(window: &[Range<u64>]) -> usize {
    window.iter().map(|range| length(range.end - range.start)).product()
}

/// The elements of a box in C order, little-endian. `locations` are those of the variable's chunks.
pub(super) fn elements_in(
    file: &NetcdfFile,
    array: &ArrayPlan,
    locations: impl Iterator<Item = Result<ChunkLocation, NetcdfError>>,
    window: &[Range<u64>],
) -> Result<Vec<u8>, NetcdfError> {
    let size = array.metadata.data_type.size();
    let mut all = region::filled(&array.source_fill, count(window));
    for_each_in(file, array, locations, window, |location, chunk| {
        place(array, &location.origin, chunk, chunk.len() / size, &mut all, size, window);
    })?;
    Ok(all)
}

/// The texts of a box in C order. `locations` are those of the variable's chunks.
pub(super) fn texts_in(
    file: &NetcdfFile,
    array: &ArrayPlan,
    locations: impl Iterator<Item = Result<ChunkLocation, NetcdfError>>,
    window: &[Range<u64>],
) -> Result<Vec<String>, NetcdfError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut all = vec![text(&array.source_fill); count(window)];
    for_each_in(file, array, locations, window, |location, mut rest| {
        let mut items = Vec::new();
        while let Some((stated, behind)) = rest.split_first_chunk() {
            let bytes = length(u64::from(u32::from_le_bytes(*stated)));
            let Some((item, behind)) = behind.split_at_checked(bytes) else { break };
            items.push(text(item));
            rest = behind;
        }
        // Texts do not move as boxes of plain items: their positions do.
        let mut positions: Vec<Option<usize>> = vec![None; all.len()];
        let numbers: Vec<Option<usize>> = (0..items.len()).map(Some).collect();
        place(array, &location.origin, &numbers, items.len(), &mut positions, 1, window);
        for (to, position) in all.iter_mut().zip(positions) {
            if let Some(item) = position.and_then(|position| items.get_mut(position)) {
                *to = std::mem::take(item);
            }
        }
    })?;
    Ok(all)
}

/// The elements of every stored chunk that lie in the variable, chunk by chunk.
pub(super) fn for_each_chunk(
    file: &NetcdfFile,
    variable: VariableId,
    shape: &[u64],
    chunk_shape: &[u64],
    size: usize,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), NetcdfError> {
    let whole = lengths(chunk_shape);
    let mut chunk = Vec::new();
    for location in file.chunks(&[variable]) {
        let location = location?;
        chunk.clear();
        file.read_chunk(&location, &mut chunk)?;
        let dimensions = location.origin.iter().zip(chunk_shape).zip(shape);
        let cut: Vec<usize> = dimensions
            .map(|((origin, chunk), shape)| length(shape.saturating_sub(*origin).min(*chunk)))
            .collect();
        let is_whole = chunk.len() == whole.iter().product::<usize>() * size;
        visit(&region::cut(&chunk, if is_whole { &whole } else { &cut }, &cut, size));
    }
    Ok(())
}

/// Decodes every stored chunk that meets the window.
fn for_each_in(
    file: &NetcdfFile,
    array: &ArrayPlan,
    locations: impl Iterator<Item = Result<ChunkLocation, NetcdfError>>,
    window: &[Range<u64>],
    mut visit: impl FnMut(&ChunkLocation, &[u8]),
) -> Result<(), NetcdfError> {
    let mut chunk = Vec::new();
    for location in locations {
        let location = location?;
        let mut dimensions = location.origin.iter().zip(&array.source_chunk_shape).zip(window);
        if !dimensions.all(|((start, length), w)| *start < w.end && start + length > w.start) {
            continue;
        }
        chunk.clear();
        file.read_chunk(&location, &mut chunk)?;
        visit(&location, &chunk);
    }
    Ok(())
}

/// Copies what a chunk has of the window into it. What has another size than its variable says is
/// left out.
fn place<T: Copy>(
    array: &ArrayPlan,
    origin: &[u64],
    chunk: &[T],
    elements: usize,
    all: &mut [T],
    items: usize,
    window: &[Range<u64>],
) {
    let whole = lengths(&array.source_chunk_shape);
    let (mut cut, mut from, mut to, mut extent, mut shape) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (d, window) in window.iter().enumerate() {
        let end = (origin[d] + array.source_chunk_shape[d]).min(array.metadata.shape[d]);
        let first = origin[d].max(window.start);
        let last = end.min(window.end);
        cut.push(length(end.saturating_sub(origin[d])));
        from.push(length(first.saturating_sub(origin[d])));
        to.push(length(first - window.start));
        extent.push(length(last.saturating_sub(first)));
        shape.push(length(window.end - window.start));
    }
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let buffer = if elements == count(&whole) { &whole } else { &cut };
    if elements != count(buffer) || extent.contains(&0) {
        return;
    }
    let from = Region { shape: buffer, start: &from };
    region::copy(chunk, from, all, Region { shape: &shape, start: &to }, &extent, items);
}
