//! From typed arguments to one resolved, validated, immutable configuration.
//!
//! Precedence: flag (or `-o`), environment, configuration file, default. [`options`] is the one
//! table of what can be set; [`layers`] finds the strongest text; [`Config::resolve`] gives it its
//! type; what a chunk or codec text means is decided by `plan` and `zarr`.

pub mod layers;
pub mod machine;
pub mod options;

mod resolve;

pub use machine::Machine;
pub use resolve::{Config, ConfigError, StoreSettings, hash_of};
