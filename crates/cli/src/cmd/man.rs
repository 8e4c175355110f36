//! `kasuri man DIR`: the manual pages, made from the same text as `--help`.
use anyhow::Context;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write kasuri.1 and one page for each subcommand into a directory.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kasuri man /usr/local/share/man/man1")]
pub struct Args {
    /// Where to; made if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Writes the pages.
///
/// # Errors
/// When the directory or a file cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.dir)
        .with_context(|| format!("cannot make the directory {}", args.dir.display()))?;
    clap_mangen::generate_to(super::command(), &args.dir)
        .with_context(|| format!("cannot write manual pages into {}", args.dir.display()))?;
    Ok(ExitCode::SUCCESS)
}
