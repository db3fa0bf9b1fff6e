//! Inodes, the tree, listings and the metadata cache. Home of `moka`.
