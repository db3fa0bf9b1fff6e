//! From HDF5 objects to the netCDF schema and to where each variable's values lie.

use std::sync::Arc;

use super::attribute::RawAttribute;
use super::chunked::Chunked;
use super::dataset::{Dataset, Fill};
use super::dimensions::{self, Dimensions};
use super::enumeration::Enumerations;
use super::layout::Layout;
use super::store::Store;
use super::tree::{Content, GroupNode, Member};
use super::types::Element;
use crate::netcdf::error::NetcdfError;
use crate::netcdf::file::{Placement, Stored};
use crate::netcdf::fill::{attribute_fill, default_fill};
use crate::netcdf::grid::{product, slab_shape};
use crate::netcdf::schema::{Attribute, DataType, Dimension, Group, Variable, VariableId};
use crate::netcdf::texts::TextForm;

/// Prefix that netCDF-C puts before the name of a variable that is called like a dimension
/// without being its coordinate variable.
const NOT_A_COORDINATE: &str = "_nc4_non_coord_";

/// Texts of a fixed size are padded to it, so that a large size is a mistake or an attack.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Texts, or references to them, in one chunk: they are read when the file is opened, to learn the
/// sizes and whether they are UTF-8. netCDF-C makes chunks of 16 MiB at most.
const TEXT_CHUNK_BYTES_MAX: u64 = 64 << 20;

/// Chunks of HDF5 are smaller than 4 GiB.
const CHUNK_BYTES_MAX: u64 = u32::MAX as u64;

/// The root group, and where the variables are by their ids.
pub(super) fn build(
    store: &Arc<Store>,
    tree: GroupNode,
) -> Result<(Group, Vec<Stored>), NetcdfError> {
    let dimensions = dimensions::find(store, &tree)?;
    let mut builder = Builder { store, dimensions, stored: Vec::new(), groups: 0 };
    let root = builder.group(tree, "")?;
    Ok((root, builder.stored))
}

struct Builder<'a> {
    store: &'a Arc<Store>,
    dimensions: Dimensions,
    stored: Vec<Stored>,
    /// Groups gone through so far, in the order in which their dimensions were found.
    groups: usize,
}

/// What is known about a variable before its placement.
struct Draft {
    path: String,
    shape: Vec<u64>,
    data_type: DataType,
    element_size: u64,
    text: Option<TextForm>,
    big_endian: bool,
    fill: Vec<u8>,
    /// The fill as it is stored, if that is something else.
    stored_fill: Option<Vec<u8>>,
    unsupported: Option<String>,
}

impl Builder<'_> {
    fn group(&mut self, node: GroupNode, path: &str) -> Result<Group, NetcdfError> {
        let index = self.groups;
        self.groups = self.groups.saturating_add(1);
        let mut group = Group {
            name: node.name,
            attributes: RawAttribute::visible(self.store, &node.attributes)?,
            ..Group::default()
        };
        group.dimensions = self
            .dimensions
            .in_group(index)
            .into_iter()
            .map(|dimension| Dimension {
                name: dimension.name.clone(),
                length: dimension.length,
                unlimited: dimension.unlimited,
            })
            .collect();
        let mut enumerations = Enumerations::default();
        for (place, member) in node.members.into_iter().enumerate() {
            let Member { name, content } = member;
            let name = name.strip_prefix(NOT_A_COORDINATE).map(str::to_owned).unwrap_or(name);
            let path = format!("{path}{name}");
            match content {
                Content::Datatype(_) => {}
                Content::Lost(reason) => group.variables.push(self.lost(name, path, reason)),
                Content::Dataset(dataset) => {
                    if let Some(used) = self.dimensions.of.get(&(index, place)) {
                        let used = used.clone();
                        enumerations.add(&name, &dataset.kind);
                        let variable = self.variable(name, path, *dataset, &used)?;
                        group.variables.push(variable);
                    }
                }
            }
        }
        enumerations.add_to(&mut group.attributes);
        for child in node.groups {
            let path = format!("{path}{}/", child.name);
            group.groups.push(self.group(child, &path)?);
        }
        Ok(group)
    }

    /// A member that cannot be opened at all: shown, so that it is not lost silently.
    fn lost(&mut self, name: String, path: String, reason: String) -> Variable {
        let id = VariableId(self.stored.len());
        self.stored.push(Stored {
            path,
            extent: Vec::new(),
            chunk_shape: Vec::new(),
            element_size: 0,
            text: None,
            big_endian: false,
            fill: Vec::new(),
            placement: Placement::Nowhere,
        });
        Variable {
            id,
            name,
            dimensions: Vec::new(),
            shape: Vec::new(),
            data_type: DataType::Other,
            attributes: Vec::new(),
            chunk_shape: Vec::new(),
            chunked: false,
            fill: Vec::new(),
            unsupported: Some(reason),
        }
    }

    fn variable(
        &mut self,
        name: String,
        path: String,
        dataset: Dataset,
        used: &[usize],
    ) -> Result<Variable, NetcdfError> {
        let id = VariableId(self.stored.len());
        let attributes = RawAttribute::visible(self.store, &dataset.attributes)?;
        let used: Vec<_> =
            used.iter().filter_map(|index| self.dimensions.all.get(*index)).collect();
        let dimensions = used.iter().map(|dimension| dimension.name.clone()).collect();
        let shape: Vec<u64> = used.iter().map(|dimension| dimension.length).collect();
        let unlimited: Vec<bool> = used.iter().map(|dimension| dimension.unlimited).collect();
        let mut draft = draft(self.store, path, shape, &dataset, &attributes)?;
        draft.refuse_misfit(&dataset, &unlimited);
        let extent = dataset.shape.clone().unwrap_or_default();
        let chunked = matches!(dataset.layout, Layout::Chunked { .. });
        let (placement, chunk_shape) = place(self.store, &mut draft, dataset)?;
        self.stored.push(Stored {
            path: draft.path,
            extent,
            chunk_shape: chunk_shape.clone(),
            element_size: draft.element_size,
            text: draft.text,
            big_endian: draft.big_endian,
            fill: draft.stored_fill.unwrap_or_else(|| draft.fill.clone()),
            placement,
        });
        Ok(Variable {
            id,
            name,
            dimensions,
            shape: draft.shape,
            data_type: draft.data_type,
            attributes,
            chunk_shape,
            chunked,
            fill: draft.fill,
            unsupported: draft.unsupported,
        })
    }
}

fn draft(
    store: &Arc<Store>,
    path: String,
    shape: Vec<u64>,
    dataset: &Dataset,
    attributes: &[Attribute],
) -> Result<Draft, NetcdfError> {
    let (data_type, big_endian, unsupported) = match dataset.kind.element() {
        Element::Number { data_type, big_endian } => (data_type, big_endian, None),
        Element::FixedText if dataset.kind.size == 1 => (DataType::Char, false, None),
        Element::FixedText => {
            return text_draft(store, path, shape, dataset, TextForm::Fixed);
        }
        Element::VariableText => {
            let form = TextForm::Heap(Arc::clone(store));
            return text_draft(store, path, shape, dataset, form);
        }
        Element::Other(reason) => (DataType::Other, false, Some(reason)),
    };
    let element_size = data_type.size().map_or(0, |size| size as u64);
    let fill = fill(dataset, data_type, big_endian, attributes);
    let (text, stored_fill) = (None, None);
    Ok(Draft {
        path,
        shape,
        data_type,
        element_size,
        text,
        big_endian,
        fill,
        stored_fill,
        unsupported,
    })
}

/// Strings: the fill is known as it is stored, and as a text.
fn text_draft(
    store: &Store,
    path: String,
    shape: Vec<u64>,
    dataset: &Dataset,
    form: TextForm,
) -> Result<Draft, NetcdfError> {
    let element_size = dataset.kind.size;
    let reference_bytes = u64::from(store.offset_size).saturating_add(8);
    let sized = match form {
        TextForm::Fixed => (1..=TEXT_BYTES_MAX).contains(&element_size),
        TextForm::Heap(_) => element_size == reference_bytes,
    };
    let size = usize::try_from(element_size).ok().filter(|_| sized).ok_or_else(|| {
        let reason = format!("its texts have an impossible size of {element_size} bytes");
        let what = format!("variable `{path}`");
        NetcdfError::corrupt(what, store.offset(dataset.address), reason)
    })?;
    let stored_fill = match &dataset.fill {
        Fill::Value(value) if value.len() == size => value.clone(),
        _ => vec![0; size],
    };
    let fill = form.text(&path, &stored_fill)?;
    let unsupported = fill.is_none().then(|| "its fill value is not UTF-8".to_owned());
    Ok(Draft {
        path,
        shape,
        data_type: DataType::String,
        element_size,
        text: Some(form),
        big_endian: false,
        fill: fill.unwrap_or_default(),
        stored_fill: Some(stored_fill),
        unsupported,
    })
}

/// What an element reads as that was never written. Where HDF5 leaves that open (`nofill` mode),
/// readers show whatever was in memory; here it is `_FillValue`, else netCDF's default.
fn fill(
    dataset: &Dataset,
    data_type: DataType,
    big_endian: bool,
    attributes: &[Attribute],
) -> Vec<u8> {
    let size = data_type.size().unwrap_or(0);
    match &dataset.fill {
        Fill::Value(value) if value.len() == size => {
            let mut value = value.clone();
            if big_endian {
                value.reverse();
            }
            value
        }
        Fill::Zero => vec![0; size],
        Fill::Undefined | Fill::Value(_) => {
            attribute_fill(attributes, data_type).unwrap_or_else(|| default_fill(data_type))
        }
    }
}

impl Draft {
    fn refuse(&mut self, reason: impl Into<String>) {
        self.unsupported.get_or_insert(reason.into());
    }

    /// Refuses what the dimensions do not describe.
    fn refuse_misfit(&mut self, dataset: &Dataset, unlimited: &[bool]) {
        let Some(extent) = &dataset.shape else {
            return self.refuse("an empty dataspace");
        };
        if *extent == self.shape {
            return;
        }
        let lengths = extent.iter().zip(&self.shape).zip(unlimited);
        for ((stored, length), unlimited) in lengths {
            if stored > length || (stored < length && !unlimited) {
                return self.refuse(format!(
                    "the shape {extent:?} stored differs from that of its dimensions, {:?}",
                    self.shape
                ));
            }
        }
        // What is missing at the end reads as netCDF's default, what is missing before as zero.
        if dataset.fill == Fill::Zero && extent.contains(&0) {
            self.fill = default_fill(self.data_type);
        }
        if dataset.fill == Fill::Zero && self.fill != default_fill(self.data_type) {
            self.refuse(
                "it is shorter than its unlimited dimension and has no fill value for the rest",
            );
        }
    }
}

/// Where the values lie, and the chunk shape.
fn place(
    store: &Arc<Store>,
    draft: &mut Draft,
    dataset: Dataset,
) -> Result<(Placement, Vec<u64>), NetcdfError> {
    if dataset.external {
        draft.refuse("values in external files");
    }
    if dataset.significant.is_some() && !matches!(dataset.layout, Layout::Chunked { .. }) {
        draft.refuse("integers that use only some of their bits outside of chunks");
    }
    let extent = dataset.shape.clone().unwrap_or_default();
    let size = draft.element_size;
    let needed = extent.iter().try_fold(size, |bytes, length| bytes.checked_mul(*length));
    let corrupt = |draft: &Draft, address: u64, reason: &str| {
        let what = format!("variable `{}`", draft.path);
        NetcdfError::corrupt(what, store.offset(address), reason)
    };
    let slab = slab_shape(&draft.shape, size);
    let (address, stated) = match dataset.layout.clone() {
        Layout::Virtual => {
            draft.refuse("a virtual dataset");
            return Ok((Placement::Nowhere, slab));
        }
        Layout::Chunked { shape, .. } if shape.len() != extent.len() => {
            return Err(corrupt(draft, dataset.address, "its chunks have another rank"));
        }
        Layout::Chunked { shape, .. } => {
            let shape = shape.iter().map(|length| u64::from(*length)).collect();
            return Ok((place_chunked(store, draft, dataset)?, shape));
        }
        Layout::Compact { address, size } => (Some(address), Some(size)),
        Layout::Contiguous { address, size } => (address, size),
    };
    let Some(address) = address else { return Ok((Placement::Nowhere, slab)) };
    if draft.unsupported.is_some() {
        return Ok((Placement::Nowhere, slab));
    }
    let end = needed.and_then(|needed| store.offset(address).checked_add(needed));
    match (needed, end) {
        (Some(needed), Some(end)) if end <= store.end && stated.is_none_or(|s| s >= needed) => {}
        _ => return Err(corrupt(draft, address, "its values reach beyond where they may lie")),
    }
    // Slabs follow the stored shape, which an unlimited dimension may exceed.
    let slab = slab_shape(&extent, size);
    Ok((Placement::Contiguous { offset: store.offset(address) }, slab))
}

fn place_chunked(
    store: &Arc<Store>,
    draft: &mut Draft,
    dataset: Dataset,
) -> Result<Placement, NetcdfError> {
    let Layout::Chunked { index, shape: chunk_shape, element_size, edges_unfiltered } =
        dataset.layout
    else {
        return Ok(Placement::Nowhere);
    };
    let pipeline = match dataset.pipeline {
        Ok(pipeline) => pipeline,
        Err(reason) => {
            draft.refuse(reason);
            return Ok(Placement::Nowhere);
        }
    };
    let (Some(address), None) = (index.address, &draft.unsupported) else {
        return Ok(Placement::Nowhere);
    };
    let lengths: Vec<u64> = chunk_shape.iter().map(|length| u64::from(*length)).collect();
    let raw_bytes = product(&lengths).saturating_mul(draft.element_size);
    if draft.text.is_some() && raw_bytes > TEXT_CHUNK_BYTES_MAX {
        draft.refuse(format!("{} strings in one chunk", product(&lengths)));
        return Ok(Placement::Nowhere);
    }
    if raw_bytes > CHUNK_BYTES_MAX || u64::from(element_size) != draft.element_size {
        let what = format!("variable `{}`", draft.path);
        let reason = format!("its chunks have {raw_bytes} bytes of elements of {element_size}");
        return Err(NetcdfError::corrupt(what, store.offset(dataset.address), reason));
    }
    Ok(Placement::Chunked(Arc::new(Chunked {
        store: Arc::clone(store),
        kind: index.kind,
        address,
        chunk_shape,
        shape: dataset.shape.unwrap_or_default(),
        shape_max: dataset.shape_max,
        raw_bytes,
        pipeline,
        significant: dataset.significant,
        edges_unfiltered,
    })))
}
