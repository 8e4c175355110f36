//! What `kasuri bench` and `kasuri try` share: lines that are run in turns, what counts as their cost, whether their result is right.
use crate::lab::Stop;
use crate::open::Input;
use anyhow::{Context, bail};
use kasuri_trial::line::Line;
use kasuri_trial::process::{self, End, Run, Usage, Watch};
use kasuri_trial::race::Ran;
use regex::bytes::Regex;
use std::ffi::{OsStr, OsString};
use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A recorder that is asked to end takes its probes and its tracing instance out of the kernel first.
const RECORDER_GRACE: Duration = Duration::from_secs(30);

/// Options of both commands.
#[derive(clap::Args, Debug)]
pub struct How {
    /// Compare CPU time instead of wall time: steadier on a busy machine, blind to waiting
    #[arg(long, conflicts_with = "metric")]
    pub cpu: bool,

    /// Compare a number that the program prints to stdout: what the first group of REGEX (or all of it) matches last
    #[arg(long, value_name = "REGEX")]
    pub metric: Option<String>,

    /// More of --metric is better
    #[arg(long, requires = "metric")]
    pub higher: bool,

    /// After each run, run CMD in a shell with the run's stdout as its input: unless it exits with 0, the result is wrong
    #[arg(long, value_name = "CMD")]
    pub check: Option<String>,

    /// Stop after TIME (10m, 90s) and answer from what was measured
    #[arg(long, value_name = "TIME", value_parser = crate::cmd::record::duration)]
    pub time: Option<Duration>,

    /// Seed of the random order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Print results only
    #[arg(short, long)]
    pub quiet: bool,
}

impl How {
    /// The name of what is compared.
    pub fn measure(&self) -> &'static str {
        match (&self.metric, self.cpu) {
            (Some(_), _) => "metric",
            (None, true) => "cpu",
            (None, false) => "wall",
        }
    }
}

/// Runs lines, and keeps what valid runs took.
pub struct Runner<'a> {
    how: &'a How,
    stop: Stop,
    metric: Option<Regex>,
    deadline: Option<Instant>,
    /// When a run has taken too long.
    pub limit: Option<Duration>,
    /// The digest that stdout must have.
    pub expected: Option<u64>,
    /// By arm: what its valid runs took.
    pub taken: Vec<Vec<Taken>>,
}

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// By the kernel's counts.
    pub usage: Usage,
    /// The number that it printed.
    pub metric: Option<f64>,
}

impl<'a> Runner<'a> {
    /// For `arms` arms; the time begins.
    ///
    /// # Errors
    /// When the regular expression is none, or signals cannot be taken.
    pub fn new(how: &'a How, arms: usize) -> anyhow::Result<Runner<'a>> {
        let metric = how.metric.as_ref().map(|text| Regex::new(text)).transpose();
        Ok(Runner {
            how,
            stop: Stop::new()?,
            metric: metric.context("--metric")?,
            deadline: how.time.and_then(|time| Instant::now().checked_add(time)),
            limit: None,
            expected: None,
            taken: vec![Vec::new(); arms],
        })
    }

    /// Whether the user or the clock wants no more.
    pub fn is_over(&self) -> bool {
        self.stop.asked() || self.deadline.is_some_and(|end| Instant::now() >= end)
    }

    /// Whether the user wants no more.
    pub fn is_interrupted(&self) -> bool {
        self.stop.asked()
    }

    /// A run that is not timed, of the program as it is: it must succeed.
    ///
    /// # Errors
    /// When it cannot be run or fails.
    pub fn try_out(&self, line: &Line, mapped: bool) -> anyhow::Result<Run> {
        let run = self.once(line, mapped)?;
        if run.end == End::Stopped {
            bail!("ended before anything was measured");
        }
        match self.judge(&run) {
            Ok(_) => Ok(run),
            Err(why) => bail!("{}: {why}", shown(line)),
        }
    }

    /// A run of an arm.
    pub fn run(&mut self, arm: usize, line: &Line) -> Ran {
        self.run_less(arm, line, || Ok(0))
    }

    /// A run of an arm, of whose time what `less` says afterwards is taken away: ns, or why the run is not valid.
    pub fn run_less(
        &mut self,
        arm: usize,
        line: &Line,
        less: impl FnOnce() -> Result<i64, String>,
    ) -> Ran {
        let run = match self.once(line, false) {
            Ok(run) => run,
            Err(error) => return Ran::Invalid(format!("{error:#}")),
        };
        if run.end == End::Stopped {
            return Ran::Stopped;
        }
        match self.judge(&run).and_then(|metric| Ok((metric, less()?))) {
            Err(why) => Ran::Invalid(why),
            Ok((metric, less_ns)) => {
                let usage = run.usage;
                self.taken[arm].push(Taken { usage, metric });
                Ran::Cost(match metric {
                    Some(metric) if self.how.higher => 1.0 / metric,
                    Some(metric) => metric,
                    None if self.how.cpu => run.usage.cpu_ns as f64,
                    None => run.usage.wall_ns as f64 - less_ns as f64,
                })
            }
        }
    }

    fn once(&self, line: &Line, mapped: bool) -> anyhow::Result<Run> {
        let watch =
            Watch { limit: self.limit, stop: &|| self.is_over(), grace: process::GRACE, mapped };
        process::run(line, &watch)
            .with_context(|| format!("cannot run {}", line.command[0].display()))
    }

    /// Why a run is not valid; else its metric.
    fn judge(&self, run: &Run) -> Result<Option<f64>, String> {
        match run.end {
            End::Status(0) => {}
            End::Status(status) => return Err(failure(status, &run.complaint)),
            End::TooLong | End::Stopped => {
                let limit = self.limit.unwrap_or_default().as_secs_f64();
                return Err(format!("took longer than {limit:.1} s, was ended"));
            }
        }
        if let Some(check) = &self.how.check {
            self.check(check, run)?;
        } else if self.expected.is_some_and(|expected| expected != run.digest) {
            return Err("another result: its stdout differs".to_owned());
        }
        self.metric.as_ref().map(|metric| read_metric(metric, run)).transpose()
    }

    fn check(&self, check: &str, run: &Run) -> Result<(), String> {
        if !run.whole {
            return Err("it printed more than 16 MiB, too much for --check".to_owned());
        }
        let ran = || -> std::io::Result<std::process::ExitStatus> {
            let mut file = tempfile::tempfile()?;
            file.write_all(&run.output)?;
            file.rewind()?;
            Command::new("/bin/sh")
                .arg("-c")
                .arg(check)
                .stdin(Stdio::from(file))
                .stdout(Stdio::null())
                .status()
        };
        match ran() {
            Ok(status) if status.success() => Ok(()),
            Ok(_) => Err("another result: --check says so".to_owned()),
            Err(error) => Err(format!("--check cannot be run: {error}")),
        }
    }
}

fn failure(status: i32, complaint: &str) -> String {
    let last = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    // The beginning says the most.
    let last: String = last.trim().chars().take(120).collect();
    match last.is_empty() {
        true => format!("failed with status {status}"),
        false => format!("failed with status {status}: {last}"),
    }
}

fn read_metric(metric: &Regex, run: &Run) -> Result<f64, String> {
    let last = metric
        .captures_iter(&run.output)
        .last()
        .ok_or("its stdout has nothing that --metric matches")?;
    let found = last.get(1).or(last.get(0)).map_or(&b""[..], |found| found.as_bytes());
    let text = String::from_utf8_lossy(found).replace(',', "");
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("--metric matched '{text}', needed a number above 0")),
    }
}

/// One run as a recording, by this command with more `options`; none where the user wants no more.
///
/// # Errors
/// When it cannot be recorded or read.
pub fn recording(
    runner: &Runner<'_>,
    line: &Line,
    dir: &Path,
    usual: Duration,
    options: &[&str],
) -> anyhow::Result<Option<kasuri_model::Trace>> {
    let file = dir.join("run.kasuri");
    let mut command: Vec<OsString> = vec![std::env::current_exe()?.into()];
    command.extend(["record", "-q"].iter().chain(options).map(OsString::from));
    // Should we be killed, it takes its tracing out of the kernel before it ends.
    command.extend(["--end-with".into(), std::process::id().to_string().into()]);
    command.extend(["-o".into(), file.clone().into(), "--".into()]);
    command.extend(line.command.iter().cloned());
    let recorded = Line { env: line.env.clone(), command };
    let watch = Watch {
        // Learning what events cost takes seconds, once.
        limit: Some(20 * usual + Duration::from_secs(120)),
        stop: &|| runner.is_over(),
        grace: RECORDER_GRACE,
        mapped: false,
    };
    let run = process::run(&recorded, &watch)?;
    match run.end {
        End::Status(0) => {}
        End::Stopped => return Ok(None),
        End::Status(_) | End::TooLong => {
            bail!("{}", run.complaint.lines().next_back().unwrap_or("it took too long"))
        }
    }
    let trace = Input::new(file.clone(), false).load()?;
    std::fs::remove_file(file)?;
    Ok(Some(trace))
}

/// A line as it can be pasted.
pub fn shown(line: &Line) -> String {
    line.show(|word: &OsStr| kasuri_base::words::shell_word(word))
}

/// How one side compares with the other.
pub struct Told {
    /// Above 1: faster, or better.
    pub speed_up: f64,
    /// The interval that covers it.
    pub interval: Option<(f64, f64)>,
    /// Whether it is more than noise.
    pub sure: bool,
}

impl Told {
    /// `1.31x faster`; `measure`: what is compared.
    pub fn words(&self, measure: &str) -> String {
        let (better, worse) = match measure {
            "wall" => ("faster", "slower"),
            "cpu" => ("less CPU time", "more CPU time"),
            _ => ("better", "worse"),
        };
        let speed_up = self.speed_up;
        match (self.sure, speed_up >= 1.0) {
            (false, _) => format!("no difference shown: {speed_up:.2}x"),
            (true, true) => format!("{speed_up:.2}x {better}"),
            (true, false) => format!("{:.2}x {worse}", 1.0 / speed_up),
        }
    }

    /// `1.24..1.38, `, of the factor that [`Told::words`] gives; empty without an interval.
    pub fn range(&self) -> String {
        let turn = self.sure && self.speed_up < 1.0;
        match self.interval {
            None => String::new(),
            Some((low, high)) if turn => format!("{:.2}..{:.2}, ", 1.0 / high, 1.0 / low),
            Some((low, high)) => format!("{low:.2}..{high:.2}, "),
        }
    }
}
