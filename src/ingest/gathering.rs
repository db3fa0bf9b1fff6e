//! The files that a dataset has accepted for its next epoch, and how one more is judged.

use std::collections::HashMap;
use std::sync::Arc;

use super::compare::{self, Values, open, values_at, values_in};
use super::driver::Ingest;
use super::existing;
use super::names::Target;
use super::published::{Published, PublishedDataset};
use super::refusal::{Cause, Refusal};
use crate::base::tasks;
use crate::netcdf::ByteSource;
use crate::plan::join::{
    Difference, Findings, JoinRefusal, Member, Overlapping, Scan, StaticArray, Union,
};
use crate::plan::{ArrayPlan, Encoding};
use crate::staging::{FileId, StagedFile};
use crate::store::{Link, Location};
use crate::zarr::DataType;

/// The files that a dataset has accepted and not published yet.
#[derive(Debug)]
pub(super) struct Gathering {
    union: Union,
    admitted: HashMap<FileId, Admitted>,
}

#[derive(Debug, Clone)]
struct Admitted {
    generation: u64,
    order: u64,
    /// What has to be compared with the bucket, and was not yet.
    left: Findings,
}

/// How far it is with a file that is to be accepted.
enum Step {
    /// What files are judged by is not known any more.
    Gone,
    /// It is accepted.
    Accepted,
    /// This has to be looked at first.
    Compare(Findings),
    /// It is accepted, and this has been left to be looked at.
    CompareLeft(Findings),
}

/// A file to be judged.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) id: FileId,
    pub(super) file: Arc<StagedFile>,
    pub(super) member: Arc<Member>,
}

impl Candidate {
    fn bytes(&self) -> Arc<dyn ByteSource> {
        Arc::clone(&self.file) as _
    }
}

impl From<JoinRefusal> for Refusal {
    fn from(refusal: JoinRefusal) -> Self {
        let cause = if refusal.is_overlap() { Cause::Overlap } else { Cause::Unsupported };
        Self::new(cause, refusal.to_string())
    }
}

impl Gathering {
    fn forget(&mut self, id: FileId) {
        if let Some(admitted) = self.admitted.remove(&id) {
            // Who does not fit any more is judged again when its turn comes.
            let given_up = self.union.remove(admitted.order);
            self.admitted.retain(|_, other| !given_up.contains(&other.order));
        }
    }
}

impl Ingest {
    /// Judges a file that is to join a dataset and, if it fits, accepts it: what comes after is
    /// judged by it too. With `link` what is in the bucket may be asked for; without, what needs it
    /// is left for later.
    pub(super) async fn join(
        &self,
        candidate: &Candidate,
        target: &Target,
        encoding: &Encoding,
        link: Option<&Link>,
    ) -> Result<(), Refusal> {
        let dataset = target.dataset();
        let mut looked = Findings::default();
        loop {
            if !self.begin_gathering(dataset, encoding, link).await? {
                return Ok(());
            }
            // Others may be accepted while values are compared: then there is more to compare.
            let (findings, is_accepted) = match self.accept(candidate, dataset, &looked, link)? {
                Step::Gone => continue,
                Step::Accepted => return Ok(()),
                Step::Compare(findings) => (findings, false),
                Step::CompareLeft(findings) => (findings, true),
            };
            let outcome = self.look_at(candidate, dataset, &findings, link).await;
            if outcome.is_err() && is_accepted {
                self.leave(candidate.id, dataset);
            }
            outcome?;
            looked.extend(findings);
        }
    }

    /// Accepts a file for which there is nothing to look at any more besides what has been `looked`
    /// at. Without a `link` comparisons with the bucket are left for later.
    fn accept(
        &self,
        candidate: &Candidate,
        dataset: &Location,
        looked: &Findings,
        link: Option<&Link>,
    ) -> Result<Step, Refusal> {
        let generation = candidate.file.generation();
        let mut gatherings = self.0.gatherings.lock();
        let Some(gathering) = gatherings.get_mut(dataset) else { return Ok(Step::Gone) };
        match gathering.admitted.get_mut(&candidate.id) {
            Some(admitted) if admitted.generation == generation => {
                if link.is_none() || admitted.left.is_empty() {
                    return Ok(Step::Accepted);
                }
                return Ok(Step::CompareLeft(std::mem::take(&mut admitted.left)));
            }
            Some(_) => gathering.forget(candidate.id),
            None => {}
        }
        let findings = gathering.union.examine(&candidate.member)?.besides(looked);
        for warning in &findings.warnings {
            tracing::warn!(source = candidate.member.name, %dataset, "{warning}");
        }
        if !findings.is_empty() {
            return Ok(Step::Compare(findings));
        }
        let order = self.0.arrivals.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let findings = gathering.union.admit(order, Member::clone(&candidate.member))?;
        let left = if link.is_some() { Findings::default() } else { findings.of_published() };
        gathering.admitted.insert(candidate.id, Admitted { generation, order, left });
        Ok(Step::Accepted)
    }

    /// The file is not accepted any more.
    pub(super) fn leave(&self, id: FileId, dataset: &Location) {
        if let Some(gathering) = self.0.gatherings.lock().get_mut(dataset) {
            gathering.forget(id);
        }
    }

    /// The accepted files of an epoch that begins, and by which order they are known. They stay
    /// accepted until [`published`](Self::gathering_published).
    pub(super) fn epoch_members(
        &self,
        dataset: &Location,
        files: &[FileId],
    ) -> Option<(Union, HashMap<u64, FileId>)> {
        let gatherings = self.0.gatherings.lock();
        let gathering = gatherings.get(dataset)?;
        let orders = files.iter().filter_map(|file| {
            let order = gathering.admitted.get(file)?.order;
            gathering.union.has(order).then_some((order, *file))
        });
        let orders: HashMap<u64, FileId> = orders.collect();
        Some((gathering.union.clone(), orders))
    }

    /// An epoch changed what is published: files that were accepted since are judged by that, when
    /// their turn comes.
    pub(super) fn gathering_published(&self, dataset: &Location) {
        self.0.gatherings.lock().remove(dataset);
    }

    /// Whether it is known what files are judged by.
    async fn begin_gathering(
        &self,
        dataset: &Location,
        encoding: &Encoding,
        link: Option<&Link>,
    ) -> Result<bool, Refusal> {
        if self.0.gatherings.lock().contains_key(dataset) {
            return Ok(true);
        }
        let published = match (self.0.known.get(dataset), link) {
            (Some(published), _) => published,
            (None, None) => return Ok(false),
            (None, Some(link)) => self
                .0
                .known
                .fetch(&self.0.tree, link, dataset)
                .await
                .map_err(|error| super::driver::refusal_of_store(&error))?,
        };
        let existing = match &*published {
            Published::Foreign(reason) if !self.leftover_note(dataset) => {
                return Err(Refusal::new(
                    Cause::Overlap,
                    format!("`{dataset}` cannot be added to: {reason}"),
                ));
            }
            Published::Absent | Published::Leftover { .. } | Published::Foreign(_) => None,
            Published::Dataset(of) => match (self.0.known.existing(dataset), link) {
                (Some(existing), _) => Some(existing),
                (None, None) => return Ok(false),
                (None, Some(link)) => Some(self.existing(dataset, of, link).await?),
            },
        };
        let union = Union::new(encoding.join.clone(), encoding.clone(), existing);
        let gathering = Gathering { union, admitted: HashMap::new() };
        self.0.gatherings.lock().entry(dataset.clone()).or_insert(gathering);
        Ok(true)
    }

    /// What has to be known of a published dataset, from memory or fetched.
    pub(super) async fn existing(
        &self,
        dataset: &Location,
        published: &PublishedDataset,
        link: &Link,
    ) -> Result<Arc<crate::plan::join::Existing>, Refusal> {
        if let Some(existing) = self.0.known.existing(dataset) {
            return Ok(existing);
        }
        let existing = Arc::new(existing::load(link, dataset, published).await?);
        self.0.known.set_existing(dataset, Arc::clone(&existing));
        Ok(existing)
    }

    /// Looks at values, as far as it depends on them whether the file can be accepted.
    async fn look_at(
        &self,
        candidate: &Candidate,
        dataset: &Location,
        findings: &Findings,
        link: Option<&Link>,
    ) -> Result<(), Refusal> {
        for scan in &findings.scans {
            self.look_at_conversion(candidate, dataset, scan).await?;
        }
        for array in &findings.statics {
            self.look_at_static(candidate, dataset, array, link).await?;
        }
        for overlap in &findings.overlaps {
            self.look_at_overlap(candidate, dataset, overlap, link).await?;
        }
        Ok(())
    }

    /// Whether every value of a variable can be converted.
    async fn look_at_conversion(
        &self,
        candidate: &Candidate,
        dataset: &Location,
        scan: &Scan,
    ) -> Result<(), Refusal> {
        let own = || Some((candidate.bytes(), Arc::clone(&candidate.member)));
        let other = |order| self.accepted(dataset, order);
        // An accepted file that has gone meanwhile needs no conversion.
        let Some((file, member)) = scan.file.map_or_else(own, other) else { return Ok(()) };
        let Some(plan) = member.array(&scan.path).cloned() else { return Ok(()) };
        let scan = scan.clone();
        work(move || compare::scan(&open(&file)?, &plan, &scan)).await
    }

    /// Whether a variable that must be the same everywhere is.
    async fn look_at_static(
        &self,
        candidate: &Candidate,
        dataset: &Location,
        array: &StaticArray,
        link: Option<&Link>,
    ) -> Result<(), Refusal> {
        let Some(plan) = candidate.member.array(&array.path).cloned() else { return Ok(()) };
        let there = self.values_of(candidate, &plan).await?;
        let Some(here) = self.static_values(dataset, array, link).await? else {
            return Ok(());
        };
        let difference =
            compare::difference(self.type_of(dataset, array, &plan), array, &here, there)?;
        let other = match self.0.gatherings.lock().get(dataset) {
            Some(gathering) => gathering.union.name_of(array.other),
            None => String::new(),
        };
        match difference {
            Difference::None => Ok(()),
            Difference::Tolerable(distance) => {
                tracing::warn!(
                    source = candidate.member.name, %dataset,
                    "variable {} differs from the one in {other} by up to {distance}, which is taken \
                     for rounding; the values that are there stay", array.path
                );
                Ok(())
            }
            Difference::Different(difference) => Err(JoinRefusal::OtherValues {
                variable: array.path.to_string(),
                difference,
                other,
            }
            .into()),
        }
    }

    /// The type of a static array that is there already.
    fn type_of(&self, dataset: &Location, array: &StaticArray, plan: &ArrayPlan) -> DataType {
        let known = match array.other {
            Some(order) => self
                .accepted(dataset, order)
                .and_then(|(_, member)| Some(member.array(&array.path)?.metadata.data_type)),
            None => self
                .0
                .known
                .existing(dataset)
                .and_then(|existing| Some(existing.array(&array.path)?.data_type)),
        };
        known.unwrap_or(plan.metadata.data_type)
    }

    async fn values_of(
        &self,
        candidate: &Candidate,
        plan: &Arc<ArrayPlan>,
    ) -> Result<Values, Refusal> {
        let (file, plan) = (candidate.bytes(), Arc::clone(plan));
        work(move || values_in(&open(&file)?, &plan)).await
    }

    /// The values of a static array that are there already. `None`: they have to be asked for.
    async fn static_values(
        &self,
        dataset: &Location,
        array: &StaticArray,
        link: Option<&Link>,
    ) -> Result<Option<Values>, Refusal> {
        let Some(order) = array.other else {
            let (Some(existing), Some(link)) = (self.0.known.existing(dataset), link) else {
                return Ok(None);
            };
            let Some(metadata) = existing.array(&array.path) else { return Ok(None) };
            let values = existing::values(link, dataset, &array.path, metadata, None);
            return Ok(Some(values.await?));
        };
        let Some((file, member)) = self.accepted(dataset, order) else { return Ok(None) };
        let Some(plan) = member.array(&array.path).cloned() else { return Ok(None) };
        work(move || values_in(&open(&file)?, &plan)).await.map(Some)
    }

    /// An accepted file.
    fn accepted(
        &self,
        dataset: &Location,
        order: u64,
    ) -> Option<(Arc<dyn ByteSource>, Arc<Member>)> {
        let gatherings = self.0.gatherings.lock();
        let gathering = gatherings.get(dataset)?;
        let (id, _) = gathering.admitted.iter().find(|(_, admitted)| admitted.order == order)?;
        let (_, member) = gathering.union.members().find(|(known, _)| *known == order)?;
        Some((self.0.staging.file(*id)? as _, Arc::clone(member)))
    }

    /// Whether values for coordinates that are there already are the same.
    async fn look_at_overlap(
        &self,
        candidate: &Candidate,
        dataset: &Location,
        overlap: &Overlapping,
        link: Option<&Link>,
    ) -> Result<(), Refusal> {
        let differing = match (overlap.other, link) {
            (Some(order), _) => self.differing_steps(candidate, dataset, order, overlap).await?,
            (None, Some(link)) => {
                self.differing_from_published(candidate, dataset, overlap, link).await?
            }
            (None, None) => Vec::new(),
        };
        if differing.is_empty() {
            return Ok(());
        }
        let gatherings = self.0.gatherings.lock();
        let Some(gathering) = gatherings.get(dataset) else { return Ok(()) };
        Err(gathering.union.overlap_refusal(&candidate.member, overlap, &differing).into())
    }

    /// Steps at which a variable has other values than in an accepted file.
    async fn differing_steps(
        &self,
        candidate: &Candidate,
        dataset: &Location,
        order: u64,
        overlap: &Overlapping,
    ) -> Result<Vec<u64>, Refusal> {
        let Some((other, member)) = self.accepted(dataset, order) else { return Ok(vec![]) };
        let Some(other_plan) = member.array(&overlap.path).cloned() else { return Ok(vec![]) };
        let Some(plan) = candidate.member.array(&overlap.path).cloned() else { return Ok(vec![]) };
        let (file, overlap) = (candidate.bytes(), overlap.clone());
        work(move || {
            let (file, other) = (open(&file)?, open(&other)?);
            compare::differing_steps((&file, &plan), (&other, &other_plan), &overlap)
        })
        .await
    }

    /// Steps at which a variable has other values than the published array.
    async fn differing_from_published(
        &self,
        candidate: &Candidate,
        dataset: &Location,
        overlap: &Overlapping,
        link: &Link,
    ) -> Result<Vec<u64>, Refusal> {
        let Some(existing) = self.0.known.existing(dataset) else { return Ok(vec![]) };
        let Some(metadata) = existing.array(&overlap.path) else { return Ok(vec![]) };
        let Some(plan) = candidate.member.array(&overlap.path).cloned() else { return Ok(vec![]) };
        let mut differing = Vec::new();
        for (here, there) in &overlap.steps {
            let at = Some((overlap.axis, *there));
            let old = existing::values(link, dataset, &overlap.path, metadata, at).await?;
            let (file, plan, here) = (candidate.bytes(), Arc::clone(&plan), *here);
            let (axis, conversion) = (overlap.axis, overlap.here.clone());
            let differs = work(move || {
                let new = values_at(&open(&file)?, &plan, axis, here)?;
                Ok(compare::differs(new, &conversion, &old))
            });
            if differs.await? {
                differing.push(here);
            }
        }
        Ok(differing)
    }
}

async fn work<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let defect = || Refusal::new(Cause::Corrupt, "comparing met a defect; please report it");
    tasks::blocking("compare", work).await.unwrap_or_else(|| Err(defect()))
}
