//! `kasuri doctor`: what this machine allows.
use kasuri_record::doctor::{Check, Report, State, examine};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kasuri doctor
  sudo kasuri doctor --json | jq '.checks[] | select(.state != \"ok\")'

Exit status: 0 if a default recording lacks nothing, 1 if it lacks something.";

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
        kasuri_text::json::write(&json(&report), &mut out)?;
    } else {
        writeln!(out, "{}", text(&report).trim_end())?;
    }
    Ok(ExitCode::from(u8::from(report.worst() == State::Degraded)))
}

fn json(report: &Report) -> serde_json::Value {
    serde_json::json!({
        "schema": "kasuri.doctor/1",
        "ok": report.worst() != State::Degraded,
        "checks": report.checks,
    })
}

fn text(report: &Report) -> String {
    let width = report
        .checks
        .iter()
        .map(|c| c.name.len())
        .max()
        .unwrap_or(0);
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
