//! Locks: who held which, for how long, who waited, and what the holder was doing meanwhile. What `kasuri locks` shows.
//!
//! A hold's time is split by joining it with its thread's scheduler states: *running* makes the lock ratio; *preempted* and *blocked* are
//! time in which others wait although nobody works. By the wall clock alone a true ratio of 0.80 read 1.29 on one CPU.
mod answer;
mod graph;
mod holds;
mod kernel;
mod list;
mod owners;

pub use answer::*;
pub use list::{Acquired, acquisitions};

use crate::cut::{Cut, percentile};
use holds::{Acquisition, LockKey, Owner};
use kasuri_model::{KernelSpanKind, ProcessIx, ThreadIx, ThreadState, Time, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The locks of the target (of all processes when the options say so).
pub fn locks(trace: &Trace, options: &crate::Options) -> Locks {
    let cut = Cut::new(trace, options);
    let read = holds::read(&cut);
    let mut out = Locks {
        schema: LOCKS_SCHEMA,
        command: trace.info.command.clone(),
        knows_states: !trace.states.start.is_empty(),
        wall_ns: (cut.to - cut.from).ns(),
        ..Locks::default()
    };
    let cpu = cpu_time(&cut);
    out.cpu_ns = cpu.values().sum();
    let names = holds::names(trace, &read);
    let name_of = |key: LockKey| names.get(&key).cloned().unwrap_or_default();
    tables(&cut, &read.all, &cpu, &name_of, &mut out);
    out.tasks = owners::tasks(&cut, &read.all);
    out.waits = owners::waits(&cut);
    out.waits_for = graph::waits_for(trace, &read, &name_of);
    out.inversions = graph::inversions(trace, &read, &name_of);
    out.syscall_ratio = kernel_ratio(&cut, KernelSpanKind::Syscall, out.cpu_ns);
    out.kernel_contention_ratio = kernel_ratio(&cut, KernelSpanKind::LockContention, out.cpu_ns);
    out.syscalls = kernel::syscalls(&cut);
    out.kernel_locks = kernel::kernel_locks(&cut);
    out.unseen_futex_ns = kernel::unseen_futex_ns(&cut);
    if cut.whole && out.knows_states && !read.all.is_empty() {
        on_path(trace, &read.all, &mut out);
    }
    out.sampled = trace.info.lock_probe == "light";
    out.total.finish(&mut Vec::new(), out.cpu_ns);
    out
}

/// CPU time of each shown thread within the range.
fn cpu_time(cut: &Cut<'_>) -> BTreeMap<ThreadIx, i64> {
    cut.threads()
        .filter(|&t| cut.is_shown(t))
        .map(|t| {
            let running = cut
                .trace
                .states_of(t)
                .filter(|r| r.state == ThreadState::Running);
            (t, running.map(|r| cut.overlap(r.start, r.end)).sum())
        })
        .collect()
}

fn tables(
    cut: &Cut<'_>,
    all: &[Acquisition],
    cpu: &BTreeMap<ThreadIx, i64>,
    name_of: &dyn Fn(LockKey) -> String,
    out: &mut Locks,
) {
    let trace = cut.trace;
    let mut by_lock: BTreeMap<LockKey, (Use, Vec<i64>, BTreeSet<Owner>)> = BTreeMap::new();
    let mut by_thread: BTreeMap<ThreadIx, (Use, Vec<i64>)> = BTreeMap::new();
    let mut by_process: BTreeMap<ProcessIx, (Use, Vec<i64>)> = BTreeMap::new();
    let mut by_site: BTreeMap<(LockKey, String), (Use, Vec<i64>)> = BTreeMap::new();
    for a in all {
        let process = trace.threads[a.thread.ix()].process;
        let entry = by_lock.entry(a.lock).or_default();
        entry.2.insert(a.owner());
        let thread = by_thread.entry(a.thread).or_default();
        let process = by_process.entry(process).or_default();
        out.total.add(a);
        for (used, lengths) in [
            (&mut entry.0, &mut entry.1),
            (&mut thread.0, &mut thread.1),
            (&mut process.0, &mut process.1),
        ] {
            used.add(a);
            lengths.extend(a.hold_ns());
        }
        if a.site.is_some() {
            let site = by_site
                .entry((a.lock, trace.strings.get(a.site).into()))
                .or_default();
            site.0.add(a);
            site.1.extend(a.hold_ns());
        }
    }
    let process_cpu = |p: ProcessIx| {
        cpu.iter()
            .filter(|(t, _)| trace.threads[t.ix()].process == p)
            .map(|(_, ns)| ns)
            .sum::<i64>()
    };
    let cpus: HashMap<ProcessIx, i64> = by_process.keys().map(|&p| (p, process_cpu(p))).collect();
    let mut of_lock: HashMap<LockKey, Vec<&Acquisition>> = HashMap::new();
    all.iter()
        .for_each(|a| of_lock.entry(a.lock).or_default().push(a));
    out.locks = by_lock
        .into_iter()
        .map(|(key, (mut used, mut lengths, threads))| {
            used.finish(&mut lengths, cpus.get(&key.0).copied().unwrap_or(0));
            let (kind, source) = owners::kind_and_source(trace, key);
            LockRow {
                name: name_of(key),
                pid: trace.processes[key.0.ix()].pid,
                object: key.1,
                kind,
                source,
                threads: threads.len() as u32,
                path_share: None,
                convoy: graph::convoy(&of_lock[&key]),
                holder_running_ns: 0,
                holder_preempted_ns: 0,
                holder_blocked_ns: 0,
                used,
            }
        })
        .collect();
    blame(trace, all, out);
    out.locks.sort_by_key(|l| {
        (
            std::cmp::Reverse((l.used.wait_ns, l.used.hold_cpu_ns)),
            l.pid,
            l.object,
        )
    });
    out.threads = by_thread
        .into_iter()
        .map(|(t, (mut used, mut lengths))| {
            used.finish(&mut lengths, cpu.get(&t).copied().unwrap_or(0));
            let info = &trace.threads[t.ix()];
            OwnerRow {
                name: trace.strings.get(info.name).into(),
                pid: trace.process_of(t).pid,
                tid: info.tid,
                used,
            }
        })
        .collect();
    out.threads.sort_by_key(|t| {
        (
            std::cmp::Reverse((t.used.wait_ns, t.used.hold_cpu_ns)),
            t.pid,
            t.tid,
        )
    });
    out.processes = by_process
        .into_iter()
        .map(|(p, (mut used, mut lengths))| {
            used.finish(&mut lengths, cpus.get(&p).copied().unwrap_or(0));
            let info = &trace.processes[p.ix()];
            OwnerRow {
                name: trace.strings.get(info.name).into(),
                pid: info.pid,
                tid: info.pid,
                used,
            }
        })
        .collect();
    out.processes
        .sort_by_key(|p| (std::cmp::Reverse(p.used.hold_cpu_ns), p.pid));
    out.sites = by_site
        .into_iter()
        .map(|((key, place), (mut used, mut lengths))| {
            used.finish(&mut lengths, cpus.get(&key.0).copied().unwrap_or(0));
            SiteRow {
                lock: name_of(key),
                place,
                used,
            }
        })
        .collect();
    out.sites
        .sort_by_key(|s| std::cmp::Reverse((s.used.wait_ns, s.used.hold_cpu_ns)));
}

/// What holders did while others waited, lock by lock.
fn blame(trace: &Trace, all: &[Acquisition], out: &mut Locks) {
    let index: HashMap<(i32, u64), usize> = out
        .locks
        .iter()
        .enumerate()
        .map(|(i, l)| ((l.pid, l.object), i))
        .collect();
    for met in graph::meetings(trace, all) {
        let pid = trace.processes[met.lock.0.ix()].pid;
        if let Some(&i) = index.get(&(pid, met.lock.1)) {
            out.locks[i].holder_running_ns += met.running_ns;
            out.locks[i].holder_preempted_ns += met.preempted_ns;
            out.locks[i].holder_blocked_ns += met.blocked_ns;
        }
    }
}

/// Each lock's share of the critical path. A hold inside a hold of another lock counts for both.
fn on_path(trace: &Trace, all: &[Acquisition], out: &mut Locks) {
    let path = crate::critical_path::stretches(trace);
    let length: i64 = path.iter().map(|(_, from, to)| (*to - *from).ns()).sum();
    if length == 0 {
        return;
    }
    let mut of_thread: HashMap<ThreadIx, Vec<(Time, Time)>> = HashMap::new();
    // The path comes last first.
    for &(thread, from, to) in path.iter().rev() {
        of_thread.entry(thread).or_default().push((from, to));
    }
    let mut sums: HashMap<(i32, u64), i64> = HashMap::new();
    for a in all {
        let Some(stretches) = of_thread.get(&a.thread) else {
            continue;
        };
        let pid = trace.processes[a.lock.0.ix()].pid;
        let sum = sums.entry((pid, a.lock.1)).or_default();
        // While a task waits its worker does something else.
        let wait = a.wait.filter(|_| !a.task.is_some());
        for (from, to) in wait.into_iter().chain(a.hold) {
            let first = stretches.partition_point(|s| s.1 <= from);
            *sum += stretches[first..]
                .iter()
                .take_while(|s| s.0 < to)
                .map(|s| (s.1.min(to) - s.0.max(from)).ns())
                .sum::<i64>();
        }
    }
    for lock in &mut out.locks {
        let ns = sums.get(&(lock.pid, lock.object)).copied().unwrap_or(0);
        lock.path_share = Some((ns as f64 / length as f64).min(1.0));
    }
}

/// Time in kernel spans of a kind / CPU time, when they were recorded. Of system calls the CPU time: a blocked call is
/// no work.
fn kernel_ratio(cut: &Cut<'_>, kind: KernelSpanKind, cpu_ns: i64) -> Option<f64> {
    let k = &cut.trace.kernel_spans;
    let mut spans = (0..k.start.len())
        .filter(|&row| k.kind[row] == kind)
        .peekable();
    spans.peek()?;
    let ns: i64 = spans
        .filter(|&row| k.thread[row].is_some() && cut.is_shown(k.thread[row]))
        .map(|row| match kind {
            KernelSpanKind::Syscall => holds::on_cpu(cut, k.thread[row], k.start[row], k.end[row]),
            _ => cut.overlap(k.start[row], k.end[row]),
        })
        .sum();
    (cpu_ns > 0).then(|| ns as f64 / cpu_ns as f64)
}

impl Use {
    fn add(&mut self, a: &Acquisition) {
        if let Some(ns) = a.hold_ns() {
            self.holds += 1;
            self.hold_wall_ns += ns;
            self.hold_cpu_ns += a.running_ns;
            self.hold_preempted_ns += a.preempted_ns;
            self.hold_blocked_ns += a.blocked_ns;
            self.hold_unknown_ns += a.unknown_ns;
        }
        if let Some(ns) = a.wait_ns() {
            self.requests += 1;
            if ns >= CONTENDED_NS {
                self.contended += 1;
                self.wait_ns += ns;
                self.wait_spin_ns += a.spun_ns;
                self.wait_max_ns = self.wait_max_ns.max(ns);
            }
        }
    }

    fn finish(&mut self, lengths: &mut [i64], cpu_ns: i64) {
        if !lengths.is_empty() {
            self.hold_p50_ns = percentile(lengths, 50);
            self.hold_p99_ns = percentile(lengths, 99);
            self.hold_max_ns = lengths.iter().copied().max().unwrap_or(0);
        }
        if cpu_ns > 0 {
            self.lock_ratio = Some(self.hold_cpu_ns as f64 / cpu_ns as f64);
        }
        let all = cpu_ns + self.wait_ns - self.wait_spin_ns;
        if all > 0 {
            self.wait_ratio = Some(self.wait_ns as f64 / all as f64);
        }
        let n = self.holds.max(self.requests);
        self.contended_share = if n > 0 {
            self.contended as f64 / n as f64
        } else {
            0.0
        };
    }
}
