//! `kasuri locks FILE | -- PROGRAM`.
use super::predict::machine;
use super::stat::{has_colour, screen_width};
use crate::range::TimeRange;
use crate::source::Source;
use kasuri_model::Time;
use kasuri_present::table::{self, Layout};
use std::io::Write;
use std::process::ExitCode;

/// Show locks: who held which, who waited, and why
///
/// The lock ratio is CPU time inside critical sections over CPU time; the wait ratio is time waiting for them over
/// execution time. Holds are measured both ways: on a CPU, and by the wall clock, which is what others wait for.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri locks run.kasuri
  kasuri locks -- ./program 8                      records it now
  kasuri locks --json run.kasuri | jq '.locks[] | {name, lock_ratio, wait_ratio}'")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Print JSON (schema kasuri.locks/1), with every table whole
    #[arg(long)]
    json: bool,
    /// Rows of each table; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Only this part: 1.5s..2s, 100ms.., ..20%; times count from the recording's start
    #[arg(long, value_name = "A..B")]
    range: Option<TimeRange>,
    /// Locks of all processes, not only the recorded program's
    #[arg(long)]
    all: bool,
}

/// Prints the locks.
///
/// # Errors
/// When there is no recording or stdout cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let trace = args.source.load(&|_| ())?;
    let start = trace.span.start.ns();
    let range = args
        .range
        .map(|r| r.resolve(trace.span.end.ns() - start))
        .transpose()?;
    let options = kasuri_analyze::Options {
        range: range.map(|r| Time(start + r.start)..Time(start + r.end)),
        all_processes: args.all,
    };
    let locks = kasuri_analyze::locks(&trace, &options);
    let mut out = std::io::stdout().lock();
    // The class is a prediction for two CPUs; of a part of the recording there is none.
    let wanted = kasuri_predict::Options {
        machine: machine(false),
        cpus: vec![2],
        what_if: false,
    };
    let prediction = (options.range.is_none() && !locks.locks.is_empty())
        .then(|| kasuri_predict::predict(&trace, None, &wanted).ok())
        .flatten();
    if args.json {
        let mut value = serde_json::to_value(&locks)?;
        value["class"] = prediction.as_ref().map(|p| p.class.word()).into();
        value["lock_efficiency_2_cpus"] = prediction.as_ref().map(|p| p.lock_efficiency).into();
        kasuri_present::json::write(&value, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let layout = Layout {
        width: screen_width(),
        colour: has_colour(),
        top: args.top,
        ..Layout::default()
    };
    out.write_all(table::locks(&locks, prediction.as_ref(), &layout).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
