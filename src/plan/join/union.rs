//! The files that have been accepted so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::along::AllAlong;
use super::existing::Existing;
use super::findings::Findings;
use super::member::{DimensionId, Member, is_interchangeable};
use super::refusal::JoinRefusal;
use super::rules::Rules;
use crate::plan::{ArrayPlan, Encoding};
use crate::zarr::{ArrayMetadata, NodePath};

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
    pub(super) groups: BTreeMap<NodePath, String>,
    /// The dimension joined along, for each group that files are copied into.
    pub(super) axes: BTreeMap<NodePath, String>,
    pub(super) along: AllAlong,
}

/// What an array of another file is compared with.
#[derive(Debug, Clone)]
pub(super) struct Reference {
    /// Of the file that it came with; `None` for what is published.
    pub(super) plan: Option<(u64, Arc<ArrayPlan>)>,
    pub(super) metadata: ArrayMetadata,
    pub(super) dimensions: Vec<DimensionId>,
    pub(super) from: String,
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

    /// Whether this file is accepted.
    pub fn has(&self, order: u64) -> bool {
        self.members.contains_key(&order)
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
        let fit = self.fit(&member)?;
        let member = Arc::new(self.share(member));
        for group in &*member.groups {
            self.state.groups.entry(group.path.clone()).or_insert_with(|| member.name.clone());
        }
        for (path, mut reference) in fit.references {
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
            for (order, other) in self.members.clone() {
                if other.landing == member.landing {
                    self.index(order, &other);
                }
            }
        }
        Ok(fit.findings)
    }

    /// Gives a file up. Answers which others do not fit any more without it and were given up too.
    pub fn remove(&mut self, order: u64) -> Vec<u64> {
        let mut given_up = Vec::new();
        if self.members.remove(&order).is_none() {
            return given_up;
        }
        let members = std::mem::take(&mut self.members);
        self.begin();
        for (order, member) in members {
            let name = member.name.clone();
            if let Err(refusal) = self.admit(order, Arc::unwrap_or_clone(member)) {
                tracing::warn!(file = name, %refusal, "no longer fits");
                given_up.push(order);
            }
        }
        given_up
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

    /// What a file, or what is published, is called in messages.
    pub fn name_of(&self, other: Option<u64>) -> String {
        let member = other.and_then(|order| self.members.get(&order));
        member.map_or_else(|| "the dataset".to_owned(), |member| member.name.clone())
    }
}

impl Reference {
    /// The array as the file that it came with has it, or as it is published.
    pub(super) fn own(&self) -> &ArrayMetadata {
        self.plan.as_ref().map_or(&self.metadata, |(_, plan)| &plan.metadata)
    }

    /// Another array of the same file, or of what is published.
    pub(super) fn own_of<'a>(
        &self,
        union: &'a Union,
        path: &NodePath,
    ) -> Option<&'a ArrayMetadata> {
        match &self.plan {
            Some((order, _)) => union.members.get(order)?.array(path).map(|array| &array.metadata),
            None => union.existing.as_ref()?.array(path),
        }
    }
}
