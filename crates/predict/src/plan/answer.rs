//! The answer of `kasuri plan`. Field names are the keys of `--json`; times in ns, shares of 1.
use super::{Graph, Schedule, Scheduler, Workers, schedule};
use schemars::JsonSchema;
use serde::Serialize;

/// Format of the JSON.
pub const SCHEMA: &str = "kasuri.plan/1";

/// Runs of the thieves; the median counts.
const STEALS: u64 = 9;

/// A task of the recording.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Its name.
    pub name: String,
    /// The program's id.
    pub id: u64,
    /// First run and end, ns since the first task's first run; none: not seen.
    pub start_ns: Option<i64>,
    /// End.
    pub end_ns: Option<i64>,
    /// How much longer it could have run without a longer span, ns.
    pub slack_ns: i64,
    /// No task of the program: a point that tasks wait for, or code outside of tasks.
    pub is_point: bool,
}

/// What is to be planned.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The recorded command.
    pub command: Vec<String>,
    /// Its strands.
    pub graph: Graph,
    /// Task of each strand.
    pub task: Vec<u32>,
    /// The tasks.
    pub tasks: Vec<Recorded>,
    /// Threads that ran tasks.
    pub workers: usize,
    /// Doubts about the graph.
    pub notes: Vec<String>,
}

impl Input {
    /// CPU time of each task that ran, ns, by the program's id: what `ito_graph_costs` takes.
    pub fn costs(&self) -> Vec<(u64, u64)> {
        let mut ns = vec![0; self.tasks.len()];
        for (&task, strand) in self.task.iter().zip(&self.graph.ns) {
            ns[task as usize] += strand;
        }
        let both = self.tasks.iter().zip(ns);
        both.filter(|(task, _)| task.start_ns.is_some() && task.end_ns.is_some())
            .map(|(task, ns)| (task.id, ns))
            .collect()
    }
}

/// What to plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// Numbers of workers, each at least 1.
    pub workers: Vec<usize>,
    /// Schedulers.
    pub schedulers: Vec<Scheduler>,
    /// Until a strand of another worker can be used, ns.
    pub transfer_ns: u64,
}

/// The recorded tasks, scheduled.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Plan {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The recorded command.
    pub command: Vec<String>,
    /// Tasks.
    pub tasks: u64,
    /// Strands: stretches of tasks between creations and joins; what is scheduled.
    pub strands: u64,
    /// CPU time of all tasks, ns.
    pub work_ns: u64,
    /// The heaviest chain of it, ns.
    pub span_ns: u64,
    /// From the first task's first run to the last one's end in the recording, ns.
    pub recorded_ns: u64,
    /// Threads that ran tasks there.
    pub recorded_workers: usize,
    /// Until a strand of another worker can be used, ns.
    pub transfer_ns: u64,
    /// By number of workers.
    pub points: Vec<Point>,
    /// The recording against the first schedule of the first point, latest task first.
    pub lateness: Vec<Late>,
    /// What to know of the numbers.
    pub notes: Vec<String>,
}

/// Schedules on one number of workers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// Workers.
    pub workers: usize,
    /// No schedule is shorter, ns: the larger of the span and work / workers.
    pub bound_ns: u64,
    /// Which of the two: `span` or `work`.
    pub bound: &'static str,
    /// The schedules, as asked for.
    pub schedules: Vec<Planned>,
}

/// One schedule.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Planned {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// Its length, ns; of `steal` the median of several runs.
    pub makespan_ns: u64,
    /// The shortest and the longest of these runs.
    pub least_ns: u64,
    /// The longest.
    pub most_ns: u64,
    /// `work_ns / (workers * makespan_ns)`.
    pub efficiency: f64,
    /// `work_ns / makespan_ns`.
    pub speedup: f64,
    /// `makespan_ns / bound_ns`: 1 cannot be improved.
    pub over_bound: f64,
}

/// A task in the recording and in the plan, ns since the first task's first run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Late {
    /// Its name.
    pub name: String,
    /// The program's id.
    pub id: u64,
    /// Worker in the plan, from 0.
    pub worker: u32,
    /// First run in the plan.
    pub planned_start_ns: u64,
    /// End in the plan.
    pub planned_end_ns: u64,
    /// First run in the recording.
    pub start_ns: i64,
    /// End in the recording.
    pub end_ns: i64,
    /// `end_ns - planned_end_ns`; negative: early.
    pub late_ns: i64,
    /// How much longer it could have run without a longer span.
    pub slack_ns: i64,
}

/// Plans; none: no strand has any weight.
pub fn plan(input: &Input, options: &Options) -> Option<Plan> {
    let graph = &input.graph;
    let (work, span) = (graph.work(), graph.span());
    if work == 0 {
        return None;
    }
    let mut first: Option<Schedule> = None;
    let points = options.workers.iter().map(|&n| {
        let workers = Workers { n: n.max(1), transfer_ns: options.transfer_ns };
        let share = work.div_ceil(workers.n as u64);
        let bound_ns = span.max(share);
        let one = |&by: &Scheduler| {
            let (planned, schedule) = planned(graph, workers, by, bound_ns);
            first.get_or_insert(schedule);
            planned
        };
        Point {
            workers: workers.n,
            bound_ns,
            bound: if span >= share { "span" } else { "work" },
            schedules: options.schedulers.iter().map(one).collect(),
        }
    });
    let points = points.collect();
    let ends = input.tasks.iter().filter_map(|t| t.end_ns);
    Some(Plan {
        schema: SCHEMA,
        command: input.command.clone(),
        tasks: input.tasks.iter().filter(|t| !t.is_point).count() as u64,
        strands: graph.len() as u64,
        work_ns: work,
        span_ns: span,
        recorded_ns: ends.max().unwrap_or(0).max(0) as u64,
        recorded_workers: input.workers,
        transfer_ns: options.transfer_ns,
        points,
        lateness: first.map_or(Vec::new(), |schedule| lateness(input, &schedule)),
        notes: input.notes.clone(),
    })
}

fn planned(graph: &Graph, workers: Workers, by: Scheduler, bound_ns: u64) -> (Planned, Schedule) {
    let runs = if by == Scheduler::Steal { STEALS } else { 1 };
    let run = |seed: u64| (schedule(graph, workers, by, seed).makespan, seed);
    let mut lengths: Vec<(u64, u64)> = (0..runs).map(run).collect();
    lengths.sort_unstable();
    let (makespan, seed) = lengths[lengths.len() / 2];
    let work = graph.work() as f64;
    let planned = Planned {
        scheduler: by,
        makespan_ns: makespan,
        least_ns: lengths[0].0,
        most_ns: lengths[lengths.len() - 1].0,
        efficiency: work / (workers.n as f64 * makespan as f64),
        speedup: work / makespan as f64,
        over_bound: makespan as f64 / bound_ns as f64,
    };
    (planned, schedule(graph, workers, by, seed))
}

/// Every task that was seen to run, latest first.
fn lateness(input: &Input, schedule: &Schedule) -> Vec<Late> {
    // Begin, end and first worker of each task.
    let mut planned: Vec<Option<(u64, u64, u32)>> = vec![None; input.tasks.len()];
    for (strand, &task) in input.task.iter().enumerate() {
        let (start, worker) = (schedule.start[strand], schedule.worker[strand]);
        let end = start + input.graph.ns[strand];
        let of = planned[task as usize].get_or_insert((start, end, worker));
        if start < of.0 {
            (of.0, of.2) = (start, worker);
        }
        of.1 = of.1.max(end);
    }
    let rows = input.tasks.iter().zip(planned).filter_map(|(task, planned)| {
        let (planned_start_ns, planned_end_ns, worker) = planned?;
        let (start_ns, end_ns) = (task.start_ns?, task.end_ns?);
        Some(Late {
            name: task.name.clone(),
            id: task.id,
            worker,
            planned_start_ns,
            planned_end_ns,
            start_ns,
            end_ns,
            late_ns: end_ns - planned_end_ns as i64,
            slack_ns: task.slack_ns,
        })
    });
    let mut rows: Vec<Late> = rows.collect();
    rows.sort_by_key(|late| (std::cmp::Reverse(late.late_ns), late.id));
    rows
}
