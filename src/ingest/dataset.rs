//! The life of one dataset and of its epochs. Pure: [`Dataset::step`] takes what happened and says
//! what to do next; `driver.rs` does it.
//!
//! ```text
//! open ──Arrived──► gathering ──Due──► filling ──all chunks put──► publishing ──last step──► published
//!                       ▲                 │                            │                        │
//!                       ├──── Failed, or a file withdrawn ─────────────┘                        │
//!                       └───────────────────────────────Arrived─────────────────────────────────┘
//! ```
//!
//! An *epoch* is the set of files that become visible together: those that were waiting when it
//! began. The order on the wire is fixed here and nowhere else, as the order of [`Step`]: data
//! before metadata, children before parents, and the root document is the publication point.

use crate::staging::FileId;

/// What an epoch does, in this order. Each step is complete in the bucket before the next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Replacement only: the root document is deleted, so that nobody reads a mix.
    Withdraw,
    /// Replacement only: the objects of the former arrays are deleted.
    Clear,
    /// Every chunk of every array.
    PutChunks,
    /// The receipt, naming the root document that will make it valid.
    PutReceipt,
    /// Array and group documents below the root, children before parents.
    PutNodeDocuments,
    /// The root document: from here on readers see the epoch.
    PutRootDocument,
    /// Receipts that this epoch's took the place of are deleted.
    DropOldReceipts,
}

/// What an epoch does to what is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// There is nothing.
    Create,
    /// It adds to it. `overwrites`: published values change too, and there is no way back once
    /// chunks are on their way.
    Extend {
        /// Whether published values change.
        overwrites: bool,
    },
    /// It takes its place.
    Replace,
    /// It goes on with one of the same plan that was interrupted when chunks were on their way.
    Resume,
}

impl Kind {
    /// The steps in their order.
    pub fn steps(self) -> &'static [Step] {
        use Step::{
            Clear, DropOldReceipts, PutChunks, PutNodeDocuments, PutReceipt, PutRootDocument,
            Withdraw,
        };
        match self {
            Self::Create => &[PutChunks, PutReceipt, PutNodeDocuments, PutRootDocument],
            Self::Resume | Self::Extend { .. } => {
                &[PutChunks, PutReceipt, PutNodeDocuments, PutRootDocument, DropOldReceipts]
            }
            Self::Replace => &[
                Withdraw,
                Clear,
                PutChunks,
                PutReceipt,
                PutNodeDocuments,
                PutRootDocument,
                DropOldReceipts,
            ],
        }
    }
}

/// What happened to a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A judged file wants in.
    Arrived {
        /// The file.
        file: FileId,
        /// Whether it is to be published at once rather than with others that may come.
        now: bool,
    },
    /// What waits is to be published: a flush, enough idle time, or staging is needed.
    Due,
    /// The file is not wanted any more.
    Cancelled(FileId),
    /// The epoch that was asked for can begin.
    Begun(Kind),
    /// The step that was asked for is complete in the bucket.
    StepDone,
    /// Somebody else changed the dataset: the epoch is to be planned anew.
    LostRace,
    /// What was asked for met a lasting error.
    Failed,
}

/// What the owner has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing to do until something happens.
    Rest,
    /// Plan the epoch of these files.
    Begin(Vec<FileId>),
    /// Do this for the epoch.
    Run(Step),
    /// The epoch of these files is in the bucket: free staging.
    Commit(Vec<FileId>),
    /// The epoch of these files met a lasting error: keep their bytes and say so.
    Fail(Vec<FileId>),
    /// The epoch was given up because a file was withdrawn: take back what it did. Its other files
    /// wait for the next one.
    Abandon,
}

/// The name of a dataset's state, for `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing published by this mount, nothing on its way.
    Open,
    /// Files wait to be published together.
    Gathering,
    /// Chunks are on their way.
    Filling,
    /// Documents are on their way.
    Publishing,
    /// The last epoch is in the bucket.
    Published,
}

/// One dataset: the epoch under way and the files that wait for theirs.
#[derive(Debug, Default)]
pub struct Dataset {
    epoch: Option<Epoch>,
    waiting: Vec<FileId>,
    is_due: bool,
    is_published: bool,
}

#[derive(Debug)]
struct Epoch {
    files: Vec<FileId>,
    /// `None` until it was planned.
    kind: Option<Kind>,
    done: usize,
    withdrawn: Vec<FileId>,
}

impl Dataset {
    /// A dataset of which nothing is on its way.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        match &self.epoch {
            Some(epoch) => match epoch.next() {
                None | Some(Step::Withdraw | Step::Clear | Step::PutChunks) => State::Filling,
                Some(_) => State::Publishing,
            },
            None if !self.waiting.is_empty() => State::Gathering,
            None if self.is_published => State::Published,
            None => State::Open,
        }
    }

    /// Whether files wait and no epoch is under way.
    pub fn is_gathering(&self) -> bool {
        self.state() == State::Gathering
    }

    /// Takes what happened, says what to do next. Everything but [`Action::Begin`],
    /// [`Action::Run`] and [`Action::Rest`] is to be followed by [`proceed`](Self::proceed).
    pub fn step(&mut self, event: Event) -> Action {
        match event {
            Event::Arrived { file, now } => {
                self.waiting.push(file);
                self.is_due |= now;
                if self.epoch.is_some() { Action::Rest } else { self.proceed() }
            }
            Event::Due => {
                self.is_due |= !self.waiting.is_empty();
                if self.epoch.is_some() { Action::Rest } else { self.proceed() }
            }
            Event::Cancelled(file) => {
                self.waiting.retain(|waiting| *waiting != file);
                if let Some(epoch) = &mut self.epoch
                    && epoch.files.contains(&file)
                {
                    epoch.withdrawn.push(file);
                }
                Action::Rest
            }
            Event::Begun(kind) => {
                if let Some(epoch) = &mut self.epoch {
                    epoch.kind = Some(kind);
                }
                self.go_on()
            }
            Event::StepDone => {
                if let Some(epoch) = &mut self.epoch {
                    epoch.done += 1;
                }
                self.go_on()
            }
            Event::LostRace => {
                if let Some(epoch) = self.epoch.take() {
                    self.wait_again(epoch);
                }
                self.proceed()
            }
            Event::Failed => match self.epoch.take() {
                None => Action::Rest,
                Some(epoch) if epoch.withdrawn.is_empty() => Action::Fail(epoch.files),
                Some(epoch) => {
                    self.wait_again(epoch);
                    Action::Abandon
                }
            },
        }
    }

    /// Begins the next epoch if none is under way.
    pub fn proceed(&mut self) -> Action {
        if self.epoch.is_some() || !self.is_due || self.waiting.is_empty() {
            return Action::Rest;
        }
        self.is_due = false;
        let files = std::mem::take(&mut self.waiting);
        let epoch = Epoch { files: files.clone(), kind: None, done: 0, withdrawn: Vec::new() };
        self.epoch = Some(epoch);
        Action::Begin(files)
    }

    fn go_on(&mut self) -> Action {
        let Some(epoch) = &self.epoch else { return Action::Rest };
        // A file that was withdrawn before its dataset is shown is not shown. Once the root document
        // is on its way, or published values have changed, the epoch goes forward only.
        let is_free = epoch.kind != Some(Kind::Extend { overwrites: true }) || epoch.done == 0;
        let is_shown = epoch.has_done(Step::PutRootDocument);
        if !epoch.withdrawn.is_empty() && is_free && !is_shown {
            if let Some(epoch) = self.epoch.take() {
                self.wait_again(epoch);
            }
            return Action::Abandon;
        }
        if let Some(step) = epoch.next() {
            return Action::Run(step);
        }
        self.is_published = true;
        let files = self.epoch.take().map(|epoch| epoch.files);
        Action::Commit(files.unwrap_or_default())
    }

    /// Its files that are still wanted wait for the next epoch, which is due.
    fn wait_again(&mut self, epoch: Epoch) {
        let Epoch { mut files, withdrawn, .. } = epoch;
        files.retain(|file| !withdrawn.contains(file));
        files.append(&mut self.waiting);
        self.waiting = files;
        self.is_due = !self.waiting.is_empty();
    }
}

impl Epoch {
    fn next(&self) -> Option<Step> {
        self.kind?.steps().get(self.done).copied()
    }

    fn has_done(&self, step: Step) -> bool {
        let steps = self.kind.map_or(&[][..], Kind::steps);
        steps.iter().take(self.done).any(|done| *done >= step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);
    const OTHER: FileId = FileId(8);

    /// Runs a dataset until it rests, with every step succeeding, and returns what it did.
    fn run(dataset: &mut Dataset, first: Action, kind: Kind) -> Vec<Action> {
        let mut actions = vec![];
        let mut action = first;
        while action != Action::Rest {
            actions.push(action.clone());
            action = match action {
                Action::Begin(_) => dataset.step(Event::Begun(kind)),
                Action::Run(_) => dataset.step(Event::StepDone),
                _ => dataset.proceed(),
            };
        }
        actions
    }

    fn arrive(dataset: &mut Dataset, file: FileId, now: bool) -> Action {
        dataset.step(Event::Arrived { file, now })
    }

    #[test]
    fn a_new_dataset_puts_chunks_before_documents_and_the_root_document_last() {
        let mut dataset = Dataset::new();
        let first = arrive(&mut dataset, FILE, true);
        let steps = run(&mut dataset, first, Kind::Create);
        assert_eq!(
            steps,
            [
                Action::Begin(vec![FILE]),
                Action::Run(Step::PutChunks),
                Action::Run(Step::PutReceipt),
                Action::Run(Step::PutNodeDocuments),
                Action::Run(Step::PutRootDocument),
                Action::Commit(vec![FILE]),
            ]
        );
        assert_eq!(dataset.state(), State::Published);
    }

    #[test]
    fn files_gather_until_they_are_due_and_are_published_together() {
        let mut dataset = Dataset::new();
        assert_eq!(arrive(&mut dataset, FILE, false), Action::Rest);
        assert_eq!(arrive(&mut dataset, OTHER, false), Action::Rest);
        assert_eq!(dataset.state(), State::Gathering);
        assert_eq!(dataset.step(Event::Due), Action::Begin(vec![FILE, OTHER]));
        // Who comes later belongs to the next epoch.
        assert_eq!(arrive(&mut dataset, FileId(9), false), Action::Rest);
        let first = dataset.step(Event::Begun(Kind::Create));
        let steps = run(&mut dataset, first, Kind::Create);
        assert_eq!(steps.last(), Some(&Action::Commit(vec![FILE, OTHER])));
        assert_eq!(dataset.state(), State::Gathering);
    }

    #[test]
    fn a_replacement_withdraws_the_root_document_before_it_touches_anything_else() {
        let mut dataset = Dataset::new();
        let first = arrive(&mut dataset, FILE, true);
        let steps = run(&mut dataset, first, Kind::Replace);
        assert_eq!(steps.get(1), Some(&Action::Run(Step::Withdraw)));
        assert_eq!(steps.last(), Some(&Action::Commit(vec![FILE])));
        assert_eq!(steps.len(), Kind::Replace.steps().len() + 2);
    }

    #[test]
    fn a_file_withdrawn_while_chunks_are_on_their_way_is_never_shown_and_others_are() {
        let mut dataset = Dataset::new();
        arrive(&mut dataset, FILE, false);
        arrive(&mut dataset, OTHER, true);
        dataset.step(Event::Begun(Kind::Create));
        assert_eq!(dataset.step(Event::Cancelled(FILE)), Action::Rest);
        assert_eq!(dataset.step(Event::StepDone), Action::Abandon);
        assert_eq!(dataset.proceed(), Action::Begin(vec![OTHER]));
    }

    #[test]
    fn once_published_values_change_an_epoch_goes_forward_only() {
        let mut dataset = Dataset::new();
        arrive(&mut dataset, FILE, true);
        dataset.step(Event::Begun(Kind::Extend { overwrites: true }));
        dataset.step(Event::StepDone);
        dataset.step(Event::Cancelled(FILE));
        assert_eq!(dataset.step(Event::StepDone), Action::Run(Step::PutNodeDocuments));
    }

    #[test]
    fn a_lost_race_is_planned_anew_with_those_who_came_meanwhile() {
        let mut dataset = Dataset::new();
        arrive(&mut dataset, FILE, true);
        dataset.step(Event::Begun(Kind::Create));
        arrive(&mut dataset, OTHER, false);
        assert_eq!(dataset.step(Event::LostRace), Action::Begin(vec![FILE, OTHER]));
    }

    #[test]
    fn a_failed_epoch_does_not_hold_up_the_next_file() {
        let mut dataset = Dataset::new();
        arrive(&mut dataset, FILE, true);
        arrive(&mut dataset, OTHER, true);
        assert_eq!(dataset.step(Event::Failed), Action::Fail(vec![FILE]));
        assert_eq!(dataset.proceed(), Action::Begin(vec![OTHER]));
    }
}
