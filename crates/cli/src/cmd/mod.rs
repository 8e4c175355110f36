//! One file for each subcommand: `Args` says what may be typed, `run` does it.
mod bench;
mod check_overhead;
mod compare;
mod completions;
mod critical;
mod doctor;
mod events;
mod explain;
mod export;
mod flame;
pub mod flight;
mod info;
mod lab_worker;
mod locate;
mod locks;
mod man;
mod mcp;
mod merge;
mod overhead;
mod plan;
mod predict;
mod receive;
pub mod record;
mod recover;
mod remedies;
mod remedies_text;
mod report;
mod run;
#[cfg(test)]
mod schemas;
mod sql;
mod stat;
mod symbolize;
mod top;
mod usdt;
mod view;
mod volume;
mod what_if;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

const EXIT_CODES: &str = "\
Exit status:
  0    done
  1    something failed; the reason is on stderr
  2    wrong usage
  3    bench, compare --fail-if: a gate failed
  125  record: kasuri failed before the program started
  126  record: the program cannot be executed
  127  record: the program was not found
Otherwise record exits with the program's status (128 + N if signal N killed it).

Environment:
  NO_COLOR  if set, no colours
  COLUMNS   width of the output (default: the terminal's, or 80)";

const START: &str = "\
Examples:
  kasuri record -- ./program    record ./program into program.kasuri
  kasuri stat program.kasuri    show where the CPU time went
  kasuri report program.kasuri  write the timeline as one HTML file";

/// Trace a parallel program and the kernel on one timeline, and find out what slows it down.
#[derive(Parser, Debug)]
#[command(name = "kasuri", version, max_term_width = 100, after_help = START, after_long_help = joined(START, EXIT_CODES))]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands, in the order of the help; what the help says about each is the documentation of its `Args`.
#[derive(Subcommand, Debug)]
pub enum Command {
    Record(record::Args),
    Stat(stat::Args),
    Explain(explain::Args),
    Top(top::Args),
    Where(locate::Args),
    Flight(flight::Args),
    Info(info::Args),
    Flame(flame::Args),
    Critical(critical::Args),
    Compare(compare::Args),
    Try(remedies::Args),
    Bench(bench::Args),
    Run(run::Args),
    Report(report::Args),
    View(view::Args),
    Locks(locks::Args),
    Predict(predict::Args),
    Plan(plan::Args),
    Export(export::Args),
    Merge(merge::Args),
    Receive(receive::Args),
    Sql(sql::Args),
    Mcp(mcp::Args),
    Recover(recover::Args),
    Symbolize(symbolize::Args),
    Overhead(overhead::Args),
    Events(events::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Man(man::Args),
    #[command(hide = true)]
    LabWorker(lab_worker::Args),
}

fn joined(a: &str, b: &str) -> String {
    format!("{a}\n\n{b}")
}

/// The number of a process, as `-p` takes it.
pub fn process_number(text: &str) -> Result<i32, String> {
    let number = text.parse().ok().filter(|&pid: &i32| pid > 0);
    number.ok_or_else(|| {
        let is_name = text.starts_with(|c: char| c.is_alphabetic());
        match is_name {
            true => {
                "needed the number of a process; `pgrep NAME` lists those of a program".to_owned()
            }
            false => "needed the number of a process, 1 or more".to_owned(),
        }
    })
}

/// Directory in which sessions are made.
pub fn shm_dir() -> std::path::PathBuf {
    std::env::var_os("KASURI_SHM_DIR").map_or_else(|| "/dev/shm".into(), Into::into)
}

/// A socket that becomes readable when the user wants the command to end; from here on these signals do nothing else.
///
/// # Errors
/// When there are no more descriptors.
pub fn end_signals() -> anyhow::Result<UnixStream> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let (stop, signalled) = UnixStream::pair().context("cannot wait for signals")?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // Under nohup it outlives its terminal.
        if signal != SIGHUP || !kasuri_record::is_ignored(SIGHUP) {
            signal_hook::low_level::pipe::register(signal, signalled.try_clone()?)?;
        }
    }
    Ok(stop)
}

/// The whole command line, for help, completions and manual pages.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Does what the subcommand says.
///
/// # Errors
/// The cause of the failure; `main` prints it and exits with 1.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Record(args) => record::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Top(args) => top::run(args),
        Command::Where(args) => locate::run(args),
        Command::Flight(args) => flight::run(args),
        Command::Info(args) => info::run(args),
        Command::Flame(args) => flame::run(args),
        Command::Critical(args) => critical::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Try(args) => remedies::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Run(args) => run::run(args),
        Command::Report(args) => report::run(args),
        Command::View(args) => view::run(args),
        Command::Locks(args) => locks::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Export(args) => export::run(args),
        Command::Merge(args) => merge::run(args),
        Command::Sql(args) => sql::run(args),
        Command::Mcp(args) => mcp::run(args),
        Command::Overhead(args) => overhead::run(args),
        Command::Events(args) => events::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Receive(args) => receive::run(args),
        Command::Recover(args) => recover::run(args),
        Command::Symbolize(args) => symbolize::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
        Command::LabWorker(args) => lab_worker::run(args),
    }
}
