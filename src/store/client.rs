//! The store as the rest of the program sees it.
//!
//! No method retries: a [`StoreError::Passing`] is for the caller, who knows its deadline and what
//! a lost reply may have done.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::error::{Operation, StoreError};
use super::folder::Folder;
use super::location::Location;
use super::object::{
    Fetched, Listing, ObjectAttributes, Page, PageToken, PutCondition, Token, Version, WriteId,
};
use super::open::{self, OpenError};
use super::options::StoreOptions;
use super::parts::{Persist, PutLargeError};
use super::remote::{Remote, unless_gone};
use super::url::{Scheme, StoreUrl};
use crate::base::tasks;
use crate::telemetry::counters::{RequestClass, StoreCounters};

/// An opened store, cheap to clone.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    backend: Backend,
    identity: StoreIdentity,
    counters: Arc<StoreCounters>,
}

/// Where the objects are.
#[derive(Debug)]
pub(super) enum Backend {
    /// Behind HTTP, which counts its own requests.
    Cloud(Remote),
    /// In this process.
    Memory(Remote),
    /// In a local folder.
    Folder(Arc<Folder>),
}

/// Which store and which part of it this is: two URLs of equal identity are the same place.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct StoreIdentity {
    /// The kind of store.
    pub scheme: Scheme,
    /// The address of the service where it is not the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Bucket, container, name in memory, or the folder's path without links.
    pub bucket: String,
    /// What every key begins with.
    pub prefix: Location,
}

impl fmt::Display for StoreIdentity {
    /// As a URL, with the address of the service where that is not the provider's own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bucket = self.bucket.trim_end_matches('/');
        write!(f, "{}://{bucket}", self.scheme.as_str())?;
        if !self.prefix.is_root() {
            write!(f, "/{}", self.prefix)?;
        }
        match &self.endpoint {
            Some(endpoint) => write!(f, " at {endpoint}"),
            None => Ok(()),
        }
    }
}

impl Store {
    /// Builds the one client of the store at `url` and asks the store once, so that a missing
    /// bucket or wrong credentials are found now: within `options.open_timeout`.
    pub async fn open(
        url: &StoreUrl,
        options: &StoreOptions,
        counters: Arc<StoreCounters>,
    ) -> Result<Self, OpenError> {
        let (backend, identity) = open::open(url, options, &counters).await?;
        Ok(Self(Arc::new(Inner { backend, identity, counters })))
    }

    /// Which store this is.
    pub fn identity(&self) -> &StoreIdentity {
        &self.0.identity
    }

    /// What was asked of the store so far.
    pub fn counters(&self) -> &Arc<StoreCounters> {
        &self.0.counters
    }

    /// Puts a whole object; it is there completely or not at all.
    ///
    /// [`StoreError::Conflict`] says that the condition does not hold. After a reply was lost that
    /// can be due to the very same put: compare what is there.
    pub async fn put(
        &self,
        at: &Location,
        body: Bytes,
        condition: PutCondition,
    ) -> Result<Version, StoreError> {
        self.put_as(at, body, condition, None).await
    }

    /// [`put`](Self::put) of an object that tells which write it is of. A folder does not: nothing gets
    /// lost on the way to it.
    pub async fn put_as(
        &self,
        at: &Location,
        body: Bytes,
        condition: PutCondition,
        write_id: Option<&WriteId>,
    ) -> Result<Version, StoreError> {
        self.count(RequestClass::Put);
        self.count_sent(body.len() as u64);
        match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => {
                remote.put(at, body, condition, write_id).await
            }
            Backend::Folder(folder) => {
                let put = move |folder: &Folder, at: &Location| folder.put(at, &body, &condition);
                on_folder(folder, Operation::Put, at, put).await
            }
        }
    }

    /// Which write an object is of, if it tells, and its version.
    pub async fn written_by(
        &self,
        at: &Location,
    ) -> Result<(Option<WriteId>, Version), StoreError> {
        match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => {
                self.count(RequestClass::Head);
                remote.written_by(at).await
            }
            Backend::Folder(_) => {
                let version = self.head(at).await?.version;
                Ok((None, version.unwrap_or_default()))
            }
        }
    }

    /// Puts an object of `size` bytes that `read` gives piece by piece, off the async threads;
    /// at most `in_flight` parts (of 8 MiB, more above 80 GB) are in memory and on the wire. Each
    /// request of it is made by `persist`; the whole is not begun again.
    pub async fn put_large<R>(
        &self,
        at: &Location,
        size: u64,
        read: R,
        in_flight: usize,
        persist: &impl Persist,
    ) -> Result<Version, PutLargeError>
    where
        R: Fn(Range<u64>) -> io::Result<Bytes> + Send + Sync + 'static,
    {
        self.count(RequestClass::Put);
        self.count_sent(size);
        match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => {
                remote.put_large(at, size, Arc::new(read), in_flight, persist).await
            }
            Backend::Folder(folder) => {
                let put = move |folder: &Folder, at: &Location| folder.put_large(at, size, &read);
                on_folder(folder, Operation::PutLarge, at, put)
                    .await?
                    .map_err(|source| PutLargeError::Read { location: at.clone(), source })
            }
        }
    }

    /// Reads an object, or the bytes of `range` (not empty, beginning inside the object).
    pub async fn get(
        &self,
        at: &Location,
        range: Option<Range<u64>>,
    ) -> Result<Fetched, StoreError> {
        if range.as_ref().is_some_and(Range::is_empty) {
            return Err(StoreError::invalid(Operation::Get, at, "the range is empty"));
        }
        self.count(RequestClass::Get);
        let fetched = match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => remote.get(at, range).await,
            Backend::Folder(folder) => {
                let get = move |folder: &Folder, at: &Location| folder.get(at, range);
                on_folder(folder, Operation::Get, at, get).await
            }
        }?;
        if !self.is_cloud() {
            self.0.counters.bytes_received.add(fetched.bytes.len() as u64);
        }
        Ok(fetched)
    }

    /// Looks an object up.
    pub async fn head(&self, at: &Location) -> Result<ObjectAttributes, StoreError> {
        self.count(RequestClass::Head);
        match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => remote.head(at).await,
            Backend::Folder(folder) => on_folder(folder, Operation::Head, at, Folder::head).await,
        }
    }

    /// What lies directly in `folder`: one listing with a delimiter, all its pages. A folder that
    /// does not exist is empty, as in a bucket.
    pub async fn list_folder(&self, folder: &Location) -> Result<Listing, StoreError> {
        self.count(RequestClass::List);
        match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => remote.list_folder(folder).await,
            Backend::Folder(local) => {
                on_folder(local, Operation::List, folder, Folder::list_folder).await
            }
        }
    }

    /// One page of all objects below `folder`, about 1,000; `after` is the page before.
    pub async fn list_below(
        &self,
        folder: &Location,
        after: Option<PageToken>,
    ) -> Result<Page, StoreError> {
        self.count(RequestClass::List);
        let (of_store, of_folder) = match after.map(|token| token.0) {
            Some(Token::Store(token)) => (Some(token), None),
            Some(Token::Folders(folders)) => (None, Some(folders)),
            None => (None, None),
        };
        match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => {
                remote.list_below(folder, of_store).await
            }
            Backend::Folder(local) => {
                let list = move |local: &Folder, at: &Location| local.list_below(at, of_folder);
                on_folder(local, Operation::List, folder, list).await
            }
        }
    }

    /// Deletes an object; one that is not there counts as deleted.
    pub async fn delete(&self, at: &Location) -> Result<(), StoreError> {
        self.count(RequestClass::Delete);
        match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => remote.delete(at).await,
            Backend::Folder(folder) => {
                unless_gone(on_folder(folder, Operation::Delete, at, Folder::delete).await)
            }
        }
    }

    /// Deletes objects, 1,000 in a request where the store can. One result each, in order.
    pub async fn delete_many(&self, all: &[Location]) -> Vec<Result<(), StoreError>> {
        match &self.0.backend {
            Backend::Cloud(remote) => remote.delete_many(all).await,
            Backend::Memory(_) | Backend::Folder(_) => {
                let mut results = Vec::with_capacity(all.len());
                for at in all {
                    results.push(self.delete(at).await);
                }
                results
            }
        }
    }

    /// Copies an object inside the store, over what is at `to`. S3 refuses more than 5 GiB.
    pub async fn copy(&self, from: &Location, to: &Location) -> Result<(), StoreError> {
        self.count(RequestClass::Copy);
        match &self.0.backend {
            Backend::Cloud(remote) | Backend::Memory(remote) => remote.copy(from, to).await,
            Backend::Folder(folder) => {
                let to = to.clone();
                let copy = move |folder: &Folder, from: &Location| folder.copy(from, &to);
                on_folder(folder, Operation::Copy, from, copy).await
            }
        }
    }

    fn is_cloud(&self) -> bool {
        matches!(self.0.backend, Backend::Cloud(_))
    }

    fn count(&self, class: RequestClass) {
        if !self.is_cloud() {
            self.0.counters.of(class).add(1);
        }
    }

    fn count_sent(&self, bytes: u64) {
        if !self.is_cloud() {
            self.0.counters.bytes_sent.add(bytes);
        }
    }
}

/// Runs file operations off the async threads.
async fn on_folder<T, W>(
    folder: &Arc<Folder>,
    operation: Operation,
    at: &Location,
    work: W,
) -> Result<T, StoreError>
where
    T: Send + 'static,
    W: FnOnce(&Folder, &Location) -> Result<T, StoreError> + Send + 'static,
{
    let folder = Arc::clone(folder);
    let location = at.clone();
    tasks::blocking("file operation of a store", move || work(&folder, &location))
        .await
        .unwrap_or_else(|| Err(StoreError::invalid(operation, at, "the operation panicked")))
}
