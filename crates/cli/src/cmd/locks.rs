//! `kasuri locks FILE | -- PROGRAM`.
use super::predict::machine;
use super::stat::{has_colour, screen_width};
use crate::program::{ProgramArgs, named};
use crate::range::{self, TimeRange};
use crate::source::Source;
use kasuri_analyze::Session;
use kasuri_text::table::{self, Layout};
use std::io::Write;
use std::process::ExitCode;

/// Show locks: which threads held them, which waited, and why
///
/// The lock ratio is CPU time inside critical sections / CPU time. The wait ratio is time spent waiting for locks / execution
/// time. Holds are measured in CPU time and by the wall clock; waiting threads wait for the latter. docs/glossary.md defines the
/// terms.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri locks run.kasuri
  kasuri locks -- ./program 8                      records ./program first
  kasuri locks --syscalls -- make -j8              also the system calls of its processes
  kasuri locks --json run.kasuri | jq '.locks[] | {name, lock_ratio, wait_ratio}'")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    program: ProgramArgs,
    /// Print JSON (schema kasuri.locks/1), with every row of every table
    #[arg(long)]
    json: bool,
    /// Print at most N rows of each table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Analyse only this range, counted from the recording's start: 1.5s..2s, 100ms.., ..20%
    #[arg(long, value_name = "A..B")]
    range: Option<TimeRange>,
    /// With PROGRAM: also record system calls, for their time by process and the callers of kernel locks
    #[arg(long)]
    syscalls: bool,
    /// Include the locks of all processes, not only the recorded program's
    #[arg(long)]
    all: bool,
}

/// Prints the locks.
///
/// # Errors
/// When there is no recording or stdout cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut trace = args
        .source
        .load(&|options| options.syscalls = args.syscalls)?;
    let name = args.source.name();
    args.program
        .choose_or_say(&mut trace, "kasuri locks", &name)?;
    let options = range::options(&trace, args.range, args.all)?;
    let session = Session::new(&trace, &options);
    let locks = session.locks();
    let mut out = std::io::stdout().lock();
    // The class is a prediction for two CPUs; of a part of the recording there is none. The replay is of threads; where tasks take the
    // locks it is not what would happen.
    let can_replay = options.range.is_none() && !locks.locks.is_empty() && locks.tasks.is_empty();
    let predict = || {
        let wanted = kasuri_predict::Options {
            machine: machine(false),
            cpus: vec![2],
            what_if: false,
            ..kasuri_predict::Options::default()
        };
        super::predict::from_one(&session, &wanted)
    };
    let prediction = can_replay.then(predict).flatten();
    if args.json {
        let mut value = serde_json::to_value(locks)?;
        let verdict = kasuri_text::verdict::Verdict::new(locks, prediction.as_ref());
        let p = verdict.prediction;
        value["class"] = p.and_then(|p| p.class).map(|c| c.word()).into();
        value["lock_efficiency_2_cpus"] = p.and_then(|p| p.lock_efficiency).into();
        value["speedup_2_cpus"] = p.and_then(|p| p.at(2)).map(|q| q.speedup).into();
        value["speedup_2_cpus_without_locks"] = p.map(|p| p.without_locks).into();
        value["cap"] = serde_json::to_value(p.and_then(|p| p.cap.as_ref()))?;
        value["look_at"] = verdict.advice.map(|a| a.text()).into();
        kasuri_text::json::write(&value, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let layout = Layout {
        width: screen_width(),
        colour: has_colour(),
        top: args.top,
        program: named(&trace),
        ..Layout::default()
    };
    out.write_all(table::locks(locks, prediction.as_ref(), &layout).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
