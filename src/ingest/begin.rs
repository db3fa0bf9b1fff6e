//! The beginning of an epoch: what it consists of, and its plan.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::future::try_join_all;

use super::dataset::{Event, Kind};
use super::digest::Digest;
use super::driver::Ingest;
use super::epoch::{Epoch, EpochError, Work};
use super::gathering::Candidate;
use super::import_journal::ImportJournal;
use super::judge::{self, Found, Verdict};
use super::members::{MemberFile, Members};
use super::names::Target;
use super::published::Published;
use super::receipt::{self, SourceRecord};
use super::{source, values};
use crate::base::tasks;
use crate::namespace::Ino;
use crate::plan::join::{EpochPlan, Existing, GapFills, Member, Union, fill_candidates};
use crate::plan::{self, Encoding};
use crate::staging::{FileId, StagedFile};
use crate::store::{Location, ObjectAttributes};
use crate::zarr::{Attributes, Node, NodePath};

/// Files whose digest is computed side by side.
const DIGESTS: usize = 4;

/// Attributes that say how values are decoded: those of a plan stand, whatever file it came from.
const DECODING: [&str; 12] = [
    "units",
    "calendar",
    "scale_factor",
    "add_offset",
    "_FillValue",
    "missing_value",
    "_Unsigned",
    "dtype",
    "_Encoding",
    "flag_values",
    "flag_masks",
    "flag_meanings",
];

/// A file of an epoch.
struct Taken {
    id: FileId,
    location: Location,
    target: Target,
    member: Arc<Member>,
    file: Arc<StagedFile>,
    encoding: Encoding,
    cancelled: Arc<AtomicBool>,
}

impl Ingest {
    /// Collects what an epoch needs, plans it, and journals that it begins.
    pub(super) async fn begin(
        &self,
        at: &Location,
        files: &[FileId],
    ) -> Result<(Epoch, Kind), EpochError> {
        let taken = self.take_all(files);
        self.check_all_taken(at, files, &taken)?;
        let Some(first) = taken.last() else { return Err(EpochError::Cancelled) };
        let encoding = first.encoding.clone();
        let before = self.before(at).await?;
        let (union, orders, kind, existing) = match &first.target {
            Target::OwnDataset(_) => {
                let verdict = judge::may_write(&first.location, at, &before)
                    .map_err(|refusal| EpochError::Refused(refusal.message))?;
                let kind = if verdict == Verdict::Replace { Kind::Replace } else { Kind::Create };
                let mut union = Union::of_one_file(encoding.clone());
                union
                    .admit(0, Member::clone(&first.member))
                    .map_err(|refusal| EpochError::Refused(refusal.to_string()))?;
                (union, HashMap::from([(0, first.id)]), kind, None)
            }
            Target::Joins { .. } => self.join_all(at, &taken, &before).await?,
        };
        if kind == Kind::Create {
            // What was learnt at the copy may be old by now. Chunks must not go over another's.
            let link = &self.0.pipeline.link;
            let listing = link.list_folder(at).await?;
            if !listing.objects.is_empty() || !listing.folders.is_empty() {
                self.forget(at);
                return Err(EpochError::LostRace(at.clone()));
            }
            // A receipt of a dataset that was there before speaks of values that are gone.
            self.drop_receipts(at, link).await?;
        }
        let (plan, members) = self.plan(union, &orders, &taken).await?;
        let kind = match kind {
            Kind::Extend { .. } => Kind::Extend { overwrites: plan.overwrites },
            kind => kind,
        };
        let mut sources = self.records(&taken).await?;
        let superseded = plan.superseded.iter();
        let superseded = superseded.filter_map(|at| orders.get(plan.members.get(*at)?));
        let superseded: HashSet<&FileId> = superseded.collect();
        for (source, taken) in sources.iter_mut().zip(&taken) {
            source.superseded = superseded.contains(&taken.id);
        }
        let name = uuid::Uuid::now_v7().to_string();
        let cancelled = taken.iter().map(|taken| Arc::clone(&taken.cancelled)).collect();
        let (journal, kind) = self.taken_up(at, &plan, &sources, &before, kind).await?;
        let journal = Some(journal);
        let work = Work { dataset: at.clone(), plan, members, cancelled, journal };
        let epoch = Epoch::new(work, kind, sources, &encoding, before, existing.as_deref(), name)?;
        self.note_epoch(at, Some(taken.len()));
        Ok((epoch, kind))
    }

    fn take_all(&self, files: &[FileId]) -> Vec<Taken> {
        let mut sources = self.0.sources.lock();
        let taken = files.iter().filter_map(|id| {
            let source = sources.get_mut(id)?;
            let Some((_, Found::Netcdf(member))) = &source.found else { return None };
            let member = Arc::clone(member);
            let file = self.0.staging.file(*id)?;
            if source.state != source::State::Assigned {
                source.step(source::Event::Assigned);
            }
            Some(Taken {
                id: *id,
                location: source.location.clone(),
                target: source.target.clone(),
                member,
                file,
                encoding: source.encoding.clone(),
                cancelled: Arc::clone(&source.cancelled),
            })
        });
        taken.collect()
    }

    /// A file that the epoch would leave out must not count as published with it.
    fn check_all_taken(
        &self,
        at: &Location,
        files: &[FileId],
        taken: &[Taken],
    ) -> Result<(), EpochError> {
        if taken.len() == files.len() {
            return Ok(());
        }
        let taken: HashSet<FileId> = taken.iter().map(|it| it.id).collect();
        let missing = files.iter().copied().filter(|id| !taken.contains(id));
        for id in missing {
            self.fail_file(id, "what it was found to be has been forgotten".to_owned(), false);
            self.note_withdrawn(at, id);
        }
        self.0.settled.notify_waiters();
        Err(EpochError::Cancelled)
    }

    /// What is in the bucket. What an interrupted epoch of ours left there is known as such.
    async fn before(&self, at: &Location) -> Result<Arc<Published>, EpochError> {
        let before =
            self.fetch(at).await.map_err(|refusal| EpochError::Refused(refusal.message))?;
        let is_bare = matches!(*before, Published::Absent | Published::Foreign(_));
        if self.leftover_note(at) && is_bare {
            // It had not put its receipt yet.
            return Ok(Arc::new(Published::Leftover { receipts: vec![] }));
        }
        Ok(before)
    }

    /// The union of all files of an epoch. A file that does not fit any more fails alone.
    async fn join_all(
        &self,
        at: &Location,
        taken: &[Taken],
        before: &Arc<Published>,
    ) -> Result<(Union, HashMap<u64, FileId>, Kind, Option<Arc<Existing>>), EpochError> {
        let link = &self.0.pipeline.link;
        let kind = match &**before {
            Published::Absent => Kind::Create,
            Published::Dataset(_) => Kind::Extend { overwrites: false },
            Published::Leftover { .. } => Kind::Replace,
            Published::Foreign(reason) => {
                let message = format!("`{at}` cannot be added to: {reason}");
                return Err(EpochError::Refused(message));
            }
        };
        let mut refused = false;
        for it in taken {
            let candidate =
                Candidate { id: it.id, file: Arc::clone(&it.file), member: Arc::clone(&it.member) };
            let joined = self.join(&candidate, &it.target, &it.encoding, Some(link)).await;
            if let Err(refusal) = joined {
                self.fail_file(it.id, refusal.message, false);
                self.note_withdrawn(at, it.id);
                refused = true;
            }
        }
        if refused {
            self.0.settled.notify_waiters();
            return Err(EpochError::Cancelled);
        }
        let files: Vec<FileId> = taken.iter().map(|taken| taken.id).collect();
        let defect = EpochError::Defect("the files of an epoch were not accepted");
        let (all, orders) = self.epoch_members(at, &files).ok_or(defect)?;
        if orders.len() != files.len() {
            // One was given up because another was withdrawn in this moment: all are judged again.
            return Err(EpochError::LostRace(at.clone()));
        }
        // Files that were accepted after the epoch began are not of it.
        let existing = all.existing().cloned();
        let mut union = Union::new(all.rules().clone(), all.encoding().clone(), existing.clone());
        for (order, member) in all.members().filter(|(order, _)| orders.contains_key(order)) {
            union
                .admit(order, Member::clone(member))
                .map_err(|refusal| EpochError::Refused(refusal.to_string()))?;
        }
        Ok((union, orders, kind, existing))
    }

    /// Tells the dataset that a file of its epoch is not to be waited for.
    fn note_withdrawn(&self, at: &Location, id: FileId) {
        self.feed(at, Event::Cancelled(id));
    }

    /// Plans. Where gaps need a value that stands for missing ones, the files are read for it.
    async fn plan(
        &self,
        union: Union,
        orders: &HashMap<u64, FileId>,
        taken: &[Taken],
    ) -> Result<(EpochPlan, Members), EpochError> {
        let by_id: HashMap<FileId, (String, Arc<StagedFile>)> = taken
            .iter()
            .map(|it| (it.id, (it.location.name().to_owned(), Arc::clone(&it.file))))
            .collect();
        let orders = orders.clone();
        let activities = self.0.pipeline.tally.activities().clone();
        let planned = tasks::blocking("plan", move || {
            let refused =
                |refusal: plan::join::JoinRefusal| EpochError::Refused(refusal.to_string());
            let mut plan = union.plan(&GapFills::new()).map_err(refused)?;
            let files = plan.members.iter().map(|order| {
                let (name, bytes) = by_id.get(orders.get(order)?)?.clone();
                Some(MemberFile { name, bytes })
            });
            let files: Option<Vec<MemberFile>> = files.collect();
            let gone = EpochError::Defect("a file of the plan is not of the epoch");
            let members = Members::new(files.ok_or(gone)?, &activities);
            if !plan.gaps.is_empty() {
                let fills = gap_fills(&plan, &members)?;
                plan = union.plan(&fills).map_err(refused)?;
            }
            complete_attributes(&mut plan, &union, &members)?;
            Ok((plan, members))
        });
        planned.await.unwrap_or(Err(EpochError::Defect("planning panicked")))
    }

    /// What an earlier attempt at the same epoch has put, and how this one goes on.
    async fn taken_up(
        &self,
        at: &Location,
        plan: &EpochPlan,
        sources: &[SourceRecord],
        before: &Published,
        kind: Kind,
    ) -> Result<(ImportJournal, Kind), EpochError> {
        let mut identity = format!("{sources:?}");
        for document in plan.hierarchy.documents(plan.consolidated)? {
            identity.push_str(&String::from_utf8_lossy(&document.bytes));
        }
        // Which file gives which values, where they overlap.
        let segments: Vec<_> = plan.arrays.iter().map(|array| &array.segments).collect();
        identity.extend([format!("{segments:?}")]);
        if let Published::Dataset(of) = before {
            identity.extend([format!("{:?}", Digest::of_bytes(&of.root.bytes))]);
        }
        let path = self.0.staging.beside(&journal_name(at));
        let mut journal = ImportJournal::open(&path, &Digest::of_bytes(identity.as_bytes()))
            .map_err(|error| EpochError::Key(format!("{}: {error}", path.display())))?;
        let is_leftover = matches!(before, Published::Leftover { .. });
        let kind = match kind {
            // A deletion that waits may be of what is there still.
            Kind::Replace if is_leftover && journal.is_begun() && !self.0.queue.is_pending(at) => {
                Kind::Resume
            }
            kind => kind,
        };
        if journal.len() > 0 {
            let there = match kind {
                Kind::Resume | Kind::Extend { .. } => self.objects_of(at).await?,
                Kind::Create | Kind::Replace => HashMap::new(),
            };
            journal.keep(&there);
            tracing::info!(dataset = %at, objects = journal.len(), "taken up where it was");
        }
        Ok((journal, kind))
    }

    /// The objects below a dataset by their keys in it.
    async fn objects_of(
        &self,
        at: &Location,
    ) -> Result<HashMap<String, ObjectAttributes>, EpochError> {
        let mut found = HashMap::new();
        let mut after = None;
        loop {
            let page = self.0.pipeline.link.list_below(at, after).await?;
            let keys = page.objects.into_iter();
            found.extend(keys.filter_map(|object| {
                Some((object.location.relative_to(at)?.to_string(), object.attributes))
            }));
            after = page.next;
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    async fn records(&self, taken: &[Taken]) -> Result<Vec<SourceRecord>, EpochError> {
        let mut records = Vec::with_capacity(taken.len());
        for some in taken.chunks(DIGESTS) {
            let mut computed = Vec::with_capacity(some.len());
            for it in some {
                computed.push(self.record(it));
            }
            records.append(&mut try_join_all(computed).await?);
        }
        Ok(records)
    }

    async fn record(&self, it: &Taken) -> Result<SourceRecord, EpochError> {
        let file = Arc::clone(&it.file);
        let digest = tasks::blocking("digest", move || {
            Digest::of_source(file.as_ref()).map(|digest| (digest, file.len()))
        })
        .await
        .ok_or(EpochError::Defect("computing a digest panicked"))?;
        let (digest, bytes) = digest.map_err(|error| {
            EpochError::Source(format!("cannot read the staged bytes: {error}"))
        })?;
        let mtime = self.0.tree.entry(Ino(it.id.0)).map(|entry| entry.attributes.mtime);
        let mtime_ns = mtime.map(receipt::nanoseconds).unwrap_or_default();
        let name = it.target.record_name(it.location.name());
        Ok(SourceRecord { name, bytes, mtime_ns, digest, superseded: false })
    }
}

/// Names the journal of what the epochs of a dataset have put.
fn journal_name(at: &Location) -> String {
    let digest = format!("{:?}", Digest::of_bytes(at.as_str().as_bytes()));
    format!("put-{}", digest.chars().filter(char::is_ascii_alphanumeric).collect::<String>())
}

/// For each array with gaps a value that none of the files has.
pub(super) fn gap_fills(plan: &EpochPlan, members: &Members) -> Result<GapFills, EpochError> {
    let source = |error: String| EpochError::Source(error);
    let mut fills = GapFills::new();
    for path in &plan.gaps {
        let Some(array) = plan.arrays.iter().find(|array| array.path == *path) else { continue };
        let mut candidates = fill_candidates(array.metadata.data_type);
        let size = array.metadata.data_type.size();
        let mut converted = Vec::new();
        for part in &array.parts {
            let file = members.open(part.member).map_err(|error| source(error.to_string()))?;
            if let Ok(fill) = part.conversion.convert_one(&part.source_fill) {
                candidates.retain(|candidate| *candidate != fill);
            }
            let mut outcome = Ok(());
            let read = values::for_each_chunk(
                &file,
                part.variable,
                &part.shape,
                &part.source_chunk_shape,
                part.conversion.source_element_bytes(),
                |elements| {
                    converted.clear();
                    outcome = outcome.clone().and(part.conversion.apply(elements, &mut converted));
                    for element in converted.chunks_exact(size) {
                        candidates.retain(|candidate| candidate != element);
                    }
                },
            );
            read.map_err(|error| source(error.to_string()))?;
            outcome.map_err(|error| source(format!("variable {path}: {error}")))?;
        }
        let Some(fill) = candidates.into_iter().next() else {
            return Err(EpochError::Refused(format!(
                "variable {path} is missing in some files and has every value that could stand for \
                 missing ones: leave it out, or give it a `_FillValue`"
            )));
        };
        fills.insert(path.clone(), fill);
    }
    Ok(fills)
}

/// Gives new nodes the attributes of the file that they are taken from, in full.
pub(super) fn complete_attributes(
    plan: &mut EpochPlan,
    union: &Union,
    members: &Members,
) -> Result<(), EpochError> {
    let refused = |error: String| EpochError::Source(error);
    for (position, paths) in plan.attributes_from.clone() {
        let order = plan.members.get(position);
        let member = union.members().find(|(known, _)| Some(known) == order);
        let Some((_, member)) = member else { continue };
        let file = members.open(position).map_err(|error| refused(error.to_string()))?;
        let own = plan::plan_dataset(file.schema(), union.encoding())
            .map_err(|error| refused(error.to_string()))?;
        let landed = |path: &NodePath| member.landing.join(path);
        let groups = own.groups.iter().map(|g| (landed(&g.path), &g.metadata.attributes));
        let arrays = own.arrays.iter().map(|a| (landed(&a.path), &a.metadata.attributes));
        let attributes: HashMap<NodePath, &Attributes> = groups.chain(arrays).collect();
        for path in paths {
            let (Some(full), Some(node)) = (attributes.get(&path), plan.hierarchy.get(&path))
            else {
                continue;
            };
            let mut node = node.clone();
            match &mut node {
                Node::Group(group) => group.attributes.clone_from(full),
                Node::Array(array) => array.attributes = merged(full, &array.attributes),
            }
            plan.hierarchy.insert(path, node);
        }
    }
    Ok(())
}

/// The attributes of a file with the decoding of the plan.
fn merged(full: &Attributes, planned: &Attributes) -> Attributes {
    let mut merged = full.clone();
    for name in DECODING {
        match planned.get(name) {
            Some(value) => {
                merged.insert(name.to_owned(), value.clone());
            }
            None => {
                merged.shift_remove(name);
            }
        }
    }
    merged
}
