//! The life of one source file, from its first byte to its commit. Pure.
//!
//! ```text
//!                 ┌────────────── Reopened ───────────────┐
//!                 ▼                                       │
//! growing ─► sealed ─► judged ─► waiting ─► assigned ─► committed
//!    │          │          ╲        │           │
//!    ▼          ▼           ╲       ▼           ▼
//! partial   refused ◄────────┴── refused      failed ─► waiting (tried again)
//! ```
//!
//! - *growing*: open for writing. *sealed*: closed by its last writer and safe in staging.
//! - *judged*: its bytes have been found good, with a plan. *waiting*: its dataset cannot take it yet.
//! - *assigned*: part of an epoch that is being written. *committed*: in the bucket, with a receipt.
//! - *refused*: cannot be taken, with the reason. Never acknowledged, so it holds up nothing.
//! - *failed*: was acknowledged, and something lasting went wrong later; the bytes are kept.
//! - *partial*: the daemon died while it was growing; reported, never ingested.

use super::Refusal;

/// Where a source file is in its life.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum State {
    /// Open for writing.
    Growing,
    /// Closed and safe in staging.
    Sealed,
    /// Found good; a plan exists.
    Judged,
    /// Waits for its dataset.
    Waiting,
    /// Part of the epoch being written.
    Assigned,
    /// In the bucket with a receipt.
    Committed,
    /// Will not be taken.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// Was acknowledged, and something lasting went wrong.
    Failed {
        /// What went wrong.
        reason: String,
        /// Whether the file's own bytes are at fault, so that trying again cannot help.
        is_damaged: bool,
    },
    /// The daemon died while it was growing.
    Partial,
}

/// What can happen to a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its last writer closed it.
    Sealed,
    /// Its bytes are good.
    Accepted,
    /// Its bytes are not good, or have no place.
    Refused(Refusal),
    /// Its dataset is busy with an earlier epoch.
    Postponed,
    /// Its dataset took it into an epoch.
    Assigned,
    /// Its epoch is published and its receipt is in the bucket.
    Committed,
    /// Its epoch met a lasting error.
    Failed(String),
    /// Its bytes turned out to be damaged after it was accepted.
    Damaged(String),
    /// Somebody asked to try again what had failed.
    TriedAgain,
    /// It was opened for writing again, or replaced by a newer copy of that name.
    Reopened,
    /// The daemon died before it was closed.
    Lost,
}

/// An event that cannot happen in that state: a defect of the caller, logged and ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a source file that is {state:?} cannot be {event:?}")]
pub struct Impossible {
    state: State,
    event: Event,
}

impl State {
    /// The state after `event`.
    pub fn step(self, event: Event) -> Result<Self, Impossible> {
        match (self, event) {
            (_, Event::Reopened) => Ok(Self::Growing),
            (Self::Growing, Event::Sealed)
            | (Self::Failed { is_damaged: false, .. }, Event::TriedAgain) => Ok(Self::Sealed),
            (Self::Growing, Event::Lost) => Ok(Self::Partial),
            (Self::Sealed, Event::Accepted) => Ok(Self::Judged),
            (Self::Judged, Event::Postponed) => Ok(Self::Waiting),
            (Self::Judged | Self::Waiting, Event::Assigned) => Ok(Self::Assigned),
            (Self::Judged | Self::Assigned, Event::Committed) => Ok(Self::Committed),
            (Self::Sealed | Self::Judged | Self::Waiting, Event::Refused(refusal)) => {
                Ok(Self::Refused { refusal })
            }
            (
                Self::Sealed | Self::Judged | Self::Waiting | Self::Assigned,
                Event::Failed(reason),
            ) => Ok(Self::Failed { reason, is_damaged: false }),
            (Self::Assigned, Event::Damaged(reason)) => {
                Ok(Self::Failed { reason, is_damaged: true })
            }
            (state, event) => Err(Impossible { state, event }),
        }
    }

    /// Whether a flush waits for it: acknowledged and not in the bucket yet.
    pub fn is_outstanding(&self) -> bool {
        matches!(self, Self::Sealed | Self::Judged | Self::Waiting | Self::Assigned)
    }

    /// One word for `status`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Growing => "growing",
            Self::Sealed => "sealed",
            Self::Judged => "judged",
            Self::Waiting => "waiting",
            Self::Assigned => "assigned",
            Self::Committed => "committed",
            Self::Refused { .. } => "refused",
            Self::Failed { .. } => "failed",
            Self::Partial => "partial",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::Cause;

    fn run(events: impl IntoIterator<Item = Event>) -> Result<State, Impossible> {
        events.into_iter().try_fold(State::Growing, State::step)
    }

    #[test]
    fn a_good_file_goes_from_growing_to_committed() {
        let events = [Event::Sealed, Event::Accepted, Event::Assigned, Event::Committed];
        assert_eq!(run(events), Ok(State::Committed));
    }

    #[test]
    fn an_acknowledged_file_is_outstanding_until_it_is_committed_or_failed() {
        for events in [
            vec![Event::Sealed],
            vec![Event::Sealed, Event::Accepted],
            vec![Event::Sealed, Event::Accepted, Event::Postponed],
            vec![Event::Sealed, Event::Accepted, Event::Assigned],
        ] {
            assert!(run(events).unwrap().is_outstanding());
        }
        assert!(!State::Growing.is_outstanding());
        assert!(!State::Committed.is_outstanding());
    }

    #[test]
    fn a_committed_file_can_neither_fail_nor_be_refused() {
        let refusal = Refusal { cause: Cause::Corrupt, message: "x".into() };
        assert!(State::Committed.step(Event::Failed("x".into())).is_err());
        assert!(State::Committed.step(Event::Refused(refusal)).is_err());
    }

    #[test]
    fn a_file_that_was_never_closed_is_never_assigned() {
        assert!(run([Event::Accepted]).is_err());
        assert!(run([Event::Assigned]).is_err());
        assert!(run([Event::Lost, Event::Accepted]).is_err());
    }

    #[test]
    fn a_damaged_file_is_not_tried_again() {
        let damaged =
            run([Event::Sealed, Event::Accepted, Event::Assigned, Event::Damaged("x".into())]);
        assert!(damaged.unwrap().step(Event::TriedAgain).is_err());
    }

    #[test]
    fn what_failed_can_be_tried_again() {
        let events = [
            Event::Sealed,
            Event::Accepted,
            Event::Assigned,
            Event::Failed("403".into()),
            Event::TriedAgain,
            Event::Accepted,
        ];
        assert_eq!(run(events), Ok(State::Judged));
    }
}
