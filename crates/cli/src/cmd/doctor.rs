//! `kasuri doctor`: what this machine allows.
use kasuri_record::doctor::{Check, Report, State, examine};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kasuri doctor
  sudo kasuri doctor --json | jq '.checks[] | select(.state != \"ok\")'

Exit status: 0 if a default recording lacks nothing, 1 if it lacks something.";

/// Its name and version.
const SCHEMA: &str = "kasuri.doctor/1";

/// Check what kasuri can record on this machine, and how to get what is missing.
///
/// Prints for each capability whether it works, what a recording lacks without it, and the command that grants it. Run it as
/// the user who will record.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Examines and prints.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let report = examine(&super::shm_dir(), Path::new("."));
    let mut out = crate::screen::screen();
    if args.json {
        kasuri_text::json::write(&answer(&report), &mut out)?;
    } else {
        writeln!(out, "{}", text(&report).trim_end())?;
    }
    Ok(ExitCode::from(u8::from(report.worst() == State::Degraded)))
}

/// What this machine allows.
#[derive(Serialize, JsonSchema)]
pub struct Answer<'a> {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Whether a default recording lacks nothing.
    ok: bool,
    /// The capabilities, in order of importance.
    checks: Vec<Line<'a>>,
}

/// A capability.
#[derive(Serialize, JsonSchema)]
struct Line<'a> {
    /// Its name.
    name: &'a str,
    /// `info`: good to know, and a default recording lacks nothing; `degraded`: it lacks something.
    #[schemars(extend("enum" = ["ok", "info", "degraded"]))]
    state: &'static str,
    /// The state in words.
    found: &'a str,
    /// The information that a recording lacks because of it; empty: none.
    lost: &'a str,
    /// The command that changes it; empty: none.
    remedy: &'a str,
}

fn answer(report: &Report) -> Answer<'_> {
    Answer {
        schema: SCHEMA,
        ok: report.worst() != State::Degraded,
        checks: report.checks.iter().map(answer_line).collect(),
    }
}

fn answer_line(check: &Check) -> Line<'_> {
    Line {
        name: &check.name,
        state: match check.state {
            State::Ok => "ok",
            State::Info => "info",
            State::Degraded => "degraded",
        },
        found: &check.found,
        lost: &check.lost,
        remedy: &check.remedy,
    }
}

fn text(report: &Report) -> String {
    let width = report.checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in &report.checks {
        text.push_str(&line(check, width));
    }
    text.push_str(match report.worst() {
        State::Degraded => "\nrecordings lack something: see the lines marked !!",
        _ => "\nall is there for a default recording",
    });
    text
}

fn line(check: &Check, width: usize) -> String {
    let mark = match check.state {
        State::Ok => "ok",
        State::Info => "--",
        State::Degraded => "!!",
    };
    let mut line = format!("{mark}  {:width$}  {}\n", check.name, check.found);
    for (word, text) in [("lost", &check.lost), ("remedy", &check.remedy)] {
        if !text.is_empty() {
            line.push_str(&format!("    {:width$}  {word}: {text}\n", ""));
        }
    }
    line
}
