//! A loop under another schedule, from the times of its chunks.
//!
//! Goal: how long the threads of a team would take for the same iterations, if they were handed out in another way.
//!
//! Method: the chunks in order of their iterations give the busy time up to each iteration; within a chunk it grows evenly.
//! A schedule cuts the iterations into pieces. `static`: one piece for each thread. `dynamic` and `guided`: whoever is free
//! first takes the next piece, from when it came to the loop, and pays what taking one was measured to cost. The time of
//! the execution is that of the thread which ends last. The recorded chunks are put to the same rules: where they went round
//! the threads in turn (`static`), each thread has its own; else whoever is free takes the next. Which thread had it is then
//! no guide, since one that another program held up takes fewer. So what recording adds, and others' CPU time, is in neither.
//!
//! Nothing is replayed where it would be a guess: pieces smaller than the recorded chunks (how a chunk's time is spread over
//! its iterations was not seen). Caches are not modelled: an iteration costs what it cost.
use super::parts::Chunk;
use crate::cut::percentile;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Pieces of one `static` or `guided` share have at least so many chunks, so that cutting one unseen errs little.
const FINE: u64 = 8;
/// The longest chunk that is tried leaves each thread so many: with fewer, the last one decides.
const PIECES_EACH: u64 = 16;
/// Events that a chunk's busy time has: its start's and two arguments' writing, after the stamp of its start.
const EVENTS_INSIDE: f64 = 2.5;
/// Events between two chunks: the end of one is written there, and the next start's stamp is taken.
const EVENTS_BETWEEN: f64 = 1.5;

/// A way to hand out iterations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Schedule {
    Static,
    /// With the number of iterations of a chunk.
    Dynamic(u64),
    /// With the least number.
    Guided(u64),
}

impl Schedule {
    /// The order in which to prefer those that are as good: no shared counter, then few calls.
    pub fn plainness(self) -> (u8, Reverse<u64>) {
        match self {
            Schedule::Static => (0, Reverse(0)),
            Schedule::Dynamic(n) => (1, Reverse(n)),
            Schedule::Guided(n) => (2, Reverse(n)),
        }
    }
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Schedule::Static => write!(f, "static"),
            Schedule::Dynamic(n) => write!(f, "dynamic,{n}"),
            Schedule::Guided(n) => write!(f, "guided,{n}"),
        }
    }
}

/// What one thread did in one execution of a loop.
pub(super) struct Share {
    /// How long it was busy before it came, since its team was last together: not when it came, as it may have had no CPU.
    pub came_ns: i64,
    pub chunks: Vec<Chunk>,
}

/// One execution of a loop by a team.
pub(super) struct Execution {
    /// When each thread came, ns from the first.
    came_ns: Vec<i64>,
    /// Iterations up to the end of each chunk, in the loop's order.
    ends: Vec<u64>,
    /// Busy time up to there.
    sums: Vec<f64>,
    /// The thread that had it.
    threads: Vec<usize>,
    /// Iterations of the largest chunk.
    coarsest: u64,
    /// What taking a chunk costs.
    take_ns: f64,
}

impl Execution {
    /// `event_ns`: what one event of the recording costs. None without a chunk.
    pub fn new(shares: &[Share], event_ns: f64) -> Option<Execution> {
        let first = shares.iter().map(|s| s.came_ns).min()?;
        let gaps = shares.iter().flat_map(|s| &s.chunks);
        let mut gaps: Vec<i64> = gaps.filter_map(|chunk| chunk.gap_ns).collect();
        let take_ns = match gaps.is_empty() {
            true => 0.0,
            // The middle one, as a thread may lose its CPU there. The end of one chunk and the start of the next are written in it.
            false => (percentile(&mut gaps, 50) as f64 - EVENTS_BETWEEN * event_ns).max(0.0),
        };
        let mut chunks: Vec<(usize, Chunk)> = (shares.iter().enumerate())
            .flat_map(|(thread, share)| share.chunks.iter().map(move |&chunk| (thread, chunk)))
            .collect();
        chunks.sort_by_key(|(_, chunk)| chunk.first);
        if shares.iter().map(|s| rises(&s.chunks)).sum::<i64>() < 0 {
            chunks.reverse();
        }
        let mut out = Execution {
            came_ns: shares.iter().map(|s| s.came_ns - first).collect(),
            ends: Vec::with_capacity(chunks.len()),
            sums: Vec::with_capacity(chunks.len()),
            threads: Vec::with_capacity(chunks.len()),
            coarsest: chunks.iter().map(|(_, chunk)| chunk.n).max()?,
            take_ns,
        };
        let (mut sum, mut end) = (0.0, 0u64);
        for (thread, chunk) in chunks {
            sum += (chunk.busy_ns as f64 - EVENTS_INSIDE * event_ns).max(0.0);
            end = end.saturating_add(chunk.n);
            out.sums.push(sum);
            out.ends.push(end);
            out.threads.push(thread);
        }
        (end > 0).then_some(out)
    }

    /// Whether the chunks went round the threads in turn, as `static` has it, and a dynamic schedule now and then.
    pub fn is_in_turn(&self) -> bool {
        let n = self.came_ns.len();
        let ahead = self.threads.iter().skip(n);
        let turns = self.threads.iter().zip(ahead).all(|(a, b)| a == b);
        let mut first: Vec<usize> = self.threads.iter().take(n).copied().collect();
        first.sort_unstable();
        turns && first.iter().copied().eq(0..n)
    }

    /// The recorded chunks by the rules of the replay, ns. `in_turn`: each thread has its own.
    pub fn recorded(&self, in_turn: bool) -> i64 {
        let pieces = std::iter::once(0).chain(self.ends.iter().copied());
        let pieces = pieces.zip(self.ends.iter().copied());
        if !in_turn {
            return self.taken(pieces);
        }
        let mut at: Vec<f64> = self.came_ns.iter().map(|&came| came as f64).collect();
        for (&thread, (from, to)) in self.threads.iter().zip(pieces) {
            at[thread] += self.before(to) - self.before(from);
        }
        at.into_iter().fold(0.0, f64::max) as i64
    }

    /// The pieces, each by whoever is free first; ns until the last is done.
    fn taken(&self, pieces: impl Iterator<Item = (u64, u64)>) -> i64 {
        let free = self.came_ns.iter().enumerate();
        let mut free: BinaryHeap<Reverse<(i64, usize)>> =
            free.map(|(i, &came)| Reverse((came, i))).collect();
        for (from, to) in pieces {
            if let Some(Reverse((now, thread))) = free.pop() {
                let takes = self.take_ns + self.before(to) - self.before(from);
                free.push(Reverse((now.saturating_add(takes.round() as i64), thread)));
            }
        }
        let last = free.into_iter().map(|Reverse((at, _))| at).max();
        last.unwrap_or(0).saturating_add(self.take_ns as i64)
    }

    /// Number of iterations.
    pub fn iterations(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn n_threads(&self) -> u64 {
        self.came_ns.len() as u64
    }

    /// Whether the chunks are fine enough to tell what the schedule does.
    pub fn can_tell(&self, schedule: Schedule) -> bool {
        let (coarsest, share) = (self.coarsest, self.iterations() / self.n_threads());
        match schedule {
            Schedule::Static => share >= FINE.saturating_mul(coarsest),
            Schedule::Dynamic(n) => n >= coarsest,
            Schedule::Guided(n) => n >= coarsest && share >= FINE.saturating_mul(coarsest),
        }
    }

    /// Busy time of the iterations before this one.
    fn before(&self, iteration: u64) -> f64 {
        let at = self.ends.partition_point(|&end| end <= iteration);
        let (sum, end) = match at.checked_sub(1) {
            Some(last) => (self.sums[last], self.ends[last]),
            None => (0.0, 0),
        };
        let Some((&next, &until)) = self.sums.get(at).zip(self.ends.get(at)) else {
            return sum;
        };
        let share = (iteration - end) as f64 / (until - end).max(1) as f64;
        sum + (next - sum) * share
    }

    /// The time until its last thread is done, ns.
    pub fn under(&self, schedule: Schedule) -> i64 {
        let (n, threads) = (self.iterations(), self.n_threads());
        match schedule {
            Schedule::Static => {
                let ends = self.came_ns.iter().zip(0u64..).map(|(&came, i)| {
                    let from =
                        |i: u64| (u128::from(n) * u128::from(i) / u128::from(threads)) as u64;
                    came as f64 + self.before(from(i + 1)) - self.before(from(i))
                });
                ends.fold(0.0, f64::max) as i64
            }
            Schedule::Dynamic(piece) => self.taken(cut(n, |_| piece)),
            Schedule::Guided(least) => self.taken(cut(n, |left| left.div_ceil(threads).max(least))),
        }
    }
}

/// Iterations 0..n in pieces; `next` gives the length of the next one, of what is left.
fn cut(n: u64, next: impl Fn(u64) -> u64) -> impl Iterator<Item = (u64, u64)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let left = n - from;
        let piece = (from, from + next(left).clamp(1, left.max(1)).min(left));
        from = piece.1;
        (left > 0).then_some(piece)
    })
}

/// Whether a thread's chunks, in order of time, go up in the loop's variable (above 0) or down.
fn rises(chunks: &[Chunk]) -> i64 {
    let pairs = chunks.windows(2);
    pairs.map(|p| p[1].first.cmp(&p[0].first) as i64).sum()
}

/// The schedules worth trying on these executions, which all of them can tell.
pub(super) fn candidates(executions: &[Execution]) -> Vec<Schedule> {
    let (Some(coarsest), Some(most)) = (
        executions.iter().map(|e| e.coarsest).max(),
        (executions.iter().map(|e| e.iterations() / e.n_threads() / PIECES_EACH)).max(),
    ) else {
        return Vec::new();
    };
    let mut out = vec![Schedule::Static, Schedule::Guided(coarsest)];
    let pieces = std::iter::successors(Some(coarsest), |n| n.checked_mul(2));
    out.extend(pieces.take_while(|&n| n <= most.max(1)).map(Schedule::Dynamic));
    out.retain(|&schedule| executions.iter().all(|e| e.can_tell(schedule)));
    out
}
