//! What `kasuri stat` prints without options: the run in two lines, where its time went, what to try. It fits one
//! screen of 80 columns.
//!
//! ```text
//!   2.48 s on 2 CPUs, exited with 0 (AMD EPYC, Linux 6.18.44)
//!   no events lost; tracing cost the program 0.4 % of its CPU time
//!
//! where the time went
//!   you got 1.46 of 2 CPUs: 0.31 lost to lock `queue` (queue.c:71), ...
//! ```
//!
//! A recording without scheduler events has no account; the annotations stand in for it.
use super::account::Detail;
use super::sections::{exit_text, loss_text};
use super::units::{count, duration, percent, plural, printable};
use super::{Page, program};
use kasuri_analyze::{LossSummary, Summary};
use kasuri_answers::account::knows_account;
use kasuri_answers::stat::{self, usdt_text};

/// Rows of a table that stands in for the account.
const ROWS: usize = 5;
/// Losses that are described; the others are counted.
const LOSSES: usize = 2;
/// CPU time that the kernel counted and no event showed is worth a line from this share on.
const WORTH_A_LINE: f64 = 0.01;

impl Page<'_> {
    /// The whole overview.
    pub(super) fn overview(&mut self, s: &Summary) {
        self.item(&run_text(s));
        self.item(&quality_text(s));
        if let Some(text) = usdt_text(s) {
            self.item(&text);
        }
        for loss in s.losses.iter().take(LOSSES) {
            self.item(&format!("  {}", loss_text(loss)));
        }
        self.which_program(s);
        match knows_account(s) {
            true => self.account(s, Detail::OneScreen),
            false => self.without_account(s),
        }
        self.hints(s);
    }

    /// Stands in for the account, which needs scheduler events: the largest annotations and waits.
    fn without_account(&mut self, s: &Summary) {
        self.heading("where the time went", "");
        self.item("not known: the recording has no scheduler events");
        if s.call_paths.is_some() {
            self.item("its samples: kasuri flame");
        }
        self.parts(&stat::annotations(s, ROWS));
        self.parts(&stat::waits(s, ROWS));
    }

    /// The commands for more, at the end of every answer that knows the recording's file.
    pub(super) fn next_commands(&mut self, s: &Summary) {
        let file = &self.layout.file;
        if file.is_empty() {
            return;
        }
        let mut commands = vec![("every section", format!("kasuri stat -v {file}"))];
        if s.known.switches {
            let chosen = program::candidates(&s.program, "kasuri critical", file).next();
            let path = chosen.map(|(_, command)| command);
            let path = path.unwrap_or_else(|| format!("kasuri critical {file}"));
            commands.push(("what to shorten", path));
        }
        commands.push(("a timeline", format!("kasuri report {file}")));
        if s.openmp.is_some() {
            let shown = format!("kasuri stat --section openmp {file}");
            commands.push(("OpenMP's loops", shown));
        } else if ran_openmp(s) {
            let seen = "kasuri record --openmp -- PROGRAM".to_string();
            commands.push(("OpenMP's loops", seen));
        }
        self.line("");
        for (what, command) in commands {
            let line = self.styled("2", &format!("{what:<16} {command}"));
            self.line(&line);
        }
    }
}

/// Whether samples show the program in a runtime of OpenMP.
fn ran_openmp(s: &Summary) -> bool {
    let runtimes = s.call_paths.iter().flat_map(|paths| &paths.runtimes);
    let mut names = runtimes.map(|of| of.runtime);
    names.any(|name| ["libgomp", "libomp"].contains(&name))
}

/// `2.48 s on 2 CPUs, exited with 0 (AMD EPYC, Linux 6.18.44)`.
pub(super) fn run_text(s: &Summary) -> String {
    let kernel = match s.kernel.as_str() {
        "" => String::new(),
        release => format!("Linux {release}"),
    };
    let machine: Vec<String> = [&s.cpu_model, &kernel]
        .into_iter()
        .filter(|part| !part.is_empty())
        .map(|part| printable(part))
        .collect();
    let machine = match machine.is_empty() {
        true => String::new(),
        false => format!(" ({})", machine.join(", ")),
    };
    let (wall, exit) = (duration(s.wall_ns as f64), exit_text(s.exit_status));
    // A trace that says nothing of CPUs.
    let cpus = match s.n_cpus {
        0 => String::new(),
        n => format!(" on {}", plural(n.into(), "CPU")),
    };
    format!("{wall}{cpus}{exit}{machine}")
}

/// How far the recording can be trusted, and what it cost.
pub(super) fn quality_text(s: &Summary) -> String {
    let mut parts = vec![losses_text(&s.losses)];
    if let Some(share) = s.tracing.share {
        parts.push(format!("tracing cost the program {} of its CPU time", percent(share)));
    }
    if let Some(cpu) = &s.cpu_time
        && cpu.unseen_share.abs() >= WORTH_A_LINE
    {
        let (share, than) = (percent(cpu.unseen_share.abs()), "than the kernel counted");
        parts.push(match cpu.unseen_ns > 0 {
            true => format!("the events show {share} less CPU time {than}"),
            false => format!("the events show {share} more CPU time {than}"),
        });
    }
    if let Some([from, to]) = s.without_stray_ns {
        parts.push(format!(
            "all but a few time stamps stand within {}",
            duration((to - from) as f64)
        ));
    }
    if !s.missing.is_empty() {
        let n = s.missing.len() as u64;
        parts.push(format!("{} (--section losses)", plural(n, "limitation")));
    }
    parts.join("; ")
}

/// How many events were lost; a loss of an unknown number makes the sum a lower bound. What a flight recorder overwrote, as it was
/// asked to, is no loss.
fn losses_text(losses: &[LossSummary]) -> String {
    let (overwritten, lost): (Vec<_>, Vec<_>) = losses.iter().partition(|l| l.is_by_design());
    // A program that misbehaved may claim any number.
    let sum = |of: &[&LossSummary]| of.iter().fold(0, |sum: u64, l| sum.saturating_add(l.count));
    let more = lost.iter().any(|l| l.count == 0);
    let text = match (lost.is_empty(), sum(&lost), more) {
        (true, ..) => "no events lost".to_owned(),
        (_, 0, _) => "an unknown number of events lost".to_owned(),
        (_, n, false) => format!("{} lost", plural(n, "event")),
        (_, n, true) => format!("{} or more events lost", count(n)),
    };
    let older = match sum(&overwritten) {
        0 => String::new(),
        n => format!(", {} older ones overwritten", count(n)),
    };
    match losses {
        [] => text,
        _ => format!("{text}{older} (--section losses)"),
    }
}
