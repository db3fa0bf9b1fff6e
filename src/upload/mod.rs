//! The upload queue, keyed by inode: order, concurrency, multipart and the one retry.
