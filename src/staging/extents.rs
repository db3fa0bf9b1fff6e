//! What a spool file is charged: the granules that hold data, not its logical size.
//!
//! A sparse file of 1 TiB with one byte in it costs one granule. The last granule costs only its
//! part before the file's end, so that a file written from front to back costs exactly its size.
//! Granules bound the memory of this map: it never has more runs than the quota has granules.

use std::collections::BTreeMap;

/// 64 KiB: 20 GiB are at most 327,680 runs (16 MB of memory), and file systems allocate in pieces
/// not much smaller.
const GRANULE_BYTES: u64 = 64 << 10;

/// The granules of one file that hold data.
#[derive(Debug, Default)]
pub(super) struct Extents {
    /// Disjoint runs that do not touch, first granule to the one after the last.
    runs: BTreeMap<u64, u64>,
    granules: u64,
    /// End of the file in bytes, writes under way included.
    end: u64,
}

impl Extents {
    /// A file without holes.
    pub(super) fn dense(length: u64) -> Self {
        let mut extents = Self::default();
        extents.add(0, length);
        extents
    }

    /// Bytes that the file costs.
    pub(super) fn bytes(&self) -> u64 {
        Self::cost(self.granules, self.runs.last_key_value().map_or(0, |(_, end)| *end), self.end)
    }

    /// Bytes that it would cost after [`add`](Self::add).
    pub(super) fn bytes_with(&self, offset: u64, end: u64) -> u64 {
        let (first, last) = granules(offset, end);
        let last_run = self.runs.last_key_value().map_or(0, |(_, end)| *end);
        let missing = (last - first) - self.covered(first, last);
        Self::cost(self.granules + missing, last_run.max(last), self.end.max(end))
    }

    /// Marks `offset..end` as data.
    pub(super) fn add(&mut self, offset: u64, end: u64) {
        if offset >= end {
            return;
        }
        self.end = self.end.max(end);
        let (mut first, mut last) = granules(offset, end);
        let touching = self.runs.range(..=last).rev();
        let touching = touching.take_while(|(_, run_end)| **run_end >= first);
        let touching = touching.map(|(start, run_end)| (*start, *run_end)).collect::<Vec<_>>();
        for (start, run_end) in touching {
            self.runs.remove(&start);
            self.granules -= run_end - start;
            (first, last) = (first.min(start), last.max(run_end));
        }
        self.runs.insert(first, last);
        self.granules += last - first;
    }

    /// Bytes that it would cost after [`set_end`](Self::set_end).
    pub(super) fn bytes_at(&self, end: u64) -> u64 {
        let after = end.div_ceil(GRANULE_BYTES);
        let beyond = self.granules - self.covered(0, after);
        let last_run = self.runs.range(..after).next_back().map_or(0, |(_, last)| *last);
        Self::cost(self.granules - beyond, last_run.min(after), end)
    }

    /// The file ends there now; data behind it is gone.
    pub(super) fn set_end(&mut self, end: u64) {
        let after = end.div_ceil(GRANULE_BYTES);
        for (start, run_end) in self.runs.split_off(&after) {
            self.granules -= run_end - start;
        }
        if let Some(mut run) = self.runs.last_entry() {
            let run_end = *run.get();
            if run_end > after {
                self.granules -= run_end - after;
                run.insert(after);
            }
        }
        self.end = end;
    }

    fn covered(&self, first: u64, last: u64) -> u64 {
        let runs = self.runs.range(..last).rev();
        let runs = runs.take_while(|(_, end)| **end > first);
        runs.map(|(start, end)| last.min(*end) - first.max(*start)).sum()
    }

    fn cost(granules: u64, last_run: u64, end: u64) -> u64 {
        let beyond_end = (last_run * GRANULE_BYTES).saturating_sub(end);
        (granules * GRANULE_BYTES).saturating_sub(beyond_end)
    }
}

fn granules(offset: u64, end: u64) -> (u64, u64) {
    (offset / GRANULE_BYTES, end.div_ceil(GRANULE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_written_from_front_to_back_costs_its_size() {
        let mut extents = Extents::default();
        for end in (1..400_000).step_by(7919) {
            assert_eq!(extents.bytes_with(end - 1, end + 100), end + 100);
            extents.add(extents.end, end);
            assert_eq!(extents.bytes(), end);
        }
        assert_eq!(extents.runs.len(), 1);
    }

    #[test]
    fn holes_cost_nothing() {
        let mut extents = Extents::default();
        extents.set_end(1 << 40);
        assert_eq!(extents.bytes(), 0);
        assert_eq!(extents.bytes_with(1 << 30, (1 << 30) + 1), GRANULE_BYTES);
        extents.add(1 << 30, (1 << 30) + 1);
        extents.add(1 << 35, (1 << 35) + GRANULE_BYTES + 1);
        assert_eq!(extents.bytes(), 3 * GRANULE_BYTES);
        assert_eq!(extents.bytes_at((1 << 30) + 5), 5);
        extents.set_end((1 << 30) + 5);
        assert_eq!(extents.bytes(), 5);
        extents.set_end(0);
        assert_eq!((extents.bytes(), extents.runs.len()), (0, 0));
    }

    #[test]
    fn the_cost_told_beforehand_is_the_cost() {
        let mut extents = Extents::default();
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let offset = (seed >> 33) % (64 * GRANULE_BYTES);
            let length = (seed >> 20) % (3 * GRANULE_BYTES);
            if seed.is_multiple_of(5) {
                let told = extents.bytes_at(offset);
                extents.set_end(offset);
                assert_eq!(extents.bytes(), told);
            } else if length > 0 {
                let told = extents.bytes_with(offset, offset + length);
                extents.add(offset, offset + length);
                assert_eq!(extents.bytes(), told);
            }
            let sum: u64 = extents.runs.iter().map(|(start, end)| end - start).sum();
            assert_eq!(sum, extents.granules);
        }
    }
}
