//! Hints that the code behind a loss tells: what holders of a lock did, who was late where, what ran alone.
use super::{lost_to, seconds};
use crate::account::CauseSummary;
use crate::call_paths::{ClassPaths, PathFrame, is_gil, waits_outside};
use crate::{Hint, Summary};

/// A thread that runs for less of the time is a helper: a program with one other is not parallel.
const WORKER: f64 = 0.1;
/// What is named must be behind this part of its class.
const MOST: f64 = 0.5;

/// Where samples have the most of a class's time; none: nowhere.
fn code(summary: &Summary, class: &str) -> Option<ClassPaths> {
    let classes = &summary.call_paths.as_ref()?.classes;
    classes.iter().find(|c| c.class == class).cloned()
}

/// `function (file:line)`.
fn named(frame: &PathFrame) -> String {
    let file = frame.file.rsplit('/').next().unwrap_or_default();
    match (file, frame.line) {
        ("", _) | (_, 0) => frame.function.clone(),
        (file, line) => format!("{} ({file}:{line})", frame.function),
    }
}

/// A call, and the program's function that made it.
fn call_in(frames: &[PathFrame]) -> String {
    let of: Vec<String> = frames.iter().take(2).map(named).collect();
    of.join(" called by ")
}

fn hint(kind: &'static str, cost_ns: i64, text: String) -> Hint {
    Hint {
        kind,
        cost_ns,
        text,
        command: None,
    }
}

/// Threads of Python wait for its global lock.
pub(super) fn gil(summary: &Summary) -> Option<Hint> {
    let is_it = |c: &&CauseSummary| {
        c.class == "lock_wait" && (is_gil(&c.name) || c.name.starts_with("GIL"))
    };
    let cost_ns = summary
        .account
        .causes
        .iter()
        .filter(is_it)
        .map(|c| c.ns)
        .sum();
    Some(hint(
        "gil",
        cost_ns,
        format!(
            "Python's GIL: threads in Python run one at a time; {} of CPU time was lost while they waited for their turn. Divide the work over processes (concurrent.futures.ProcessPoolExecutor, multiprocessing), or use a Python without the GIL (3.13t and later)",
            seconds(cost_ns)
        ),
    ))
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
            let asleep = holders().filter(|n| n.did == "waited" && is_outside(&n.frames));
            asleep.for_each(|n| add(&n.frames, n.ns));
            kept_off = holders().filter(|n| n.did == "ready").map(|n| n.ns).sum();
        }
        None => {
            let paths = code.meanwhile.iter().flat_map(|m| &m.paths);
            let asleep = paths.filter(|p| is_outside(&p.frames) && p.waited_ns * 2 > p.ns);
            asleep.for_each(|p| add(&p.frames, p.waited_ns));
        }
    }
    let (call, cost_ns) = held.into_iter().max_by_key(|held| held.1)?;
    // Of what is waited for the holders, the call must be a good part, leaving out what other programs' use of the CPUs adds.
    if (cost_ns as f64) < 0.3 * code.ns.saturating_sub(kept_off) as f64 {
        return None;
    }
    Some(hint(
        "lock_io",
        cost_ns,
        format!(
            "lock held during a call that waits: while threads waited for a lock, its holder was in {call}; {} of CPU time was lost to that. Make the call before the lock is taken or after it is given back",
            seconds(cost_ns)
        ),
    ))
}

/// Threads do unequal parts of one phase, as samples tell.
///
/// Not given: where other programs took half as much or more (a thread may be late because it had no CPU); where a schedule was replayed from chunks.
pub(super) fn imbalance(summary: &Summary) -> Option<Hint> {
    let is_late = |c: &&CauseSummary| {
        matches!(
            (c.class, c.note),
            ("load_imbalance", "by_samples") | ("spinning", "late_thread")
        ) && !c.code.is_empty()
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
    let place = worst
        .code_place
        .as_deref()
        .map(|place| place.rsplit('/').next().unwrap_or(place));
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    let of_openmp =
        |f: &PathFrame| f.function.contains("._omp_fn") || f.function.contains(".omp_outlined");
    let classes = summary.call_paths.iter().flat_map(|paths| &paths.classes);
    let mut frames = classes
        .filter(|c| c.class == worst.class)
        .flat_map(|c| {
            c.paths
                .paths
                .iter()
                .chain(c.meanwhile.iter().flat_map(|m| &m.paths))
        })
        .flat_map(|path| &path.frames);
    let remedy = match frames.any(of_openmp) {
        true => {
            "If it is a loop, let threads take its parts as they become free: schedule(dynamic) or schedule(guided). kasuri record --openmp tells what each would save"
        }
        false => {
            "Divide the work into more parts than threads, and let each thread take the next part when it is done with one"
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

/// One function runs alone.
///
/// Not given: where no second thread does a part of the work: such a program is not parallel; where it has no name; where it is Go's: whether
/// its goroutines wait for a lock meanwhile is not recorded.
pub(super) fn serial(summary: &Summary) -> Option<Hint> {
    let code = code(summary, "low_parallelism")?;
    let path = code.paths.paths.first().filter(|path| path.share >= MOST)?;
    let is_alone = |c: &&CauseSummary| c.class == "low_parallelism" && c.note == "serial_phase";
    let alone_ns: i64 = summary
        .account
        .causes
        .iter()
        .filter(is_alone)
        .map(|c| c.ns)
        .sum();
    let cost_ns = path.ns.min(alone_ns);
    let least = WORKER * summary.wall_ns as f64;
    let workers = summary
        .threads
        .iter()
        .filter(|t| t.is_target && t.on_cpu_ns as f64 > least);
    let others = i64::from(summary.n_cpus).saturating_sub(1);
    let is_named = path.frames.first().is_some_and(|f| !f.function.is_empty());
    let is_gos = path
        .frames
        .iter()
        .any(|f| f.function.starts_with("runtime."));
    if workers.count() < 2 || others < 1 || !is_named || is_gos {
        return None;
    }
    let function = path
        .frames
        .iter()
        .take(2)
        .map(named)
        .collect::<Vec<_>>()
        .join(" called by ");
    let alone = cost_ns / others;
    let rest = summary.wall_ns.saturating_sub(alone).max(1);
    Some(hint(
        "serial_phase",
        cost_ns,
        format!(
            "serial phase: {function} ran alone for {} of {}. Divide it among threads, or run it beside other work: without it the run would be at most {:.2} times as fast",
            seconds(alone),
            seconds(summary.wall_ns),
            summary.wall_ns as f64 / rest as f64
        ),
    ))
}
