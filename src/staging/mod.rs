//! Staging: spool (bytes) and journal (records). Not a cache: it is the only copy.
