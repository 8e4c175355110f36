//! Which block of a thread a wait's sample shows.
//!
//! A block is a row of the thread's states in which it needs no CPU. Its stack does not move meanwhile, so one sample shows all
//! of it, and which one is a question of times: a sample taken at the switch belongs to the block that begins there, one read from
//! outside to the block that lasts then.
use super::cursor::move_on;
use crate::quick_map::QuickMap;
use kasuri_model::{SampleKind, StateRow, ThreadState, Trace};
use std::ops::Range;

/// Clocks of samples and of the scheduler's events may differ by so much: a sample this near to a run or a block is of it.
pub(super) const TOLERANCE_NS: i64 = 50_000;
/// From asking for a lock to sleeping: longer, and it is not known that the thread slept for this lock.
const LOCK_TO_SLEEP_NS: i64 = 1_000_000;
/// A block without a sample takes the path of another that began at most so long before or after it; so does a short thread.
pub(super) const SHARE_WITHIN_NS: i64 = 1_000_000_000;

/// The sample of each block; none: it has none.
pub(super) struct WaitSamples {
    /// By block: row of [`Trace::samples`], and whether it was taken in another block.
    pub of_block: Vec<Option<(u32, bool)>>,
    /// Samples that show no block.
    pub misfits: u64,
}

impl WaitSamples {
    /// `blocks`: the thread's, in order; `samples`: its rows of [`Trace::samples`].
    pub fn new(trace: &Trace, blocks: &[StateRow], samples: Range<usize>) -> WaitSamples {
        let mut out = WaitSamples {
            of_block: vec![None; blocks.len()],
            misfits: 0,
        };
        let s = &trace.samples;
        let mut begun = 0;
        for sample in samples.filter(|&row| s.kind[row].is_wait()) {
            let Some(block) = block_of(trace, blocks, sample, &mut begun) else {
                out.misfits += 1;
                continue;
            };
            // Of two samples of one block the complete one, else the first.
            let place = &mut out.of_block[block];
            let is_better = |other: u32| s.is_complete[sample] && !s.is_complete[other as usize];
            if place.is_none_or(|(other, _)| is_better(other)) {
                *place = Some((sample as u32, false));
            }
        }
        out.share(trace, blocks);
        out
    }

    /// Gives blocks without a sample that of a similar block: of the same state, of a length between the same two powers of two,
    /// taken at the switch, and the nearest in time.
    fn share(&mut self, trace: &Trace, blocks: &[StateRow]) {
        // Samples at switches are on for short times in turn, whatever the length of the block that begins then: so the
        // sampled blocks of a length are a fair choice of all of that length. Readings from outside are not: they find long blocks.
        let mut alike: QuickMap<(ThreadState, u32), Vec<usize>> = QuickMap::default();
        for (at, block) in blocks.iter().enumerate() {
            let sample = self.of_block[at].map(|(row, _)| row as usize);
            if sample.is_some_and(|row| trace.samples.kind[row] == SampleKind::Blocked) {
                alike.entry(likeness(block)).or_default().push(at);
            }
        }
        if alike.is_empty() {
            return;
        }
        for (at, block) in blocks.iter().enumerate() {
            if self.of_block[at].is_some() {
                continue;
            }
            let same = alike.get(&likeness(block)).map_or(&[][..], |same| same);
            let next = same.partition_point(|&other| other < at);
            let near = same[next.saturating_sub(1)..same.len().min(next + 1)].iter();
            let distance = |other: &&usize| blocks[**other].start.0.abs_diff(block.start.0);
            let nearest = near.min_by_key(distance).copied();
            let nearest = nearest.filter(|o| distance(&o) <= SHARE_WITHIN_NS as u64);
            let sample = nearest.and_then(|other| self.of_block[other]);
            self.of_block[at] = sample.map(|(row, _)| (row, true));
        }
    }
}

fn likeness(block: &StateRow) -> (ThreadState, u32) {
    let ns = block.end.0.saturating_sub(block.start.0).max(1);
    (block.state, ns.ilog2())
}

/// The block that the sample shows. `begun`: a cursor, for samples in order of time.
fn block_of(trace: &Trace, blocks: &[StateRow], sample: usize, begun: &mut usize) -> Option<usize> {
    let time = trace.samples.time[sample];
    let begun = move_on(begun, blocks, |block| block.start <= time);
    let inside = begun.checked_sub(1).filter(|&at| time < blocks[at].end);
    let until = |at: usize| blocks[at].start.0.saturating_sub(time.0);
    match trace.samples.kind[sample] {
        SampleKind::BlockedRead => inside,
        SampleKind::Blocked => {
            let around = begun.saturating_sub(1)..blocks.len().min(begun + 1);
            let nearest = around.min_by_key(|&at| until(at).saturating_abs());
            nearest.filter(|&at| until(at).saturating_abs() <= TOLERANCE_NS)
        }
        SampleKind::LockWait => {
            let next = (begun < blocks.len()).then_some(begun);
            inside.or(next.filter(|&at| until(at) <= LOCK_TO_SLEEP_NS))
        }
        SampleKind::OnCpu | SampleKind::Waker => None,
    }
}
