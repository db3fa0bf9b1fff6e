//! The S3 server of the tests as a program, for tests in other languages: prints one line of JSON,
//! runs until its standard input ends.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

#[path = "mod.rs"]
mod support;

use std::io::Read as _;

fn main() {
    let server = support::S3Server::start();
    let [(_, access_key), (_, secret_key), ..] = support::S3Server::environment();
    println!(
        "{}",
        serde_json::json!({
            "endpoint": server.endpoint(),
            "bucket": server.bucket(),
            "folder": server.folder(),
            "access_key": access_key,
            "secret_key": secret_key,
        })
    );
    let mut ignored = Vec::new();
    std::io::stdin().read_to_end(&mut ignored).unwrap();
}
