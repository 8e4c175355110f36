//! `kasuri info FILE`.
use crate::open::Input;
use crate::show::{layout, show};
use kasuri_answers::info::Info;
use std::process::ExitCode;

/// Show what is in a file, and which questions it can answer
///
/// Shows the format, duration, CPUs, events by kind, losses and clock of a recording or of another tool's trace, and the tool
/// that wrote it. For each question that the file cannot answer, shows how to record what is missing.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri info run.kasuri
  kasuri info perf.data
  kasuri info --json trace.dat | jq -r '.answers[] | select(.can != \"yes\") | .topic + \": \" + .remedy'")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Print JSON (schema kasuri.info/1), with every row of every table
    #[arg(long)]
    json: bool,
    /// Print at most N rows of each table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// Prints the description.
///
/// # Errors
/// When the file cannot be read or stdout not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let trace = args.input.load()?;
    let info = Info::new(args.input.name().to_string(), &trace);
    show(&info, args.json, &layout(&trace, args.top))
}
