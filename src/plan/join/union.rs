//! The files that have been accepted so far.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::differences::{Difference, compare};
use super::encoding::{can_be_missing, common, conversion, decoding, describe, is_text, unpacked};
use super::existing::Existing;
use super::member::{Coordinate, DimensionId, Member, dimensions, is_interchangeable};
use super::placement::{self, Direction, Misplaced};
use super::refusal::JoinRefusal;
use super::rules::{Overlap, Rules, SchemaRule};
use crate::netcdf::VariableId;
use crate::plan::{ArrayPlan, AxisKey, Conversion, ConversionRefusal, Encoding};
use crate::zarr::{ArrayMetadata, NodePath, product};

/// How many values a message names.
const VALUES_NAMED: usize = 3;

/// The files that have been accepted so far, with what is published.
#[derive(Debug, Clone)]
pub struct Union {
    pub(super) rules: Rules,
    pub(super) encoding: Encoding,
    pub(super) existing: Option<Arc<Existing>>,
    /// By order of arrival.
    pub(super) members: BTreeMap<u64, Arc<Member>>,
    pub(super) state: State,
    /// Whether nothing will be joined with the first file.
    pub(super) is_of_one_file: bool,
}

/// What follows from the members.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) arrays: BTreeMap<NodePath, Reference>,
    groups: BTreeMap<NodePath, String>,
    /// The dimension joined along, for each group that files are copied into.
    pub(super) axes: BTreeMap<NodePath, String>,
    along: BTreeMap<DimensionId, Along>,
}

/// What an array of another file is compared with.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    /// Of the file that it came with; `None` for what is published.
    pub(super) plan: Option<(u64, Arc<ArrayPlan>)>,
    pub(super) metadata: ArrayMetadata,
    pub(super) dimensions: Vec<DimensionId>,
    from: String,
}

/// Coordinate values along a dimension that files are joined along.
#[derive(Debug, Clone, Default)]
struct Along {
    /// Which file brought which value at which step.
    keys: BTreeMap<AxisKey, (u64, u64)>,
    direction: Option<(Direction, String)>,
    /// A file without coordinates along it.
    without: Option<String>,
}

/// What is still to be looked at before a file can be accepted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Variables that must have the same values as those of another file.
    pub statics: Vec<StaticArray>,
    /// Values that are there already.
    pub overlaps: Vec<Overlapping>,
    /// Variables whose values decide whether they can be converted.
    pub scans: Vec<Scan>,
    /// For the log.
    pub warnings: Vec<String>,
}

impl Findings {
    fn scan(&mut self, array: &ArrayPlan, conversion: Conversion) {
        if !conversion.is_identity() && !conversion.is_always_exact() {
            let (path, variable) = (array.path.clone(), array.variable);
            self.scans.push(Scan { path, variable, conversion });
        }
    }

    /// What has to be compared with published values.
    #[must_use]
    pub fn of_published(&self) -> Self {
        let mut left = self.clone();
        left.statics.retain(|array| array.other.is_none());
        left.overlaps.retain(|overlap| overlap.other.is_none());
        left.scans.clear();
        left.warnings.clear();
        left
    }
}

/// A variable that must have the same values everywhere.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticArray {
    /// The array.
    pub path: NodePath,
    /// The variable of the new file.
    pub variable: VariableId,
    /// The file to compare with; `None`: the published array.
    pub other: Option<u64>,
    /// What the elements go through before they are compared.
    pub conversion: Conversion,
}

/// Steps of the new file whose coordinates are there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlapping {
    /// The coordinate variable.
    pub coordinate: NodePath,
    /// The dimension.
    pub dimension: String,
    /// Where the values are: a file, or what is published.
    pub other: Option<u64>,
    /// Steps in the new file, and in the other one.
    pub steps: Vec<(u64, u64)>,
}

/// A variable to be converted.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// The array.
    pub path: NodePath,
    /// The variable.
    pub variable: VariableId,
    /// What its elements go through.
    pub conversion: Conversion,
}

/// A file that fits, with what changes by it.
struct Fit {
    axis: Option<String>,
    references: Vec<(NodePath, Reference)>,
    findings: Findings,
}

impl Union {
    /// A union of no files, over what is published.
    pub fn new(rules: Rules, encoding: Encoding, existing: Option<Arc<Existing>>) -> Self {
        let mut union = Self {
            rules,
            encoding,
            existing,
            members: BTreeMap::new(),
            state: State::default(),
            is_of_one_file: false,
        };
        union.begin();
        union
    }

    /// For a dataset that a file has for itself: another version of it replaces all.
    pub fn of_one_file(encoding: Encoding) -> Self {
        Self { is_of_one_file: true, ..Self::new(encoding.join.clone(), encoding, None) }
    }

    /// What is published.
    pub fn existing(&self) -> Option<&Arc<Existing>> {
        self.existing.as_ref()
    }

    /// How new arrays are laid out.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// How files are joined.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The accepted files by order of arrival.
    pub fn members(&self) -> impl Iterator<Item = (u64, &Arc<Member>)> {
        self.members.iter().map(|(order, member)| (*order, member))
    }

    /// Whether no file has been accepted.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether a file fits; what is still to be looked at if so.
    pub fn examine(&self, member: &Member) -> Result<Findings, JoinRefusal> {
        self.fit(member).map(|fit| fit.findings)
    }

    /// Accepts a file. `order` is its place in the order of arrival.
    pub fn admit(&mut self, order: u64, member: Member) -> Result<Findings, JoinRefusal> {
        let mut fit = self.fit(&member)?;
        let member = Arc::new(self.share(member));
        for group in &*member.groups {
            self.state.groups.entry(group.path.clone()).or_insert_with(|| member.name.clone());
        }
        for (path, mut reference) in fit.references.drain(..) {
            if let Some((from, plan)) = &mut reference.plan
                && *from == u64::MAX
            {
                *from = order;
                if let Some(shared) = member.array(&path) {
                    *plan = Arc::clone(shared);
                }
            }
            self.state.arrays.insert(path, reference);
        }
        self.members.insert(order, Arc::clone(&member));
        let known = self.state.axes.get(&member.landing).cloned();
        if known == fit.axis {
            self.index(order, &member);
        } else if let Some(axis) = fit.axis {
            self.state.axes.insert(member.landing.clone(), axis);
            for (order, member) in self.members.clone() {
                self.index(order, &member);
            }
        }
        Ok(fit.findings)
    }

    /// Gives a file up.
    pub fn remove(&mut self, order: u64) {
        if self.members.remove(&order).is_none() {
            return;
        }
        let members = std::mem::take(&mut self.members);
        self.begin();
        for (order, member) in members {
            let name = member.name.clone();
            if let Err(refusal) = self.admit(order, Arc::unwrap_or_clone(member)) {
                // It fitted while the other one was there: the plan will say what is wrong.
                tracing::warn!(file = name, %refusal, "no longer fits");
            }
        }
    }

    /// Back to what is published.
    fn begin(&mut self) {
        self.state = State::default();
        let Some(existing) = &self.existing else { return };
        self.state.axes.clone_from(&existing.axes);
        for (path, array) in existing.arrays() {
            let reference = Reference {
                plan: None,
                metadata: array.clone(),
                dimensions: existing.dimensions(path, array),
                from: "the dataset".to_owned(),
            };
            self.state.arrays.insert(path.clone(), reference);
        }
        for (path, node) in existing.hierarchy.nodes() {
            if matches!(node, crate::zarr::Node::Group(_)) {
                self.state.groups.insert(path.clone(), "the dataset".to_owned());
            }
        }
    }

    /// Shares what is the same as in the files before, since there may be very many.
    fn share(&self, mut member: Member) -> Member {
        for array in &mut member.arrays {
            let before = self.state.arrays.get(&array.path).and_then(|r| r.plan.as_ref());
            if let Some((_, before)) = before
                && is_interchangeable(before, array)
            {
                *array = Arc::clone(before);
            }
        }
        if let Some((_, before)) = self.members.last_key_value() {
            member.share_with(before);
        }
        member
    }

    /// Enters the coordinates of a member along the dimension that it is joined along.
    fn index(&mut self, order: u64, member: &Member) {
        let Some(axis) = self.state.axes.get(&member.landing) else { return };
        for dimension in along_dimensions(member, axis) {
            let keys = coordinate_of(member, &dimension);
            let along = self.state.along.entry(dimension).or_default();
            match keys {
                Some(Coordinate { keys: Ok(keys), .. }) => {
                    for (step, key) in (0..).zip(keys.iter()) {
                        match self.rules.overlap {
                            Overlap::Replace => {
                                along.keys.insert(key.clone(), (order, step));
                            }
                            Overlap::Error | Overlap::Keep => {
                                along.keys.entry(key.clone()).or_insert((order, step));
                            }
                        }
                    }
                    if let (None, Ok(Some(direction))) =
                        (&along.direction, placement::direction(keys))
                    {
                        along.direction = Some((direction, member.name.clone()));
                    }
                }
                Some(_) => {}
                None => along.without = Some(member.name.clone()),
            }
        }
    }

    fn fit(&self, member: &Member) -> Result<Fit, JoinRefusal> {
        self.check_kinds(member)?;
        let mut findings = Findings::default();
        let axis = self.axis(member, &mut findings)?;
        let mut references = Vec::new();
        for array in &member.arrays {
            if let Some(reference) = self.array(member, array, axis.as_deref(), &mut findings)? {
                references.push((array.path.clone(), reference));
            }
        }
        if let Some(axis) = &axis {
            let along = along_dimensions(member, axis);
            self.check_gaps(member, &along)?;
            for dimension in &along {
                self.coordinates(member, dimension, &mut findings)?;
            }
        }
        Ok(Fit { axis, references, findings })
    }

    fn check_kinds(&self, member: &Member) -> Result<(), JoinRefusal> {
        for array in &member.arrays {
            if let Some(other) = self.state.groups.get(&array.path) {
                let (here, there) = ("group", "variable");
                return Err(other_node(&array.path, here, there, other));
            }
        }
        for group in &*member.groups {
            if let Some(reference) = self.state.arrays.get(&group.path) {
                return Err(other_node(&group.path, "variable", "group", &reference.from));
            }
        }
        Ok(())
    }

    /// The dimension to join along, once it can be known.
    fn axis(
        &self,
        member: &Member,
        findings: &mut Findings,
    ) -> Result<Option<String>, JoinRefusal> {
        if let Some(axis) = self.state.axes.get(&member.landing) {
            return Ok(Some(axis.clone()));
        }
        let mut all = BTreeSet::new();
        let mut unlimited = BTreeSet::new();
        for array in &member.arrays {
            for (dimension, growing) in dimensions(array).zip(&array.growing) {
                if *growing {
                    unlimited.insert(dimension.name.clone());
                }
                all.insert(dimension.name);
            }
        }
        if let Some(named) = &self.rules.concat_dim {
            return Ok(all.contains(named).then(|| named.clone()));
        }
        if unlimited.len() == 1 {
            return Ok(unlimited.pop_first());
        }
        let differing = self.differing(member, findings);
        let mut candidates: Vec<String> = if unlimited.is_empty() {
            differing.into_iter().collect()
        } else {
            differing.intersection(&unlimited).cloned().collect()
        };
        match candidates.len() {
            0 => Ok(None),
            1 => Ok(candidates.pop()),
            _ => Err(JoinRefusal::AmbiguousAxis { dimensions: candidates }),
        }
    }

    /// Dimensions whose length or coordinates are not those of the files before.
    fn differing(&self, member: &Member, findings: &mut Findings) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for array in &member.arrays {
            let Some(reference) = self.state.arrays.get(&array.path) else { continue };
            let there = dimensions(array);
            let lengths = reference.metadata.shape.iter().zip(&array.metadata.shape);
            for ((dimension, other), (here, length)) in
                there.zip(&reference.dimensions).zip(lengths)
            {
                if dimension == *other && here != length {
                    names.insert(dimension.name);
                }
            }
            let is_coordinate = array.dimension_names() == [array.path.name()];
            if is_coordinate
                && matches!(
                    self.compare_coordinate(member, array, reference, findings),
                    Some(Difference::Different(_))
                )
            {
                names.insert(array.path.name().to_owned());
            }
        }
        names
    }

    /// How the values of a coordinate differ from those that are there; `None` where they are not
    /// known, or are texts that are the same.
    fn compare_coordinate(
        &self,
        member: &Member,
        array: &ArrayPlan,
        reference: &Reference,
        findings: &mut Findings,
    ) -> Option<Difference> {
        let here = self.reference_coordinate(&array.path, reference)?;
        let there = member.coordinates.get(&array.path)?;
        if is_text(&array.metadata) {
            return (here.keys != there.keys)
                .then(|| Difference::Different("other texts".to_owned()));
        }
        if array.metadata.data_type != reference.metadata.data_type {
            // Compared as what they mean.
            return (here.keys != there.keys)
                .then(|| Difference::Different("other values".to_owned()));
        }
        let difference = compare(array.metadata.data_type, &here.raw, &there.raw);
        if let Difference::Tolerable(distance) = &difference {
            findings.warnings.push(format!(
                "coordinate {} differs from the one in {} by up to {distance}, which is taken for \
                 rounding; the values that are there stay",
                array.path, reference.from
            ));
        }
        Some(difference)
    }

    fn reference_coordinate(&self, path: &NodePath, reference: &Reference) -> Option<&Coordinate> {
        match &reference.plan {
            Some((order, _)) => self.members.get(order)?.coordinates.get(path),
            None => self.existing.as_ref()?.coordinates.get(path),
        }
    }

    /// Compares an array with the one that is there. Answers the reference that replaces it.
    fn array(
        &self,
        member: &Member,
        array: &Arc<ArrayPlan>,
        axis: Option<&str>,
        findings: &mut Findings,
    ) -> Result<Option<Reference>, JoinRefusal> {
        let variable = || array.path.to_string();
        let Some(reference) = self.state.arrays.get(&array.path) else {
            let landed = self.landed(member);
            if self.rules.schema == SchemaRule::Strict
                && let Some(other) = landed
            {
                return Err(JoinRefusal::Added { variable: variable(), other });
            }
            let metadata = self.unpacked(array, &member.name)?;
            if let Some(metadata) = &metadata {
                let conversion = self.conversion(member, array, metadata, "itself")?;
                findings.scan(array, conversion);
            }
            return Ok(Some(Reference {
                plan: Some((u64::MAX, Arc::clone(array))),
                metadata: metadata.unwrap_or_else(|| array.metadata.clone()),
                dimensions: dimensions(array).collect(),
                from: member.name.clone(),
            }));
        };
        let here: Vec<&str> = reference.dimensions.iter().map(|d| d.name.as_str()).collect();
        let there = array.dimension_names();
        if here != there {
            return Err(JoinRefusal::OtherDimensions {
                variable: variable(),
                here: here.join(", "),
                there: there.join(", "),
                other: reference.from.clone(),
            });
        }
        let along = there.iter().filter(|name| Some(**name) == axis).count();
        if let (Some(axis), true) = (axis, along > 1) {
            return Err(JoinRefusal::TwiceAlong { variable: variable(), dimension: axis.into() });
        }
        let lengths = reference.metadata.shape.iter().zip(&array.metadata.shape);
        for (name, (here, length)) in there.iter().zip(lengths) {
            if Some(*name) != axis && here != length {
                return Err(JoinRefusal::OtherLength {
                    variable: variable(),
                    dimension: (*name).to_owned(),
                    here: *here,
                    there: *length,
                    other: reference.from.clone(),
                });
            }
        }
        if along == 0 {
            self.static_array(member, array, reference, findings)?;
            return Ok(None);
        }
        let metadata = match &reference.plan {
            None => None,
            Some(_) => Some(self.common(member, array, reference)?),
        };
        let target = metadata.as_ref().unwrap_or(&reference.metadata);
        let conversion = self.conversion(member, array, target, &reference.from)?;
        findings.scan(array, conversion);
        Ok(metadata
            .filter(|metadata| *metadata != reference.metadata)
            .map(|metadata| Reference { metadata, ..reference.clone() }))
    }

    /// The encoding that holds the values of both.
    fn common(
        &self,
        member: &Member,
        array: &ArrayPlan,
        reference: &Reference,
    ) -> Result<ArrayMetadata, JoinRefusal> {
        let refusal = |reason| encoding_refusal(&array.path, reason, &reference.from);
        let unpacked = self.unpacked(array, &reference.from)?;
        let there = unpacked.as_ref().unwrap_or(&array.metadata);
        let here = self.reference_coordinate(&array.path, reference);
        let values = [
            here.map(|coordinate| &*coordinate.raw),
            member.coordinates.get(&array.path).map(|coordinate| &*coordinate.raw),
        ];
        common(&reference.metadata, &[there], &values, self.encoding.codec).map_err(refusal)
    }

    /// What a packed array becomes by `--unpack`.
    pub(super) fn unpacked(
        &self,
        array: &ArrayPlan,
        other: &str,
    ) -> Result<Option<ArrayMetadata>, JoinRefusal> {
        if !self.rules.unpack {
            return Ok(None);
        }
        unpacked(&array.metadata, self.encoding.codec)
            .map_err(|reason| encoding_refusal(&array.path, reason, other))
    }

    /// How the elements of a file's variable become those of an array.
    fn conversion(
        &self,
        member: &Member,
        array: &ArrayPlan,
        target: &ArrayMetadata,
        other: &str,
    ) -> Result<Conversion, JoinRefusal> {
        let (mut from, mut to) = (decoding(&array.metadata), decoding(target));
        // The bounds of a time have its units.
        if let Some(parent) = parent_of(member, &array.path) {
            from = from.with_time_of(&decoding(&parent.metadata));
            let target = self.state.arrays.get(&parent.path).map(|reference| &reference.metadata);
            to = to.with_time_of(&decoding(target.unwrap_or(&parent.metadata)));
        }
        conversion(&from, &to).map_err(|reason| encoding_refusal(&array.path, reason, other))
    }

    /// An array without the dimension that is joined along must be the same everywhere.
    fn static_array(
        &self,
        member: &Member,
        array: &ArrayPlan,
        reference: &Reference,
        findings: &mut Findings,
    ) -> Result<(), JoinRefusal> {
        let conversion = self.conversion(member, array, &reference.metadata, &reference.from)?;
        let is_coordinate = array.dimension_names() == [array.path.name()];
        if is_coordinate && self.reference_coordinate(&array.path, reference).is_some() {
            return match self.compare_coordinate(member, array, reference, findings) {
                Some(Difference::Different(difference)) => Err(JoinRefusal::OtherValues {
                    variable: array.path.to_string(),
                    difference,
                    other: reference.from.clone(),
                }),
                _ => Ok(()),
            };
        }
        findings.statics.push(StaticArray {
            path: array.path.clone(),
            variable: array.variable,
            other: reference.plan.as_ref().map(|(order, _)| *order),
            conversion,
        });
        Ok(())
    }

    /// Somebody who is in the same group already.
    fn landed(&self, member: &Member) -> Option<String> {
        let mut arrays = self.state.arrays.iter();
        let (_, reference) = arrays.find(|(path, _)| is_below(path, &member.landing))?;
        Some(reference.from.clone())
    }

    /// Arrays along the dimension that the file lacks have a gap where the file stands.
    fn check_gaps(&self, member: &Member, along: &[DimensionId]) -> Result<(), JoinRefusal> {
        let brings = member.arrays.iter().any(|array| {
            dimensions(array)
                .zip(&array.metadata.shape)
                .any(|(dimension, length)| along.contains(&dimension) && *length > 0)
        });
        if !brings {
            return Ok(());
        }
        for (path, reference) in &self.state.arrays {
            let lies_along = reference.dimensions.iter().any(|d| along.contains(d));
            if !lies_along || member.array(path).is_some() {
                continue;
            }
            let (variable, other) = (path.to_string(), reference.from.clone());
            if self.rules.schema == SchemaRule::Strict {
                return Err(JoinRefusal::Missing { variable, other });
            }
            if along.iter().any(|d| d.coordinate().is_ok_and(|at| at == *path)) {
                return Err(JoinRefusal::NoCoordinate { coordinate: variable, other });
            }
            if reference.plan.is_none() && !can_be_missing(&reference.metadata) {
                return Err(JoinRefusal::NoMissingValue { variable, other });
            }
        }
        Ok(())
    }

    /// Whether the coordinates have a place, and which are there already.
    fn coordinates(
        &self,
        member: &Member,
        dimension: &DimensionId,
        findings: &mut Findings,
    ) -> Result<(), JoinRefusal> {
        let Ok(path) = dimension.coordinate() else { return Ok(()) };
        let name = || path.to_string();
        let nothing = Along::default();
        let along = self.state.along.get(dimension).unwrap_or(&nothing);
        let published = self.existing.as_ref().and_then(|e| e.coordinates.get(&path));
        let is_published = self.published_length(dimension)? > 0;
        let is_first = along.keys.is_empty() && along.without.is_none() && !is_published;
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
        if is_first {
            // Alone it may be as it likes.
            return Ok(());
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
        let metadata = member.array(&path).map(|array| &array.metadata);
        let value =
            |key: &AxisKey| metadata.map_or_else(String::new, |metadata| describe(key, metadata));
        let monotonic = |keys: &[AxisKey]| {
            placement::direction(keys).map_err(|misplaced| JoinRefusal::NotMonotonic {
                coordinate: name(),
                value: match misplaced {
                    Misplaced::NotMonotonic { step } => keys.get(step).map(value),
                    Misplaced::Insertion { .. } => None,
                }
                .unwrap_or_default(),
            })
        };
        // A file that came alone was taken as it is.
        if self.members.len() == 1
            && let Some((_, only)) = self.members.first_key_value()
            && let Some(Coordinate { keys, .. }) = only.coordinates.get(&path)
        {
            monotonic(keys.as_ref().map_err(reason)?)?;
        }
        let of_dataset = monotonic(published_keys)?.map(|d| (d, "the dataset".to_owned()));
        let own = monotonic(keys)?;
        let before = of_dataset.or_else(|| along.direction.clone());
        let direction = match (before, own) {
            (Some((before, other)), Some(own)) if before != own => {
                return Err(JoinRefusal::OtherDirection { coordinate: name(), other });
            }
            (before, own) => before.map(|(d, _)| d).or(own).unwrap_or_default(),
        };
        if let Err(Misplaced::Insertion { before, step }) =
            placement::check_behind(published_keys, keys, direction)
        {
            return Err(JoinRefusal::Insertion {
                coordinate: dimension.name.clone(),
                value: keys.get(step).map(value).unwrap_or_default(),
                moved_bytes: self.bytes_behind(dimension, before),
            });
        }
        let mut overlaps: BTreeMap<Option<u64>, Vec<(u64, u64)>> = BTreeMap::new();
        for (step, key) in (0..).zip(keys.iter()) {
            if let Ok(at) = placement::find(published_keys, key, direction) {
                overlaps.entry(None).or_default().push((step, at as u64));
            } else if let Some((order, at)) = along.keys.get(key) {
                overlaps.entry(Some(*order)).or_default().push((step, *at));
            }
        }
        findings.overlaps.extend(overlaps.into_iter().map(|(other, steps)| Overlapping {
            coordinate: path.clone(),
            dimension: dimension.name.clone(),
            other,
            steps,
        }));
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
            other: self.name_of(overlap.other),
        }
    }

    /// What a file, or what is published, is called in messages.
    pub fn name_of(&self, other: Option<u64>) -> String {
        let member = other.and_then(|order| self.members.get(&order));
        member.map_or_else(|| "the dataset".to_owned(), |member| member.name.clone())
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

fn encoding_refusal(path: &NodePath, reason: ConversionRefusal, other: &str) -> JoinRefusal {
    JoinRefusal::Encoding {
        variable: path.to_string(),
        reason: Box::new(reason),
        other: other.to_owned(),
    }
}

/// The coordinate whose bounds these are.
pub(super) fn parent_of<'a>(member: &'a Member, path: &NodePath) -> Option<&'a Arc<ArrayPlan>> {
    let mut arrays = member.arrays.iter();
    arrays.find(|parent| bounds(&parent.metadata, &parent.path).as_ref() == Some(path))
}

/// How the elements of a file's variable become those of an array that another file gave, or that is
/// published. Bounds of times are taken to be in the units of the file.
pub fn conversion_between(
    member: &Member,
    array: &ArrayPlan,
    target: &ArrayMetadata,
) -> Result<Conversion, JoinRefusal> {
    let (mut from, mut to) = (decoding(&array.metadata), decoding(target));
    if let Some(parent) = parent_of(member, &array.path) {
        let parent = decoding(&parent.metadata);
        (from, to) = (from.with_time_of(&parent), to.with_time_of(&parent));
    }
    conversion(&from, &to)
        .map_err(|reason| encoding_refusal(&array.path, reason, "what is there already"))
}

/// The array that holds the bounds of a coordinate.
fn bounds(metadata: &ArrayMetadata, path: &NodePath) -> Option<NodePath> {
    let name = metadata.attributes.get("bounds")?.as_str()?;
    path.parent()?.child(name).ok()
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

fn is_below(path: &NodePath, group: &NodePath) -> bool {
    group.is_root() || path.as_str().starts_with(&group.key(""))
}

fn other_node(
    path: &NodePath,
    here: &'static str,
    there: &'static str,
    other: &str,
) -> JoinRefusal {
    JoinRefusal::OtherNode { path: path.to_string(), here, there, other: other.to_owned() }
}
