//! From chunk locations of a source to whole target chunks. No I/O of its own.
