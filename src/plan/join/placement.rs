//! Where the values of files stand along the dimension that they are joined along.
//!
//! Places follow from coordinate values, never from the order of arrival. Published values never
//! move: new ones go behind them. Files without coordinate values are appended in the order of
//! their names.
//!
//! Every step of every file has a place, also where several files stand on the same one. Which of
//! them gives the values there is another question for each array, since not every file has every
//! array: see [`Placement::hold`].

use std::collections::BTreeMap;

/// Which way coordinates run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Direction {
    #[default]
    Ascending,
    Descending,
}

/// Which values hold where several files have the same coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Winner {
    /// Those that are there already: published, or of the file that came first.
    First,
    /// Those of the file that came last.
    Last,
}

/// A stretch of steps of one file that stand side by side along the dimension too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// First step along the dimension.
    pub(super) target: u64,
    /// First step in the file.
    pub(super) source: u64,
    /// Number of steps.
    pub(super) length: u64,
    /// Position of the file among those that were given.
    pub(super) file: usize,
}

/// The dimension after files were placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placement {
    /// Length afterwards.
    pub(super) length: u64,
    /// Where each file stands: ascending, joined where they can be.
    pub(super) files: Vec<Vec<Run>>,
}

impl Placement {
    /// The steps that get values, if these files have some: ascending in the target, never
    /// overlapping. `files` are in the order of arrival. Steps before `kept` have values that stay.
    pub(super) fn hold(
        &self,
        files: impl DoubleEndedIterator<Item = usize>,
        winner: Winner,
        kept: u64,
    ) -> Vec<Run> {
        let mut held = Held::default();
        let mut hold = |file: usize| {
            for run in self.files.get(file).into_iter().flatten() {
                held.insert(run.from(kept));
            }
        };
        match winner {
            Winner::First => files.for_each(&mut hold),
            Winner::Last => files.rev().for_each(&mut hold),
        }
        held.into_runs()
    }
}

impl Run {
    /// What of it stands at `first` or behind.
    fn from(self, first: u64) -> Self {
        let cut = first.saturating_sub(self.target).min(self.length);
        Self {
            target: self.target + cut,
            source: self.source + cut,
            length: self.length - cut,
            file: self.file,
        }
    }

    /// Whether `next` goes on where this one ends.
    fn goes_on_with(&self, next: &Self) -> bool {
        self.file == next.file
            && self.target + self.length == next.target
            && self.source + self.length == next.source
    }
}

/// Why files have no place. Steps are counted from zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// The coordinates of a file do not run one way.
    NotMonotonic {
        /// The step that does not go on as those before.
        step: usize,
    },
    /// New steps would lie among the published ones, from this published step on.
    Insertion {
        /// The published step that would have to move.
        before: u64,
        /// The step of the file that stands before it.
        step: usize,
    },
}

/// Which way these run; `None` for fewer than two.
pub(super) fn direction<K: Ord>(keys: &[K]) -> Result<Option<Direction>, Misplaced> {
    let [first, second, ..] = keys else { return Ok(None) };
    let direction = if first < second { Direction::Ascending } else { Direction::Descending };
    let step = keys.windows(2).position(|pair| match (pair, direction) {
        ([a, b], Direction::Ascending) => a >= b,
        ([a, b], Direction::Descending) => a <= b,
        _ => false,
    });
    match step {
        Some(step) => Err(Misplaced::NotMonotonic { step: step + 1 }),
        None => Ok(Some(direction)),
    }
}

/// The position of a key among published ones that run one way.
pub(super) fn find<K: Ord>(published: &[K], key: &K, direction: Direction) -> Result<usize, usize> {
    published.binary_search_by(|probe| match direction {
        Direction::Ascending => probe.cmp(key),
        Direction::Descending => key.cmp(probe),
    })
}

/// Whether the new keys of one file lie behind the published ones. Their own order has been checked.
pub(super) fn check_behind<K: Ord>(
    published: &[K],
    keys: &[K],
    direction: Direction,
) -> Result<(), Misplaced> {
    for (step, key) in keys.iter().enumerate() {
        match find(published, key, direction) {
            Ok(_) => {}
            Err(at) if at == published.len() => {}
            Err(at) => return Err(Misplaced::Insertion { before: at as u64, step }),
        }
    }
    Ok(())
}

/// Places files with coordinate values behind and over `published`. Every file has been checked.
pub(super) fn place_keys<K: Ord>(
    published: &[K],
    files: &[&[K]],
    direction: Direction,
) -> Placement {
    let is_new = |key: &&K| find(published, key, direction).is_err();
    let mut new: Vec<&K> = files.iter().copied().flatten().filter(is_new).collect();
    new.sort_unstable();
    new.dedup();
    if direction == Direction::Descending {
        new.reverse();
    }
    let behind = published.len() as u64;
    let place = |key: &K| match find(published, key, direction) {
        Ok(at) => Some(at as u64),
        Err(_) => find(&new, &key, direction).ok().map(|at| behind + at as u64),
    };
    let place_file = |(file, keys): (usize, &&[K])| {
        let mut runs = Runs::default();
        for (source, key) in (0..).zip(keys.iter()) {
            if let Some(target) = place(key) {
                runs.push(Run { target, source, length: 1, file });
            }
        }
        runs.0
    };
    Placement {
        length: behind + new.len() as u64,
        files: files.iter().enumerate().map(place_file).collect(),
    }
}

/// Appends files without coordinate values, given in the order in which they shall stand.
pub(super) fn place_lengths(published_length: u64, lengths: &[u64]) -> Placement {
    let mut end = published_length;
    let mut files = Vec::with_capacity(lengths.len());
    for (file, length) in lengths.iter().copied().enumerate() {
        let run = Run { target: end, source: 0, length, file };
        files.push(if length > 0 { vec![run] } else { Vec::new() });
        end += length;
    }
    Placement { length: end, files }
}

#[derive(Default)]
struct Runs(Vec<Run>);

impl Runs {
    fn push(&mut self, run: Run) {
        match self.0.last_mut() {
            Some(last) if last.goes_on_with(&run) => last.length += run.length,
            _ => self.0.push(run),
        }
    }
}

/// Stretches by their first step; who comes first holds.
#[derive(Default)]
struct Held(BTreeMap<u64, Run>);

impl Held {
    /// Takes what of a stretch nobody holds yet.
    fn insert(&mut self, mut run: Run) {
        while run.length > 0 {
            let before = self.0.range(..=run.target).next_back();
            let taken_until = before.map_or(0, |(start, held)| start + held.length);
            run = run.from(taken_until);
            let next = self.0.range(run.target..).next().map_or(u64::MAX, |(start, _)| *start);
            let free = run.length.min(next - run.target);
            if free > 0 {
                self.0.insert(run.target, Run { length: free, ..run });
            }
            run = run.from(run.target + free);
        }
    }

    fn into_runs(self) -> Vec<Run> {
        let mut runs = Runs::default();
        for run in self.0.into_values() {
            runs.push(run);
        }
        runs.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Direction = Direction::Ascending;
    const DOWN: Direction = Direction::Descending;

    fn run(target: u64, source: u64, length: u64, file: usize) -> Run {
        Run { target, source, length, file }
    }

    /// What all of the files give together.
    fn held(placement: &Placement, winner: Winner, kept: u64) -> Vec<Run> {
        placement.hold(0..placement.files.len(), winner, kept)
    }

    #[test]
    fn files_stand_in_the_order_of_their_values_whatever_order_they_came_in() {
        let placed = place_keys(&[], &[&[3, 4], &[0, 1, 2]], UP);
        assert_eq!(placed.length, 5);
        assert_eq!(held(&placed, Winner::First, 0), [run(0, 0, 3, 1), run(3, 0, 2, 0)]);
    }

    #[test]
    fn interleaved_files_are_taken_apart() {
        let placed = place_keys(&[], &[&[0, 2, 3], &[1, 4]], UP);
        assert_eq!(
            held(&placed, Winner::First, 0),
            [run(0, 0, 1, 0), run(1, 0, 1, 1), run(2, 1, 2, 0), run(4, 1, 1, 1)]
        );
    }

    #[test]
    fn descending_values_stay_descending() {
        let placed = place_keys(&[9, 8], &[&[5, 4], &[7]], DOWN);
        assert_eq!(placed.length, 5);
        assert_eq!(held(&placed, Winner::First, 2), [run(2, 0, 1, 1), run(3, 0, 2, 0)]);
    }

    #[test]
    fn published_values_are_kept_or_replaced() {
        let placed = place_keys(&[1, 2, 3], &[&[2, 3, 4]], UP);
        assert_eq!(placed.length, 4);
        assert_eq!(held(&placed, Winner::First, 3), [run(3, 2, 1, 0)]);
        assert_eq!(held(&placed, Winner::Last, 0), [run(1, 0, 3, 0)]);
    }

    #[test]
    fn files_on_the_same_steps_hold_where_no_other_file_has_the_array() {
        let placed = place_keys(&[], &[&[0, 1, 2, 3], &[1, 2], &[2, 3, 4]], UP);
        assert_eq!(placed.length, 5);
        // An array that only the second file has, and one that it does not have.
        assert_eq!(placed.hold([1].into_iter(), Winner::First, 0), [run(1, 0, 2, 1)]);
        let first = placed.hold([0, 2].into_iter(), Winner::First, 0);
        assert_eq!(first, [run(0, 0, 4, 0), run(4, 2, 1, 2)]);
        let last = held(&placed, Winner::Last, 0);
        assert_eq!(last, [run(0, 0, 1, 0), run(1, 0, 1, 1), run(2, 0, 3, 2)]);
        let first = held(&placed, Winner::First, 0);
        assert_eq!(first, [run(0, 0, 4, 0), run(4, 2, 1, 2)]);
    }

    #[test]
    fn what_has_no_place_is_named() {
        assert_eq!(direction(&[1, 2, 2]), Err(Misplaced::NotMonotonic { step: 2 }));
        assert_eq!(direction(&[3, 2, 1]), Ok(Some(DOWN)));
        assert_eq!(direction(&[3]), Ok(None));
        assert_eq!(
            check_behind(&[1, 3, 5], &[3, 4], UP),
            Err(Misplaced::Insertion { before: 2, step: 1 })
        );
        assert_eq!(check_behind(&[1, 3], &[1, 4], UP), Ok(()));
        assert_eq!(check_behind(&[3, 1], &[0], DOWN), Ok(()));
    }

    #[test]
    fn without_values_files_are_appended_in_the_order_given() {
        let placed = place_lengths(2, &[3, 0, 1]);
        assert_eq!(placed.length, 6);
        assert_eq!(held(&placed, Winner::First, 2), [run(2, 0, 3, 0), run(5, 0, 1, 2)]);
    }
}
