//! Which block of a thread a wait's sample shows.
//!
//! A block is a row of the thread's states in which it needs no CPU. Its stack does not move meanwhile, so one sample shows all
//! of it, and which one is a question of times: a sample taken at the switch belongs to the block that begins there, one read from
//! outside to the block that lasts then.
use super::cursor::move_on;
use kasuri_base::quick::QuickMap;
use kasuri_model::{SampleKind, StateRow, ThreadState, Time, Trace};
use std::ops::Range;

/// Clocks of samples and of the scheduler's events may differ by so much: a sample this near to a run or a block is of it.
pub(super) const TOLERANCE_NS: i64 = 50_000;
/// From asking for a lock to sleeping: longer, and it is not known that the thread slept for this lock.
const LOCK_TO_SLEEP_NS: i64 = 1_000_000;
/// A block without a sample takes the path of another that began at most so long before or after it; so does a short thread.
pub(super) const SHARE_WITHIN_NS: i64 = 1_000_000_000;
/// Taking a sample lengthens the block that it shows: by 2 us where it was measured, hardly by more than this.
const LENGTHENED_NS: i64 = 6_000;
/// Blocks shorter than twice this are of one length.
const SHORTEST_NS: i64 = 4_096;
/// Blocks without a sample take turns with so many samples at most, which lie so near to each other.
const TURNS: usize = 64;
const TURNS_WITHIN_NS: u64 = 10_000_000;

/// The sample of each block; none: it has none.
pub(super) struct WaitSamples {
    /// By block: row of [`Trace::samples`], and whether it was taken in another block.
    pub of_block: Vec<Option<(u32, bool)>>,
    /// Whether one was taken where the block begins.
    at_switch: Vec<bool>,
    /// Samples that show no block.
    pub misfits: u64,
}

impl WaitSamples {
    /// `blocks`: the thread's, in order; `samples`: its rows of [`Trace::samples`]; `execs`: when it replaced its program.
    pub fn new(
        trace: &Trace,
        blocks: &[StateRow],
        samples: Range<usize>,
        execs: &[Time],
    ) -> WaitSamples {
        let mut out = WaitSamples {
            of_block: vec![None; blocks.len()],
            at_switch: vec![false; blocks.len()],
            misfits: 0,
        };
        let s = &trace.samples;
        let mut begun = 0;
        for sample in samples.filter(|&row| s.kind[row].is_wait()) {
            let Some(block) = block_of(trace, blocks, sample, &mut begun) else {
                out.misfits += 1;
                continue;
            };
            out.at_switch[block] |= s.kind[sample] == SampleKind::Blocked;
            // Of two samples of one block the complete one, else the one that was read from outside, which says at what file the thread
            // waits, else the first.
            let place = &mut out.of_block[block];
            let rank = |row: usize| (s.is_complete[row], s.kind[row] == SampleKind::BlockedRead);
            let is_better = |other: u32| rank(sample) > rank(other as usize);
            if place.is_none_or(|(other, _)| is_better(other)) {
                *place = Some((sample as u32, false));
            }
        }
        out.share(blocks, execs);
        out
    }

    /// Gives blocks without a sample that of a similar block: of the same program, of the same state, of about the same length, taken
    /// at the switch, and near in time. Of samples that are near each other they take turns, so that each has its share.
    fn share(&mut self, blocks: &[StateRow], execs: &[Time]) {
        // Samples at switches are on for short times in turn, whatever the length of the block that begins then: so the
        // sampled blocks of a length are a fair choice of all of that length. Readings from outside are not: they find long blocks.
        let mut alike: QuickMap<Likeness, Alike> = QuickMap::default();
        for (at, block) in blocks.iter().enumerate() {
            if self.at_switch[at] {
                let ns = length_ns(block);
                let classes = length_class(ns - LENGTHENED_NS)..=length_class(ns);
                for class in classes {
                    let program = execs_after(execs, block.start);
                    let same = alike.entry((program, block.state, class)).or_default();
                    same.sampled.push(at);
                }
            }
        }
        if alike.is_empty() {
            return;
        }
        for (at, block) in blocks.iter().enumerate() {
            if self.of_block[at].is_some() {
                continue;
            }
            let program = execs_after(execs, block.start);
            let same = alike.get_mut(&(program, block.state, length_class(length_ns(block))));
            let other = same.and_then(|same| same.next(blocks, at));
            let sample = other.and_then(|other| self.of_block[other]);
            self.of_block[at] = sample.map(|(row, _)| (row, true));
        }
    }
}

/// Which of a thread's programs runs at a time: so many follow.
fn execs_after(execs: &[Time], time: Time) -> usize {
    execs.len() - execs.partition_point(|&exec| exec <= time)
}

/// Program, state, and length to within a power of two.
type Likeness = (usize, ThreadState, u32);

/// Blocks that are like each other.
#[derive(Default)]
struct Alike {
    /// Those with a sample, in order.
    sampled: Vec<usize>,
    /// Whose turn it is.
    turn: usize,
}

impl Alike {
    /// The block whose sample the block `at` takes: of those on the nearer side in turn.
    fn next(&mut self, blocks: &[StateRow], at: usize) -> Option<usize> {
        let start = blocks[at].start.0;
        let apart = |other: usize| blocks[other].start.0.abs_diff(start);
        let (before, after) = self.sampled.split_at(self.sampled.partition_point(|&o| o < at));
        let before = &before[before.len().saturating_sub(TURNS)..];
        let after = &after[..after.len().min(TURNS)];
        let (last, first) = (before.last().copied(), after.first().copied());
        let nearest = [last, first].into_iter().flatten();
        let nearest = nearest.min_by_key(|&other| apart(other))?;
        if apart(nearest) > SHARE_WITHIN_NS as u64 {
            return None;
        }
        let is_near = |other: usize| apart(other) <= apart(nearest) + TURNS_WITHIN_NS;
        let near = match last == Some(nearest) {
            true => &before[before.partition_point(|&other| !is_near(other))..],
            false => &after[..after.partition_point(|&other| is_near(other))],
        };
        self.turn = self.turn.wrapping_add(1);
        near.get(self.turn % near.len().max(1)).copied()
    }
}

fn length_ns(block: &StateRow) -> i64 {
    block.end.0.saturating_sub(block.start.0)
}

fn length_class(ns: i64) -> u32 {
    ns.max(SHORTEST_NS).ilog2()
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
