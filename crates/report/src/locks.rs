//! Rows of locks: the holders of each lock, and the threads that wait for it.
//!
//! A lock's holds and waits are spread over the rows of all its threads; here they are gathered by object. Holds that
//! overlap (readers, or two objects that shared an address) and waiters at the same time are put into *sequences*: the
//! first that is free takes the next one. A hold or wait that finds no free sequence is counted, not drawn.
use super::plan::{Kind, Line, Lock, Rows};
use kasuri_base::quick::Numbers;
use kasuri_model::{ProcessIx, SliceKind, StrIx, Time, Trace};
use std::collections::HashMap;

/// Locks that get rows: those that were waited for longest, then those held longest. A chart with a row for each of a
/// million locks would show nothing.
pub const MAX_LOCKS: usize = 48;
/// Most sequences of one lock's holds, and of its waits.
const HOLD_LANES: usize = 3;
const WAIT_LANES: usize = 6;

/// The locks of `trace`, their lines appended to `lines`; and how many locks have no row.
pub fn plan(trace: &Trace, lines: &mut Vec<Line>) -> (Vec<Lock>, usize) {
    let slices = &trace.slices;
    let mut objects: Numbers<(u64, ProcessIx)> = Numbers::default();
    let mut rows_of: Vec<[Vec<u32>; 2]> = Vec::new();
    for (row, kind) in slices.kind.iter().enumerate() {
        let which = match kind {
            SliceKind::LockHold => 0,
            SliceKind::LockWait => 1,
            _ => continue,
        };
        let process = trace.threads.get(slices.thread[row].ix());
        if let (true, Some(thread)) = (slices.object[row] != 0, process) {
            let object = objects.number((slices.object[row], thread.process)) as usize;
            if object == rows_of.len() {
                rows_of.push([Vec::new(), Vec::new()]);
            }
            rows_of[object][which].push(row as u32);
        }
    }
    let time = |rows: &[u32]| -> u64 {
        let ns = |&row: &u32| slices.end[row as usize].0 - slices.start[row as usize].0;
        rows.iter().map(|row| ns(row).max(0) as u64).sum()
    };
    type Found = (u64, u64, (u64, ProcessIx), [Vec<u32>; 2]);
    let mut found: Vec<Found> = (objects.keys().iter().zip(rows_of))
        .map(|(&object, rows)| (time(&rows[1]), time(&rows[0]), object, rows))
        .collect();
    found.sort_by_key(|&(wait, hold, object, _)| (std::cmp::Reverse((wait, hold)), object));
    let without = found.len().saturating_sub(MAX_LOCKS);
    let mut locks = Vec::new();
    for (wait_ns, hold_ns, (object, process), mut rows) in found.into_iter().take(MAX_LOCKS) {
        rows.iter_mut().for_each(|rows| rows.sort_by_key(|&row| slices.start[row as usize]));
        let (holds, over) = without_overlaps(trace, &rows[0], HOLD_LANES);
        let (waits, over_waits) = without_overlaps(trace, &rows[1], WAIT_LANES);
        let lock = Lock {
            object,
            process,
            name: usual_name(trace, &rows),
            hold_lanes: holds.len() as u32,
            holds: rows[0].len() as u64,
            waits: rows[1].len() as u64,
            hold_ns,
            wait_ns,
            unshown: over + over_waits,
        };
        for (depth, rows) in holds.into_iter().chain(waits).enumerate() {
            lines.push(Line {
                kind: Kind::Lock,
                owner: locks.len() as u32,
                depth: depth as u32,
                rows: Rows::List(rows),
            });
        }
        locks.push(lock);
    }
    (locks, without)
}

/// Replaces the numbers of those locks that the analysis knows. The slices alone have less: where a task was suspended
/// while it waited or held, its thread's slice ends, and goes on in another one.
pub fn fill_from_analysis(trace: &Trace, answer: &kasuri_analyze::Locks, locks: &mut [Lock]) {
    let known: HashMap<(i32, u64), &kasuri_analyze::LockRow> =
        answer.locks.iter().map(|row| ((row.pid, row.object), row)).collect();
    for lock in locks {
        let process = trace.processes.get(lock.process.ix());
        let Some(row) = process.and_then(|p| known.get(&(p.pid, lock.object))) else {
            continue;
        };
        lock.holds = row.used.holds;
        lock.hold_ns = row.used.hold_wall_ns.max(0) as u64;
        lock.waits = row.used.contended;
        lock.wait_ns = row.used.wait_ns.max(0) as u64;
    }
}

/// `rows`, sorted by start, in at most `most` sequences without overlaps; and how many are in none.
fn without_overlaps(trace: &Trace, rows: &[u32], most: usize) -> (Vec<Vec<u32>>, u64) {
    let mut sequences: Vec<(Time, Vec<u32>)> = Vec::new();
    let mut over = 0;
    for &row in rows {
        let (start, end) = (trace.slices.start[row as usize], trace.slices.end[row as usize]);
        if let Some(sequence) = sequences.iter_mut().find(|sequence| sequence.0 <= start) {
            sequence.0 = end;
            sequence.1.push(row);
        } else if sequences.len() < most {
            sequences.push((end, vec![row]));
        } else {
            over += 1;
        }
    }
    (sequences.into_iter().map(|(_, rows)| rows).collect(), over)
}

/// The name that most of a lock's slices have; of equally frequent ones the first in the recording's strings.
fn usual_name(trace: &Trace, rows: &[Vec<u32>; 2]) -> StrIx {
    let mut count: HashMap<StrIx, usize> = HashMap::new();
    let name = |row: u32| trace.slices.name[row as usize];
    // Nearly all have one name.
    let runs = rows.iter().flat_map(|rows| rows.chunk_by(|&a, &b| name(a) == name(b)));
    runs.for_each(|run| *count.entry(name(run[0])).or_default() += run.len());
    let best = count.into_iter().max_by_key(|&(name, n)| (n, std::cmp::Reverse(name)));
    best.map_or(StrIx::NONE, |(name, _)| name)
}
