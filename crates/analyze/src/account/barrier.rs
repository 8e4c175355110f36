//! The last thread at each barrier, and the reason why it was last.
//!
//! An *episode* is one use of a barrier by all its threads. Their waits overlap, and all end when the last thread
//! has come. So, in order of their beginnings, a wait belongs to the episode before it as long as it begins before
//! any wait of that episode has ended: the thread released first may be back before the others have woken up.
//!
//! The wait of thread i for the last thread L, from i's arrival to L's arrival, has two causes. L may have had more to
//! do; or L was *delayed*: ready, without a CPU. With d the delay of a thread since it left the barrier before, L would have
//! arrived d_L earlier and thread i d_i earlier without delays. So the last d_L - d_i of the
//! wait are charged to the user of the CPU (other programs, or other threads of this one), and the rest is imbalance.
use super::throttle::Throttled;
use kasuri_model::{ProcessIx, SliceKind, ThreadIx, Time, Trace};
use std::collections::HashMap;

/// One wait at a barrier.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BarrierWait {
    /// Its slice's row.
    pub row: u32,
    /// Number of its episode.
    pub episode: u32,
    /// The last thread of the episode; none: there was no other.
    pub late: ThreadIx,
    /// Waiting from here on is because threads of the program had the last thread's CPU...
    pub own_from: Time,
    /// ...from here on, because another process had it...
    pub other_from: Time,
    /// ...and from here on it is being let go.
    pub arrival: Time,
    /// That process.
    pub other: ProcessIx,
}

/// Delays of one thread between two barriers.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    own_ns: i64,
    other_ns: i64,
    other: ProcessIx,
}

/// All waits at barriers of target threads, by row.
pub(crate) fn waits(trace: &Trace, is_target: &[bool], throttled: &Throttled) -> Vec<BarrierWait> {
    let s = &trace.slices;
    let rows: Vec<u32> = (0..s.kind.len() as u32)
        .filter(|&row| {
            s.kind[row as usize] == SliceKind::Barrier && is_target[s.thread[row as usize].ix()]
        })
        .collect();
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    let row_of = |at: u32| rows[at as usize] as usize;
    let key = |at: u32| {
        let row = row_of(at);
        (
            trace.threads[s.thread[row].ix()].process,
            s.object[row],
            s.name[row],
            s.start[row],
            s.end[row],
        )
    };
    order.sort_unstable_by_key(|&at| (key(at), at));
    let mut out: Vec<BarrierWait> =
        rows.iter().map(|&row| BarrierWait { row, ..BarrierWait::default() }).collect();
    // Each episode's rows in `order`.
    let mut episodes = Vec::new();
    let mut first = 0;
    while first < order.len() {
        let (process, object, name, _, mut let_go) = key(order[first]);
        let mut end = first + 1;
        while let Some(&at) = order.get(end) {
            let (p, o, n, start, stop) = key(at);
            if (p, o, n) != (process, object, name) || start > let_go {
                break;
            }
            let_go = let_go.min(stop);
            end += 1;
        }
        for &at in &order[first..end] {
            out[at as usize].episode = episodes.len() as u32;
            out[at as usize].arrival = s.start[row_of(order[end - 1])];
        }
        episodes.push(first..end);
        first = end;
    }
    let delays = delays(trace, is_target, &out, throttled);
    for waits in episodes {
        episode(trace, &rows, &order[waits], &delays, &mut out);
    }
    out
}

/// Fills in the waits of one episode; they come by their start.
fn episode(trace: &Trace, rows: &[u32], waits: &[u32], delays: &[Delay], out: &mut [BarrierWait]) {
    let s = &trace.slices;
    let Some(&last) = waits.last() else { return };
    let row = rows[last as usize] as usize;
    let (late, arrival, of_late) = (s.thread[row], s.start[row], delays[last as usize]);
    for &at in waits {
        let own = &delays[at as usize];
        let wait = &mut out[at as usize];
        let began = s.start[rows[at as usize] as usize];
        wait.other = of_late.other;
        wait.late = if waits.len() > 1 { late } else { ThreadIx::NONE };
        let back = |from: Time, ns: i64| Time(from.0.saturating_sub(ns.max(0))).max(began);
        wait.other_from = back(arrival, of_late.other_ns - own.other_ns);
        wait.own_from = back(wait.other_from, of_late.own_ns - own.own_ns);
    }
}

/// For each wait, the time that its thread had been ready without a CPU since the last thread came to its barrier before,
/// also while it was being let go from there.
fn delays(
    trace: &Trace,
    is_target: &[bool],
    waits: &[BarrierWait],
    throttled: &Throttled,
) -> Vec<Delay> {
    let s = &trace.slices;
    let mut out = Vec::with_capacity(waits.len());
    let mut states = 0..0;
    let (mut thread, mut from) = (ThreadIx::NONE, Time::MIN);
    for wait in waits {
        let row = wait.row as usize;
        if s.thread[row] != thread {
            thread = s.thread[row];
            let info = &trace.threads[thread.ix()];
            from = info.alive.start;
            states = info.states.start as usize..info.states.end as usize;
        }
        let mut delay = Delay::default();
        let mut by: HashMap<ProcessIx, i64> = HashMap::new();
        while states.start < states.end && trace.states.start[states.start] < s.start[row] {
            let at = states.start;
            let end = match states.start + 1 < states.end {
                true => trace.states.start[at + 1],
                false => trace.threads[thread.ix()].alive.end,
            };
            let (start, end) = (trace.states.start[at].max(from), end.min(s.start[row]));
            if trace.states.state[at].is_runnable() && end > start {
                let cpu = trace.states.cpu[at];
                who_ran(trace, cpu, start, end, |runner, from, to| {
                    // A limit's work is charged while it lasts.
                    let ns = (to - from).ns() - throttled.overlap(cpu, from, to);
                    if is_target[runner.ix()] {
                        delay.own_ns += ns;
                    } else {
                        delay.other_ns += ns;
                        *by.entry(trace.threads[runner.ix()].process).or_default() += ns;
                    }
                });
            }
            if states.start + 1 < states.end && trace.states.start[at + 1] <= s.start[row] {
                states.start += 1;
            } else {
                break;
            }
        }
        delay.other = by
            .into_iter()
            .max_by_key(|&(process, ns)| (ns, std::cmp::Reverse(process)))
            .map_or(ProcessIx::NONE, |(process, _)| process);
        out.push(delay);
        from = wait.arrival;
    }
    out
}

/// The threads that a CPU ran in a time, each with how long.
fn who_ran(
    trace: &Trace,
    cpu: u16,
    start: Time,
    end: Time,
    mut each: impl FnMut(ThreadIx, Time, Time),
) {
    let Some(info) = trace.cpus.get(usize::from(cpu)) else {
        return;
    };
    let o = &trace.occupancy;
    let rows = info.occupancy.start as usize..info.occupancy.end as usize;
    let mut row = rows.start + o.start[rows.clone()].partition_point(|&s| s <= start);
    row = row.saturating_sub(1).max(rows.start);
    while row < rows.end && o.start[row] < end {
        let until = if row + 1 < rows.end { o.start[row + 1] } else { trace.span.end };
        let (from, to) = (o.start[row].max(start), until.min(end));
        if o.thread[row].is_some() && from < to {
            each(o.thread[row], from, to);
        }
        row += 1;
    }
}
