//! `zarrmount status`.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use super::error::CliError;
use super::exit::Exit;
use super::flush::left_line;
use super::output::say;
use super::target::{absolute, record_around, this_state_home};
use crate::base::clock::Clock;
use crate::base::units::ByteSize;
use crate::mount::client::ask;
use crate::mount::protocol::{Command, Reply};
use crate::mount::registry::{MountRecord, RecordFolder};
use crate::mount::status::{
    EngineStatus, ItemStatus, MountStatus, Phase, STATUS_VERSION, StatusDocument,
};
use crate::mount::wiring;
use crate::telemetry::counters::StoreSnapshot;
use crate::telemetry::progress::Silent;

/// Show mounts: what is staged, sent, refused or failed
///
/// Ends with exit code 3 while something is refused, failed or left behind by a daemon that died.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  zarrmount status
  zarrmount status ~/archive
  zarrmount status ~/archive --json | jq .queue")]
pub(super) struct Args {
    /// A mounted folder; without it, all of your mounts
    dir: Option<PathBuf>,
    /// Write one JSON document for each mount, a line each
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, CliError> {
    let home = this_state_home()?;
    let documents = match &args.dir {
        Some(dir) => {
            let (folder, record) = record_around(&home, &absolute(dir)?)?;
            vec![document(&folder, &record)?]
        }
        None => all(&home)?,
    };
    for document in &documents {
        if args.json {
            say(serde_json::to_string(document).map_err(CliError::failed)?);
        } else {
            say(Text { document, whole: args.dir.is_some() }.to_string().trim_end());
        }
    }
    if documents.is_empty() && !args.json {
        say("nothing is mounted");
    }
    let attention = documents.iter().any(StatusDocument::needs_attention);
    Ok(if attention { Exit::NotStored } else { Exit::Done })
}

fn all(home: &std::path::Path) -> Result<Vec<StatusDocument>, CliError> {
    let mut documents = Vec::new();
    for folder in RecordFolder::all(home) {
        if let Some(record) = folder.read()? {
            documents.push(document(&folder, &record)?);
        }
    }
    Ok(documents)
}

/// Asks the daemon; without one, tells from the record and the spool.
fn document(folder: &RecordFolder, record: &MountRecord) -> Result<StatusDocument, CliError> {
    if folder.has_daemon() {
        return match ask(record, Command::Status, &Silent)? {
            Reply::Status(document) => Ok(*document),
            _ => Err(CliError::failed("the daemon answered something else")),
        };
    }
    let content = wiring::inspect(&record.mount.spool)?;
    Ok(StatusDocument {
        version: STATUS_VERSION,
        mount: MountStatus { phase: Phase::Dead, ..record.mount.clone() },
        engine: None,
        left: content.map(|content| content.left).unwrap_or_default(),
    })
}

/// A document for people; the list of files only where one mount was asked for.
struct Text<'a> {
    document: &'a StatusDocument,
    whole: bool,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StatusDocument { mount, engine, left, .. } = self.document;
        let since = since(&mount.since);
        let phase = mount.phase.as_str();
        writeln!(
            f,
            "{}  {}  {phase}, since {since}, process {}",
            mount.dir.display(),
            mount.url,
            mount.pid
        )?;
        match engine {
            Some(engine) => self.engine(f, engine)?,
            None => {
                writeln!(
                    f,
                    "  the daemon has died; `zarrmount umount {}` cleans up",
                    mount.dir.display()
                )?;
            }
        }
        for item in left {
            writeln!(f, "{}", left_line(item))?;
        }
        if !left.is_empty() {
            writeln!(f, "  kept in {}; `zarrmount recover` sends it", mount.spool.display())?;
        }
        Ok(())
    }
}

impl Text<'_> {
    fn engine(&self, f: &mut fmt::Formatter<'_>, engine: &EngineStatus) -> fmt::Result {
        if let Some(offline) = &engine.store.offline {
            writeln!(f, "  store      {offline}")?;
        }
        let (spool, queue) = (&engine.spool, &engine.queue);
        writeln!(
            f,
            "  staged     {} of {} in {} files",
            ByteSize(spool.bytes),
            ByteSize(spool.bytes_max),
            spool.files
        )?;
        writeln!(f, "  to send    {} in {} objects", ByteSize(queue.bytes), queue.items)?;
        writeln!(f, "  requests   {}", requests(&engine.requests))?;
        if let Some(bottleneck) = &engine.bottleneck {
            writeln!(f, "  waits for  {bottleneck}")?;
        }
        for item in engine.datasets.iter().chain(&engine.files) {
            if self.whole || item.state.needs_attention() {
                writeln!(f, "  {}", item_line(item))?;
            }
        }
        Ok(())
    }
}

fn item_line(item: &ItemStatus) -> String {
    let mut line = format!("{:10} {} ({})", item.state.as_str(), item.path, ByteSize(item.bytes));
    if let Some(reason) = &item.reason {
        let _written = write!(line, ": {reason}").is_ok();
    }
    if let Some(at) = &item.since {
        let _written = write!(line, " (since {})", since(at)).is_ok();
    }
    line
}

/// Only what happened: `12 PUT, 3 LIST; 1.0 GiB sent, …`
fn requests(counts: &StoreSnapshot) -> String {
    let classes = [
        (counts.get, "GET"),
        (counts.head, "HEAD"),
        (counts.list, "LIST"),
        (counts.put, "PUT"),
        (counts.multipart, "multipart"),
        (counts.delete, "DELETE"),
        (counts.copy, "COPY"),
        (counts.other, "other"),
        (counts.retried, "tried again"),
    ];
    let classes: Vec<_> = classes
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    let classes = if classes.is_empty() { "none".to_owned() } else { classes.join(", ") };
    format!(
        "{classes}; {} sent, {} received; {} connections opened, used again {} times",
        ByteSize(counts.bytes_sent),
        ByteSize(counts.bytes_received),
        counts.connections_opened,
        counts.connections_reused
    )
}

/// `2026-11-30T14:02:10Z (3h 2m ago)`
fn since(at: &str) -> String {
    let age = humantime::parse_rfc3339(at)
        .ok()
        .and_then(|time| Clock::system().wall().duration_since(time).ok());
    match age {
        Some(age) => {
            let age = std::time::Duration::from_secs(age.as_secs());
            format!("{at} ({} ago)", humantime::format_duration(age))
        }
        None => at.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::status::{Left, State};

    fn mount(phase: Phase) -> MountStatus {
        MountStatus {
            url: "s3://bucket/v3".into(),
            dir: "/home/me/archive".into(),
            pid: 4711,
            since: "2026-11-30T14:02:10Z".into(),
            zarrmount: "0.1.0".into(),
            phase,
            spool: "/spool".into(),
            log: None,
        }
    }

    #[test]
    fn a_refused_file_is_shown_with_its_reason_and_asks_for_attention() {
        let refused = ItemStatus {
            path: "a.nc".into(),
            state: State::Refused,
            reason: Some("variable `sst`: type `opaque` cannot be stored".into()),
            since: None,
            bytes: 2048,
        };
        let document = StatusDocument {
            version: STATUS_VERSION,
            mount: mount(Phase::Mounted),
            engine: Some(EngineStatus { files: vec![refused], ..EngineStatus::default() }),
            left: Vec::new(),
        };
        assert!(document.needs_attention());
        let text = Text { document: &document, whole: false }.to_string();
        assert!(text.contains("refused    a.nc (2.0 KiB): variable `sst`"), "{text}");
    }

    #[test]
    fn a_dead_mount_says_what_is_left_and_how_to_go_on() {
        let left = Left { path: "b.nc".into(), state: State::Waiting, reason: None, bytes: 10 };
        let document = StatusDocument {
            version: STATUS_VERSION,
            mount: mount(Phase::Dead),
            engine: None,
            left: vec![left],
        };
        let text = Text { document: &document, whole: false }.to_string();
        for part in ["dead", "b.nc (10 B)", "kept in /spool", "zarrmount recover"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let json = serde_json::to_value(&document).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(json["mount"]["phase"], "dead");
        assert_eq!(serde_json::from_value::<StatusDocument>(json).unwrap(), document);
    }

    #[test]
    fn a_live_document_survives_json() {
        let document = StatusDocument {
            version: STATUS_VERSION,
            mount: mount(Phase::Mounted),
            engine: Some(EngineStatus::default()),
            left: Vec::new(),
        };
        let json = serde_json::to_string(&document).unwrap();
        assert!(json.contains("\"queue\":{\"items\":0,\"bytes\":0}"), "{json}");
        assert_eq!(serde_json::from_str::<StatusDocument>(&json).unwrap(), document);
    }
}
