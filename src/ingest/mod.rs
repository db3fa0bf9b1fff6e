//! The source-file and dataset state machines and the order of publication.
