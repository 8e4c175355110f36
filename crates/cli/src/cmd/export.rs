//! `kasuri export FILE --format FORMAT`.
use crate::message;
use crate::open::Input;
use crate::output::Output;
use kasuri_present::{Exported, chrome, perfetto};
use std::path::PathBuf;
use std::process::ExitCode;

/// Convert a recording for another tool
///
/// perfetto: protobuf, opens in the Perfetto UI (ui.perfetto.dev) with CPU tracks, thread states, slices,
/// counters and arrows. chrome-json: Trace Event Format, for chrome://tracing, speedscope and scripts.
/// What a format cannot hold is said on stderr.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri export --format perfetto run.kasuri            writes run.pftrace
  kasuri export --format chrome-json -o - run.kasuri | gzip > run.json.gz")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Format of the result
    #[arg(long, short, value_enum)]
    format: Format,
    /// Where to, - for stdout [default: FILE with .pftrace or .json]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// Perfetto protobuf
    Perfetto,
    /// Chrome Trace Event Format, object form
    ChromeJson,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Format::Perfetto => "pftrace",
            Format::ChromeJson => "json",
        }
    }
}

/// Writes the export.
///
/// # Errors
/// When the recording cannot be read or the result not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = args
        .output
        .unwrap_or_else(|| args.input.beside(args.format.extension()));
    let output = Output::new(
        path,
        &args.input.file,
        matches!(args.format, Format::Perfetto),
    )?;
    let trace = args.input.load()?;
    let done: Exported = output.write(|out| match args.format {
        Format::Perfetto => perfetto::write(&trace, out),
        Format::ChromeJson => chrome::write(&trace, out),
    })?;
    if !done.left_out.is_empty() {
        message::note(format!(
            "this format has no room for: {}",
            done.left_out.join("; ")
        ));
    }
    if let Some(path) = output.path() {
        message::note(format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}
