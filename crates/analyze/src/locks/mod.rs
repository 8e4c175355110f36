//! Locks: their holders and waiters, for how long, and the holder's state meanwhile. The answer of `kasuri locks`.
//!
//! A hold's time is split by joining it with its thread's scheduler states: *running* makes the lock ratio; *preempted* and *blocked* are
//! time in which others wait although the holder does not run. By the wall clock alone a true ratio of 0.80 read 1.29 on one CPU.
//!
//! | module | does |
//! |---|---|
//! | `holds` | slices -> acquisitions, each with its wait and its hold |
//! | `graph` | waits joined with the holds that they overlap: which thread waits for which |
//! | `order` | locks taken one inside another: inversions and circles |
//! | `owners` | locks by task, and waits for things that are not locks |
//! | `programs` | locks and time in the kernel by program of a tree of processes |
//! | `kernel` | system calls, the kernel's own locks, futex waits |
//! | `list` | acquisitions one by one, for tables |
//! | `answer` | the tables of the answer |
mod answer;
mod graph;
mod holds;
mod kernel;
mod list;
mod order;
mod owners;
mod programs;

pub use answer::*;
pub(crate) use holds::{Read, waits_for_unheld};
pub use list::Acquired;

use crate::cut::{Cut, percentile};
use holds::{Acquisition, LockKey, Owner};
use kasuri_model::{KernelSpanKind, ProcessIx, StrIx, ThreadIx, ThreadState, Time, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// See [`crate::Session::locks`].
pub(crate) fn answer(cut: &Cut<'_>, read: &Read) -> Locks {
    let trace = cut.trace;
    let mut out = Locks {
        schema: LOCKS_SCHEMA,
        command: trace.info.command.clone(),
        knows_states: !trace.states.start.is_empty(),
        wall_ns: (cut.to - cut.from).ns(),
        ..Locks::default()
    };
    let cpu = cpu_time(cut);
    out.cpu_ns = cpu.values().sum();
    let names = holds::names(trace, read);
    let name_of = |key: LockKey| names.get(&key).cloned().unwrap_or_default();
    let of_lock = of_locks(read);
    tables(cut, read, &of_lock, &cpu, &name_of, &mut out);
    let wait_graph = graph::wait_graph(trace, read, &of_lock);
    blame(trace, &wait_graph, &mut out);
    out.tasks = owners::tasks(cut, &read.all);
    out.waits = owners::waits(cut);
    out.waits_for = wait_graph.waits_for(trace, &name_of);
    order::find(trace, read, &name_of, &mut out);
    in_kernel(cut, &cpu, &read.all, &mut out);
    out.syscalls = kernel::syscalls(cut);
    out.kernel_locks = kernel::kernel_locks(cut);
    out.unseen_futex_ns = kernel::unseen_futex_ns(cut);
    if cut.whole && out.knows_states && !read.all.is_empty() {
        on_path(trace, read, &mut out);
    }
    out.total.finish(&mut Vec::new(), out.cpu_ns);
    out.lock_probe = trace.info.lock_probe.clone();
    out.sampled = out.lock_probe == "light";
    if out.sampled {
        // Waits are all there, holds are not: neither is a share of the other.
        out.forget_contended_shares();
    }
    out.not_seen = read.all.is_empty().then(|| not_seen(&out));
    out
}

/// Why no acquisition is in the recording, as far as it says.
fn not_seen(locks: &Locks) -> String {
    let probe = match locks.lock_probe.as_str() {
        "" => "recorded without --locks",
        _ => {
            "the program took no pthread lock; locks of Rust's std, Go, OpenMP runtimes and static programs are not recorded by --locks"
        }
    };
    let futex = match locks.unseen_futex_ns {
        None => "; waits in futex calls were not looked for (--syscalls)".into(),
        Some(0) => "; no thread slept in a futex call, so none was waited for long".into(),
        Some(ns) => format!(
            "; threads slept {:.1} ms in futex calls, so something was waited for",
            ns as f64 / 1e6
        ),
    };
    format!("{probe}{futex}")
}

impl Locks {
    fn forget_contended_shares(&mut self) {
        let rows = (self.locks.iter_mut().map(|l| &mut l.used))
            .chain(self.threads.iter_mut().map(|t| &mut t.used))
            .chain(self.processes.iter_mut().map(|p| &mut p.used))
            .chain(self.programs.iter_mut().map(|p| &mut p.used))
            .chain(self.tasks.iter_mut().map(|t| &mut t.used))
            .chain(self.sites.iter_mut().map(|s| &mut s.used));
        rows.chain([&mut self.total]).for_each(|used| used.contended_share = None);
    }
}

/// Shares of time in the kernel, of all and by program.
fn in_kernel(cut: &Cut<'_>, cpu: &BTreeMap<ThreadIx, i64>, all: &[Acquisition], out: &mut Locks) {
    let times = programs::InKernel {
        syscalls: programs::kernel_times(cut, KernelSpanKind::Syscall),
        contention: programs::kernel_times(cut, KernelSpanKind::LockContention),
    };
    let ratio = |of: &Option<_>, kind| programs::total(of.as_ref()?).ratio(kind, out.cpu_ns);
    let syscalls = ratio(&times.syscalls, KernelSpanKind::Syscall);
    let contention = ratio(&times.contention, KernelSpanKind::LockContention);
    (out.syscall_ratio, out.kernel_contention_ratio) = (syscalls, contention);
    out.programs = programs::programs(cut, cpu, all, &times);
}

/// CPU time of each shown thread within the range.
fn cpu_time(cut: &Cut<'_>) -> BTreeMap<ThreadIx, i64> {
    cut.threads()
        .filter(|&t| cut.is_shown(t))
        .map(|t| {
            let running = cut.trace.states_of(t).filter(|r| r.state == ThreadState::Running);
            (t, running.map(|r| cut.overlap(r.start, r.end)).sum())
        })
        .collect()
}

/// The sum of acquisitions, with the length of each hold.
type Sum = (Use, Vec<i64>);

/// The acquisitions of each lock.
fn of_locks(read: &Read) -> Vec<Vec<&Acquisition>> {
    let mut counts = vec![0; read.locks.len()];
    read.all.iter().for_each(|a| counts[a.lock_ix as usize] += 1);
    let mut out: Vec<Vec<&Acquisition>> = counts.into_iter().map(Vec::with_capacity).collect();
    read.all.iter().for_each(|a| out[a.lock_ix as usize].push(a));
    out
}

/// Sums by everything that a table has a row for.
#[derive(Default)]
struct Sums {
    by_thread: BTreeMap<ThreadIx, Sum>,
    by_process: BTreeMap<ProcessIx, Sum>,
    by_site: BTreeMap<(LockKey, String), Sum>,
    /// As [`Read::locks`] has them.
    by_lock: Vec<OfLock>,
}

/// The acquisitions of one lock, and who made them.
#[derive(Default)]
struct OfLock {
    sum: Sum,
    owners: BTreeSet<Owner>,
    last: Option<Owner>,
}

impl OfLock {
    fn add(&mut self, a: &Acquisition) {
        self.sum.0.add(a);
        self.sum.1.extend(a.hold_ns());
        // Many in a row are one thread's.
        if self.last.replace(a.owner()) != Some(a.owner()) {
            self.owners.insert(a.owner());
        }
    }
}

fn add_to<'a>(
    (used, lengths): &mut Sum,
    all: impl IntoIterator<Item = &'a Acquisition, IntoIter: ExactSizeIterator>,
) {
    let all = all.into_iter();
    lengths.reserve(all.len());
    for a in all {
        used.add(a);
        lengths.extend(a.hold_ns());
    }
}

impl Sums {
    fn of(trace: &Trace, read: &Read, of_lock: &[Vec<&Acquisition>]) -> Sums {
        let all = &read.all;
        let mut out = Sums::default();
        // In the order in which they lie in memory: of a lock's own list, each would be far from the one before.
        out.by_lock.extend(of_lock.iter().map(|own| OfLock {
            sum: (Use::default(), Vec::with_capacity(own.len())),
            ..OfLock::default()
        }));
        all.iter().for_each(|a| out.by_lock[a.lock_ix as usize].add(a));
        // By thread, as they are.
        for own in all.chunk_by(|a, b| a.thread == b.thread) {
            let thread = own[0].thread;
            let process = trace.threads[thread.ix()].process;
            add_to(out.by_thread.entry(thread).or_default(), own);
            add_to(out.by_process.entry(process).or_default(), own);
        }
        let mut by_site: HashMap<(LockKey, StrIx), Vec<&Acquisition>> = HashMap::new();
        for a in all.iter().filter(|a| a.site.is_some()) {
            by_site.entry((a.lock, a.site)).or_default().push(a);
        }
        for ((lock, site), all) in by_site {
            let site = (lock, trace.strings.get(site).into());
            add_to(out.by_site.entry(site).or_default(), all);
        }
        out
    }
}

fn tables(
    cut: &Cut<'_>,
    read: &Read,
    of_lock: &[Vec<&Acquisition>],
    cpu: &BTreeMap<ThreadIx, i64>,
    name_of: &dyn Fn(LockKey) -> String,
    out: &mut Locks,
) {
    let trace = cut.trace;
    let sums = Sums::of(trace, read, of_lock);
    read.all.iter().for_each(|a| out.total.add(a));
    let mut cpus: HashMap<ProcessIx, i64> = HashMap::new();
    for (thread, ns) in cpu {
        *cpus.entry(trace.threads[thread.ix()].process).or_default() += ns;
    }
    let cpu_of = |process| cpus.get(&process).copied().unwrap_or(0);
    let locks = read.locks.iter().zip(of_lock).zip(sums.by_lock);
    let locks = locks.map(|((&(key, _), all), of)| {
        let (mut used, mut lengths) = of.sum;
        used.inside_cpu_ns = used.hold_cpu_ns;
        used.finish(&mut lengths, cpu_of(key.0));
        let row = lock_row(trace, key, used, all);
        LockRow { name: name_of(key), threads: of.owners.len() as u32, ..row }
    });
    out.locks = locks.collect();
    out.locks.sort_by_key(|l| (most_waited_for(&l.used), l.pid, l.object));
    let threads = sums.by_thread.into_iter();
    let threads = threads.map(|(t, (mut used, mut lengths))| {
        used.finish(&mut lengths, cpu.get(&t).copied().unwrap_or(0));
        let info = &trace.threads[t.ix()];
        owner_row(trace, info.name, (trace.process_of(t).pid, info.tid), used)
    });
    out.threads = threads.collect();
    out.threads.sort_by_key(|t| (most_waited_for(&t.used), t.pid, t.tid));
    let processes = sums.by_process.into_iter();
    let processes = processes.map(|(p, (mut used, mut lengths))| {
        used.finish(&mut lengths, cpu_of(p));
        let info = &trace.processes[p.ix()];
        owner_row(trace, info.name, (info.pid, info.pid), used)
    });
    out.processes = processes.collect();
    out.processes.sort_by_key(|p| (std::cmp::Reverse(p.used.hold_cpu_ns), p.pid));
    let sites = sums.by_site.into_iter();
    let sites = sites.map(|((key, place), (mut used, mut lengths))| {
        used.inside_cpu_ns = used.hold_cpu_ns;
        used.finish(&mut lengths, cpu_of(key.0));
        SiteRow { lock: name_of(key), place, used }
    });
    out.sites = sites.collect();
    out.sites.sort_by_key(|s| most_waited_for(&s.used));
}

/// The order of tables: what was waited for longest comes first, then what was held longest.
fn most_waited_for(used: &Use) -> std::cmp::Reverse<(i64, i64)> {
    std::cmp::Reverse((used.wait_ns, used.hold_cpu_ns))
}

/// A lock's row, without its name and its number of threads; what holders did is added later.
fn lock_row(trace: &Trace, key: LockKey, used: Use, all: &[&Acquisition]) -> LockRow {
    let (kind, source) = owners::kind_and_source(trace, key);
    LockRow {
        name: String::new(),
        pid: trace.processes[key.0.ix()].pid,
        object: key.1,
        kind,
        source,
        threads: 0,
        path_share: None,
        convoy: (used.contended > 0).then(|| graph::convoy(all)).flatten(),
        holder_ns: 0,
        holder_running_ns: 0,
        holder_preempted_ns: 0,
        holder_blocked_ns: 0,
        used,
    }
}

/// The row of a thread or a process.
fn owner_row(trace: &Trace, name: StrIx, (pid, tid): (i32, i32), used: Use) -> OwnerRow {
    OwnerRow { name: trace.strings.get(name).into(), pid, tid, used }
}

/// The holders' states while others waited, lock by lock.
fn blame(trace: &Trace, wait_graph: &graph::WaitGraph, out: &mut Locks) {
    let index: HashMap<(i32, u64), usize> =
        out.locks.iter().enumerate().map(|(i, l)| ((l.pid, l.object), i)).collect();
    for (lock, &[held, running, preempted, blocked]) in &wait_graph.blame {
        let pid = trace.processes[lock.0.ix()].pid;
        if let Some(&i) = index.get(&(pid, lock.1)) {
            out.locks[i].holder_ns += held;
            out.locks[i].holder_running_ns += running;
            out.locks[i].holder_preempted_ns += preempted;
            out.locks[i].holder_blocked_ns += blocked;
        }
    }
}

/// Each lock's share of the critical path. A hold inside a hold of another lock counts for both.
fn on_path(trace: &Trace, read: &Read, out: &mut Locks) {
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
    let mut of_lock = vec![0; read.locks.len()];
    for own in read.all.chunk_by(|a, b| a.thread == b.thread) {
        let Some(stretches) = of_thread.get(&own[0].thread) else {
            continue;
        };
        // Length of the thread's stretches before each, and of all: a hold may last over very many.
        let mut before = vec![0];
        let lengths = stretches.iter().map(|(from, to)| (*to - *from).ns());
        before.extend(lengths.scan(0, |sum, ns| {
            *sum += ns;
            Some(*sum)
        }));
        let until = |time: Time| {
            let n = stretches.partition_point(|s| s.0 < time);
            let over = n
                .checked_sub(1)
                .map_or(0, |last| (stretches[last].1 - time.min(stretches[last].1)).ns());
            before[n] - over
        };
        for a in own {
            // While a task waits its worker does something else.
            let wait = a.wait.filter(|_| !a.task.is_some());
            for (from, to) in wait.into_iter().chain(a.hold) {
                of_lock[a.lock_ix as usize] += until(to) - until(from);
            }
        }
    }
    let mut sums: HashMap<(i32, u64), i64> = HashMap::new();
    for ((lock, _), ns) in read.locks.iter().zip(of_lock) {
        let pid = trace.processes[lock.0.ix()].pid;
        *sums.entry((pid, lock.1)).or_default() += ns;
    }
    for lock in &mut out.locks {
        let ns = sums.get(&(lock.pid, lock.object)).copied().unwrap_or(0);
        lock.path_share = Some((ns as f64 / length as f64).min(1.0));
    }
}

impl Use {
    fn add(&mut self, a: &Acquisition) {
        if let Some(ns) = a.hold_ns() {
            self.holds += 1;
            self.hold_wall_ns += ns;
            self.hold_cpu_ns += a.running_ns;
            self.inside_cpu_ns += a.inside_ns;
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
        // Without CPU time it is not known when threads ran, and there are no shares of it. Without an acquisition nothing was seen.
        let n = self.holds.max(self.requests);
        if n == 0 {
            return;
        }
        if cpu_ns > 0 {
            let all = cpu_ns + self.wait_ns - self.wait_spin_ns;
            self.lock_ratio = Some((self.inside_cpu_ns as f64 / cpu_ns as f64).min(1.0));
            self.wait_ratio = Some((self.wait_ns as f64 / all.max(1) as f64).min(1.0));
        }
        self.contended_share = Some(self.contended as f64 / n as f64);
    }
}
