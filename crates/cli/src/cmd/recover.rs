//! `kasuri recover`: saves what a crash left.
use crate::message;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kasuri recover run.kasuri.d                 pack the directory of a killed recorder
  kasuri recover run.kasuri -o whole.kasuri   copy the undamaged part of a file";

/// Recover a recording whose recorder was killed, or a damaged file.
///
/// Completes a recording directory (NAME.kasuri.d) with what the programs left in shared memory, packs it into NAME.kasuri and
/// removes it. From a damaged .kasuri file, copies every undamaged part to a new file.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recording directory or damaged file
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,

    /// Write the recording to FILE [default: NAME.kasuri; for a file NAME.recovered.kasuri]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

/// Recovers.
///
/// # Errors
/// When the path is no recording, its recorder still lives, or the file cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let recovered =
        kasuri_record::recover(&args.path, args.output.as_deref(), &super::shm_dir(), &mut |_| {})?;
    for damage in &recovered.packed.damage {
        message::warning(format_args!("left out: {damage}"));
    }
    if recovered.was_whole && !args.quiet {
        message::note(format_args!(
            "{} has this recording already, whole; what its recorder left was removed",
            recovered.output.display()
        ));
    } else if !args.quiet {
        let packed = &recovered.packed;
        message::note(format_args!(
            "{}: {} kernel events, {} annotations, {:.1} MB, {}",
            recovered.output.display(),
            packed.kernel_events,
            packed.annotation_events,
            packed.bytes as f64 / 1e6,
            packed.losses
        ));
    }
    Ok(ExitCode::SUCCESS)
}
