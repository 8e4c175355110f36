//! `kasuri locks FILE | -- PROGRAM`.
use super::predict::machine;
use crate::program::ProgramArgs;
use crate::range::{self, TimeRange};
use crate::show::{layout, show};
use crate::source::Source;
use kasuri_analyze::Session;
use kasuri_answers::locks::LocksAnswer;
use kasuri_answers::predict::of_locks;
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
    let mut trace = args.source.load(&|options| options.syscalls = args.syscalls)?;
    let name = args.source.name();
    args.program.choose_or_say(&mut trace, "kasuri locks", &name)?;
    let options = range::options(&trace, args.range, args.all)?;
    let session = Session::new(&trace, &options);
    // The class is a prediction for two CPUs; of a part of the recording there is none.
    let is_whole = options.range.is_none() && !session.locks().locks.is_empty();
    let wanted = || kasuri_predict::Options {
        machine: machine(&trace),
        cpus: vec![2],
        what_if: false,
        ..kasuri_predict::Options::default()
    };
    let prediction = is_whole.then(|| of_locks(&session, &wanted()).ok()).flatten();
    let answer = LocksAnswer::new(session.locks(), prediction.as_ref());
    show(&answer, args.json, &layout(&trace, args.top))
}
