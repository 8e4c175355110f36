//! `kasuri record --check-overhead`: the program with and without recording in turn, and the true slow-down beside the
//! estimate that the recording makes of its own cost.
use crate::message;
use anyhow::{Context, bail};
use kasuri_lab::stats::{Estimate, median};
use kasuri_record::{Options, Target, UnitCosts};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;
use std::time::Instant;

/// One run.
struct Run {
    wall_s: f64,
    /// User and system time of the program and its descendants.
    cpu_s: f64,
}

/// Runs the program `pairs` times each way; the last recording stays. `price`: what events cost now, beside each pair.
///
/// # Errors
/// When the target is no program, or it fails: runs that fail are not comparable.
pub fn run(
    options: &mut Options,
    mut price: impl FnMut(&Options) -> UnitCosts,
    pairs: u32,
    quiet: bool,
) -> anyhow::Result<ExitCode> {
    let Target::Program(_) = &options.target else {
        bail!("--check-overhead runs the program again and again: name one after --");
    };
    let (mut wall, mut cpu, mut estimates) = (Vec::new(), Vec::new(), Vec::new());
    let mut code = ExitCode::SUCCESS;
    for pair in 0..pairs {
        if !quiet {
            message::note(format_args!("pair {} of {pairs}", pair + 1));
        }
        options.costs = price(options);
        // The first of a pair finds colder caches, so they take turns.
        let (plain, traced) = if pair % 2 == 0 {
            (plain(options)?, traced(options)?)
        } else {
            let traced = traced(options)?;
            (plain(options)?, traced)
        };
        wall.push(traced.0.wall_s / plain.wall_s);
        cpu.push(traced.0.cpu_s / plain.cpu_s.max(1e-3));
        estimates.extend(traced.1.map(|share| 1.0 / (1.0 - share.min(0.99))));
        code = traced.2;
    }
    let line = |what: &str, e: Option<Estimate>| {
        e.map_or_else(
            || format!("{what}: not known"),
            |e| format!("{what}: {:.3}x ({:.3}..{:.3})", e.median, e.low, e.high),
        )
    };
    for text in [
        line("slow-down by the wall clock", median(&wall)),
        line("slow-down in CPU time", median(&cpu)),
        line("estimated by the recordings", median(&estimates)),
    ] {
        message::note(format_args!("{text}, median of {pairs} pairs with its interval"));
    }
    Ok(code)
}

fn plain(options: &Options) -> anyhow::Result<Run> {
    let command = options.command();
    let (before, start) = (children_cpu_s(), Instant::now());
    let status = kasuri_record::inherited::command(&command[0])
        .args(&command[1..])
        .status()
        .with_context(|| format!("cannot run {}", command[0].display()))?;
    let run = Run { wall_s: start.elapsed().as_secs_f64(), cpu_s: children_cpu_s() - before };
    if !status.success() {
        bail!(
            "the program failed without recording (status {}); its times are not comparable",
            status.code().unwrap_or(128 + status.signal().unwrap_or(0))
        );
    }
    Ok(run)
}

/// The run, the estimated share of tracing in its CPU time, and its exit code.
fn traced(options: &Options) -> anyhow::Result<(Run, Option<f64>, ExitCode)> {
    let summary = kasuri_record::record(options, &mut |_| {})?;
    let file = summary.files.last().context("the recording could not be kept")?;
    let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
    let recording = kasuri_format::container::Recording::parse(&bytes)?;
    let meta = recording.meta();
    let end = meta.end.context("the recording has no end")?;
    let run = Run {
        // From the start of the recording to the program's end, without the packing after it.
        wall_s: (end.monotonic_ns - meta.start.monotonic_ns) as f64 * 1e-9,
        cpu_s: meta.program_cpu_ns.unwrap_or(0) as f64 * 1e-9,
    };
    let name = file.display().to_string();
    let file = kasuri_import::File { name: &name, bytes: &bytes };
    let trace = kasuri_import::load(&[file], &Default::default())?;
    let share = kasuri_analyze::summary(&trace, &kasuri_analyze::Options::default()).tracing.share;
    match summary.exit_status {
        Some(0) => Ok((run, share, ExitCode::SUCCESS)),
        status => bail!(
            "the program failed under recording (status {}); its times are not comparable",
            status.unwrap_or(-1)
        ),
    }
}

/// User and system time of all children that ended.
fn children_cpu_s() -> f64 {
    kasuri_record::children_cpu_ns() as f64 * 1e-9
}
