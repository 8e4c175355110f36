//! Hints on what to try next, in plain words, each with its possible gain and, where there is one, the command.
//!
//! A hint is a rule over the answers of the other modules. Each rule says when it is given and when it must not be, and
//! has been followed on real programs and measured (docs/design/hints.md, bench/hints/run): a rule that was not is not
//! here. Below [`WORTH`] of the capacity they are silent, and so they are in doubt: advice that harms costs more than
//! advice that is missing.
mod by_code;
mod in_turn;
mod pool;

use crate::account::Masks;
use crate::account::throttle::Throttled;
use crate::at_end::{ThreadAtEnd, at_end};
use crate::call_paths::{
    Cover, Frames, PathFrame, Sampled, asks_for_lock, frame_name, path_frame, waits_for_end,
};
use crate::cut::Cut;
use crate::{HINT_KINDS, Hint, Interference, Summary, ThreadSummary};
use kasuri_base::quick::QuickMap;
use kasuri_model::{
    FrameIx, OccupancyRow, PathIx, Process, ProcessIx, SampleKind, StateRow, ThreadState, Time,
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Share of the capacity that a cause must cost before it is worth a line.
const WORTH: f64 = 0.02;
/// So many threads of a dead-lock are named.
const SHOWN: usize = 4;
/// Share of the capacity that other programs may use at most where a hint is about the program itself: with fewer threads
/// it would get a smaller part of the machine.
const OTHERS: f64 = 0.1;
/// Waits shorter than this end before the kernel could have moved the thread: it is no finding that it did not.
const MISPLACED_NS: i64 = 500_000;
/// One part in so many of its life a thread may have been on any CPU before it set its mask.
const BEGINNING: i64 = 100;
/// In all, a thread waits so long for a CPU beside an idle one only when it is kept off that one: the kernel looks for
/// work for an idle CPU at once, and again every few milliseconds.
const KEPT_NS: i64 = 50_000_000;

/// The hints, most to gain first.
pub(crate) fn hints(
    cut: &Cut<'_>,
    summary: &Summary,
    (cover, sampled): (&Cover, &Sampled),
) -> Vec<Hint> {
    if !summary.known.switches || summary.capacity_ns <= 0 {
        return Vec::new();
    }
    let worth = (summary.capacity_ns as f64 * WORTH) as i64;
    let ready = long_ready(cut);
    let mut out = Vec::new();
    out.extend(dead_lock(cut, summary, cover));
    out.extend(hang(cut, summary, cover));
    out.extend(killed_hang(cut, summary, sampled));
    let misplaced = misplaced(cut, summary, &ready).filter(|hint| hint.cost_ns >= worth);
    // Fewer threads are no remedy where they are many on the CPUs that a mask leaves them.
    out.extend(oversubscription(cut, summary).filter(|_| misplaced.is_none()));
    out.extend(interference(cut, summary));
    out.extend(misplaced);
    out.extend(schedule(summary));
    out.extend(cpu_limit(cut, summary));
    out.extend(by_code::gil(cut, summary));
    out.extend(by_code::lock_io(summary));
    out.extend(by_code::starved(cut, summary, sampled));
    out.extend(by_code::imbalance(summary));
    out.extend(by_code::small_parts(summary));
    out.extend(by_code::serial(summary));
    out.extend(by_code::one_after_another(summary));
    out.extend(in_turn::processes_in_turn(cut, summary));
    out.extend(by_code::page_faults(summary));
    let naps = [by_code::naps(summary), in_turn::naps(cut, summary)];
    out.extend(naps.into_iter().flatten().max_by_key(|hint| hint.cost_ns));
    out.extend(by_code::crowd(summary));
    out.extend(by_code::short_threads(cut, summary));
    out.extend(by_code::short_processes(cut, summary));
    out.extend(by_code::small_calls(summary));
    out.extend(by_code::small_syncs(summary));
    out.extend(by_code::allocator_lock(summary));
    out.extend(by_code::collector(summary));
    out.extend(by_code::shared_generator(summary));
    out.extend(by_code::herd(cut, summary));
    out.extend(pool::uv_pool(cut, summary, cover));
    out.retain(|hint| hint.cost_ns >= worth);
    out.sort_by_key(|hint| (std::cmp::Reverse(hint.cost_ns), hint.kind));
    // That others had the CPUs says nothing of the program.
    let of_program = out.iter().filter(|hint| hint.kind != "interference");
    let costs = of_program.fold(0i64, |sum, hint| sum.saturating_add(hint.cost_ns));
    // Last: nothing of it is known to be a loss.
    out.extend(by_code::busy(summary).filter(|busy| costs < busy.cost_ns / 2));
    debug_assert!(out.iter().all(|hint| HINT_KINDS.contains(&hint.kind)), "{out:?}");
    out
}

fn seconds(ns: i64) -> String {
    format!("{:.3} s", ns as f64 * 1e-9)
}

/// The part of the capacity that went to these classes.
fn lost_to(summary: &Summary, classes: &[&str]) -> i64 {
    let of = |class: &&crate::account::ClassSum| classes.contains(&class.class);
    let found = summary.account.classes.iter().filter(of);
    found.fold(0, |sum, class| sum.saturating_add(class.ns))
}

/// How long a thread that waits at the recording's end has waited within the range. One that is not known to have begun to wait in the
/// recording had begun before.
fn waited_in(cut: &Cut<'_>, summary: &Summary, thread: &ThreadAtEnd) -> i64 {
    let after = (cut.trace.span.end - cut.to).ns();
    let ns = |since: i64| (since - after).clamp(0, summary.wall_ns);
    thread.since_ns.map_or(summary.wall_ns, ns)
}

/// Threads that wait for each other when the recording ends: nothing ends that. It costs the time that they have waited within the range.
fn dead_lock(cut: &Cut<'_>, summary: &Summary, cover: &Cover) -> Option<Hint> {
    let at_end = at_end(cut.trace, cover)?;
    let circle = at_end.circles.first()?;
    let threads = || at_end.threads.iter().filter(|t| circle.contains(&t.tid));
    let waits = threads().map(|t| {
        let by = t.by.first().map_or(0, |by| by.tid);
        let what = match t.on.as_str() {
            "thread" => format!("{by} to end"),
            lock => format!("a {lock} that {by} has"),
        };
        format!("{} ({}) waits for {what}", t.name, t.tid)
    });
    let mut waits: Vec<String> = waits.collect();
    if waits.len() > SHOWN {
        waits.truncate(SHOWN);
        waits.push("..".into());
    }
    let waited = threads().fold(0i64, |sum, t| sum.saturating_add(waited_in(cut, summary, t)));
    Some(Hint {
        kind: "dead_lock",
        cost_ns: waited.min(summary.capacity_ns),
        text: format!(
            "dead-lock: {}. Nothing ends it. Let all threads take their locks in one order, and wait for no thread while they have one that it takes; kasuri where says in which code each waits",
            waits.join(", ")
        ),
        command: None,
    })
}

/// When the recording ends all threads of a process wait for each other, though no two of them for each other's locks. It costs the time that they have waited within the range.
fn hang(cut: &Cut<'_>, summary: &Summary, cover: &Cover) -> Option<Hint> {
    let at_end = at_end(cut.trace, cover)?;
    let &pid = at_end.stuck.first().filter(|_| at_end.circles.is_empty())?;
    let its = || at_end.threads.iter().filter(|t| t.pid == pid);
    let paths: Vec<&[PathFrame]> = its().map(|t| t.path.as_slice()).collect();
    let waited = its().fold(0i64, |sum, t| sum.saturating_add(waited_in(cut, summary, t)));
    let told =
        format!("all threads of process {pid} wait for what one of them must do, and none runs");
    Some(hang_hint(&told, &paths, waited.min(summary.capacity_ns)))
}

/// All threads of a process waited for each other until it was killed. It costs what they waited within the range.
fn killed_hang(cut: &Cut<'_>, summary: &Summary, sampled: &Sampled) -> Option<Hint> {
    let waits = sampled.killed.waits();
    let process = cut.trace.threads[waits.first()?.thread.ix()].process;
    let mut frames = Frames::new(cut.trace);
    let (mut waited, mut paths) = (0i64, Vec::new());
    for last in waits.iter().filter(|w| cut.trace.threads[w.thread.ix()].process == process) {
        let states = &cut.trace.states;
        let ns = cut.overlap(states.start[last.row], states.start[last.row + 1]);
        waited = waited.saturating_add(ns);
        let shown = frames.shown(last.path).to_vec();
        paths.push(shown.into_iter().map(|f| path_frame(cut.trace, f)).collect::<Vec<_>>());
    }
    let pid = cut.trace.processes[process.ix()].pid;
    let told = format!(
        "all threads of process {pid} waited for what one of them must do, and none did it until the process was killed"
    );
    let paths: Vec<&[PathFrame]> = paths.iter().map(Vec::as_slice).collect();
    Some(hang_hint(&told, &paths, waited.min(summary.capacity_ns)))
}

/// The places where threads wait, each once, with as many callers as tell apart those that called one function.
fn places(paths: &[&[PathFrame]]) -> Vec<String> {
    // By place: its number, in order of paths, and its callers.
    let mut places: HashMap<String, (usize, Vec<&PathFrame>)> = HashMap::new();
    for path in paths {
        let n = places.len();
        let (_, callers) = places.entry(by_code::call_in(path)).or_insert((n, Vec::new()));
        let outer = by_code::caller_in(path).and_then(|at| path.get(at + 1));
        if let Some(caller) = outer
            && callers.len() <= SHOWN
            && callers.iter().all(|one| one.function != caller.function)
        {
            callers.push(caller);
        }
    }
    let mut places: Vec<(String, (usize, Vec<&PathFrame>))> = places.into_iter().collect();
    places.sort_unstable_by_key(|(_, (n, _))| *n);
    let names = places.into_iter().flat_map(|(place, (_, callers))| match callers.len() > 1 {
        true => callers.iter().map(|f| format!("{place} called by {}", frame_name(f))).collect(),
        false => vec![place],
    });
    names.collect()
}

/// What was seen of a hang, and in which code.
fn hang_hint(told: &str, paths: &[&[PathFrame]], cost_ns: i64) -> Hint {
    let calls = |is_it: fn(&str) -> bool| {
        let first = paths.iter().filter_map(|path| path.first());
        first.filter(|frame| is_it(&frame.function)).count()
    };
    let (locks, joins) = (calls(asks_for_lock), calls(waits_for_end));
    let mut places = places(paths);
    if places.len() > SHOWN {
        places.truncate(SHOWN);
        places.push("..".into());
    }
    let remedy = match locks > 1 && locks + joins == paths.len() {
        true => {
            "All wait for locks, or for threads that do: let all threads take their locks in one order, and give back each that they took; kasuri record --locks tells who has which"
        }
        false => {
            "A task that waits for another task of its own pool leaves no thread to run it: run that one at once, or let the pool have more threads than such waits"
        }
    };
    Hint {
        kind: "hang",
        cost_ns,
        text: format!("hang: {told}, in {}. {remedy}", places.join("; in ")),
        command: None,
    }
}

/// A loop of OpenMP that another schedule makes shorter, replayed from its chunks.
///
/// Given for the loop with the most to save. Not given: see the reasons for which nothing is replayed (`openmp`).
fn schedule(summary: &Summary) -> Option<Hint> {
    let loops = summary.openmp.iter().flat_map(|openmp| &openmp.loops);
    let saving = loops.filter_map(|l| Some((l, l.advice()?)));
    let (l, best) = saving.max_by_key(|(_, best)| best.saves_ns)?;
    Some(Hint {
        kind: "schedule",
        cost_ns: best.saves_ns.saturating_mul(i64::from(l.times.threads)),
        text: format!(
            "schedule: {}: schedule({}) would save {} of its {}; replayed from {} chunks, each as long as it was",
            l.name,
            best.schedule,
            seconds(best.saves_ns),
            seconds(best.wall_ns.saturating_add(best.saves_ns)),
            l.chunks,
        ),
        command: (l.name.starts_with("for runtime "))
            .then(|| format!("export OMP_SCHEDULE={}", best.schedule)),
    })
}

/// The CPU limit of a cgroup held the program's threads back, as the kernel counted.
fn cpu_limit(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    let class = "throttled_by_cpu_limit";
    let causes = summary.account.causes.iter().filter(|c| c.class == class);
    let worst = causes.max_by_key(|c| c.ns)?;
    let mut groups = cut.trace.limits.groups.iter();
    let group = groups.find(|group| cut.trace.strings.get(group.text) == worst.name)?;
    let cost_ns = lost_to(summary, &[class]);
    Some(Hint {
        kind: "cpu_limit",
        cost_ns,
        text: format!(
            "CPU limit: the cgroup {} may use {:.2} CPUs ({}), and {} of CPU time was lost while that held ready threads of the program back. Raise the limit (Docker: --cpus, Kubernetes: resources.limits.cpu)",
            group.group,
            group.cpus,
            worst.name,
            seconds(cost_ns),
        ),
        command: None,
    })
}

/// More threads of one process than CPUs want to run at a time, and they wait for each other: the last thread
/// at a barrier may be last because it had no CPU.
///
/// Not given: where threads belong to several processes (`make -j`: each is one thread, and how many run at a time is not
/// how many there were); where no thread waits for another (pigz: more threads cost it nothing); where they wait for input
/// (more threads hide that); where other programs use the machine (more threads get more of it).
fn oversubscription(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    let mut threads: HashMap<i32, (usize, i64)> = HashMap::new();
    // Threads that did not want a tenth of a CPU are helpers, not workers.
    let wants =
        |t: &ThreadSummary| t.on_cpu_ns.saturating_add(t.runnable_ns) > summary.wall_ns / 10;
    for t in summary.threads.iter().filter(|t| t.is_target) {
        let wanted = t.on_cpu_ns.saturating_add(t.runnable_ns);
        if wants(t) {
            let process = threads.entry(t.pid).or_default();
            *process = (process.0 + 1, process.1.saturating_add(wanted));
        }
    }
    let (pid, (workers, wanted)) = threads.into_iter().max_by_key(|&(pid, (_, ns))| (ns, -pid))?;
    let mean = wanted as f64 / summary.wall_ns.max(1) as f64;
    let few = f64::from(summary.n_cpus);
    if workers <= summary.n_cpus as usize || mean <= few {
        return None;
    }
    let share = |ns: i64| ns as f64 / summary.capacity_ns as f64;
    let others = summary.cpus.iter().map(|c| c.other_ns);
    let waits_for_input = lost_to(summary, &["io_wait", "external_wait"]);
    if share(others.sum()) > OTHERS || share(waits_for_input) > WORTH {
        return None;
    }
    let its = summary.threads.iter().filter(|t| t.is_target && t.pid == pid && wants(t));
    let pools = pools(cut, its.map(|t| t.tid).collect());
    let of = pools.iter().take(SHOWN).map(|(root, n)| format!("{n} in {root}"));
    let pools = match pools.len() {
        0 | 1 => String::new(),
        _ => format!(" ({})", of.collect::<Vec<_>>().join(", ")),
    };
    let cost_ns = lost_to(
        summary,
        &["oversubscription", "load_imbalance", "waiting_for_own_threads", "scheduling_delay"],
    );
    Some(Hint {
        kind: "oversubscription",
        cost_ns,
        text: format!(
            "oversubscription: {workers} threads{pools} share {0} CPUs; {mean:.1} of them wanted to run at any time, and {1} of CPU time was lost while they waited for each other. Try {0} threads (OpenMP: OMP_NUM_THREADS={0}) and measure with kasuri compare: equal parts of the work ran 1.4 times as fast that way, uneven parts 0.8 times as fast",
            summary.n_cpus,
            seconds(cost_ns),
        ),
        command: None,
    })
}

/// The functions that these threads began with, as samples tell, each with its number of threads, most first.
fn pools(cut: &Cut<'_>, threads: HashSet<i32>) -> Vec<(String, usize)> {
    let (trace, frames) = (cut.trace, Frames::new(cut.trace));
    let s = &trace.samples;
    let mut roots: QuickMap<PathIx, Option<FrameIx>> = QuickMap::default();
    // By function: at each call it is at another line.
    let mut of_thread: BTreeMap<i32, BTreeMap<u32, (usize, FrameIx)>> = BTreeMap::new();
    for row in 0..s.time.len() {
        let (thread, path) = (s.thread[row], s.path[row]);
        let is_it = s.kind[row] == SampleKind::OnCpu && path.is_some() && thread.is_some();
        if !is_it || !threads.contains(&trace.threads[thread.ix()].tid) {
            continue;
        }
        let root = roots.entry(path).or_insert_with(|| frames.own(path).last().copied());
        if let Some(root) = *root {
            let by_root = of_thread.entry(trace.threads[thread.ix()].tid).or_default();
            by_root.entry(frames.function(root)).or_insert((0, root)).0 += 1;
        }
    }
    let mut pools: BTreeMap<String, usize> = BTreeMap::new();
    for by_root in of_thread.into_values() {
        if let Some((_, root)) = by_root.into_values().max_by_key(|(n, _)| *n) {
            *pools.entry(frame_name(&path_frame(trace, root))).or_default() += 1;
        }
    }
    let mut pools: Vec<(String, usize)> = pools.into_iter().collect();
    pools.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    pools
}

/// Whether it is a kernel thread, whose priority the user should not change.
fn is_of_kernel(cut: &Cut<'_>, process: usize) -> bool {
    let info = &cut.trace.processes[process];
    let parent = cut.trace.processes.get(info.parent.ix()).map(|p| p.pid);
    let name = cut.trace.strings.get(info.name);
    let starts = ["kworker/", "ksoftirqd/", "migration/", "rcu_", "irq/"];
    info.pid == 2 || parent == Some(2) || starts.iter().any(|start| name.starts_with(start))
}

/// The recorder, or another one: its CPU time is no other program's, and without it there is no recording. Recordings that do not tell it
/// know it by its name alone.
fn recorders(cut: &Cut<'_>) -> HashSet<i32> {
    let trace = cut.trace;
    let is_recorder = |&(ix, p): &(usize, &Process)| {
        trace.strings.get(p.name) == "kasuri" || trace.is_recorder(ProcessIx(ix as u32))
    };
    let processes = trace.processes.iter().enumerate();
    processes.filter(is_recorder).map(|(_, p)| p.pid).collect()
}

/// Whether this process ends the program's waits: a tenth of its threads' wake-ups. A few may be of devices and timers whose interrupts came while
/// it ran.
fn is_waited_for(cut: &Cut<'_>, process: usize) -> bool {
    let (mut all, mut of_it) = (0usize, 0usize);
    for thread in cut.threads().filter(|t| cut.is_target(*t)) {
        let ready = cut.trace.ready_of(thread);
        let woken = ready.filter(|row| row.state == ThreadState::RunnableWoken);
        for waker in woken.map(|row| row.by).filter(|by| by.is_some()) {
            all += 1;
            of_it += usize::from(cut.trace.threads[waker.ix()].process.ix() == process);
        }
    }
    of_it > 0 && of_it * 10 >= all
}

/// One other process took the CPU, or two did.
///
/// Not given: where many did, each a little (the next takes its place); where they have ended, are the kernel's, or the recorder, or work for
/// the program: clients or servers whom it waits for. Never a `taskset` away from it: a program on fewer CPUs is slower by more than what
/// it is freed from.
fn interference(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    let recorders = recorders(cut);
    let is_other = |i: &&Interference| !i.is_target && !recorders.contains(&i.pid);
    let others = || summary.interference.iter().filter(is_other);
    let all: i64 = others().map(|i| i.delayed_ns).sum();
    let can_wait = |other: &&Interference| {
        let mut processes = cut.trace.processes.iter();
        let Some(process) = processes.rposition(|p| p.pid == other.pid) else {
            return false;
        };
        let threads = &cut.trace.processes[process].threads;
        let is_there = (threads.start..threads.end)
            .any(|t| cut.trace.threads[t as usize].alive.end >= cut.trace.span.end);
        is_there && !is_of_kernel(cut, process) && !is_waited_for(cut, process)
    };
    // One with half of it, or two with a quarter each.
    let found: Vec<&Interference> =
        others().take(2).filter(|i| i.delayed_ns >= all / 4).filter(can_wait).collect();
    let delayed_ns = found.iter().map(|i| i.delayed_ns).sum();
    if found.is_empty() || delayed_ns < all / 2 {
        return None;
    }
    let names: Vec<String> = found.iter().map(|i| format!("{} ({})", i.process, i.pid)).collect();
    let commands: Vec<String> = found
        .iter()
        .map(|i| format!("sudo renice -n 19 -p {0}; echo 19 | sudo tee /proc/{0}/autogroup", i.pid))
        .collect();
    let (they, runs) = match found.len() {
        1 => ("it", "does"),
        _ => ("they", "do"),
    };
    Some(Hint {
        kind: "interference",
        cost_ns: delayed_ns,
        text: format!(
            "interference: {} ran while threads of the program were ready to run, and delayed them by {}. Measure when {they} {runs} not run, or on another machine; if {they} can wait, give {} the lowest priority (no effect where {} belong{} to another cgroup, such as a container's)",
            names.join(" and "),
            seconds(delayed_ns),
            if found.len() == 1 { "it" } else { "them" },
            they,
            if found.len() == 1 { "s" } else { "" },
        ),
        // Where the kernel groups processes by session, a priority holds inside one only, and the group has its own.
        command: Some(commands.join("; ")),
    })
}

/// Target threads' long waits for a CPU, in order of their start.
fn long_ready(cut: &Cut<'_>) -> Vec<(usize, StateRow)> {
    let mut out: Vec<(usize, StateRow)> = Vec::new();
    // A thread held back by a CPU limit would not have run elsewhere either.
    let throttled = Throttled::new(cut.trace);
    let is_long = |row: &StateRow| {
        let ns = cut.overlap(row.start, row.end);
        // Most waits are short: only of the others is it asked what held them.
        ns >= MISPLACED_NS && ns - throttled.overlap(row.cpu, row.start, row.end) >= MISPLACED_NS
    };
    for thread in cut.threads().filter(|t| cut.is_target(*t)) {
        let rows = cut.trace.ready_of(thread).filter(is_long);
        out.extend(rows.map(|row| (thread.ix(), row)));
    }
    out.sort_by_key(|(thread, row)| (row.start, *thread));
    out
}

/// By CPU: whether a thread was seen on it, once a hundredth of its life was over: a thread often sets its mask itself, first of all.
fn seen_on(cut: &Cut<'_>, thread: usize) -> Vec<bool> {
    let (info, states) = (&cut.trace.threads[thread], &cut.trace.states);
    let life = (info.alive.end - info.alive.start).ns();
    let since = Time(info.alive.start.0.saturating_add(life / BEGINNING));
    let mut seen = vec![false; cut.trace.cpus.len()];
    let rows = info.states.start as usize..info.states.end as usize;
    let begun = states.start[rows.clone()].partition_point(|start| *start < since);
    for row in rows.start + begun.saturating_sub(1)..rows.end {
        let ends = states.start.get(row + 1).filter(|_| row + 1 < rows.end);
        if states.state[row] == ThreadState::Running
            && ends.is_none_or(|end| *end > since)
            && let Some(seen) = seen.get_mut(usize::from(states.cpu[row]))
        {
            *seen = true;
        }
    }
    seen
}

/// A thread waits in one CPU's queue while its affinity mask closes another CPU to it that does not run the program,
/// or, where its mask was not read, on whose idle time it never ran.
///
/// Not given: where its mask allows the other CPU, or, not read, the thread was ever seen there;
/// where it waited beside it for less than [`KEPT_NS`] in all: then the kernel came late, and
/// pinning was not measured to help; or a CPU limit held threads for half of that time or more.
fn misplaced(cut: &Cut<'_>, summary: &Summary, ready: &[(usize, StateRow)]) -> Option<Hint> {
    if ready.is_empty() {
        return None;
    }
    // Where the program did not run, with: nothing did.
    let free: Vec<Vec<(Time, Time, bool)>> = (0..cut.trace.cpus.len())
        .map(|cpu| {
            let is_other = |row: &OccupancyRow| row.thread.is_some() && !cut.is_target(row.thread);
            let rows = cut.trace.occupancy_of(cpu).filter(|row| row.idle || is_other(row));
            rows.map(|row| (row.start.max(cut.from), row.end.min(cut.to), row.idle)).collect()
        })
        .collect();
    let masks = Masks::new(cut.trace);
    let mut seen: QuickMap<usize, Vec<bool>> = QuickMap::default();
    // Time before this moment has been promised to a thread already.
    let mut taken = vec![cut.from; free.len()];
    let mut found: HashMap<(u16, usize, usize), [i64; 2]> = HashMap::new();
    for (thread, row) in ready {
        let seen = seen.entry(*thread).or_insert_with(|| seen_on(cut, *thread));
        let is_seen = |cpu: usize| seen.get(cpu).copied().unwrap_or(false);
        let mask = masks.at(&cut.trace.threads[*thread], row.start);
        let strange = |cpu: &usize| match mask {
            Some(mask) => {
                cut.trace.cpus[*cpu].recorded && mask.binary_search(&(*cpu as u32)).is_err()
            }
            None => !is_seen(*cpu) && is_seen(usize::from(row.cpu)),
        };
        // Idle, and run by other programs. Where its mask was not read these may be why it was never there.
        let free_on = |cpu: usize| {
            let (from, to) = (row.start.max(taken[cpu]), row.end.min(cut.to));
            let first = free[cpu].partition_point(|i| i.1 <= from);
            let inside = free[cpu][first..].iter().take_while(|i| i.0 < to);
            inside.filter(|i| i.2 || mask.is_some()).fold([0, 0], |mut sums, i| {
                sums[usize::from(!i.2)] += (i.1.min(to) - i.0.max(from)).ns().max(0);
                sums
            })
        };
        let best = (0..free.len()).filter(strange).map(|cpu| (free_on(cpu), cpu)).max();
        if let Some((ns, cpu)) = best.filter(|b| b.0 != [0, 0]) {
            taken[cpu] = taken[cpu].max(row.end);
            let sums = found.entry((row.cpu, cpu, *thread)).or_default();
            (0..2).for_each(|at| sums[at] += ns[at]);
        }
    }
    found.retain(|_, ns| ns.iter().sum::<i64>() >= KEPT_NS);
    let [idle_ns, others_ns] = [0, 1].map(|at| found.values().map(|ns| ns[at]).sum::<i64>());
    // Others may have taken it from threads that are not pinned: no more than the account says.
    let others_ns = others_ns.min(lost_to(summary, &["scheduling_delay"]));
    let cost_ns = idle_ns + others_ns;
    if cost_ns == 0 {
        return None;
    }
    // The kernel's counter tells how long the limit held threads, not always when.
    if lost_to(summary, &["throttled_by_cpu_limit"]) > cost_ns / 2 {
        return None;
    }
    let worst = |(key, ns): &(&(u16, usize, usize), &[i64; 2])| {
        (ns.iter().sum::<i64>(), std::cmp::Reverse(**key))
    };
    let (&(queue, other, thread), _) = found.iter().max_by_key(worst)?;
    let info = &cut.trace.threads[thread];
    let thread = format!("thread {} ({})", cut.trace.strings.get(info.name), info.tid);
    let all = summary.account.bounds.machine_cpus;
    let not_used = match (idle_ns, others_ns) {
        (ns, 0) => format!("{} of CPU time was idle", seconds(ns)),
        (0, ns) => format!("{} of CPU time went to other programs", seconds(ns)),
        (idle, others) => format!(
            "{} of CPU time was idle, {} went to other programs,",
            seconds(idle),
            seconds(others)
        ),
    };
    let (text, command) = match masks.at(info, info.alive.end) {
        Some(mask) => (
            format!(
                "placement: {not_used} while ready threads were kept off by their affinity masks; most of it on CPU {other}, while {thread}, pinned to {}, waited for CPU {queue}. Let it run on all {all} CPUs: start it without taskset or numactl, OpenMP without GOMP_CPU_AFFINITY, a container without cpuset. To free it while it runs",
                cpus(mask),
            ),
            format!("taskset -apc 0-{} PID", all.saturating_sub(1)),
        ),
        None => (
            format!(
                "placement: {not_used} while ready threads never ran there; most of it on CPU {other}, while {thread} waited for CPU {queue}. An affinity mask, a cpuset or numactl keeps the thread there: let it run on all {all} CPUs. To see the masks while it runs",
            ),
            "grep Cpus_allowed_list /proc/PID/task/*/status".to_owned(),
        ),
    };
    Some(Hint { kind: "misplaced", cost_ns, text, command: Some(command) })
}

/// `CPU 0`, `CPUs 0, 2`; of many the first few.
fn cpus(mask: &[u32]) -> String {
    let few: Vec<String> = mask.iter().take(SHOWN).map(u32::to_string).collect();
    let more = if mask.len() > SHOWN { "..." } else { "" };
    format!("{} {}{more}", if mask.len() == 1 { "CPU" } else { "CPUs" }, few.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a mailed recording as many threads may hang as its author likes.
    #[test]
    fn callers_are_told_apart_and_few_of_many() {
        let frame = |function: &str, file: &str| PathFrame {
            function: function.into(),
            file: file.into(),
            ..PathFrame::default()
        };
        let path = |caller: &str| ["lock", "lock_it", caller].map(|name| frame(name, "")).to_vec();
        let named = |paths: &[Vec<PathFrame>]| {
            let paths: Vec<&[PathFrame]> = paths.iter().map(Vec::as_slice).collect();
            places(&paths)
        };
        let two = [path("send"), path("receive"), path("send")];
        assert_eq!(
            named(&two),
            ["lock called by lock_it called by send", "lock called by lock_it called by receive"]
        );
        assert_eq!(named(&two[..1]), ["lock called by lock_it"]);
        let many: Vec<Vec<PathFrame>> = (0..1000).map(|n| path(&n.to_string())).collect();
        assert_eq!(named(&many).len(), SHOWN + 1);
        // Who called is the user's function, and its caller comes behind that.
        let wait = frame("wait", "/usr/lib/python3.11/threading.py");
        let python = [frame("acquire", ""), wait, frame("job", "job.py"), frame("main", "job.py")];
        let direct = [frame("acquire", ""), frame("job", "job.py"), frame("start", "job.py")];
        assert_eq!(
            named(&[python.to_vec(), direct.to_vec()]),
            ["acquire called by job called by main", "acquire called by job called by start"]
        );
    }
}
