//! The vocabulary of Zarr: node paths, chunk keys, metadata documents, codec chains. Home of `zarrs`.
