//! Files of the local disk into one dataset, without staging: what `zarrmount import` does.
//!
//! All headers are read first, then everything is planned and checked, and only then the first byte
//! is sent. The plan is put by the same steps as an epoch of a mount. What was put is journaled: an
//! import that was interrupted goes on where it was, if files and options are the same.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};

use super::begin::{complete_attributes, gap_fills};
use super::chunks::Pipeline;
use super::compare::{self, Values, values_at, values_in};
use super::dataset::{Kind, Step};
use super::digest::Digest;
use super::epoch::{Epoch, EpochError, Work};
use super::existing;
use super::import_journal::ImportJournal;
use super::judge::{self, Found};
use super::members::{MemberFile, Members};
use super::published::{Known, Published};
use super::receipt::{self, SourceRecord};
use super::refusal::Refusal;
use super::rereading;
use crate::assemble::Rereading;
use crate::base::clock::Clock;
use crate::base::permits::Budget;
use crate::base::tasks;
use crate::namespace::Tree;
use crate::netcdf::{ByteSource, LocalFile, NetcdfFile};
use crate::plan::join::{
    Difference, EpochPlan, Existing, Findings, GapFills, JoinRefusal, Member, Overlap, Overlapping,
    Union,
};
use crate::plan::{ArrayPlan, Encoding};
use crate::store::{Link, Location, StoreError};
use crate::telemetry::activities::{Activities, Bottleneck};
use crate::telemetry::progress::{Progress, Stage, Transfer};
use crate::telemetry::tally::Tally;
use crate::zarr::{Document, Hierarchy, Node, NodePath};

/// Files whose metadata is read side by side: it waits for the disk, not for the processor.
const HEADERS_IN_FLIGHT: usize = 16;

/// Refused files that are named.
const REFUSALS_NAMED: usize = 20;

/// How often progress is told.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// What an import works with.
#[derive(Debug)]
pub struct ImportParts {
    /// The way to the bucket.
    pub link: Link,
    /// What is known of it.
    pub tree: Arc<Tree>,
    /// Memory for chunks.
    pub budget: Budget,
    /// Threads that decode and encode.
    pub cpu_threads: usize,
    /// Objects sent.
    pub tally: Arc<Tally>,
    /// Time.
    pub clock: Clock,
    /// Where journals of imports lie.
    pub journals: PathBuf,
}

/// Why files are not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Files that cannot be taken; nothing was sent.
    #[error("{} cannot be taken:\n{}", files_text(*.count), .lines.join("\n"))]
    Refused {
        /// How many.
        count: usize,
        /// File and reason, for the first of them.
        lines: Vec<String>,
    },
    /// The dataset cannot be added to, or the files do not fit together.
    #[error("{0}")]
    Dataset(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something went wrong on the way; what was put is journaled.
    #[error("{0}")]
    Interrupted(String),
}

fn files_text(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// A file to be imported.
#[derive(Debug, Clone)]
struct Source {
    path: PathBuf,
    name: String,
    bytes: u64,
    mtime_ns: i64,
}

/// Files that have been read and planned.
#[derive(Debug)]
pub struct Import {
    pipeline: Pipeline,
    clock: Clock,
    dataset: Location,
    journal: PathBuf,
    encoding: Encoding,
    before: Arc<Published>,
    existing: Option<Arc<Existing>>,
    /// In the order of the plan.
    sources: Vec<Source>,
    plan: EpochPlan,
    members: Members,
    skipped: usize,
}

/// What an import would do, for people and for programs.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportSummary {
    /// The dataset as it will be.
    pub hierarchy: Hierarchy,
    /// Files that give values.
    pub files: usize,
    /// Files that are in the dataset already.
    pub skipped: usize,
    /// Bytes of the files.
    pub source_bytes: u64,
    /// Chunk objects, if none can be omitted.
    pub chunk_objects: u64,
    /// Bytes of all values that are written, before encoding.
    pub raw_bytes: u64,
    /// Bytes of the largest chunk before encoding.
    pub chunk_bytes_max: u64,
    /// Along which dimension files are joined, by group.
    pub axes: Vec<(NodePath, String)>,
    /// Whether the dataset exists.
    pub extends: bool,
    /// Variables whose source chunks are decoded several times, for want of memory.
    pub rereading: Vec<(NodePath, Rereading)>,
    /// Source chunks decoded; 0 before it is done.
    pub chunks_decoded: u64,
    /// Where the time went; nothing before it is done.
    pub bottleneck: Option<Bottleneck>,
}

impl Import {
    /// Reads what has to be known of the files and of the dataset, and plans. Sends nothing.
    pub async fn prepare(
        parts: ImportParts,
        dataset: Location,
        files: Vec<PathBuf>,
        encoding: &Encoding,
    ) -> Result<Self, ImportError> {
        let known = Known::default();
        let before = known.fetch(&parts.tree, &parts.link, &dataset).await?;
        let journal = journal_path(&parts, &dataset);
        let mut encoding = encoding.clone();
        let existing = match &*before {
            Published::Dataset(of) => {
                let existing = existing::load(&parts.link, &dataset, of).await;
                let existing = existing.map_err(|error| ImportError::Dataset(error.to_string()))?;
                encoding.format = existing.hierarchy.format();
                encoding.consolidated = existing.consolidated;
                Some(Arc::new(existing))
            }
            Published::Foreign(reason) if !ImportJournal::exists(&journal) => {
                return Err(ImportError::Dataset(format!(
                    "`{dataset}` cannot be added to: {reason}"
                )));
            }
            Published::Absent | Published::Leftover { .. } | Published::Foreign(_) => None,
        };
        let (sources, skipped) = new_sources(files, &before, encoding.join.overlap)?;
        let members = read_headers(&sources, &dataset, &encoding).await?;
        let joining = Joining {
            dataset: dataset.clone(),
            sources,
            members,
            encoding: encoding.clone(),
            existing: existing.clone(),
            published: HashMap::new(),
            activities: parts.tally.activities().clone(),
        };
        let (plan, members, sources) = joining.plan(&parts.link).await?;
        let pipeline = Pipeline::new(parts.link, parts.budget, parts.cpu_threads, parts.tally);
        let clock = parts.clock;
        Ok(Self {
            pipeline,
            clock,
            dataset,
            journal,
            encoding,
            before,
            existing,
            sources,
            plan,
            members,
            skipped,
        })
    }

    /// What it would do.
    pub fn summary(&self) -> ImportSummary {
        let arrays = self.plan.arrays.iter();
        let written = |array: &crate::plan::ArrayTarget| {
            let given: u64 = array.segments.iter().map(|segment| segment.length).sum();
            let mut shape = array.metadata.shape.clone();
            if let Some(length) = shape.get_mut(array.axis) {
                *length = given;
            }
            shape
        };
        let objects = arrays.clone().map(|array| {
            let shape = written(array);
            let grid = shape.iter().zip(&array.metadata.chunk_shape);
            grid.map(|(length, chunk)| length.div_ceil(*chunk)).fold(1, u64::saturating_mul)
        });
        let raw = arrays.clone().map(|array| {
            let size = array.metadata.data_type.size() as u64;
            written(array).iter().fold(size, |bytes, length| bytes.saturating_mul(*length))
        });
        ImportSummary {
            hierarchy: self.plan.hierarchy.clone(),
            files: self.sources.len(),
            skipped: self.skipped,
            source_bytes: self.sources.iter().map(|source| source.bytes).sum(),
            chunk_objects: objects.fold(0, u64::saturating_add),
            raw_bytes: raw.fold(0, u64::saturating_add),
            chunk_bytes_max: arrays
                .filter_map(|array| array.metadata.chunk_bytes())
                .max()
                .unwrap_or(0),
            axes: self.plan.axes.iter().map(|(g, axis)| (g.clone(), axis.clone())).collect(),
            extends: self.existing.is_some(),
            rereading: rereading::of_plan(&self.plan.arrays, &self.pipeline),
            chunks_decoded: 0,
            bottleneck: None,
        }
    }

    /// Puts everything. When it returns the dataset is published.
    pub async fn run(self, progress: &dyn Progress) -> Result<ImportSummary, ImportError> {
        let summary = self.summary();
        if self.sources.is_empty() {
            return Ok(summary);
        }
        let interrupted = |error: EpochError| ImportError::Interrupted(error.to_string());
        let is_going_on = ImportJournal::exists(&self.journal);
        let kind = match (&*self.before, is_going_on) {
            (Published::Dataset(_), _) => Kind::Extend { overwrites: self.plan.overwrites },
            (Published::Absent, _) | (_, true) => Kind::Create,
            (_, false) => Kind::Replace,
        };
        let journal = self.open_journal()?;
        let earlier = journal.len();
        if earlier > 0 {
            tracing::info!(objects = earlier, "an earlier import is taken up where it was");
        }
        let superseded = &self.plan.superseded;
        let records = self.sources.iter().enumerate().map(|(position, source)| SourceRecord {
            name: source.name.clone(),
            bytes: source.bytes,
            mtime_ns: source.mtime_ns,
            digest: Digest::unknown(),
            superseded: superseded.contains(&position),
        });
        let records = records.collect();
        let work = Work {
            dataset: self.dataset.clone(),
            plan: self.plan,
            members: self.members,
            cancelled: Vec::new(),
            journal: Some(journal),
        };
        let name = uuid::Uuid::now_v7().to_string();
        let existing = self.existing.as_deref();
        let epoch = Epoch::new(work, kind, records, &self.encoding, self.before, existing, name)
            .map_err(interrupted)?;
        for step in kind.steps() {
            if *step == Step::PutReceipt {
                // Nothing is shown of files that changed while they were read.
                self.sources.iter().try_for_each(Source::check)?;
            }
            let stage = if *step > Step::PutChunks { Stage::Publishing } else { Stage::Sending };
            let running = epoch.run(*step, &self.pipeline);
            tokio::pin!(running);
            loop {
                tokio::select! {
                    outcome = &mut running => {
                        outcome.map_err(interrupted)?;
                        break;
                    }
                    () = self.clock.sleep(REPORT_INTERVAL) => {
                        let done = self.pipeline.tally.objects() + earlier as u64;
                        progress.report(transfer(stage, done, &summary));
                    }
                }
            }
        }
        if let Some(journal) = &epoch.work.journal
            && let Err(error) = journal.remove()
        {
            tracing::warn!(%error, "the journal of the import was not removed");
        }
        progress.report(transfer(Stage::Done, summary.chunk_objects, &summary));
        let bottleneck = self.pipeline.tally.activities().finish();
        let chunks_decoded = self.pipeline.tally.chunks_decoded();
        Ok(ImportSummary { chunks_decoded, bottleneck, ..summary })
    }

    fn open_journal(&self) -> Result<ImportJournal, ImportError> {
        let documents = self.plan.hierarchy.documents(self.plan.consolidated);
        let documents: Vec<Document> =
            documents.map_err(|error| ImportError::Dataset(error.to_string()))?;
        let mut identity = format!("{:?} {:?}", self.dataset, self.sources);
        for document in documents {
            identity.push_str(&String::from_utf8_lossy(&document.bytes));
        }
        // Which file gives which values, where they overlap.
        let segments: Vec<_> = self.plan.arrays.iter().map(|array| &array.segments).collect();
        identity.extend([format!("{segments:?}")]);
        let digest = Digest::of_bytes(identity.as_bytes());
        ImportJournal::open(&self.journal, &digest).map_err(|error| {
            ImportError::Interrupted(format!("{}: {error}", self.journal.display()))
        })
    }
}

fn transfer(stage: Stage, objects: u64, summary: &ImportSummary) -> Transfer {
    let total = summary.chunk_objects.max(1);
    let done = objects.min(total);
    let share = u128::from(summary.source_bytes) * u128::from(done) / u128::from(total);
    Transfer {
        stage,
        bytes_done: u64::try_from(share).unwrap_or(u64::MAX),
        bytes_total: summary.source_bytes,
        objects_done: done,
        objects_total: total,
    }
}

fn journal_path(parts: &ImportParts, dataset: &Location) -> PathBuf {
    let identity = format!("{} {dataset}", parts.link.identity());
    let digest = format!("{:?}", Digest::of_bytes(identity.as_bytes()));
    let name: String = digest.chars().filter(char::is_ascii_alphanumeric).collect();
    parts.journals.join(name)
}

impl Source {
    fn at(path: &Path) -> Result<Self, String> {
        let attributes = path.metadata().map_err(|error| error.to_string())?;
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("not UTF-8")?.to_owned();
        let mtime = attributes.modified().map_err(|error| error.to_string())?;
        let mtime_ns = receipt::nanoseconds(mtime);
        Ok(Self { path: path.to_owned(), name, bytes: attributes.len(), mtime_ns })
    }

    fn check(&self) -> Result<(), ImportError> {
        let now = Self::at(&self.path).map_err(ImportError::Interrupted)?;
        if (now.bytes, now.mtime_ns) == (self.bytes, self.mtime_ns) {
            return Ok(());
        }
        Err(ImportError::Interrupted(format!("{} changed meanwhile", self.path.display())))
    }

    fn open(&self) -> Arc<dyn ByteSource> {
        Arc::new(LocalFile(self.path.clone()))
    }
}

/// The files that the dataset does not have yet, by name, size and modification time.
fn new_sources(
    files: Vec<PathBuf>,
    before: &Published,
    overlap: Overlap,
) -> Result<(Vec<Source>, usize), ImportError> {
    let receipts = match before {
        Published::Dataset(of) => of.receipts.as_slice(),
        _ => &[],
    };
    let known = |source: &Source| {
        let records = receipts.iter().flat_map(|(_, receipt)| &receipt.sources);
        let mut records =
            records.filter(|record| overlap != Overlap::Replace || !record.superseded);
        records.any(|record| {
            (record.name.as_str(), record.bytes, record.mtime_ns)
                == (source.name.as_str(), source.bytes, source.mtime_ns)
        })
    };
    let (mut sources, mut lines, mut skipped) = (Vec::new(), Vec::new(), 0);
    for path in files {
        match Source::at(&path) {
            Ok(source) if known(&source) => skipped += 1,
            Ok(source) => sources.push(source),
            Err(error) => lines.push(format!("{}: {error}", path.display())),
        }
    }
    refuse(lines)?;
    Ok((sources, skipped))
}

fn refuse(mut lines: Vec<String>) -> Result<(), ImportError> {
    if lines.is_empty() {
        return Ok(());
    }
    let count = lines.len();
    lines.truncate(REFUSALS_NAMED);
    Err(ImportError::Refused { count, lines })
}

async fn read_headers(
    sources: &[Source],
    dataset: &Location,
    encoding: &Encoding,
) -> Result<Vec<Arc<Member>>, ImportError> {
    let mut reading = Vec::with_capacity(sources.len());
    for source in sources {
        reading.push(read_header(source.clone(), dataset.clone(), encoding.clone()));
    }
    let mut found = stream::iter(reading).buffered(HEADERS_IN_FLIGHT);
    let (mut members, mut lines) = (Vec::<Arc<Member>>::new(), Vec::new());
    while let Some(found) = found.next().await {
        match found {
            Ok(member) => {
                let mut member = Arc::unwrap_or_clone(member);
                if let Some(before) = members.last() {
                    member.share_with(before);
                }
                members.push(Arc::new(member));
            }
            Err(line) => lines.push(line),
        }
    }
    refuse(lines)?;
    Ok(members)
}

async fn read_header(
    source: Source,
    dataset: Location,
    encoding: Encoding,
) -> Result<Arc<Member>, String> {
    let path = source.path.display().to_string();
    let examined = tasks::blocking("header", move || {
        let at = dataset.child(&source.name).map_err(|error| error.to_string())?;
        judge::examine(source.open(), &at, &NodePath::root(), &encoding)
            .map_err(|refusal| refusal.to_string())
    });
    match examined.await {
        Some(Ok(Found::Netcdf(member))) => Ok(member),
        Some(Ok(Found::Object)) => Err(format!("{path}: not a NetCDF file")),
        Some(Err(reason)) => Err(format!("{path}: {reason}")),
        None => Err(format!("{path}: reading it met a defect; please report it")),
    }
}

/// Files on their way to a plan.
struct Joining {
    dataset: Location,
    sources: Vec<Source>,
    members: Vec<Arc<Member>>,
    encoding: Encoding,
    existing: Option<Arc<Existing>>,
    /// Published values that have been asked for.
    published: HashMap<Wanted, Values>,
    activities: Activities,
}

/// Values of a published array: all, or those at one step along a dimension.
type Wanted = (NodePath, Option<(usize, u64)>);

impl Joining {
    /// Joins all files, or says of each that does not fit why.
    async fn plan(mut self, link: &Link) -> Result<(EpochPlan, Members, Vec<Source>), ImportError> {
        // Values of the bucket are needed by few files. Those are found by a first look at all.
        let wanted = self.wanted_published();
        for (path, at) in wanted {
            let Some(existing) = &self.existing else { break };
            let Some(metadata) = existing.array(&path) else { continue };
            let values = existing::values(link, &self.dataset, &path, metadata, at).await;
            let values = values.map_err(|error| ImportError::Dataset(error.to_string()))?;
            self.published.insert((path, at), values);
        }
        let planned = tasks::blocking("plan", move || self.join());
        planned.await.unwrap_or_else(|| Err(ImportError::Dataset("planning met a defect".into())))
    }

    fn union(&self) -> Union {
        let encoding = &self.encoding;
        Union::new(encoding.join.clone(), encoding.clone(), self.existing.clone())
    }

    fn wanted_published(&self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        if self.existing.is_none() {
            return wanted;
        }
        let union = self.union();
        for member in &self.members {
            let Ok(findings) = union.examine(member) else { continue };
            let findings = findings.of_published();
            wanted.extend(findings.statics.into_iter().map(|array| (array.path, None)));
            for overlap in &findings.overlaps {
                let steps = overlap.steps.iter();
                let wanted_at = |(_, at): &(u64, u64)| Some((overlap.axis, *at));
                wanted.extend(steps.map(|step| (overlap.path.clone(), wanted_at(step))));
            }
        }
        wanted.sort();
        wanted.dedup();
        wanted
    }

    fn join(self) -> Result<(EpochPlan, Members, Vec<Source>), ImportError> {
        let mut union = self.union();
        let mut lines = Vec::new();
        let mut values = HashMap::new();
        for (position, (source, member)) in self.sources.iter().zip(&self.members).enumerate() {
            let joined = union.examine(member).map_err(Refusal::from).and_then(|findings| {
                self.look_at(source, member, &findings, &union, &mut values)?;
                union.admit(position as u64, Member::clone(member)).map_err(Refusal::from)
            });
            if let Err(refusal) = joined {
                lines.push(format!("{}: {refusal}", source.path.display()));
            }
        }
        refuse(lines)?;
        let refused = |refusal: JoinRefusal| ImportError::Dataset(refusal.to_string());
        let wrong = |error: EpochError| ImportError::Dataset(error.to_string());
        let mut plan = union.plan(&GapFills::new()).map_err(refused)?;
        let ordered = plan
            .members
            .iter()
            .filter_map(|order| self.sources.get(usize::try_from(*order).ok()?).cloned());
        let sources: Vec<Source> = ordered.collect();
        let files = sources.iter().map(|source| MemberFile {
            name: source.path.display().to_string(),
            bytes: source.open(),
        });
        let members = Members::new(files.collect(), &self.activities);
        if !plan.gaps.is_empty() {
            let fills = gap_fills(&plan, &members).map_err(wrong)?;
            plan = union.plan(&fills).map_err(refused)?;
        }
        complete_attributes(&mut plan, &union, &members).map_err(wrong)?;
        Ok((plan, members, sources))
    }

    /// Looks at values, as far as it depends on them whether a file can be taken.
    fn look_at(
        &self,
        source: &Source,
        member: &Member,
        findings: &Findings,
        union: &Union,
        values: &mut HashMap<(u64, NodePath), Values>,
    ) -> Result<(), Refusal> {
        let bytes = source.open();
        for scan in &findings.scans {
            if let Some(order) = scan.file {
                if let Some((other, plan)) = self.other(order, &scan.path) {
                    compare::scan(&compare::open(&other.open())?, plan, scan)?;
                }
            } else if let Some(plan) = member.array(&scan.path) {
                compare::scan(&compare::open(&bytes)?, plan, scan)?;
            }
        }
        for array in &findings.statics {
            let Some(plan) = member.array(&array.path) else { continue };
            let there = values_in(&compare::open(&bytes)?, plan)?;
            let difference = if let Some(order) = array.other {
                let Some((other, other_plan)) = self.other(order, &array.path) else {
                    continue;
                };
                let key = (order, array.path.clone());
                if !values.contains_key(&key) {
                    let here = values_in(&compare::open(&other.open())?, other_plan)?;
                    values.insert(key.clone(), here);
                }
                let Some(here) = values.get(&key) else { continue };
                compare::difference(other_plan.metadata.data_type, array, here, there)?
            } else {
                let here = self.published.get(&(array.path.clone(), None));
                let existing = self.existing.as_ref().and_then(|e| e.array(&array.path));
                let (Some(here), Some(existing)) = (here, existing) else { continue };
                compare::difference(existing.data_type, array, here, there)?
            };
            if let Difference::Different(difference) = difference {
                let (variable, other) = (array.path.to_string(), union.name_of(array.other));
                return Err(JoinRefusal::OtherValues { variable, difference, other }.into());
            }
        }
        for overlap in &findings.overlaps {
            self.look_at_overlap(&bytes, member, overlap, union)?;
        }
        Ok(())
    }

    fn other(&self, order: u64, path: &NodePath) -> Option<(&Source, &Arc<ArrayPlan>)> {
        let position = usize::try_from(order).ok()?;
        Some((self.sources.get(position)?, self.members.get(position)?.array(path)?))
    }

    fn look_at_overlap(
        &self,
        bytes: &Arc<dyn ByteSource>,
        member: &Member,
        overlap: &Overlapping,
        union: &Union,
    ) -> Result<(), Refusal> {
        let Some(plan) = member.array(&overlap.path) else { return Ok(()) };
        let file = compare::open(bytes)?;
        let differing = match overlap.other {
            Some(order) => {
                let Some((other, other_plan)) = self.other(order, &overlap.path) else {
                    return Ok(());
                };
                let other = compare::open(&other.open())?;
                compare::differing_steps((&file, plan), (&other, other_plan), overlap)?
            }
            None => self.differing_from_published(&file, plan, overlap)?,
        };
        if differing.is_empty() {
            return Ok(());
        }
        Err(union.overlap_refusal(member, overlap, &differing).into())
    }

    fn differing_from_published(
        &self,
        file: &NetcdfFile,
        plan: &ArrayPlan,
        overlap: &Overlapping,
    ) -> Result<Vec<u64>, Refusal> {
        let mut differing = Vec::new();
        for (here, there) in &overlap.steps {
            let key = (plan.path.clone(), Some((overlap.axis, *there)));
            let new = values_at(file, plan, overlap.axis, *here)?;
            let old = self.published.get(&key);
            if old.is_none_or(|old| compare::differs(new, &overlap.here, old)) {
                differing.push(*here);
            }
        }
        Ok(differing)
    }
}

impl ImportSummary {
    /// All arrays of the dataset.
    pub fn arrays(&self) -> impl Iterator<Item = (&NodePath, &crate::zarr::ArrayMetadata)> {
        self.hierarchy.nodes().filter_map(|(path, node)| match node {
            Node::Array(array) => Some((path, array)),
            Node::Group(_) => None,
        })
    }
}
