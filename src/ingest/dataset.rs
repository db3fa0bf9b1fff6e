//! The life of one dataset and of its epochs. Pure: [`Dataset::step`] takes what happened and says
//! what to do next; `owner.rs` does it.
//!
//! ```text
//! open ──Arrived──► filling ──all chunks put──► publishing ──last step──► published ──Arrived──► filling
//!                      │                            │
//!                      └──────── Failed ────────────┴──► open (the files are kept and tried again)
//! ```
//!
//! An *epoch* is the set of files that become visible together. The order on the wire is fixed here
//! and nowhere else, as the order of [`Step`]: data before metadata, children before parents, and
//! the root document is the publication point.

use std::collections::VecDeque;

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
    /// Receipts of epochs that this one replaced are deleted.
    DropOldReceipts,
}

impl Step {
    const NEW: [Self; 4] =
        [Self::PutChunks, Self::PutReceipt, Self::PutNodeDocuments, Self::PutRootDocument];
    const REPLACEMENT: [Self; 7] = [
        Self::Withdraw,
        Self::Clear,
        Self::PutChunks,
        Self::PutReceipt,
        Self::PutNodeDocuments,
        Self::PutRootDocument,
        Self::DropOldReceipts,
    ];

    fn all(replaces: bool) -> &'static [Self] {
        if replaces { &Self::REPLACEMENT } else { &Self::NEW }
    }
}

/// What happened to a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A judged file wants in. `replaces`: an earlier version of this dataset is published.
    Arrived {
        /// The file.
        file: FileId,
        /// Whether it replaces what is published.
        replaces: bool,
    },
    /// The file is not wanted any more.
    Cancelled(FileId),
    /// The step that was asked for is complete in the bucket.
    StepDone,
    /// The step that was asked for met a lasting error.
    StepFailed,
}

/// What the owner has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Nothing to do until something happens.
    Rest,
    /// Do this for the epoch of this file.
    Run(FileId, Step),
    /// The epoch of this file is in the bucket: free staging.
    Commit(FileId),
    /// The epoch of this file met a lasting error: keep its bytes and say so.
    Fail(FileId),
    /// The epoch of this file was given up because the file was withdrawn.
    Abandon(FileId),
}

/// The name of a dataset's state, for `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing published by this mount, nothing on its way.
    Open,
    /// Chunks are on their way.
    Filling,
    /// Documents are on their way.
    Publishing,
    /// The last epoch is in the bucket.
    Published,
}

/// One dataset: the epoch under way and the files that wait for theirs.
#[derive(Debug)]
pub struct Dataset {
    epoch: Option<Epoch>,
    waiting: VecDeque<(FileId, bool)>,
    published: bool,
}

#[derive(Debug)]
struct Epoch {
    file: FileId,
    steps: &'static [Step],
    cancelled: bool,
}

impl Dataset {
    /// A dataset of which nothing is on its way.
    pub fn new() -> Self {
        Self { epoch: None, waiting: VecDeque::new(), published: false }
    }

    /// Where it is in its life.
    pub fn state(&self) -> State {
        match &self.epoch {
            Some(epoch) => match epoch.steps.first() {
                Some(Step::Withdraw | Step::Clear | Step::PutChunks) => State::Filling,
                _ => State::Publishing,
            },
            None if self.published => State::Published,
            None => State::Open,
        }
    }

    /// Takes what happened, says what to do next. Everything but [`Action::Run`] and
    /// [`Action::Rest`] is to be followed by [`proceed`](Self::proceed).
    pub fn step(&mut self, event: Event) -> Action {
        match event {
            Event::Arrived { file, replaces } => {
                self.waiting.push_back((file, replaces));
                if self.epoch.is_some() { Action::Rest } else { self.proceed() }
            }
            Event::Cancelled(file) => {
                self.waiting.retain(|(waiting, _)| *waiting != file);
                if let Some(epoch) = &mut self.epoch
                    && epoch.file == file
                {
                    epoch.cancelled = true;
                }
                Action::Rest
            }
            Event::StepDone => self.step_done(),
            Event::StepFailed => match self.epoch.take() {
                Some(epoch) if epoch.cancelled => Action::Abandon(epoch.file),
                Some(epoch) => Action::Fail(epoch.file),
                None => Action::Rest,
            },
        }
    }

    /// Begins the next epoch if none is under way.
    pub fn proceed(&mut self) -> Action {
        if self.epoch.is_none()
            && let Some((file, replaces)) = self.waiting.pop_front()
        {
            self.epoch = Some(Epoch { file, steps: Step::all(replaces), cancelled: false });
        }
        match &self.epoch {
            Some(Epoch { file, steps: [step, ..], .. }) => Action::Run(*file, *step),
            _ => Action::Rest,
        }
    }

    fn step_done(&mut self) -> Action {
        let Some(mut epoch) = self.epoch.take() else { return Action::Rest };
        let (done, left) = epoch.steps.split_first().unwrap_or((&Step::PutRootDocument, &[]));
        // A file that was withdrawn before its dataset is shown is not shown. Once the root
        // document is on its way the epoch goes forward only.
        if epoch.cancelled && *done < Step::PutRootDocument {
            return Action::Abandon(epoch.file);
        }
        if left.is_empty() {
            self.published = true;
            return Action::Commit(epoch.file);
        }
        epoch.steps = left;
        self.epoch = Some(epoch);
        self.proceed()
    }
}

impl Default for Dataset {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(7);

    /// Runs a dataset until it rests, with every step succeeding, and returns what it did.
    fn run(dataset: &mut Dataset, first: Action) -> Vec<Action> {
        let mut actions = vec![];
        let mut action = first;
        while action != Action::Rest {
            actions.push(action);
            action = match action {
                Action::Run(..) => dataset.step(Event::StepDone),
                _ => dataset.proceed(),
            };
        }
        actions
    }

    #[test]
    fn a_new_dataset_puts_chunks_before_documents_and_the_root_document_last() {
        let mut dataset = Dataset::new();
        let first = dataset.step(Event::Arrived { file: FILE, replaces: false });
        let steps = run(&mut dataset, first);
        assert_eq!(
            steps,
            [
                Action::Run(FILE, Step::PutChunks),
                Action::Run(FILE, Step::PutReceipt),
                Action::Run(FILE, Step::PutNodeDocuments),
                Action::Run(FILE, Step::PutRootDocument),
                Action::Commit(FILE),
            ]
        );
        assert_eq!(dataset.state(), State::Published);
    }

    #[test]
    fn a_replacement_withdraws_the_root_document_before_it_touches_anything_else() {
        let mut dataset = Dataset::new();
        let first = dataset.step(Event::Arrived { file: FILE, replaces: true });
        assert_eq!(first, Action::Run(FILE, Step::Withdraw));
        let steps = run(&mut dataset, first);
        assert_eq!(steps.last(), Some(&Action::Commit(FILE)));
        assert_eq!(steps.len(), Step::REPLACEMENT.len() + 1);
    }

    #[test]
    fn a_file_withdrawn_while_chunks_are_on_their_way_is_never_shown() {
        let mut dataset = Dataset::new();
        dataset.step(Event::Arrived { file: FILE, replaces: false });
        assert_eq!(dataset.step(Event::Cancelled(FILE)), Action::Rest);
        assert_eq!(dataset.step(Event::StepDone), Action::Abandon(FILE));
        assert_eq!(dataset.proceed(), Action::Rest);
        assert_eq!(dataset.state(), State::Open);
    }

    #[test]
    fn a_failed_epoch_does_not_hold_up_the_next_file() {
        let mut dataset = Dataset::new();
        dataset.step(Event::Arrived { file: FILE, replaces: false });
        dataset.step(Event::Arrived { file: FileId(8), replaces: false });
        assert_eq!(dataset.step(Event::StepFailed), Action::Fail(FILE));
        assert_eq!(dataset.proceed(), Action::Run(FileId(8), Step::PutChunks));
    }
}
