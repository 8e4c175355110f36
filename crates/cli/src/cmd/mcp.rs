//! `kasuri mcp`.
use crate::cmd::record::duration;
use crate::mcp::{self, Limits};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Answer coding agents' questions about recordings (Model Context Protocol)
///
/// Reads requests from stdin and answers on stdout: accounts, explanations, call paths, locks, critical paths, comparisons and, where DuckDB is
/// installed, SQL. It opens regular files beneath the folders of --root only, answers a page at a time, and starts no program but with
/// --allow-record. docs/guide/mcp.md has the configuration of common clients.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri mcp --root runs                      recordings in runs
  kasuri mcp --root . --allow-record          may also record and try programs, as you
  claude mcp add kasuri -- kasuri mcp --root .")]
pub struct Args {
    /// Folder whose recordings may be read; may be given several times
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: Vec<PathBuf>,
    /// Also offer tools that run programs: recording one, trying remedies on it
    #[arg(long)]
    allow_record: bool,
    /// Longest time for one answer
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    timeout: Duration,
}

/// Serves until stdin ends.
///
/// # Errors
/// When a folder cannot be opened, or the client does not speak the protocol.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let limits = Limits { time: args.timeout, allow_record: args.allow_record };
    mcp::serve(&args.root, limits)?;
    Ok(ExitCode::SUCCESS)
}
