//! `kasuri compare BEFORE AFTER`.
use crate::gate::{Answer, Gate, key};
use crate::open::Input;
use crate::output::Output;
use crate::program::{ProgramArgs, say_nobody};
use crate::screen::has_colour;
use crate::show::{screen_width, show};
use crate::{ci, exit, message};
use anyhow::{Context, bail};
use kasuri_analyze::Summary;
use kasuri_analyze::account::Class;
use kasuri_analyze::compare::{Change, Comparison};
use kasuri_base::words::shell_word;
use kasuri_text::table::Layout;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare recordings made before and after a change
///
/// Prints whole runs, the account, annotations and load imbalance of both sides. With four or more runs of each side, marks what
/// changed by more than noise: an exact permutation test over the runs, corrected for the number of rows.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri compare before.kasuri after.kasuri
  kasuri compare --before old-*.kasuri --after new-*.kasuri

  for i in 1 2 3 4; do                             compare one CPU with all, four runs each
    taskset -c 0 kasuri record -q -o one-$i.kasuri -- ./program
    kasuri record -q -o all-$i.kasuri -- ./program
  done
  kasuri compare --before one-?.kasuri --after all-?.kasuri
  kasuri compare --fail-if 'wall > 5%' --fail-if 'lock_wait > 10%' --before old-*.kasuri --after new-*.kasuri
  kasuri compare --json before.kasuri after.kasuri | jq '.regions[] | select(.changed)'")]
pub struct Args {
    /// One recording made before the change and one made after
    #[arg(value_name = "BEFORE AFTER", num_args = 0..=2)]
    files: Vec<PathBuf>,
    /// Recordings before the change
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "files", requires = "after")]
    before: Vec<PathBuf>,
    /// Recordings after the change
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "files", requires = "before")]
    after: Vec<PathBuf>,
    /// Exit with 3 if a measure rose by more than this and by more than noise: wall, switches, lock_wait and other rows of the
    /// tables; may be given several times. Needs four or more runs of each side
    #[arg(long, value_name = "MEASURE > PERCENT%")]
    fail_if: Vec<Gate>,
    /// Write the gates as a JUnit report, for CI
    #[arg(long, value_name = "FILE", requires = "fail_if")]
    junit: Option<PathBuf>,
    /// Print the gates as GitHub Actions' annotations, too
    #[arg(long, requires = "fail_if", conflicts_with = "json")]
    github: bool,
    /// Print JSON (schema kasuri.compare/1), with every row of every table
    #[arg(long)]
    json: bool,
    /// Print at most N rows of each table; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Read the undamaged part of damaged recordings
    #[arg(long)]
    salvage: bool,
    #[command(flatten)]
    program: ProgramArgs,
}

/// Prints the comparison.
///
/// # Errors
/// When a recording cannot be read, or there are not two sides.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (before, after) = match &args.files[..] {
        [before, after] => (vec![before.clone()], vec![after.clone()]),
        [] if !args.before.is_empty() => (args.before.clone(), args.after.clone()),
        files => bail!(
            "{} recording(s) given, needed two (or --before FILE... --after FILE...)",
            files.len()
        ),
    };
    let words = words(&args);
    let junit = match &args.junit {
        Some(path) if path.as_os_str() == "-" => Some(Output::Stdout),
        Some(path) => Some(Output::to(path.clone())?),
        None => None,
    };
    // Once is enough: the command that chooses is about all of them.
    let mut is_said = false;
    let mut load = |files: Vec<PathBuf>| -> anyhow::Result<Vec<Summary>> {
        let all = files.into_iter();
        all.map(|file| {
            let input = Input::new(file, args.salvage);
            let mut trace = input.load()?;
            args.program.choose(&mut trace, &input.name())?;
            is_said = is_said || say_nobody(&trace, "kasuri compare", &words);
            let options = kasuri_analyze::Options { omits_moves: true, ..Default::default() };
            Ok(kasuri_analyze::summary(&trace, &options))
        })
        .collect()
    };
    let (before, after) = (load(before)?, load(after)?);
    let comparison = kasuri_analyze::compare::compare(&before, &after);
    let answers = judge(&args.fail_if, &comparison)?;
    let code = match answers.iter().any(|answer| answer.failed) {
        true => ExitCode::from(exit::GATE_FAILED),
        false => ExitCode::SUCCESS,
    };
    if let Some(junit) = junit {
        let text = ci::junit("kasuri compare", &words, &answers);
        (junit.write(|out| out.write_all(text.as_bytes()))).context("--junit")?;
    }
    let layout =
        Layout { width: screen_width(), colour: has_colour(), top: args.top, ..Layout::default() };
    show(&comparison, args.json, &layout)?;
    if args.github {
        let mut out = crate::screen::screen();
        out.write_all(ci::github("kasuri compare", &words, &answers).as_bytes())?;
        out.flush()?;
    }
    say(&answers);
    Ok(code)
}

/// Says on stderr which gates failed: stdout is the comparison.
fn say(answers: &[Answer]) {
    for answer in answers.iter().filter(|answer| answer.failed) {
        message::error(&anyhow::anyhow!("gate failed: {answer}"));
    }
}

/// What the gates say. Each row's p is corrected for all rows of the comparison already.
fn judge(gates: &[Gate], comparison: &Comparison) -> anyhow::Result<Vec<Answer>> {
    if !gates.is_empty() && !comparison.can_tell {
        // A gate that cannot fail would look like one that passed.
        bail!(
            "{} and {} runs are too few to tell a change from noise, needed 4 or more of each side for --fail-if",
            comparison.before.runs,
            comparison.after.runs
        );
    }
    let answer = |gate: &Gate| {
        let rows = changes(comparison).filter(|row| key(&row.name) == gate.measure);
        // Two rows may bear one name: a region and its imbalance. The worst of them counts.
        let worst = rows
            .map(|row| gate.judge(risen(row), row.p_value.unwrap_or(1.0)))
            .max_by(|a, b| (a.failed.cmp(&b.failed)).then(b.p_value.total_cmp(&a.p_value)));
        match worst {
            Some(answer) => Ok(answer),
            // A class without any time on either side has no row.
            None if Class::ALL.iter().any(|class| class.key() == gate.measure) => {
                Ok(gate.judge(Some(1.0), 1.0))
            }
            None => bail!(
                "--fail-if {gate}: neither side has such a measure, needed one of {}",
                names(comparison)
            ),
        }
    };
    gates.iter().map(answer).collect()
}

/// After over before; none where there was nothing before and is something after.
fn risen(row: &Change) -> Option<f64> {
    match row.after.mean == 0.0 {
        true => Some(0.0),
        false => row.ratio,
    }
}

fn changes(comparison: &Comparison) -> impl Iterator<Item = &Change> {
    [&comparison.totals, &comparison.account, &comparison.regions, &comparison.imbalance]
        .into_iter()
        .flatten()
}

/// The names that gates may have, but for those of annotations.
fn names(comparison: &Comparison) -> String {
    let rows = comparison.totals.iter().chain(&comparison.account);
    let names: Vec<String> = rows.map(|row| format!("'{}'", key(&row.name))).collect();
    format!("{}, or an annotation's name", names.join(", "))
}

/// The recordings as words of a shell command.
fn words(args: &Args) -> String {
    let words = |files: &[PathBuf]| {
        let words = files.iter().map(shell_word);
        words.collect::<Vec<String>>().join(" ")
    };
    match args.files.is_empty() {
        false => words(&args.files),
        true => format!("--before {} --after {}", words(&args.before), words(&args.after)),
    }
}
