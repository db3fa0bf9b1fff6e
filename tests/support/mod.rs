//! What the integration tests share. A test binary takes it in with
//! `#[path = "../support/mod.rs"] mod support;`.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot be set up must fail, and its server lives outside of the product"
)]

pub(crate) mod faults;
pub(crate) mod request_log;
pub(crate) mod s3_server;
pub(crate) mod tls_front;

#[allow(unused_imports, reason = "each test binary uses a part of it")]
pub(crate) use {
    faults::Fault,
    request_log::LoggedRequest,
    s3_server::{ACCESS_KEY, Moment, S3Server, SECRET_KEY},
    tls_front::TlsFront,
};
