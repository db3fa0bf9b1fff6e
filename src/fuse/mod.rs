//! The kernel's protocol, in few lines per operation; the file system itself is in [`crate::fs`].
//! Home of `fuser`.

mod filesystem;
mod run;

pub use filesystem::FuseFilesystem;
