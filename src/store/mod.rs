//! Object stores: locations, conditional puts, one connection pool, counters. Home of `object_store`.

mod body;
mod class;
mod client;
mod connections;
mod credentials;
mod error;
mod exchange;
mod folder;
mod folder_list;
mod location;
mod object;
mod open;
mod options;
mod pace;
mod parts;
mod profile;
mod remote;
mod retry;
mod s3;
mod transport;
mod url;
mod xml;

pub use client::{Store, StoreIdentity};
pub use error::{Operation, Reply, StoreError};
pub use location::{Location, LocationError};
pub use object::{
    Fetched, ListedObject, Listing, ObjectAttributes, Page, PageToken, PutCondition, Version,
    WriteId,
};
pub use open::OpenError;
pub use options::{Environment, StoreOptions};
pub use parts::{Answer, Once, Persist, PutLargeError};
pub use profile::ProfileError;
pub use retry::{Link, Outage, Patience};
pub use transport::TransportError;
pub use url::{Scheme, StoreUrl, StoreUrlError};
