//! What each thread of the program does when the recording ends: where it waits, since when, and for whom.
//!
//! Goal: of a program that hangs, which thread waits for which, and who ends that. Method: the recorder looked at each thread
//! ([`kasuri_model::ThreadEnd`]); where it waits is its last block's sample, as everywhere. Threads that wait for each other's locks or ends
//! are a circle: nobody will end it.
//!
//! Who has a lock is believed only where the call path says that the thread waits for such a thing, or the kernel itself keeps the owner:
//! a number in memory may be a thread's by accident.
//!
//! Rejected: who woke a thread before, as a guess at who will. A program that hangs does what it has not done before.
use crate::call_paths::{Call, Cover, Frames, PathFrame, path_frame};
use crate::languages;
use kasuri_base::quick::QuickMap;
use kasuri_model::{PathIx, ThreadEnd, ThreadIx, ThreadState, Trace};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Schema of [`AtEnd`].
pub const AT_END_SCHEMA: &str = "kasuri.where/1";

/// What the threads of the program do when the recording ends.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct AtEnd {
    /// `kasuri.where/1`.
    pub schema: String,
    /// Length of the recording.
    pub wall_ns: i64,
    /// Whether call paths were recorded.
    pub has_paths: bool,
    /// Threads that wait for each other, by their ids, each for the next and the last for the first.
    pub circles: Vec<Vec<i32>>,
    /// Processes of which every thread waits for what one of its threads must do (a lock, a condition, the end of a thread), and none runs: only a time limit, a signal or another process can end that.
    pub stuck: Vec<i32>,
    /// What is not known of programs in these languages, and what tells it.
    pub missing: Vec<String>,
    /// Each thread, those that others wait for first, then by the length of the wait; last those that have nothing to do.
    pub threads: Vec<ThreadAtEnd>,
}

/// What a thread does.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThreadAtEnd {
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// Name of the thread.
    pub name: String,
    /// `waits`, `waits_uninterruptibly` (for a disk, or within the kernel), `stopped`, `runs` (or is ready to), `unknown`.
    pub state: &'static str,
    /// Since it last had a CPU, which may be longer than the recording; none: it runs, or it is not known.
    pub since_ns: Option<i64>,
    /// CPU time in the recording.
    pub on_cpu_ns: i64,
    /// How often it got a CPU in the recording.
    pub runs: u64,
    /// Where it waits; of one that runs where it spent most time. Innermost function first; empty: no sample.
    pub path: Vec<PathFrame>,
    /// Of one that runs: that place's share of its CPU time, where samples tell.
    pub path_share: Option<f64>,
    /// What it waits for: `mutex`, `rwlock`, `thread` (its end), `child`, `file lock`, `pipe`, `socket`; empty: its system call does not say.
    pub on: String,
    /// A file that it waits at, with its path; else empty.
    pub file: String,
    /// Who has it, or its other end; empty: nobody is known.
    pub by: Vec<HeldBy>,
    /// Threads that wait for it, directly or for one that does.
    pub waiters: usize,
    /// It is a language's runtime's own, and waits for something to do.
    pub is_idle: bool,
}

/// A thread or process that has what another waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldBy {
    /// Process.
    pub pid: i32,
    /// Thread; of a process its own number.
    pub tid: i32,
    /// Name.
    pub name: String,
}

/// What the threads do; none: the recorder did not look.
pub(crate) fn at_end(trace: &Trace, cover: &Cover) -> Option<AtEnd> {
    if trace.ends.is_empty() {
        return None;
    }
    let mut frames = Frames::new(trace);
    let ends = trace.ends.iter();
    let (mut threads, mut waits_for_own, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for end in ends {
        let (thread, path, is_own) = thread_at_end(trace, cover, &mut frames, end);
        threads.push(thread);
        waits_for_own.push(is_own);
        paths.extend(path);
    }
    let stuck = stuck(&threads, &waits_for_own);
    let nexts = nexts(&threads);
    let circles = circles(&nexts);
    let waiters = waiters(&nexts, &circles);
    let tid = |&at: &usize| threads[at].tid;
    let circles = circles.iter().map(|circle| circle.iter().map(tid).collect());
    let circles = circles.collect();
    for (thread, n) in threads.iter_mut().zip(waiters) {
        thread.waiters = n;
    }
    threads.sort_by_key(|t| {
        let since = t.since_ns.unwrap_or(0);
        (t.is_idle, std::cmp::Reverse((t.waiters, since)), t.pid, t.tid)
    });
    Some(AtEnd {
        schema: AT_END_SCHEMA.to_owned(),
        wall_ns: (trace.span.end - trace.span.start).ns(),
        has_paths: !trace.samples.time.is_empty(),
        circles,
        stuck,
        missing: languages::missing_of_waits(trace, &paths),
        threads,
    })
}

/// Processes all of whose threads wait for threads of it; a runtime's own alone do not hang.
fn stuck(threads: &[ThreadAtEnd], waits_for_own: &[bool]) -> Vec<i32> {
    // Whether all wait so, and whether one is the program's.
    let mut by_process: BTreeMap<i32, (bool, bool)> = BTreeMap::new();
    for (thread, &is_own) in threads.iter().zip(waits_for_own) {
        let (all, any) = by_process.entry(thread.pid).or_insert((true, false));
        *all &= is_own && thread.state == "waits";
        *any |= !thread.is_idle;
    }
    let all = by_process.into_iter();
    all.filter_map(|(pid, is_it)| (is_it == (true, true)).then_some(pid)).collect()
}

/// And where, and whether it waits for what a thread of its process must do, as far as that tells.
fn thread_at_end(
    trace: &Trace,
    cover: &Cover,
    frames: &mut Frames<'_>,
    end: &ThreadEnd,
) -> (ThreadAtEnd, Option<PathIx>, bool) {
    let thread = &trace.threads[end.thread.ix()];
    let last = trace.states_of(end.thread).last();
    // Between the last event and the recorder's look it may have gone on: then the look counts, and no block of before is shown.
    let blocked = last.filter(|row| row.state.is_blocked() && end.state.is_blocked());
    let since = match &blocked {
        Some(row) if row.start > trace.span.start => Some(row.start),
        _ => end.since.filter(|_| end.state.is_blocked()),
    };
    let (path, path_share) = match blocked {
        Some(row) => {
            let mut owners = cover.between(end.thread, row.start, row.end);
            let sample = owners.find_map(|(owner, _)| owner.sample());
            (sample.map(|row| trace.samples.path[row]), None)
        }
        None if end.state.is_blocked() => (None, None),
        None => most_run(trace, cover, frames, end.thread),
    };
    let path = path.filter(|path| path.is_some());
    let on_cpu = trace.states_of(end.thread).filter(|row| row.state == ThreadState::Running);
    let (mut on_cpu_ns, mut runs) = (0, 0);
    for row in on_cpu {
        on_cpu_ns += (row.end - row.start).ns();
        runs += 1;
    }
    let mut out = ThreadAtEnd {
        pid: trace.process_of(end.thread).pid,
        tid: thread.tid,
        name: trace.strings.get(thread.name).to_owned(),
        state: match end.state {
            ThreadState::Sleeping => "waits",
            ThreadState::DiskSleep => "waits_uninterruptibly",
            ThreadState::Stopped => "stopped",
            ThreadState::Running => "runs",
            _ => "unknown",
        },
        since_ns: since.map(|since| (trace.span.end - since).ns()),
        on_cpu_ns,
        runs,
        path_share,
        ..ThreadAtEnd::default()
    };
    if let Some(path) = path {
        let shown = frames.shown(path).to_vec();
        out.path = shown.into_iter().map(|f| path_frame(trace, f)).collect();
    }
    if end.state.is_blocked() {
        out.is_idle = path.is_some_and(|path| frames.is_idle(path));
        out.file = path.map_or(String::new(), |path| frames.file(path).to_owned());
        if is_believed(frames, path, &end.on) {
            out.on.clone_from(&end.on);
            out.by = (end.by.iter())
                .map(|peer| HeldBy { pid: peer.pid, tid: peer.tid, name: peer.name.clone() })
                .collect();
        }
    }
    let is_own = path.is_some_and(|path| frames.waits_for_threads(path))
        && ["", "mutex", "rwlock", "thread"].contains(&out.on.as_str());
    (out, path, is_own)
}

/// Whether the call path agrees that the thread waits for such a thing. System calls that name it need no path.
fn is_believed(frames: &Frames<'_>, path: Option<PathIx>, on: &str) -> bool {
    let call = path.map(|path| frames.call(path));
    match on {
        "mutex" | "rwlock" => call == Some(Call::Lock),
        "thread" => call == Some(Call::Join),
        _ => true,
    }
}

/// Where a thread spent most of its CPU time, and the share of it.
fn most_run(
    trace: &Trace,
    cover: &Cover,
    frames: &mut Frames<'_>,
    thread: ThreadIx,
) -> (Option<PathIx>, Option<f64>) {
    // By what is shown of a path: its time, and the path with the most of it.
    let mut times: QuickMap<u32, (i64, PathIx)> = QuickMap::default();
    let mut all = 0;
    for row in trace.states_of(thread).filter(|row| row.state == ThreadState::Running) {
        for (owner, length) in cover.between(thread, row.start, row.end) {
            let path = owner.sample().map(|row| trace.samples.path[row]);
            if let Some(path) = path.filter(|path| path.is_some()) {
                all += length.ns();
                times.entry(frames.use_shown(path)).or_insert((0, path)).0 += length.ns();
            }
        }
    }
    let most = times.values().max_by_key(|(ns, path)| (*ns, path.0));
    match most {
        Some(&(ns, path)) if all > 0 => (Some(path), Some(ns as f64 / all as f64)),
        _ => (None, None),
    }
}

/// By thread, the one that it waits for, which must be one of them: the holder of its lock, or the one that it joins.
fn nexts(threads: &[ThreadAtEnd]) -> Vec<Option<usize>> {
    let numbered = threads.iter().enumerate();
    let places: HashMap<(i32, i32), usize> = numbered.map(|(at, t)| ((t.pid, t.tid), at)).collect();
    let next = |of: &ThreadAtEnd| {
        let [by] = &of.by[..] else {
            return None;
        };
        let is_thread = ["mutex", "rwlock", "thread"].contains(&of.on.as_str());
        places.get(&(by.pid, by.tid)).copied().filter(|_| is_thread)
    };
    threads.iter().map(next).collect()
}

/// Threads that wait for each other.
fn circles(nexts: &[Option<usize>]) -> Vec<Vec<usize>> {
    let mut circles = Vec::new();
    // By thread: the walk that came here first, and how far it was.
    let mut seen = vec![(usize::MAX, 0); nexts.len()];
    for start in 0..nexts.len() {
        let mut way: Vec<usize> = Vec::new();
        let mut at = Some(start);
        while let Some(here) = at {
            match seen[here] {
                (walk, from) if walk == start => circles.push(way[from..].to_vec()),
                (usize::MAX, _) => {
                    seen[here] = (start, way.len());
                    way.push(here);
                    at = nexts[here];
                    continue;
                }
                _ => {}
            }
            break;
        }
    }
    circles
}

/// By thread, how many wait for it, also by way of others; none for itself. In one pass, from those for which nobody waits on.
fn waiters(nexts: &[Option<usize>], circles: &[Vec<usize>]) -> Vec<usize> {
    let mut waiters = vec![0; nexts.len()];
    let mut is_in_circle = vec![false; nexts.len()];
    circles.iter().flatten().for_each(|&at| is_in_circle[at] = true);
    let mut left = vec![0; nexts.len()];
    nexts.iter().flatten().for_each(|&at| left[at] += 1);
    let mut done: Vec<usize> = (0..nexts.len()).filter(|&at| left[at] == 0).collect();
    while let Some(at) = done.pop() {
        let Some(next) = nexts[at] else { continue };
        waiters[next] += waiters[at] + 1;
        left[next] -= 1;
        if left[next] == 0 && !is_in_circle[next] {
            done.push(next);
        }
    }
    for circle in circles {
        let before: usize = circle.iter().map(|&at| waiters[at]).sum();
        circle.iter().for_each(|&at| waiters[at] = before + circle.len() - 1);
    }
    waiters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(tid: i32, by: Option<i32>) -> ThreadAtEnd {
        let by = by.map(|tid| HeldBy { pid: 1, tid, name: String::new() });
        ThreadAtEnd {
            pid: 1,
            tid,
            on: "mutex".to_owned(),
            by: by.into_iter().collect(),
            ..ThreadAtEnd::default()
        }
    }

    #[test]
    fn circles_are_found_once_and_those_before_them_are_none() {
        let to = [
            (1, Some(2)),
            (2, Some(3)),
            (3, Some(2)),
            (4, None),
            (5, Some(4)),
            (6, Some(6)),
            (7, Some(99)),
        ];
        let threads = to.map(|(tid, by)| waits(tid, by));
        let nexts = nexts(&threads);
        let circles = circles(&nexts);
        assert_eq!(circles, [vec![1, 2], vec![5]]);
        assert_eq!(waiters(&nexts, &circles), [0, 2, 2, 1, 0, 0, 0]);
    }

    /// A pool whose threads wait for tasks of their own pool; but one that waits for a client goes on.
    #[test]
    fn a_process_is_stuck_where_all_its_threads_wait_for_threads() {
        let threads = [1, 2].map(|tid| ThreadAtEnd { state: "waits", ..waits(tid, None) });
        assert_eq!(stuck(&threads, &[true, true]), [1]);
        assert!(stuck(&threads, &[true, false]).is_empty());
        let mut beside = threads.clone();
        beside[1].is_idle = true;
        assert_eq!(stuck(&beside, &[true, true]), [1]);
        assert!(stuck(&beside, &[true, false]).is_empty(), "it waits for a time, or the network");
        beside[0].is_idle = true;
        assert!(stuck(&beside, &[true, true]).is_empty());
        let mut runs = threads;
        runs[0].state = "runs";
        assert!(stuck(&runs, &[true, true]).is_empty());
    }

    /// A recording that came by mail can have as many as it likes.
    #[test]
    fn a_queue_of_a_million_is_counted_in_one_pass() {
        let n = 1_000_000;
        let nexts: Vec<_> = (0..n).map(|at| Some(at + 1).filter(|&to| to < n)).collect();
        assert!(circles(&nexts).is_empty());
        let waiters = waiters(&nexts, &[]);
        assert!(waiters.iter().enumerate().all(|(at, &n)| at == n));
    }
}
