//! One epoch of one dataset: does the steps whose order `dataset.rs` fixes.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::chunks::Pipeline;
use super::dataset::Step;
use super::digest::Digest;
use super::judge::Judged;
use super::names::receipts_folder;
use super::published::Published;
use super::receipt::{Receipt, SourceRecord};
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

/// An epoch under way.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) dataset: Location,
    pub(super) judged: Arc<Judged>,
    pub(super) cancelled: Arc<AtomicBool>,
    /// What was in the bucket when the epoch began.
    before: Arc<Published>,
    receipt: Receipt,
    receipt_at: Option<Location>,
    /// In the order of publication, the root document last.
    documents: Vec<Document>,
    root: Document,
}

impl Epoch {
    /// Prepares everything that the steps need; no I/O.
    pub(super) fn new(
        dataset: &Location,
        judged: Arc<Judged>,
        source: SourceRecord,
        before: Arc<Published>,
        cancelled: Arc<AtomicBool>,
        name: String,
    ) -> Result<Self, EpochError> {
        let mut documents = judged.plan.hierarchy().documents(judged.plan.consolidated)?;
        let Some(root) = documents.pop() else {
            return Err(EpochError::Defect("a dataset without a root document was planned"));
        };
        let receipt_at =
            receipts_folder(dataset).and_then(|folder| folder.child(&format!("{name}.json")).ok());
        let groups = judged.plan.groups.iter().map(|group| &group.path);
        let nodes = groups
            .chain(judged.plan.arrays.iter().map(|array| &array.path))
            .filter(|path| !path.is_root())
            .map(|path| path.as_str().to_owned())
            .collect();
        let receipt = Receipt::new(
            name,
            Digest::of_bytes(&root.bytes),
            vec![source],
            nodes,
            judged.encoding.clone(),
        );
        let dataset = dataset.clone();
        Ok(Self { dataset, judged, cancelled, before, receipt, receipt_at, documents, root })
    }

    /// What is in the bucket once the epoch is published.
    pub(super) fn after(&self) -> Published {
        let receipts = self.receipt_at.iter().map(|at| (at.clone(), self.receipt.clone()));
        Published::Receipted { receipts: receipts.collect() }
    }

    /// Does one step; when it returns, the step is complete in the bucket.
    pub(super) async fn run(&self, step: Step, pipeline: &Pipeline) -> Result<(), EpochError> {
        let link = &pipeline.link;
        match step {
            Step::Withdraw => self.withdraw(link).await,
            Step::Clear => self.clear(link).await,
            Step::PutChunks => pipeline.run(&self.judged, &self.dataset, &self.cancelled).await,
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

    /// Deletes what lies below the nodes of the former and of this epoch, and nothing else.
    pub(super) async fn clear(&self, link: &Link) -> Result<(), EpochError> {
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

    /// The publication point. Only where there is none: another writer's document is never
    /// overwritten.
    async fn put_root_document(&self, link: &Link) -> Result<(), EpochError> {
        let at = self.at(&self.root.key)?;
        match put_new(link, &at, &self.root).await {
            Ok(_) => Ok(()),
            Err(StoreError::Conflict { .. }) => match link.get(&at, None).await {
                // A crash after this very put: the epoch is being done again.
                Ok(found) if found.bytes == self.root.bytes => Ok(()),
                _ => Err(EpochError::LostRace(at)),
            },
            Err(error) => Err(error.into()),
        }
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
        let receipts = match &*self.before {
            Published::Receipted { receipts } | Published::Leftover { receipts } => {
                receipts.as_slice()
            }
            Published::Absent | Published::Foreign(_) => &[],
        };
        receipts.iter()
    }

    fn at(&self, key: &str) -> Result<Location, EpochError> {
        let key = Location::parse(key).map_err(|error| EpochError::Key(error.to_string()))?;
        Ok(self.dataset.join(&key))
    }
}

/// Puts a document where there must be none; unconditionally where the store knows no conditions.
async fn put_new(link: &Link, at: &Location, document: &Document) -> Result<Version, StoreError> {
    const NOT_IMPLEMENTED: u16 = 501;
    match link.put(at, document.bytes.clone(), PutCondition::Absent).await {
        Err(StoreError::Invalid { reply, .. }) if reply.status == Some(NOT_IMPLEMENTED) => {
            tracing::warn!(
                "this store has no conditional put: a second writer would not be noticed"
            );
            link.put(at, document.bytes.clone(), PutCondition::Always).await
        }
        answer => answer,
    }
}
