//! Where the values of files stand along the dimension that they are joined along.
//!
//! Places follow from coordinate values, never from the order of arrival. Published values never
//! move: new ones go behind them. Files without coordinate values are appended in the order of
//! their names.

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

/// A stretch of steps of one file that stand side by side in the array too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// First step in the array.
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
    /// Ascending in `target`, never overlapping; joined where they can be.
    pub(super) runs: Vec<Run>,
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

/// Places files with coordinate values, given in the order of arrival, behind and over `published`.
/// Every file has been checked.
pub(super) fn place_keys<K: Ord>(
    published: &[K],
    files: &[&[K]],
    direction: Direction,
    winner: Winner,
) -> Placement {
    // One owner for each key: the file that holds there.
    let mut owners: BTreeMap<&K, (usize, usize)> = BTreeMap::new();
    for (file, keys) in files.iter().enumerate() {
        for (step, key) in keys.iter().enumerate() {
            match winner {
                Winner::Last => {
                    owners.insert(key, (file, step));
                }
                Winner::First => {
                    owners.entry(key).or_insert((file, step));
                }
            }
        }
    }
    let published_length = published.len() as u64;
    let mut runs = Runs::default();
    let mut over: Vec<(u64, usize, usize)> = Vec::new();
    let mut new: Vec<(usize, usize)> = Vec::new();
    for (key, (file, step)) in owners {
        match find(published, key, direction) {
            Ok(at) if winner == Winner::Last => over.push((at as u64, file, step)),
            Ok(_) => {}
            Err(_) => new.push((file, step)),
        }
    }
    if direction == Direction::Descending {
        new.reverse();
    }
    over.sort_unstable();
    for (target, file, step) in over {
        runs.push(target, step as u64, file);
    }
    let count = new.len() as u64;
    for (target, (file, step)) in (published_length..).zip(new) {
        runs.push(target, step as u64, file);
    }
    Placement { length: published_length + count, runs: runs.0 }
}

/// Appends files without coordinate values, given in the order in which they shall stand.
pub(super) fn place_lengths(published_length: u64, lengths: &[u64]) -> Placement {
    let mut end = published_length;
    let mut runs = Vec::new();
    for (file, length) in lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
        runs.push(Run { target: end, source: 0, length: *length, file });
        end += length;
    }
    Placement { length: end, runs }
}

#[derive(Default)]
struct Runs(Vec<Run>);

impl Runs {
    fn push(&mut self, target: u64, source: u64, file: usize) {
        match self.0.last_mut() {
            Some(last)
                if last.file == file
                    && last.target + last.length == target
                    && last.source + last.length == source =>
            {
                last.length += 1;
            }
            _ => self.0.push(Run { target, source, length: 1, file }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(target: u64, source: u64, length: u64, file: usize) -> Run {
        Run { target, source, length, file }
    }

    #[test]
    fn files_stand_in_the_order_of_their_values_whatever_order_they_came_in() {
        let placed = place_keys(&[], &[&[3, 4], &[0, 1, 2]], Direction::Ascending, Winner::First);
        assert_eq!(placed.length, 5);
        assert_eq!(placed.runs, [run(0, 0, 3, 1), run(3, 0, 2, 0)]);
    }

    #[test]
    fn interleaved_files_are_taken_apart() {
        let placed = place_keys(&[], &[&[0, 2, 3], &[1, 4]], Direction::Ascending, Winner::First);
        assert_eq!(
            placed.runs,
            [run(0, 0, 1, 0), run(1, 0, 1, 1), run(2, 1, 2, 0), run(4, 1, 1, 1)]
        );
    }

    #[test]
    fn descending_values_stay_descending() {
        let placed = place_keys(&[9, 8], &[&[5, 4], &[7]], Direction::Descending, Winner::First);
        assert_eq!(placed.length, 5);
        assert_eq!(placed.runs, [run(2, 0, 1, 1), run(3, 0, 2, 0)]);
    }

    #[test]
    fn published_values_are_kept_or_replaced() {
        let files: &[&[i32]] = &[&[2, 3, 4]];
        let kept = place_keys(&[1, 2, 3], files, Direction::Ascending, Winner::First);
        assert_eq!((kept.length, kept.runs), (4, vec![run(3, 2, 1, 0)]));
        let replaced = place_keys(&[1, 2, 3], files, Direction::Ascending, Winner::Last);
        assert_eq!((replaced.length, replaced.runs), (4, vec![run(1, 0, 3, 0)]));
    }

    #[test]
    fn what_has_no_place_is_named() {
        assert_eq!(direction(&[1, 2, 2]), Err(Misplaced::NotMonotonic { step: 2 }));
        assert_eq!(direction(&[3, 2, 1]), Ok(Some(Direction::Descending)));
        assert_eq!(direction(&[3]), Ok(None));
        assert_eq!(
            check_behind(&[1, 3, 5], &[3, 4], Direction::Ascending),
            Err(Misplaced::Insertion { before: 2, step: 1 })
        );
        assert_eq!(check_behind(&[1, 3], &[1, 4], Direction::Ascending), Ok(()));
        assert_eq!(check_behind(&[3, 1], &[0], Direction::Descending), Ok(()));
    }

    #[test]
    fn without_values_files_are_appended_in_the_order_given() {
        let placed = place_lengths(2, &[3, 0, 1]);
        assert_eq!((placed.length, placed.runs), (6, vec![run(2, 0, 3, 0), run(5, 0, 1, 2)]));
    }
}
