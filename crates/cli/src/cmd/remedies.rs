//! `kasuri try -- PROGRAM`: records once, tries what the account makes plausible against the unchanged program, says what helps.
use crate::cmd::remedies_text::{self, Arm, Tried};
use crate::cmd::what_if;
use crate::facts;
use crate::scratch::Scratch;
use crate::trial::{How, Runner, recording, shown};
use crate::{exit, message};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use kasuri_analyze::Summary;
use kasuri_trial::line::Line;
use kasuri_trial::race::{self, AGAIN, Outcome, Plan, Ran};
use kasuri_trial::remedy::{self, Facts, Remedy, plausible};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long all of it may take, if nothing else was said.
const TIME: Duration = Duration::from_secs(600);

/// Try remedies on the program, and say which makes it faster
///
/// Records the program once, derives from the account which settings could help, and runs the unchanged program with each of them in
/// random order, in blocks with one run of each. Remedies that do not help are dropped early. Prints those that help with factor,
/// interval (95 %) and p (corrected for the number of remedies), and the line to paste. The program as it is runs as a second
/// arm too: how far that one is from itself is the noise.
///
/// Remedies are environment variables and words in front of the program: threads, placement, how OpenMP's threads and those at a mutex
/// wait, schedules of loops, malloc's settings, allocators of this machine, huge pages, scheduling. Nothing on the machine is changed. A run whose
/// exit status or stdout differs is no valid run.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  kasuri try -- ./program input
  kasuri try --time 2m -- ./program
  kasuri try --threads 8 -- ./program -t {}             the program's own option for its number of threads
  kasuri try --arm 'small=./program --block 64' -- ./program --block 256
  kasuri try --check 'grep -q PASSED' -- ./benchmark    its output varies: what makes it right
  kasuri try --what-if -- ./program                     what a faster slice or lock would gain
  kasuri try --metric 'Gflop/s: ([0-9.]+)' --higher -- ./program

The program runs with your rights and without input, up to 24 times for each remedy; it must be able to.
Exit status: 0, whether something helps or not; 1 if the program fails as it is, or cannot be run.")]
pub struct Args {
    /// Also try the command line CMD, under this name; may be given several times
    #[arg(long = "arm", value_name = "NAME=CMD")]
    arms: Vec<String>,

    /// Try only the commands of --arm
    #[arg(long, requires = "arms")]
    only: bool,

    /// Check what-ifs instead: an annotated slice, or the holders of a lock, take half the time. Replays the recording with this
    /// change, and runs the program with all other threads delayed by as much. Prints how far both agree
    #[arg(long, conflicts_with_all = ["arms", "only", "threads", "cpu", "metric"])]
    what_if: bool,

    /// Words {} among the program's arguments are its number of threads, which is N as it is; other numbers are tried
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,

    /// Number of blocks: runs of each remedy, at most
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(12..=1000))]
    blocks: u32,

    /// The least speed-up that is worth a claim
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = crate::cmd::record::percent)]
    least: f64,

    #[command(flatten)]
    how: How,

    /// Program to try remedies on, with its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Tries, and prints.
///
/// # Errors
/// When the program cannot be run or fails as it is.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut how = args.how;
    how.time.get_or_insert(TIME);
    let threads = args.threads.map(|n| n as usize);
    let baseline = Line::of(&facts::with_threads(&args.program, threads)?);
    let own = own_arms(&args.arms)?;
    let mut runner = Runner::new(&how, 0)?;
    let scratch = Scratch::new("try")?;
    let say = |text: String| {
        if !how.quiet {
            message::note(text);
        }
    };
    let look = runner.try_out(&baseline, true)?;
    let again = runner.try_out(&baseline, false)?;
    // A program that prints its own times never prints the same twice.
    runner.expected = (look.digest == again.digest).then_some(look.digest);
    let checked = runner.expected.is_some() || how.check.is_some();
    if !checked {
        say("its output differs from run to run: results are not compared; --check CMD tells right from wrong".to_owned());
    }
    let slowest = Duration::from_nanos(look.usage.wall_ns.max(again.usage.wall_ns));
    runner.limit = Some(5 * slowest + Duration::from_secs(1));
    if args.what_if {
        let blocks = args.blocks as usize;
        return what_if::run(
            &mut runner,
            &baseline,
            &look,
            scratch.path(),
            &what_if::How::new(&how, blocks, checked),
        );
    }
    let before = match args.only {
        true => None,
        false => recorded(&runner, &baseline, scratch.path(), slowest),
    };
    let mut arms = vec![arm("as it is", "", &baseline), arm("as it is, again", "", &baseline)];
    let mut untried = Vec::new();
    if !args.only {
        let facts = facts::gather(before.as_ref(), &look, &again.usage, threads);
        arms.extend(remedies(&facts, &args.program, threads)?);
        untried = remedy::untried(&facts);
    }
    arms.extend(own);
    let mut tried = Tried {
        outcome: compete(&arms, &mut runner, args.blocks as usize, 1.0 + args.least, &how),
        arms,
        measure: how.measure(),
        checked,
        untried,
        seed: how.seed,
        before,
        after: None,
    };
    if let Some(why) = &tried.outcome.broken {
        bail!("a run of the program as it is {why}{}", hint(why));
    }
    if let Some(best) = tried.outcome.best()
        && tried.before.is_some()
    {
        runner.limit = None;
        tried.after = recorded(&runner, &tried.arms[best].line, scratch.path(), slowest);
    }
    remedies_text::print(&tried, how.json)?;
    Ok(match runner.is_interrupted() && tried.outcome.blocks == 0 {
        true => ExitCode::from(exit::ERROR),
        false => ExitCode::SUCCESS,
    })
}

/// What is plausible, as lines to run.
fn remedies(
    facts: &Facts,
    program: &[OsString],
    threads: Option<usize>,
) -> anyhow::Result<Vec<Arm>> {
    let arm = |remedy: Remedy| {
        let command = facts::with_threads(program, remedy.threads.or(threads))?;
        Ok(Arm { line: line(&remedy, &command), name: remedy.name, why: remedy.why })
    };
    plausible(facts).into_iter().map(arm).collect()
}

fn hint(why: &str) -> &'static str {
    match why.contains("stdout differs") {
        true => "; use --check CMD to tell right from wrong (--check true: all are right)",
        false => "",
    }
}

fn arm(name: &str, why: &str, line: &Line) -> Arm {
    Arm { name: name.to_owned(), why: why.to_owned(), line: line.clone() }
}

fn own_arms(arms: &[String]) -> anyhow::Result<Vec<Arm>> {
    let own = |text: &String| {
        let (name, command) =
            text.split_once('=').with_context(|| format!("--arm {text}: needed NAME=CMD"))?;
        let line = Line::read(command).map_err(|why| anyhow::anyhow!("--arm {text}: {why}"))?;
        Ok(arm(name.trim(), "given", &line))
    };
    arms.iter().map(own).collect()
}

fn line(remedy: &Remedy, command: &[OsString]) -> Line {
    let mut words: Vec<OsString> = remedy.prefix.iter().map(OsString::from).collect();
    words.extend(command.iter().cloned());
    let value = |value: &Option<String>| value.as_ref().map(OsString::from);
    Line {
        env: remedy.env.iter().map(|(name, set)| (name.clone(), value(set))).collect(),
        command: words,
    }
}

fn compete(arms: &[Arm], runner: &mut Runner<'_>, blocks: usize, least: f64, how: &How) -> Outcome {
    runner.taken = vec![Vec::new(); arms.len()];
    let plan = Plan {
        arms: arms.len(),
        // Without a remedy there is nothing to race.
        blocks: if arms.len() > AGAIN + 1 { blocks } else { 0 },
        least,
        seed: how.seed,
    };
    let bar = ProgressBar::new_spinner().with_style(
        ProgressStyle::with_template("{spinner} {pos} runs of {msg}").expect("a fixed template"),
    );
    if how.quiet {
        bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
    }
    bar.set_message(format!("{} remedies, {blocks} blocks at most", arms.len() - 2));
    let outcome = race::race(&plan, |arm| -> Ran {
        bar.inc(1);
        runner.run(arm, &arms[arm].line)
    });
    bar.finish_and_clear();
    outcome
}

/// The account of one run. Without it fewer remedies are plausible; so whatever is wrong is said, and no error.
fn recorded(runner: &Runner<'_>, line: &Line, dir: &Path, usual: Duration) -> Option<Summary> {
    let summary = |trace| kasuri_analyze::summary(&trace, &Default::default());
    match recording(runner, line, dir, usual, &[]) {
        Ok(trace) => trace.map(summary),
        Err(error) => {
            message::warning(format_args!(
                "{} could not be recorded, remedies are chosen without an account: {error:#}",
                shown(line)
            ));
            None
        }
    }
}
