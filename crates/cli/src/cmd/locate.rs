//! `kasuri where FILE | -p PID`.
use crate::open::Input;
use crate::scratch::Scratch;
use crate::show::{layout, show};
use crate::source;
use anyhow::bail;
use kasuri_analyze::Session;
use kasuri_answers::whereabouts::Where;
use kasuri_record::{Options, Target};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Time for which a process is watched: threads that run get some tens of samples, and of each that waits the stack is read.
const WATCHED: Duration = Duration::from_millis(500);

/// Show where the threads of a program that hangs wait, since when, and for whom
///
/// Looks at a running process for half a second: the code in which each thread waits or runs, for how long it has had no CPU, and who has
/// what it waits for: the holder of a mutex, a thread or child whose end is waited for, the holder of a file lock, the other end
/// of a pipe or a TCP connection. Threads that wait for each other's locks are named as a dead-lock. The process is neither stopped nor
/// changed. Of a recording: the same for the moment at which it ended, if the program ran on then (`record -p`).
///
/// The processes of other users need root. Without root, and where kernel.yama.ptrace_scope forbids it, call paths are not known.
#[derive(clap::Args, Debug)]
#[command(
    name = "where",
    after_help = "\
Examples:
  kasuri where -p $(pgrep -n server)
  kasuri where server.kasuri                       at the end of a recording of `record -p`
  kasuri where --json -p 1234 | jq '.circles'"
)]
pub struct Args {
    /// Recording (.kasuri); - for stdin
    #[arg(value_name = "FILE", required_unless_present = "pid", conflicts_with = "pid")]
    file: Option<PathBuf>,
    /// The process to look at
    #[arg(short, long, value_name = "PID", allow_hyphen_values = true, value_parser = super::process_number)]
    pid: Option<i32>,
    /// Print JSON (schema kasuri.where/1)
    #[arg(long)]
    json: bool,
    /// Print at most N rows of the table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// Prints where they are.
///
/// # Errors
/// When the process cannot be looked at, or the recording does not say.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (trace, name) = match (&args.file, args.pid) {
        (Some(file), _) => (Input::new(file.clone(), false).load()?, file.display().to_string()),
        (None, pid) => {
            let pid = pid.expect("clap wants a file or a process");
            (watch(pid)?, format!("process {pid}"))
        }
    };
    let session = Session::new(&trace, &kasuri_analyze::Options::default());
    let Some(at_end) = session.at_end() else {
        bail!(
            "{name}: what its threads did at the end is not known: the program had ended, or the whole system was recorded; \
             kasuri where -p PID looks at a running process"
        );
    };
    show(&Where { at_end }, args.json, &layout(&trace, args.top))
}

/// Records the process for a moment, into nothing that lasts.
fn watch(pid: i32) -> anyhow::Result<kasuri_model::Trace> {
    let scratch = Scratch::new("where")?;
    let output = scratch.path().join("where.kasuri");
    let mut options = Options::new(Target::Process(pid), output.clone());
    options.shm_dir = super::shm_dir();
    options.duration = Some(WATCHED);
    let summary = source::record(&options)?;
    if let Some(failure) = &summary.failure {
        bail!("process {pid} could not be looked at: {failure}");
    }
    Input::new(output, false).load()
}
