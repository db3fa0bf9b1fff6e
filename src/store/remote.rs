//! Objects behind `object_store`: S3, Google, Azure, and memory.
//!
//! Keys are literal: the URL's prefix, `/`, and the location. Nothing here retries.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt as _, TryStreamExt as _};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _,
    PutMode, PutOptions, PutResult, UpdateVersion,
};

use super::error::{Kind, Operation, StoreError, from_failure, kind_of_reply};
use super::exchange::Exchange;
use super::location::Location;
use super::object::{
    Fetched, ListedObject, Listing, ObjectAttributes, Page, PageToken, PutCondition, Token,
    Version, WHOLE_GET_BYTES_MAX, WriteId,
};

/// What one bulk delete may name, by the S3 API.
const BULK_DELETE_KEYS_MAX: usize = 1000;
/// Deletes in flight where the store has no bulk delete.
const DELETES_IN_FLIGHT: usize = 16;
/// Reserved at once for a body whose length the store announced.
const RESERVE_BYTES_MAX: u64 = 64 << 20;

/// A bucket, container, or named store in memory.
pub(super) struct Remote {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) parts: Arc<dyn MultipartStore>,
    /// `None` in memory, where one listing is one page.
    pub(super) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(super) prefix: Location,
    /// The same store with bulk deletes, if it has them; `objects` deletes one by one.
    pub(super) bulk: Option<Arc<dyn ObjectStore>>,
    /// Whether conditions compare generations.
    pub(super) generations: bool,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} below {:?}", self.objects, self.prefix)
    }
}

impl Remote {
    /// The key of `at`.
    pub(super) fn path(&self, operation: Operation, at: &Location) -> Result<Path, StoreError> {
        Path::parse(self.prefix.join(at).as_str())
            .map_err(|error| StoreError::invalid(operation, at, error.to_string()))
    }

    /// What every key in `folder` begins with.
    fn key_prefix(&self, folder: &Location) -> String {
        let folder = self.prefix.join(folder);
        if folder.is_root() { String::new() } else { format!("{folder}/") }
    }

    /// Runs requests of one operation and tells their failure.
    pub(super) async fn run<T>(
        operation: Operation,
        at: &Location,
        requests: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, StoreError> {
        let exchange = Exchange::default();
        exchange
            .run(requests)
            .await
            .map_err(|error| from_failure(operation, at, exchange.take_failure(), &error))
    }

    pub(super) fn version(&self, etag: Option<String>, generation: Option<String>) -> Version {
        Version {
            etag: etag.unwrap_or_default(),
            generation: generation.filter(|_| self.generations),
        }
    }

    fn attributes(&self, meta: ObjectMeta) -> ObjectAttributes {
        let known = meta.e_tag.is_some();
        let version = self.version(meta.e_tag, meta.version);
        ObjectAttributes {
            size: meta.size,
            modified: meta.last_modified.into(),
            version: known.then_some(version),
        }
    }

    pub(super) async fn put(
        &self,
        at: &Location,
        body: Bytes,
        condition: PutCondition,
        write_id: Option<&WriteId>,
    ) -> Result<Version, StoreError> {
        let (operation, mode) = match condition {
            PutCondition::Always => (Operation::Put, PutMode::Overwrite),
            PutCondition::Absent => (Operation::PutIf, PutMode::Create),
            PutCondition::Matches(version) if version.etag.is_empty() => {
                let message = "the store named no version to compare with";
                return Err(StoreError::invalid(Operation::PutIf, at, message));
            }
            PutCondition::Matches(version) => {
                let (e_tag, version) = (Some(version.etag), version.generation);
                (Operation::PutIf, PutMode::Update(UpdateVersion { e_tag, version }))
            }
        };
        let path = self.path(operation, at)?;
        let name = || Attribute::Metadata(WriteId::METADATA.into());
        let attributes: Attributes =
            write_id.iter().map(|id| (name(), id.as_str().to_owned())).collect();
        let options = PutOptions { mode, attributes, ..PutOptions::default() };
        let put = self.objects.put_opts(&path, body.into(), options);
        let PutResult { e_tag, version, .. } = Self::run(operation, at, put).await?;
        Ok(self.version(e_tag, version))
    }

    pub(super) async fn get(
        &self,
        at: &Location,
        range: Option<Range<u64>>,
    ) -> Result<Fetched, StoreError> {
        let operation = Operation::Get;
        let path = self.path(operation, at)?;
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let exchange = Exchange::default();
        let fail = |error| from_failure(operation, at, exchange.take_failure(), &error);
        let answer = exchange.run(self.objects.get_opts(&path, options)).await.map_err(fail)?;
        let expected = answer.range.end.saturating_sub(answer.range.start);
        if expected > WHOLE_GET_BYTES_MAX {
            let message = format!("{expected} bytes are too many at once");
            return Err(StoreError::invalid(operation, at, message));
        }
        let meta = answer.meta.clone();
        let bytes = exchange.run(collect(answer, expected)).await.map_err(fail)?;
        if bytes.len() as u64 != expected {
            let message = format!("{} bytes came of {expected}", bytes.len());
            return Err(Kind::Passing.error(operation, at, None, String::new(), message));
        }
        Ok(Fetched {
            bytes,
            size: meta.size,
            version: self.version(meta.e_tag, meta.version),
            modified: meta.last_modified.into(),
        })
    }

    /// Which write an object is of, if it tells.
    pub(super) async fn written_by(
        &self,
        at: &Location,
    ) -> Result<(Option<WriteId>, Version), StoreError> {
        let path = self.path(Operation::Head, at)?;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let found = Self::run(Operation::Head, at, self.objects.get_opts(&path, options)).await?;
        let id = found.attributes.get(&Attribute::Metadata(WriteId::METADATA.into()));
        let id = id.map(|id| WriteId::found(id.as_ref()));
        Ok((id, self.version(found.meta.e_tag, found.meta.version)))
    }

    pub(super) async fn head(&self, at: &Location) -> Result<ObjectAttributes, StoreError> {
        let path = self.path(Operation::Head, at)?;
        let meta = Self::run(Operation::Head, at, self.objects.head(&path)).await?;
        Ok(self.attributes(meta))
    }

    pub(super) async fn copy(&self, from: &Location, to: &Location) -> Result<(), StoreError> {
        let source = self.path(Operation::Copy, from)?;
        let target = self.path(Operation::Copy, to)?;
        Self::run(Operation::Copy, from, self.objects.copy(&source, &target)).await
    }

    pub(super) async fn delete(&self, at: &Location) -> Result<(), StoreError> {
        let path = self.path(Operation::Delete, at)?;
        unless_gone(Self::run(Operation::Delete, at, self.objects.delete(&path)).await)
    }

    /// One result for each location, in order.
    pub(super) async fn delete_many(&self, all: &[Location]) -> Vec<Result<(), StoreError>> {
        let mut results = Vec::with_capacity(all.len());
        for chunk in all.chunks(BULK_DELETE_KEYS_MAX) {
            results.extend(match &self.bulk {
                Some(bulk) => self.delete_bulk(bulk, chunk).await,
                None => self.delete_singly(chunk).await,
            });
        }
        results
    }

    async fn delete_singly(&self, chunk: &[Location]) -> Vec<Result<(), StoreError>> {
        futures::stream::iter(chunk.to_vec())
            .map(|at| async move { self.delete(&at).await })
            .buffered(DELETES_IN_FLIGHT)
            .collect()
            .await
    }

    async fn delete_bulk(
        &self,
        bulk: &Arc<dyn ObjectStore>,
        chunk: &[Location],
    ) -> Vec<Result<(), StoreError>> {
        let paths: Result<Vec<Path>, StoreError> =
            chunk.iter().map(|at| self.path(Operation::Delete, at)).collect();
        let paths = match paths {
            Ok(paths) => paths,
            Err(error) => return chunk.iter().map(|_| Err(error.clone())).collect(),
        };
        let exchange = Exchange::default();
        let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
        let outcome = exchange.run(bulk.delete_stream(paths).try_collect::<Vec<Path>>()).await;
        let kept = exchange.take_kept();
        if let (Err(error), true) = (outcome, kept.is_empty()) {
            let folder = chunk.first().cloned().unwrap_or_default();
            let failure = exchange.take_failure();
            let error = from_failure(Operation::Delete, &folder, failure, &error);
            if matches!(error, StoreError::Invalid { .. }) {
                // Stores exist whose bulk delete is missing or answers in its own way.
                return self.delete_singly(chunk).await;
            }
            return chunk.iter().map(|_| Err(error.clone())).collect();
        }
        let kept: std::collections::HashMap<&str, _> =
            kept.iter().map(|reply| (reply.key.as_str(), reply)).collect();
        let outcome = |at: &Location| match kept.get(self.prefix.join(at).as_str()) {
            Some(reply) => unless_gone(refusal_of(at, &reply.code, reply.message.clone())),
            None => Ok(()),
        };
        chunk.iter().map(outcome).collect()
    }

    /// One page of `folder`; asks for at most `keys_max` where given.
    pub(super) async fn page(
        &self,
        folder: &Location,
        delimiter: bool,
        token: Option<String>,
        keys_max: Option<usize>,
    ) -> Result<(object_store::ListResult, Vec<String>, Option<String>), StoreError> {
        let key_prefix = self.key_prefix(folder);
        let Some(pages) = &self.pages else {
            return self.memory_page(folder, delimiter).await;
        };
        let options = PaginatedListOptions {
            delimiter: delimiter.then_some("/".into()),
            max_keys: keys_max,
            page_token: token,
            ..PaginatedListOptions::default()
        };
        let exchange = Exchange::default();
        let prefix = Some(key_prefix.as_str()).filter(|prefix| !prefix.is_empty());
        let page = exchange.run(pages.list_paginated(prefix, options)).await.map_err(|error| {
            from_failure(Operation::List, folder, exchange.take_failure(), &error)
        })?;
        let mut left_out = exchange.take_left_out();
        left_out.retain(|key| *key != key_prefix);
        Ok((page.result, left_out, page.page_token))
    }

    async fn memory_page(
        &self,
        folder: &Location,
        delimiter: bool,
    ) -> Result<(object_store::ListResult, Vec<String>, Option<String>), StoreError> {
        let path = self.path(Operation::List, folder)?;
        let listing = async {
            if delimiter {
                return self.objects.list_with_delimiter(Some(&path)).await;
            }
            let objects = self.objects.list(Some(&path)).try_collect().await?;
            let (common_prefixes, extensions) = (Vec::new(), object_store::Extensions::default());
            Ok(object_store::ListResult { common_prefixes, objects, extensions })
        };
        Ok((Self::run(Operation::List, folder, listing).await?, Vec::new(), None))
    }

    pub(super) async fn list_folder(&self, folder: &Location) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        let mut token = None;
        loop {
            let (page, left_out, next) = self.page(folder, true, token, None).await?;
            self.take_objects(page.objects, &mut listing.objects, &mut listing.unrepresentable);
            for path in page.common_prefixes {
                match self.relative(&path) {
                    Some(location) => listing.folders.push(location.name().to_owned()),
                    None => listing.unrepresentable.push(path.as_ref().to_owned()),
                }
            }
            listing.unrepresentable.extend(left_out);
            token = next;
            if token.is_none() {
                break;
            }
        }
        listing.objects.sort_by(|a, b| a.location.cmp(&b.location));
        listing.folders.sort();
        listing.folders.dedup();
        Ok(listing)
    }

    pub(super) async fn list_below(
        &self,
        folder: &Location,
        token: Option<String>,
    ) -> Result<Page, StoreError> {
        let (listed, left_out, next) = self.page(folder, false, token, None).await?;
        let next = next.map(|token| PageToken(Token::Store(token)));
        let mut page = Page { next, unrepresentable: left_out, ..Page::default() };
        self.take_objects(listed.objects, &mut page.objects, &mut page.unrepresentable);
        Ok(page)
    }

    fn take_objects(
        &self,
        from: Vec<ObjectMeta>,
        objects: &mut Vec<ListedObject>,
        unrepresentable: &mut Vec<String>,
    ) {
        for meta in from {
            match self.relative(&meta.location) {
                Some(location) => {
                    objects.push(ListedObject { location, attributes: self.attributes(meta) });
                }
                None => unrepresentable.push(meta.location.as_ref().to_owned()),
            }
        }
    }

    fn relative(&self, path: &Path) -> Option<Location> {
        Location::parse(path.as_ref()).ok()?.relative_to(&self.prefix)
    }
}

fn refusal_of(at: &Location, code: &str, message: String) -> Result<(), StoreError> {
    let kind = match code {
        "NoSuchKey" => Kind::NotFound,
        "AccessDenied" => Kind::Denied,
        _ => kind_of_reply(Operation::Delete, None, code),
    };
    Err(kind.error(Operation::Delete, at, None, code.to_owned(), message))
}

/// An object that is gone already counts as deleted.
pub(super) fn unless_gone(outcome: Result<(), StoreError>) -> Result<(), StoreError> {
    match outcome {
        Err(StoreError::NotFound { .. }) => Ok(()),
        outcome => outcome,
    }
}

async fn collect(answer: object_store::GetResult, expected: u64) -> object_store::Result<Bytes> {
    let mut stream = answer.into_stream();
    let first = stream.try_next().await?.unwrap_or_default();
    if first.len() as u64 >= expected {
        return Ok(first);
    }
    let reserve = usize::try_from(expected.min(RESERVE_BYTES_MAX)).unwrap_or_default();
    let mut bytes = BytesMut::with_capacity(reserve);
    bytes.extend_from_slice(&first);
    while let Some(chunk) = stream.try_next().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > expected {
            break;
        }
    }
    Ok(bytes.freeze())
}
