//! Hints that the code behind a loss tells: what holders of a lock did, who was late where, what ran alone.
use super::{lost_to, seconds};
use crate::account::{CauseSummary, Class};
use crate::call_paths::{
    ChainNode, ClassPaths, HotPath, PathFrame, Sampled, allocates, asks_for_lock, frame_name,
    is_gil, is_libc, is_of_machine, is_of_monitor, is_page_fault, is_python_look, is_pythons_own,
    is_shared_generator, makes_durable, path_frame, waits_for_end, waits_for_event,
    waits_for_notify, waits_outside,
};
use crate::cut::Cut;
use crate::demangle::{demangled, short_name};
use crate::{Hint, Summary, ThreadSummary};
use kasuri_base::call_path::{CALLERS_NOT_KNOWN, PYTHON};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{FrameIx, PathIx, SampleKind, StrIx, ThreadIx, Time};
use std::collections::{BTreeMap, HashSet};

/// A thread that runs for less of the time is a helper: a program with one other is not parallel.
const WORKER: f64 = 0.1;
/// Python's code outside of all functions.
const PYTHONS_TOP: &str = "py::<module>";
/// What is named must be behind this part of its class.
const MOST: f64 = 0.5;
/// This part of the program's work is worth a hint about what it is: to save less makes a run at
/// most 1.1 times as fast, which is within the scatter of runs.
const PART: f64 = 0.1;
/// A process that ran for less than this part of the busiest thread's time is no worker beside it.
const PART_OF_A_WORKER: f64 = 0.01;
/// A thread that sleeps again and again looks for something; once is a choice.
const NAPS: u64 = 2;
/// To make and to end a thread, and a process, takes up to so long: measured, see
/// docs/design/hints.md.
const THREAD_NS: i64 = 20_000;
const PROCESS_NS: i64 = 2_000_000;
/// So many waits for a disk can be fewer.
const SYNCS: u64 = 50;
/// Nobody notices less.
const NOTICED_NS: i64 = 20_000_000;
/// So many threads that one thread wakes at once are a herd.
const HERD: usize = 4;
/// Wake-ups by one thread with no longer a pause between them are one call's.
const AT_ONCE_NS: i64 = 100_000;

/// Where samples have the most of a class's time; none: nowhere.
fn code(summary: &Summary, class: &str) -> Option<ClassPaths> {
    let classes = &summary.call_paths.as_ref()?.classes;
    classes.iter().find(|c| c.class == class).cloned()
}

/// `function (file:line)`.
fn named(frame: &PathFrame) -> String {
    let file = frame.file.rsplit('/').next().unwrap_or_default();
    let name = frame_name(frame);
    match (file, frame.line) {
        ("", _) | (_, 0) => name,
        // A place inside of the C library says nothing to who calls it.
        _ if is_libc(&frame.module) => name,
        (file, line) => format!("{name} ({file}:{line})"),
    }
}

/// Of a call's path: the row of who called, the first that is the user's own.
pub(super) fn caller_in(frames: &[PathFrame]) -> Option<usize> {
    let is_users = |f: &PathFrame| !is_pythons_own(&f.file);
    let outer = frames.get(1..).unwrap_or_default();
    let first = (!outer.is_empty()).then_some(0);
    outer.iter().position(is_users).or(first).map(|at| at + 1)
}

/// A call, and the program's function that made it; of what comes with Python who called that.
pub(super) fn call_in(frames: &[PathFrame]) -> String {
    let caller = caller_in(frames).map(|at| &frames[at]);
    let known = frames.first().into_iter().chain(caller).filter(|f| !f.function.is_empty());
    let of: Vec<String> = known.map(named).collect();
    of.join(" called by ")
}

fn hint(kind: &'static str, cost_ns: i64, text: String) -> Hint {
    Hint { kind, cost_ns, text, command: None }
}

/// Threads of Python wait for its global lock.
///
/// Where most of them hand out work to other processes, more processes are no remedy.
pub(super) fn gil(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    let is_it = |c: &&CauseSummary| {
        c.class == "lock_wait" && (is_gil(&c.name) || c.name.starts_with("GIL"))
    };
    let cost_ns = summary.account.causes.iter().filter(is_it).map(|c| c.ns).sum();
    let lost = seconds(cost_ns);
    if cost_ns == 0 {
        return None;
    }
    let text = match (hands_out(cut), looks(cut)) {
        (false, Some((look, share))) => format!(
            "Python's GIL: threads only looked, in {look}, for {:.0} % of the time that Python ran since they began, and took turns with the one that works; {lost} of CPU time was lost while they waited for theirs. Where what they look for is mostly not there, let them wait for it: get() in place of get_nowait(), Event.wait(), Thread.join(), Future.result()",
            share * 100.0
        ),
        (true, _) => format!(
            "Python's GIL: threads that hand out work to processes run one at a time; {lost} of CPU time was lost while they waited for their turn. Hand out larger parts (chunksize of map), so that each takes a process longer"
        ),
        (false, None) => format!(
            "Python's GIL: threads in Python run one at a time; {lost} of CPU time was lost while they waited for their turn. Divide the work over processes (concurrent.futures.ProcessPoolExecutor, multiprocessing), or use a Python without the GIL (3.13t and later)"
        ),
    };
    Some(hint("gil", cost_ns, text))
}

/// Whether half or more of the waits for Python's global lock are of threads that hand out work to processes.
fn hands_out(cut: &Cut<'_>) -> bool {
    const FILES: [&str; 3] = [
        "/concurrent/futures/process.py",
        "/multiprocessing/pool.py",
        "/multiprocessing/queues.py",
    ];
    let (trace, s) = (cut.trace, &cut.trace.samples);
    let f = &trace.frames;
    let has = |path: PathIx, of: &[StrIx], is_it: &dyn Fn(&str) -> bool| {
        trace.frames_of(path).any(|frame| is_it(trace.strings.get(of[frame.ix()])))
    };
    let is_file = |file: &str| FILES.iter().any(|end| file.ends_with(end));
    let mut known: QuickMap<PathIx, (bool, bool)> = QuickMap::default();
    let (mut all, mut handing) = (0u32, 0u32);
    for row in (0..s.time.len()).filter(|&row| s.kind[row].is_wait()) {
        let path = s.path[row];
        if !path.is_some() || !cut.contains(s.time[row]) || !cut.is_target(s.thread[row]) {
            continue;
        }
        let (is_wait, is_handing) = *known
            .entry(path)
            .or_insert_with(|| (has(path, &f.function, &is_gil), has(path, &f.file, &is_file)));
        all += u32::from(is_wait);
        handing += u32::from(is_wait && is_handing);
    }
    all > 0 && f64::from(handing) >= MOST * f64::from(all)
}

/// Threads of Python that look for something more than they do anything else, where at most one other computes beside them: the
/// look of most samples with who called it, and their part of what Python ran since the first of them.
fn looks(cut: &Cut<'_>) -> Option<(String, f64)> {
    let (trace, s) = (cut.trace, &cut.trace.samples);
    let f = &trace.frames;
    let text = |text: StrIx| trace.strings.get(text);
    let of_python =
        |path| trace.frames_of(path).filter(|frame: &FrameIx| text(f.module[frame.ix()]) == PYTHON);
    let is_look =
        |frame: &FrameIx| is_python_look(text(f.function[frame.ix()]), text(f.file[frame.ix()]));
    // Whether it is a function in Python, and one that looks.
    let mut known: QuickMap<PathIx, (bool, bool)> = QuickMap::default();
    let ran: Vec<(usize, bool)> = (0..s.time.len())
        .filter(|&row| {
            s.kind[row] == SampleKind::OnCpu
                && s.path[row].is_some()
                && cut.contains(s.time[row])
                && cut.is_target(s.thread[row])
        })
        .filter_map(|row| {
            let path = s.path[row];
            let (is_it, looks) = *known.entry(path).or_insert_with(|| {
                (of_python(path).next().is_some(), of_python(path).any(|frame| is_look(&frame)))
            });
            is_it.then_some((row, looks))
        })
        .collect();
    let mut threads: QuickMap<ThreadIx, (usize, usize)> = QuickMap::default();
    for &(row, looks) in &ran {
        let (all, looked) = threads.entry(s.thread[row]).or_default();
        (*all, *looked) = (*all + 1, *looked + usize::from(looks));
    }
    let is_looker = |thread: ThreadIx| {
        let (all, looked) = threads[&thread];
        looked as f64 >= MOST * all as f64
    };
    let of_lookers = ran.iter().filter(|row| is_looker(s.thread[row.0]));
    let from = of_lookers.map(|row| s.time[row.0]).min()?;
    let beside: Vec<_> = ran.iter().filter(|row| s.time[row.0] >= from).collect();
    let mut others: QuickMap<ThreadIx, usize> = QuickMap::default();
    let mut places: QuickMap<PathIx, usize> = QuickMap::default();
    let mut looked = 0;
    for &&(row, looks) in &beside {
        match is_looker(s.thread[row]) {
            true if looks => {
                looked += 1;
                *places.entry(s.path[row]).or_default() += 1;
            }
            true => {}
            false => *others.entry(s.thread[row]).or_default() += 1,
        }
    }
    let least = PART * beside.len() as f64;
    let n_work = others.values().filter(|&&n| n as f64 >= least).count();
    let (&most, _) = places.iter().max_by_key(|&(path, n)| (*n, std::cmp::Reverse(*path)))?;
    let frames = of_python(most).skip_while(|frame| !is_look(frame));
    let frames: Vec<PathFrame> = frames.map(|frame| path_frame(trace, frame)).collect();
    (looked as f64 >= least && n_work <= 1)
        .then(|| (call_in(&frames), looked as f64 / beside.len() as f64))
}

/// A lock is held during a call that waits for something outside of the program.
///
/// Not given: where holders compute for more of the time that is waited for the lock.
pub(super) fn lock_io(summary: &Summary) -> Option<Hint> {
    let code = code(summary, "lock_wait")?;
    let is_outside =
        |frames: &[PathFrame]| frames.first().is_some_and(|f| waits_outside(&f.function));
    let mut held: Vec<(String, i64)> = Vec::new();
    let mut add = |frames: &[PathFrame], ns: i64| {
        let call = call_in(frames);
        match held.iter_mut().find(|held| held.0 == call) {
            Some(held) => held.1 += ns,
            None => held.push((call, ns)),
        }
    };
    let mut kept_off = 0;
    match &code.chains {
        Some(chains) => {
            let holders = || chains.nodes.iter().filter(|n| n.depth == 1);
            // A library's own function is told by the call that it makes: `fprintf` by its write.
            let calls = ["sleep", "read", "write", "poll"];
            let sleeps = |n: &ChainNode| calls.contains(&n.call) || is_outside(&n.frames);
            let runs = |n: &ChainNode| n.did == "ran" && is_outside(&n.frames);
            let inside = holders().filter(|n| runs(n) || (n.did == "waited" && sleeps(n)));
            inside.for_each(|n| add(&n.frames, n.ns));
            kept_off = holders().filter(|n| n.did == "ready").map(|n| n.ns).sum();
        }
        None => {
            let paths = code.meanwhile.iter().flat_map(|m| &m.paths);
            let asleep = paths.filter(|p| is_outside(&p.frames) && p.waited_ns * 2 > p.ns);
            asleep.for_each(|p| add(&p.frames, p.waited_ns));
        }
    }
    let (call, cost_ns) = held.into_iter().max_by_key(|held| held.1)?;
    // Of what is waited for the holders, leaving out what other programs' use of the CPUs adds.
    let share = cost_ns as f64 / code.ns.saturating_sub(kept_off).max(cost_ns).max(1) as f64;
    if share < PART {
        return None;
    }
    Some(hint(
        "lock_io",
        cost_ns,
        format!(
            "lock held during a call that waits: for {:.0} % of the time for which threads waited for a lock, its holder was in {call}; {} of CPU time was lost to that. Make the call before the lock is taken or after it is given back",
            share * 100.0,
            seconds(cost_ns)
        ),
    ))
}

/// Threads do unequal parts of one phase, as samples tell.
///
/// Not given: where other programs took half as much or more (a thread may be late because it had no CPU); where a schedule was replayed from chunks.
pub(super) fn imbalance(summary: &Summary) -> Option<Hint> {
    let is_late = |c: &&CauseSummary| {
        matches!((c.class, c.note), ("load_imbalance", "by_samples") | ("spinning", "late_thread"))
            && !c.code.is_empty()
    };
    let late = || summary.account.causes.iter().filter(is_late);
    let worst = late().max_by_key(|c| c.ns)?;
    let same = late().filter(|c| (&c.code, &c.code_place) == (&worst.code, &worst.code_place));
    let cost_ns: i64 = same.map(|c| c.ns).sum();
    // What others use of a CPU while a thread waits takes nothing from the program.
    let taken = lost_to(summary, &["interference"]);
    let has_schedules = summary.openmp.iter().any(|openmp| !openmp.loops.is_empty());
    if taken > cost_ns / 2 || has_schedules {
        return None;
    }
    let place = worst.code_place.as_deref().map(|place| place.rsplit('/').next().unwrap_or(place));
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    let of_openmp =
        |f: &PathFrame| f.function.contains("._omp_fn") || f.function.contains(".omp_outlined");
    let classes = summary.call_paths.iter().flat_map(|paths| &paths.classes);
    let paths: Vec<&HotPath> = classes
        .filter(|c| c.class == worst.class)
        .flat_map(|c| c.paths.paths.iter().chain(c.meanwhile.iter().flat_map(|m| &m.paths)))
        .collect();
    let is_openmp = paths.iter().flat_map(|path| &path.frames).any(of_openmp);
    // A part of the library that its own functions jump to has no name where it is stripped.
    let is_nameless = |path: &&HotPath| match path.frames.as_slice() {
        [library, region, ..] => {
            library.function.is_empty() && library.module.contains("omp") && of_openmp(region)
        }
        _ => false,
    };
    let nameless = paths.iter().find(|path| is_nameless(path));
    let remedy = match (is_openmp, nameless) {
        (true, Some(path)) => format!(
            "Inside of the region threads ran in {}, whose functions have no names: they waited there, or it handed out parts. If it is a loop, let threads take its parts as they become free (schedule(dynamic, 64), schedule(guided)), not in parts as small as schedule(dynamic) alone makes them. kasuri record --openmp tells which it is, and what each would save",
            path.frames[0].module
        ),
        (true, None) => {
            "If it is a loop, let threads take its parts as they become free: schedule(dynamic) or schedule(guided). kasuri record --openmp tells what each would save".to_owned()
        }
        (false, _) => {
            "Divide the work into more parts than threads, let each thread take the next part when it is done with one, and begin with the longest".to_owned()
        }
    };
    Some(hint(
        "imbalance",
        cost_ns,
        format!(
            "load imbalance: the parts of {}{place} are unequal; {} of CPU time was lost while threads waited for the last one. {remedy}",
            worst.code,
            seconds(cost_ns)
        ),
    ))
}

/// To hand out a loop's parts takes much of the work.
///
/// Not given: for less than [`PART`] of what the program ran for.
pub(super) fn small_parts(summary: &Summary) -> Option<Hint> {
    let code = code(summary, "task_runtime")?;
    let hands_out = |f: &PathFrame| {
        (f.function.starts_with("GOMP_loop_") && f.function.ends_with("_next"))
            || f.function.starts_with("__kmpc_dispatch_next")
    };
    let asks = |path: &&HotPath| path.frames.first().is_some_and(hands_out);
    let asks: Vec<&HotPath> = code.paths.paths.iter().filter(asks).collect();
    let most = asks.iter().max_by_key(|path| path.ns)?;
    let cost_ns: i64 = asks.iter().map(|path| path.ns).sum();
    let share = cost_ns as f64 / summary.on_cpu_ns.max(1) as f64;
    (share >= PART).then(|| {
        hint(
            "small_parts",
            cost_ns,
            format!(
                "small parts: to hand out a loop's parts took {} of CPU time, {:.0} % of what the program used, most of it in {}. Hand out more of the loop at a time: schedule(dynamic, 64) or schedule(guided), or schedule(static) where the parts are equal",
                seconds(cost_ns),
                share * 100.0,
                call_in(&most.frames)
            ),
        )
    })
}

/// A thread waits for a lock for most of the run, while others use the CPUs: that costs no CPU time, and it gets nowhere.
///
/// Not given: where less than [`MOST`] of the run is in such waits that no idle CPU is charged to; where its function, program or library is not
/// known.
pub(super) fn starved(cut: &Cut<'_>, summary: &Summary, sampled: &Sampled) -> Option<Hint> {
    let charged = lost_to(summary, &["lock_wait"]);
    let mut worst: Option<(i64, ThreadIx, &str)> = None;
    for thread in cut.threads().filter(|&thread| cut.is_target(thread)) {
        let (mut ns, mut asks) = (0, BTreeMap::<&str, i64>::new());
        for row in cut.trace.states_of(thread).filter(|row| row.state.is_blocked()) {
            let length = cut.overlap(row.start, row.end);
            let place = sampled.wait(thread.ix(), row.start);
            if length > 0 && sampled.class(place) == Some(Class::LockWait) {
                let name = cut.trace.strings.get(sampled.places[place as usize].name);
                *asks.entry(name).or_default() += length;
                ns += length;
            }
        }
        let most = asks.into_iter().max_by_key(|&(_, ns)| ns);
        if let Some((name, _)) = most.filter(|(name, _)| !name.is_empty() && !is_gil(name))
            && worst.is_none_or(|worst| worst.0 < ns)
        {
            worst = Some((ns, thread, name));
        }
    }
    let (ns, thread, asks) = worst?;
    if ((ns - charged) as f64) < MOST * summary.wall_ns as f64 {
        return None;
    }
    let info = &cut.trace.threads[thread.ix()];
    Some(hint(
        "starved",
        ns - charged,
        format!(
            "without a turn: thread {} ({}) waited for a lock that {} asks for, for {} of {}, while others had the CPUs: little CPU time was lost by that, but the thread gets nowhere. If it is to write what the others read: readers of a pthread_rwlock go before a writer that waits, unless it is made so that they do not (PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP), or is a mutex",
            cut.trace.strings.get(info.name),
            info.tid,
            short_name(asks),
            seconds(ns),
            seconds(summary.wall_ns),
        ),
    ))
}

/// One function runs alone; where none has most of the time, all that one function called.
///
/// Not given: where no second thread does a part of the work: such a program is not parallel;
/// where it has no name; where it is a call that reads, writes or waits, or Python's code at the
/// start of a program or a module, which nobody can divide; where a run without it would be no more
/// than [`PART`] faster; where it comes in parts of [`THREAD_NS`] or less, each of which another
/// thread asks for and waits for: to hand such a part to a third would take longer.
pub(super) fn serial(summary: &Summary) -> Option<Hint> {
    let code = code(summary, "low_parallelism")?;
    let is_alone = |c: &&CauseSummary| c.class == "low_parallelism" && c.note == "serial_phase";
    let alone = || summary.account.causes.iter().filter(is_alone);
    let path = code.paths.paths.first()?;
    let first_is =
        |is_it: fn(&str) -> bool| path.frames.first().is_some_and(|f| is_it(&f.function));
    let alone_ns: i64 = alone().map(|c| c.ns).sum();
    // Nobody calls a page fault: of it the function is named that touched the memory.
    let is_most = path.ns as f64 >= MOST * alone_ns as f64 && !first_is(is_page_fault);
    let (function, cost_ns) = if is_most {
        let is_wait = path.waited_ns as f64 >= MOST * path.ns as f64
            || [waits_outside, waits_for_event, asks_for_lock, waits_for_end]
                .into_iter()
                .any(first_is);
        if is_wait || first_is(str::is_empty) || is_loading(path) {
            return None;
        }
        let names: Vec<String> = path.frames.iter().take(2).map(named).collect();
        (names.join(" called by "), path.ns.min(alone_ns))
    } else {
        let phase = alone().find(|c| !c.code.is_empty() && c.thread_share >= MOST)?;
        let function = phase.code.split(" < ").next().unwrap_or_default();
        let mut frames = code.paths.paths.iter().flat_map(|path| &path.frames);
        let of_machine = frames.any(|f| is_machines(f) && frame_name(f) == function);
        // Its outermost function is hardly shown.
        if of_machine || [PYTHONS_TOP, "JavaMain"].contains(&function) {
            return None;
        }
        (phase.code.replace(" < ", " called by "), phase.ns)
    };
    let is_gos = |f: &PathFrame| f.function.starts_with("runtime.") || f.file.ends_with(".go");
    let others = i64::from(summary.n_cpus).saturating_sub(1);
    if others < 1 {
        return None;
    }
    if path.frames.iter().any(is_gos) {
        return Some(goroutines(&function, cost_ns));
    }
    if !is_parallel(summary) || takes_turns(&code) {
        return None;
    }
    // Its global lock lets one thread at a time run.
    let among = match path.frames.iter().any(|f| f.module == PYTHON) {
        true => "processes",
        false => "threads",
    };
    let alone = cost_ns / others;
    let saved = cost_ns / i64::from(summary.n_cpus);
    let rest = summary.wall_ns.saturating_sub(saved).max(1);
    if (saved as f64) < PART * rest as f64 {
        return None;
    }
    Some(hint(
        "serial_phase",
        cost_ns,
        format!(
            "serial phase: {function} ran alone for {} of {}. Divide it among {among}, or run it beside other work: spread over {} CPUs, it would make the run at most {:.2} times as fast",
            seconds(alone),
            seconds(summary.wall_ns),
            summary.n_cpus,
            summary.wall_ns as f64 / rest as f64
        ),
    ))
}

/// Whether what a class of loss has is waits of [`THREAD_NS`] or less for what another thread
/// writes, by most of their time.
fn takes_turns(code: &ClassPaths) -> bool {
    let nodes = || code.chains.iter().flat_map(|chains| &chains.nodes);
    let heads = || nodes().filter(|n| n.depth == 0 && n.did == "waited");
    let is_turn = |n: &&ChainNode| {
        n.call == "read" && n.waits > 1 && n.waits_ns / n.waits.max(1) as i64 <= THREAD_NS
    };
    let all: i64 = heads().map(|n| n.ns).sum();
    let turns: i64 = heads().filter(is_turn).map(|n| n.ns).sum();
    turns as f64 > MOST * all as f64
}

/// Whether Python imports a module there, or a process of it begins, or a language's machine does its own.
fn is_loading(path: &HotPath) -> bool {
    let imports = path.frames.iter().any(|f| f.file.starts_with("<frozen importlib"));
    let is_top = |f: &PathFrame| f.function == PYTHONS_TOP && !f.file.ends_with(".py");
    imports || path.frames.first().is_some_and(|f| is_top(f) || is_machines(f))
}

/// Whether it is a function of a language's machine, not of the program's.
fn is_machines(frame: &PathFrame) -> bool {
    is_of_machine(&frame.function, &frame.module)
}

/// One thread of Go's runs: whether goroutines wait meanwhile is not recorded.
fn goroutines(function: &str, cost_ns: i64) -> Hint {
    hint(
        "goroutines",
        cost_ns,
        format!(
            "one goroutine at a time: {function} ran while no other one did; {} of CPU time was lost. Whether others had nothing to do, or waited for a lock, a channel or their turn, is not recorded: runtime/trace tells. Turns are as many as GOMAXPROCS says; where that is less than the CPUs, raise it",
            seconds(cost_ns)
        ),
    )
}

/// The kernel gives memory, one page at a time, or copies it where processes share it.
///
/// Not given: where no function of the program's touches it, as while programs are loaded, or it has
/// no name, or is a language's machine's; where the kernel sends a signal for [`PART`] of the time: a
/// program that protects its memory to be told of writes. Where others are idle meanwhile is no time
/// of the faults.
pub(super) fn page_faults(summary: &Summary) -> Option<Hint> {
    let work = code(summary, "work")?;
    let first_is = |path: &&HotPath| {
        let first = path.frames.first();
        let is_signal = path.signals_ns as f64 >= PART * path.ns as f64;
        first.is_some_and(|f| is_page_fault(&f.function)) && !is_signal
    };
    let faults = work.paths.paths.iter().filter(first_is);
    let is_go = |frame: &PathFrame| frame.file.ends_with(".go");
    let mut by: Vec<(&PathFrame, i64, i64)> = Vec::new();
    for path in faults {
        let own = path.frames.get(1).filter(|f| !f.function.is_empty() && !is_machines(f));
        let Some(own) = own else {
            continue;
        };
        match by.iter_mut().find(|by| named(by.0) == named(own)) {
            Some(by) => (by.1, by.2) = (by.1 + path.ns, by.2 + path.copies_ns),
            None => by.push((own, path.ns, path.copies_ns)),
        }
    }
    let (own, cost_ns, copies_ns) = by.into_iter().max_by_key(|by| by.1)?;
    let function = named(own);
    if copies_ns as f64 >= MOST * cost_ns as f64 {
        let python = match own.module == PYTHON {
            true => {
                ". To look at an object of Python's is to write its count of references: keep much data in few objects (array, bytes)"
            }
            false => "",
        };
        return Some(hint(
            "page_faults",
            cost_ns,
            format!(
                "page faults: {function} wrote to memory that its process shares with another since a fork: the kernel copies each such page first, and that took {} of CPU time. Make processes before the memory is filled, or write less of it{python}",
                seconds(cost_ns)
            ),
        ));
    }
    // Go asks the kernel itself.
    let remedy = match is_go(own) {
        true => "Keep memory and use it again (sync.Pool, one slice for all rounds)",
        false => {
            "Use memory again instead of giving it back (munmap, free of large blocks), or ask for large pages (madvise MADV_HUGEPAGE; malloc: GLIBC_TUNABLES=glibc.malloc.hugetlb=1). kasuri try measures what malloc's settings bring"
        }
    };
    Some(hint(
        "page_faults",
        cost_ns,
        format!(
            "page faults: {function} touched memory that the kernel had not given it yet, which takes a fault for each page, and took {} of CPU time. {remedy}",
            seconds(cost_ns)
        ),
    ))
}

/// Threads wait for one that sleeps for a time again and again. It looks for something to do between
/// two sleeps, or it has something that they want, and gives it back in code that does not sleep.
///
/// Not given: where nobody waits for the sleeper, or only a thread of a language's machine that
/// has nothing to do; where it slept less than [`NAPS`] times.
pub(super) fn naps(summary: &Summary) -> Option<Hint> {
    let code = code(summary, "external_wait")?;
    let nodes = &code.chains.as_ref()?.nodes;
    let waiter = |at: usize| {
        let waits_for = |n: &&ChainNode| n.depth + 1 == nodes[at].depth;
        nodes[..at].iter().rev().find(waits_for)
    };
    let is_nap = |at: usize| {
        let ends = nodes.get(at + 1).is_some_and(|end| end.did == "timer");
        let is_idle = |waiter: &ChainNode| waiter.frames.iter().any(has_nothing_to_do);
        nodes[at].call == "sleep"
            && nodes[at].waits >= NAPS
            && ends
            && waiter(at).is_some_and(|waiter| !is_idle(waiter))
    };
    let at = (0..nodes.len()).filter(|&at| is_nap(at)).max_by_key(|&at| nodes[at].ns)?;
    let (nap, waiter) = (&nodes[at], waiter(at)?);
    if nap.frames.is_empty() || waiter.frames.is_empty() {
        return None;
    }
    let told = format!(
        "threads in {} waited for one that slept in {}, {} times {:.1} ms",
        call_in(&waiter.frames),
        call_in(&nap.frames),
        nap.waits,
        nap.waits_ns as f64 * 1e-6 / nap.waits as f64,
    );
    let lost = seconds(nap.ns);
    let sleeper = nap.frames.get(1).map(|f| &f.function);
    let wakes_too = nap.woke.iter().any(|f| Some(&f.function) == sleeper);
    let is_known = !nap.woke.is_empty() && nap.woke.iter().all(|f| f.function != CALLERS_NOT_KNOWN);
    let poll = "If it looks for something to do after each, let it wait for that (a condition variable, an eventfd, poll)";
    let share = "If they want one of few things that it has meanwhile (connections of a pool), have more of them, or keep each for less time";
    // Who waits for the end of a thread wants nothing that it has.
    Some(match is_known && !wakes_too && waiter.call != "join" {
        false => {
            let either = if is_known || waiter.call == "join" {
                poll.to_owned()
            } else {
                format!("{poll}. {share}")
            };
            let text = format!("naps: {told}; {lost} of CPU time was lost meanwhile. {either}");
            hint("naps", nap.ns, text)
        }
        true => {
            let woke = call_in(&nap.woke);
            let text = format!(
                "taken in turns: {told}, and were woken by it in {woke}; {lost} of CPU time was lost meanwhile. {share}"
            );
            hint("taken_in_turns", nap.ns, text)
        }
    })
}

/// Whether a Java machine's own threads wait here for something to compile or to collect, or for
/// the program's first.
fn has_nothing_to_do(frame: &PathFrame) -> bool {
    frame.function.contains("PlatformMonitor::wait") || frame.module.starts_with("libjli")
}

/// Threads wait for the lock of an allocator of memory.
pub(super) fn allocator_lock(summary: &Summary) -> Option<Hint> {
    let code = code(summary, "lock_wait")?;
    let first_is = |path: &&HotPath| {
        let first = path.frames.first();
        first.is_some_and(|f| allocates(&f.function, &f.module))
    };
    let waits = || code.paths.paths.iter().filter(first_is);
    let most = waits().max_by_key(|path| path.ns)?;
    let cost_ns = waits().map(|path| path.ns).sum();
    Some(hint(
        "allocator_lock",
        cost_ns,
        format!(
            "memory: threads waited for a lock of the allocator's, most of it in {}; {} of CPU time was lost to that. Keep memory and use it again; let threads have parts of the allocator of their own (glibc: no MALLOC_ARENA_MAX, no glibc.malloc.arena_max), or take an allocator made for threads (jemalloc, mimalloc, tcmalloc). kasuri try measures what these settings bring",
            call_in(&most.frames),
            seconds(cost_ns)
        ),
    ))
}

/// Calls that read or write take much of the work.
///
/// Not given: for less than [`PART`] of it, or where threads waited for a disk for longer. How many
/// bytes each call moves is not recorded, and it says so.
pub(super) fn small_calls(summary: &Summary) -> Option<Hint> {
    let work = code(summary, "work")?;
    let paths = &work.paths.paths;
    let most = paths.iter().max_by_key(|path| path.moves_ns)?;
    let cost_ns: i64 = paths.iter().map(|path| path.moves_ns).sum();
    let share = cost_ns as f64 / work.ns.max(1) as f64;
    // For a disk, bytes that are moved together may lie anywhere.
    let waits = lost_to(summary, &["io_wait"]) > cost_ns;
    (share >= PART && !waits).then(|| {
        hint(
            "small_calls",
            cost_ns,
            format!(
                "reads and writes: {:.0} % of the work, {} of CPU time, was in calls that move bytes, most of it in {}. How many bytes each moves is not recorded (strace shows it). Where these are few, gather them in a buffer and move many at once (C: fwrite, setvbuf; BufWriter, bufio, BufferedOutputStream)",
                share * 100.0,
                seconds(cost_ns),
                call_in(&most.frames)
            ),
        )
    })
}

/// Threads wait again and again until a disk has what they wrote.
///
/// Not given: few waits, of which none can be saved.
pub(super) fn small_syncs(summary: &Summary) -> Option<Hint> {
    let chains = code(summary, "io_wait")?.chains?;
    let is_it = |n: &&ChainNode| {
        n.depth == 0 && makes_durable(n.frames.iter().map(|f| f.function.as_str()))
    };
    let syncs = || chains.nodes.iter().filter(is_it);
    let most = syncs().max_by_key(|n| n.ns)?;
    let (cost_ns, waits) = syncs().fold((0, 0), |(ns, n), node| (ns + node.ns, n + node.waits));
    let is_part = cost_ns as f64 >= PART * summary.on_cpu_ns.saturating_add(cost_ns) as f64;
    (is_part && waits >= SYNCS).then(|| {
        hint(
            "small_syncs",
            cost_ns,
            format!(
                "written through to the disk bit by bit: threads waited {waits} times, {} in all, until it had what was written, mostly in {}. Where several changes may become durable together, sync once behind them (databases: many changes in one transaction; SQLite also: PRAGMA journal_mode=WAL)",
                seconds(cost_ns),
                call_in(&most.frames)
            ),
        )
    })
}

/// Threads or processes that were made for what they did.
struct Made {
    n: usize,
    ran: i64,
    /// To make and to end them.
    cost_ns: i64,
}

/// Threads that began and ended in the recording.
fn lived(cut: &Cut<'_>) -> HashSet<i32> {
    let span = &cut.trace.span;
    let threads = cut.trace.threads.iter();
    let lived = threads.filter(|t| t.alive.start > span.start && t.alive.end < span.end);
    lived.map(|t| t.tid).collect()
}

/// None: too little of the program's time is in making them. To make one takes `each_ns` at
/// most; one that ran for less did nothing else.
fn made<'s>(
    summary: &Summary,
    made: impl Iterator<Item = &'s ThreadSummary>,
    each_ns: i64,
) -> Option<Made> {
    let none = Made { n: 0, ran: 0, cost_ns: 0 };
    let made = made.fold(none, |sum, t| Made {
        n: sum.n + 1,
        ran: sum.ran.saturating_add(t.on_cpu_ns),
        cost_ns: sum.cost_ns.saturating_add(t.on_cpu_ns.min(each_ns)),
    });
    let is_part = made.cost_ns as f64 >= PART * summary.on_cpu_ns as f64;
    (is_part && made.cost_ns >= NOTICED_NS).then_some(made)
}

/// Many processes begin and end, and hardly run in between.
pub(super) fn short_processes(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    let lived = lived(cut);
    let first = || summary.threads.iter().filter(|t| t.is_target && t.tid == t.pid);
    // The one that ran longest may be the one that makes the others.
    let longest = first().max_by_key(|t| t.on_cpu_ns)?.pid;
    let processes = || first().filter(|t| t.pid != longest && lived.contains(&t.tid));
    let Made { n, ran, cost_ns } = made(summary, processes(), PROCESS_NS)?;
    let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
    processes().for_each(|t| *by_name.entry(&t.process).or_default() += 1);
    let mut names: Vec<(&str, usize)> = by_name.into_iter().collect();
    names.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let names: Vec<String> = names.iter().take(3).map(|(name, n)| format!("{n} {name}")).collect();
    Some(hint(
        "short_processes",
        cost_ns,
        format!(
            "short processes: {n} processes ran for {:.1} ms each, {} in all ({}); to make, load and end them is about {:.0} % of that. Do it in one process: in a shell by its own words (${{x#y}}, case, read) instead of programs in a loop, or by one program for all lines (awk, xargs with many at a time)",
            ran as f64 * 1e-6 / n as f64,
            seconds(ran),
            names.join(", "),
            cost_ns as f64 * 100.0 / ran as f64,
        ),
    ))
}

/// Threads run one after the other, each waited for before the next is made.
///
/// Not given: where one thread has most of the time; for Go, whose threads take turns anyway; where threads nap until it is their turn.
pub(super) fn one_after_another(summary: &Summary) -> Option<Hint> {
    let is_it = |c: &&CauseSummary| {
        (c.class, c.note) == ("low_parallelism", "serial_phase")
            && !c.code.is_empty()
            && c.thread_share < MOST
    };
    let cause = summary.account.causes.iter().find(is_it)?;
    let code = code(summary, "low_parallelism")?;
    let heads = code.chains.iter().flat_map(|chains| &chains.nodes);
    let head = heads.filter(|n| n.depth == 0 && n.did == "waited").max_by_key(|n| n.ns)?;
    let is_gos = |f: &PathFrame| f.function.starts_with("runtime.");
    if head.frames.len() < 2
        || head.call == "sleep"
        || head.frames.iter().any(is_gos)
        || head.ns * 2 < code.ns
    {
        return None;
    }
    Some(hint(
        "one_after_another",
        cause.ns,
        format!(
            "one after the other: threads ran {} one at a time, as each was waited for, in {}, before the next began; {} of CPU time was lost. Begin several before you wait for the first (std::async: keep the futures, since the end of a future waits for its thread)",
            cause.code,
            call_in(&head.frames),
            seconds(cause.ns)
        ),
    ))
}

/// Several processes have more spinning threads than there are CPUs.
///
/// Not given: where threads of one process are enough to say so (`oversubscription`), or each process has one.
pub(super) fn crowd(summary: &Summary) -> Option<Hint> {
    let least = WORKER * summary.wall_ns as f64;
    let busy = |t: &&ThreadSummary| t.is_target && t.on_cpu_ns as f64 > least;
    let mut of_process: BTreeMap<i32, usize> = BTreeMap::new();
    for thread in summary.threads.iter().filter(busy) {
        *of_process.entry(thread.pid).or_default() += 1;
    }
    let many: Vec<usize> = of_process.into_values().filter(|n| *n > 1).collect();
    let threads: usize = many.iter().sum();
    let cost_ns = lost_to(summary, &["spinning"]);
    if many.len() < 2 || threads <= summary.n_cpus as usize {
        return None;
    }
    Some(hint(
        "crowd",
        cost_ns,
        format!(
            "more threads than CPUs: {} processes have {threads} threads that want a CPU, on {} CPUs, and threads spun for {}. Let each process have fewer threads (OpenMP: OMP_NUM_THREADS={}), or run fewer processes",
            many.len(),
            summary.n_cpus,
            seconds(cost_ns),
            (summary.n_cpus as usize / many.len()).max(1)
        ),
    ))
}

/// Many threads begin and end, and hardly run in between.
pub(super) fn short_threads(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    let lived = lived(cut);
    let is_it = |t: &&ThreadSummary| t.is_target && t.tid != t.pid && lived.contains(&t.tid);
    let threads = summary.threads.iter().filter(is_it);
    let Made { n, ran, cost_ns } = made(summary, threads, THREAD_NS)?;
    Some(hint(
        "short_threads",
        cost_ns,
        format!(
            "short threads: {n} threads ran for {:.3} ms each, {} in all; to make and to end them is about {:.0} % of that. Let as many threads as CPUs live on and take the parts one by one (a pool)",
            ran as f64 * 1e-6 / n as f64,
            seconds(ran),
            cost_ns as f64 * 100.0 / ran as f64,
        ),
    ))
}

/// A language's collector of garbage takes much of the work.
///
/// Not given: for less than [`PART`] of it.
pub(super) fn collector(summary: &Summary) -> Option<Hint> {
    let uses = &summary.call_paths.as_ref()?.runtimes;
    let work_ns = lost_to(summary, &["work"]);
    let worst = uses.iter().filter(|row| row.runtime == "collector");
    let worst = worst.max_by_key(|row| row.work_ns)?;
    let share = worst.work_ns as f64 / work_ns.max(1) as f64;
    let setting = match worst.language {
        "java" => "Java: a larger heap, -Xmx",
        "javascript" => {
            "V8: --max-semi-space-size (Node.js as it is, Deno in --v8-flags, browsers in --js-flags)"
        }
        "python" => "Python: gc.freeze() once it is set up, gc.set_threshold",
        _ => "Go: GOGC=400 or more, with GOMEMLIMIT; kasuri try measures the first",
    };
    (share >= PART).then(|| {
        hint(
            "collector",
            worst.work_ns,
            format!(
                "garbage collection: {} of CPU time, {:.0} % of the work, went to the collector ({}). Make fewer objects, or use them again; or give it more memory, so that it runs less often ({setting})",
                seconds(worst.work_ns),
                share * 100.0,
                worst.module
            ),
        )
    })
}

/// Threads draw random numbers from one generator, whose lock they write by turns.
///
/// Not given: where one thread does nearly all, or for less than [`PART`] of the work.
pub(super) fn shared_generator(summary: &Summary) -> Option<Hint> {
    let work = code(summary, "work")?;
    let draws = |path: &&HotPath| {
        let first = path.frames.first();
        first.is_some_and(|f| is_libc(&f.module) && is_shared_generator(&f.function))
    };
    let draws: Vec<&HotPath> = work.paths.paths.iter().filter(draws).collect();
    let most = draws.iter().max_by_key(|path| path.ns)?;
    let cost_ns: i64 = draws.iter().map(|path| path.ns).sum();
    let is_part = cost_ns as f64 >= PART * work.ns as f64;
    (is_part && is_parallel(summary)).then(|| {
        hint(
            "shared_generator",
            cost_ns,
            format!(
                "random numbers: {} took {} of CPU time. All threads share that generator, and a lock around it: give each thread one of its own (rand_r, random_r, C++: std::mt19937)",
                call_in(&most.frames),
                seconds(cost_ns)
            ),
        )
    })
}

/// Several threads are woken at once and fall asleep again.
///
/// Not given: where less than [`PART`] of the work is in the call that waits because of such
/// wake-ups.
pub(super) fn herd(cut: &Cut<'_>, summary: &Summary) -> Option<Hint> {
    let work = code(summary, "work")?;
    if let Some(hint) = notified(cut, work.ns) {
        return Some(hint);
    }
    let waits = |path: &&HotPath| {
        let first = path.frames.first();
        first.is_some_and(|f| waits_for_event(&f.function))
    };
    let path = work.paths.paths.iter().filter(waits).max_by_key(|path| path.ns)?;
    let (all, at_once) = woken_at_once(cut);
    let share = at_once as f64 / all.max(1) as f64;
    let cost_ns = (path.ns as f64 * share) as i64;
    if (cost_ns as f64) < PART * work.ns as f64 {
        return None;
    }
    Some(hint(
        "herd",
        cost_ns,
        format!(
            "a herd: {} of CPU time went to {}, on the way into the wait and out of it; {:.0} % of {all} wake-ups came for {HERD} threads or more at once. Where one of them is enough, wake one (notify_one, pthread_cond_signal; epoll: EPOLLEXCLUSIVE), or have fewer threads wait there",
            seconds(path.ns),
            call_in(&path.frames),
            share * 100.0,
        ),
    ))
}

/// A Java machine lets threads that are all notified enter one after the other: each that waits again wakes the next one.
///
/// Not given: where fewer than [`HERD`] threads do so, or for less than [`PART`] of the work.
fn notified(cut: &Cut<'_>, work_ns: i64) -> Option<Hint> {
    let (trace, s) = (cut.trace, &cut.trace.samples);
    let name = |frame: FrameIx| demangled(trace.strings.get(trace.frames.function[frame.ix()]));
    // Whether a path is in a monitor, and in the wait for it.
    let mut known: QuickMap<PathIx, (bool, bool)> = QuickMap::default();
    let (mut wakes, mut handed, mut ran, mut waited) = (0usize, 0usize, 0usize, 0usize);
    let mut wakers: QuickSet<ThreadIx> = QuickSet::default();
    for row in 0..s.time.len() {
        let (path, thread) = (s.path[row], s.thread[row]);
        if !path.is_some() || !cut.contains(s.time[row]) || !cut.is_target(thread) {
            continue;
        }
        let (is_monitor, is_wait) = *known.entry(path).or_insert_with(|| {
            let has = |is_it: fn(&str) -> bool| trace.frames_of(path).any(|f| is_it(&name(f)));
            (has(is_of_monitor), has(waits_for_notify))
        });
        match s.kind[row] {
            SampleKind::OnCpu => (ran, waited) = (ran + 1, waited + usize::from(is_wait)),
            SampleKind::Waker if is_wait => {
                (wakes, handed) = (wakes + 1, handed + 1);
                wakers.insert(thread);
            }
            SampleKind::Waker => wakes += usize::from(is_monitor),
            _ => {}
        }
    }
    let part = |n: usize, all: usize| n as f64 / all.max(1) as f64;
    let (share, time) = (part(handed, wakes), part(waited, ran));
    (wakers.len() >= HERD && share >= MOST && time * share >= PART).then(|| {
        hint(
            "herd",
            (time * share * work_ns as f64) as i64,
            format!(
                "a herd: {:.0} % of the samples of running threads were in Object.wait(), on the way into the wait and out of it; {:.0} % of {wakes} sampled wake-ups by monitors were of the next one by one of {} threads that went to wait again, as after notifyAll(). Where one of them is enough, wake one: notify(), or a condition for each (ReentrantLock.newCondition)",
                time * 100.0,
                share * 100.0,
                wakers.len(),
            ),
        )
    })
}

/// Wake-ups of the program's threads by others, and how many of these were of [`HERD`] threads or
/// more, by one thread at once.
fn woken_at_once(cut: &Cut<'_>) -> (usize, usize) {
    let wakes = &cut.trace.wakeups;
    let (mut all, mut at_once) = (0, 0);
    // By waker: when it last woke one, and how many without a break.
    let mut herds: QuickMap<ThreadIx, (Time, usize)> = QuickMap::default();
    for row in 0..wakes.time.len() {
        let (time, waker, wakee) = (wakes.time[row], wakes.waker[row], wakes.wakee[row]);
        // Who had to be woken itself has waited since: what it wakes next is another call.
        herds.remove(&wakee);
        if !waker.is_some() || !cut.contains(time) || !cut.is_target(wakee) {
            continue;
        }
        all += 1;
        let herd = herds.entry(waker).or_insert((time, 0));
        let goes_on = (time - herd.0).ns() <= AT_ONCE_NS;
        *herd = (time, if goes_on { herd.1 + 1 } else { 1 });
        at_once += match herd.1 {
            n if n < HERD => 0,
            HERD => HERD,
            _ => 1,
        };
    }
    (all, at_once)
}

/// Whether threads of one process, which share its memory, ran beside its busiest one for [`PART`] of
/// the time that the program's busiest thread ran.
fn shares_memory(summary: &Summary) -> bool {
    let mut of_process: BTreeMap<i32, (i64, i64)> = BTreeMap::new();
    for thread in summary.threads.iter().filter(|t| t.is_target) {
        let (all, most) = of_process.entry(thread.pid).or_default();
        (*all, *most) = (*all + thread.on_cpu_ns, (*most).max(thread.on_cpu_ns));
    }
    let busiest = of_process.values().map(|&(_, most)| most).max().unwrap_or_default();
    of_process.values().any(|&(all, most)| (all - most) as f64 >= PART * busiest.max(1) as f64)
}

/// Whether threads beside the busiest one ran for [`PART`] of the time that it ran. Those of another
/// process count where they ran for [`PART_OF_A_WORKER`] of it: it begins many short ones to have
/// something done, not to work beside them.
fn is_parallel(summary: &Summary) -> bool {
    let own = || summary.threads.iter().filter(|t| t.is_target);
    let Some(most) = own().max_by_key(|t| t.on_cpu_ns) else {
        return false;
    };
    let least = (most.on_cpu_ns as f64 * PART_OF_A_WORKER) as i64;
    let others = own().filter(|t| t.pid == most.pid || t.on_cpu_ns >= least);
    let others = others.map(|t| t.on_cpu_ns).sum::<i64>() - most.on_cpu_ns;
    others as f64 >= PART * most.on_cpu_ns as f64
}

/// Little was lost, as far as that was recorded.
///
/// Not given: beside hints about the program that are worth half as much; where threads waited
/// for [`PART`] of it, or more than a third was lost; for a function with less than [`PART`] or without a name; where no
/// two threads of one process do a part of the work.
pub(super) fn busy(summary: &Summary) -> Option<Hint> {
    let useful = lost_to(summary, &["work", "system_calls", "tracing"]);
    let others = lost_to(summary, &["interference"]);
    let code = code(summary, "work")?;
    let path = code.paths.paths.first().filter(|path| path.share >= PART)?;
    let function = call_in(&path.frames);
    let left = summary.capacity_ns.saturating_sub(others).max(1);
    let waits = ["lock_wait", "waiting_for_own_threads", "io_wait", "external_wait", "spinning"];
    let waited = lost_to(summary, &waits) as f64;
    if useful < left / 3 * 2 || waited >= PART * useful as f64 {
        return None;
    }
    if function.is_empty() || !shares_memory(summary) {
        return None;
    }
    Some(hint(
        "busy",
        useful,
        format!(
            "busy: of the CPU time that other programs left it, the program used {:.0} %, and {:.0} % of that in {}. Whether such code waits for memory, or for a cache line that several threads write (that of a lock, too), is not recorded: compare the CPU time of a run with one thread. Where the same work takes more of it with more threads, they are in each other's way; perf c2c names the cache line",
            useful as f64 * 100.0 / left as f64,
            path.share * 100.0,
            function
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadSummary;

    #[test]
    fn processes_that_are_begun_for_one_thing_each_are_no_workers() {
        let thread = |pid, on_cpu_ns| ThreadSummary {
            pid,
            on_cpu_ns,
            is_target: true,
            ..ThreadSummary::default()
        };
        let with = |others: Vec<ThreadSummary>| {
            let threads = [vec![thread(1, 1_000_000)], others].concat();
            is_parallel(&Summary { threads, ..Summary::default() })
        };
        assert!(!with((0..700).map(|n| thread(10 + n, 1_000)).collect()));
        assert!(with(vec![thread(2, 200_000)]));
        assert!(with((0..200).map(|_| thread(1, 1_000)).collect()), "threads of its own");
        assert!(!with(Vec::new()));
    }
}
