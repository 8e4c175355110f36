//! `kasuri bench --against CMD -- CMD`: two commands in turns; is the second one slower?
use crate::baseline::{Baseline, Measure};
use crate::ci;
use crate::gate::{Answer, Gate, p_text};
use crate::output::Output;
use crate::show::screen_width;
use crate::trial::{How, Runner, Taken, Told, shown};
use crate::{exit, message};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use kasuri_text::table::grid::{Grid, number, word};
use kasuri_text::table::units::{self, printable};
use kasuri_trial::line::Line;
use kasuri_trial::paired::{Paired, holm, paired, unpaired};
use kasuri_trial::process::Usage;
use kasuri_trial::race::{self, Plan, Ran};
use schemars::JsonSchema;
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
/// cases, and p: how often chance alone gets as far (exact signed-rank test, against a baseline rank-sum test; below the first line corrected for the number of rows). Exits with 3 if a gate fails: if a
/// measure rose by more than its percentage and by more than noise (p <= 0.05, corrected for the number of gates).
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri bench --against './old input' -- ./new input
  kasuri bench -n 30 --against ./old --fail-if 'wall > 5%' --fail-if 'switches > 10%' -- ./new
  kasuri bench --against 'OMP_NUM_THREADS=2 ./program' -- ./program
  kasuri bench --against ./old --metric 'rate: ([0-9.]+)' --higher -- ./new
  kasuri bench --against ./old --junit bench.xml --markdown comment.md -- ./new
  kasuri bench --save main.json -- ./program; kasuri bench --baseline main.json --fail-if 'wall > 5%' -- ./program

Measures for --fail-if: wall, cpu, switches (to wait), preemptions, faults, metric.
Programs get no input, and are expected to exit with 0.
Exit status: 0, or 3 if a gate fails; 1 if a command fails or cannot be run, or the time ends before six pairs.")]
pub struct Args {
    /// What to compare with: a command line. With pipes, variables or other shell syntax it runs in a shell, and its start is timed too
    #[arg(long, value_name = "CMD", required_unless_present_any = ["baseline", "save"])]
    against: Option<String>,

    /// Compare with runs that --save stored on this machine. Weaker than --against: whatever the machine does otherwise by now is
    /// taken for a change
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    baseline: Option<PathBuf>,

    /// Store the runs of the command to judge, with the machine
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Number of pairs, or of runs without --against
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(6..=1000))]
    pairs: u32,

    /// Fail if a measure rises by more than this and more than noise; may be given several times [default: 1% of what is compared; 5% with --baseline]
    #[arg(long, value_name = "MEASURE > PERCENT%")]
    fail_if: Vec<Gate>,

    /// Write the gates as a JUnit report, for CI
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Print the gates as GitHub Actions' annotations, too
    #[arg(long, conflicts_with = "json")]
    github: bool,

    /// Write the result as Markdown, for a comment on a pull request
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    #[command(flatten)]
    how: How,

    /// The command to judge, with its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Its name and version.
const SCHEMA: &str = "kasuri.bench/1";

/// A measure of both sides.
#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    /// Its name.
    #[schemars(extend("enum" = ["metric", "wall", "cpu", "switches", "preemptions", "faults"]))]
    name: &'static str,
    /// Empty: a metric.
    #[schemars(extend("enum" = ["ns", "count", ""]))]
    unit: &'static str,
    /// Each run's, in the order of pairs.
    against: Vec<f64>,
    /// Each run's, in the order of pairs.
    command: Vec<f64>,
    /// Of command over against: Hodges and Lehmann's estimate. Of counts: (n + 1) over (n + 1). None without pairs.
    ratio: Option<f64>,
    /// Lower end of the interval that covers the ratio in 95 % of cases.
    low: Option<f64>,
    /// Its upper end.
    high: Option<f64>,
    /// Of the exact signed-rank test, this row's alone.
    p_value: Option<f64>,
    /// More of it is better.
    higher: bool,
}

/// Two commands in turns.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Bench {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// What was compared with, as a shell takes it.
    against: String,
    /// What is judged.
    command: String,
    /// The measure that the verdict is about.
    #[schemars(extend("enum" = ["wall", "cpu", "metric"]))]
    compared: &'static str,
    /// Whole pairs.
    pairs: usize,
    /// Whether `against` are the runs of a stored baseline; then there are no pairs, and `pairs` is the number of runs.
    stored: bool,
    /// Seed of the orders.
    seed: u64,
    /// Whether time or the user ended it early.
    stopped: bool,
    /// Measures.
    measures: Vec<Row>,
    /// Gates, in their order.
    gates: Vec<Answer>,
    /// Whether any failed: exit status 3.
    failed: bool,
}

/// Runs both, prints, and fails where a gate does.
///
/// # Errors
/// When one of them cannot be run or fails.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let gates = gates(&args)?;
    let outputs = outputs(&args)?;
    let line = Line::of(&args.command);
    let (stored, warning) = match &args.baseline {
        Some(path) => {
            let (baseline, warning) = Baseline::read(path)?;
            (Some(baseline), warning)
        }
        None => (None, None),
    };
    if let Some(warning) = warning {
        message::warning(warning);
    }
    let (against, mut lines) = match (&args.against, &stored) {
        (Some(text), _) => {
            let line =
                Line::read(text).map_err(|why| anyhow::anyhow!("--against {text}: {why}"))?;
            (Some(shown(&line)), vec![line])
        }
        (None, Some(stored)) => (Some(stored.command.clone()), Vec::new()),
        (None, None) => (None, Vec::new()),
    };
    lines.push(line);
    let mut runner = Runner::new(&args.how, lines.len())?;
    let (pairs, stopped) = measure(&args, &mut runner, &lines)?;
    let own = lines.len() - 1;
    let command = shown(&lines[own]);
    if let Some(output) = &outputs[2] {
        let measures = (measured(&runner, own, pairs).into_iter())
            .map(|(name, _, runs)| Measure { name: name.to_owned(), runs })
            .collect();
        let baseline = Baseline::new(command.clone(), measures);
        output.write(|out| kasuri_text::json::write(&baseline, out)).context("--save")?;
    }
    let Some(against) = against else {
        if !args.how.quiet {
            message::note(format_args!("{pairs} runs stored, with this machine"));
        }
        return Ok(ExitCode::SUCCESS);
    };
    let measures = match &stored {
        Some(stored) => rows_since(&runner, stored, pairs, args.how.higher)?,
        None => rows(&runner, pairs, args.how.higher),
    };
    let gates = judge(&gates, &measures);
    let bench = Bench {
        schema: SCHEMA,
        against,
        command,
        compared: args.how.measure(),
        pairs,
        stored: stored.is_some(),
        seed: args.how.seed,
        stopped,
        failed: gates.iter().any(|gate| gate.failed),
        measures,
        gates,
    };
    print(&bench, &args, &outputs)
}

/// Runs the lines in turns; how many whole pairs (or runs of the only one), and whether it was ended early.
fn measure(args: &Args, runner: &mut Runner<'_>, lines: &[Line]) -> anyhow::Result<(usize, bool)> {
    for line in lines {
        // The first run finds colder caches than all others.
        runner.try_out(line, false)?;
    }
    let bar = ProgressBar::new(lines.len() as u64 * u64::from(args.pairs)).with_style(
        ProgressStyle::with_template("{msg:16} {wide_bar} {pos}/{len} runs, {eta} left")
            .expect("a fixed template"),
    );
    if args.how.quiet {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    let mut run = |arm: usize| {
        bar.inc(1);
        runner.run(arm, &lines[arm])
    };
    let wanted = args.pairs as usize;
    let (mut done, mut stopped) = (0, false);
    if lines.len() == 1 {
        while done < wanted && !stopped {
            match run(0) {
                Ran::Cost(_) => done += 1,
                Ran::Invalid(why) => bail!("a run of {}: {why}", shown(&lines[0])),
                Ran::Stopped => stopped = true,
            }
        }
    } else {
        let plan = Plan { arms: lines.len(), blocks: wanted, least: 1.0, seed: args.how.seed };
        let outcome = race::race(&plan, run);
        if let Some(why) = outcome.broken {
            bail!("a run of {why}");
        }
        (done, stopped) = (outcome.blocks, outcome.stopped);
    }
    bar.finish_and_clear();
    if done < 6 {
        let what = if lines.len() == 1 { "runs" } else { "pairs" };
        bail!("{done} of {wanted} {what} were measured, needed 6 to tell a change from noise");
    }
    Ok((done, stopped))
}

fn gates(args: &Args) -> anyhow::Result<Vec<Gate>> {
    let mut gates = args.fail_if.clone();
    if gates.is_empty() {
        gates.push(Gate {
            measure: args.how.measure().to_owned(),
            // Another day on the same machine is another level.
            share: if args.baseline.is_some() { 0.05 } else { 0.01 },
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

/// Destinations of JUnit, Markdown and the baseline: that they can be written is known before anything runs.
fn outputs(args: &Args) -> anyhow::Result<[Option<Output>; 3]> {
    let to = |path: &Option<PathBuf>| match path {
        None => Ok(None),
        Some(path) if path.as_os_str() == "-" => Ok(Some(Output::Stdout)),
        Some(path) => Output::to(path.clone()).map(Some),
    };
    Ok([to(&args.junit)?, to(&args.markdown)?, to(&args.save)?])
}

type Measured = (&'static str, &'static str, fn(&Usage) -> u64);

const MEASURES: [Measured; 5] = [
    ("wall", "ns", |usage| usage.wall_ns),
    ("cpu", "ns", |usage| usage.cpu_ns),
    ("switches", "count", |usage| usage.switches),
    ("preemptions", "count", |usage| usage.preemptions),
    ("faults", "count", |usage| usage.faults),
];

/// What the valid runs of an arm took: name, unit, each run.
fn measured(
    runner: &Runner<'_>,
    arm: usize,
    runs: usize,
) -> Vec<(&'static str, &'static str, Vec<f64>)> {
    let taken = &runner.taken[arm][..runs];
    let side = |of: &dyn Fn(&Taken) -> f64| -> Vec<f64> { taken.iter().map(of).collect() };
    let mut all = Vec::new();
    if taken.iter().any(|run| run.metric.is_some()) {
        all.push(("metric", "", side(&|run| run.metric.unwrap_or(f64::NAN))));
    }
    for (name, unit, of) in MEASURES {
        all.push((name, unit, side(&|run| of(&run.usage) as f64)));
    }
    all
}

fn rows(runner: &Runner<'_>, pairs: usize, higher: bool) -> Vec<Row> {
    let sides = measured(runner, 0, pairs).into_iter();
    let told = |against: &[f64], command: &[f64]| -> Option<Paired> {
        let pairs = against.iter().zip(command);
        paired(&pairs.map(|(a, b)| b - a).collect::<Vec<f64>>(), 0.95)
    };
    let mut rows: Vec<Row> = sides
        .zip(measured(runner, 1, pairs))
        .map(|((name, unit, against), (_, _, command))| row((name, unit), against, command, told))
        .collect();
    if let Some(first) = rows.first_mut() {
        first.higher = higher;
    }
    rows
}

/// The same since a baseline was stored.
fn rows_since(
    runner: &Runner<'_>,
    stored: &Baseline,
    runs: usize,
    higher: bool,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, unit, command) in measured(runner, 0, runs) {
        let against = stored.runs(name).with_context(|| {
            format!("--baseline: it has no runs of {name}; save it with --metric")
        })?;
        rows.push(row((name, unit), against.to_vec(), command, |a, b| unpaired(a, b, 0.95)));
    }
    if let Some(first) = rows.first_mut() {
        first.higher = higher;
    }
    Ok(rows)
}

/// `compare`: what the logarithms of both sides say.
fn row(
    (name, unit): (&'static str, &'static str),
    against: Vec<f64>,
    command: Vec<f64>,
    compare: impl Fn(&[f64], &[f64]) -> Option<Paired>,
) -> Row {
    // Counts may be 0, which has no logarithm: one is added on both sides.
    let one = if unit == "count" { 1.0 } else { 0.0 };
    let logarithms =
        |values: &[f64]| -> Vec<f64> { values.iter().map(|value| (value + one).ln()).collect() };
    let told = compare(&logarithms(&against), &logarithms(&command));
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
    let of =
        |gate: &Gate| rows.iter().find(|row| row.name == gate.measure).expect("gates are checked");
    let p_values: Vec<f64> = gates.iter().map(|gate| of(gate).p_value.unwrap_or(1.0)).collect();
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
    [junit, markdown, _]: &[Option<Output>; 3],
) -> anyhow::Result<ExitCode> {
    let write = |output: &Option<Output>, text: String| match output {
        Some(output) => output.write(|out| out.write_all(text.as_bytes())),
        None => Ok(()),
    };
    let junit_text = ci::junit("kasuri bench", &bench.command, &bench.gates);
    write(junit, junit_text).context("--junit")?;
    write(markdown, as_markdown(bench)).context("--markdown")?;
    let mut out = crate::screen::screen();
    if args.how.json {
        kasuri_text::json::write(bench, &mut out)?;
    } else {
        out.write_all(as_text(bench, screen_width()).as_bytes())?;
    }
    if args.github {
        out.write_all(ci::github("kasuri bench", &bench.command, &bench.gates).as_bytes())?;
    }
    out.flush()?;
    if bench.stopped && !args.how.quiet {
        message::note(format_args!(
            "ended early: {} of {} {}",
            bench.pairs,
            args.pairs,
            if bench.stored { "runs" } else { "pairs" }
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
    let others: Vec<f64> =
        bench.measures.iter().filter(|row| !is_compared(row)).map(p_value).collect();
    let mut others = holm(&others, 0).into_iter();
    let of = |row| {
        if is_compared(&row) { Some(p_value(row)) } else { others.next() }
    };
    bench.measures.iter().filter_map(of).collect()
}

/// `20 pairs`.
fn runs(bench: &Bench) -> String {
    let what = if bench.stored { "run" } else { "pair" };
    units::plural(bench.pairs as u64, what)
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
    format!("{} ({}{}, p {})", told.words(row.name), told.range(), runs(bench), p_text(p))
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
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:+.1} %", (ratio - 1.0) * 100.0))
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
        let _ = writeln!(text, "{}", ci::line(gate));
    }
    text
}

fn as_markdown(bench: &Bench) -> String {
    // A backtick would end the code; a bar the cell.
    let code = |text: &str| format!("`{}`", printable(text).replace('`', "'").replace('|', "\\|"));
    let mut text = format!(
        "**{}**\n\n{} of {} (against) and {} (this)\n\n| | against | this | change | 95 % interval | p |\n|---|--:|--:|--:|--:|--:|\n",
        if bench.failed { "slower" } else { "no gate failed" },
        runs(bench),
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
        let _ = write!(text, "\n- {}", ci::line(gate).replace('>', "&gt;"));
    }
    text.push('\n');
    text
}
