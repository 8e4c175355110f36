//! `kasuri try --what-if`: what-ifs of the critical path, replayed from a recording and checked by experiment.
//!
//! The experiment is virtual speed-up: `libkasuri-whatif.so` delays all other threads while one is in the region (docs/design/whatif.md),
//! and the delay is taken off the run's time. Each region has a baseline of its own, the same library with nothing saved: the library
//! costs both sides the same.
use crate::message;
use crate::show::screen_width;
use crate::trial::{Runner, recording};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kasuri_analyze::critical_path::{self, CriticalPath, WhatIf};
use kasuri_base::random::Rng;
use kasuri_text::table::grid::{Grid, number, sentence, word};
use kasuri_text::table::units::{duration, printable};
use kasuri_trial::line::Line;
use kasuri_trial::paired::{Paired, paired};
use kasuri_trial::process::Run;
use kasuri_trial::race::Ran;
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Annotations beside the path that are tried too: they should gain nothing.
const BESIDE: usize = 2;
/// Delays of less in a run are lost among the naps that are not taken (50 us each).
const LEAST_DELAY_NS: f64 = 1e6;
/// Most of the library's report that is read: the program can write there.
const REPORT_BYTES: u64 = 1 << 20;
/// Replay and experiment agree when the replay lies in the experiment's interval, or no further than this from its estimate.
const NEAR: f64 = 0.05;

/// How it is done.
pub struct How {
    /// Blocks at most.
    pub blocks: usize,
    /// Of the orders.
    pub seed: u64,
    /// Print JSON.
    pub json: bool,
    /// Print results only.
    pub quiet: bool,
    /// Whether results are compared.
    pub checked: bool,
}

impl How {
    /// From the command's options.
    pub fn new(how: &crate::trial::How, blocks: usize, checked: bool) -> How {
        How { blocks, seed: how.seed, json: how.json, quiet: how.quiet, checked }
    }
}

/// Its name and version.
const SCHEMA: &str = "kasuri.what_if/1";

/// One what-if, replayed and tried.
#[derive(Debug, Serialize, JsonSchema)]
struct Checked {
    /// An annotation takes half its time, or the holders of a lock do.
    #[schemars(extend("enum" = ["half", "half_held"]))]
    change: &'static str,
    /// The annotation or lock.
    name: String,
    /// Its place in the source, where known.
    place: Option<String>,
    /// Time of the run over time with the change, replayed.
    replay: f64,
    /// The same by experiment; none when it was not valid, or too few blocks ran.
    experiment: Option<f64>,
    /// Its 95 % interval: from...
    low: Option<f64>,
    /// ...to.
    high: Option<f64>,
    /// Pairs of runs behind it.
    blocks: usize,
    /// Times that a thread entered the region, median run.
    entries: u64,
    /// CPU time in the region, same run.
    region_ns: u64,
    /// Whether the replay lies in the interval or within 5 % of the experiment; none without an experiment.
    agrees: Option<bool>,
    /// Why there is no experiment.
    not_valid: Option<String>,
}

/// What-ifs, replayed and tried.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Told {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Seed of the order of runs.
    seed: u64,
    /// Blocks that ran: one run of each side of each what-if, and one without the library.
    blocks: usize,
    /// Whether the program's output was compared with that of the program as it is.
    results_compared: bool,
    /// By how much the recorded run and its replay without a change differ: 0.01 is 1 %.
    replay_off: f64,
    /// Time with the library and nothing saved over time without it.
    library_cost: Option<f64>,
    /// Each what-if.
    what_ifs: Vec<Checked>,
}

/// What the library reports of one process.
#[derive(Clone, Copy, Debug, Default)]
struct Report {
    found: u64,
    entries: u64,
    region_ns: u64,
    delay_ns: i64,
    unpaid: u64,
}

/// One what-if while it is tried.
struct Trying<'a> {
    what_if: &'a WhatIf,
    /// With nothing saved, and with half.
    lines: [Line; 2],
    /// ln(baseline / half), block by block; entries and CPU time in the region.
    differences: Vec<f64>,
    seen: Vec<Report>,
    not_valid: Option<String>,
}

/// Records, replays, tries, prints.
///
/// # Errors
/// When the program cannot be recorded, or the library is not found.
pub fn run(
    runner: &mut Runner<'_>,
    program: &Line,
    look: &Run,
    dir: &Path,
    how: &How,
) -> anyhow::Result<ExitCode> {
    let preload = kasuri_record::preloaded::whatif()?;
    refuse(look)?;
    let usual = Duration::from_nanos(look.usage.wall_ns);
    let Some(recorded) = recording(runner, program, dir, usual, &["--locks"])? else {
        bail!("ended before anything was measured");
    };
    let path = critical_path::critical_path_and_beside(&recorded, BESIDE);
    drop(recorded);
    let reports = dir.join("reports");
    let mut trying: Vec<Trying<'_>> = (path.what_if.iter())
        .filter(|what_if| ["half", "half_held"].contains(&what_if.change))
        .map(|what_if| Trying {
            what_if,
            lines: [0, 50].map(|percent| line(program, what_if, percent, &preload, &reports)),
            differences: Vec::new(),
            seen: Vec::new(),
            not_valid: None,
        })
        .collect();
    if trying.is_empty() {
        bail!(
            "nothing to check: no annotated slice and no contended lock in the recording; docs/guide/annotate.md says how to annotate"
        );
    }
    let costs = blocks(runner, program, &mut trying, &reports, how)?;
    let told = Told {
        schema: SCHEMA,
        seed: how.seed,
        blocks: costs.len(),
        results_compared: how.checked,
        replay_off: (path.replayed_ns - path.length_ns) as f64 / path.length_ns.max(1) as f64,
        library_cost: paired(&costs, 0.95).map(|told| told.estimate.exp()),
        what_ifs: trying.iter().map(|trying| checked(trying, &path)).collect(),
    };
    let mut out = crate::screen::screen();
    match how.json {
        true => kasuri_text::json::write(&told, &mut out)?,
        false => out.write_all(text(&told, screen_width()).as_bytes())?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Threads that wait for each other by means that the library does not see would be delayed twice.
fn refuse(look: &Run) -> anyhow::Result<()> {
    let file =
        |path: &std::path::PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned());
    let of_openmp =
        |name: &String| ["libgomp", "libomp", "libiomp"].iter().any(|lib| name.starts_with(lib));
    match look.mapped.iter().filter_map(file).find(of_openmp) {
        Some(name) => bail!(
            "--what-if: the program loads {name}, whose threads wait for each other unseen: delays would be counted twice"
        ),
        None => Ok(()),
    }
}

fn line(
    program: &Line,
    what_if: &WhatIf,
    percent: u32,
    (preload, library): &(OsString, OsString),
    reports: &Path,
) -> Line {
    let kind = if what_if.change == "half" { "slice" } else { "lock" };
    let mut line = program.clone();
    let mut set = |name: &str, value: OsString| line.env.push((name.to_owned(), Some(value)));
    set(&preload.to_string_lossy(), library.clone());
    set("KASURI_WHATIF", format!("{kind} {}", what_if.name).into());
    set("KASURI_WHATIF_PERCENT", percent.to_string().into());
    set("KASURI_WHATIF_REPORT", reports.into());
    line
}

/// Runs blocks: the program as it is, and both lines of each what-if, in an order drawn anew. Returns ln(library / without).
fn blocks(
    runner: &mut Runner<'_>,
    program: &Line,
    trying: &mut [Trying<'_>],
    reports: &Path,
    how: &How,
) -> anyhow::Result<Vec<f64>> {
    let bar = ProgressBar::new_spinner().with_style(
        ProgressStyle::with_template("{spinner} {pos} runs of {msg}").expect("a fixed template"),
    );
    if how.quiet {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.set_message(format!("{} what-ifs, {} blocks at most", trying.len(), how.blocks));
    let mut rng = Rng::new(how.seed);
    let mut library_costs = Vec::new();
    runner.taken = vec![Vec::new()];
    'blocks: for _ in 0..how.blocks {
        let runs = 1 + 2 * trying.len();
        let mut order: Vec<usize> = (0..runs).collect();
        rng.shuffle(&mut order);
        let mut took = vec![f64::NAN; runs];
        for at in order {
            bar.inc(1);
            let (which, side) = ((at.max(1) - 1) / 2, (at + 1) % 2);
            if at > 0 && trying[which].not_valid.is_some() {
                continue;
            }
            let mut seen = Report::default();
            let ran = match at {
                0 => runner.run(0, program),
                _ => {
                    File::create(reports).context("cannot write the library's report")?;
                    runner.run_less(0, &trying[which].lines[side], || {
                        seen = read(reports)?;
                        Ok(seen.delay_ns)
                    })
                }
            };
            match ran {
                Ran::Cost(cost) if cost > 0.0 => took[at] = cost,
                Ran::Stopped => break 'blocks,
                Ran::Cost(_) => {
                    trying[which].not_valid = Some("delays were longer than the run".to_owned())
                }
                Ran::Invalid(why) if at == 0 => bail!("a run of the program as it is {why}"),
                Ran::Invalid(why) => trying[which].not_valid = Some(why),
            }
            if at > 0 && side == 1 {
                trying[which].seen.push(seen);
            }
        }
        for (which, trying) in trying.iter_mut().enumerate() {
            trying.differences.push((took[1 + 2 * which] / took[2 + 2 * which]).ln());
        }
        if let Some(base) = (1..runs).step_by(2).map(|at| took[at]).find(|cost| cost.is_finite()) {
            library_costs.push((base / took[0]).ln());
        }
    }
    bar.finish_and_clear();
    if library_costs.len() < how.blocks && !how.quiet {
        message::note(format_args!(
            "ended early, after {} of {} blocks",
            library_costs.len(),
            how.blocks
        ));
    }
    Ok(library_costs)
}

/// The report of a run, or why it is none.
fn read(reports: &Path) -> Result<Report, String> {
    let mut text = String::new();
    File::open(reports)
        .and_then(|file| file.take(REPORT_BYTES).read_to_string(&mut text))
        .map_err(|error| format!("left no report: {error}"))?;
    let all: Vec<Report> = text.lines().filter_map(parse).collect();
    let mut inside = all.iter().filter(|report| report.entries > 0);
    match (inside.next(), inside.next()) {
        (Some(report), None) if report.unpaid > 0 => {
            Err("waits in it for others without a pthread function".to_owned())
        }
        (Some(report), None) => Ok(*report),
        (Some(_), Some(_)) => Err("is run by several processes".to_owned()),
        (None, _) if all.is_empty() => Err("left no report: it is static, or ends by _exit or a signal".to_owned()),
        (None, _) if all.iter().all(|report| report.found == 0) => {
            Err("is not found: a slice needs a program built with this kasuri.h, a lock a variable with a symbol".to_owned())
        }
        (None, _) => Err("was never entered: names given at run time are not seen".to_owned()),
    }
}

/// `PID found N entries N region_ns N slept_ns N delay_ns N unpaid N`. The program can write anything there: all of it may be wrong.
fn parse(line: &str) -> Option<Report> {
    let words: Vec<&str> = line.split(' ').collect();
    let of =
        |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
    Some(Report {
        found: of("found")?.parse().ok()?,
        entries: of("entries")?.parse().ok()?,
        region_ns: of("region_ns")?.parse().ok()?,
        delay_ns: of("delay_ns")?.parse().ok()?,
        unpaid: of("unpaid")?.parse().ok()?,
    })
}

fn checked(trying: &Trying<'_>, path: &CriticalPath) -> Checked {
    let what_if = trying.what_if;
    let replay = path.replayed_ns as f64 / what_if.length_ns.max(1) as f64;
    let mut seen = trying.seen.clone();
    seen.sort_by_key(|report| report.region_ns);
    let median = seen.get(seen.len() / 2).copied().unwrap_or_default();
    let mut not_valid = trying.not_valid.clone();
    let is_run = trying.differences.iter().any(|ratio| ratio.is_finite());
    if not_valid.is_none() && !is_run {
        not_valid = Some("its time ended before a whole block".to_owned());
    }
    if not_valid.is_none() && (median.region_ns as f64) < 2.0 * LEAST_DELAY_NS {
        let ns = duration(median.region_ns as f64);
        not_valid = Some(format!("takes too little CPU time to tell: {ns} a run, needed 2 ms"));
    }
    let told: Option<Paired> = match not_valid {
        None => paired(&trying.differences, 0.95),
        Some(_) => None,
    };
    let interval = told.and_then(|told| told.interval);
    let agrees = told.map(|told| {
        let is_inside = interval.is_some_and(|(low, high)| (low..=high).contains(&replay.ln()));
        is_inside || (replay / told.estimate.exp() - 1.0).abs() <= NEAR
    });
    Checked {
        change: what_if.change,
        name: what_if.name.clone(),
        place: what_if.place.clone(),
        replay,
        experiment: told.map(|told| told.estimate.exp()),
        low: interval.map(|(low, _)| low.exp()),
        high: interval.map(|(_, high)| high.exp()),
        blocks: told.map_or(0, |told| told.n),
        entries: median.entries,
        region_ns: median.region_ns,
        agrees,
        not_valid,
    }
}

fn text(told: &Told, width: usize) -> String {
    let mut grid = Grid::new(&[
        number("REPLAY", 0),
        number("TRIED", 0),
        number("FROM", 2),
        number("TO", 2),
        word("", 0),
        sentence("FASTER BY THIS FACTOR IF"),
    ]);
    let factor =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    for row in &told.what_ifs {
        let name = printable(&row.name);
        let mut what = match row.change {
            "half" => format!("{name} took half its time"),
            _ => format!("the holders of lock `{name}` took half the time"),
        };
        if let Some(why) = &row.not_valid {
            what = format!("{what} (not valid: {why})");
        }
        let verdict = match row.agrees {
            Some(true) => "agree",
            Some(false) => "differ",
            None => "-",
        };
        grid.row([
            factor(Some(row.replay)),
            factor(row.experiment),
            factor(row.low),
            factor(row.high),
            verdict.to_owned(),
            what,
        ]);
    }
    let mut text = (grid.lines(width).iter()).fold(String::new(), |text, line| text + line + "\n");
    let off: Vec<f64> = (told.what_ifs.iter())
        .filter_map(|row| Some((row.replay / row.experiment? - 1.0).abs()))
        .collect();
    let far = off.iter().copied().fold(0.0, f64::max) * 100.0;
    text.push('\n');
    if !off.is_empty() {
        text += &format!(
            "replay and experiment differ by {far:.0} % at most, in {} what-ifs and {} blocks\n",
            off.len(),
            told.blocks
        );
    }
    if let Some(cost) = told.library_cost {
        text += &format!(
            "the library alone: {:+.1} % of the run's time, on both sides of TRIED\n",
            (cost - 1.0) * 100.0
        );
    }
    if !told.results_compared {
        text += "results were not compared: the output differs from run to run\n";
    }
    text
}
