//! The source-file and dataset state machines and the order of publication.
#![allow(
    missing_docs,
    unused_variables,
    clippy::todo,
    clippy::unused_self,
    clippy::unused_async,
    dead_code,
    reason = "interface being built"
)]

use std::time::SystemTime;

use crate::staging::FileId;
use crate::store::Location;

/// Turns NetCDF files in staging into Zarr in the bucket.
#[derive(Debug)]
pub struct Ingest;

/// Why a source file is not taken. The sentence names file, variable and reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Refusal {
    pub cause: Cause,
    pub message: String,
}

/// What kind of refusal; decides the errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Cause {
    /// Not NetCDF or damaged: EBADMSG.
    Corrupt,
    /// Would overwrite something it must not: EEXIST.
    Overlap,
    /// Cannot be expressed: EOPNOTSUPP.
    Unsupported,
    /// Does not fit: ENOSPC.
    Quota,
    /// The store said no: EACCES.
    Denied,
    /// The store cannot be reached: EIO.
    Unreachable,
}

/// What `stat` shows for a source file that has been ingested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceAttributes {
    pub size: u64,
    pub mtime: SystemTime,
}

impl Ingest {
    /// Whether a file of this name is a source file (`.nc .nc4 .cdf .netcdf`, ingest on) rather than
    /// a raw object. Pure.
    pub fn claims(&self, location: &Location) -> bool {
        todo!()
    }
    /// Before CREATE, RENAME and open with O_TRUNC onto such a name: fetches what is published of its
    /// dataset (once), may wait for the network. Refuses where no copy could be right.
    pub async fn prepare(&self, location: &Location) -> Result<(), Refusal> {
        todo!()
    }
    /// At FLUSH (and at RENAME of a sealed file onto such a name): judges the staged bytes, local work
    /// only, off the async threads. Not sticky. An empty file is a placeholder and passes.
    pub async fn judge(&self, id: FileId, location: &Location) -> Result<(), Refusal> {
        todo!()
    }
    /// At RELEASE by the last writer, after the file was sealed in staging: judged for good, then
    /// assigned to its dataset. Returns at once.
    pub fn sealed(&self, id: FileId, location: &Location) {
        todo!()
    }
    /// The file was deleted before it was committed, replaced by a newer copy, or opened for writing
    /// again: nothing of it is published.
    pub fn cancelled(&self, id: FileId) {
        todo!()
    }
    /// The file has another name now.
    pub fn renamed(&self, id: FileId, to: &Location) {
        todo!()
    }
    /// Size and mtime of a committed source file, from its receipt. May wait for the network once per
    /// dataset. `None` where there is no receipt.
    pub async fn receipt(&self, location: &Location) -> Option<SourceAttributes> {
        todo!()
    }
    /// utimes on a committed source file.
    pub async fn set_receipt_mtime(
        &self,
        location: &Location,
        mtime: SystemTime,
    ) -> Result<(), Refusal> {
        todo!()
    }
    /// `rm name.nc` after commit: removes the receipt, never the dataset.
    pub async fn remove_receipt(&self, location: &Location) -> Result<(), Refusal> {
        todo!()
    }
    /// Rename inside its folder after commit. `false` where that cannot be (another folder).
    pub async fn rename_receipt(&self, from: &Location, to: &Location) -> Result<bool, Refusal> {
        todo!()
    }
    /// The refusal or failure of a source file, for `.zarrmount-status/refused/`.
    pub fn refusal(&self, location: &Location) -> Option<Refusal> {
        todo!()
    }
    /// All of them.
    pub fn refusals(&self) -> Vec<(Location, Refusal)> {
        todo!()
    }
}
