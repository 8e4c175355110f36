//! `kasuri recover`: saves what a crash left.
use crate::message;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kasuri recover run.kasuri.d                 the recorder was killed: pack what it had
  kasuri recover run.kasuri -o whole.kasuri   a damaged file: copy what is whole of it";

/// Save a recording whose recorder was killed, or a damaged file.
///
/// A recording directory (NAME.kasuri.d) is completed with what the programs left in shared memory, packed
/// into NAME.kasuri and removed. Of a damaged .kasuri file everything that is whole is copied to
/// a new file.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Recording directory or damaged file
    #[arg(value_name = "DIR|FILE")]
    path: PathBuf,

    /// File to write [default: NAME.kasuri; for a file NAME.recovered.kasuri]
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
    let recovered = kasuri_record::recover(
        &args.path,
        args.output.as_deref(),
        &super::shm_dir(),
        &mut |_| {},
    )?;
    for damage in &recovered.packed.damage {
        message::warning(format_args!("left out: {damage}"));
    }
    if !args.quiet {
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
