//! Which dimensions a file has and which ones each variable uses, as netCDF-C works it out
//! (`libhdf5/hdf5open.c`).
//!
//! - A *dimension scale* (attribute `CLASS` = `DIMENSION_SCALE`) declares a dimension in its
//!   group. It is also a coordinate variable, unless its `NAME` says that it is none.
//! - A variable names its dimensions by the hidden attribute `_Netcdf4Coordinates` (dimension ids,
//!   which scales have in `_Netcdf4Dimid`), or by `DIMENSION_LIST` (references to scales; of
//!   several the last counts).
//! - If it has neither, dimensions are made up: `phony_dim_N`, where *N* is the next free
//!   dimension id of the file. One of the group with the same length serves again, but not twice
//!   for one variable. Child groups are gone through before their parents.

use std::collections::HashMap;

use super::attribute::RawAttribute;
use super::dataset::Dataset;
use super::store::Store;
use super::tree::{Content, GroupNode};
use super::types::{Element, Type};
use crate::netcdf::error::NetcdfError;

/// `NAME` of scales that are dimensions only (followed by the length).
const WITHOUT_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable.";

/// Index of a group in the order of visiting, of a dimension in [`Dimensions::all`].
type GroupIndex = usize;
pub(super) type DimensionIndex = usize;

/// A dimension of the file.
#[derive(Debug)]
pub(super) struct FoundDimension {
    pub(super) name: String,
    pub(super) length: u64,
    pub(super) unlimited: bool,
    pub(super) group: GroupIndex,
    id: i64,
    /// Object header of the scale; `None` for a made-up dimension.
    scale: Option<u64>,
}

/// Where a dataset is: group and place among its members.
pub(super) type Place = (GroupIndex, usize);

/// All dimensions, and what each dataset uses.
#[derive(Debug, Default)]
pub(super) struct Dimensions {
    pub(super) all: Vec<FoundDimension>,
    /// By dataset. Datasets that are dimensions only are missing.
    pub(super) of: HashMap<Place, Vec<DimensionIndex>>,
    /// Parents of groups.
    parents: Vec<Option<GroupIndex>>,
    next_id: i64,
}

/// A dataset to be matched with dimensions.
struct Pending<'a> {
    place: Place,
    dataset: &'a Dataset,
    /// Its own dimension if it is a coordinate variable.
    own: Option<DimensionIndex>,
    /// Whether netCDF-C knows its type. The others must not shift the numbers of made-up names.
    known_type: bool,
}

pub(super) fn find(store: &Store, root: &GroupNode) -> Result<Dimensions, NetcdfError> {
    let mut found = Dimensions::default();
    let mut pending = Vec::new();
    let mut named_types = Vec::new();
    found.declare(store, root, None, &mut named_types, &mut pending);
    // Children first.
    let order = found.children_first();
    let mut unknown = Vec::new();
    for group in order {
        for dataset in pending.iter().filter(|dataset| dataset.place.0 == group) {
            if dataset.known_type {
                found.assign(store, dataset)?;
            } else {
                unknown.push(dataset);
            }
        }
    }
    for dataset in unknown {
        found.assign(store, dataset)?;
    }
    found.stretch_unlimited(&pending);
    Ok(found)
}

impl Dimensions {
    /// The dimensions of a group in the order of their ids.
    pub(super) fn in_group(&self, group: GroupIndex) -> Vec<&FoundDimension> {
        let mut here: Vec<_> = self.all.iter().filter(|d| d.group == group).collect();
        here.sort_by_key(|dimension| dimension.id);
        here
    }

    /// Goes through the groups in the order of visiting and declares their scales.
    fn declare<'a>(
        &mut self,
        store: &Store,
        node: &'a GroupNode,
        parent: Option<GroupIndex>,
        named_types: &mut Vec<&'a Type>,
        pending: &mut Vec<Pending<'a>>,
    ) {
        let group = self.parents.len();
        self.parents.push(parent);
        for (index, member) in node.members.iter().enumerate() {
            let dataset = match &member.content {
                Content::Datatype(named) => {
                    named_types.push(named);
                    continue;
                }
                Content::Lost(_) => continue,
                Content::Dataset(dataset) => dataset,
            };
            let own = self.declare_scale(store, dataset, &member.name, group);
            if own.is_some() && is_dimension_only(store, dataset) {
                continue;
            }
            let named = dataset.committed
                || named_types.iter().any(|named| named.datatype == dataset.kind.datatype);
            let known_type = !dataset.kind.is_user_defined() || named;
            pending.push(Pending { place: (group, index), dataset, own, known_type });
        }
        for child in &node.groups {
            self.declare(store, child, Some(group), named_types, pending);
        }
    }

    fn declare_scale(
        &mut self,
        store: &Store,
        dataset: &Dataset,
        name: &str,
        group: GroupIndex,
    ) -> Option<DimensionIndex> {
        let (length, max) = match (dataset.shape.as_deref(), dataset.shape_max.as_slice()) {
            (Some([length, ..]), [max, ..]) if is_scale(store, dataset) => (*length, *max),
            _ => return None,
        };
        let given = dataset.attribute("_Netcdf4Dimid").and_then(RawAttribute::as_i32);
        let id = given.and_then(|ids| ids.first().copied()).map(i64::from);
        let id = id.filter(|id| *id >= 0).unwrap_or(self.next_id);
        self.next_id = self.next_id.max(id.saturating_add(1));
        self.all.push(FoundDimension {
            name: name.to_owned(),
            length,
            unlimited: max == u64::MAX,
            group,
            id,
            scale: Some(dataset.address),
        });
        self.all.len().checked_sub(1)
    }

    /// Groups ordered so that children come before their parents, siblings in order.
    fn children_first(&self) -> Vec<GroupIndex> {
        fn visit(parents: &[Option<GroupIndex>], group: GroupIndex, order: &mut Vec<GroupIndex>) {
            for (child, parent) in parents.iter().enumerate() {
                if *parent == Some(group) {
                    visit(parents, child, order);
                }
            }
            order.push(group);
        }
        let mut order = Vec::new();
        visit(&self.parents, 0, &mut order);
        order
    }

    fn assign(&mut self, store: &Store, pending: &Pending<'_>) -> Result<(), NetcdfError> {
        let dataset = pending.dataset;
        let shape = dataset.shape.as_deref().unwrap_or_default();
        let by_scale = match (pending.own, shape.len()) {
            (Some(own), 1) => vec![Some(own)],
            _ => self.stated(store, pending)?,
        };
        let mut used: Vec<DimensionIndex> = Vec::new();
        for (d, length) in shape.iter().enumerate() {
            let stated = by_scale.get(d).copied().flatten();
            let unlimited = dataset.shape_max.get(d) == Some(&u64::MAX);
            let group = pending.place.0;
            let index = match stated {
                Some(index) => index,
                None => self.made_up(group, *length, unlimited, &used),
            };
            used.push(index);
        }
        self.of.insert(pending.place, used);
        Ok(())
    }

    /// The dimensions that attributes state, by dimension of the dataset.
    fn stated(
        &self,
        store: &Store,
        pending: &Pending<'_>,
    ) -> Result<Vec<Option<DimensionIndex>>, NetcdfError> {
        let dataset = pending.dataset;
        let rank = dataset.shape.as_ref().map_or(0, Vec::len);
        let ids = dataset.attribute("_Netcdf4Coordinates").and_then(RawAttribute::as_i32);
        if let Some(ids) = ids.filter(|ids| ids.len() == rank) {
            let by_id =
                |id: &i32| self.all.iter().position(|dimension| dimension.id == i64::from(*id));
            let stated: Vec<_> = ids.iter().map(by_id).collect();
            if stated.iter().all(Option::is_some) {
                return Ok(stated);
            }
        }
        let Some(attribute) = dataset.attribute("DIMENSION_LIST") else { return Ok(Vec::new()) };
        if !matches!(attribute.kind.element(), Element::Other(_)) {
            let offset = attribute.offset(store);
            let reason = "it does not hold references";
            return Err(NetcdfError::corrupt("attribute `DIMENSION_LIST`", offset, reason));
        }
        let lists = attribute.reference_lists(store)?;
        // Without a scale for the first dimension netCDF-C takes none to be attached.
        if lists.first().is_none_or(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let group = pending.place.0;
        Ok(lists.iter().map(|list| self.by_scale(group, *list.last()?)).collect())
    }

    /// The dimension of a scale, if it is declared in the group or one of its parents.
    fn by_scale(&self, group: GroupIndex, address: u64) -> Option<DimensionIndex> {
        let mut at = Some(group);
        while let Some(group) = at {
            let here = self
                .all
                .iter()
                .position(|dimension| dimension.group == group && dimension.scale == Some(address));
            if here.is_some() {
                return here;
            }
            at = self.parents.get(group).copied().flatten();
        }
        None
    }

    fn made_up(
        &mut self,
        group: GroupIndex,
        length: u64,
        unlimited: bool,
        used: &[DimensionIndex],
    ) -> DimensionIndex {
        let again = self.all.iter().enumerate().position(|(index, dimension)| {
            dimension.group == group
                && dimension.length == length
                // netCDF-C takes a length of zero (`NC_UNLIMITED`) for an unlimited dimension.
                && (dimension.unlimited || dimension.length == 0) == unlimited
                && !used.contains(&index)
        });
        if let Some(index) = again {
            return index;
        }
        let (id, name) = (self.next_id, format!("phony_dim_{}", self.next_id));
        self.next_id = self.next_id.saturating_add(1);
        let index = self.all.len();
        self.all.push(FoundDimension { name, length, unlimited, group, id, scale: None });
        index
    }

    /// An unlimited dimension is as long as the longest variable along it.
    fn stretch_unlimited(&mut self, pending: &[Pending<'_>]) {
        let mut longest: HashMap<DimensionIndex, u64> = HashMap::new();
        for dataset in pending {
            let shape = dataset.dataset.shape.as_deref().unwrap_or_default();
            let dimensions = self.of.get(&dataset.place).map(Vec::as_slice).unwrap_or_default();
            for (dimension, length) in dimensions.iter().zip(shape) {
                let longest = longest.entry(*dimension).or_default();
                *longest = (*longest).max(*length);
            }
        }
        for (index, dimension) in self.all.iter_mut().enumerate() {
            if dimension.unlimited {
                dimension.length = longest.get(&index).copied().unwrap_or(0);
            }
        }
    }
}

fn is_scale(store: &Store, dataset: &Dataset) -> bool {
    let class = dataset.attribute("CLASS").and_then(|class| class.as_text(store));
    class.is_some_and(|class| class == "DIMENSION_SCALE")
}

fn is_dimension_only(store: &Store, dataset: &Dataset) -> bool {
    let name = dataset.attribute("NAME").and_then(|name| name.as_text(store));
    name.is_some_and(|name| name.starts_with(WITHOUT_VARIABLE))
}
