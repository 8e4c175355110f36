//! `kasuri report FILE`.
use crate::message;
use crate::open::Input;
use crate::output::Output;
use crate::program::{ProgramArgs, named};
use anyhow::{Context, bail};
use kasuri_analyze::Session;
use kasuri_answers::document::Document;
use kasuri_answers::locks::LocksAnswer;
use kasuri_answers::{Answer, openmp, predict, stat};
use kasuri_base::words::shell_word;
use kasuri_report as html;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// Write the timeline as one HTML file
///
/// The file contains the recording, its summary and the viewer. It opens in any browser without a network connection.
/// Recordings of more than 20 million slices make files that browsers open slowly: `kasuri view` shows these at once.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri report run.kasuri                      writes run.html
  kasuri report --open run.kasuri               and opens it
  kasuri report -o slow.html --title 'before the fix' run.kasuri
  kasuri report before.kasuri after.kasuri      writes before-after.html with both
  kasuri report --plan cp -P 8 run.kasuri       with rows of kasuri plan under the recorded ones")]
pub struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    program: ProgramArgs,
    /// Second recording, shown below the first on an aligned time axis
    #[arg(value_name = "FILE2")]
    second: Option<PathBuf>,
    /// Write the report to OUT; - for stdout [default: FILE.html, or FILE-FILE2.html for two]
    #[arg(long, short, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Open the report in the browser
    #[arg(long)]
    open: bool,
    /// Heading of the page [default: the recorded command]
    #[arg(long, default_value = "", hide_default_value = true)]
    title: String,
    /// Rows under the others: the recorded tasks as this scheduler plans them, in colours that say how late they started
    #[arg(long, value_name = "SCHEDULER")]
    plan: Option<super::plan::Scheduler>,
    /// Workers of the plan [default: as many as ran tasks]
    #[arg(short = 'P', long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Compression level, from 1 (fast) to 9 (small)
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=9))]
    level: u32,
}

/// Writes the report.
///
/// # Errors
/// When the recording cannot be read, the report not be written or the browser not be started.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let second = args.second.map(|file| args.input.another(file));
    let path = args.output.unwrap_or_else(|| match &second {
        None => args.input.beside("html"),
        Some(second) => {
            let name = format!("{}-{}.html", args.input.label(), second.label());
            args.input.file.with_file_name(name)
        }
    });
    let output = Output::new(path, &[&args.input.file], false)?;
    if args.open && output.path().is_none() {
        bail!("--open needs a file, found -o -");
    }
    let plan = args.plan.map(|by| (by, args.workers));
    let program = (&args.program, "kasuri report");
    let first = Side::load(&args.input, program, &args.title, args.level, plan)?;
    let stats = match &second {
        None => output.write(|mut out| html::write(&first.trace, &first.options(), &mut out))?,
        Some(second) => {
            let second = Side::load(second, program, &args.title, args.level, plan)?;
            let (a, b) = (first.options(), second.options());
            output.write(|mut out| {
                html::write_pair((&first.trace, &a), (&second.trace, &b), &mut out)
            })?
        }
    };
    if let Some(path) = output.path() {
        message::note(format!("wrote {} ({:.1} MB)", path.display(), stats.bytes as f64 * 1e-6));
        if stats.slices > MOST_SLICES {
            let file = args.input.name();
            message::note(format!(
                "{} million slices are much for a browser to open; `kasuri view {file}` shows them without reading all",
                stats.slices / 1_000_000
            ));
        }
        if args.open {
            open_in_browser(path)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Slices up to which a report opens in about a second.
const MOST_SLICES: u64 = 20_000_000;

/// Columns of the lines about waits: what a panel of the page has room for.
const WAITS_WIDTH: usize = 110;

/// Fewer slices are analysed before one has read that they are.
pub(super) const MANY: usize = 2_000_000;

/// A recording and its analyses.
pub(super) struct Side {
    pub(super) trace: kasuri_model::Trace,
    answers: kasuri_analyze::Answers,
    panels: Vec<Document>,
    lateness: Vec<(kasuri_model::StrIx, html::planned::Lateness)>,
    headline: String,
    summary: serde_json::Value,
    title: String,
    label: String,
    candidates: Vec<html::Candidate>,
    level: u32,
}

impl Side {
    pub(super) fn load(
        input: &Input,
        (program, command): (&ProgramArgs, &str),
        title: &str,
        level: u32,
        plan: Option<(super::plan::Scheduler, Option<u16>)>,
    ) -> anyhow::Result<Side> {
        let mut trace = input.load()?;
        program.choose_or_say(&mut trace, command, &input.name())?;
        let progress = crate::open::progress(trace.slices.start.len() >= MANY, "analysing");
        let (answers, panels) = analyse(&trace);
        // Last: what is planned is no part of what was recorded.
        let lateness = match plan {
            None => Vec::new(),
            Some((by, workers)) => super::plan::add_rows(&mut trace, by, workers)
                .with_context(|| super::plan::nothing(&input.name()))?,
        };
        progress.finish_and_clear();
        let summary = &answers.summary;
        let candidates = candidates(&summary.program, command, &input.name());
        Ok(Side {
            panels,
            lateness,
            headline: kasuri_answers::account::headline(summary),
            summary: serde_json::to_value(summary).context("cannot encode the summary")?,
            answers,
            title: match (title, named(&trace)) {
                ("", program) if !program.is_empty() => {
                    kasuri_text::table::program::title(&program, &trace.info.command)
                }
                (title, _) => title.to_owned(),
            },
            label: input.label(),
            candidates,
            level,
            trace,
        })
    }

    pub(super) fn options(&self) -> html::Options<'_> {
        html::Options {
            title: self.title.clone(),
            label: self.label.clone(),
            headline: self.headline.clone(),
            summary: Some(self.summary.clone()),
            places: Some(&self.trace.places),
            level: self.level,
            account: Some(&self.answers.account),
            causes: &self.answers.summary.account.causes,
            waits: kasuri_answers::class_paths::waits(&self.answers.summary, WAITS_WIDTH),
            pieces: &self.answers.pieces,
            cover: Some(&self.answers.cover),
            locks: Some(&self.answers.locks),
            panels: self.panels.clone(),
            lateness: self.lateness.clone(),
            candidates: self.candidates.clone(),
            ..html::Options::default()
        }
    }
}

/// All that the page says of a recording.
fn analyse(trace: &kasuri_model::Trace) -> (kasuri_analyze::Answers, Vec<Document>) {
    let options = kasuri_analyze::Options {
        omits_moves: true,
        pieces: true,
        ..kasuri_analyze::Options::default()
    };
    let session = Session::new(trace, &options);
    let panels = panels(&session);
    (session.into_answers(), panels)
}

/// Which processes may be the program, where the trace names none, with the commands that make a page of each.
fn candidates(
    program: &kasuri_analyze::Program,
    command: &str,
    file: &dyn std::fmt::Display,
) -> Vec<html::Candidate> {
    let file = shell_word(file.to_string());
    let all = kasuri_text::table::program::candidates(program, command, &file);
    let row = |(of, command): (&kasuri_analyze::Candidate, String)| html::Candidate {
        name: of.name.clone(),
        pids: of.pids.clone(),
        n_processes: of.n_processes,
        on_cpu_ns: of.on_cpu_ns,
        command,
    };
    all.map(row).collect()
}

/// Tabs for what was found: a recording without loops of OpenMP or locks has none for these.
fn panels(session: &Session<'_>) -> Vec<Document> {
    let (summary, rows) = (session.summary(), html::MOST_ROWS);
    let mut scheduling = stat::interference(summary, rows);
    scheduling.parts.extend(stat::migrations(summary, rows).parts);
    let mut out = vec![openmp::openmp(summary, rows), scheduling];
    out.retain(|document| !document.parts.is_empty());
    if session.locks().locks.is_empty() {
        return out;
    }
    let wanted = kasuri_predict::Options {
        machine: super::predict::machine(session.trace()),
        ..kasuri_predict::Options::default()
    };
    let prediction = predict::of_locks(session, &wanted);
    let locks = LocksAnswer::new(session.locks(), prediction.as_ref().ok());
    let prediction = match &prediction {
        Ok(prediction) => prediction.document(rows),
        Err(why) => predict::refused(session, why),
    };
    out.extend([locks.document(rows), prediction]);
    out
}

pub(super) fn open_in_browser(path: &Path) -> anyhow::Result<()> {
    let opener = crate::programs::find("xdg-open").unwrap_or_else(|| "/usr/bin/xdg-open".into());
    let mut opener = Command::new(opener);
    let opener = opener.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = opener.status().with_context(|| {
        format!(
            "cannot run xdg-open; open {} in a browser yourself, or install xdg-utils",
            path.display()
        )
    })?;
    if !status.success() {
        bail!("xdg-open found no browser ({status}); open {} in one yourself", path.display());
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../../export/tests/common/mod.rs"]
mod common;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_samples_and_locks_reads_neither_twice() {
        let before = kasuri_analyze::built();
        let (answers, panels) = analyse(&common::sampled());
        assert!(answers.summary.call_paths.is_some() && !answers.locks.locks.is_empty());
        let names: Vec<&str> = panels.iter().map(|panel| panel.name).collect();
        assert_eq!(names, ["Scheduling", "Locks", "Prediction"]);
        let built = std::array::from_fn(|i| kasuri_analyze::built()[i] - before[i]);
        assert_eq!(built, [1; 4]);
    }
}
