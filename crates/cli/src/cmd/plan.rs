//! `kasuri plan FILE`.
use crate::open::Input;
use crate::show::{layout, show};
use kasuri_analyze::task_graph;
use kasuri_model::{SliceKind, TaskIx, Time, Trace};
use kasuri_predict::plan;
use kasuri_report::planned;
use kasuri_text::table;
use std::io::Write;
use std::process::ExitCode;

/// Schedule the recorded tasks on other numbers of workers, and compare the run with the plan
///
/// Takes the graph of the recorded tasks (creations, joins, dependences) with the CPU time that each took, and schedules it by list
/// schedulers and by work stealing. Prints how long each schedule is, the bounds that no schedule can beat, and the tasks that ended
/// latest against the first plan. Tasks take as long in the plan as they did in the recording.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri plan -P 8 run.kasuri
  kasuri plan -P 2,4,8 --scheduler cp,steal run.kasuri
  kasuri plan -P 8 --transfer 2000 run.kasuri     data of another worker come 2 us later
  kasuri plan --costs run.kasuri > run.costs      for ito_graph_costs (ito/graph.h)
  kasuri plan --json run.kasuri | jq '.points[].schedules[] | [.scheduler, .makespan_ns]'")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Numbers of workers to plan for [default: as many as ran tasks]
    #[arg(short = 'P', long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Vec<u16>,
    /// Schedulers; the run is compared with the first
    #[arg(
        long,
        value_name = "S,S",
        value_delimiter = ',',
        default_value = "cp,dt-misf,heft,etf,steal"
    )]
    scheduler: Vec<Scheduler>,
    /// Time until a task can use what one on another worker made, ns
    #[arg(long, value_name = "NS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    transfer: u64,
    /// Print JSON (schema kasuri.plan/1)
    #[arg(long)]
    json: bool,
    /// Print the CPU time of each task, for ito_graph_costs, instead of a plan
    #[arg(long, conflicts_with_all = ["json", "workers", "scheduler", "transfer", "top"])]
    costs: bool,
    /// Print at most N of the latest tasks; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// [`plan::Scheduler`] on the command line.
#[derive(Clone, Copy, PartialEq, Debug, clap::ValueEnum)]
pub(super) enum Scheduler {
    /// Critical path first, then most immediate successors (CP/MISF)
    Cp,
    /// Least to transfer, then most immediate successors (DT/MISF)
    DtMisf,
    /// Critical path first, also into gaps (HEFT)
    Heft,
    /// Earliest start first, then critical path (ETF)
    Etf,
    /// Work stealing from random victims
    Steal,
}

impl Scheduler {
    fn planned(self) -> plan::Scheduler {
        match self {
            Scheduler::Cp => plan::Scheduler::Cp,
            Scheduler::DtMisf => plan::Scheduler::DtMisf,
            Scheduler::Heft => plan::Scheduler::Heft,
            Scheduler::Etf => plan::Scheduler::Etf,
            Scheduler::Steal => plan::Scheduler::Steal,
        }
    }
}

/// Why there is no plan.
pub(super) fn nothing(file: &impl std::fmt::Display) -> String {
    format!(
        "{file}: no task ran, so there is nothing to plan; tasks are annotated with KASURI_TASK_CREATE and its kin, or by ito"
    )
}

/// Plans and prints.
///
/// # Errors
/// When the recording cannot be read or has no tasks that ran, or stdout cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let trace = args.input.load()?;
    let nothing = || anyhow::anyhow!(nothing(&args.input.name()));
    let strands = task_graph::strands(&trace).ok_or_else(nothing)?;
    let input = input(&trace, &strands);
    if args.costs {
        write_costs(&input, &mut crate::screen::screen())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut workers: Vec<usize> = args.workers.iter().map(|&n| n.into()).collect();
    if workers.is_empty() {
        workers.push(input.workers.clamp(1, 1024));
    }
    let mut schedulers: Vec<plan::Scheduler> = Vec::new();
    for by in args.scheduler.iter().map(|s| s.planned()) {
        if !schedulers.contains(&by) {
            schedulers.push(by);
        }
    }
    let options = plan::Options { workers, schedulers, transfer_ns: args.transfer };
    let answer = plan::plan(&input, &options).ok_or_else(nothing)?;
    show(&answer, args.json, &layout(&trace, args.top))
}

/// What threads/src/graph/graph_costs.c reads: a first line, `ID NS` of each task that ran and ended, and their number, so that a file
/// that was cut is known. Lines with `#` are for people.
fn write_costs(input: &plan::Input, out: &mut impl Write) -> std::io::Result<()> {
    let mut text = String::from("kasuri.costs/1\n");
    for note in &input.notes {
        text += &format!("# {}\n", table::units::printable(note));
    }
    let costs = input.costs();
    for (id, ns) in &costs {
        text += &format!("{id} {ns}\n");
    }
    text += &format!("end {}\n", costs.len());
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Rows of a report with the plan of the recorded tasks. Returns what [`kasuri_report::Options::lateness`] wants; none: no task ran.
pub(super) fn add_rows(
    trace: &mut Trace,
    by: Scheduler,
    workers: Option<u16>,
) -> Option<Vec<(kasuri_model::StrIx, planned::Lateness)>> {
    let strands = task_graph::strands(trace)?;
    let input = input(trace, &strands);
    let n = workers.map_or(input.workers.clamp(1, 1024), usize::from);
    let by = by.planned();
    let machine = plan::Workers { n, transfer_ns: 0 };
    let schedule = plan::schedule(&input.graph, machine, by, 0);
    let first = first(trace, &strands);
    let at = |ns: u64| Time(first.0.saturating_add_unsigned(ns));
    let mut starts: Vec<Option<u64>> = vec![None; trace.tasks.len()];
    for (&task, &start) in input.task.iter().zip(&schedule.start) {
        // Code outside of tasks has no row.
        if let Some(of) = starts.get_mut(task as usize) {
            let of = of.get_or_insert(start);
            *of = start.min(*of);
        }
    }
    let stretch = |strand: usize| {
        let task = input.task[strand];
        let planned = at((*starts.get(task as usize)?)?);
        // A point never starts.
        let started = trace.tasks[task as usize].started;
        let late = started.0.saturating_sub(planned.0);
        let (start, ns) = (schedule.start[strand], input.graph.ns[strand]);
        Some(planned::Stretch {
            worker: schedule.worker[strand],
            task: TaskIx(task),
            start: at(start),
            end: at(start + ns),
            lateness: planned::Lateness::of(late, schedule.makespan),
        })
    };
    let stretches = (0..input.graph.len()).filter_map(stretch).collect();
    let title = format!("plan: {} on {n} worker{}", by.word(), if n == 1 { "" } else { "s" });
    Some(planned::add(trace, &title, n, stretches))
}

/// When the first of what is planned began.
fn first(trace: &Trace, strands: &task_graph::Strands) -> Time {
    let tasks = trace.tasks.iter().map(|t| t.started);
    let implicit = strands.implicit.iter().map(|of| of.start);
    tasks.chain(implicit).min().unwrap_or(Time::MAX)
}

/// The recording for the planner: strands in an order in which each comes after what it needs.
fn input(trace: &Trace, strands: &task_graph::Strands) -> plan::Input {
    let mut number = vec![0u32; strands.ns.len()];
    let mut out = plan::Input { command: trace.info.command.clone(), ..plan::Input::default() };
    for strand in strands.in_order() {
        let needs: Vec<u32> =
            (strands.after.of(strand).iter()).map(|&p| number[p as usize]).collect();
        number[strand] = out.graph.push(strands.ns[strand].max(0) as u64, needs);
        out.task.push(strands.task[strand].0);
    }
    let slack = strands.slack_ns(trace.tasks.len());
    let first = first(trace, strands);
    let since = |time: Time| (first != Time::MAX).then(|| (time - first).ns());
    out.tasks = (trace.tasks.iter().zip(slack))
        .map(|(task, slack)| plan::Recorded {
            name: trace.strings.get(task.name).into(),
            id: task.id,
            start_ns: since(task.started).filter(|_| task.started != Time::MAX),
            end_ns: since(task.ended).filter(|_| task.ended != Time::MAX),
            slack_ns: slack.unwrap_or(0),
            is_point: task.is_point,
        })
        .collect();
    let n_tasks = trace.tasks.len() as u32;
    out.tasks.extend((strands.implicit.iter().zip(n_tasks..)).map(|(of, task)| plan::Recorded {
        name: strands.name(trace, TaskIx(task)).into(),
        end_ns: since(of.end),
        is_point: true,
        ..plan::Recorded::default()
    }));
    let s = &trace.slices;
    let mut threads: Vec<_> = (0..s.start.len())
        .filter(|&row| s.kind[row] == SliceKind::TaskRun)
        .map(|row| s.thread[row])
        .collect();
    threads.sort_unstable();
    threads.dedup();
    out.workers = threads.len();
    let doubts = table::edge_doubts(table::EdgeDoubts {
        unknown: trace.task_edges.n_unknown,
        circular: strands.n_circular,
        early: task_graph::depends(trace).early,
        waits_outside: strands.waits_outside(trace),
    });
    out.notes.extend((!doubts.is_empty()).then_some(doubts));
    let folded = trace.folded_tasks.total();
    out.notes.extend((folded > 0).then(|| {
        format!("{folded} small tasks are folded into others, which could have run in parts: the span is at most, the parallelism at least what is said")
    }));
    if strands.unknown_ns > 0 {
        out.notes.push(format!(
            "{:.0} % of the work is assumed: tasks ran, and the recording does not show whether their threads were on a CPU",
            100.0 * strands.unknown_ns as f64 / strands.work_ns.max(1) as f64
        ));
    }
    out
}
