//! Times in which the machine stood still: a virtual machine that its host stopped.
//!
//! No event tells of such a pause. But a thread that is ready beside a running one has it preempted
//! within some milliseconds, and timers wake threads all the time, the recorder's among them: where
//! for [`LEAST_NS`] no CPU was given to another thread, nothing was woken and no sample was taken,
//! though a thread of the program was ready throughout, none of the CPUs ran. Whoever had one then
//! is not who took it.
use kasuri_model::{Time, Trace};
use std::ops::Range;

/// Shorter ones are not told from a busy machine's.
const LEAST_NS: i64 = 200_000_000;

/// The times, in order.
pub(crate) fn times(trace: &Trace, is_target: &[bool]) -> Vec<Range<Time>> {
    let recorded = || (0..trace.cpus.len()).filter(|&cpu| trace.cpus[cpu].recorded);
    let Some(first) = recorded().next() else {
        return Vec::new();
    };
    let mut found = long_runs(trace, first);
    for cpu in recorded().skip(1) {
        if found.is_empty() {
            break;
        }
        found = common(&found, &long_runs(trace, cpu));
    }
    if found.is_empty() || trace.wakeups.time.is_empty() {
        return Vec::new();
    }
    // By their starts; of those that began until then the latest end.
    let mut ready: Vec<Range<Time>> = (0..trace.threads.len())
        .filter(|&thread| is_target[thread])
        .flat_map(|thread| trace.ready_of(kasuri_model::ThreadIx(thread as u32)))
        .filter(|row| (row.end - row.start).ns() >= LEAST_NS)
        .map(|row| row.start..row.end)
        .collect();
    ready.sort_unstable_by_key(|r| r.start);
    for at in 1..ready.len() {
        ready[at].end = ready[at].end.max(ready[at - 1].end);
    }
    let is_ready = |gap: &Range<Time>| {
        let begun = ready.partition_point(|r| r.start <= gap.start);
        begun > 0 && gap.end <= ready[begun - 1].end
    };
    let mut times: Vec<Vec<Time>> = vec![Vec::new(); found.len()];
    for &time in trace.wakeups.time.iter().chain(&trace.samples.time) {
        let at = found.partition_point(|gap| gap.end <= time);
        if found.get(at).is_some_and(|gap| gap.start < time) {
            times[at].push(time);
        }
    }
    let mut out = Vec::new();
    for (gap, mut times) in found.into_iter().zip(times) {
        times.push(gap.end);
        times.sort_unstable();
        let mut from = gap.start;
        for time in times {
            out.push(std::mem::replace(&mut from, time)..time);
        }
    }
    out.retain(|gap| (gap.end - gap.start).ns() >= LEAST_NS && is_ready(gap));
    out
}

/// Times for which the CPU had one thread, or none, without a change.
fn long_runs(trace: &Trace, cpu: usize) -> Vec<Range<Time>> {
    let runs = trace.occupancy_of(cpu).map(|run| run.start..run.end);
    runs.filter(|run| (run.end - run.start).ns() >= LEAST_NS).collect()
}

/// What lies in a range of both, where that is long.
fn common(a: &[Range<Time>], b: &[Range<Time>]) -> Vec<Range<Time>> {
    let (mut out, mut from) = (Vec::new(), 0);
    for range in a {
        from += b[from..].partition_point(|other| other.end <= range.start);
        let overlap = b[from..].iter().take_while(|other| other.start < range.end);
        out.extend(overlap.map(|o| o.start.max(range.start)..o.end.min(range.end)));
    }
    out.retain(|range| (range.end - range.start).ns() >= LEAST_NS);
    out
}
