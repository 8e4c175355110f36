//! `kasuri stat FILE`.
use crate::open::Input;
use crate::program::ProgramArgs;
use crate::range::{self, TimeRange};
use crate::screen::has_colour;
use crate::show::screen_width;
use kasuri_base::words::shell_word;
use kasuri_text::table::{self, Layout, Section, Sections, program};
use std::io::Write;
use std::process::ExitCode;

/// Show where the CPU time went, and what to try
///
/// Prints a summary that fits one screen: how many CPUs the program used, what it lost the others to, and what to try.
/// -v prints every section; --section prints the named ones.
///
/// Output fits the terminal, or 80 columns in a pipe; COLUMNS=120 sets another width. Narrow tables have fewer columns.
/// Times are wall-clock times unless they are called CPU time. A dash means not recorded.
/// docs/glossary.md defines the terms.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Sections:
  run           times, switches, wake-ups, tasks and events in numbers
  account       CPU time by class and cause
  hints         what to try
  losses        lost events, and what the recording cannot show
  regions       CPUs at work while each annotated region was open
  annotations   annotated slices by total time
  imbalance     load imbalance of parallel regions
  openmp        regions and loops of OpenMP, and what other schedules would do
  usdt          hits of USDT probes and what they cost
  waits         annotated waits and critical sections
  threads       running, ready and blocked time of each thread
  cpus          use of each CPU
  interference  processes that ran while the program was ready to run
  migrations    moves of threads to other CPUs

Examples:
  kasuri stat run.kasuri
  kasuri stat -v run.kasuri | less
  kasuri stat --section threads,cpus run.kasuri
  kasuri stat --range 1.5s..2s run.kasuri          half a second of it
  kasuri stat --json run.kasuri | jq '.threads[] | {name, switches}'")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    program: ProgramArgs,
    /// Print every section
    #[arg(short, long, conflicts_with = "section")]
    verbose: bool,
    /// Print these sections only, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = section_names())]
    section: Vec<String>,
    /// Print JSON (schema kasuri.stat/1), with every row of every table
    #[arg(long)]
    json: bool,
    /// Print at most N rows of each table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Analyse only this range, counted from the recording's start: 1.5s..2s, 100ms.., ..20%
    #[arg(long, value_name = "A..B")]
    range: Option<TimeRange>,
    /// Include the threads of all processes, not only the recorded program's
    #[arg(long)]
    all: bool,
}

/// Prints the summary.
///
/// # Errors
/// When the recording cannot be read or stdout not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut trace = args.input.load()?;
    args.program.choose(&mut trace, &args.input.name())?;
    let options = kasuri_analyze::Options {
        omits_moves: !args.json,
        ..range::options(&trace, args.range, args.all)?
    };
    let summary = kasuri_analyze::summary(&trace, &options);
    let mut out = crate::screen::screen();
    if args.json {
        kasuri_text::json::write(&summary, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let layout = Layout {
        width: screen_width(),
        colour: has_colour(),
        top: args.top,
        start_ns: trace.span.start.ns(),
        file: shell_word(args.input.name().to_string()),
        program: program::named(&summary.program, &summary.command),
        sections: sections(&args),
    };
    out.write_all(table::render(&summary, &layout).as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn section_names() -> clap::builder::PossibleValuesParser {
    Section::ALL.map(Section::name).into()
}

fn sections(args: &Args) -> Sections {
    let is_wanted = |section: &Section| args.section.iter().any(|name| name == section.name());
    match args.section.is_empty() {
        _ if args.verbose => Sections::All,
        true => Sections::Overview,
        false => Sections::Only(Section::ALL.into_iter().filter(is_wanted).collect()),
    }
}
