//! Composition root: wires the parts, runs the session, keeps the shutdown order.
//!
//! ```text
//!  zarrmount mount ──launch──► daemon ──wiring──► engine + file system
//!                     ready ◄──┘ │ ├─ fuse session     (ends: drain, then exit)
//!  zarrmount umount ──client──► server: control socket (flush, unmount, drain, exit)
//!  zarrmount status ──client──►  │ └─ SIGTERM, SIGINT  (bounded flush, unmount, exit)
//!                                └─► registry: who is mounted where, for this user
//! ```
//!
//! Shutdown order, whoever asks: send what is staged, take the mount away, send what came in
//! between, stop the engine, remove the record of the mount, exit. What cannot be sent stays in
//! staging and is named.

pub mod client;
pub mod daemon;
pub mod engine;
pub mod launch;
pub mod protocol;
pub mod recovery;
pub mod registry;
mod running;
pub mod status;
pub mod wiring;
pub mod without_kernel;

mod server;

#[cfg(test)]
mod tests;
