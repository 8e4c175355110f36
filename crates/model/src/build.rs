//! Streams -> [`Trace`]: runs the passes in order and puts every row in its final place.
//!
//! 1. The CPUs' events, merged by time, go through `sched`, which makes threads as they are first named.
//! 2. Each stream of annotations gets its thread; `inner` finds those of clients in pid name spaces.
//! 3. Threads are put in their final order, and every column that names a thread is renumbered.
//! 4. `annotate` reads the streams thread by thread and fills slices, tasks, flows and counters.
//!
//! Annotations come last because their slices are cut to the lives of threads, which the kernel's events tell.
use crate::ProgramBy;
use crate::annotate;
use crate::inner::{ClientId, InnerName, stream_owners};
use crate::input::{AnnotationEvents, CpuEvents, Setup};
use crate::lock_calls::{self, Either};
use crate::merge::{CpuQueue, merge};
use crate::sched::{IDLE, Sched};
use crate::table::{Order, Table};
use crate::{Cpu, Error, Occupancy, States, Strings, ThreadIx, ThreadState, Time, Trace};
use std::collections::{HashMap, HashSet};

/// The columns of a recording whose events come from `cpus` (with their numbers) and `streams`.
///
/// # Errors
/// Errors of the sources, or [`Error::TooMany`].
pub fn build<C: CpuEvents, S: AnnotationEvents>(
    setup: Setup,
    strings: Strings,
    cpus: Vec<(u16, C)>,
    streams: Vec<S>,
) -> Result<Trace, Error> {
    keep_freed_buffers();
    let (mut setup, mut strings) = (setup, strings);
    setup.span.start = setup.span.start.within_horizon();
    setup.span.end = setup.span.end.within_horizon().max(setup.span.start);
    for known in &mut setup.known {
        known.time = known.time.within_horizon();
    }
    setup.n_cpus = cpus.iter().map(|(n, _)| usize::from(*n) + 1).fold(setup.n_cpus, usize::max);
    let mut sched = Sched::new(&setup, &mut strings);
    let mut queues = Vec::with_capacity(cpus.len());
    for (number, events) in cpus {
        queues.push(CpuQueue::new(number, events, &mut strings)?);
    }
    if !setup.starts_late {
        for queue in &queues {
            if let Some(event) = queue.head() {
                sched.first_event(queue.number, event);
            }
        }
    } else if let Some(keeper) = &mut sched.keeper {
        for queue in queues.iter().filter(|queue| queue.head().is_some()) {
            keeper.begins_late(queue.number, setup.span.start);
        }
    }
    for &number in &setup.recorded {
        if let Some(cpu) = sched.cpus.get_mut(number as usize) {
            cpu.seen = true;
        }
    }
    merge(queues, &mut strings, |number, event| sched.event(number, event))?;
    sched.finish(&setup);
    let mut streams = streams;
    let (owners, inner) = stream_owners(&mut sched, &mut streams, &setup, &mut strings);
    sched.table.add_sleepers(&setup.root_pids);
    sched.table.add_silent_states(setup.span.end);
    let calls = std::mem::take(&mut sched.lock_calls);
    let probed = std::mem::take(&mut sched.probe_calls);
    let mut trace = publish(sched, &setup, strings)?;
    let of_clients = owners
        .into_iter()
        .map(|old| ThreadIx(trace.order.new_thread[old as usize]))
        .zip(streams.into_iter().map(Either::Client));
    let row = |old: u32| ThreadIx(trace.order.new_thread[old as usize]);
    let mut of_probes = lock_calls::streams(calls, &trace.trace.threads, row);
    of_probes.extend(probed.streams(row));
    // Kernel events already, and counted as such: the program made no annotation.
    let n_made: usize = of_probes.iter().map(|(_, s)| s.events.len()).sum();
    let of_probes = of_probes.into_iter().map(|(t, s)| (t, Either::Probes(s)));
    let streams = of_clients.chain(of_probes).collect();
    annotate::annotate(&mut trace.trace, streams)?;
    let made = &mut trace.trace.n_annotation_events;
    *made = made.saturating_sub(n_made as u64);
    annotate::slice_ranges(&mut trace.trace);
    trace.trace.name_inner(inner, &trace.order);
    trace.trace.name_processes();
    // One process alone is the program, whoever says so.
    let has_one = trace.trace.processes.len() < 2;
    trace.trace.program_by = match has_one || !(setup.whole_system || setup.root_pids.is_empty()) {
        true => ProgramBy::Recording,
        false => ProgramBy::Nobody,
    };
    Ok(trace.trace)
}

/// Sources decode into buffers of about the sizes of those before, 0.5 MiB and less. glibc gives such buffers
/// back to the kernel when they are freed, and the page faults of the next ones cost as much as decoding, until it
/// has seen a larger one come and go. (Its documentation calls that the dynamic threshold for mmap and trim.) Much
/// larger would be wrong too: columns below the threshold are copied as they grow, those above it are remapped.
fn keep_freed_buffers() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20)));
}

struct Published {
    trace: Trace,
    order: Order,
}

fn publish(mut sched: Sched, setup: &Setup, mut strings: Strings) -> Result<Published, Error> {
    let n_states: usize = sched.table.rows.iter().map(|row| row.states.len()).sum();
    for (rows, what) in [(n_states, "thread states"), (sched.wakes.time.len(), "wake-ups")] {
        if rows >= IDLE as usize {
            return Err(Error::TooMany { what, max: IDLE });
        }
    }
    // A stamp that went back may have put a state after the thread's end.
    for row in &mut sched.table.rows {
        row.end = row.states.last().map_or(row.end, |last| row.end.max(last.start));
    }
    let order = sched.table.order();
    let (processes, threads) =
        sched.table.publish(&order, setup, sched.counts_run_time(), &mut strings);
    let mut trace = Trace {
        strings,
        span: setup.span.clone(),
        processes,
        threads,
        n_kernel_events: sched.n_events,
        ..Trace::default()
    };
    let spans = std::mem::take(&mut sched.spans);
    trace.kernel_spans = spans.publish(&sched.table, &order, setup.span.end);
    let in_softirq = publish_wakeups(&mut trace, &mut sched, &order);
    publish_migrations(&mut trace, &mut sched, &order);
    publish_execs(&mut trace, &mut sched, &order);
    trace.sched_events = sched.keeper.take().map(|mut keeper| {
        keeper.log.renumber(|old| order.thread(old));
        keeper.log
    });
    publish_occupancy(&mut trace, &mut sched, &order);
    publish_states(&mut trace, &sched.table, n_states, &order);
    leave_out_bystanders(&mut trace, &in_softirq);
    Ok(Published { trace, order })
}

fn remap(column: Vec<u32>, order: &Order) -> Vec<ThreadIx> {
    // Same size and layout: the collect reuses the allocation.
    column.into_iter().map(|old| order.thread(old)).collect()
}

/// A softirq works for the thread that runs there, as a packet to a process on this machine does, or for a timer or a device on top of anyone. Processes that
/// work with each other wake each other: the thread of a process that the woken one never woke is no waker. `in_softirq`: rows of the wake-ups.
fn leave_out_bystanders(trace: &mut Trace, in_softirq: &[u32]) {
    let (wakes, threads) = (&trace.wakeups, &trace.threads);
    let pid = |thread: ThreadIx| {
        let thread = &threads[thread.ix()];
        let process = trace.processes.get(thread.process.ix());
        process.map_or(thread.tid, |process| process.pid)
    };
    let processes = |row: usize| (pid(wakes.waker[row]), pid(wakes.wakee[row]));
    let others = in_softirq.iter().map(|&row| row as usize);
    let mut others: Vec<usize> =
        others.filter(|&row| processes(row).0 != processes(row).1).collect();
    if others.is_empty() {
        return;
    }
    let with_waker = (0..wakes.time.len()).filter(|&row| wakes.waker[row].is_some());
    let pairs: HashSet<(i32, i32)> = with_waker.map(processes).collect();
    others.retain(|&row| {
        let (waker, wakee) = processes(row);
        !pairs.contains(&(wakee, waker))
    });
    for row in others {
        let (time, wakee) = (trace.wakeups.time[row], trace.wakeups.wakee[row]);
        let waker = std::mem::replace(&mut trace.wakeups.waker[row], ThreadIx::NONE);
        let states = &mut trace.states;
        let rows = &trace.threads[wakee.ix()].states;
        let (first, end) = (rows.start as usize, rows.end as usize);
        let first = first + states.start[first..end].partition_point(|&start| start < time);
        let same = (first..end).take_while(|&row| states.start[row] == time);
        for row in same.collect::<Vec<usize>>() {
            if states.state[row] == ThreadState::RunnableWoken && states.by[row] == waker {
                states.by[row] = ThreadIx::NONE;
            }
        }
    }
}

/// Returns the rows of those that were raised in a softirq.
fn publish_wakeups(trace: &mut Trace, sched: &mut Sched, order: &Order) -> Vec<u32> {
    let wakes = std::mem::take(&mut sched.wakes);
    trace.wakeups.time = wakes.time;
    trace.wakeups.waker = remap(wakes.waker, order);
    trace.wakeups.wakee = remap(wakes.wakee, order);
    trace.wakeups.cpu = wakes.cpu;
    trace.wakeups.latency = wakes.latency;
    wakes.in_softirq
}

fn publish_migrations(trace: &mut Trace, sched: &mut Sched, order: &Order) {
    let moves = std::mem::take(&mut sched.migrations);
    trace.migrations.time = moves.time;
    trace.migrations.thread = remap(moves.thread, order);
    trace.migrations.from_cpu = moves.from;
    trace.migrations.to_cpu = moves.to;
}

fn publish_execs(trace: &mut Trace, sched: &mut Sched, order: &Order) {
    let execs = std::mem::take(&mut sched.execs);
    let mut execs: Vec<(ThreadIx, Time)> =
        execs.into_iter().map(|(row, time)| (order.thread(row), time)).collect();
    execs.sort_unstable();
    (trace.execs.thread, trace.execs.time) = execs.into_iter().unzip();
}

fn publish_occupancy(trace: &mut Trace, sched: &mut Sched, order: &Order) {
    let cpus = std::mem::take(&mut sched.cpus);
    let mut out = Occupancy::default();
    for cpu in cpus {
        let first = out.start.len() as u32;
        if cpu.seen && cpu.start.is_empty() {
            out.start.push(trace.span.start);
            out.thread.push(ThreadIx::NONE);
            out.idle.push(false);
        }
        out.idle.extend(cpu.thread.iter().map(|&t| t == IDLE));
        let thread = |t| match t {
            IDLE => ThreadIx::NONE,
            _ => order.thread(t),
        };
        append(&mut out.thread, cpu.thread.into_iter().map(thread).collect());
        append(&mut out.start, cpu.start);
        trace.cpus.push(Cpu {
            recorded: cpu.seen,
            occupancy: first..out.start.len() as u32,
            hidden_switches: cpu.hidden,
            placed_switches: cpu.placed,
        });
    }
    trace.occupancy = out;
}

/// `column` and then `more`: the longest columns need not be copied.
fn append<T>(column: &mut Vec<T>, mut more: Vec<T>) {
    if column.is_empty() {
        *column = more;
    } else {
        column.append(&mut more);
    }
}

/// Each thread's states one after the other.
fn publish_states(trace: &mut Trace, table: &Table, n: usize, order: &Order) {
    let mut states = States {
        start: Vec::with_capacity(n),
        state: Vec::with_capacity(n),
        cpu: Vec::with_capacity(n),
        by: Vec::with_capacity(n),
    };
    for (thread, &old) in trace.threads.iter_mut().zip(&order.threads) {
        let log = &table.rows[old as usize].states;
        let first = states.start.len() as u32;
        thread.states = first..first + log.len() as u32;
        table.state_logs.read(log, |rows| {
            states.start.extend(rows.iter().map(|row| row.start));
            states.state.extend(rows.iter().map(|row| row.state));
            states.cpu.extend(rows.iter().map(|row| row.cpu));
            states.by.extend(rows.iter().map(|row| order.thread(row.by)));
        });
    }
    trace.states = states;
}

impl Trace {
    /// Notes what threads are called in pid name spaces of their own, and translates what the program said of them.
    fn name_inner(&mut self, inner: Vec<(ClientId, i32, u32)>, order: &Order) {
        self.inner_names = inner
            .into_iter()
            .map(|(client, tid, row)| InnerName { client, tid, thread: order.thread(row) })
            .collect();
        if self.inner_names.is_empty() {
            return;
        }
        let threads = &self.threads;
        let outer: HashMap<_, i32> = self
            .inner_names
            .iter()
            .map(|name| {
                let thread = &threads[name.thread.ix()];
                ((thread.process, name.tid), thread.tid)
            })
            .collect();
        let inside: HashSet<_> = outer.keys().map(|(process, _)| *process).collect();
        let waits = &mut self.lock_waits;
        for (thread, holder) in waits.thread.iter().zip(&mut waits.holder) {
            let process = threads[thread.ix()].process;
            if *holder != 0 && inside.contains(&process) {
                // A thread that never annotated: its inner number is another thread's outside, so the holder is unknown.
                *holder = outer.get(&(process, *holder)).copied().unwrap_or(0);
            }
        }
    }

    /// A process bears its main thread's name, also when annotations gave the main thread another.
    fn name_processes(&mut self) {
        for process in &mut self.processes {
            if self.strings.get(process.name).is_empty() {
                let threads = process.threads.start as usize..process.threads.end as usize;
                let named =
                    self.threads[threads].iter().find(|t| !self.strings.get(t.name).is_empty());
                process.name = named.map_or(process.name, |t| t.name);
            }
        }
    }
}
