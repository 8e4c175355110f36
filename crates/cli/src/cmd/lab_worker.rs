//! `kasuri lab-worker`: the process whose operations `kasuri overhead` and `kasuri events` time.
use std::process::ExitCode;

/// Serve one measurement; started by `kasuri overhead` and `kasuri events` only.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// CPU to run on
    cpu: u32,
}

/// Serves until stdin closes.
///
/// # Errors
/// When the pipe breaks or the CPU is not ours.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    kasuri_lab::worker::serve(args.cpu)?;
    Ok(ExitCode::SUCCESS)
}
