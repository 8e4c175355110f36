//! `kasuri events`: the kernel's tracepoints, what each costs here and what it is for.
use crate::lab::{Place, Stop};
use crate::message;
use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use kasuri_lab::events::{EventCost, Probe, Table, provokers};
use kasuri_lab::stats::Estimate;
use kasuri_lab::tracer::Kernel;
use kasuri_lab::worker::Worker;
use kasuri_record::selection::{BUILTIN, Selections, purpose};
use kasuri_text::table::grid::{Grid, number, text, word};
use kasuri_text::table::units;
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// Its name and version.
const SCHEMA: &str = "kasuri.events/1";

const EXAMPLES: &str = "\
Examples:
  sudo kasuri events                          the events of kasuri's selections
  sudo kasuri events sched irq:softirq_entry  a subsystem and an event
  sudo kasuri events --all --json             every event of the kernel (takes a minute or two)
  sudo kasuri events --look 5s                rates of five seconds of this system
  sudo kasuri events -- ./program             rates of the program's first second
  kasuri events --usdt python3                probes of a program and its libraries

ON, PAUSED, FILTERED: nanoseconds per hit while the event is recorded, while tracing is paused, and
while a filter rejects it, more than while the event is disabled.
Define your own selections in ~/.config/kasuri/selections, one per line: NAME = EVENT, EVENT, ...";

/// List the kernel's events, their cost on this machine, and what they are for.
///
/// Measures the cost of each event with operations that trigger it, and its rate on the running system or in the first second of
/// a program (which is then terminated). Prints from both which share of the CPUs, and how many MB/s, recording it would take.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Events (system:name), subsystems or selections [default: all selections but `all`]
    event: Vec<String>,

    /// List every event of the kernel
    #[arg(long, conflicts_with = "event")]
    all: bool,

    /// List the USDT probes of a program with its libraries, of a library, or of the running process PID
    #[arg(long, value_name = "PROGRAM|PID", conflicts_with_all = ["event", "all", "program"])]
    usdt: Option<OsString>,

    /// How long to count the events of the running system
    #[arg(long, value_name = "TIME", value_parser = crate::cmd::record::duration, default_value = "1s")]
    look: Duration,

    /// Number of measurements of each event
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// CPU to measure on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Program to run; its first second is counted instead of the running system
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Measures and prints.
///
/// # Errors
/// When there is no tracefs for us, or an event has no such name.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(of) = &args.usdt {
        return super::usdt::run(of, args.json);
    }
    let place = Place::new(args.cpu)?;
    let stop = Stop::new()?;
    let selections = Selections::load()?;
    let mut kernel = Kernel::open()?;
    let (executable, arguments) = &place.worker;
    let mut worker = Worker::start(executable, arguments, None)?;
    let mut table = Table::read(&kernel);
    let wanted = wanted(&args, &selections, &table)?;
    let mut probe = Probe {
        kernel: &mut kernel,
        worker: &mut worker,
        cpu: place.cpu,
        scratch: place.scratch.path(),
    };
    let bar = ProgressBar::new(wanted.len() as u64 + 2).with_style(
        ProgressStyle::with_template("{msg:32} {wide_bar} {pos}/{len} {eta}")
            .expect("a fixed template"),
    );
    bar.set_message("counting events");
    let mut program = Ok(None);
    probe.look(&mut table, args.look, || program = start(&args.program))?;
    drop(program?);
    bar.inc(1);
    bar.set_message("finding operations that trigger events");
    let missing = probe.scan(&mut table, &provokers())?;
    bar.inc(1);
    for &row in &wanted {
        if stop.asked() {
            break;
        }
        bar.set_message(table.events[row].name.clone());
        probe.measure(&mut table.events[row], args.rounds)?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    if stop.asked() {
        message::warning("interrupted: the last events were not measured");
    }
    for (operation, why) in &missing {
        message::warning(format_args!(
            "{operation} cannot be run here: {why}; events that only it triggers are not measured"
        ));
    }
    let rows: Vec<&EventCost> = wanted.iter().map(|&row| &table.events[row]).collect();
    let mut out = crate::screen::screen();
    if args.json {
        let missing = missing.iter();
        let missing = missing.map(|(operation, why)| format!("{operation}: {why}"));
        let answer = answer(&rows, &table, args.look, missing.collect());
        kasuri_text::json::write(&answer, &mut out)?;
    } else {
        write!(out, "{}", page(&rows, &table, &args))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A program under observation; ended when dropped.
struct Observed(Child);

impl Drop for Observed {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            message::note("the program was measured: terminating it");
            if let Some(pid) = rustix::process::Pid::from_raw(self.0.id() as i32) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        let _ = self.0.wait();
    }
}

fn start(program: &[OsString]) -> anyhow::Result<Option<Observed>> {
    let Some((name, arguments)) = program.split_first() else {
        return Ok(None);
    };
    // Its output is of no interest.
    let child = Command::new(name).args(arguments).stdout(Stdio::null()).spawn();
    match child {
        Ok(child) => Ok(Some(Observed(child))),
        Err(e) => bail!("cannot run {}: {e}", name.display()),
    }
}

/// Rows of the table, in its order.
fn wanted(args: &Args, selections: &Selections, table: &Table) -> anyhow::Result<Vec<usize>> {
    if args.all {
        return Ok((0..table.events.len()).collect());
    }
    let names = if args.event.is_empty() {
        BUILTIN.iter().map(|b| b.name.to_owned()).filter(|name| name != "all").collect()
    } else {
        args.event.clone()
    };
    let mut rows = Vec::new();
    for name in &names {
        let system = format!("{name}/");
        let is_system = table.events.iter().any(|e| e.name.starts_with(&system));
        // `irq` is a selection and a subsystem: the selection is meant; irq:* is the other.
        let name = match is_system && !selections.names().contains(&name.as_str()) {
            true => format!("{name}:*"),
            false => name.clone(),
        };
        for (event, _) in selections.resolve(std::slice::from_ref(&name))? {
            let found = match event.strip_suffix('*') {
                Some("*/") => (0..table.events.len()).collect(),
                Some(system) => (0..table.events.len())
                    .filter(|&r| table.events[r].name.starts_with(system))
                    .collect(),
                None => table.find(&event).into_iter().collect::<Vec<_>>(),
            };
            if found.is_empty() {
                message::warning(format_args!("this kernel has no event {event}"));
            }
            rows.extend(found);
        }
    }
    rows.sort_unstable();
    rows.dedup();
    Ok(rows)
}

/// CPU time that recording the event would take per second of the look, in seconds.
fn cpu_share(event: &EventCost) -> Option<f64> {
    Some(event.per_second? * event.on_ns?.median.max(0.0) * 1e-9)
}

fn bytes_per_second(event: &EventCost) -> Option<f64> {
    Some(event.per_second? * f64::from(event.bytes))
}

/// The kernel's tracepoints, and what each costs here.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Time for which the system, or the program, was observed, s.
    look_seconds: f64,
    /// The events that were asked for.
    events: Vec<OfEvent<'a>>,
    /// Kasuri's selections of events.
    selections: Vec<OfSelection>,
    /// Operations that cannot be run here, and why: events that only they trigger are not measured.
    missing: Vec<String>,
}

/// An event.
#[derive(Serialize, JsonSchema)]
struct OfEvent<'a> {
    /// What was measured.
    #[serde(flatten)]
    cost: &'a EventCost,
    /// What it is for; empty: not known.
    purpose: &'static str,
    /// CPU time that recording it would take per second of the look, s; null: not measured.
    cpu_share: Option<f64>,
    /// Bytes that it would write per second of the look; null: not observed.
    bytes_per_second: Option<f64>,
}

/// A selection of events.
#[derive(Serialize, JsonSchema)]
struct OfSelection {
    /// Its name.
    name: &'static str,
    /// What it shows.
    what: &'static str,
    /// Events in it that this kernel has.
    events: usize,
    /// Hits of all of them per second.
    per_second: f64,
    /// Bytes that they would write per second.
    bytes_per_second: f64,
    /// CPU time that recording them would take per second, s.
    cpu_share: f64,
    /// Events that were hit, and whose cost was not measured.
    not_measured: usize,
}

fn answer<'a>(
    rows: &[&'a EventCost],
    table: &Table,
    look: Duration,
    missing: Vec<String>,
) -> Answer<'a> {
    let event = |&cost: &&'a EventCost| OfEvent {
        cost,
        purpose: purpose(&cost.name),
        cpu_share: cpu_share(cost),
        bytes_per_second: bytes_per_second(cost),
    };
    let selections = BUILTIN.iter().map(|b| {
        let sum = sum(b.events, table);
        OfSelection {
            name: b.name,
            what: b.what,
            events: sum.events,
            per_second: sum.per_second,
            bytes_per_second: sum.bytes,
            cpu_share: sum.share,
            not_measured: sum.unmeasured,
        }
    });
    Answer {
        schema: SCHEMA,
        look_seconds: look.as_secs_f64(),
        events: rows.iter().map(event).collect(),
        selections: selections.collect(),
        missing,
    }
}

#[derive(Default)]
struct Sum {
    events: usize,
    per_second: f64,
    bytes: f64,
    share: f64,
    unmeasured: usize,
}

fn sum(events: &[(&str, &str)], table: &Table) -> Sum {
    let mut sum = Sum::default();
    let all = events.iter().any(|(name, _)| *name == "*/*");
    for event in &table.events {
        if !all && !events.iter().any(|(name, _)| *name == event.name) {
            continue;
        }
        sum.events += 1;
        let rate = event.per_second.unwrap_or(0.0);
        sum.per_second += rate;
        sum.bytes += bytes_per_second(event).unwrap_or(0.0);
        sum.share += cpu_share(event).unwrap_or(0.0);
        sum.unmeasured += usize::from(rate > 0.0 && event.on_ns.is_none());
    }
    sum
}

/// ns; where the interval includes 0, "less than" its upper end.
fn nanoseconds(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(
        || "-".to_owned(),
        |e| {
            if e.low <= 0.0 {
                format!("<{:.0}", e.high.max(0.0).ceil())
            } else {
                format!("{:.0}", e.median)
            }
        },
    )
}

fn rate(per_second: Option<f64>) -> String {
    per_second.map_or_else(|| "-".to_owned(), |r| units::count(r.round() as u64))
}

fn megabytes(bytes: f64) -> String {
    if bytes == 0.0 {
        "0".to_owned()
    } else if bytes < 5e3 {
        "<0.01".to_owned()
    } else {
        format!("{:.2}", bytes / 1e6)
    }
}

fn page(rows: &[&EventCost], table: &Table, args: &Args) -> String {
    let width = crate::show::screen_width();
    let mut grid = Grid::new(&[
        word("EVENT", 0),
        number("ON ns", 0),
        number("PAUSED", 0),
        number("FILTERED", 0),
        number("BYTES", 0),
        number("HITS/S", 0),
        number("CPU", 0),
        number("MB/S", 0),
        word("MEASURED IN", 2),
        text("FOR"),
    ]);
    for e in rows {
        grid.row([
            e.name.replacen('/', ":", 1),
            nanoseconds(e.on_ns),
            nanoseconds(e.paused_ns),
            nanoseconds(e.filtered_ns),
            e.bytes.to_string(),
            rate(e.per_second),
            cpu_share(e).map_or_else(|| "-".to_owned(), units::percent),
            bytes_per_second(e).map_or_else(|| "-".to_owned(), megabytes),
            e.operation.unwrap_or("-").to_owned(),
            purpose(&e.name).to_owned(),
        ]);
    }
    let mut page = grid.page(width);
    let what = match args.program.first() {
        Some(program) => format!("the first {:?} of {}", args.look, program.display()),
        None => format!("{:?} of this system", args.look),
    };
    page.push_str(&format!(
        "\nSelections, in {what} (CPU: of one CPU's time; unmeasured events left out)\n"
    ));
    let mut grid = Grid::new(&[
        text("SELECTION"),
        number("EVENTS", 0),
        number("HITS/S", 0),
        number("CPU", 0),
        number("MB/S", 0),
        number("UNMEASURED", 0),
        word("WHAT IT ANSWERS", 0),
    ]);
    for b in BUILTIN {
        let sum = sum(b.events, table);
        grid.row([
            b.name.to_owned(),
            sum.events.to_string(),
            units::count(sum.per_second.round() as u64),
            // Nothing known is not nothing spent.
            if sum.share == 0.0 && sum.unmeasured > 0 {
                "-".to_owned()
            } else {
                units::percent(sum.share)
            },
            megabytes(sum.bytes),
            sum.unmeasured.to_string(),
            b.what.to_owned(),
        ]);
    }
    page.push_str(&grid.page(width));
    page
}
