//! OpenMP's parallel regions for the task graph: which threads' parts belong together, and what their threads wait for.
//!
//! A thread's part of a region is an *implicit task*. It is no row of the trace's tasks, but has strands as they have: it
//! begins after the strand in which its region's master came to the region, and the master goes on after all parts have
//! ended, and all tasks created in them. Waits of implicit tasks:
//!
//! | wait | the thread goes on after |
//! |---|---|
//! | barrier of the team | the parts of all threads up to it, and all tasks of the region |
//! | `taskwait`, `taskgroup`, `taskloop` | the tasks that it has created, and for `taskgroup` their descendants, that had ended by then |
//!
//! The beginning of a `taskgroup` is not recorded, nor what a `taskwait` with `depend` waits for: what had ended is more than
//! what was waited for where others happened to end. Which waits at a barrier belong together is told by time:
//! none goes on before the last has come.
//!
//! What a region's master does between its first region and its last is the *initial task*, a part of no region.
use kasuri_model::{ProcessIx, SliceKind, StrIx, ThreadIx, Time, Trace, open};

/// Code outside of tasks that the graph has: a thread's part of a region, or what it does between regions.
#[derive(Clone, Copy, Debug)]
pub struct Implicit {
    /// The region's; none: between regions.
    pub name: StrIx,
    /// The thread that runs it.
    pub thread: ThreadIx,
    /// From when.
    pub start: Time,
    /// Until when: the end of the region's last barrier.
    pub end: Time,
}

/// A thread's part of a region. `row`: its slice.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub thread: ThreadIx,
    pub row: u32,
    pub start: Time,
}

/// One execution of a region.
pub(super) struct Team {
    pub name: StrIx,
    /// The master's comes first.
    pub parts: Vec<Part>,
    /// The number of the first of these, of all.
    pub first_part: usize,
    pub start: Time,
    pub end: Time,
    /// What its threads wait at.
    pub barrier: u64,
}

/// A part with what tells to which execution it belongs.
struct Found {
    key: (ProcessIx, u64, Time),
    is_worker: bool,
    name: StrIx,
    part: Part,
}

/// All executions whose master was seen, in the order of their beginnings.
pub(super) fn teams(trace: &Trace) -> Vec<Team> {
    let is_end: Vec<bool> =
        (trace.strings.iter()).map(|name| name.starts_with("barrier of parallel ")).collect();
    let mut found = Vec::new();
    if is_end.contains(&true) {
        for thread in 0..trace.threads.len() {
            parts(trace, ThreadIx(thread as u32), &is_end, &mut found);
        }
    }
    found.sort_by_key(|f| (f.key, f.is_worker, f.part.start));
    let same = found.chunk_by(|a, b| a.key == b.key);
    // A team whose master was not seen is a worker whose region's end was forgotten.
    let whole = same.filter(|team| !team[0].is_worker);
    let mut teams: Vec<Team> = whole
        .map(|team| Team {
            name: team[0].name,
            first_part: 0,
            start: team.iter().map(|f| f.part.start).min().unwrap_or(Time::MIN),
            end: team[0].key.2,
            barrier: team[0].key.1 ^ 1,
            parts: team.iter().map(|f| f.part).collect(),
        })
        .collect();
    // Of those that begin at once the longest is the outermost.
    teams.sort_by_key(|team| (team.start, std::cmp::Reverse(team.end)));
    let mut n_parts = 0;
    for team in &mut teams {
        team.first_part = n_parts;
        n_parts += team.parts.len();
    }
    teams
}

/// One thread's: slices `parallel P`, at whose end the wait `barrier of parallel P` begins.
fn parts(trace: &Trace, thread: ThreadIx, is_end: &[bool], found: &mut Vec<Found>) {
    let (s, info) = (&trace.slices, &trace.threads[thread.ix()]);
    let rows = info.slices.start as usize..info.slices.end as usize;
    let is_end = |row: usize| {
        s.kind[row] == SliceKind::Barrier && is_end.get(s.name[row].ix()) == Some(&true)
    };
    if !rows.clone().any(is_end) {
        return;
    }
    let name = |row: usize| trace.strings.get(s.name[row]);
    let mut around: Vec<usize> = Vec::new();
    for row in rows {
        around.retain(|&region| s.end[region] >= s.start[row]);
        if is_end(row) {
            let region = name(row).strip_prefix("barrier of ");
            let is_its = |r: &usize| s.end[*r] == s.start[row] && Some(name(*r)) == region;
            let Some(region) = around.pop_if(|r| is_its(r)) else {
                continue;
            };
            if s.start[region] >= s.end[row] {
                continue;
            }
            found.push(Found {
                key: (info.process, s.object[row], s.end[row]),
                is_worker: s.open[row] & open::END_UNSEEN != 0,
                name: s.name[region],
                part: Part { thread, row: region as u32, start: s.start[region] },
            });
        } else if s.kind[row] == SliceKind::Work {
            if name(row).starts_with("parallel ") {
                around.push(row);
            } else if crate::account::is_dock_name(name(row))
                && let Some(last) = found.last_mut()
                && last.part.thread == thread
                && last.key.2 == s.start[row]
            {
                last.is_worker = true;
            }
        }
    }
}
