//! The kernel protocol and nothing else. Home of `fuser`.

pub mod session;
