//! Processes and threads that ran while target threads were ready to run.
//!
//! A thread that waits in a CPU's queue is delayed by each process that runs there meanwhile, for as long as that runs. Idle time
//! delays no thread: then the queue's owner is being woken, or the kernel is about to move the thread.
//!
//! One thread after the other: its waits come in order of time, so the runs that delay it are found from those before, and whether a
//! process delayed it already is one comparison. Rejected: a sweep over the time of each CPU, which has to sort all waits
//! first and to look each thread up in a set for each run.
use crate::Interference;
use crate::account::throttle::Throttled;
use crate::cut::Cut;
use kasuri_model::{Cpu, ProcessIx, ThreadIx, ThreadState, Time, Trace};
use std::ops::Range;

#[derive(Clone)]
struct Tally {
    preemptions: u64,
    delayed_ns: i64,
    /// Number of threads that were delayed, and the last of them.
    threads: u32,
    last: ThreadIx,
    /// By CPU.
    on_cpu_ns: Vec<i64>,
}

/// By process, most delay first.
pub(crate) fn interference(cut: &Cut<'_>) -> Vec<Interference> {
    let trace = cut.trace;
    let none = Tally {
        preemptions: 0,
        delayed_ns: 0,
        threads: 0,
        last: ThreadIx::NONE,
        on_cpu_ns: Vec::new(),
    };
    let mut delays = Delays {
        cut,
        throttled: Throttled::new(trace),
        places: cut.threads().map(|thread| place(cut, thread)).collect(),
        tally: vec![none; 2 * trace.processes.len()],
    };
    let mut runs = Runs::new(trace);
    for thread in cut.threads().filter(|t| cut.is_target(*t)) {
        delays.add(thread, &mut runs);
    }
    let mut out: Vec<Interference> = (delays.tally.iter())
        .enumerate()
        .filter(|(_, t)| t.preemptions > 0 || t.delayed_ns > 0)
        .map(|(at, t)| (at, t, ProcessIx((at / 2) as u32)))
        .map(|(at, t, process)| Interference {
            pid: trace.processes[process.ix()].pid,
            process: process_name(trace, process),
            is_target: at % 2 == 0,
            preemptions: t.preemptions,
            delayed_ns: t.delayed_ns,
            threads_delayed: t.threads,
            cpus: worst_cpus(&t.on_cpu_ns),
        })
        .collect();
    out.sort_by_key(|i| (std::cmp::Reverse(i.delayed_ns), i.pid, !i.is_target));
    out
}

/// Stands behind the name of the recorder's own processes, to tell them from other ones of that name.
pub const THIS_RECORDER: &str = "(this recorder)";

/// What a process is called among those that others waited for.
pub(crate) fn process_name(trace: &Trace, process: ProcessIx) -> String {
    let name = trace.strings.get(trace.processes[process.ix()].name);
    match trace.is_recorder(process) {
        true => format!("{name} {THIS_RECORDER}"),
        false => name.into(),
    }
}

fn worst_cpus(ns: &[i64]) -> Vec<u32> {
    let mut cpus: Vec<u32> = (0..ns.len() as u32).filter(|&cpu| ns[cpu as usize] > 0).collect();
    cpus.sort_by_key(|&cpu| std::cmp::Reverse(ns[cpu as usize]));
    cpus
}

/// What each CPU ran, looked up at times of which most are near the one before.
struct Runs<'t> {
    /// Of each CPU: starts of its runs, their threads, and the last run that was found.
    cpus: Vec<(&'t [Time], &'t [ThreadIx], usize)>,
    end: Time,
}

impl<'t> Runs<'t> {
    fn new(trace: &'t Trace) -> Runs<'t> {
        let occupancy = &trace.occupancy;
        let of_cpu = |cpu: &Cpu| {
            let rows = cpu.occupancy.start as usize..cpu.occupancy.end as usize;
            (&occupancy.start[rows.clone()], &occupancy.thread[rows], 0)
        };
        Runs { cpus: trace.cpus.iter().map(of_cpu).collect(), end: trace.span.end }
    }

    /// Calls `each` for the runs of a thread on this CPU between two times: their ends, cut to these, and the thread.
    #[inline]
    fn between(
        &mut self,
        cpu: u16,
        from: Time,
        to: Time,
        mut each: impl FnMut(Time, Time, ThreadIx),
    ) {
        let Some((starts, threads, at)) = self.cpus.get_mut(usize::from(cpu)) else {
            return;
        };
        *at = last_before(starts, *at, from);
        let mut row = *at;
        while let Some(&start) = starts.get(row).filter(|&&start| start < to) {
            let end = starts.get(row + 1).copied().unwrap_or(self.end.max(start));
            let (start, end) = (start.max(from), end.min(to));
            if start < end && threads[row].is_some() {
                each(start, end, threads[row]);
            }
            row += 1;
        }
    }
}

/// The last of ascending times that is not after `time`; 0 where all are. Looked for from `near` on, in steps that double.
#[inline]
fn last_before(times: &[Time], near: usize, time: Time) -> usize {
    let is_before = |ix: usize| times.get(ix).is_some_and(|&t| t <= time);
    let (mut low, mut high, mut step) = (near, near + 1, 1);
    if is_before(near) {
        while is_before(high) {
            low = high;
            high += step;
            step *= 2;
        }
    } else {
        while low > 0 && !is_before(low) {
            high = low;
            low = low.saturating_sub(step);
            step *= 2;
        }
    }
    let high = high.min(times.len());
    let low = low.min(high);
    (low + times[low..high].partition_point(|&t| t <= time)).saturating_sub(1)
}

/// What is being added up.
struct Delays<'c, 't> {
    cut: &'c Cut<'t>,
    throttled: Throttled,
    /// Each thread's row of the tally.
    places: Vec<u32>,
    /// By process: its threads that are the program, then the others. Either has none unless threads were chosen.
    tally: Vec<Tally>,
}

/// A thread's row of the tally.
fn place(cut: &Cut<'_>, thread: ThreadIx) -> u32 {
    let process = cut.trace.threads[thread.ix()].process;
    2 * process.0 + u32::from(!cut.is_target(thread))
}

impl Delays<'_, '_> {
    /// Adds what delayed a thread of the program, and the processes that took the CPU from it.
    fn add(&mut self, thread: ThreadIx, runs: &mut Runs<'_>) {
        let cut = self.cut;
        let mut before = ThreadState::Unknown;
        for row in cut.trace.states_of(thread) {
            let was_running = std::mem::replace(&mut before, row.state) == ThreadState::Running;
            if !row.state.is_runnable() {
                continue;
            }
            if row.state == ThreadState::RunnablePreempted
                && was_running
                && row.by.is_some()
                && cut.contains(row.start)
            {
                let by = self.places[row.by.ix()];
                self.tally[by as usize].preemptions += 1;
            }
            let (from, to) = (row.start.max(cut.from), row.end.min(cut.to));
            runs.between(row.cpu, from, to, |from, to, by| {
                if by != thread {
                    self.delayed(thread, row.cpu, from..to, by);
                }
            });
        }
    }

    /// Thread `by` ran while `thread` waited.
    #[inline]
    fn delayed(&mut self, thread: ThreadIx, cpu: u16, when: Range<Time>, by: ThreadIx) {
        // A thread held back by a limit was not delayed by the programs that ran.
        let kept = self.throttled.overlap(cpu, when.start, when.end);
        let ns = (when.end - when.start).ns() - kept;
        if ns > 0 {
            let (by, cpu) = (self.places[by.ix()] as usize, usize::from(cpu));
            let by = &mut self.tally[by];
            by.delayed_ns += ns;
            by.threads += u32::from(by.last != thread);
            by.last = thread;
            by.on_cpu_ns.resize(by.on_cpu_ns.len().max(cpu + 1), 0);
            by.on_cpu_ns[cpu] += ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_from_wherever_the_search_begins() {
        let times: Vec<Time> = (0..40).map(|n| Time(n * n)).collect();
        for near in 0..times.len() {
            for time in -1..1700 {
                let before = times.iter().filter(|t| t.0 <= time).count();
                let found = last_before(&times, near, Time(time));
                assert_eq!(found, before.saturating_sub(1), "{time} from {near}");
            }
        }
        assert_eq!(last_before(&[], 0, Time(5)), 0);
    }
}
