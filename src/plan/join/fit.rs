//! Whether one more file fits those that have been accepted, and what changes by it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::along::along_dimensions;
use super::differences::{Difference, compare, compare_keys};
use super::encoding::{can_be_missing, common, conversion, decoding, is_text, unpacked};
use super::findings::{Findings, StaticArray};
use super::member::{Coordinate, DimensionId, Member, dimensions};
use super::refusal::JoinRefusal;
use super::rules::SchemaRule;
use super::union::{Reference, Union};
use crate::plan::{ArrayPlan, Conversion, ConversionRefusal};
use crate::zarr::{ArrayMetadata, Kind, NodePath};

/// A file that fits, with what changes by it.
pub(super) struct Fit {
    pub(super) axis: Option<String>,
    pub(super) references: BTreeMap<NodePath, Reference>,
    pub(super) findings: Findings,
}

/// The arrays as they are with one more file.
pub(super) struct After<'a> {
    union: &'a Union,
    /// Arrays that are new, or have another encoding.
    changed: BTreeMap<NodePath, Reference>,
}

impl After<'_> {
    fn metadata(&self, path: &NodePath) -> Option<&ArrayMetadata> {
        let reference = self.changed.get(path).or_else(|| self.union.state.arrays.get(path));
        reference.map(|reference| &reference.metadata)
    }

    /// How the elements of a file's variable become those of its array.
    pub(super) fn conversion(
        &self,
        member: &Member,
        array: &ArrayPlan,
        other: &str,
    ) -> Result<Conversion, JoinRefusal> {
        let target = self.metadata(&array.path).unwrap_or(&array.metadata);
        let parent = |path: &NodePath| self.metadata(path);
        conversion_between(member, array, target, parent)
            .map_err(|reason| encoding_refusal(&array.path, reason, other))
    }
}

impl Union {
    pub(super) fn fit(&self, member: &Member) -> Result<Fit, JoinRefusal> {
        self.check_kinds(member)?;
        let mut findings = Findings::default();
        let axis = self.axis(member)?;
        let mut after = After { union: self, changed: BTreeMap::new() };
        for array in &member.arrays {
            if let Some(reference) = self.reference(member, array, axis.as_deref())? {
                after.changed.insert(array.path.clone(), reference);
            }
        }
        // Bounds depend on what their coordinate has become.
        for array in &member.arrays {
            self.look_at(member, array, axis.as_deref(), &after, &mut findings)?;
        }
        self.look_at_earlier(&after, &mut findings)?;
        self.check_missing(member)?;
        if let Some(axis) = &axis {
            let dimensions = along_dimensions(member, axis);
            self.check_gaps(member, &dimensions)?;
            let along = self.along(axis, member);
            for dimension in &dimensions {
                let along = along.get(dimension);
                self.check_place(member, dimension, along, &after, &mut findings)?;
            }
        }
        Ok(Fit { axis, references: after.changed, findings })
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
    fn axis(&self, member: &Member) -> Result<Option<String>, JoinRefusal> {
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
        let differing = self.differing(member);
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
    fn differing(&self, member: &Member) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for array in &member.arrays {
            let Some(reference) = self.state.arrays.get(&array.path) else { continue };
            let lengths = reference.metadata.shape.iter().zip(&array.metadata.shape);
            let both = dimensions(array).zip(&reference.dimensions);
            for ((dimension, other), (here, length)) in both.zip(lengths) {
                if dimension == *other && here != length {
                    names.insert(dimension.name);
                }
            }
            if is_coordinate(array)
                && matches!(
                    self.coordinate_difference(member, array, reference),
                    Some(Difference::Different(_))
                )
            {
                names.insert(array.path.name().to_owned());
            }
        }
        names
    }

    /// How the values of a coordinate differ from those that are there; `None` where they are not
    /// known.
    fn coordinate_difference(
        &self,
        member: &Member,
        array: &ArrayPlan,
        reference: &Reference,
    ) -> Option<Difference> {
        let here = self.reference_coordinate(&array.path, reference)?;
        let there = member.coordinates.get(&array.path)?;
        let different = || Some(Difference::Different("other values".to_owned()));
        let by_keys = || match (&here.keys, &there.keys) {
            (Ok(here), Ok(there)) => Some(compare_keys(here, there)),
            _ => None,
        };
        if is_text(&array.metadata) || is_text(reference.own()) {
            return by_keys().or_else(different);
        }
        if here.raw.is_empty() && there.raw.is_empty() && here.keys.is_err() {
            // Too many to be kept.
            return None;
        }
        let parent = |path: &NodePath| reference.own_of(self, path);
        let mut converted = Vec::new();
        let is_converted = conversion_between(member, array, reference.own(), parent)
            .is_ok_and(|conversion| conversion.apply(&there.raw, &mut converted).is_ok());
        if !is_converted {
            return by_keys().or_else(different);
        }
        Some(compare(reference.own().data_type, &here.raw, &converted))
    }

    fn reference_coordinate(&self, path: &NodePath, reference: &Reference) -> Option<&Coordinate> {
        match &reference.plan {
            Some((order, _)) => self.members.get(order)?.coordinates.get(path),
            None => self.existing.as_ref()?.coordinates.get(path),
        }
    }

    /// Compares the form of an array with the one that is there. Answers what is new of it.
    fn reference(
        &self,
        member: &Member,
        array: &Arc<ArrayPlan>,
        axis: Option<&str>,
    ) -> Result<Option<Reference>, JoinRefusal> {
        let variable = || array.path.to_string();
        let there: Vec<DimensionId> = dimensions(array).collect();
        let along: Vec<usize> =
            (0..there.len()).filter(|d| Some(there[*d].name.as_str()) == axis).collect();
        if let (Some(axis), true) = (axis, along.len() > 1) {
            return Err(JoinRefusal::TwiceAlong { variable: variable(), dimension: axis.into() });
        }
        let Some(reference) = self.state.arrays.get(&array.path) else {
            if self.rules.schema == SchemaRule::Strict
                && let Some(other) = self.landed(member)
            {
                return Err(JoinRefusal::Added { variable: variable(), other });
            }
            let metadata = self.unpacked(array, &member.name)?;
            return Ok(Some(Reference {
                plan: Some((u64::MAX, Arc::clone(array))),
                metadata: metadata.unwrap_or_else(|| array.metadata.clone()),
                dimensions: there,
                from: member.name.clone(),
            }));
        };
        let here = &reference.dimensions;
        if here.iter().map(|d| &d.name).ne(there.iter().map(|d| &d.name)) {
            return Err(JoinRefusal::OtherDimensions {
                variable: variable(),
                here: names(here),
                there: names(&there),
                other: reference.from.clone(),
            });
        }
        let lengths = reference.metadata.shape.iter().zip(&array.metadata.shape);
        for (d, (here, length)) in lengths.enumerate().filter(|(d, _)| !along.contains(d)) {
            if here != length {
                return Err(JoinRefusal::OtherLength {
                    variable: variable(),
                    dimension: there.get(d).map(|d| d.name.clone()).unwrap_or_default(),
                    here: *here,
                    there: *length,
                    other: reference.from.clone(),
                });
            }
        }
        let Some(along) = along.first() else { return Ok(None) };
        // Files would be joined along two dimensions of one name, and only one of them be seen.
        if let (Some(here), Some(there)) = (here.get(*along), there.get(*along))
            && here.scope != there.scope
        {
            return Err(JoinRefusal::OtherScope {
                variable: variable(),
                dimension: there.name.clone(),
                here: here.scope.to_string(),
                there: there.scope.to_string(),
                other: reference.from.clone(),
            });
        }
        if reference.plan.is_none() {
            return Ok(None);
        }
        let metadata = self.common(member, array, reference)?;
        let is_changed = metadata != reference.metadata;
        Ok(is_changed.then(|| Reference { metadata, ..reference.clone() }))
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
        let raw = member.coordinates.get(&array.path).map(|coordinate| &*coordinate.raw);
        let raw = raw.filter(|raw| !raw.is_empty() && unpacked.is_none());
        // An example. All values that are there are looked at if their encoding has to change.
        let here = self.reference_coordinate(&array.path, reference).and_then(|coordinate| {
            let to_reference =
                conversion(&decoding(reference.own()), &decoding(&reference.metadata)).ok()?;
            let mut converted = Vec::new();
            to_reference.apply(&coordinate.raw, &mut converted).ok()?;
            (!converted.is_empty()).then_some(converted)
        });
        let values = [here.as_deref(), raw];
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

    /// Finds which values of an array have to be looked at.
    fn look_at(
        &self,
        member: &Member,
        array: &Arc<ArrayPlan>,
        axis: Option<&str>,
        after: &After<'_>,
        findings: &mut Findings,
    ) -> Result<(), JoinRefusal> {
        let reference = self.state.arrays.get(&array.path);
        let is_static = !array.dimension_names().into_iter().any(|name| Some(name) == axis);
        if let (Some(reference), true) = (reference, is_static) {
            return self.static_array(member, array, reference, findings);
        }
        let other = reference.map_or("itself", |reference| reference.from.as_str());
        let conversion = after.conversion(member, array, other)?;
        findings.scan(None, array, conversion);
        Ok(())
    }

    /// An array without the dimension that is joined along must be the same everywhere.
    fn static_array(
        &self,
        member: &Member,
        array: &ArrayPlan,
        reference: &Reference,
        findings: &mut Findings,
    ) -> Result<(), JoinRefusal> {
        let variable = || array.path.to_string();
        let other = || reference.from.clone();
        if is_coordinate(array)
            && let Some(difference) = self.coordinate_difference(member, array, reference)
        {
            match difference {
                Difference::None => {}
                Difference::Tolerable(distance) => findings.warnings.push(format!(
                    "coordinate {} differs from the one in {} by up to {distance}, which is taken \
                     for rounding; the values that are there stay",
                    array.path, reference.from
                )),
                Difference::Different(difference) => {
                    let (variable, other) = (variable(), other());
                    return Err(JoinRefusal::OtherValues { variable, difference, other });
                }
            }
            return Ok(());
        }
        let parent = |path: &NodePath| reference.own_of(self, path);
        let conversion = conversion_between(member, array, reference.own(), parent)
            .map_err(|reason| encoding_refusal(&array.path, reason, &reference.from))?;
        findings.statics.push(StaticArray {
            path: array.path.clone(),
            variable: array.variable,
            other: reference.plan.as_ref().map(|(order, _)| *order),
            conversion,
        });
        Ok(())
    }

    /// Values of accepted files that will be stored in another way than was found good for them.
    fn look_at_earlier(
        &self,
        after: &After<'_>,
        findings: &mut Findings,
    ) -> Result<(), JoinRefusal> {
        let is_changed = |path: &NodePath| {
            after.changed.contains_key(path) && self.state.arrays.contains_key(path)
        };
        if !after.changed.keys().any(is_changed) {
            return Ok(());
        }
        for (order, member) in &self.members {
            for array in &member.arrays {
                let parent = parent_of(member, &array.path);
                if !is_changed(&array.path) && !parent.is_some_and(|at| is_changed(&at.path)) {
                    continue;
                }
                let conversion = after.conversion(member, array, &member.name)?;
                let raw = member.coordinates.get(&array.path).map(|coordinate| &coordinate.raw);
                match raw.filter(|raw| !raw.is_empty()) {
                    Some(raw) => {
                        conversion.apply(raw, &mut Vec::new()).map_err(|inexact| {
                            encoding_refusal(&array.path, inexact.into(), &member.name)
                        })?;
                    }
                    None => findings.scan(Some(*order), array, conversion),
                }
            }
        }
        Ok(())
    }

    /// Somebody who is in the same group already.
    fn landed(&self, member: &Member) -> Option<String> {
        let mut arrays = self.state.arrays.iter();
        let (_, reference) = arrays.find(|(path, _)| is_below(path, &member.landing))?;
        Some(reference.from.clone())
    }

    /// `--schema strict`: the file has all variables that the others have.
    fn check_missing(&self, member: &Member) -> Result<(), JoinRefusal> {
        if self.rules.schema != SchemaRule::Strict {
            return Ok(());
        }
        let mut there = self.state.arrays.iter();
        let missing =
            there.find(|(path, _)| is_below(path, &member.landing) && member.array(path).is_none());
        match missing {
            None => Ok(()),
            Some((path, reference)) => {
                let (variable, other) = (path.to_string(), reference.from.clone());
                Err(JoinRefusal::Missing { variable, other })
            }
        }
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
            if along.iter().any(|d| d.coordinate().is_ok_and(|at| at == *path)) {
                return Err(JoinRefusal::NoCoordinate { coordinate: variable, other });
            }
            // No number and no text are written out where no fill value stands for them.
            let kind = reference.metadata.data_type.kind();
            let can_be_missing =
                can_be_missing(&reference.metadata) || matches!(kind, Kind::Float | Kind::Text);
            if reference.plan.is_none() && !can_be_missing {
                return Err(JoinRefusal::NoMissingValue { variable, other });
            }
        }
        Ok(())
    }
}

/// How the elements of a file's variable become those of `target`. `target_of` knows the array of the
/// coordinate whose bounds they may be.
pub fn conversion_between<'a>(
    member: &Member,
    array: &ArrayPlan,
    target: &ArrayMetadata,
    target_of: impl FnOnce(&NodePath) -> Option<&'a ArrayMetadata>,
) -> Result<Conversion, ConversionRefusal> {
    let (mut from, mut to) = (decoding(&array.metadata), decoding(target));
    // The bounds of a time have its units.
    if let Some(parent) = parent_of(member, &array.path) {
        let own = decoding(&parent.metadata);
        to = to.with_time_of(&target_of(&parent.path).map_or_else(|| own.clone(), decoding));
        from = from.with_time_of(&own);
    }
    conversion(&from, &to)
}

pub(super) fn encoding_refusal(
    path: &NodePath,
    reason: ConversionRefusal,
    other: &str,
) -> JoinRefusal {
    JoinRefusal::Encoding {
        variable: path.to_string(),
        reason: Box::new(reason),
        other: other.to_owned(),
    }
}

/// The coordinate whose bounds these are.
fn parent_of<'a>(member: &'a Member, path: &NodePath) -> Option<&'a Arc<ArrayPlan>> {
    let mut arrays = member.arrays.iter();
    arrays.find(|parent| bounds(&parent.metadata, &parent.path).as_ref() == Some(path))
}

/// The array that holds the bounds of a coordinate.
fn bounds(metadata: &ArrayMetadata, path: &NodePath) -> Option<NodePath> {
    let name = metadata.attributes.get("bounds")?.as_str()?;
    path.parent()?.child(name).ok()
}

fn is_coordinate(array: &ArrayPlan) -> bool {
    array.dimension_names() == [array.path.name()]
}

fn names(dimensions: &[DimensionId]) -> String {
    dimensions.iter().map(|d| d.name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(super) fn is_below(path: &NodePath, group: &NodePath) -> bool {
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
