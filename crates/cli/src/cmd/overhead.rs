//! `kasuri overhead`: what tracing costs here, by operation and configuration.
use crate::lab::{Place, Stop};
use crate::message;
use crate::output::Output;
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use kasuri_lab::config::{Config, STANDARD};
use kasuri_lab::ops;
use kasuri_lab::overhead::{Cell, Options, Overhead, Row, measure};
use kasuri_text::chart::overhead;
use kasuri_text::table::grid::{Grid, number, text};
use kasuri_text::table::units;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  sudo kasuri overhead                                 the standard tables, less than a minute
  sudo kasuri overhead --config default,block,net      also all events of two subsystems
  sudo kasuri overhead --op 'null call,2p/0K' --rounds 25
  sudo kasuri overhead --also 'trace-cmd=trace-cmd record -e sched -o /tmp/t.dat'
  kasuri overhead --config present,annotations --json  without root
  sudo kasuri overhead --html price.html               a page with a chart
  sudo kasuri overhead --with-lmbench ~/lmbench3 --rounds 5
  sudo kasuri overhead --volume                        MB/s of each selection, in 30 s
  sudo kasuri overhead --volume 10s -- ./program       while a program runs

Configurations: present annotations sched default syscalls irq all, or a subsystem of the kernel's
events. Ctrl-C stops, and prints what was measured so far.";

/// Measure what tracing costs on this machine.
///
/// Runs operations of LMbench alternately without a tracer and under each configuration. Prints how many times as long each
/// takes (the median of the rounds with its 95 % interval) and the nanoseconds added. Leaves nothing enabled in the kernel.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Configurations to measure [default: the seven below]
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = STANDARD.to_vec(), hide_default_value = true)]
    config: Vec<String>,

    /// Operations to measure [default: all; --op list prints them]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    op: Vec<String>,

    /// Also measure another tracer: a shell command that records until SIGINT
    #[arg(long, value_name = "NAME=COMMAND")]
    also: Vec<String>,

    /// Milliseconds that a tracer of --also needs to start
    #[arg(long, value_name = "MS", default_value_t = 1500)]
    settle: u64,

    /// Number of measurements of each operation and configuration
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// CPU to measure on [default: the last one allowed]
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,

    /// Run the programs of LMbench 3 built in DIR instead of the built-in operations (about a second each)
    #[arg(long, value_name = "DIR")]
    with_lmbench: Option<PathBuf>,

    /// Also write the tables with a chart to FILE as HTML
    #[arg(long, value_name = "FILE", conflicts_with = "volume")]
    html: Option<PathBuf>,

    /// Instead measure how much data each selection of events writes in TIME, or while PROGRAM runs
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "30s", value_parser = super::record::duration,
          conflicts_with_all = ["config", "op", "also", "with_lmbench"])]
    volume: Option<Duration>,

    /// Selections for --volume [default: all of `kasuri events`]
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "volume")]
    selection: Vec<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// With --volume: program to run meanwhile, once for each selection
    #[arg(last = true, value_name = "PROGRAM", requires = "volume")]
    program: Vec<OsString>,
}

/// Measures and prints.
///
/// # Errors
/// When nothing can be measured.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.op == ["list"] {
        return list();
    }
    if let Some(time) = args.volume {
        return super::volume::run(time, &args.selection, &args.program, args.json);
    }
    let place = Place::new(args.cpu)?;
    let stop = Stop::new()?;
    let options = Options {
        operations: operations(&args.op)?,
        configs: configs(&args)?,
        rounds: args.rounds,
        batch_ns: 1e6,
        cpu: place.cpu,
        settle: Duration::from_millis(args.settle),
        worker: place.worker.clone(),
        scratch: place.scratch.path().to_owned(),
        shm_dir: place.shm_dir.clone(),
        lmbench: args.with_lmbench.clone(),
    };
    let bar = progress_bar();
    let result = measure(&options, &mut |done, all| {
        bar.set_length(u64::from(all));
        bar.set_position(u64::from(done));
        !stop.asked()
    });
    bar.finish_and_clear();
    let result = result?;
    for missing in &result.missing {
        message::warning(missing);
    }
    if result.rounds < args.rounds {
        message::warning(format_args!(
            "interrupted: {} of {} rounds were measured",
            result.rounds, args.rounds
        ));
    }
    if let Some(path) = &args.html {
        let page = overhead::html(&chart(&result));
        Output::to(path.clone())?.write(|out| out.write_all(page.as_bytes()))?;
        message::note(format_args!("saved {}", path.display()));
    }
    let mut out = crate::screen::screen();
    if args.json {
        kasuri_text::json::write(&result, &mut out)?;
    } else {
        write!(out, "{}", tables(&result, crate::show::screen_width()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> anyhow::Result<ExitCode> {
    let mut grid = Grid::new(&[text("OPERATION"), text("WHAT IT IS")]);
    for op in ops::ALL {
        grid.row([op.name.to_owned(), op.what.to_owned()]);
    }
    for line in grid.lines(crate::show::screen_width()) {
        writeln!(crate::screen::screen(), "{line}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn operations(names: &[String]) -> anyhow::Result<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..ops::ALL.len()).collect());
    }
    names
        .iter()
        .map(|name| {
            ops::ALL.iter().position(|op| op.name.eq_ignore_ascii_case(name.trim())).with_context(
                || format!("no operation {name:?}; `kasuri overhead --op list` prints them"),
            )
        })
        .collect()
}

fn configs(args: &Args) -> anyhow::Result<Vec<Config>> {
    // A name is checked against the kernel when there is one to ask.
    let kernel = kasuri_lab::tracer::Kernel::open().ok();
    let catalogue = kernel.as_ref().map(|k| k.catalogue());
    let mut configs = args
        .config
        .iter()
        .map(|name| Ok(Config::named(name.trim(), catalogue)?))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for also in &args.also {
        let Some((name, command)) = also.split_once('=') else {
            bail!("--also {also:?}: needs NAME=COMMAND");
        };
        configs.push(Config::command(name, command));
    }
    Ok(configs)
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    bar.set_style(
        ProgressStyle::with_template("measuring {wide_bar} {pos}/{len} {eta}")
            .expect("a fixed template"),
    );
    bar
}

/// `1.21 ±0.03`: the median and the farther end of its interval.
fn ratio(cell: &Option<Cell>) -> String {
    cell.map_or_else(
        || "-".to_owned(),
        |cell| {
            let r = cell.ratio;
            format!("{:.2} ±{:.2}", r.median, (r.high - r.median).max(r.median - r.low))
        },
    )
}

/// ns added; 0 where the interval includes 0.
fn added(cell: &Option<Cell>) -> String {
    cell.map_or_else(
        || "-".to_owned(),
        |cell| {
            if cell.added_ns.contains(0.0) {
                "0".to_owned()
            } else {
                format!("{:.0}", cell.added_ns.median)
            }
        },
    )
}

/// The meaning of the ends of an interval of so many rounds ([`kasuri_lab::stats::median`]).
fn interval(rounds: u32) -> &'static str {
    match rounds {
        0..6 => "all rounds (fewer than six: no 95 % interval)",
        _ => "the 95 % interval",
    }
}

/// Whose operations ran, and where.
fn machine(result: &Overhead) -> String {
    let whose = match result.operations_of {
        "lmbench" => ", LMbench's programs",
        _ => "",
    };
    let host = &result.host;
    format!("{}, Linux {}, CPU {}{whose}", host.cpu_model, host.kernel, result.cpu)
}

fn chart(result: &Overhead) -> overhead::Page {
    let dot = |cell: &Cell| overhead::Dot {
        ratio: [cell.ratio.median, cell.ratio.low, cell.ratio.high],
        added: match cell.added_ns.contains(0.0) {
            true => "nothing".to_owned(),
            // Less than nothing, for certain: chance, or a machine that changed its speed. Not hidden.
            false if cell.added_ns.median < 0.0 => {
                format!("-{}", units::duration(-cell.added_ns.median))
            }
            false => units::duration(cell.added_ns.median),
        },
    };
    let row = |row: &Row| overhead::Row {
        name: row.name.to_owned(),
        what: row.what.to_owned(),
        untraced: units::duration(row.untraced_ns.median.max(0.0)),
        cells: row.cells.iter().map(|c| c.as_ref().map(dot)).collect(),
    };
    let columns = result.configs.iter();
    overhead::Page {
        title: "What tracing costs".to_owned(),
        facts: vec![
            machine(result),
            format!(
                "Median of {} rounds of untraced and traced runs in turn; the line through a dot is {}.",
                result.rounds,
                interval(result.rounds)
            ),
        ],
        configs: columns.map(|c| [c.name.clone(), c.what.clone()]).collect(),
        rows: result.operations.iter().map(row).collect(),
    }
}

fn tables(result: &Overhead, width: usize) -> String {
    let mut page = format!(
        "{}; median of {} rounds, ± farther end of {}\n\n",
        machine(result),
        result.rounds,
        interval(result.rounds)
    );
    for column in &result.configs {
        page.push_str(&format!("  {:12} {}\n", column.name, column.what));
    }
    page.push_str("\nTimes the untraced run\n");
    page.push_str(&table(result, width, &ratio));
    page.push_str("\nNanoseconds added to one operation (0: the interval holds 0)\n");
    page.push_str(&table(result, width, &added));
    page
}

fn table(result: &Overhead, width: usize, print: &dyn Fn(&Option<Cell>) -> String) -> String {
    let heads: Vec<&'static str> = result
        .configs
        .iter()
        // The grid's heads are static; a run has a handful of names and then ends.
        .map(|c| &*Box::leak(c.name.to_uppercase().into_boxed_str()))
        .collect();
    let mut columns = vec![text("OPERATION"), number("UNTRACED", 0)];
    columns.extend(heads.iter().map(|head| number(*head, 0)));
    let mut grid = Grid::new(&columns);
    for row in &result.operations {
        let mut cells = vec![row.name.to_owned(), units::duration(row.untraced_ns.median.max(0.0))];
        cells.extend(row.cells.iter().map(print));
        grid.row(cells);
    }
    grid.lines(width).iter().map(|line| format!("{line}\n")).collect()
}
