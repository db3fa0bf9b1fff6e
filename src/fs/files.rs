//! What is known here of each staged file besides its bytes: whether its writer has closed it since
//! the last change, whose mtime counts, what it was judged, and which lasting error was told.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::namespace::Ino;
use crate::staging::StagedFile;
use crate::store::ObjectAttributes;

/// The state of the content when it was last settled.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Settled {
    /// Never: it is new, or was truncated when it was opened.
    #[default]
    Never,
    /// In the journal, as of this generation.
    Sealed(u64),
    /// Fetched from the bucket and not changed since this generation.
    Fetched(u64, ObjectAttributes),
}

#[derive(Debug, Default)]
struct State {
    file: Weak<StagedFile>,
    settled: Settled,
    /// The generation that the mtime of the tree's node is of; later content has a later mtime.
    mtime_of: Option<u64>,
    /// The generation that was last judged as a source file.
    judged: Option<u64>,
    /// The lasting error that a program was told.
    told: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Files(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    states: HashMap<Ino, State>,
    /// Length at which those whose file has gone are looked for.
    sweep_at: usize,
}

impl Files {
    /// A file comes into staging, or is there again with new content.
    pub(super) fn begin(&self, ino: Ino, file: &Arc<StagedFile>, settled: Settled) {
        let mut table = self.0.lock();
        if table.states.len() >= table.sweep_at {
            table.states.retain(|_, state| state.file.strong_count() > 0);
            table.sweep_at = table.states.len() * 2 + 1024;
        }
        let mtime_of = match settled {
            Settled::Never => None,
            Settled::Sealed(generation) | Settled::Fetched(generation, _) => Some(generation),
        };
        let state = State { file: Arc::downgrade(file), settled, mtime_of, ..State::default() };
        table.states.insert(ino, state);
    }

    pub(super) fn settled(&self, ino: Ino) -> Settled {
        self.with(ino, |state| state.settled.clone()).unwrap_or_default()
    }

    /// Closed by its writer: in the journal, and its mtime in the tree.
    pub(super) fn seal(&self, ino: Ino, generation: u64) {
        self.with(ino, |state| {
            state.settled = Settled::Sealed(generation);
            state.mtime_of = Some(generation);
        });
    }

    /// It is renamed: the object it was fetched from is not its content any more.
    pub(super) fn unsettle(&self, ino: Ino) {
        self.with(ino, |state| {
            if matches!(state.settled, Settled::Fetched(..)) {
                state.settled = Settled::Never;
            }
        });
    }

    /// Calls `change` with whether somebody set the mtime of the present content. From now on the tree's
    /// mtime is that of this content. No other mtime is set or settled meanwhile.
    pub(super) fn settle_mtime<T>(
        &self,
        ino: Ino,
        file: &StagedFile,
        change: impl FnOnce(bool) -> T,
    ) -> T {
        let mut table = self.0.lock();
        let state = table.states.get_mut(&ino);
        let generation = file.generation();
        let before = state.and_then(|state| state.mtime_of.replace(generation));
        change(before == Some(generation))
    }

    pub(super) fn mtime_is_set(&self, ino: Ino, file: &StagedFile) -> bool {
        let generation = file.generation();
        self.with(ino, |state| state.mtime_of == Some(generation)).unwrap_or(false)
    }

    /// Whether the content changed since it was last judged; then it counts as judged.
    pub(super) fn needs_judging(&self, ino: Ino, generation: u64) -> bool {
        self.with(ino, |state| state.judged.replace(generation) != Some(generation)).unwrap_or(true)
    }

    /// Whether this error is still to be told; then it counts as told.
    pub(super) fn needs_telling(&self, ino: Ino, error: &str) -> bool {
        let told = |state: &mut State| state.told.replace(error.to_owned());
        self.with(ino, told).is_none_or(|before| before.as_deref() != Some(error))
    }

    pub(super) fn end(&self, ino: Ino) {
        self.0.lock().states.remove(&ino);
    }

    /// [`end`](Self::end), unless the file is in staging again by now.
    pub(super) fn end_of(&self, ino: Ino, file: &Arc<StagedFile>) {
        let mut table = self.0.lock();
        if table.states.get(&ino).is_some_and(|state| state.file.as_ptr() == Arc::as_ptr(file)) {
            table.states.remove(&ino);
        }
    }

    fn with<T>(&self, ino: Ino, work: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.0.lock().states.get_mut(&ino).map(work)
    }
}
