//! Call paths in the page: the frames, the tree of paths, and each thread's samples with the time that they stand for.
//!
//! | table | columns |
//! |---|---|
//! | frames | function + 1, module + 1, file + 1 (rows of the index's strings; 0 not known), line, address, kind |
//! | paths | rows back to the path of the caller (0: outermost), frame |
//! | unsampled time | cells since the one before, ns on a CPU, ns blocked |
//! | samples of one thread | ns since the sample before it, moment \| 16 when complete, path + 1, weight in ns, ns from the begin of its stretch, stretch - weight |
//! | pieces of one CPU | ns since the end of the one before, length, class, code: 0 there was none, 1 unsampled, 2 + 2 x path + 1 when complete |
//!
//! A sample stands for `weight` ns. The viewer counts a sample of a running thread where it was taken; that of a wait is
//! spread evenly over the wait (its *stretch*), which may be longer than what is in view. The last column is a zigzag
//! number: 0, and so nearly free, wherever a wait has one sample with its exact duration. Time that no sample stands for is kept by
//! *cell*: a thread and one of equal parts of the time axis; cells without such time are left out.
use super::columns::{Raw, UNIT_ITEMS, column};
use super::plan::Plan;
use kasuri_analyze::call_paths::{Cover, Piece, Whereabouts};
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};
use std::collections::BTreeMap;

/// Set beside the moment when a path reaches the thread's outermost frame.
const COMPLETE: u64 = 16;

/// Cells of unsampled time: at most so many in all, and of one thread.
const CELLS: usize = 65_536;
const CELLS_OF_THREAD: usize = 512;

/// Time of a thread, in a part of the time axis, that no sample stands for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hole {
    /// Thread's row x cells of a thread + part of the axis.
    cell: u64,
    on_cpu_ns: u64,
    blocked_ns: u64,
}

/// The time that each sample stands for.
#[derive(Debug, Default)]
pub struct Spread {
    /// ns, by row of `trace.samples`.
    weight: Vec<u64>,
    /// The stretch over which it is spread; empty at the sample's time while a thread runs.
    stretch: Vec<(Time, Time)>,
    /// In order of their cells.
    pub holes: Vec<Hole>,
    /// Cells that a thread's time is cut into.
    pub cells: usize,
}

impl Spread {
    /// Weighs the samples of `trace` and finds the waits that they were taken in. `cover`: what is known of it.
    pub fn of(trace: &Trace, plan: &Plan, cover: Option<&Cover>) -> Spread {
        let samples = &trace.samples;
        if samples.time.is_empty() {
            return Spread::default();
        }
        let stretch = |row: usize| {
            let time = samples.time[row];
            let wait =
                samples.kind[row].is_wait().then(|| wait_at(trace, samples.thread[row], time));
            wait.flatten().unwrap_or((time, time))
        };
        let session = kasuri_analyze::Session::new(trace, &kasuri_analyze::Options::default());
        let cover = cover.unwrap_or_else(|| session.cover());
        let weights = cover.weights(trace, trace.span.clone());
        let ns = |weight: &kasuri_model::Duration| weight.ns().max(0) as u64;
        let cells = (CELLS / trace.threads.len().max(1)).clamp(16, CELLS_OF_THREAD);
        Spread {
            weight: weights.sample.iter().map(ns).collect(),
            stretch: (0..samples.time.len()).map(stretch).collect(),
            holes: holes(trace, plan, cover, cells as u64),
            cells,
        }
    }
}

/// The unsampled time of the recorded program's threads, and of others with samples.
fn holes(trace: &Trace, plan: &Plan, cover: &Cover, cells: u64) -> Vec<Hole> {
    let mut found: BTreeMap<u64, Hole> = BTreeMap::new();
    let width = plan.length.div_ceil(cells).max(1);
    for thread in (0..trace.threads.len() as u32).map(ThreadIx) {
        if !trace.is_target(thread) && trace.samples_of(thread).is_empty() {
            continue;
        }
        let mut begun = 0;
        for state in trace.states_of(thread) {
            let is_blocked = state.state.is_blocked();
            if !is_blocked && state.state != ThreadState::Running {
                continue;
            }
            let mut at = state.start;
            for (owner, length) in cover.between_from(&mut begun, thread, state.start, state.end) {
                let (from, to) = (plan.at(at), plan.at(at + length));
                at = at + length;
                if owner.sample().is_some() {
                    continue;
                }
                for part in from / width..=to.saturating_sub(1) / width {
                    let inside = to.min((part + 1) * width) - from.max(part * width).min(to);
                    let cell = thread.ix() as u64 * cells + part.min(cells - 1);
                    let hole = found.entry(cell).or_default();
                    hole.cell = cell;
                    match is_blocked {
                        true => hole.blocked_ns += inside,
                        false => hole.on_cpu_ns += inside,
                    }
                }
            }
        }
    }
    found.into_values().collect()
}

/// Holes `from..to`.
pub fn unsampled(spread: &Spread, from: usize, to: usize, raw: &mut Raw) {
    let holes = &spread.holes;
    let gap = |row: usize| match row {
        row if row == from => holes[row].cell,
        row => holes[row].cell - holes[row - 1].cell,
    };
    column(raw, (from..to).map(gap));
    column(raw, holes[from..to].iter().map(|hole| hole.on_cpu_ns));
    column(raw, holes[from..to].iter().map(|hole| hole.blocked_ns));
}

/// The wait that a thread is in at `time`. A sample of the switch itself, or of the call that leads to it, is taken a moment before
/// the wait begins.
fn wait_at(trace: &Trace, thread: ThreadIx, time: Time) -> Option<(Time, Time)> {
    let thread = trace.threads.get(thread.ix())?;
    let states = thread.states.start as usize..thread.states.end as usize;
    let starts = &trace.states.start[states.clone()];
    let at = states.start + starts.partition_point(|&start| start <= time);
    let waits = |row: usize| trace.states.state[row].is_blocked();
    let here = at.checked_sub(1).filter(|&row| row >= states.start);
    let row =
        here.filter(|&row| waits(row)).or(Some(at).filter(|&row| row < states.end && waits(row)))?;
    let end = match row + 1 < states.end {
        true => trace.states.start[row + 1],
        false => thread.alive.end,
    };
    Some((trace.states.start[row], end))
}

/// The rows that a unit each holds, of a table in which those with the same owner stand together; `owner` of row i, `n` rows.
pub fn units<K: PartialEq>(n: usize, owner: impl Fn(usize) -> K) -> Vec<(usize, usize)> {
    let mut units = Vec::new();
    let mut from = 0;
    for row in 1..=n {
        if row == n || row - from == UNIT_ITEMS || owner(row) != owner(from) {
            units.push((from, row));
            from = row;
        }
    }
    units
}

/// Pieces `from..to`, all of one CPU.
pub fn pieces(plan: &Plan, pieces: &[Piece], from: usize, to: usize, raw: &mut Raw) {
    let of = &pieces[from..to];
    let before = |row: usize| match row {
        0 => plan.at(of[0].from),
        _ => plan.at(of[row - 1].to),
    };
    let code = |piece: &Piece| match piece.at {
        Whereabouts::WithoutCode => 0,
        Whereabouts::Unsampled => 1,
        Whereabouts::At(path) => 2 + 2 * u64::from(path.0) + u64::from(piece.is_complete),
    };
    column(raw, (0..of.len()).map(|row| plan.at(of[row].from) - before(row)));
    column(raw, of.iter().map(|piece| plan.at(piece.to) - plan.at(piece.from)));
    column(raw, of.iter().map(|piece| piece.class as u64));
    column(raw, of.iter().map(code));
}

/// A row stored + 1; 0 is none.
fn stored(row: u32) -> u64 {
    u64::from(row.wrapping_add(1))
}

/// Frames `from..to`.
pub fn frames(trace: &Trace, from: usize, to: usize, raw: &mut Raw) {
    let frames = &trace.frames;
    column(raw, frames.function[from..to].iter().map(|s| stored(s.0)));
    column(raw, frames.module[from..to].iter().map(|s| stored(s.0)));
    column(raw, frames.file[from..to].iter().map(|s| stored(s.0)));
    column(raw, frames.line[from..to].iter().map(|&line| line.into()));
    column(raw, frames.address[from..to].iter().copied());
    column(raw, frames.kind[from..to].iter().map(|&kind| kind as u64));
}

/// Paths `from..to`.
pub fn paths(trace: &Trace, from: usize, to: usize, raw: &mut Raw) {
    let paths = &trace.paths;
    let back = |row: usize| match paths.caller[row] {
        caller if caller.is_some() => (row - caller.ix()) as u64,
        _ => 0,
    };
    column(raw, (from..to).map(back));
    column(raw, paths.frame[from..to].iter().map(|f| f.0.into()));
}

/// Samples `from..to`, all of one thread.
pub fn samples(trace: &Trace, plan: &Plan, spread: &Spread, from: usize, to: usize, raw: &mut Raw) {
    let samples = &trace.samples;
    let at = |row: usize| plan.at(samples.time[row]);
    let gap = |row: usize| at(row) - at(row.max(from + 1) - 1);
    let moment =
        |row: usize| samples.kind[row] as u64 | if samples.is_complete[row] { COMPLETE } else { 0 };
    let stretch = |row: usize| {
        let (begin, end) = spread.stretch[row];
        (plan.at(begin), plan.at(end))
    };
    let begin = |row: usize| zigzag(at(row) as i64 - stretch(row).0 as i64);
    // A sample without weight, such as the second one of a wait, needs no stretch.
    let rest = |row: usize| match (stretch(row), spread.weight[row]) {
        ((begin, end), weight) if begin == end || weight == 0 => 0,
        ((begin, end), weight) => zigzag((end - begin) as i64 - weight as i64),
    };
    column(raw, (from..to).map(gap));
    column(raw, (from..to).map(moment));
    column(raw, samples.path[from..to].iter().map(|p| stored(p.0)));
    column(raw, spread.weight[from..to].iter().copied());
    column(raw, (from..to).map(begin));
    column(raw, (from..to).map(rest));
}

/// Small numbers of either sign as small numbers: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}
