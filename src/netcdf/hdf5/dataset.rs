//! A dataset as its object header describes it, before netCDF's view of it.

use hdf5_reader::io::Cursor;
use hdf5_reader::messages::dataspace::UNLIMITED;
use hdf5_reader::messages::filter_pipeline;

use super::attribute::{self, RawAttribute, parse_dataspace};
use super::layout::{self, Layout};
use super::object::{ObjectHeader, kind};
use super::significant::Significant;
use super::store::Store;
use super::types::Type;
use crate::netcdf::bytes::Bytes;
use crate::netcdf::error::NetcdfError;
use crate::netcdf::filters::{Filter, Pipeline};

/// HDF5's own limit (`H5S_MAX_RANK`).
const RANK_MAX: usize = 32;

/// A parsed dataset.
#[derive(Debug)]
pub(super) struct Dataset {
    pub(super) address: u64,
    /// Shape; `None` for the null dataspace.
    pub(super) shape: Option<Vec<u64>>,
    /// Largest length of each dimension; `u64::MAX` if unlimited.
    pub(super) shape_max: Vec<u64>,
    pub(super) kind: Type,
    /// How stored values become those of `kind`, if they are not that already.
    pub(super) significant: Option<Significant>,
    /// Whether the type is an object of its own in the file.
    pub(super) committed: bool,
    pub(super) layout: Layout,
    /// The pipeline, or the filter that is not supported.
    pub(super) pipeline: Result<Pipeline, String>,
    pub(super) fill: Fill,
    /// Whether the values are in other files.
    pub(super) external: bool,
    pub(super) attributes: Vec<RawAttribute>,
}

/// What HDF5 says about elements that were never written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fill {
    /// A value in the dataset's type.
    Value(Vec<u8>),
    /// Zeros.
    Zero,
    /// Nothing: readers show whatever was in memory.
    Undefined,
}

impl Dataset {
    /// `None` if the object is no dataset.
    pub(super) fn read(store: &Store, header: &ObjectHeader) -> Result<Option<Self>, NetcdfError> {
        let (Some((space, _)), Some((datatype, committed)), Some(layout)) = (
            header.resolved(store, kind::DATASPACE)?,
            header.resolved(store, kind::DATATYPE)?,
            header.first(kind::LAYOUT),
        ) else {
            return Ok(None);
        };
        let dataspace = parse_dataspace(store, space.address, &space.data)?;
        let shape = attribute::shape(&dataspace);
        let rank = shape.as_ref().map_or(0, Vec::len);
        let shape_max = dataspace.max_dims.or_else(|| shape.clone()).unwrap_or_default();
        if rank > RANK_MAX || shape_max.len() < rank {
            let reason = format!("it has {rank} dimensions");
            return Err(NetcdfError::corrupt("a dataspace", store.offset(space.address), reason));
        }
        let mut kind = Type::parse(store, datatype.address, &datatype.data)?;
        let significant = kind.widened();
        Ok(Some(Self {
            address: header.address,
            shape,
            shape_max: shape_max
                .into_iter()
                .map(|max| if max == UNLIMITED { u64::MAX } else { max })
                .collect(),
            fill: fill(store, header)?.widened(significant),
            kind,
            significant,
            committed,
            layout: layout::parse(store, layout)?,
            pipeline: pipeline(store, header)?,
            external: header.first(kind::EXTERNAL_FILES).is_some(),
            attributes: attribute::read_all(store, header)?,
        }))
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&RawAttribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }
}

impl Fill {
    /// The fill of the widened type.
    fn widened(mut self, significant: Option<Significant>) -> Self {
        if let (Self::Value(value), Some(significant)) = (&mut self, significant) {
            significant.widen(value);
        }
        self
    }
}

fn pipeline(store: &Store, header: &ObjectHeader) -> Result<Result<Pipeline, String>, NetcdfError> {
    let Some((message, _)) = header.resolved(store, kind::FILTERS)? else {
        return Ok(Ok(Pipeline::default()));
    };
    let parsed = store.guard("a filter pipeline", message.address, || {
        let mut cursor = Cursor::new(&message.data);
        let sizes = (store.offset_size, store.length_size);
        filter_pipeline::parse(&mut cursor, sizes.0, sizes.1, message.data.len())
    })?;
    let filters = parsed.filters.iter().map(|filter| Filter::new(filter.id, &filter.client_data));
    Ok(filters.collect::<Result<Vec<_>, _>>().map(Pipeline))
}

/// The fill value message, versions 1 to 3, or the old one.
fn fill(store: &Store, header: &ObjectHeader) -> Result<Fill, NetcdfError> {
    if let Some((message, _)) = header.resolved(store, kind::FILL)? {
        let parsed = new_fill(&mut Bytes::new(&message.data));
        return parsed.ok_or_else(|| {
            let offset = store.offset(message.address);
            NetcdfError::corrupt("a fill value", offset, "it is cut short")
        });
    }
    let Some((message, _)) = header.resolved(store, kind::FILL_OLD)? else { return Ok(Fill::Zero) };
    let mut bytes = Bytes::new(&message.data);
    Ok(sized_value(&mut bytes).unwrap_or(Fill::Zero))
}

fn new_fill(bytes: &mut Bytes<'_>) -> Option<Fill> {
    const UNDEFINED: u8 = 0x10;
    const HAS_VALUE: u8 = 0x20;
    match bytes.u8()? {
        1 => {
            bytes.skip(3)?;
            sized_value(bytes)
        }
        2 => {
            bytes.skip(2)?;
            if bytes.u8()? == 0 { Some(Fill::Undefined) } else { sized_value(bytes) }
        }
        3 => match bytes.u8()? {
            flags if flags & UNDEFINED != 0 => Some(Fill::Undefined),
            flags if flags & HAS_VALUE != 0 => sized_value(bytes),
            _ => Some(Fill::Zero),
        },
        _ => None,
    }
}

fn sized_value(bytes: &mut Bytes<'_>) -> Option<Fill> {
    match bytes.u32_le()? {
        0 => Some(Fill::Zero),
        u32::MAX => Some(Fill::Undefined),
        size => Some(Fill::Value(bytes.take(usize::try_from(size).ok()?)?.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_states_of_a_fill_value_are_told_apart_in_every_version() {
        let parse = |bytes: &[u8]| new_fill(&mut Bytes::new(bytes));
        let value = || Some(Fill::Value(vec![7, 8]));
        assert_eq!(parse(&[1, 2, 2, 1, 2, 0, 0, 0, 7, 8]), value());
        assert_eq!(parse(&[2, 2, 2, 1, 2, 0, 0, 0, 7, 8]), value());
        assert_eq!(parse(&[2, 2, 2, 1, 0, 0, 0, 0]), Some(Fill::Zero));
        assert_eq!(parse(&[2, 2, 2, 0]), Some(Fill::Undefined));
        assert_eq!(parse(&[3, 0x2a, 2, 0, 0, 0, 7, 8]), value());
        assert_eq!(parse(&[3, 0x0a]), Some(Fill::Zero));
        assert_eq!(parse(&[3, 0x1a]), Some(Fill::Undefined));
        assert_eq!(parse(&[3, 0x2a, 9, 0, 0, 0, 7, 8]), None);
    }
}
