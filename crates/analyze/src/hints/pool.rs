//! libuv's pool of threads, in which node does its calls of the file system, look-ups of names,
//! crypto and zlib.
use super::{lost_to, seconds};
use crate::call_paths::{Cover, UV_POOL};
use crate::cut::Cut;
use crate::{Hint, Summary};
use kasuri_base::quick::QuickMap;
use kasuri_model::{PathIx, ProcessIx, ThreadIx, Time, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// This part of the time with no thread of the pool free is worth a hint: to have less of it
/// makes a run at most 1.1 times as fast.
const PART: f64 = 0.1;

/// All threads of the pool have something to do, while CPUs are idle.
///
/// Whether more waits for one of them is not recorded, and it says so.
pub(super) fn uv_pool(cut: &Cut<'_>, summary: &Summary, cover: &Cover) -> Option<Hint> {
    let mut idle = IdlePaths { trace: cut.trace, known: QuickMap::default() };
    let pools = pools(cut, &mut idle);
    let busy =
        pools.values().map(|threads| (threads.len(), all_busy(cut, cover, &mut idle, threads)));
    let (n, busy_ns) = busy.max_by_key(|busy| busy.1)?;
    if (busy_ns as f64) < PART * summary.wall_ns as f64 {
        return None;
    }
    let lost = lost_to(summary, &["low_parallelism", "external_wait", "io_wait"]);
    let cost_ns = lost.min(busy_ns.saturating_mul(i64::from(summary.n_cpus)));
    Some(Hint {
        kind: "uv_pool",
        cost_ns,
        text: format!(
            "libuv's pool: for {} of {} none of its threads ({n}) was free, and {} of CPU time was idle. Calls of the file system, look-ups of names, crypto and zlib take turns there; whether any waited is not recorded. Let it have more threads (UV_THREADPOOL_SIZE)",
            seconds(busy_ns),
            seconds(summary.wall_ns),
            seconds(cost_ns),
        ),
        command: Some(format!("export UV_THREADPOOL_SIZE={}", (2 * n).max(4))),
    })
}

/// Whether a thread of the pool waits at a path for something to do.
struct IdlePaths<'t> {
    trace: &'t Trace,
    known: QuickMap<PathIx, bool>,
}

impl IdlePaths<'_> {
    fn has(&mut self, path: PathIx) -> bool {
        let f = &self.trace.frames;
        let name = |frame: kasuri_model::FrameIx| self.trace.strings.get(f.function[frame.ix()]);
        let is_idle = || {
            let mut frames = self.trace.frames_of(path).map(name);
            frames.any(|name| name == UV_POOL[0]) && frames.next() == Some(UV_POOL[1])
        };
        path.is_some() && *self.known.entry(path).or_insert_with(is_idle)
    }
}

/// Threads that were seen to wait so, by process.
fn pools(cut: &Cut<'_>, idle: &mut IdlePaths<'_>) -> BTreeMap<ProcessIx, BTreeSet<ThreadIx>> {
    let s = &cut.trace.samples;
    let mut pools: BTreeMap<ProcessIx, BTreeSet<ThreadIx>> = BTreeMap::new();
    for row in (0..s.time.len()).filter(|&row| s.kind[row].is_wait()) {
        let thread = s.thread[row];
        if thread.is_some() && cut.is_target(thread) && idle.has(s.path[row]) {
            pools.entry(cut.trace.threads[thread.ix()].process).or_default().insert(thread);
        }
    }
    pools
}

/// For how long none of these was free. One that waits without a sample is taken to be.
fn all_busy(
    cut: &Cut<'_>,
    cover: &Cover,
    idle: &mut IdlePaths<'_>,
    threads: &BTreeSet<ThreadIx>,
) -> i64 {
    let trace = cut.trace;
    let mut changes: Vec<(Time, i64)> = Vec::new();
    for &thread in threads {
        for state in trace.states_of(thread) {
            let (from, to) = (state.start.max(cut.from), state.end.min(cut.to));
            let owner = cover.between(thread, from, to).next();
            let path =
                owner.and_then(|(owner, _)| owner.sample()).map(|row| trace.samples.path[row]);
            let is_busy = match state.state.is_blocked() {
                true => path.is_some_and(|path| path.is_some() && !idle.has(path)),
                false => true,
            };
            if from < to && is_busy {
                changes.extend([(from, 1), (to, -1)]);
            }
        }
    }
    changes.sort_unstable();
    let (mut n_busy, mut since, mut sum) = (0, cut.from, 0);
    for (time, change) in changes {
        if n_busy == threads.len() as i64 {
            sum += (time - since).ns();
        }
        (n_busy, since) = (n_busy + change, time);
    }
    sum
}
