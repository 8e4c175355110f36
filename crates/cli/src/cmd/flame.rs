//! `kasuri flame FILE`.
use crate::open::Input;
use crate::output::Output;
use crate::program::ProgramArgs;
use crate::range::{self, TimeRange};
use crate::show::screen_width;
use kasuri_analyze::account::Class;
use kasuri_analyze::call_paths::{self, FlameOptions};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the functions that CPU time went to, as a tree of calls
///
/// Each function stands below its caller, with its share of the time and its own part of it. The shares are exact times divided among
/// samples of call paths; what no sample stands for is a line of its own. --loss shows what explains a class of the account instead: the
/// code that others waited for, or the calls that waited.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri flame run.kasuri
  kasuri flame --invert run.kasuri                         innermost functions first
  kasuri flame --loss lock_wait run.kasuri                 where threads wait for locks
  kasuri flame --blocked --thread 4712 run.kasuri          the calls in which a thread was blocked
  kasuri flame --format svg -o run.svg run.kasuri
  kasuri flame --format folded run.kasuri | flamegraph.pl > run.svg")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    /// Take this process and those that it started for the program; `*` in a name stands for any letters; may be repeated
    #[arg(long, value_name = "NAME|PID")]
    process: Vec<String>,
    /// Show what explains this class of the account
    #[arg(long, value_name = "CLASS", value_parser = class_keys())]
    loss: Option<String>,
    /// Analyse only this range, counted from the recording's start: 1.5s..2s, 100ms.., ..20%
    #[arg(long, value_name = "A..B")]
    range: Option<TimeRange>,
    /// Show the time that threads were blocked, by the calls that they were blocked in
    #[arg(long, conflicts_with = "loss")]
    blocked: bool,
    /// Show this thread only; with --loss what its code explains
    #[arg(long, value_name = "TID")]
    thread: Option<i32>,
    /// Begin with the innermost functions
    #[arg(long)]
    invert: bool,
    /// Print a text tree, folded stacks (one path with its time in ns a line), or an SVG picture
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "folded", "svg"])]
    format: String,
    /// Print JSON (schema kasuri.flame/1)
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write to this file (default: stdout)
    #[arg(short, long, value_name = "OUTPUT")]
    output: Option<PathBuf>,
    /// Include the threads of all processes, not only the recorded program's
    #[arg(long, conflicts_with = "loss")]
    all: bool,
}

fn class_keys() -> clap::builder::PossibleValuesParser {
    Class::ALL.map(Class::key).into()
}

/// Writes the tree.
///
/// # Errors
/// When the recording cannot be read, has no samples, or the result not be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut trace = args.input.load()?;
    let name = args.input.name().to_string();
    ProgramArgs::of_processes(args.process).choose_or_say(&mut trace, "kasuri flame", &name)?;
    anyhow::ensure!(
        !trace.samples.time.is_empty(),
        "{name}: no samples of call paths, needed a recording with them; `kasuri record --help` says how (--stacks)"
    );
    if let Some(tid) = args.thread {
        let is_there = trace.threads.iter().any(|thread| thread.tid == tid);
        anyhow::ensure!(
            is_there,
            "{name}: no thread {tid}; `kasuri stat --section threads {name}` lists them"
        );
    }
    if trace.is_weighed() && !args.blocked {
        let has_waits_only = !(trace.samples.kind).contains(&kasuri_model::SampleKind::OnCpu);
        anyhow::ensure!(
            !has_waits_only,
            "{name}: a profile of waits, without time on a CPU; needed `kasuri flame --blocked {name}`"
        );
    }
    let key = args.loss.as_deref();
    let options = FlameOptions {
        options: range::options(&trace, args.range, args.all)?,
        class: Class::ALL.into_iter().find(|class| Some(class.key()) == key),
        tid: args.thread,
        blocked: args.blocked,
        inverted: args.invert,
    };
    let flame = call_paths::flame(&trace, &options);
    let text = match args.format.as_str() {
        _ if args.json => {
            let mut json = Vec::new();
            kasuri_text::json::write(&flame, &mut json)?;
            json
        }
        "folded" => kasuri_text::flame::folded(&flame).into_bytes(),
        "svg" => kasuri_text::flame::svg(&flame).into_bytes(),
        _ => kasuri_text::flame::text(&flame, screen_width()).into_bytes(),
    };
    let path = args.output.unwrap_or_else(|| "-".into());
    let output = Output::new(path, &[&args.input.file], false)?;
    output.write(|out| out.write_all(&text))?;
    Ok(ExitCode::SUCCESS)
}
