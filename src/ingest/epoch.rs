//! One epoch of one dataset: does the steps whose order `dataset.rs` fixes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;

use super::chunks::Pipeline;
use super::dataset::{Kind, Step};
use super::digest::Digest;
use super::import_journal::{ImportJournal, Put};
use super::members::Members;
use super::names::receipts_folder;
use super::published::{Published, PublishedDataset, RootObject};
use super::receipt::{Receipt, SourceRecord};
use crate::assemble::{Block, Piece};
use crate::plan::Encoding;
use crate::plan::join::{EpochPlan, Existing};
use crate::store::{Link, Location, PutCondition, StoreError, Version};
use crate::zarr::{Document, DocumentError};

/// Small documents put side by side.
const DOCUMENTS_IN_FLIGHT: usize = 32;

/// Why an epoch did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum EpochError {
    /// The source's bytes turned out to be damaged or unreadable.
    #[error("{0}")]
    Source(String),
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A metadata document cannot be written.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A key that no object can have.
    #[error("{0}")]
    Key(String),
    /// The dataset is another file's by now.
    #[error("{0}")]
    Refused(String),
    /// Somebody else published the dataset, or changed it, while this epoch ran.
    #[error("`{0}` was changed by someone else meanwhile")]
    LostRace(Location),
    /// The file was withdrawn.
    #[error("the file was withdrawn")]
    Cancelled,
    /// A defect of this program.
    #[error("{0}; this is a defect, please report it")]
    Defect(&'static str),
}

/// What the pipeline of an epoch works on.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) dataset: Location,
    pub(super) plan: EpochPlan,
    /// The files that [`EpochPlan::members`] counts.
    pub(super) members: Members,
    /// Whether each file was withdrawn.
    pub(super) cancelled: Vec<Arc<AtomicBool>>,
    /// What was put, also by an earlier attempt at the same plan.
    pub(super) journal: Option<ImportJournal>,
}

impl Work {
    /// Whether a file was withdrawn.
    pub(super) fn is_cancelled(&self) -> bool {
        !self.plan.overwrites && self.cancelled.iter().any(|flag| flag.load(Ordering::Acquire))
    }

    /// Notes for a later attempt at the same plan that a chunk is in the bucket, or needs no object.
    pub(super) fn record(&self, key: &str, put: &Put) -> Result<(), EpochError> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.record(key, put))
    }

    /// The decoded elements of a source chunk, into an empty buffer. Blocks.
    pub(super) fn read(
        &self,
        block: &Block,
        piece: &Piece,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let position = block.member(piece.part);
        let mut read = || -> Result<(), String> {
            let file = self.members.open(position).map_err(|error| error.to_string())?;
            file.read_chunk(&piece.location, out).map_err(|error| error.to_string())
        };
        read().map_err(|reason| format!("{}: {reason}", self.members.name(position)))
    }
}

/// An epoch under way.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) work: Arc<Work>,
    kind: Kind,
    /// What was in the bucket when the epoch began.
    before: Arc<Published>,
    receipt: Receipt,
    receipt_at: Option<Location>,
    /// Those that change, in the order of publication.
    documents: Vec<Document>,
    root: Document,
    /// Of the root document, once it is put.
    version: Mutex<Option<Version>>,
}

impl Epoch {
    /// Prepares everything that the steps need; no I/O. `sources` are the files of the epoch.
    pub(super) fn new(
        work: Work,
        kind: Kind,
        sources: Vec<SourceRecord>,
        encoding: &Encoding,
        before: Arc<Published>,
        known: Option<&Existing>,
        name: String,
    ) -> Result<Self, EpochError> {
        let plan = &work.plan;
        let mut documents = plan.hierarchy.documents(plan.consolidated)?;
        let Some(root) = documents.pop() else {
            return Err(EpochError::Defect("a dataset without a root document was planned"));
        };
        if let Some(known) = known {
            let same = known.hierarchy.documents(known.consolidated)?;
            documents.retain(|document| !same.contains(document));
        }
        let receipt_at = receipts_folder(&work.dataset)
            .and_then(|folder| folder.child(&format!("{name}.json")).ok());
        let nodes = plan.hierarchy.nodes().map(|(path, _)| path).filter(|path| !path.is_root());
        let nodes = nodes.map(|path| path.as_str().to_owned()).collect();
        let mut all = Vec::new();
        let mut has_others = false;
        if let (Kind::Extend { .. }, Published::Dataset(of)) = (kind, &*before) {
            has_others = of.others.is_some();
            let former = of.receipts.iter().flat_map(|(_, receipt)| &receipt.sources);
            let former = former.filter(|f| sources.iter().all(|new| new.name != f.name));
            all.extend(former.cloned().map(|record| SourceRecord {
                // Whose values they were is not known.
                superseded: record.superseded || plan.overwrites,
                ..record
            }));
        }
        all.extend(sources);
        let digest = Digest::of_bytes(&root.bytes);
        let mut receipt = Receipt::new(name, digest, all, nodes, encoding.clone());
        receipt.has_others = has_others;
        receipt.axes = plan
            .axes
            .iter()
            .map(|(group, axis)| (group.as_str().to_owned(), axis.clone()))
            .collect();
        Ok(Self {
            work: Arc::new(work),
            kind,
            before,
            receipt,
            receipt_at,
            documents,
            root,
            version: Mutex::new(None),
        })
    }

    /// What is in the bucket once the epoch is published.
    pub(super) fn after(&self) -> Result<Published, EpochError> {
        let receipts = self.receipt_at.iter().map(|at| (at.clone(), self.receipt.clone()));
        let others = match &*self.before {
            Published::Dataset(of) if matches!(self.kind, Kind::Extend { .. }) => of.others.clone(),
            _ => None,
        };
        Ok(Published::Dataset(PublishedDataset {
            root: RootObject {
                at: self.at(&self.root.key)?,
                version: self.version.lock().clone().unwrap_or_default(),
                bytes: self.root.bytes.clone(),
            },
            receipts: receipts.collect(),
            others,
        }))
    }

    /// Does one step; when it returns, the step is complete in the bucket.
    pub(super) async fn run(&self, step: Step, pipeline: &Pipeline) -> Result<(), EpochError> {
        let link = &pipeline.link;
        match step {
            Step::Withdraw => self.withdraw(link).await,
            Step::Clear => self.clear(link).await,
            Step::PutChunks => {
                self.work.journal.as_ref().map_or(Ok(()), ImportJournal::begin)?;
                pipeline.run(&self.work).await
            }
            Step::PutReceipt => self.put_receipt(link).await,
            Step::PutNodeDocuments => self.put_node_documents(link).await,
            Step::PutRootDocument => self.put_root_document(link).await,
            Step::DropOldReceipts => self.drop_old_receipts(link).await,
        }
    }

    /// Deletes the root document, if it is still the one that was judged.
    async fn withdraw(&self, link: &Link) -> Result<(), EpochError> {
        let at = self.at(&self.root.key)?;
        let found = match link.get(&at, None).await {
            Ok(found) => Digest::of_bytes(&found.bytes),
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let ours = found == self.receipt.root_document
            || self.former_receipts().any(|(_, receipt)| receipt.root_document == found);
        if !ours {
            return Err(EpochError::LostRace(at));
        }
        Ok(link.delete(&at).await?)
    }

    /// Takes back what a given up epoch did: everything of a dataset that was to be new. What it put
    /// beyond the end of a published array is overwritten or removed by the next one.
    pub(super) async fn take_back(&self, link: &Link) -> Result<(), EpochError> {
        match self.kind {
            Kind::Create | Kind::Replace | Kind::Resume => self.clear(link).await,
            Kind::Extend { .. } => Ok(()),
        }
    }

    /// Deletes what lies below the nodes of the former and of this epoch, and nothing else.
    async fn clear(&self, link: &Link) -> Result<(), EpochError> {
        let mut tops: Vec<&str> = self.receipt.nodes.iter().map(String::as_str).collect();
        tops.extend(self.former_receipts().flat_map(|(_, r)| &r.nodes).map(String::as_str));
        tops = tops.into_iter().map(|node| node.split('/').next().unwrap_or(node)).collect();
        tops.sort_unstable();
        tops.dedup();
        for top in tops {
            let folder = self.at(top)?;
            loop {
                // Always the first page: what it lists is deleted before the next is asked for.
                let page = link.list_below(&folder, None).await?;
                let found: Vec<Location> =
                    page.objects.into_iter().map(|object| object.location).collect();
                if found.is_empty() {
                    break;
                }
                for (_, deleted) in link.delete_many(found).await {
                    deleted?;
                }
            }
        }
        Ok(())
    }

    async fn put_receipt(&self, link: &Link) -> Result<(), EpochError> {
        let Some(at) = &self.receipt_at else { return Ok(()) };
        let bytes = self
            .receipt
            .to_bytes()
            .map_err(|error| EpochError::Key(format!("the receipt cannot be written: {error}")))?;
        link.put(at, bytes.into(), PutCondition::Always).await?;
        Ok(())
    }

    /// Children before parents: one depth after the other, each side by side.
    async fn put_node_documents(&self, link: &Link) -> Result<(), EpochError> {
        let depth = |document: &Document| document.key.matches('/').count();
        for level in self.documents.chunk_by(|a, b| depth(a) == depth(b)) {
            stream::iter(level)
                .map(Ok)
                .try_for_each_concurrent(DOCUMENTS_IN_FLIGHT, |document| async move {
                    let at = self.at(&document.key)?;
                    link.put(&at, document.bytes.clone(), PutCondition::Always).await?;
                    Ok::<_, EpochError>(())
                })
                .await?;
        }
        Ok(())
    }

    /// The publication point. Only where there is none, or over the very document that the epoch was
    /// planned by: another writer's document is never overwritten.
    async fn put_root_document(&self, link: &Link) -> Result<(), EpochError> {
        let at = self.at(&self.root.key)?;
        let condition = match (&*self.before, self.kind) {
            (Published::Dataset(of), Kind::Extend { .. }) => {
                PutCondition::Matches(of.root.version.clone())
            }
            _ => PutCondition::Absent,
        };
        let version = match put_document(link, &at, &self.root, condition).await {
            Ok(version) => version,
            Err(StoreError::Conflict { .. }) => match link.get(&at, None).await {
                // A crash after this very put: the epoch is being done again.
                Ok(found) if found.bytes == self.root.bytes => found.version,
                _ => return Err(EpochError::LostRace(at)),
            },
            Err(error) => return Err(error.into()),
        };
        *self.version.lock() = Some(version);
        Ok(())
    }

    async fn drop_old_receipts(&self, link: &Link) -> Result<(), EpochError> {
        let old = self.former_receipts().map(|(at, _)| at.clone());
        let old: Vec<Location> = old.filter(|at| Some(at) != self.receipt_at.as_ref()).collect();
        for (_, deleted) in link.delete_many(old).await {
            deleted?;
        }
        Ok(())
    }

    /// Receipts of what was in the bucket when the epoch began.
    fn former_receipts(&self) -> impl Iterator<Item = &(Location, Receipt)> {
        self.before.receipts().iter()
    }

    fn at(&self, key: &str) -> Result<Location, EpochError> {
        let key = Location::parse(key).map_err(|error| EpochError::Key(error.to_string()))?;
        Ok(self.work.dataset.join(&key))
    }
}

/// Puts a document under a condition; unconditionally where the store knows no conditions.
async fn put_document(
    link: &Link,
    at: &Location,
    document: &Document,
    condition: PutCondition,
) -> Result<Version, StoreError> {
    const NOT_IMPLEMENTED: u16 = 501;
    match link.put(at, document.bytes.clone(), condition).await {
        Err(StoreError::Invalid { reply, .. }) if reply.status == Some(NOT_IMPLEMENTED) => {
            tracing::warn!(
                "this store has no conditional put: a second writer would not be noticed"
            );
            link.put(at, document.bytes.clone(), PutCondition::Always).await
        }
        answer => answer,
    }
}
