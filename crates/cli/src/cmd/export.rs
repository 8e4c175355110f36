//! `kasuri export FILE --format FORMAT`.
mod tables;

pub use tables::machine_of;

use crate::message;
use crate::open::Input;
use crate::output::{self, Output};
use anyhow::bail;
use kasuri_export::{Exported, chrome, ctf, firefox, paraver, perfetto, speedscope, trace_dat};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Convert a recording for another tool
///
/// perfetto: protobuf, opens in the Perfetto UI (ui.perfetto.dev) with CPU tracks, thread states, slices,
/// counters and arrows. chrome-json: Trace Event Format, for chrome://tracing, speedscope and scripts.
/// firefox: for profiler.firefox.com; speedscope: for speedscope.app; paraver: .prv with .pcf and .row beside it.
/// ctf, ctf1.8: a directory with a kernel trace under LTTng's names and a user-space trace, for babeltrace2 and Trace Compass.
/// trace-dat: for trace-cmd report and KernelShark; annotations are texts as programs write them to trace_marker.
/// parquet, csv: the tables of `kasuri sql` (docs/sql.md) as files; parquet puts the run beside others in the same folder.
/// What a format cannot hold is said on stderr.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri export --format perfetto run.kasuri            writes run.pftrace
  kasuri export --format firefox run.kasuri             writes run.firefox.json
  kasuri export --format chrome-json -o - run.kasuri | gzip > run.json.gz
  kasuri export --format ctf1.8 run.kasuri              writes run.ctf/; babeltrace2 run.ctf
  kasuri export --format parquet -o runs/ --label commit=1a2b3c run.kasuri   then: kasuri sql runs/")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Format of the result
    #[arg(long, short, value_enum)]
    format: Format,
    /// Where to, - for stdout; a folder for parquet and csv [default: FILE with the format's extension]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    tables: tables::Tables,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// Perfetto protobuf
    Perfetto,
    /// Chrome Trace Event Format, object form
    ChromeJson,
    /// Firefox Profiler's processed profile
    Firefox,
    /// speedscope's evented profiles
    Speedscope,
    /// Paraver's .prv, .pcf and .row
    Paraver,
    /// Common Trace Format 2, a directory (babeltrace2 2.1 and later)
    Ctf,
    /// Common Trace Format 1.8, a directory (babeltrace2, Trace Compass)
    #[value(name = "ctf1.8")]
    Ctf1,
    /// trace-cmd's trace.dat, version 6
    TraceDat,
    /// A folder of Parquet files, one for each table and run
    Parquet,
    /// A folder of CSV files, one for each table
    Csv,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Format::Perfetto => "pftrace",
            Format::ChromeJson => "json",
            Format::Firefox => "firefox.json",
            Format::Speedscope => "speedscope.json",
            Format::Paraver => "prv",
            Format::Ctf | Format::Ctf1 => "ctf",
            Format::TraceDat => "dat",
            Format::Parquet => "parquet",
            Format::Csv => "csv",
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
    if matches!(args.format, Format::Parquet | Format::Csv) {
        return tables::run(&args.input, &path, args.format, args.tables);
    }
    if matches!(args.format, Format::Paraver) && path.as_os_str() == "-" {
        bail!("paraver is three files, which stdout cannot be; needed -o NAME.prv");
    }
    if matches!(args.format, Format::Ctf | Format::Ctf1) {
        let version = match args.format {
            Format::Ctf => ctf::Version::V2,
            _ => ctf::Version::V1_8,
        };
        let trace = args.input.load_with_events()?;
        let done = output::write_directory(&path, |file| ctf::write(&trace, version, file))?;
        say(&done, Some(&path));
        return Ok(ExitCode::SUCCESS);
    }
    let output = Output::new(
        path,
        &args.input.file,
        matches!(args.format, Format::Perfetto | Format::TraceDat),
    )?;
    let trace = match args.format {
        Format::Perfetto | Format::TraceDat => args.input.load_with_events()?,
        _ => args.input.load()?,
    };
    let done: Exported = output.write(|out| match args.format {
        Format::Perfetto => perfetto::write(&trace, out),
        Format::ChromeJson => chrome::write(&trace, out),
        Format::Firefox => firefox::write(&trace, out),
        Format::Speedscope => speedscope::write(&trace, out),
        Format::Paraver => paraver::write(&trace, out),
        Format::TraceDat => trace_dat::write(&trace, out),
        Format::Ctf | Format::Ctf1 | Format::Parquet | Format::Csv => {
            unreachable!("folders are written above")
        }
    })?;
    if let (Format::Paraver, Some(prv)) = (args.format, output.path()) {
        let beside = |extension| Output::File(prv.with_extension(extension));
        beside("pcf").write(|out| paraver::write_pcf(&trace, out))?;
        beside("row").write(|out| paraver::write_row(&trace, out))?;
    }
    say(&done, output.path());
    Ok(ExitCode::SUCCESS)
}

/// What did not fit, and where the rest is.
fn say(done: &Exported, path: Option<&Path>) {
    if !done.left_out.is_empty() {
        message::note(format!(
            "this format has no room for: {}",
            done.left_out.join("; ")
        ));
    }
    if let Some(path) = path {
        message::note(format!("wrote {}", path.display()));
    }
}
