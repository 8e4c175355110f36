//! Threads and CPUs: where time went as the scheduler saw it.
//!
//! Each row adds up the thread's states within the range: running, ready, blocked (uninterruptible sleep also by itself), with
//! counts of switches and percentiles of the wake-up latency. A CPU's row adds up its occupancy. These are facts of the kernel's events; what the
//! time was lost to is the account's business (`account`).
use crate::cut::{Cut, latency};
use crate::{CpuSummary, Latency, ThreadSummary, WorstWakeup};
use kasuri_model::{KernelSpanKind, ThreadIx, ThreadState, Time};

/// Every thread's row, shown or not, in the trace's order.
pub(crate) fn threads(cut: &Cut<'_>) -> Vec<ThreadSummary> {
    let mut rows: Vec<ThreadSummary> = cut.threads().map(|thread| one(cut, thread)).collect();
    for ix in 0..cut.trace.migrations.thread.len() {
        let thread = cut.trace.migrations.thread[ix];
        if thread.is_some() && cut.contains(cut.trace.migrations.time[ix]) {
            rows[thread.ix()].migrations += 1;
        }
    }
    rows
}

fn one(cut: &Cut<'_>, thread: ThreadIx) -> ThreadSummary {
    let trace = cut.trace;
    let info = &trace.threads[thread.ix()];
    let process = trace.process_of(thread);
    let mut row = ThreadSummary {
        pid: process.pid,
        tid: info.tid,
        process: trace.strings.get(process.name).into(),
        name: trace.strings.get(info.name).into(),
        is_target: cut.is_target(thread),
        alive_ns: cut.overlap(info.alive.start, info.alive.end),
        counted_ns: info.counted.filter(|_| cut.whole).map(|d| d.ns()),
        ..ThreadSummary::default()
    };
    let mut was_running = false;
    let (mut switches, mut preemptions) = (0, 0);
    for state in trace.states_of(thread) {
        let ns = cut.overlap(state.start, state.end);
        let place = match state.state {
            ThreadState::Unknown => &mut row.unknown_ns,
            ThreadState::Running => &mut row.on_cpu_ns,
            ThreadState::RunnableWoken => &mut row.woken_ns,
            ThreadState::RunnablePreempted => &mut row.preempted_ns,
            ThreadState::DiskSleep => &mut row.disk_sleep_ns,
            _ => &mut row.blocked_ns,
        };
        *place += ns;
        if was_running && cut.contains(state.start) {
            switches += 1;
            preemptions += u64::from(state.state == ThreadState::RunnablePreempted);
        }
        was_running = state.state == ThreadState::Running;
    }
    if info.states.is_empty() {
        row.unknown_ns = row.alive_ns;
    }
    row.runnable_ns = row.woken_ns + row.preempted_ns;
    row.blocked_ns += row.disk_sleep_ns;
    // Of the whole recording every switch was counted, also those of equal stamps, which leave no state.
    (row.switches, row.preemptions) = match cut.whole {
        true => (u64::from(info.switches_out), u64::from(info.preemptions)),
        false => (switches, preemptions),
    };
    row
}

/// Fills in the wake-ups of each thread, and returns the latency over the target's.
///
/// A wake-up of a thread that was still running has latency 0 and is counted, but is no wait: only positive latencies
/// make the percentiles. Unknown ones (negative) are left out too.
pub(crate) fn wakeups(cut: &Cut<'_>, rows: &mut [ThreadSummary]) -> Option<Latency> {
    let wakeups = &cut.trace.wakeups;
    let in_range = |ix: &usize| wakeups.wakee[*ix].is_some() && cut.contains(wakeups.time[*ix]);
    let mut at = vec![0usize; rows.len() + 1];
    for ix in (0..wakeups.time.len()).filter(in_range) {
        let thread = wakeups.wakee[ix].ix();
        rows[thread].wakeups += 1;
        at[thread + 1] += usize::from(wakeups.latency[ix].ns() > 0);
    }
    for thread in 0..rows.len() {
        at[thread + 1] += at[thread];
    }
    let starts = at.clone();
    let mut values = vec![0i64; starts[rows.len()]];
    for ix in (0..wakeups.time.len()).filter(in_range) {
        let (thread, ns) = (wakeups.wakee[ix].ix(), wakeups.latency[ix].ns());
        if ns > 0 {
            values[at[thread]] = ns;
            at[thread] += 1;
        }
    }
    // The target's, at the front of all: there may be as many as wake-ups.
    let mut n_target = 0;
    for (thread, row) in rows.iter_mut().enumerate() {
        let own = &mut values[starts[thread]..starts[thread + 1]];
        row.wake_latency_ns = latency(own);
        if row.is_target {
            let own = starts[thread]..starts[thread + 1];
            let to = n_target;
            n_target += own.len();
            values.copy_within(own, to);
        }
    }
    latency(&mut values[..n_target])
}

/// The longest wait of a thread of the program from being woken to running.
pub(crate) fn worst_wakeup(cut: &Cut<'_>) -> Option<WorstWakeup> {
    let (trace, wakeups) = (cut.trace, &cut.trace.wakeups);
    let is_meant = |&ix: &usize| {
        cut.contains(wakeups.time[ix])
            && wakeups.latency[ix].ns() > 0
            && cut.is_target(wakeups.wakee[ix])
    };
    let worst = (0..wakeups.time.len()).filter(is_meant);
    let worst = worst.max_by_key(|&ix| (wakeups.latency[ix], std::cmp::Reverse(ix)))?;
    let (thread, at) = (wakeups.wakee[worst], wakeups.time[worst]);
    let ran = Time(at.ns().saturating_add(wakeups.latency[worst].ns()));
    let rows = trace.threads[thread.ix()].states.clone();
    let starts = &trace.states.start[rows.start as usize..rows.end as usize];
    let row = starts.partition_point(|&start| start <= ran).checked_sub(1);
    let row = row.map(|row| rows.start as usize + row);
    let row = row.filter(|&row| trace.states.state[row] == ThreadState::Running);
    Some(WorstWakeup {
        at_ns: at.ns(),
        latency_ns: wakeups.latency[worst].ns(),
        pid: trace.process_of(thread).pid,
        tid: trace.threads[thread.ix()].tid,
        thread: trace.strings.get(trace.threads[thread.ix()].name).into(),
        cpu: row.map(|row| trace.states.cpu[row]).filter(|&cpu| cpu != u16::MAX),
    })
}

/// The recorded CPUs.
pub(crate) fn cpus(cut: &Cut<'_>) -> Vec<CpuSummary> {
    let irq = interrupt_ns(cut);
    let mut out = Vec::new();
    for (number, cpu) in cut.trace.cpus.iter().enumerate().filter(|(_, cpu)| cpu.recorded) {
        let mut row = CpuSummary {
            cpu: number as u32,
            irq_ns: irq.as_ref().map(|ns| ns[number]),
            ..CpuSummary::default()
        };
        for run in cut.trace.occupancy_of(number) {
            let ns = cut.overlap(run.start, run.end);
            let place = match (run.thread.is_some(), run.idle) {
                (true, _) if cut.is_target(run.thread) => &mut row.target_ns,
                (true, _) => &mut row.other_ns,
                (false, true) => &mut row.idle_ns,
                (false, false) => &mut row.unknown_ns,
            };
            *place += ns;
            row.switches += u64::from(run.start > cut.trace.span.start && cut.contains(run.start));
        }
        if cpu.occupancy.is_empty() {
            row.unknown_ns = (cut.to - cut.from).ns();
        }
        out.push(row);
    }
    out
}

/// Time in interrupt and softirq handlers by CPU, nested ones once; none when they were not recorded.
fn interrupt_ns(cut: &Cut<'_>) -> Option<Vec<i64>> {
    let spans = &cut.trace.kernel_spans;
    let is_interrupt = |ix: &usize| spans.kind[*ix] != KernelSpanKind::Syscall;
    let mut order: Vec<usize> = (0..spans.kind.len()).filter(is_interrupt).collect();
    if order.is_empty() {
        return None;
    }
    order.sort_by_key(|&ix| spans.start[ix]);
    let mut ns = vec![0; cut.trace.cpus.len()];
    let mut done = vec![cut.from; cut.trace.cpus.len()];
    for ix in order {
        let cpu = usize::from(spans.cpu[ix]);
        if cpu < ns.len() {
            ns[cpu] += cut.overlap(spans.start[ix].max(done[cpu]), spans.end[ix]);
            done[cpu] = done[cpu].max(spans.end[ix]);
        }
    }
    Some(ns)
}
