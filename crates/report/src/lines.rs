//! Lays out the lines of the chart: CPUs first, then threads, counters and locks.
//!
//! The order of [`Plan::lines`] is that of the layout only: the viewer groups lines by owner and decides where they are
//! drawn. A thread has a line for its states, one for each depth of its slices, one for its instants and one for its
//! system calls; a CPU has one for what it ran and one each for interrupts and softirqs. Idle time is not an item: it
//! shows as a gap.
use super::locks;
use super::plan::{Kind, Line, Plan, Rows};
use kasuri_model::{KernelSpanKind, Time, Trace};
use std::ops::Range;

/// Lays out the lines of `trace`.
pub fn plan(trace: &Trace) -> Plan {
    let (base, length) = axis(trace);
    let mut plan = Plan { base, length, name_count: names(trace), ..Plan::default() };
    let spans = kernel_lines(trace);
    for (cpu, row) in trace.cpus.iter().enumerate() {
        let busy: Vec<u32> =
            row.occupancy.clone().filter(|&i| !trace.occupancy.idle[i as usize]).collect();
        push(&mut plan, Kind::Cpu, cpu, 0, Rows::List(busy));
    }
    for (kind, owner, rows) in spans {
        push(&mut plan, kind, owner, 0, Rows::List(rows));
    }
    // Instants are sorted by thread, so each thread's are the next ones.
    let mut instants = 0;
    for (ix, thread) in trace.threads.iter().enumerate() {
        push(&mut plan, Kind::State, ix, 0, Rows::Range(thread.states.clone()));
        for (depth, rows) in by_depth(trace, thread.slices.clone()).into_iter().enumerate() {
            push(&mut plan, Kind::Slice, ix, depth, Rows::List(rows));
        }
        let of_thread = trace.instants.thread[instants..].partition_point(|t| t.ix() <= ix);
        push(
            &mut plan,
            Kind::Instant,
            ix,
            0,
            Rows::Range(instants as u32..(instants + of_thread) as u32),
        );
        instants += of_thread;
    }
    for (ix, counter) in trace.counters.iter().enumerate() {
        push(&mut plan, Kind::Counter, ix, 0, Rows::Range(0..counter.time.len() as u32));
    }
    (plan.locks, plan.locks_without_row) = locks::plan(trace, &mut plan.lines);
    plan
}

/// Adds a line, unless it is empty.
fn push(plan: &mut Plan, kind: Kind, owner: usize, depth: usize, rows: Rows) {
    if rows.len() > 0 {
        plan.lines.push(Line { kind, owner: owner as u32, depth: depth as u32, rows });
    }
}

/// First instant and length of the time axis: the recording's span, widened to slices known from before it.
fn axis(trace: &Trace) -> (i64, u64) {
    // The model has these two values for "since before the recording" and "never".
    let known = |t: &Time| *t != Time::MIN && *t != Time::MAX;
    let slices = &trace.slices;
    let first = slices.start.iter().chain(&trace.instants.time).copied().filter(known).min();
    let last = slices.end.iter().chain(&trace.instants.time).copied().filter(known).max();
    let base = first.map_or(trace.span.start, |t| t.min(trace.span.start)).0;
    let end = last.map_or(trace.span.end, |t| t.max(trace.span.end)).0;
    // JavaScript counts exactly to 2^53 ns, which is 104 days.
    (base, end.saturating_sub(base).clamp(1, 1 << 53) as u64)
}

/// A thread's slices by depth, each list in order of time. Slices of one depth do not overlap.
fn by_depth(trace: &Trace, slices: Range<u32>) -> Vec<Vec<u32>> {
    let depth = &trace.slices.depth;
    let mut count: Vec<usize> = Vec::new();
    for i in slices.clone() {
        let d = depth[i as usize] as usize;
        if d >= count.len() {
            count.resize(d + 1, 0);
        }
        count[d] += 1;
    }
    let mut rows: Vec<Vec<u32>> = count.into_iter().map(Vec::with_capacity).collect();
    for i in slices {
        rows[depth[i as usize] as usize].push(i);
    }
    rows
}

/// System calls by thread, interrupts by CPU.
fn kernel_lines(trace: &Trace) -> Vec<(Kind, usize, Vec<u32>)> {
    let spans = &trace.kernel_spans;
    let mut lines: std::collections::BTreeMap<(Kind, usize), Vec<u32>> = Default::default();
    for (i, kind) in spans.kind.iter().enumerate() {
        let key = match kind {
            KernelSpanKind::Irq => (Kind::Irq, spans.cpu[i] as usize),
            KernelSpanKind::Softirq => (Kind::Softirq, spans.cpu[i] as usize),
            KernelSpanKind::Syscall if spans.thread[i].ix() < trace.threads.len() => {
                (Kind::Syscall, spans.thread[i].ix())
            }
            KernelSpanKind::Syscall => continue,
            // These lie inside system calls, on the same line of the chart; `kasuri locks` shows them.
            KernelSpanKind::LockContention => continue,
        };
        lines.entry(key).or_default().push(i as u32);
    }
    lines.into_iter().map(|((kind, owner), rows)| (kind, owner, rows)).collect()
}

/// For each name its number of slices: levels of detail keep rare names visible.
fn names(trace: &Trace) -> Vec<u32> {
    let mut count = vec![0u32; trace.strings.len()];
    for name in &trace.slices.name {
        if let Some(n) = count.get_mut(name.ix()) {
            *n += 1;
        }
    }
    count
}
