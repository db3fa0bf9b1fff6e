//! The kernel's protocol, in few lines per operation, and mounting; the file system itself is in
//! [`crate::fs`]. Home of `fuser`.

mod filesystem;
mod run;
pub mod session;

pub use filesystem::FuseFilesystem;
