//! Where the steps of a file stand in the dataset, dimension by dimension. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::plan::AxisKey;

/// Where the steps of a file stand along one dimension of a dataset: ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Positions {
    /// The first so many, each at its own place from `first` on.
    Run { first: u64, length: u64 },
    /// Each at the place that is named.
    Each(Vec<u64>),
}

/// Why the steps of a file have no places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unplaced {
    /// The dataset lacks the coordinate of this step.
    Lacks { step: usize },
    /// This step stands before the one that it follows in the file.
    Reordered { step: usize },
    /// Lengths differ, and there are no coordinate values to go by.
    Lengths { file: u64, dataset: u64 },
}

impl Unplaced {
    /// The step that has no place.
    pub(super) fn step(&self) -> Option<usize> {
        match self {
            Self::Lacks { step } | Self::Reordered { step } => Some(*step),
            Self::Lengths { .. } => None,
        }
    }
}

impl Positions {
    /// Steps that stand where they stand in the file.
    pub(super) fn same(length: u64) -> Self {
        Self::Run { first: 0, length }
    }

    /// Number of steps.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Run { length, .. } => *length,
            Self::Each(places) => places.len() as u64,
        }
    }

    /// The place of a step.
    pub(super) fn place(&self, step: u64) -> u64 {
        match self {
            Self::Run { first, .. } => first + step,
            Self::Each(places) => {
                let step = usize::try_from(step).unwrap_or(usize::MAX);
                places.get(step).copied().unwrap_or(u64::MAX)
            }
        }
    }

    /// The steps whose places lie in a range.
    pub(super) fn steps_in(&self, places: &Range<u64>) -> Range<u64> {
        match self {
            Self::Run { first, length } => {
                let step = |place: u64| place.saturating_sub(*first).min(*length);
                step(places.start)..step(places.end)
            }
            Self::Each(each) => {
                let step = |place: u64| each.partition_point(|at| *at < place) as u64;
                step(places.start)..step(places.end)
            }
        }
    }

    /// The places from the first to the last.
    pub(super) fn span(&self) -> Range<u64> {
        match self.len() {
            0 => 0..0,
            length => self.place(0)..self.place(length - 1).saturating_add(1),
        }
    }
}

/// Places by coordinate values: those of the file among those of the dataset.
pub(super) fn by_values(file: &[AxisKey], dataset: &[AxisKey]) -> Result<Positions, Unplaced> {
    if file == dataset {
        return Ok(Positions::same(file.len() as u64));
    }
    let mut known = BTreeMap::new();
    for (place, key) in dataset.iter().enumerate() {
        known.entry(key).or_insert(place as u64);
    }
    let mut places: Vec<u64> = Vec::with_capacity(file.len());
    for (step, key) in file.iter().enumerate() {
        let place = *known.get(key).ok_or(Unplaced::Lacks { step })?;
        if places.last().is_some_and(|before| *before >= place) {
            return Err(Unplaced::Reordered { step });
        }
        places.push(place);
    }
    let first = places.first().copied().unwrap_or(0);
    let length = places.len() as u64;
    if places.last().is_none_or(|last| last - first + 1 == length) {
        return Ok(Positions::Run { first, length });
    }
    Ok(Positions::Each(places))
}

/// Places without coordinate values: only a whole dimension has one.
pub(super) fn by_length(file: u64, dataset: u64) -> Result<Positions, Unplaced> {
    if file == dataset {
        Ok(Positions::same(file))
    } else {
        Err(Unplaced::Lengths { file, dataset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(numbers: &[i128]) -> Vec<AxisKey> {
        numbers.iter().map(|number| AxisKey::Integer(*number)).collect()
    }

    #[test]
    fn steps_stand_where_their_coordinates_are() {
        let dataset = keys(&[10, 20, 30, 40, 50]);
        let place = |numbers: &[i128]| by_values(&keys(numbers), &dataset);
        assert_eq!(place(&[30, 40]), Ok(Positions::Run { first: 2, length: 2 }));
        assert_eq!(place(&[10, 40, 50]), Ok(Positions::Each(vec![0, 3, 4])));
        assert_eq!(place(&[10, 25]), Err(Unplaced::Lacks { step: 1 }));
        assert_eq!(place(&[20, 10]), Err(Unplaced::Reordered { step: 1 }));
        assert_eq!(place(&[]), Ok(Positions::same(0)));
        // A dataset of one file keeps the order of that file, whatever it is.
        let odd = keys(&[3, 1, 1]);
        assert_eq!(by_values(&odd, &odd), Ok(Positions::same(3)));
    }

    #[test]
    fn steps_are_found_by_the_range_of_their_places() {
        let each = Positions::Each(vec![0, 3, 4, 9]);
        assert_eq!(each.steps_in(&(1..5)), 1..3);
        assert_eq!(each.steps_in(&(5..9)), 3..3);
        assert_eq!(each.span(), 0..10);
        let run = Positions::Run { first: 4, length: 3 };
        assert_eq!(run.steps_in(&(0..4)), 0..0);
        assert_eq!(run.steps_in(&(5..100)), 1..3);
        assert_eq!(run.span(), 4..7);
    }
}
