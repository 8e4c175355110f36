//! `kasuri export FILE --format FORMAT`.
mod tables;

pub use tables::machine_of;

use crate::message;
use crate::open::Input;
use crate::output::{self, Output};
use crate::program::ProgramArgs;
use anyhow::bail;
use clap::builder::PossibleValue;
use kasuri_export::{EXPORTS, Export, Exported, Shape};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Convert a recording for another tool
///
/// perfetto: protobuf, opens in the Perfetto UI (ui.perfetto.dev) with CPU tracks, thread states, slices,
/// counters and arrows. chrome-json: Trace Event Format, for chrome://tracing, speedscope and scripts.
/// firefox: for profiler.firefox.com; speedscope: for speedscope.app; both with the threads of the program alone. paraver: .prv with .pcf and .row beside it.
/// pprof: times by call path, thread and class of the account, for `go tool pprof` and services that take its profiles.
/// ctf, ctf1.8: a directory with a kernel trace under LTTng's names and a user-space trace, for babeltrace2 and Trace Compass.
/// trace-dat: for trace-cmd report and KernelShark; annotations are texts as programs write them to trace_marker.
/// parquet, csv: the tables of `kasuri sql` (docs/sql.md) as files; parquet puts the run beside others in the same folder.
/// What a format cannot represent is printed to stderr.
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
    #[command(flatten)]
    program: ProgramArgs,
    /// Format of the result
    #[arg(long, short, value_enum)]
    format: Format,
    /// Write to OUT; - for stdout; a folder for parquet and csv [default: FILE with the format's extension]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    tables: tables::Tables,
}

/// A value of `--format`.
#[derive(Clone, Copy, Debug)]
enum Format {
    /// A row of the table of exports.
    Export(&'static Export),
    /// The tables of `kasuri sql` as files.
    Tables(tables::Kind),
}

impl Format {
    /// All formats in the order in which the help lists them.
    fn all() -> impl Iterator<Item = Format> + Clone {
        let exports = EXPORTS.iter().map(Format::Export);
        exports.chain(tables::Kind::ALL.map(Format::Tables))
    }

    fn name(self) -> &'static str {
        match self {
            Format::Export(export) => export.name,
            Format::Tables(kind) => kind.name(),
        }
    }

    fn about(self) -> &'static str {
        match self {
            Format::Export(export) => export.about,
            Format::Tables(kind) => kind.about(),
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Format::Export(export) => export.extension,
            Format::Tables(kind) => kind.name(),
        }
    }
}

impl clap::ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Format] {
        static ALL: std::sync::OnceLock<Vec<Format>> = std::sync::OnceLock::new();
        ALL.get_or_init(|| Format::all().collect())
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(self.about()))
    }
}

/// Writes the export.
///
/// # Errors
/// When the recording cannot be read or the result not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = args.output.unwrap_or_else(|| args.input.beside(args.format.extension()));
    match args.format {
        Format::Tables(kind) => tables::run(&args.input, &args.program, &path, kind, args.tables),
        Format::Export(export) => write(&args.input, &args.program, path, export),
    }
}

fn write(
    input: &Input,
    program: &ProgramArgs,
    path: PathBuf,
    export: &Export,
) -> anyhow::Result<ExitCode> {
    let load = || {
        let mut trace = match export.has_events {
            true => input.load_with_events(),
            false => input.load(),
        }?;
        let name = input.name();
        match export.is_of_program {
            true => {
                let command = format!("kasuri export --format {}", export.name);
                program.choose_or_say(&mut trace, &command, &name)?;
            }
            false => program.choose(&mut trace, &name)?,
        }
        anyhow::Ok(trace)
    };
    match export.shape {
        Shape::Stream(write) => {
            let output = Output::new(path, &[&input.file], export.is_binary)?;
            let trace = load()?;
            let done = output.write(|out| write(&trace, out))?;
            print_result(&done, output.path());
        }
        Shape::Several(files) => {
            if path.as_os_str() == "-" {
                bail!(
                    "{} is {} files, which stdout cannot be; needed -o NAME.{}",
                    export.name,
                    files.len(),
                    export.extension
                );
            }
            let output = Output::new(path.clone(), &[&input.file], export.is_binary)?;
            let trace = load()?;
            let mut done = Exported::default();
            for (ix, (extension, write)) in files.iter().enumerate() {
                let written = match ix {
                    0 => output.write(|out| write(&trace, out)),
                    _ => {
                        let path = path.with_extension(extension);
                        Output::new(path, &[&input.file], false)?.write(|out| write(&trace, out))
                    }
                }?;
                done.left_out.extend(written.left_out);
            }
            print_result(&done, Some(&path));
        }
        Shape::Directory(write) => {
            let trace = load()?;
            let done = output::write_directory(&path, &input.file, |files| write(&trace, files))?;
            print_result(&done, Some(&path));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the losses of the conversion, and the path of the result.
fn print_result(done: &Exported, path: Option<&Path>) {
    if !done.left_out.is_empty() {
        message::note(format!("not in this format: {}", done.left_out.join("; ")));
    }
    if let Some(path) = path {
        message::note(format!("wrote {}", path.display()));
    }
}
