//! The arrays that the accepted files become.

use std::collections::{BTreeMap, BTreeSet};

use super::along::{along_dimensions, coordinate_of, length};
use super::encoding::{can_be_missing, decoding};
use super::fit::{conversion_between, encoding_refusal};
use super::member::DimensionId;
use super::placement::{self, Direction, Placement, Run, Winner};
use super::refusal::JoinRefusal;
use super::rules::Overlap;
use super::union::{Reference, Union};
use crate::plan::dataset::check_chunk_bytes;
use crate::plan::{ArrayPlan, ArrayTarget, AxisKey, Part, Segment};
use crate::zarr::{
    ArrayMetadata, DataType, GroupMetadata, Hierarchy, Kind, Node, NodePath, ZarrFormat,
    fill_value_attribute, nan_bytes,
};

/// What stands for missing values in arrays that had nothing for it: one element for each.
pub type GapFills = BTreeMap<NodePath, Vec<u8>>;

/// What an epoch puts into the bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochPlan {
    /// All nodes as they will be published.
    pub hierarchy: Hierarchy,
    /// Whether the root document repeats the metadata of all nodes.
    pub consolidated: bool,
    /// The files by order of arrival, in the order of their places. [`Part::member`] counts these.
    pub members: Vec<u64>,
    /// The arrays that get values.
    pub arrays: Vec<ArrayTarget>,
    /// New nodes, whose attributes are those of one file: by its position in `members`.
    pub attributes_from: BTreeMap<usize, Vec<NodePath>>,
    /// Arrays with gaps and nothing that stands for missing values: it has to be chosen, so that
    /// no value of the files is equal to it, and the plan made again.
    pub gaps: Vec<NodePath>,
    /// The dimension that was joined along, for each group that files went into.
    pub axes: BTreeMap<NodePath, String>,
    /// Whether published values are overwritten.
    pub overwrites: bool,
    /// Positions in `members` of files some of whose values those of others took the place of.
    pub superseded: BTreeSet<usize>,
}

/// A dimension that files are joined along, with its length and who stands where.
struct Axis {
    published_length: u64,
    placement: Placement,
    /// The members that the placement counts.
    files: Vec<u64>,
}

impl Axis {
    /// The steps that get values of an array which these members have.
    fn hold(&self, members: &BTreeSet<u64>, winner: Winner, kept: u64) -> Vec<Run> {
        let files = self.files.iter().enumerate();
        let files = files.filter(|(_, order)| members.contains(order)).map(|(file, _)| file);
        self.placement.hold(files, winner, kept)
    }
}

impl Union {
    /// Plans the epoch of all accepted files.
    pub fn plan(&self, fills: &GapFills) -> Result<EpochPlan, JoinRefusal> {
        let axes = self.axes()?;
        let order = self.order(&axes);
        let format = self
            .existing
            .as_ref()
            .map_or(self.encoding.format, |existing| existing.hierarchy.format());
        let mut plan = EpochPlan {
            hierarchy: match &self.existing {
                Some(existing) => existing.hierarchy.clone(),
                None => Hierarchy::new(format, GroupMetadata::default()),
            },
            consolidated: self
                .existing
                .as_ref()
                .map_or(self.encoding.consolidated, |existing| existing.consolidated),
            members: order,
            arrays: Vec::new(),
            attributes_from: BTreeMap::new(),
            gaps: Vec::new(),
            axes: self.state.axes.clone(),
            overwrites: false,
            superseded: BTreeSet::new(),
        };
        self.add_groups(&mut plan);
        // Targets are decided first: bounds need those of their coordinate.
        let targets = self.targets(&plan.members, &axes, fills)?;
        for (path, target) in &targets {
            self.add_array(path, target, &targets, &axes, &mut plan)?;
        }
        Ok(plan)
    }

    /// Who stands where along each dimension.
    fn axes(&self) -> Result<BTreeMap<DimensionId, Axis>, JoinRefusal> {
        let mut ids = BTreeSet::new();
        for member in self.members.values() {
            if let Some(axis) = self.state.axes.get(&member.landing) {
                ids.extend(along_dimensions(member, axis));
            }
        }
        let mut axes = BTreeMap::new();
        for id in ids {
            let axis = self.place(&id)?;
            axes.insert(id, axis);
        }
        Ok(axes)
    }

    fn place(&self, dimension: &DimensionId) -> Result<Axis, JoinRefusal> {
        let published_length = self.published_length(dimension)?;
        let length_of = |order: &u64| self.members.get(order).map_or(0, |m| length(m, dimension));
        // Who has no steps has no place either.
        let mut files: Vec<u64> =
            self.members.keys().filter(|order| length_of(order) > 0).copied().collect();
        if let ([only], 0) = (files.as_slice(), published_length) {
            // Alone it stands as it is.
            let placement = placement::place_lengths(0, &[length_of(only)]);
            return Ok(Axis { published_length, placement, files });
        }
        let keys: Option<Vec<&[AxisKey]>> = files
            .iter()
            .map(|order| {
                let coordinate = coordinate_of(self.members.get(order)?, dimension)?;
                coordinate.keys.as_ref().ok().map(|keys| &**keys)
            })
            .collect();
        let Some(keys) = keys else {
            let name = |order: &u64| self.members.get(order).map(|member| member.name.clone());
            files.sort_by_key(name);
            let lengths: Vec<u64> = files.iter().map(length_of).collect();
            let placement = placement::place_lengths(published_length, &lengths);
            return Ok(Axis { published_length, placement, files });
        };
        let path = dimension.coordinate().ok();
        let existing = self.existing.as_ref().zip(path.as_ref());
        let existing = existing.and_then(|(existing, path)| existing.coordinates.get(path));
        let published: &[AxisKey] = match existing.map(|coordinate| &coordinate.keys) {
            Some(Ok(keys)) => keys,
            _ => &[],
        };
        let mut all = std::iter::once(published).chain(keys.iter().copied());
        let direction = all.find_map(|keys| placement::direction(keys).ok().flatten());
        let direction = direction.unwrap_or(Direction::Ascending);
        let placement = placement::place_keys(published, &keys, direction);
        Ok(Axis { published_length, placement, files })
    }

    /// The files in the order of their places; those without a place last, by name.
    fn order(&self, axes: &BTreeMap<DimensionId, Axis>) -> Vec<u64> {
        let mut first: BTreeMap<u64, u64> = BTreeMap::new();
        for axis in axes.values() {
            for (order, runs) in axis.files.iter().zip(&axis.placement.files) {
                let Some(run) = runs.first() else { continue };
                let at = first.entry(*order).or_insert(run.target);
                *at = run.target.min(*at);
            }
        }
        let mut order: Vec<u64> = self.members.keys().copied().collect();
        order.sort_by_cached_key(|order| {
            let name = self.members.get(order).map(|member| member.name.clone());
            (first.get(order).copied().unwrap_or(u64::MAX), name)
        });
        order
    }

    fn add_groups(&self, plan: &mut EpochPlan) {
        for (position, order) in plan.members.iter().enumerate() {
            let Some(member) = self.members.get(order) else { continue };
            for group in &*member.groups {
                let known = match &self.existing {
                    Some(existing) => existing.hierarchy.get(&group.path).is_some(),
                    None => false,
                };
                let planned = plan.attributes_from.values().flatten().any(|p| *p == group.path);
                if known || planned {
                    continue;
                }
                plan.hierarchy.insert(group.path.clone(), Node::Group(group.metadata.clone()));
                let from = plan.attributes_from.entry(position).or_default();
                from.push(group.path.clone());
            }
            // Groups above the one that was copied into.
            let mut above = member.landing.parent();
            while let Some(path) = above {
                if plan.hierarchy.get(&path).is_none() {
                    let group = Node::Group(GroupMetadata::default());
                    plan.hierarchy.insert(path.clone(), group);
                }
                above = path.parent();
            }
        }
    }

    /// What every array will be.
    fn targets(
        &self,
        members: &[u64],
        axes: &BTreeMap<DimensionId, Axis>,
        fills: &GapFills,
    ) -> Result<BTreeMap<NodePath, Target>, JoinRefusal> {
        let mut with: BTreeMap<&NodePath, Vec<usize>> = BTreeMap::new();
        for (position, order) in members.iter().enumerate() {
            for array in self.members.get(order).iter().flat_map(|member| &member.arrays) {
                with.entry(&array.path).or_default().push(position);
            }
        }
        let mut targets = BTreeMap::new();
        for (path, reference) in &self.state.arrays {
            let along = reference.dimensions.iter().position(|d| axes.contains_key(d));
            let axis = along.and_then(|at| axes.get(reference.dimensions.get(at)?));
            let with: &[usize] = with.get(path).map_or(&[], Vec::as_slice);
            let is_published = reference.plan.is_none();
            let metadata = if is_published {
                reference.metadata.clone()
            } else {
                self.new_metadata(path, reference, with, members, along.is_some())?
            };
            let runs = match (axis, along.and_then(|at| reference.dimensions.get(at))) {
                (Some(axis), Some(dimension)) => {
                    let is_coordinate = dimension.coordinate().is_ok_and(|at| at == *path);
                    self.runs(axis, with, members, is_published, is_coordinate)
                }
                _ => Vec::new(),
            };
            let mut target = Target {
                metadata,
                along,
                is_new: !is_published,
                with: with.to_vec(),
                has_gap: axis.is_some_and(|axis| has_gap(axis, &runs, is_published)),
                runs,
                lacks_fill: false,
            };
            target.grow(axis);
            target.fill_gaps(path, fills);
            if target.is_new {
                self.lay_out(path, &mut target, axis, members)?;
            }
            targets.insert(path.clone(), target);
        }
        Ok(targets)
    }

    /// The steps of an array that get values of files.
    fn runs(
        &self,
        axis: &Axis,
        with: &[usize],
        members: &[u64],
        is_published: bool,
        is_coordinate: bool,
    ) -> Vec<Run> {
        let with = with.iter().filter_map(|position| members.get(*position).copied()).collect();
        // Equal coordinates are never written over each other.
        let winner = match self.rules.overlap {
            Overlap::Replace if !is_coordinate => Winner::Last,
            Overlap::Replace | Overlap::Error | Overlap::Keep => Winner::First,
        };
        let keeps = is_published && winner == Winner::First;
        axis.hold(&with, winner, if keeps { axis.published_length } else { 0 })
    }

    /// The metadata of an array that is not published yet: of the first file that has it. If files are
    /// joined along it, in the encoding that has been found good for the values of all.
    fn new_metadata(
        &self,
        path: &NodePath,
        reference: &Reference,
        with: &[usize],
        members: &[u64],
        is_joined: bool,
    ) -> Result<ArrayMetadata, JoinRefusal> {
        let first = with.first().and_then(|position| {
            let member = self.members.get(members.get(*position)?)?;
            Some((member, member.array(path)?))
        });
        let Some((member, array)) = first else {
            return Err(JoinRefusal::Missing {
                variable: path.to_string(),
                other: "every file".to_owned(),
            });
        };
        let unpacked = self.unpacked(array, &member.name)?;
        let own = unpacked.unwrap_or_else(|| array.metadata.clone());
        let is_good = !is_joined || decoding(&own) == decoding(&reference.metadata);
        Ok(if is_good { own } else { reference.metadata.clone() })
    }

    /// The chunk grid of a new array.
    fn lay_out(
        &self,
        path: &NodePath,
        target: &mut Target,
        axis: Option<&Axis>,
        members: &[u64],
    ) -> Result<(), JoinRefusal> {
        let first = target.with.first().and_then(|position| members.get(*position));
        let plan = first.and_then(|order| self.members.get(order)).and_then(|m| m.array(path));
        let Some(plan) = plan else { return Ok(()) };
        let mut growing = plan.growing.clone();
        let joined = axis.is_some_and(|axis| axis.files.len() > 1 || axis.published_length > 0);
        if let (Some(along), true) = (target.along, joined)
            && let Some(growing) = growing.get_mut(along)
        {
            *growing = true;
        }
        if self.is_of_one_file && self.encoding.format == ZarrFormat::V2 {
            // netCDF-C 4.9.0, of Debian 12, opens no format 2 with chunks longer than the array.
            growing.fill(false);
        }
        let mut grid = ArrayPlan::clone(plan);
        grid.metadata.data_type = target.metadata.data_type;
        target.metadata.chunk_shape =
            grid.chunk_shape(&target.metadata.shape, &growing, &self.encoding);
        Ok(check_chunk_bytes(path, &target.metadata).map_err(Box::new)?)
    }

    fn add_array(
        &self,
        path: &NodePath,
        target: &Target,
        targets: &BTreeMap<NodePath, Target>,
        axes: &BTreeMap<DimensionId, Axis>,
        plan: &mut EpochPlan,
    ) -> Result<(), JoinRefusal> {
        if target.lacks_fill {
            plan.gaps.push(path.clone());
        }
        if target.is_new
            && let Some(first) = target.with.first()
        {
            plan.attributes_from.entry(*first).or_default().push(path.clone());
        }
        plan.hierarchy.insert(path.clone(), Node::Array(target.metadata.clone()));
        let dimension = target.along.and_then(|at| {
            self.state.arrays.get(path).and_then(|reference| reference.dimensions.get(at))
        });
        let axis = dimension.and_then(|dimension| axes.get(dimension));
        let mut array = ArrayTarget {
            path: path.clone(),
            metadata: target.metadata.clone(),
            axis: target.along.unwrap_or(0),
            published_length: 0,
            has_objects: self.existing.is_some(),
            parts: Vec::new(),
            segments: Vec::new(),
        };
        let is_written = match (axis, target.with.first()) {
            (Some(axis), _) => {
                if !target.is_new {
                    array.published_length = axis.published_length;
                }
                self.place_parts(&mut array, target, targets, axis, plan)?;
                let grows = array.published_length < axis.placement.length;
                !array.segments.is_empty() || (grows && !target.is_new)
            }
            // What is the same in all files is taken from the first.
            (None, Some(first)) if target.is_new => {
                array.parts.push(self.part(path, *first, plan, targets)?);
                let length = target.metadata.shape.first().copied().unwrap_or(1);
                array.segments.push(Segment { target: 0, source: 0, length, part: 0 });
                true
            }
            (None, _) => false,
        };
        if is_written {
            plan.overwrites |=
                array.segments.iter().any(|segment| segment.target < array.published_length);
            plan.arrays.push(array);
        }
        Ok(())
    }

    /// Puts the parts of an array where their files stand.
    fn place_parts(
        &self,
        array: &mut ArrayTarget,
        target: &Target,
        targets: &BTreeMap<NodePath, Target>,
        axis: &Axis,
        plan: &mut EpochPlan,
    ) -> Result<(), JoinRefusal> {
        let with = target.with.iter();
        let with: BTreeMap<u64, usize> =
            with.filter_map(|position| Some((*plan.members.get(*position)?, *position))).collect();
        let mut parts: BTreeMap<usize, usize> = BTreeMap::new();
        if self.rules.overlap == Overlap::Replace {
            plan.superseded.extend(superseded(axis, &target.runs, &with));
        }
        for run in &target.runs {
            let position = axis.files.get(run.file).and_then(|order| with.get(order));
            let Some(position) = position else { continue };
            let part = if let Some(part) = parts.get(position) {
                *part
            } else {
                array.parts.push(self.part(&array.path, *position, plan, targets)?);
                parts.insert(*position, array.parts.len() - 1);
                array.parts.len() - 1
            };
            let Run { target, source, length, .. } = *run;
            array.segments.push(Segment { target, source, length, part });
        }
        Ok(())
    }

    fn part(
        &self,
        path: &NodePath,
        position: usize,
        plan: &EpochPlan,
        targets: &BTreeMap<NodePath, Target>,
    ) -> Result<Part, JoinRefusal> {
        let gone =
            || JoinRefusal::Missing { variable: path.to_string(), other: "every file".to_owned() };
        let member = plan.members.get(position).and_then(|order| self.members.get(order));
        let member = member.ok_or_else(gone)?;
        let array = member.array(path).ok_or_else(gone)?;
        let target = targets.get(path).ok_or_else(gone)?;
        let parent = |path: &NodePath| targets.get(path).map(|target| &target.metadata);
        let conversion = conversion_between(member, array, &target.metadata, parent)
            .map_err(|reason| encoding_refusal(path, reason, &member.name))?;
        Ok(Part {
            member: position,
            variable: array.variable,
            shape: array.metadata.shape.clone(),
            source_chunk_shape: array.source_chunk_shape.clone(),
            source_fill: array.source_fill.clone(),
            conversion,
        })
    }
}

/// What an array will be.
struct Target {
    metadata: ArrayMetadata,
    /// The dimension that files are joined along.
    along: Option<usize>,
    is_new: bool,
    /// Positions of the files that have it.
    with: Vec<usize>,
    /// The steps that get values.
    runs: Vec<Run>,
    has_gap: bool,
    lacks_fill: bool,
}

impl Target {
    fn grow(&mut self, axis: Option<&Axis>) {
        if let (Some(axis), Some(along)) = (axis, self.along)
            && let Some(length) = self.metadata.shape.get_mut(along)
        {
            *length = axis.placement.length;
        }
    }

    /// Sees to it that gaps of a new array can be told from values.
    fn fill_gaps(&mut self, path: &NodePath, fills: &GapFills) {
        if !self.has_gap || !self.is_new || can_be_missing(&self.metadata) {
            return;
        }
        let data_type = self.metadata.data_type;
        let fill = match data_type.kind() {
            Kind::Float => nan_bytes(data_type),
            // The empty text is written out: as a fill value it would mean missing elsewhere too.
            Kind::Text => return,
            Kind::Signed | Kind::Unsigned => fills.get(path).cloned(),
        };
        let Some(fill) = fill else {
            self.lacks_fill = true;
            return;
        };
        if self.metadata.format == ZarrFormat::V3
            && let Ok(attribute) = fill_value_attribute(data_type, &fill)
        {
            self.metadata.attributes.insert("_FillValue".to_owned(), attribute);
        }
        self.metadata.fill_value = Some(fill);
    }
}

/// Which files of those that have an array do not give all of its values that they have.
fn superseded<'a>(
    axis: &'a Axis,
    runs: &[Run],
    with: &'a BTreeMap<u64, usize>,
) -> impl Iterator<Item = usize> + 'a {
    let mut given = vec![0; axis.files.len()];
    for run in runs {
        if let Some(given) = given.get_mut(run.file) {
            *given += run.length;
        }
    }
    let placed = axis.placement.files.iter().map(|runs| runs.iter().map(|run| run.length).sum());
    axis.files
        .iter()
        .zip(placed)
        .zip(given)
        .filter(|((_, placed), given): &((_, u64), u64)| given < placed)
        .filter_map(|((order, _), _)| with.get(order).copied())
}

/// Whether some steps get no values, besides those that are published.
fn has_gap(axis: &Axis, runs: &[Run], is_published: bool) -> bool {
    let first = if is_published { axis.published_length } else { 0 };
    let given: u64 = runs
        .iter()
        .map(|run| (run.target + run.length).saturating_sub(run.target.max(first)))
        .sum();
    given < axis.placement.length - first
}

/// Values that can stand for missing integers, the customary ones first.
pub fn fill_candidates(data_type: DataType) -> Vec<Vec<u8>> {
    let (least, most): (i128, i128) = match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return Vec::new(),
    };
    let near = |from: i128, step: i128| (0..32).map(move |n| from + n * step);
    // The default of netCDF for signed types lies one or two above the least.
    let all = near(least + 1, 1).chain([least]).chain(near(most, -1)).chain([0]);
    let mut candidates: Vec<Vec<u8>> = Vec::new();
    for value in all.filter(|value| (least..=most).contains(value)) {
        if let Some(bytes) = crate::zarr::Scalar::Integer(value).to_bytes(data_type)
            && !candidates.contains(&bytes)
        {
            candidates.push(bytes);
        }
    }
    candidates
}
