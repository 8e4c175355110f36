//! Work, span, slack and parallelism of the task graph.
//!
//! A task is a chain of strands: stretches between the points at which it creates or joins others. A strand weighs the
//! time that the task was on a CPU in it, without its annotated waits and the tasks that its thread ran inside. A thread's part
//! of a parallel region of OpenMP is such a chain as well, and so is what the region's master does between regions. Work (T1) is the weight of all
//! strands, span (Tinf) that of the heaviest chain: no number of CPUs makes the program faster than its span, and a
//! greedy scheduler on P of them needs at most work / P + span (R. Brent 1974; R. Blumofe and C. Leiserson 1999).
//!
//! Edges: from a strand to the next of its task; from the one that ends with a creation to the new task's first; from a
//! task's last to the strand with which another goes on after joining it, and to the first of one that depends on it. A lock
//! that makes one task wait for another does not lengthen the span, because another order of the two was possible.
//!
//! | module | does |
//! |---|---|
//! | `sweep` | one pass in time order over the events of tasks -> strands with their weights |
//! | `making` | strands so far, and what each thread is in |
//! | `teams` | parallel regions: which threads' parts belong together |
//! | `implicit` | their beginnings, barriers and ends as edges |
//! | `order` | an order in which each strand comes after what it needs; circles are cut, and counted |
//! | `ready` | when each task could have started, and what it waited for |
//!
//! Method: one pass along the order gives the heaviest chain before each strand (`top`), one back the heaviest from each on
//! (`bottom`). `top + bottom` of the span's strands is the span; that of others falls short of it by their *slack*: so much
//! longer could the strand have been.
//!
//! Tasks that a runtime folds (`Trace::folded_tasks`) are time of the task that ran them, one after the other: work is exact, span is the
//! most that it can be, parallelism the least.
//!
//! Memory: 24 bytes a strand, 4 an edge, 12 a point of the sweep. A fork-join program has about three strands and four
//! points a task. Rejected: a sweep that keeps only the heaviest chain of each task (24 bytes a task): it cannot tell slack,
//! and a dependence on a task that is not joined needs what the sweep has forgotten.
mod implicit;
mod making;
mod order;
mod ready;
mod sweep;
mod teams;

use crate::cut::Cut;
use crate::{PathPart, TaskGraph};
use kasuri_model::{TaskIx, Trace};
use std::collections::HashMap;

pub(crate) use ready::queued;
pub use ready::{Depends, Queued, depends, queued_by_task};
pub use teams::Implicit;

const NONE: u32 = u32::MAX;

/// The name of what a master does between its regions.
const BETWEEN: &str = "between parallel regions";

/// Parts of [`TaskGraph::profile`].
const PROFILE_PARTS: usize = 20;

/// What each strand needs, as one list with a range for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After {
    start: Vec<u32>,
    strand: Vec<u32>,
}

impl After {
    /// `before`: of each strand one, or none; `cross`: further ones, sorted.
    fn new(before: &[u32], cross: &[(u32, u32)]) -> After {
        let mut out = After {
            start: Vec::with_capacity(before.len() + 1),
            strand: Vec::with_capacity(before.len() + cross.len()),
        };
        let mut at = 0;
        for (strand, &first) in before.iter().enumerate() {
            out.start.push(out.strand.len() as u32);
            out.strand.extend((first != NONE).then_some(first));
            while let Some(&(_, p)) = cross.get(at).filter(|c| c.0 as usize == strand) {
                out.strand.extend((p != first).then_some(p));
                at += 1;
            }
        }
        out.start.push(out.strand.len() as u32);
        out
    }

    /// The strands that `strand` needs; its own task's or its creator's comes first.
    pub fn of(&self, strand: usize) -> &[u32] {
        &self.strand[self.start[strand] as usize..self.start[strand + 1] as usize]
    }

    /// The strands that need each.
    fn turned(&self) -> After {
        let n = self.start.len() - 1;
        let mut start = vec![0u32; n + 1];
        for &p in &self.strand {
            start[p as usize + 1] += 1;
        }
        for strand in 0..n {
            start[strand + 1] += start[strand];
        }
        let mut at = start.clone();
        let mut strand = vec![0; self.strand.len()];
        for s in 0..n {
            for &p in self.of(s) {
                strand[at[p as usize] as usize] = s as u32;
                at[p as usize] += 1;
            }
        }
        After { start, strand }
    }
}

/// The task graph in strands.
#[derive(Clone, Debug, Default)]
pub struct Strands {
    /// CPU time of each, ns.
    pub ns: Vec<i64>,
    /// The task that each is a part of; from the number of the trace's tasks on: of `implicit`.
    pub task: Vec<TaskIx>,
    /// Code outside of tasks in parallel regions of OpenMP, and between them.
    pub implicit: Vec<Implicit>,
    /// What each needs. Without circles.
    pub after: After,
    /// An order in which each comes after what it needs; empty: that of their numbers.
    order: Vec<u32>,
    /// Edges that are left out because they close a circle.
    pub n_circular: u64,
    /// Sum of `ns`.
    pub work_ns: i64,
    /// Of `work_ns`: a task ran, but whether its thread was on a CPU was not seen.
    pub unknown_ns: i64,
}

/// The strands of a recording's tasks; none when no task ran.
pub fn strands(trace: &Trace) -> Option<Strands> {
    strands_of(&Cut::new(trace, &crate::Options::default()))
}

fn strands_of(cut: &Cut<'_>) -> Option<Strands> {
    let trace = cut.trace;
    let rows = [trace.tasks.len(), trace.slices.start.len(), trace.task_edges.kind.len()];
    if trace.tasks.is_empty() || rows.into_iter().any(|n| n >= sweep::MAX_ROWS) {
        return None;
    }
    Some(sweep::strands(cut)).filter(|s| s.work_ns > 0)
}

impl Strands {
    /// Numbers of all strands, each after those that it needs.
    pub fn in_order(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..self.ns.len()).map(|at| self.order.get(at).map_or(at, |&s| s as usize))
    }

    /// Of each strand the weight of the heaviest chain that ends before it, ns: with any number of CPUs it starts then.
    pub fn tops(&self) -> Vec<i64> {
        let mut top = vec![0; self.ns.len()];
        for s in self.in_order() {
            let needs = self.after.of(s).iter();
            let ends = needs.map(|&p| top[p as usize] + self.ns[p as usize]);
            top[s] = ends.max().unwrap_or(0);
        }
        top
    }

    /// Of each strand the weight of the heaviest chain that begins with it, ns.
    pub fn bottoms(&self) -> Vec<i64> {
        let mut below = vec![0; self.ns.len()];
        for s in self.in_order().rev() {
            below[s] += self.ns[s];
            for &p in self.after.of(s) {
                below[p as usize] = below[p as usize].max(below[s]);
            }
        }
        below
    }

    /// The weight of the heaviest chain, ns.
    pub fn span_ns(&self, tops: &[i64]) -> i64 {
        let ends = tops.iter().zip(&self.ns).map(|(top, ns)| top + ns);
        ends.max().unwrap_or(0)
    }

    /// What a task is called; code outside of tasks by its region.
    pub fn name<'t>(&self, trace: &'t Trace, task: TaskIx) -> &'t str {
        let n_tasks = trace.tasks.len();
        match trace.tasks.get(task.ix()) {
            Some(task) => trace.strings.get(task.name),
            None => match self.implicit.get(task.ix() - n_tasks).map(|of| of.name) {
                Some(name) if name.is_some() => trace.strings.get(name),
                _ => BETWEEN,
            },
        }
    }

    /// Joins and barriers of code outside of tasks that are no edges.
    pub fn waits_outside(&self, trace: &Trace) -> u64 {
        ready::waits_outside(trace, &self.implicit)
    }

    /// By task: how much longer its strands could have been, each for itself, without a longer span, ns; none: it did not run.
    pub fn slack_ns(&self, n_tasks: usize) -> Vec<Option<i64>> {
        let (tops, bottoms) = (self.tops(), self.bottoms());
        let span = self.span_ns(&tops);
        let mut slack = vec![None; n_tasks];
        for (s, task) in self.task.iter().enumerate() {
            let own = span - tops[s] - bottoms[s];
            if let Some(slack) = slack.get_mut(task.ix()) {
                let of = slack.get_or_insert(own);
                *of = own.min(*of);
            }
        }
        slack
    }

    /// The heaviest chain as strands, from its begin to its end.
    pub fn heaviest(&self, tops: &[i64]) -> Vec<usize> {
        let end = |s: usize| tops[s] + self.ns[s];
        let last = (0..self.ns.len()).max_by_key(|&s| (end(s), std::cmp::Reverse(self.task[s])));
        let mut chain: Vec<usize> = Vec::new();
        let mut next = last;
        while let Some(s) = next {
            chain.push(s);
            let needs = self.after.of(s).iter().map(|&p| p as usize);
            // Of equal ones the first: the task's own.
            next = needs.rev().max_by_key(|&p| end(p)).filter(|&p| end(p) == tops[s]);
        }
        chain.reverse();
        chain
    }

    /// How many strands run at once if each starts at its `top`: mean in each of `n` equal parts of the span.
    pub fn profile(&self, tops: &[i64], n: usize) -> Vec<f64> {
        let span = self.span_ns(tops).max(1) as f64;
        let part = span / n as f64;
        let mut out = vec![0.0; n];
        for (&top, &ns) in tops.iter().zip(&self.ns).filter(|(_, ns)| **ns > 0) {
            let (from, to) = (top as f64, (top + ns) as f64);
            let first = ((from / part) as usize).min(n - 1);
            let last = ((to / part) as usize).min(n - 1);
            for (bin, value) in out.iter_mut().enumerate().take(last + 1).skip(first) {
                let (a, b) = (bin as f64 * part, (bin + 1) as f64 * part);
                *value += (to.min(b) - from.max(a)).max(0.0) / part;
            }
        }
        out
    }
}

/// The graph; none without tasks that ran.
pub(crate) fn task_graph(cut: &Cut<'_>, queued: Queued) -> Option<TaskGraph> {
    let strands = strands_of(cut)?;
    let tops = strands.tops();
    let span_ns = strands.span_ns(&tops);
    let depends = ready::depends(cut.trace);
    Some(TaskGraph {
        work_ns: strands.work_ns,
        span_ns,
        parallelism: strands.work_ns as f64 / span_ns.max(1) as f64,
        folded: cut.trace.folded_tasks.total(),
        unknown_ns: strands.unknown_ns,
        path: path(cut.trace, &strands, &tops),
        profile: (strands.profile(&tops, PROFILE_PARTS).into_iter())
            .map(|mean| (mean * 1000.0).round() / 1000.0)
            .collect(),
        waiting_ns: queued.waiting_ns,
        ready_ns: queued.ready_ns,
        unknown_edges: cut.trace.task_edges.n_unknown,
        depends: depends.count,
        early: depends.early,
        circular: strands.n_circular,
        waits_outside: strands.waits_outside(cut.trace),
    })
}

/// The heaviest chain by name of the tasks, most time first.
fn path(trace: &Trace, strands: &Strands, tops: &[i64]) -> Vec<PathPart> {
    let mut parts: HashMap<&str, PathPart> = HashMap::new();
    let mut folded: HashMap<TaskIx, u64> = HashMap::new();
    for (task, n) in (trace.folded_tasks.task.iter()).zip(&trace.folded_tasks.count) {
        let sum = folded.entry(*task).or_default();
        *sum = sum.saturating_add(*n);
    }
    let mut seen = TaskIx::NONE;
    for s in strands.heaviest(tops) {
        let task = strands.task[s];
        let part = parts.entry(strands.name(trace, task)).or_default();
        part.ns += strands.ns[s];
        part.tasks += u64::from(task != seen);
        // Once for each task, however often the chain comes back to it.
        let of_task = folded.remove(&task).unwrap_or(0);
        part.folded = part.folded.saturating_add(of_task);
        seen = task;
    }
    let named = |(name, part): (&str, PathPart)| PathPart { name: name.to_string(), ..part };
    let mut path: Vec<PathPart> = parts.into_iter().map(named).collect();
    path.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.name.cmp(&b.name)));
    path
}
