//! `kasuri merge -o OUT FILE...`.
use crate::merge::{Part, Prepared};
use crate::message;
use crate::open::with_traces;
use crate::output::Output;
use anyhow::bail;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Merge several traces of one run into one recording
///
/// The result uses the clock of the first trace. Traces with the same clock are merged as they are. Others are aligned by the
/// time of day that they recorded for their clock; if a trace has none, use --offset. If several traces contain kernel events of
/// a CPU, those of the first trace are kept. A single trace is converted.
///
/// The first trace may be a recording of kasuri: everything in it is kept, and the other traces add what programs wrote while it
/// was made, and their kernel events if it has none.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri merge -o run.kasuri trace.dat lttng-traces/run/ust/uid/0/64-bit
  kasuri merge -o both.kasuri run.kasuri lttng-traces/run/ust/uid/0/64-bit
  kasuri merge -o run.kasuri trace.dat               converts trace.dat
  kasuri merge -o run.kasuri host.dat guest.dat --offset guest.dat=-1500000")]
pub struct Args {
    /// Traces of other tools (trace.dat, perf.data, CTF, Perfetto, Chrome JSON, ftrace text); the first may be a recording
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the recording to OUT
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Add NS nanoseconds to the times of FILE instead of aligning its clock
    #[arg(long, value_name = "FILE=NS", value_parser = offset)]
    offset: Vec<(PathBuf, i64)>,
    /// Read the undamaged part of damaged files
    #[arg(long)]
    salvage: bool,
}

fn offset(text: &str) -> Result<(PathBuf, i64), String> {
    let (file, ns) = (text.rsplit_once('=')).ok_or("needed FILE=NS")?;
    let ns = ns.parse().map_err(|_| format!("{ns:?} is no number of ns"))?;
    Ok((file.into(), ns))
}

/// Writes the merged recording.
///
/// # Errors
/// When a trace cannot be read, clocks cannot be aligned, or the result not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some((file, _)) = args.offset.iter().find(|(f, _)| !args.files.contains(f)) {
        bail!("--offset {}=...: is none of the traces given", file.display());
    }
    if let Some(file) = args.files.iter().find(|f| **f == args.output) {
        bail!("{}: is read and cannot be written too; needed another -o", file.display());
    }
    let files: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let output = Output::new(args.output.clone(), &files, true)?;
    let merged = with_traces(&args.files, args.salvage, |traces| {
        let part = |(path, opened): (&Path, _)| Part {
            name: path.display().to_string(),
            opened,
            offset_ns: (args.offset.iter().find(|(f, _)| f == path)).map(|(_, ns)| *ns),
        };
        let parts = traces.opened.into_iter().map(part).collect();
        let prepared = Prepared::new(traces.base, parts, traces.strings)?;
        output.write(|out| prepared.write(out))
    })?;
    for note in &merged.notes {
        message::note(note);
    }
    message::note(format!("wrote {} events to {}", merged.n_events, args.output.display()));
    Ok(ExitCode::SUCCESS)
}
