//! From a chunk location to decoded elements.

use std::cell::RefCell;
use std::ops::Range;

use super::bytes::read_into;
use super::error::NetcdfError;
use super::file::{Inner, Placement, Stored};
use super::filters::{FilterError, Scratch};
use super::grid::{clipped_elements, linear_index, product};
use super::hdf5::Chunked;
use super::schema::ChunkLocation;
use super::texts;

/// Records closer together than this are read in one stretch, others one by one.
const RECORD_STRIDE_BYTES_MAX: u64 = 4096;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

pub(super) fn read_chunk(
    inner: &Inner,
    location: &ChunkLocation,
    out: &mut Vec<u8>,
) -> Result<(), NetcdfError> {
    let stored = inner.stored(location.variable)?;
    match &stored.text {
        None => read_elements(inner, stored, location, out),
        Some(form) => texts::read_chunk(inner, stored, form, location, out),
    }
}

/// The elements of a chunk as they are stored, except for the order of their bytes.
pub(super) fn read_elements(
    inner: &Inner,
    stored: &Stored,
    location: &ChunkLocation,
    out: &mut Vec<u8>,
) -> Result<(), NetcdfError> {
    match &stored.placement {
        Placement::Nowhere => {
            inner.check_supported(location.variable)?;
            Err(NetcdfError::UnknownChunk(location.variable))
        }
        Placement::Contiguous { .. } => {
            check_location(stored, location)?;
            read_into(inner.source.as_ref(), location.offset, location.size, out)?;
            finish_prefix(stored, out)
        }
        Placement::Records { stride, .. } => {
            check_location(stored, location)?;
            read_records(inner, stored, *stride, location, out)?;
            finish_prefix(stored, out)
        }
        Placement::Chunked(chunked) => read_hdf5(inner, stored, chunked, location, out),
    }
}

pub(super) fn stored_ranges(
    inner: &Inner,
    location: &ChunkLocation,
) -> Result<Vec<Range<u64>>, NetcdfError> {
    let stored = inner.stored(location.variable)?;
    let range = |offset: u64, size: u64| offset..offset.saturating_add(size);
    let Placement::Records { stride, .. } = stored.placement else {
        return Ok(vec![range(location.offset, location.size)]);
    };
    check_location(stored, location)?;
    let records = gathered_records(stored, location);
    let each = location.size.checked_div(records).unwrap_or(0);
    let starts =
        (0..records).map(|record| location.offset.saturating_add(record.saturating_mul(stride)));
    Ok(starts.map(|start| range(start, each)).collect())
}

/// Offset and stored size of a chunk of a made-up grid. `None` if the origin is outside, or on
/// overflow.
pub(super) fn flat_location(stored: &Stored, origin: &[u64]) -> Option<(u64, u64)> {
    let inside = origin.iter().zip(&stored.extent).all(|(at, length)| at < length);
    if origin.len() != stored.extent.len() || !inside {
        return None;
    }
    let elements = clipped_elements(origin, &stored.chunk_shape, &stored.extent);
    let size = elements.checked_mul(stored.element_size)?;
    let within = |origin: &[u64], shape: &[u64]| {
        linear_index(origin, shape)?.checked_mul(stored.element_size)
    };
    let offset = match stored.placement {
        Placement::Contiguous { offset } => offset.checked_add(within(origin, &stored.extent)?)?,
        Placement::Records { offset, stride } => {
            let (record, inner_origin) = origin.split_first()?;
            let (_, inner_shape) = stored.extent.split_first()?;
            offset
                .checked_add(record.checked_mul(stride)?)?
                .checked_add(within(inner_origin, inner_shape)?)?
        }
        Placement::Nowhere | Placement::Chunked(_) => return None,
    };
    offset.checked_add(size)?;
    Some((offset, size))
}

/// A location of a made-up grid can be recomputed, so a wrong one is not trusted.
fn check_location(stored: &Stored, location: &ChunkLocation) -> Result<(), NetcdfError> {
    let on_grid = location
        .origin
        .iter()
        .zip(&stored.chunk_shape)
        .all(|(at, step)| at.checked_rem(*step) == Some(0));
    if on_grid && flat_location(stored, &location.origin) == Some((location.offset, location.size))
    {
        Ok(())
    } else {
        Err(NetcdfError::UnknownChunk(location.variable))
    }
}

/// Records in a chunk; 1 unless it gathers several.
fn gathered_records(stored: &Stored, location: &ChunkLocation) -> u64 {
    match (location.origin.first(), stored.chunk_shape.first(), stored.extent.first()) {
        (Some(at), Some(chunk), Some(length)) => (*chunk).min(length.saturating_sub(*at)).max(1),
        _ => 1,
    }
}

fn read_records(
    inner: &Inner,
    stored: &Stored,
    stride: u64,
    location: &ChunkLocation,
    out: &mut Vec<u8>,
) -> Result<(), NetcdfError> {
    let source = inner.source.as_ref();
    let records = gathered_records(stored, location);
    if records == 1 {
        return read_into(source, location.offset, location.size, out);
    }
    let each = location.size.checked_div(records).unwrap_or(0);
    out.clear();
    SCRATCH.with_borrow_mut(|scratch| {
        let stretch = &mut scratch.stored;
        if stride > RECORD_STRIDE_BYTES_MAX {
            for record in 0..records {
                let offset = location.offset.saturating_add(record.saturating_mul(stride));
                read_into(source, offset, each, stretch)?;
                out.extend_from_slice(stretch);
            }
            return Ok(());
        }
        let span = stride.saturating_mul(records.saturating_sub(1)).saturating_add(each);
        read_into(source, location.offset, span, stretch)?;
        let (stride, each) = (to_usize(stride), to_usize(each));
        for record in stretch.chunks(stride.max(1)) {
            out.extend_from_slice(record.get(..each).unwrap_or(record));
        }
        Ok(())
    })
}

/// Makes little-endian what was read and fills the chunk up.
fn finish_prefix(stored: &Stored, out: &mut Vec<u8>) -> Result<(), NetcdfError> {
    if stored.big_endian {
        swap_bytes(out, stored.element_size);
    }
    let full = to_usize(product(&stored.chunk_shape).saturating_mul(stored.element_size));
    if out.len() > full {
        return Err(NetcdfError::corrupt(&stored.path, 0, "a slab is longer than its grid says"));
    }
    while out.len() < full {
        out.extend_from_slice(&stored.fill);
        if stored.fill.is_empty() {
            out.resize(full, 0);
        }
    }
    Ok(())
}

fn read_hdf5(
    inner: &Inner,
    stored: &Stored,
    chunked: &Chunked,
    location: &ChunkLocation,
    out: &mut Vec<u8>,
) -> Result<(), NetcdfError> {
    if location.origin.len() != stored.chunk_shape.len() {
        return Err(NetcdfError::UnknownChunk(location.variable));
    }
    let damaged = |reason: String| {
        let origin = &location.origin;
        let what = format!("variable `{}`: the chunk of element {origin:?}", stored.path);
        NetcdfError::corrupt(what, location.offset, reason)
    };
    let raw_bytes = usize::try_from(chunked.raw_bytes)
        .map_err(|_error| damaged("it is larger than memory can be".to_owned()))?;
    let partial = reaches_beyond(stored, &location.origin);
    let unfiltered =
        (chunked.edges_unfiltered && partial) || chunked.pipeline.is_identity(location.filter_mask);
    let source = inner.source.as_ref();
    if unfiltered {
        if location.size != chunked.raw_bytes {
            return Err(damaged(format!(
                "{} bytes are stored, an unfiltered chunk has {raw_bytes}",
                location.size
            )));
        }
        read_into(source, location.offset, location.size, out)?;
    } else {
        SCRATCH.with_borrow_mut(|scratch| {
            read_into(source, location.offset, location.size, &mut scratch.stored)?;
            let decoded = chunked.pipeline.decode(location.filter_mask, raw_bytes, scratch, out);
            scratch.trim();
            decoded.map_err(|error| match error {
                FilterError::Damaged(reason) => damaged(reason),
                FilterError::Checksum { expected, actual } => NetcdfError::ChecksumMismatch {
                    variable: stored.path.clone(),
                    offset: location.offset,
                    expected,
                    actual,
                },
            })
        })?;
    }
    if stored.big_endian {
        swap_bytes(out, stored.element_size);
    }
    if let Some(significant) = &chunked.significant {
        significant.widen(out);
    }
    if partial {
        fill_outside(stored, &location.origin, out);
    }
    Ok(())
}

fn reaches_beyond(stored: &Stored, origin: &[u64]) -> bool {
    origin
        .iter()
        .zip(&stored.chunk_shape)
        .zip(&stored.extent)
        .any(|((at, chunk), length)| at.saturating_add(*chunk) > *length)
}

/// Overwrites the elements outside of the stored extent: what the file has there is left over.
fn fill_outside(stored: &Stored, origin: &[u64], out: &mut [u8]) {
    let Some((row_length, outer_shape)) = stored.chunk_shape.split_last() else { return };
    let inside_of = |dimension: usize| {
        let (at, length) = (origin.get(dimension), stored.extent.get(dimension));
        length.unwrap_or(&0).saturating_sub(*at.unwrap_or(&0))
    };
    let row_bytes = to_usize(row_length.saturating_mul(stored.element_size)).max(1);
    let valid_in_row =
        to_usize(inside_of(outer_shape.len()).min(*row_length).saturating_mul(stored.element_size));
    let mut index = vec![0_u64; outer_shape.len()];
    for row in out.chunks_mut(row_bytes) {
        let inside = index.iter().enumerate().all(|(d, at)| *at < inside_of(d));
        let valid = if inside { valid_in_row } else { 0 };
        if let Some(outside) = row.get_mut(valid..) {
            for element in outside.chunks_exact_mut(stored.fill.len().max(1)) {
                element.copy_from_slice(&stored.fill);
            }
        }
        for (at, length) in index.iter_mut().zip(outer_shape).rev() {
            *at = at.saturating_add(1);
            if *at < *length {
                break;
            }
            *at = 0;
        }
    }
}

fn swap_bytes(data: &mut [u8], element_size: u64) {
    match element_size {
        2 => data.as_chunks_mut::<2>().0.iter_mut().for_each(|element| element.reverse()),
        4 => data.as_chunks_mut::<4>().0.iter_mut().for_each(|element| element.reverse()),
        8 => data.as_chunks_mut::<8>().0.iter_mut().for_each(|element| element.reverse()),
        _ => {}
    }
}

/// Only for sizes that are bounded by memory already.
fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
