//! Waits at barriers whose end the thread did not write.
//!
//! A worker of an OpenMP team waits at the end of its last region, and has no code of the probe to come to afterwards
//! (probes/openmp/thread.c). A barrier lets all its threads go at once, so such a wait ended when the first other thread
//! that waited at the same barrier went on. That may be a thread that is late in leaving the barrier's round before: then
//! the wait is told too short, by as much as that thread was late.
use crate::{ProcessIx, SliceKind, Thread, ThreadIx, Time, open};
use std::collections::HashMap;

/// Ends of the waits at one barrier, with their threads.
type Ends = Vec<(Time, ThreadIx)>;

/// Ends the waits at barriers that are open at their thread's end, where another thread's wait tells when.
pub(super) fn end_unseen(threads: &[Thread], s: &mut crate::Slices) {
    let is_barrier = |s: &crate::Slices, row: usize| s.kind[row] == SliceKind::Barrier;
    let is_open = |s: &crate::Slices, row: usize| s.open[row] & open::END_UNSEEN != 0;
    let rows: Vec<usize> =
        (0..s.start.len()).filter(|&row| is_open(s, row) && is_barrier(s, row)).collect();
    if rows.is_empty() {
        return;
    }
    let key = |s: &crate::Slices, row: usize| -> (ProcessIx, u64) {
        (threads[s.thread[row].ix()].process, s.object[row])
    };
    let mut ends: HashMap<(ProcessIx, u64), Ends> =
        rows.iter().map(|&row| (key(s, row), Vec::new())).collect();
    for row in (0..s.start.len()).filter(|&row| is_barrier(s, row) && !is_open(s, row)) {
        if let Some(ends) = ends.get_mut(&key(s, row)) {
            ends.push((s.end[row], s.thread[row]));
        }
    }
    ends.values_mut().for_each(|ends| ends.sort_unstable());
    for row in rows {
        let (start, thread) = (s.start[row], s.thread[row]);
        let ends = &ends[&key(s, row)];
        let later = &ends[ends.partition_point(|(end, _)| *end <= start)..];
        let Some(&(end, _)) = later.iter().find(|(_, other)| *other != thread) else {
            continue;
        };
        // What the thread did inside of the wait lies in it.
        let inside = (row + 1..s.start.len()).take_while(|&at| s.thread[at] == thread);
        let last = inside.map(|at| s.end[at]).max().unwrap_or(end);
        s.end[row] = s.end[row].min(end.max(last));
    }
}
