//! Reading objects of the bucket through the bounded block cache.

use bytes::Bytes;

use super::metadata::ReadError;
use super::tree::Tree;
use crate::store::{Location, Version};

impl Tree {
    /// Bytes of the object at `at`, from `offset`, at most `length` and at most to the end of a block
    /// of 1 MiB; empty at the end of the object. With `version`, of that version only. The caller
    /// keeps `offset` below the object's size.
    pub async fn read(
        &self,
        at: &Location,
        version: Option<&Version>,
        offset: u64,
        length: u64,
    ) -> Result<(Bytes, Version), ReadError> {
        self.metadata.read(at, version, offset, length).await
    }
}
