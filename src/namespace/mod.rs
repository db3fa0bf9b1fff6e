//! The namespace: inodes, names, listings and what is known of the bucket. Home of `moka`.
//!
//! [`Tree`] answers where a name leads. It holds no bytes of files that are written here, and starts
//! no upload: it knows which names are staged, which are hidden because they were deleted here, and
//! asks the bucket for the rest, as rarely as it can.
//!
//! ```text
//! tree       lookup: what is local, over what the bucket holds
//! edit       create, delete, rename          publish   uploads, deletions, ingest
//! list       what a folder shows             read      bytes of objects
//! table      numbers, names, parents         whiteouts deleted here, not yet there
//! metadata   listings and attributes with a time to live (changes, flights, blocks, listing)
//! ```

mod blocks;
mod changes;
mod edit;
mod flights;
mod ino;
mod known;
mod list;
mod listing;
mod metadata;
mod names;
mod node;
mod publish;
mod read;
mod table;
mod tree;
mod version;
mod whiteouts;

pub use edit::{Changed, Held};
pub use ino::Ino;
pub use list::Listed;
pub use metadata::ReadError;
pub use names::{RECEIPTS, is_hidden};
pub use node::{Attributes, Entry, Origin};
pub use tree::{PlaceError, Tree, TreeOptions};
pub use version::same_content;
