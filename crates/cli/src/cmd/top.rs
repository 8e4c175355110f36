//! `kasuri top`: where the machine's CPU time goes, now.
use super::record::duration;
use crate::message;
use crate::show::screen_width;
use crate::top::{Follower, Screen};
use kasuri_live::{Latencies, Window};
use kasuri_record::tap::Keep;
use kasuri_text::table::{self, TopFacts, TopSort, TopView};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  sudo kasuri top
  sudo kasuri top --sort ready --interval 2s
  sudo kasuri top -n 1 --interval 5s               one table of 5 s, without a screen
  sudo kasuri top --json -n 10 | jq '.window.busy_ns'

Columns: CPUS time on CPUs; READY time able to run without a CPU; OTHERS the part of READY in which
threads of other processes had that CPU; all three as a number of CPUs or threads, on average.
IMBAL (longest - mean) / longest CPU time of its busy threads. SW/S switches per second. P99: 99 % of its wake-ups
reached a CPU within this time. BLOCKED IN: system calls in which its threads wait right now; `? 7`: seven were not asked.

Keys: q quit, space freeze, t threads or processes, c r o w sort by CPU, READY, OTHERS, switches,
/ filter by name or number, s save the last seconds as a recording.";

/// Its name and version.
const SCHEMA: &str = "kasuri.top/1";

/// Show where the machine's CPU time goes, live
///
/// Uses the kernel's scheduler events of the whole system, as `kasuri record -a` does, and keeps only sums, and the last seconds to
/// save. Nothing is sampled but the column BLOCKED IN. Needs root.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Length of a window
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    interval: Duration,
    /// End after N windows; without a terminal each is printed in turn
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    n: Option<u64>,
    /// One row for each thread
    #[arg(short, long)]
    threads: bool,
    /// The order of the rows
    #[arg(long, value_name = "BY", default_value = "cpu", value_parser = ["cpu", "ready", "others", "switches"])]
    sort: String,
    /// Only processes and threads with TEXT in their name, or with this number
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Rows of a table that is printed
    #[arg(long, value_name = "N", default_value_t = 20)]
    rows: usize,
    /// Print one line of JSON (schema kasuri.top/1) for each window, with every row
    #[arg(long)]
    json: bool,
    /// Print windows one after the other also to a terminal
    #[arg(long)]
    plain: bool,
    /// What the key s saves, and --save at the end: this much time, 64 MiB of events at most
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    keep: Duration,
    /// Save the last seconds as a recording when it ends
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// Memory for the events that may be saved.
const KEEP_BYTES: usize = 64 << 20;

/// Follows the machine until the user ends it.
///
/// # Errors
/// When the kernel gives no events, or the output cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let keep = Keep { time: args.keep, bytes: KEEP_BYTES };
    let mut follower = Follower::start(keep, args.interval)?;
    for note in follower.notes() {
        message::note(&note);
    }
    let view = TopView {
        width: screen_width(),
        rows: args.rows,
        threads: args.threads,
        sort: TopSort::ALL
            .iter()
            .find(|(name, _)| *name == args.sort)
            .map_or(TopSort::Cpu, |(_, sort)| *sort),
        filter: args.filter.clone(),
    };
    let is_screen = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    match is_screen && !args.plain && !args.json && args.n.is_none() {
        true => Screen::open(view)?.follow(&mut follower)?,
        false => print(&args, &mut follower, &view)?,
    }
    if let Some(file) = &args.save {
        follower.save(file)?;
        message::note(format!("saved {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn print(args: &Args, follower: &mut Follower, view: &TopView) -> anyhow::Result<()> {
    let mut out = crate::screen::screen();
    let mut n = 0;
    while args.n.is_none_or(|most| n < most) {
        // Ctrl-C ends it; what was printed is whole.
        let Some((window, facts)) = follower.next()? else {
            break;
        };
        if args.json {
            let line = Line::new(&window, &facts);
            kasuri_text::json::write_line(&line, &mut out)?;
        } else {
            let page = table::top(&window, &facts, view);
            writeln!(out, "{}{}", if n == 0 { "" } else { "\n" }, page.lines.join("\n"))?;
        }
        out.flush()?;
        n += 1;
    }
    Ok(())
}

/// One window; one object a line.
#[derive(Serialize, JsonSchema)]
pub struct Line<'a> {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// CPU time of kasuri itself in the window, ns.
    own_cpu_ns: u64,
    /// Events that the kernel lost in the window.
    lost: u64,
    /// Waits for a CPU after wake-ups, of all threads.
    wake_to_cpu_ns: Percentiles,
    /// The same by process number; processes without a wake-up are absent.
    process_wake_to_cpu_ns: BTreeMap<String, Percentiles>,
    /// System calls in which blocked threads were found as the window ended, and the number of threads, by number of process or thread.
    blocked_in: BTreeMap<String, &'a [(String, usize)]>,
    /// Blocked threads that are in none of these because they ran in the window and there were too many to ask, by number of process.
    blocked_not_asked: BTreeMap<String, usize>,
    /// Processes in cgroups with a CPU limit, of the sixteen with most CPU time.
    limits: Vec<Limit>,
    /// The window.
    window: &'a Window,
}

/// Upper ends of buckets an eighth wide, ns; null: there were none.
#[derive(Serialize, JsonSchema)]
struct Percentiles {
    /// Wake-ups.
    count: u64,
    /// Half of them took no longer.
    p50: Option<u64>,
    /// 90 %.
    p90: Option<u64>,
    /// 99 %.
    p99: Option<u64>,
    /// 99.9 %.
    p999: Option<u64>,
}

/// A process in a cgroup with a CPU limit.
#[derive(Serialize, JsonSchema)]
struct Limit {
    /// The process.
    pid: i32,
    /// The strictest limit, as a number of CPUs.
    cpus: f64,
    /// For how long its cgroup was held off in the window, ns.
    throttled_ns: u64,
}

impl<'a> Line<'a> {
    fn new(window: &'a Window, facts: &'a TopFacts) -> Line<'a> {
        let found = || facts.blocked_in.iter().map(|(of, found)| (of.to_string(), found));
        let woken = window.processes.iter().filter(|p| p.latencies.count() > 0);
        let limit =
            |&(pid, cpus, throttled_ns): &(i32, f64, u64)| Limit { pid, cpus, throttled_ns };
        Line {
            schema: SCHEMA,
            own_cpu_ns: facts.own_ns,
            lost: facts.lost,
            wake_to_cpu_ns: Percentiles::of(&window.latencies),
            process_wake_to_cpu_ns: woken
                .map(|p| (p.pid.to_string(), Percentiles::of(&p.latencies)))
                .collect(),
            blocked_in: (found().filter(|(_, found)| !found.calls.is_empty()))
                .map(|(of, found)| (of, &found.calls[..]))
                .collect(),
            blocked_not_asked: (found().filter(|(_, found)| found.not_asked > 0))
                .map(|(of, found)| (of, found.not_asked))
                .collect(),
            limits: facts.limits.iter().map(limit).collect(),
            window,
        }
    }
}

impl Percentiles {
    fn of(latencies: &Latencies) -> Percentiles {
        let at = |share| latencies.percentile(share);
        Percentiles {
            count: latencies.count(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
        }
    }
}
