//! The pieces of a file that hold one CPU's records, and their order.
//!
//! perf copies one ring after the other to the file, again and again, so the records of a CPU stand in pieces, each
//! in time order. With one ring for each CPU (`-a`, or a program that perf started) the pieces follow each other; with
//! one for each thread (`-p`, `-t`, `--per-thread`) they overlap in time. perf sorts all of that in memory, one round
//! after the other (FINISHED_ROUND). Here one pass notes the pieces, a few words for each, and reading a CPU merges those
//! of its pieces that overlap: no event is held in memory, and no round needs to be known.
//!
//! A piece may lie between records of others: they are stepped over as long as that is cheaper than another piece.

/// Foreign bytes that a piece may span at a time.
const FOREIGN_MAX: u64 = 2048;

/// Records of one CPU in time order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Offset of its first record.
    pub from: u64,
    /// End of its last record.
    pub end: u64,
    /// Stamp of the first record...
    pub first: u64,
    /// ...and of the last.
    pub last: u64,
}

/// The pieces of one CPU; sorted by `first` when complete.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Pieces {
    pub all: Vec<Piece>,
    /// Records in them.
    pub n: u64,
}

impl Pieces {
    /// The record from `from` to `end`, which comes after all that were added before.
    #[inline]
    pub fn add(&mut self, time: u64, from: u64, end: u64) {
        self.n += 1;
        match self.all.last_mut() {
            Some(piece) if time >= piece.last && from - piece.end <= FOREIGN_MAX => {
                piece.last = time;
                piece.end = end;
            }
            _ => self.all.push(Piece { from, end, first: time, last: time }),
        }
    }

    pub fn sort(&mut self) {
        self.all.sort_by_key(|piece| (piece.first, piece.from));
    }
}

/// Merges the pieces of one CPU. Keeps places only, so that it can live beside the bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Merge {
    /// The next piece that is not open yet.
    next: usize,
    /// Open pieces: stamp and place of their next record, where they end.
    open: Vec<(u64, u64, u64)>,
}

impl Merge {
    /// Offset of the next record; `after(at, end)` finds the record of this CPU that follows the one at `at`, with
    /// its stamp, before `end`.
    #[inline]
    pub fn next(
        &mut self,
        pieces: &[Piece],
        after: impl Fn(u64, u64) -> Option<(u64, u64)>,
    ) -> Option<u64> {
        loop {
            let min = (self.open.iter().enumerate())
                .min_by_key(|(_, (time, at, _))| (*time, *at))
                .map(|(ix, open)| (ix, *open));
            if let Some(piece) = pieces.get(self.next)
                && min.is_none_or(|(_, (time, at, _))| (piece.first, piece.from) < (time, at))
            {
                self.open.push((piece.first, piece.from, piece.end));
                self.next += 1;
                continue;
            }
            let (ix, (_, at, end)) = min?;
            match after(at, end) {
                Some((time, next)) => self.open[ix] = (time, next, end),
                None => {
                    self.open.swap_remove(ix);
                }
            }
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// (stamp, CPU) of records, each of 100 bytes.
    fn read(records: &[(u64, u8)], cpu: u8) -> (Vec<u64>, usize) {
        let mut pieces = Pieces::default();
        for (ix, &(time, of)) in records.iter().enumerate() {
            if of == cpu {
                let at = ix as u64 * 100;
                pieces.add(time, at, at + 100);
            }
        }
        pieces.sort();
        let mut merge = Merge::default();
        let mut out = Vec::new();
        let after = |at: u64, end: u64| {
            let mut ix = at as usize / 100 + 1;
            while (ix as u64) * 100 < end {
                if records[ix].1 == cpu {
                    return Some((records[ix].0, ix as u64 * 100));
                }
                ix += 1;
            }
            None
        };
        while let Some(at) = merge.next(&pieces.all, after) {
            out.push(records[at as usize / 100].0);
        }
        (out, pieces.all.len())
    }

    proptest! {
        #[test]
        fn every_record_of_a_cpu_once_and_in_time_order(
            records in proptest::collection::vec((0u64..500, 0u8..3), 0..300)
        ) {
            for cpu in 0..3 {
                let mut expected: Vec<u64> = records.iter().filter(|r| r.1 == cpu).map(|r| r.0).collect();
                expected.sort_unstable();
                prop_assert_eq!(read(&records, cpu).0, expected);
            }
        }
    }

    #[test]
    fn one_ring_for_each_cpu_needs_few_pieces() {
        // Rounds of 1000 records of CPU 0, then 1000 of CPU 1.
        let records: Vec<(u64, u8)> = (0..10_000).map(|n| (n, (n / 1000 % 2) as u8)).collect();
        let (times, pieces) = read(&records, 1);
        assert_eq!((times.len(), pieces), (5000, 5));
    }
}
