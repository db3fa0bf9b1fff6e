//! `zarrmount` mounts a bucket as a directory. NetCDF files copied into it arrive in the bucket
//! as well-formed Zarr; every other file arrives byte for byte.
//!
//! Data flows one way, and a module uses only modules **below** it in this list
//! (`tests/unit/layout.rs` holds that):
//!
//! ```text
//! cli        what the user types; the only place that prints
//! mount      composition root: wiring, session, shutdown order, control socket
//! config     arguments -> resolved, validated, immutable configuration; URLs
//! fuse       kernel protocol only; home of fuser
//! fs         file semantics without fuser
//! check      reads a published dataset back; compares it with its sources
//! ingest     source-file and dataset state machines, publication order
//! assemble   chunk locations -> whole target chunks; encode; one owner per chunk key
//! plan       pure: chunk grid, codecs, attributes, schema -> arrays; no I/O
//! upload     the queue keyed by inode, concurrency, multipart, the one retry
//! staging    spool (bytes), journal (records), quota, recovery
//! namespace  inodes, tree, listings, metadata cache; home of moka
//! netcdf     classic and NetCDF-4 files as one schema + a stream of chunk locations
//! store      locations, conditional puts, connection pool, counters; home of object_store
//! zarr       node paths, chunk keys, metadata documents, codec chains; home of zarrs
//! telemetry  metric names, progress, logging
//! base       units, clock, durable file operations, permits, tasks
//! ```

pub mod assemble;
pub mod base;
pub mod check;
pub mod cli;
pub mod config;
pub mod fs;
pub mod fuse;
pub mod ingest;
pub mod mount;
pub mod namespace;
pub mod netcdf;
pub mod plan;
pub mod staging;
pub mod store;
pub mod telemetry;
pub mod upload;
pub mod zarr;
