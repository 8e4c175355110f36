//! `kasuri bench --against CMD -- CMD`: two commands in turns; is the second one slower?
use crate::cmd::stat::screen_width;
use crate::gate::{Answer, Gate, p_text};
use crate::output::Output;
use crate::trial::{How, Runner, Taken, Told, shown};
use crate::{exit, message};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use kasuri_text::table::grid::{Grid, number, word};
use kasuri_text::table::units::{self, printable};
use kasuri_trial::line::Line;
use kasuri_trial::paired::{Paired, holm, paired};
use kasuri_trial::process::Usage;
use kasuri_trial::race::{self, Plan};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run two commands in turns, and fail if the second is slower
///
/// Runs both commands N times, in pairs whose order is drawn by chance, so that whatever else happens on the machine hits both.
/// Prints wall time, CPU time, context switches and page faults of both with the change, the interval that covers it in 95 % of
/// cases, and p: how often chance alone gets as far (exact signed-rank test; below the first line corrected for the number of rows). Exits with 3 if a gate fails: if a
/// measure rose by more than its percentage and by more than noise (p <= 0.05, corrected for the number of gates).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri bench --against './old input' -- ./new input
  kasuri bench -n 30 --against ./old --fail-if 'wall > 5%' --fail-if 'switches > 10%' -- ./new
  kasuri bench --against 'OMP_NUM_THREADS=2 ./program' -- ./program
  kasuri bench --against ./old --metric 'rate: ([0-9.]+)' --higher -- ./new
  kasuri bench --against ./old --junit bench.xml --markdown comment.md -- ./new

Measures for --fail-if: wall, cpu, switches (to wait), preemptions, faults, metric.
Programs get no input, and are expected to exit with 0.
Exit status: 0, or 3 if a gate fails; 1 if a command fails or cannot be run, or the time ends before six pairs.")]
pub struct Args {
    /// What to compare with: a command line. With pipes, variables or other shell syntax it runs in a shell, and its start is timed too
    #[arg(long, value_name = "CMD")]
    against: String,

    /// Number of pairs
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(6..=1000))]
    pairs: u32,

    /// Fail if a measure rises by more than this and more than noise; may be given several times [default: 1% of what is compared]
    #[arg(long, value_name = "MEASURE > PERCENT%")]
    fail_if: Vec<Gate>,

    /// Write the gates as a JUnit report, for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Write the result as Markdown, for a comment on a pull request
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    #[command(flatten)]
    how: How,

    /// The command to judge, with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A measure of both sides.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    /// Each run's, in the order of pairs.
    against: Vec<f64>,
    command: Vec<f64>,
    /// Of command over against; none without pairs.
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    p_value: Option<f64>,
    /// More of it is better.
    higher: bool,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Bench {
    schema: &'static str,
    against: String,
    command: String,
    /// The measure that the verdict is about.
    compared: &'static str,
    pairs: usize,
    seed: u64,
    stopped: bool,
    measures: Vec<Row>,
    gates: Vec<Answer>,
    failed: bool,
}

/// Runs both, prints, and fails where a gate does.
///
/// # Errors
/// When one of them cannot be run or fails.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let gates = gates(&args)?;
    let outputs = outputs(&args)?;
    let against = Line::read(&args.against)
        .map_err(|why| anyhow::anyhow!("--against {}: {why}", args.against))?;
    let lines = [against, Line::of(&args.command)];
    let mut runner = Runner::new(&args.how, lines.len())?;
    for line in &lines {
        // The first run finds colder caches than all others.
        runner.try_out(line, false)?;
    }
    let bar = ProgressBar::new(2 * u64::from(args.pairs)).with_style(
        ProgressStyle::with_template("{msg:16} {wide_bar} {pos}/{len} runs, {eta} left")
            .expect("a fixed template"),
    );
    if args.how.quiet {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let plan = Plan {
        arms: lines.len(),
        blocks: args.pairs as usize,
        least: 1.0,
        seed: args.how.seed,
    };
    let outcome = race::race(&plan, |arm| {
        bar.inc(1);
        runner.run(arm, &lines[arm])
    });
    bar.finish_and_clear();
    if let Some(why) = outcome.broken {
        bail!("a run of {why}");
    }
    if outcome.blocks < 6 {
        bail!(
            "{} of {} pairs were measured, needed 6 to tell a change from noise",
            outcome.blocks,
            args.pairs
        );
    }
    let measures = rows(&runner, outcome.blocks, args.how.higher);
    let gates = judge(&gates, &measures);
    let bench = Bench {
        schema: "kasuri.bench/1",
        against: shown(&lines[0]),
        command: shown(&lines[1]),
        compared: args.how.measure(),
        pairs: outcome.blocks,
        seed: args.how.seed,
        stopped: outcome.stopped,
        failed: gates.iter().any(|gate| gate.failed),
        measures,
        gates,
    };
    print(&bench, &args, &outputs)
}

fn gates(args: &Args) -> anyhow::Result<Vec<Gate>> {
    let mut gates = args.fail_if.clone();
    if gates.is_empty() {
        gates.push(Gate {
            measure: args.how.measure().to_owned(),
            share: 0.01,
        });
    }
    let is_known = |gate: &Gate| {
        MEASURES.iter().any(|measure| measure.0 == gate.measure)
            || gate.measure == "metric" && args.how.metric.is_some()
    };
    match gates.iter().find(|gate| !is_known(gate)) {
        None => Ok(gates),
        Some(gate) => {
            let names: Vec<&str> = MEASURES.iter().map(|measure| measure.0).collect();
            bail!(
                "--fail-if {gate}: no such measure, needed one of {}, or metric with --metric",
                names.join(", ")
            )
        }
    }
}

/// JUnit's and Markdown's destinations: that they can be written is known before anything runs.
fn outputs(args: &Args) -> anyhow::Result<[Option<Output>; 2]> {
    let to = |path: &Option<PathBuf>| match path {
        None => Ok(None),
        Some(path) if path.as_os_str() == "-" => Ok(Some(Output::Stdout)),
        Some(path) => Output::to(path.clone()).map(Some),
    };
    Ok([to(&args.junit)?, to(&args.markdown)?])
}

type Measure = (&'static str, &'static str, fn(&Usage) -> u64);

const MEASURES: [Measure; 5] = [
    ("wall", "ns", |usage| usage.wall_ns),
    ("cpu", "ns", |usage| usage.cpu_ns),
    ("switches", "count", |usage| usage.switches),
    ("preemptions", "count", |usage| usage.preemptions),
    ("faults", "count", |usage| usage.faults),
];

fn rows(runner: &Runner<'_>, pairs: usize, higher: bool) -> Vec<Row> {
    let side = |arm: usize, of: &dyn Fn(&Taken) -> f64| -> Vec<f64> {
        runner.taken[arm][..pairs].iter().map(of).collect()
    };
    let mut rows = Vec::new();
    if runner.taken[0].iter().any(|run| run.metric.is_some()) {
        let metric = |run: &Taken| run.metric.unwrap_or(f64::NAN);
        rows.push(row(("metric", ""), side(0, &metric), side(1, &metric)));
    }
    for (name, unit, of) in MEASURES {
        let value = |run: &Taken| of(&run.usage) as f64;
        rows.push(row((name, unit), side(0, &value), side(1, &value)));
    }
    if let Some(first) = rows.first_mut() {
        first.higher = higher;
    }
    rows
}

fn row((name, unit): (&'static str, &'static str), against: Vec<f64>, command: Vec<f64>) -> Row {
    // Counts may be 0, which has no logarithm: one is added on both sides.
    let one = if unit == "count" { 1.0 } else { 0.0 };
    let differences: Vec<f64> = against
        .iter()
        .zip(&command)
        .map(|(a, b)| ((b + one) / (a + one)).ln())
        .collect();
    let told: Option<Paired> = paired(&differences, 0.95);
    let interval = told.and_then(|told| told.interval);
    Row {
        name,
        unit,
        against,
        command,
        ratio: told.map(|told| told.estimate.exp()),
        low: interval.map(|(low, _)| low.exp()),
        high: interval.map(|(_, high)| high.exp()),
        p_value: told.map(|told| told.p_value),
        higher: false,
    }
}

impl Row {
    /// By which factor the command is worse, with its interval.
    fn worse(&self) -> [Option<f64>; 3] {
        let turned = |ratio: Option<f64>| ratio.map(|ratio| 1.0 / ratio);
        match self.higher {
            true => [turned(self.ratio), turned(self.high), turned(self.low)],
            false => [self.ratio, self.low, self.high],
        }
    }
}

fn judge(gates: &[Gate], rows: &[Row]) -> Vec<Answer> {
    let of = |gate: &Gate| {
        rows.iter()
            .find(|row| row.name == gate.measure)
            .expect("gates are checked")
    };
    let p_values: Vec<f64> = gates
        .iter()
        .map(|gate| of(gate).p_value.unwrap_or(1.0))
        .collect();
    let corrected = holm(&p_values, gates.len());
    gates
        .iter()
        .zip(corrected)
        .map(|(gate, p_value)| gate.judge(of(gate).worse()[0], p_value))
        .collect()
}

fn print(
    bench: &Bench,
    args: &Args,
    [junit, markdown]: &[Option<Output>; 2],
) -> anyhow::Result<ExitCode> {
    let write = |output: &Option<Output>, text: String| match output {
        Some(output) => output.write(|out| out.write_all(text.as_bytes())),
        None => Ok(()),
    };
    write(junit, as_junit(bench)).context("--junit")?;
    write(markdown, as_markdown(bench)).context("--markdown")?;
    let mut out = std::io::stdout().lock();
    if args.how.json {
        kasuri_text::json::write(bench, &mut out)?;
    } else {
        out.write_all(as_text(bench, screen_width()).as_bytes())?;
    }
    out.flush()?;
    if bench.stopped && !args.how.quiet {
        message::note(format_args!(
            "ended early: {} of {} pairs",
            bench.pairs, args.pairs
        ));
    }
    Ok(match bench.failed {
        true => ExitCode::from(exit::GATE_FAILED),
        false => ExitCode::SUCCESS,
    })
}

/// The row of what is compared.
fn compared(bench: &Bench) -> &Row {
    let row = bench.measures.iter().find(|row| row.name == bench.compared);
    row.expect("it is always measured")
}

/// Each row's p: that of the verdict as it is, all others corrected for their number.
fn corrected(bench: &Bench) -> Vec<f64> {
    let is_compared = |row: &&Row| row.name == bench.compared;
    let p_value = |row: &Row| row.p_value.unwrap_or(1.0);
    let others: Vec<f64> = bench
        .measures
        .iter()
        .filter(|row| !is_compared(row))
        .map(p_value)
        .collect();
    let mut others = holm(&others, 0).into_iter();
    let of = |row| {
        if is_compared(&row) {
            Some(p_value(row))
        } else {
            others.next()
        }
    };
    bench.measures.iter().filter_map(of).collect()
}

/// One sentence: how what is compared changed.
fn verdict(bench: &Bench, row: &Row) -> String {
    let ([Some(ratio), low, high], Some(p)) = (row.worse(), row.p_value) else {
        return "nothing was measured".to_owned();
    };
    let told = Told {
        speed_up: 1.0 / ratio,
        interval: low.zip(high).map(|(low, high)| (1.0 / high, 1.0 / low)),
        sure: p <= 0.05,
    };
    format!(
        "{} ({}{}, p {})",
        told.words(row.name),
        told.range(),
        units::plural(bench.pairs as u64, "pair"),
        p_text(p)
    )
}

fn value(row: &Row, values: &[f64]) -> String {
    let middle = kasuri_lab::stats::median(values).map_or(f64::NAN, |told| told.median);
    match row.unit {
        "ns" => units::duration(middle),
        "count" => units::count(middle.round() as u64),
        _ => format!("{middle}"),
    }
}

fn change(ratio: Option<f64>) -> String {
    ratio.map_or_else(
        || "-".to_owned(),
        |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0),
    )
}

fn as_text(bench: &Bench, width: usize) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", verdict(bench, compared(bench)));
    let _ = writeln!(text, "  against  {}", printable(&bench.against));
    let _ = writeln!(text, "  this     {}", printable(&bench.command));
    let mut grid = Grid::new(&[
        word("MEDIAN OF", 0),
        number("AGAINST", 0),
        number("THIS", 0),
        number("CHANGE", 0),
        number("FROM", 2),
        number("TO", 2),
        number("P", 1),
    ]);
    for (row, p_value) in bench.measures.iter().zip(corrected(bench)) {
        grid.row([
            row.name.to_owned(),
            value(row, &row.against),
            value(row, &row.command),
            change(row.ratio),
            change(row.low),
            change(row.high),
            p_text(p_value),
        ]);
    }
    text.push('\n');
    for line in grid.lines(width) {
        let _ = writeln!(text, "{line}");
    }
    text.push('\n');
    for gate in &bench.gates {
        let _ = writeln!(text, "{}", gate_line(gate));
    }
    text
}

fn gate_line(gate: &Answer) -> String {
    let how = match gate.failed {
        true => "failed",
        false => "passed",
    };
    format!("{how}: {gate}")
}

fn as_markdown(bench: &Bench) -> String {
    // A backtick would end the code; a bar the cell.
    let code = |text: &str| {
        format!(
            "`{}`",
            printable(text).replace('`', "'").replace('|', "\\|")
        )
    };
    let mut text = format!(
        "**{}**\n\n{} pairs of {} (against) and {} (this)\n\n| | against | this | change | 95 % interval | p |\n|---|--:|--:|--:|--:|--:|\n",
        if bench.failed {
            "slower"
        } else {
            "no gate failed"
        },
        bench.pairs,
        code(&bench.against),
        code(&bench.command)
    );
    for (row, p_value) in bench.measures.iter().zip(corrected(bench)) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} .. {} | {} |",
            row.name,
            value(row, &row.against),
            value(row, &row.command),
            change(row.ratio),
            change(row.low),
            change(row.high),
            p_text(p_value)
        );
    }
    for gate in &bench.gates {
        let _ = write!(text, "\n- {}", gate_line(gate).replace('>', "&gt;"));
    }
    text.push('\n');
    text
}

fn as_junit(bench: &Bench) -> String {
    let failures = bench.gates.iter().filter(|gate| gate.failed).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"kasuri bench\" tests=\"{}\" failures=\"{failures}\">\n",
        bench.gates.len()
    );
    for gate in &bench.gates {
        let _ = write!(
            text,
            "  <testcase classname=\"{}\" name=\"{}\"",
            escaped(&bench.command),
            escaped(&gate.gate)
        );
        match gate.failed {
            true => {
                let _ = writeln!(
                    text,
                    ">\n    <failure message=\"{}\"/>\n  </testcase>",
                    escaped(&gate_line(gate))
                );
            }
            false => text.push_str("/>\n"),
        }
    }
    text.push_str("</testsuite>\n");
    text
}

/// As text of an attribute in XML, which cannot hold control characters at all.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
