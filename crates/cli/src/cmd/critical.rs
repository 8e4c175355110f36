//! `kasuri critical FILE`.
use crate::open::Input;
use crate::program::ProgramArgs;
use crate::show::{layout, show};
use kasuri_answers::critical::Critical;
use std::process::ExitCode;

/// Show the critical path: what to shorten, and by how much the run would shrink
///
/// Follows, from the program's end to its start, the chain of running and waiting threads that the run could not have been
/// shorter than. Then replays the run with one change at a time and prints how long it would take. The replay does not limit
/// the number of CPUs: where more threads become ready than there are CPUs, the real gain is smaller.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri critical run.kasuri
  kasuri critical --json run.kasuri | jq '.what_if'
  kasuri try --what-if -- ./program               check the what-ifs by experiment")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    program: ProgramArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print at most N rows of the table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// Prints the path.
///
/// # Errors
/// When the recording cannot be read or stdout not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut trace = args.input.load()?;
    let name = args.input.name();
    (args.program).choose_one(&mut trace, "the critical path", "kasuri critical", &name)?;
    let path = kasuri_analyze::critical_path::critical_path(&trace);
    let answer = Critical::new(path, trace.span.start.ns());
    anyhow::ensure!(
        args.json || answer.path.length_ns > 0,
        "{name}: no scheduler events of the program, so its critical path is not known; kasuri info {name} says how to record them"
    );
    show(&answer, args.json, &layout(&trace, args.top))
}
