//! How progress looks: a bar on a terminal, otherwise a line now and then.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::output::tell;
use crate::base::clock::Clock;
use crate::base::units::ByteSize;
use crate::telemetry::progress::{Progress, Stage, Transfer};

/// How often a line is written where there is no terminal: often enough for a job's log to show
/// where it stands, seldom enough not to fill it.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Shows a transfer on standard error.
pub(super) struct Display {
    look: Look,
}

enum Look {
    Bar(ProgressBar),
    Lines { clock: Clock, last: Mutex<Option<(Instant, Transfer)>> },
}

impl Display {
    pub(super) fn new() -> Self {
        let look = if io::stderr().is_terminal() {
            Look::Bar(bar())
        } else {
            Look::Lines { clock: Clock::system(), last: Mutex::default() }
        };
        Self { look }
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        if let Look::Bar(bar) = &self.look {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    const TEMPLATE: &str = "{prefix:>10} [{bar:30}] {bytes}/{total_bytes} {msg} \
                            {binary_bytes_per_sec} {eta} left";
    let style = ProgressStyle::with_template(TEMPLATE)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ");
    ProgressBar::new(0).with_style(style)
}

impl Progress for Display {
    fn report(&self, transfer: Transfer) {
        match &self.look {
            Look::Bar(bar) => {
                bar.set_prefix(transfer.stage.as_str());
                bar.set_length(transfer.bytes_total);
                bar.set_message(objects(&transfer));
                bar.set_position(transfer.bytes_done);
            }
            Look::Lines { clock, last } => {
                let now = clock.now();
                let mut last = last.lock();
                if is_due(*last, now, &transfer) {
                    tell(line(&transfer));
                    *last = Some((now, transfer));
                }
            }
        }
    }
}

/// The end is told by whoever asked for the work; its start, a new stage and the passing of time
/// deserve a line.
fn is_due(last: Option<(Instant, Transfer)>, now: Instant, transfer: &Transfer) -> bool {
    match last {
        _ if transfer.stage == Stage::Done => false,
        None => transfer.objects_total > 0,
        Some((at, shown)) => {
            shown.stage != transfer.stage
                || (now.duration_since(at) >= LINE_INTERVAL && shown != *transfer)
        }
    }
}

fn line(transfer: &Transfer) -> String {
    format!(
        "{}: {} of {}, {}",
        transfer.stage.as_str(),
        ByteSize(transfer.bytes_done),
        ByteSize(transfer.bytes_total),
        objects(transfer)
    )
}

fn objects(transfer: &Transfer) -> String {
    format!("{}/{} objects", transfer.objects_done, transfer.objects_total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_a_line_comes_at_the_start_with_a_stage_and_after_a_while() {
        let clock = Clock::manual();
        let sending = |bytes_done| Transfer {
            stage: Stage::Sending,
            bytes_done,
            bytes_total: 2048,
            objects_done: 1,
            objects_total: 2,
        };
        let start = clock.now();
        assert!(is_due(None, start, &sending(0)));
        let last = Some((start, sending(0)));
        assert!(!is_due(last, start + Duration::from_secs(9), &sending(5)));
        assert!(is_due(last, start + Duration::from_secs(10), &sending(5)));
        assert!(!is_due(last, start + Duration::from_secs(10), &sending(0)), "nothing new");
        let publishing = Transfer { stage: Stage::Publishing, ..sending(5) };
        assert!(is_due(last, start, &publishing));
        assert_eq!(line(&sending(1024)), "sending: 1.0 KiB of 2.0 KiB, 1/2 objects");
    }
}
