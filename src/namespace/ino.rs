//! Inode numbers.

use std::fmt;

/// The number of a file or folder in this mount. Never given twice, also not after a restart with
/// files left in staging: those keep theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    /// The mounted folder, by the kernel's convention.
    pub const ROOT: Self = Self(1);
}

impl fmt::Display for Ino {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.0)
    }
}
