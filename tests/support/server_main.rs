//! The S3 server of the tests as a program, for tests in other languages. It prints one line of JSON,
//! then takes commands, one line of JSON each, answers each with one, and ends with its standard input:
//!
//! | command | |
//! |---|---|
//! | `{"fault": "slow-down"}` | every request fails so; names in `support/faults.rs` |
//! | `{"fault": ["stall", "reset-after"], "per_mille": 100, "seed": 7}` | 10 % of them, drawn by the seed |
//! | `{"fault": null}` | none |
//! | `{"outage": true}` | every connection is closed at once |
//! | `{"latency_ms": 20}` | before each request |
//! | `{"requests": true}` | answers with the requests since the last time |
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test program")]

#[path = "mod.rs"]
mod support;

use std::io::BufRead as _;
use std::time::Duration;

use serde_json::{Value, json};
use support::faults::{always, randomly};
use support::{Fault, LoggedRequest, S3Server};

fn main() {
    let server = S3Server::start();
    let [(_, access_key), (_, secret_key), ..] = S3Server::environment();
    println!(
        "{}",
        json!({
            "endpoint": server.endpoint(),
            "bucket": server.bucket(),
            "folder": server.folder(),
            "access_key": access_key,
            "secret_key": secret_key,
        })
    );
    for line in std::io::stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.unwrap()).unwrap();
        println!("{}", obey(&server, &command));
    }
}

fn obey(server: &S3Server, command: &Value) -> Value {
    if let Some(outage) = command["outage"].as_bool() {
        server.set_outage(outage);
    }
    if let Some(latency_ms) = command["latency_ms"].as_u64() {
        server.set_latency(Duration::from_millis(latency_ms));
    }
    match &command["fault"] {
        Value::String(name) => server.set_fault(always(fault(name))),
        Value::Array(names) => {
            let faults = names.iter().map(|name| fault(name.as_str().unwrap())).collect();
            let per_mille = command["per_mille"].as_u64().unwrap_or(1000);
            server.set_fault(randomly(command["seed"].as_u64().unwrap_or(0), per_mille, faults));
        }
        _ if command.get("fault").is_some() => server.clear_fault(),
        _ => {}
    }
    if command["requests"] == true {
        let requests = server.requests();
        server.clear_requests();
        return requests.iter().map(as_json).collect();
    }
    json!({})
}

fn fault(name: &str) -> Fault {
    Fault::named(name).unwrap_or_else(|| panic!("there is no fault `{name}`"))
}

fn as_json(request: &LoggedRequest) -> Value {
    json!({
        "method": request.method,
        "key": request.key,
        "query": request.query,
        "bytes": request.bytes,
        "status": request.status,
        "reply_lost": request.reply_lost,
        "arrived": request.arrived,
        "answered": request.answered,
    })
}
