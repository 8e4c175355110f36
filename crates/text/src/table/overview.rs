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
use super::{Page, program};
use kasuri_analyze::Summary;
use kasuri_answers::account::knows_account;
use kasuri_answers::run::{loss_text, quality_text, run_text};
use kasuri_answers::stat::{self, usdt_text};

/// Rows of a table that stands in for the account.
const ROWS: usize = 5;
/// Losses that are described; the others are counted.
const LOSSES: usize = 2;
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
