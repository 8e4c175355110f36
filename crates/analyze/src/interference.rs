//! Processes and threads that ran while target threads were ready to run.
//!
//! For each CPU, a sweep over what it ran (occupancy) and over the target threads that waited in its queue: while k
//! threads wait and process p runs for t, p delays k threads by t each. Idle time delays no thread: then the queue's
//! owner is being woken, or the kernel is about to move the thread.
use crate::Interference;
use crate::account::throttle::Throttled;
use crate::cut::Cut;
use crate::quick_map::QuickSet;
use kasuri_model::{ThreadIx, ThreadState, Time};

/// A target thread in a CPU's queue.
struct Waiting {
    start: Time,
    end: Time,
    thread: ThreadIx,
}

struct Tally {
    preemptions: u64,
    delayed_ns: i64,
    threads: QuickSet<ThreadIx>,
    /// By CPU.
    on_cpu_ns: Vec<i64>,
}

/// By process, most delay first.
pub(crate) fn interference(cut: &Cut<'_>) -> Vec<Interference> {
    let trace = cut.trace;
    let mut tally: Vec<Tally> = trace
        .processes
        .iter()
        .map(|_| Tally {
            preemptions: 0,
            delayed_ns: 0,
            threads: QuickSet::default(),
            on_cpu_ns: Vec::new(),
        })
        .collect();
    let queues = queues(cut, &mut tally);
    let throttled = Throttled::new(trace);
    for (cpu, queue) in queues.iter().enumerate() {
        sweep(cut, cpu, queue, &throttled, &mut tally);
    }
    let mut out: Vec<Interference> = tally
        .iter()
        .zip(&trace.processes)
        .filter(|(t, _)| t.preemptions > 0 || t.delayed_ns > 0)
        .map(|(t, process)| Interference {
            pid: process.pid,
            process: trace.strings.get(process.name).into(),
            is_target: process.is_target,
            preemptions: t.preemptions,
            delayed_ns: t.delayed_ns,
            threads_delayed: t.threads.len() as u32,
            cpus: worst_cpus(&t.on_cpu_ns),
        })
        .collect();
    out.sort_by_key(|i| (std::cmp::Reverse(i.delayed_ns), i.pid));
    out
}

fn worst_cpus(ns: &[i64]) -> Vec<u32> {
    let mut cpus: Vec<u32> = (0..ns.len() as u32)
        .filter(|&cpu| ns[cpu as usize] > 0)
        .collect();
    cpus.sort_by_key(|&cpu| std::cmp::Reverse(ns[cpu as usize]));
    cpus
}

/// Waits by CPU and start; also counts preemptions.
fn queues(cut: &Cut<'_>, tally: &mut [Tally]) -> Vec<Vec<Waiting>> {
    let trace = cut.trace;
    let mut queues: Vec<Vec<Waiting>> = trace.cpus.iter().map(|_| Vec::new()).collect();
    for thread in cut.threads().filter(|t| cut.is_target(*t)) {
        let mut before = ThreadState::Unknown;
        for row in trace.states_of(thread) {
            let waits = matches!(
                row.state,
                ThreadState::RunnableWoken | ThreadState::RunnablePreempted
            );
            let was_running = std::mem::replace(&mut before, row.state) == ThreadState::Running;
            if row.state == ThreadState::RunnablePreempted
                && was_running
                && row.by.is_some()
                && cut.contains(row.start)
            {
                tally[trace.threads[row.by.ix()].process.ix()].preemptions += 1;
            }
            if waits
                && cut.overlap(row.start, row.end) > 0
                && let Some(queue) = queues.get_mut(usize::from(row.cpu))
            {
                queue.push(Waiting {
                    start: row.start.max(cut.from),
                    end: row.end.min(cut.to),
                    thread,
                });
            }
        }
    }
    for queue in &mut queues {
        queue.sort_by_key(|w| w.start);
    }
    queues
}

fn sweep(cut: &Cut<'_>, cpu: usize, queue: &[Waiting], throttled: &Throttled, tally: &mut [Tally]) {
    let mut active: Vec<&Waiting> = Vec::new();
    let mut next = 0;
    for run in cut.trace.occupancy_of(cpu) {
        while let Some(waiting) = queue.get(next).filter(|w| w.start < run.end) {
            active.push(waiting);
            next += 1;
        }
        active.retain(|w| w.end > run.start);
        if !run.thread.is_some() {
            continue;
        }
        let by = &mut tally[cut.trace.threads[run.thread.ix()].process.ix()];
        for waiting in active.iter().filter(|w| w.thread != run.thread) {
            let (from, to) = (run.start.max(waiting.start), run.end.min(waiting.end));
            // A thread held back by a limit was not delayed by the programs that ran.
            let ns = (to - from).ns() - throttled.overlap(cpu as u16, from, to.max(from));
            if ns > 0 {
                by.delayed_ns += ns;
                by.threads.insert(waiting.thread);
                by.on_cpu_ns.resize(by.on_cpu_ns.len().max(cpu + 1), 0);
                by.on_cpu_ns[cpu] += ns;
            }
        }
    }
}
