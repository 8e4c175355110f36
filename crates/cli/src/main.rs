//! The `kasuri` command: arguments, progress, messages and exit codes. Everything else is in the crates below.
mod baseline;
mod ci;
mod cmd;
mod duckdb;
mod facts;
mod flight;
mod gate;
mod lab;
mod mcp;
mod memory;
mod merge;
mod message;
mod names;
mod open;
mod output;
mod program;
mod programs;
mod range;
mod scratch;
mod screen;
mod serve;
mod show;
mod source;
mod top;
mod trial;
mod version;

use clap::Parser;
use std::process::ExitCode;

/// Exit statuses of `kasuri`; `record` passes on the exit status of the program instead.
pub mod exit {
    /// Something failed, or what was asked for cannot be done.
    pub const ERROR: u8 = 1;
    /// The command line makes no sense.
    pub const USAGE: u8 = 2;
    /// `bench`, `compare --fail-if`: what was limited rose by more than its limit and more than noise.
    pub const GATE_FAILED: u8 = 3;
    /// `record` itself failed before the program ran, as env(1) says it.
    pub const RECORDER_FAILED: u8 = 125;
    /// The program was found but cannot be run.
    pub const CANNOT_RUN: u8 = 126;
    /// The program was not found.
    pub const NOT_FOUND: u8 = 127;
}

#[global_allocator]
static MEMORY: memory::Memory = memory::Memory;

fn main() -> ExitCode {
    kasuri_record::inherited::wait_for_children();
    kasuri_record::inherited::with_stack(command)
}

fn command() -> ExitCode {
    if std::env::args_os().len() <= 1 {
        eprint!("{}", version::FIRST_MINUTE);
        return ExitCode::from(exit::USAGE);
    }
    let cli = match cmd::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return message::usage(&error),
    };
    match cmd::run(cli.command) {
        Ok(code) => code,
        // `kasuri stat FILE | head` is no mistake of the user's.
        Err(error) if message::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            message::error(&error);
            ExitCode::from(exit::ERROR)
        }
    }
}
