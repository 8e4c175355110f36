//! The critical path of a run: what would have to be shorter for the run to be shorter, and by how much it would shrink.
//!
//! | module | does |
//! |---|---|
//! | `graph` | for both: which thread waits for which, on a CPU and off it |
//! | `walk` | the path, from the end back |
//! | `replay` | the run again, with something changed |
//! | `uses` | the program's functions, and the calls that they wait in, as samples tell |
//!
//! Definitions, limits: docs/design/account.md, "Critical path".
mod graph;
mod replay;
mod uses;
mod walk;

use graph::Graph;
use kasuri_model::{SliceKind, StrIx, ThreadIx, Time, Trace};
use replay::Change;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;
use uses::Uses;

/// What-ifs for so many of the longest entries of the path, and for so many locks.
const N_CODES: usize = 3;
/// Functions with less of the path are not told apart: a few samples say nothing.
const LEAST_OF_A_USE: f64 = 0.01;
const N_LOCKS: usize = 2;

/// The path and its what-ifs. The `ns` of `entries` add up to `length_ns` exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CriticalPath {
    /// From the program's first moment to its last.
    pub from_ns: i64,
    /// Its last moment.
    pub to_ns: i64,
    /// `to_ns - from_ns`.
    pub length_ns: i64,
    /// Times the path goes from one thread to another.
    pub hops: u64,
    /// Parts of the path, longest first.
    pub entries: Vec<PathEntry>,
    /// Length of the run as the replay without a change finds it: `length_ns`, or the graph is wrong.
    pub replayed_ns: i64,
    /// The run with one change each, most gain first.
    pub what_if: Vec<WhatIf>,
}

/// A part of the path: all of one kind, thread and code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PathEntry {
    /// `ready`: waiting for a CPU; `outside`: asleep, ended by no thread of the program.
    #[schemars(extend("enum" = ["run", "ready", "outside", "unknown"]))]
    pub kind: &'static str,
    /// The code that the thread ran: an annotation, or by samples a function; of a wait the call and who made it; "" when neither tells.
    pub code: String,
    /// Whether `code` is from samples.
    pub is_sampled: bool,
    /// Place of the annotation or function, when known.
    pub place: Option<String>,
    /// Thread id of the thread with the most time.
    pub tid: i32,
    /// Its name.
    pub thread: String,
    /// Number of threads.
    pub threads: u32,
    /// Time.
    pub ns: i64,
    /// Stretches.
    pub count: u64,
    /// The longest stretch: from...
    pub longest_from_ns: i64,
    /// ...to.
    pub longest_to_ns: i64,
}

/// The run with something changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WhatIf {
    /// `half` (the annotation takes half its time), `half_function` (so does a function), `half_wait` (so do the waits of a function in a
    /// call), `half_held` (so do the holders of the lock), `no_lock` or `balance`.
    #[schemars(extend("enum" = ["half", "half_function", "half_wait", "half_held", "no_lock", "balance"]))]
    pub change: &'static str,
    /// The annotation, function or lock; "" for `balance`.
    pub name: String,
    /// Place of the annotation or function, when known.
    pub place: Option<String>,
    /// Length of the run with the change.
    pub length_ns: i64,
    /// By how much shorter that is.
    pub gain_ns: i64,
}

/// One stretch of the path.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    kind: &'static str,
    thread: ThreadIx,
    code: StrIx,
    /// Without an annotation: of [`Uses`]; [`uses::NONE`]: not known.
    at: u32,
    from: Time,
    to: Time,
}

#[derive(Default)]
struct Tally {
    ns: i64,
    count: u64,
    by_thread: HashMap<ThreadIx, i64>,
    longest: (i64, Time),
}

/// The path of the whole recording's program. Without scheduler events, or without a program, it is empty.
pub fn critical_path(trace: &Trace) -> CriticalPath {
    let mut graph = Graph::new(trace);
    let Some(span) = graph.span.clone() else {
        return CriticalPath::default();
    };
    graph.uses = Uses::new(trace, &graph.is_target);
    let (stretches, hops) = walk::walk(&mut graph, span.clone());
    let mut out = CriticalPath {
        from_ns: span.start.ns(),
        to_ns: span.end.ns(),
        length_ns: (span.end - span.start).ns(),
        hops,
        ..CriticalPath::default()
    };
    let tallies = tallies(&stretches, (out.length_ns as f64 * LEAST_OF_A_USE) as i64);
    out.entries = entries(trace, &graph.uses, &tallies);
    out.replayed_ns = replay::replay(&graph, &Change::Nothing);
    out.what_if = what_if(trace, &graph, &out, &tallies);
    out
}

/// The same with more what-ifs: also for the `beside` longest of the annotations that are not on the path, which should gain nothing.
pub fn critical_path_and_beside(trace: &Trace, beside: usize) -> CriticalPath {
    let mut out = critical_path(trace);
    let graph = Graph::new(trace);
    let s = &trace.slices;
    let mut taken: HashMap<StrIx, i64> = HashMap::new();
    for row in 0..s.kind.len() {
        if graph.is_target[s.thread[row].ix()]
            && matches!(s.kind[row], SliceKind::Work | SliceKind::TaskRun)
        {
            *taken.entry(s.name[row]).or_default() += (s.end[row] - s.start[row]).ns();
        }
    }
    let is_told = |name: &StrIx| {
        let name = trace.strings.get(*name);
        name.is_empty() || out.what_if.iter().any(|w| w.change == "half" && w.name == name)
    };
    taken.retain(|name, _| !is_told(name));
    let mut longest: Vec<(StrIx, i64)> = taken.into_iter().collect();
    longest.sort_by_key(|&(name, ns)| (std::cmp::Reverse(ns), name));
    let changes = longest.into_iter().take(beside);
    let changes: Vec<_> = changes.map(|(name, _)| ("half", name, Change::Half(name))).collect();
    out.what_if.extend(replayed(trace, &graph, &out, changes));
    out
}

/// The path as stretches of threads, last first; together they are as long as it is.
pub(crate) fn stretches(trace: &Trace) -> Vec<(ThreadIx, Time, Time)> {
    let mut graph = Graph::new(trace);
    let Some(span) = graph.span.clone() else {
        return Vec::new();
    };
    let (stretches, _) = walk::walk(&mut graph, span);
    stretches.into_iter().map(|s| (s.thread, s.from, s.to)).collect()
}

/// What tells parts of the path apart: kind, annotation, function; a thread where there is neither.
type Key = (&'static str, StrIx, u32, ThreadIx);

/// The parts. Functions with less than `least_ns` are the rest of their threads.
fn tallies(stretches: &[Stretch], least_ns: i64) -> HashMap<Key, Tally> {
    let mut of_use: HashMap<(&'static str, u32), i64> = HashMap::new();
    for s in stretches {
        *of_use.entry((s.kind, s.at)).or_default() += (s.to - s.from).ns();
    }
    let mut tallies: HashMap<Key, Tally> = HashMap::new();
    for s in stretches {
        let at = match of_use.get(&(s.kind, s.at)) {
            Some(&ns) if ns >= least_ns => s.at,
            _ => uses::NONE,
        };
        let thread = match s.code.is_some() || at != uses::NONE {
            true => ThreadIx::NONE,
            false => s.thread,
        };
        let tally = tallies.entry((s.kind, s.code, at, thread)).or_default();
        let ns = (s.to - s.from).ns();
        tally.ns += ns;
        tally.count += 1;
        *tally.by_thread.entry(s.thread).or_default() += ns;
        if ns > tally.longest.0 {
            tally.longest = (ns, s.from);
        }
    }
    tallies
}

fn entries(trace: &Trace, uses: &Uses, tallies: &HashMap<Key, Tally>) -> Vec<PathEntry> {
    let mut out: Vec<PathEntry> = tallies
        .iter()
        .map(|(&(kind, code, at, _), tally)| {
            let sampled = uses.named(at);
            let worst = tally.by_thread.iter().max_by_key(|&(t, ns)| (*ns, std::cmp::Reverse(*t)));
            let thread = worst.map(|(t, _)| &trace.threads[t.ix()]);
            PathEntry {
                kind,
                code: match &sampled {
                    Some(named) => named.name.clone(),
                    None => trace.strings.get(code).into(),
                },
                is_sampled: sampled.is_some(),
                place: match &sampled {
                    Some(named) => named.place.clone(),
                    None => trace.places.get(&code).cloned(),
                },
                tid: thread.map_or(0, |t| t.tid),
                thread: thread.map_or("", |t| trace.strings.get(t.name)).into(),
                threads: tally.by_thread.len() as u32,
                ns: tally.ns,
                count: tally.count,
                longest_from_ns: tally.longest.1.ns(),
                longest_to_ns: tally.longest.1.ns() + tally.longest.0,
            }
        })
        .collect();
    // A tid may have had several owners: the longest stretch tells them apart.
    let last = |e: &PathEntry| (e.tid, e.longest_from_ns, e.longest_to_ns);
    out.sort_by(|a, b| (b.ns, a.kind, &a.code, last(a)).cmp(&(a.ns, b.kind, &b.code, last(b))));
    out
}

fn what_if(
    trace: &Trace,
    graph: &Graph<'_>,
    path: &CriticalPath,
    tallies: &HashMap<Key, Tally>,
) -> Vec<WhatIf> {
    let mut changes: Vec<(&'static str, StrIx, Change)> = Vec::new();
    let codes =
        path.entries.iter().filter(|e| e.kind == "run" && !e.code.is_empty() && !e.is_sampled);
    for entry in codes.take(N_CODES) {
        if let Some(name) = trace.strings.iter().position(|s| s == entry.code) {
            let name = StrIx(name as u32);
            changes.push(("half", name, Change::Half(name)));
        }
    }
    for (object, name) in graph.locks_by_wait().into_iter().take(N_LOCKS) {
        changes.push(("half_held", name, Change::HalfHeld(object)));
        changes.push(("no_lock", name, Change::NoLock(object)));
    }
    if graph.barriers.iter().any(|b| b.late.is_some()) {
        changes.push(("balance", StrIx::NONE, Change::Balance));
    }
    let mut out = replayed(trace, graph, path, changes);
    out.extend(replayed_uses(graph, path, tallies));
    out.sort_by(|a, b| (b.gain_ns, a.change, &a.name).cmp(&(a.gain_ns, b.change, &b.name)));
    out
}

/// With the functions that have most of the path, and the waits that nobody else ends, taking half their time.
fn replayed_uses(
    graph: &Graph<'_>,
    path: &CriticalPath,
    tallies: &HashMap<Key, Tally>,
) -> Vec<WhatIf> {
    let of_kind = |kind: &'static str| {
        // Who spins for less gains nothing: what is spun for would have to be shorter.
        let mut all: Vec<(i64, u32)> = (tallies.iter())
            .filter(|((k, _, at, _), _)| *k == kind && *at != uses::NONE && !graph.uses.spins(*at))
            .map(|(&(_, _, at, _), tally)| (tally.ns, at))
            .collect();
        all.sort_unstable_by_key(|&(ns, at)| (std::cmp::Reverse(ns), at));
        all.into_iter().take(N_CODES).map(|(_, at)| at)
    };
    let runs = of_kind("run").map(|at| ("half_function", at, Change::HalfFunction(at)));
    let waits = of_kind("outside").map(|at| ("half_wait", at, Change::HalfWait(at)));
    let changes = runs.chain(waits);
    changes
        .filter_map(|(change, at, what)| {
            let named = graph.uses.named(at)?;
            let length_ns = replay::replay(graph, &what);
            Some(WhatIf {
                change,
                name: named.name,
                place: named.place,
                length_ns,
                gain_ns: path.replayed_ns - length_ns,
            })
        })
        .collect()
}

fn replayed(
    trace: &Trace,
    graph: &Graph<'_>,
    path: &CriticalPath,
    changes: Vec<(&'static str, StrIx, Change)>,
) -> Vec<WhatIf> {
    changes
        .into_iter()
        .map(|(change, name, what)| {
            let length_ns = replay::replay(graph, &what);
            WhatIf {
                change,
                name: trace.strings.get(name).into(),
                place: trace.places.get(&name).cloned(),
                length_ns,
                gain_ns: path.replayed_ns - length_ns,
            }
        })
        .collect()
}
