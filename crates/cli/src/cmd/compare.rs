//! `kasuri compare BEFORE AFTER`.
use crate::cmd::stat::{has_colour, screen_width};
use crate::open::Input;
use anyhow::bail;
use kasuri_analyze::Summary;
use kasuri_text::table::{self, Layout};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare recordings made before and after a change
///
/// Prints whole runs, the account, annotations and load imbalance of both sides. With four or more runs of each side, marks what
/// changed by more than noise: an exact permutation test over the runs, corrected for the number of rows.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri compare before.kasuri after.kasuri
  kasuri compare --before old-*.kasuri --after new-*.kasuri

  for i in 1 2 3 4; do                             compare one CPU with all, four runs each
    taskset -c 0 kasuri record -q -o one-$i.kasuri -- ./program
    kasuri record -q -o all-$i.kasuri -- ./program
  done
  kasuri compare --before one-?.kasuri --after all-?.kasuri
  kasuri compare --json before.kasuri after.kasuri | jq '.regions[] | select(.changed)'")]
pub struct Args {
    /// One recording made before the change and one made after
    #[arg(value_name = "BEFORE AFTER", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// Recordings before the change
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "files", requires = "after")]
    before: Vec<PathBuf>,
    /// Recordings after the change
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "files", requires = "before")]
    after: Vec<PathBuf>,
    /// Print JSON (schema kasuri.compare/1), with every row of every table
    #[arg(long)]
    json: bool,
    /// Print at most N rows of each table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Read the undamaged part of damaged recordings
    #[arg(long)]
    salvage: bool,
}

/// Prints the comparison.
///
/// # Errors
/// When a recording cannot be read, or there are not two sides.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (before, after) = match &args.files[..] {
        [before, after] => (vec![before.clone()], vec![after.clone()]),
        [] if !args.before.is_empty() => (args.before.clone(), args.after.clone()),
        files => bail!(
            "{} recording(s) given, needed two (or --before FILE... --after FILE...)",
            files.len()
        ),
    };
    let load = |files: Vec<PathBuf>| files.into_iter().map(|file| summary(file, args.salvage));
    let before: Vec<Summary> = load(before).collect::<anyhow::Result<_>>()?;
    let after: Vec<Summary> = load(after).collect::<anyhow::Result<_>>()?;
    let comparison = kasuri_analyze::compare::compare(&before, &after);
    let mut out = std::io::stdout().lock();
    if args.json {
        kasuri_text::json::write(&comparison, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let layout = Layout {
        width: screen_width(),
        colour: has_colour(),
        top: args.top,
        ..Layout::default()
    };
    out.write_all(table::render_comparison(&comparison, &layout).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// One recording's numbers; the recording itself is let go before the next is read.
fn summary(file: PathBuf, salvage: bool) -> anyhow::Result<Summary> {
    let trace = Input::new(file, salvage).load()?;
    Ok(kasuri_analyze::summary(&trace, &Default::default()))
}
