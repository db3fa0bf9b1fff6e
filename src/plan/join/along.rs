//! Which file stands where along the dimensions that files are joined along, and whether one more has
//! a place there.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::encoding::describe;
use super::findings::{Findings, Overlapping};
use super::fit::After;
use super::member::{Coordinate, DimensionId, Member, dimensions};
use super::placement::{self, Direction, Misplaced};
use super::refusal::JoinRefusal;
use super::rules::Overlap;
use super::union::Union;
use crate::plan::AxisKey;
use crate::zarr::product;

/// How many values a message names.
const VALUES_NAMED: usize = 3;

/// The files along one dimension.
#[derive(Debug, Clone, Default)]
pub(super) struct Along {
    /// Which files have which value at which step, in the order of arrival.
    keys: BTreeMap<AxisKey, Vec<(u64, u64)>>,
    direction: Option<(Direction, String)>,
    /// A file without coordinates.
    without: Option<String>,
    /// A file whose coordinates have no order, with the reason: it can only stand alone.
    unordered: Option<(String, String)>,
    /// Whether any file has steps along it.
    is_taken: bool,
}

impl Along {
    /// Enters a file.
    fn insert(&mut self, order: u64, member: &Member, dimension: &DimensionId) {
        if length(member, dimension) == 0 {
            return;
        }
        self.is_taken = true;
        let name = || member.name.clone();
        let Some(coordinate) = coordinate_of(member, dimension) else {
            self.without = Some(name());
            return;
        };
        let keys = match &coordinate.keys {
            Ok(keys) => keys,
            Err(reason) => {
                self.unordered = Some((name(), reason.clone()));
                return;
            }
        };
        for (step, key) in (0..).zip(keys.iter()) {
            self.keys.entry(key.clone()).or_default().push((order, step));
        }
        match placement::direction(keys) {
            Ok(Some(direction)) if self.direction.is_none() => {
                self.direction = Some((direction, name()));
            }
            Ok(_) => {}
            Err(misplaced) => {
                let value = value_at(member, dimension, &misplaced);
                let reason = format!("the values are neither ascending nor descending at {value}");
                self.unordered = Some((name(), reason));
            }
        }
    }
}

/// The files along each dimension.
pub(super) type AllAlong = BTreeMap<DimensionId, Along>;

impl Union {
    /// Enters a file along the dimension that it is joined along.
    pub(super) fn index(&mut self, order: u64, member: &Member) {
        if let Some(axis) = self.state.axes.get(&member.landing) {
            enter(&mut self.state.along, axis, order, member);
        }
    }

    /// The files along the dimension of this name, also if it was not known before that they are
    /// joined along it.
    pub(super) fn along(&self, axis: &str, member: &Member) -> Cow<'_, AllAlong> {
        if self.state.axes.contains_key(&member.landing) {
            return Cow::Borrowed(&self.state.along);
        }
        let mut all = self.state.along.clone();
        for (order, other) in &self.members {
            if other.landing == member.landing {
                enter(&mut all, axis, *order, other);
            }
        }
        Cow::Owned(all)
    }

    /// Whether the coordinates of a file have a place, and which are there already.
    pub(super) fn check_place(
        &self,
        member: &Member,
        dimension: &DimensionId,
        along: Option<&Along>,
        after: &After<'_>,
        findings: &mut Findings,
    ) -> Result<(), JoinRefusal> {
        let Ok(path) = dimension.coordinate() else { return Ok(()) };
        if length(member, dimension) == 0 {
            return Ok(());
        }
        let name = || path.to_string();
        let nothing = Along::default();
        let along = along.unwrap_or(&nothing);
        let published = self.existing.as_ref().and_then(|e| e.coordinates.get(&path));
        let is_published = self.published_length(dimension)? > 0;
        let Some(coordinate) = member.coordinates.get(&path) else {
            // A missing coordinate that others have is a gap in it, which has been refused.
            return Ok(());
        };
        if let (Some(other), true) = (&along.without, published.is_none()) {
            return Err(JoinRefusal::NewCoordinate { coordinate: name(), other: other.clone() });
        }
        if is_published && published.is_none() {
            let other = "the dataset".to_owned();
            return Err(JoinRefusal::NewCoordinate { coordinate: name(), other });
        }
        if !along.is_taken && !is_published {
            // Alone it may be as it likes.
            return Ok(());
        }
        if let Some((other, reason)) = &along.unordered {
            let reason = format!("{reason} in {other}");
            return Err(JoinRefusal::Coordinate { coordinate: name(), reason });
        }
        let reason = |reason: &String| JoinRefusal::Coordinate {
            coordinate: name(),
            reason: reason.clone(),
        };
        let published_keys: &[AxisKey] = match published {
            Some(published) => published.keys.as_ref().map_err(reason)?,
            None => &[],
        };
        let keys = coordinate.keys.as_ref().map_err(reason)?;
        let monotonic = |keys: &[AxisKey]| {
            placement::direction(keys).map_err(|misplaced| JoinRefusal::NotMonotonic {
                coordinate: name(),
                value: value_at(member, dimension, &misplaced),
            })
        };
        let of_dataset = monotonic(published_keys)?.map(|d| (d, "the dataset".to_owned()));
        let own = monotonic(keys)?;
        let before = of_dataset.or_else(|| along.direction.clone());
        let direction = match (before, own) {
            (Some((before, other)), Some(own)) if before != own => {
                return Err(JoinRefusal::OtherDirection { coordinate: name(), other });
            }
            (before, own) => before.map(|(d, _)| d).or(own).unwrap_or_default(),
        };
        if let Err(misplaced) = placement::check_behind(published_keys, keys, direction) {
            let Misplaced::Insertion { before, .. } = misplaced else { return Ok(()) };
            return Err(JoinRefusal::Insertion {
                coordinate: dimension.name.clone(),
                value: value_at(member, dimension, &misplaced),
                moved_bytes: self.bytes_behind(dimension, before),
            });
        }
        if self.rules.overlap != Overlap::Error {
            return Ok(());
        }
        let steps = (0..).zip(keys.iter()).filter_map(|(step, key)| {
            let published = placement::find(published_keys, key, direction).ok();
            let files = along.keys.get(key).map_or(&[][..], Vec::as_slice);
            let is_there = published.is_some() || !files.is_empty();
            is_there.then_some(Taken { step, published: published.map(|at| at as u64), files })
        });
        let steps: Vec<Taken<'_>> = steps.collect();
        self.find_overlaps(member, dimension, &steps, after, findings)
    }

    /// For each array: with whom its values have to be compared. Not every file has every array.
    fn find_overlaps(
        &self,
        member: &Member,
        dimension: &DimensionId,
        steps: &[Taken<'_>],
        after: &After<'_>,
        findings: &mut Findings,
    ) -> Result<(), JoinRefusal> {
        let Ok(coordinate) = dimension.coordinate() else { return Ok(()) };
        if steps.is_empty() {
            return Ok(());
        }
        for array in &member.arrays {
            let axis = dimensions(array).position(|d| d == *dimension);
            let Some(axis) = axis.filter(|_| array.path != coordinate) else { continue };
            let before = self.state.arrays.get(&array.path);
            let Some(before) = before else { continue };
            let is_published = before.plan.is_none();
            let mut have: HashMap<u64, bool> = HashMap::new();
            let mut has = |order: u64| {
                let other = self.members.get(&order);
                let has = || other.is_some_and(|other| other.array(&array.path).is_some());
                *have.entry(order).or_insert_with(has)
            };
            let mut overlaps: BTreeMap<Option<u64>, Vec<(u64, u64)>> = BTreeMap::new();
            for taken in steps {
                if let (Some(at), true) = (taken.published, is_published) {
                    overlaps.entry(None).or_default().push((taken.step, at));
                } else if let Some((order, at)) = taken.files.iter().find(|(order, _)| has(*order))
                {
                    overlaps.entry(Some(*order)).or_default().push((taken.step, *at));
                }
            }
            for (other, steps) in overlaps {
                let from = self.name_of(other);
                let there = match other.and_then(|order| self.members.get(&order)) {
                    Some(other) => match other.array(&array.path) {
                        Some(plan) => Some(after.conversion(other, plan, &from)?),
                        None => None,
                    },
                    None => None,
                };
                findings.overlaps.push(Overlapping {
                    path: array.path.clone(),
                    axis,
                    dimension: dimension.name.clone(),
                    coordinate: coordinate.clone(),
                    other,
                    steps,
                    here: after.conversion(member, array, &from)?,
                    there,
                });
            }
        }
        Ok(())
    }

    /// The refusal of values that differ from those that are there.
    pub fn overlap_refusal(
        &self,
        member: &Member,
        overlap: &Overlapping,
        steps: &[u64],
    ) -> JoinRefusal {
        let metadata = member.array(&overlap.coordinate).map(|array| &array.metadata);
        let keys = member.coordinates.get(&overlap.coordinate).and_then(|c| c.keys.as_ref().ok());
        let described = steps.iter().take(VALUES_NAMED).filter_map(|step| {
            let key = keys?.get(usize::try_from(*step).ok()?)?;
            Some(describe(key, metadata?))
        });
        let mut values = described.collect::<Vec<_>>().join(", ");
        if steps.len() > VALUES_NAMED {
            values = format!("{values} and {} more", steps.len() - VALUES_NAMED);
        }
        JoinRefusal::Overlap {
            coordinate: overlap.dimension.clone(),
            values,
            count: steps.len(),
            variable: overlap.path.to_string(),
            other: self.name_of(overlap.other),
        }
    }

    /// Length of a dimension in the published arrays; 0 if there are none along it.
    pub(super) fn published_length(&self, dimension: &DimensionId) -> Result<u64, JoinRefusal> {
        let mut length = None;
        for reference in self.state.arrays.values().filter(|r| r.plan.is_none()) {
            let along = reference.dimensions.iter().zip(&reference.metadata.shape);
            for (_, here) in along.filter(|(d, _)| *d == dimension) {
                if length.is_some_and(|length| length != *here) {
                    return Err(JoinRefusal::Lengths { dimension: dimension.name.clone() });
                }
                length = Some(*here);
            }
        }
        Ok(length.unwrap_or(0))
    }

    /// Bytes of the published values from this step on.
    fn bytes_behind(&self, dimension: &DimensionId, step: u64) -> u64 {
        let published = self.state.arrays.values().filter(|reference| reference.plan.is_none());
        let bytes = published.filter_map(|reference| {
            let axis = reference.dimensions.iter().position(|d| d == dimension)?;
            let mut shape = reference.metadata.shape.clone();
            let length = shape.get_mut(axis)?;
            *length = length.saturating_sub(step);
            product(reference.metadata.data_type.size() as u64, &shape)
        });
        bytes.fold(0, u64::saturating_add)
    }
}

/// A step of a new file whose coordinate is there already.
struct Taken<'a> {
    step: u64,
    /// Where it is published.
    published: Option<u64>,
    /// The files that have it, and where.
    files: &'a [(u64, u64)],
}

fn enter(all: &mut AllAlong, axis: &str, order: u64, member: &Member) {
    for dimension in along_dimensions(member, axis) {
        all.entry(dimension.clone()).or_default().insert(order, member, &dimension);
    }
}

/// The value that has no place, for people.
fn value_at(member: &Member, dimension: &DimensionId, misplaced: &Misplaced) -> String {
    let (Misplaced::NotMonotonic { step } | Misplaced::Insertion { step, .. }) = misplaced;
    let key = coordinate_of(member, dimension)
        .and_then(|coordinate| coordinate.keys.as_ref().ok()?.get(*step));
    let array = dimension.coordinate().ok().and_then(|path| member.array(&path));
    key.zip(array).map_or_else(String::new, |(key, array)| describe(key, &array.metadata))
}

/// Steps that a file has along a dimension.
pub(super) fn length(member: &Member, dimension: &DimensionId) -> u64 {
    let lengths = member.arrays.iter().flat_map(|array| {
        dimensions(array).zip(&array.metadata.shape).filter(|(d, _)| d == dimension)
    });
    lengths.map(|(_, length)| *length).next().unwrap_or(0)
}

/// The dimensions of this name that arrays of the file have.
pub(super) fn along_dimensions(member: &Member, axis: &str) -> Vec<DimensionId> {
    let mut found: Vec<DimensionId> = Vec::new();
    for array in &member.arrays {
        for dimension in dimensions(array).filter(|dimension| dimension.name == axis) {
            if !found.contains(&dimension) {
                found.push(dimension);
            }
        }
    }
    found
}

pub(super) fn coordinate_of<'a>(
    member: &'a Member,
    dimension: &DimensionId,
) -> Option<&'a Coordinate> {
    dimension.coordinate().ok().and_then(|path| member.coordinates.get(&path))
}
