//! Which processes an answer is about, and, where the trace names no program, which it might be about.
//!
//! ```text
//! which program
//!   the trace names none: all 12 processes count as one here
//!   CPU TIME  THREADS  PROCESS
//!     48.2 ms        4  pigz
//!   one alone: kasuri stat --process pigz trace.dat
//! ```
use super::grid::{Grid, number, text};
use super::units::{count, duration, printable};
use super::{Layout, Page};
use kasuri_analyze::{Candidate, Program, Summary};
use kasuri_base::words::{shell_word, steers};

/// Candidates in a message.
const NAMED: usize = 3;
/// Candidates on a page.
const ROWS: usize = 5;

/// The program in words, where no recorded command names it ([`Program::named`]).
pub fn named(program: &Program, command: &[String]) -> String {
    printable(&program.named(command))
}

/// A heading: the program, and the recorded command.
pub fn title(named: &str, command: &[String]) -> String {
    printable(&kasuri_analyze::program_title(named, command))
}

/// The processes that may be the program of a trace that names none, each with the command that chooses it; `command` and `file` as in
/// [`nobody`].
pub fn candidates<'p>(
    program: &'p Program,
    command: &str,
    file: &str,
) -> impl Iterator<Item = (&'p Candidate, String)> {
    let choose = move |of: &Candidate| format!("{command} {} {file}", option(of));
    program.candidates.iter().map(move |of| (of, choose(of)))
}

/// Why a command about one program has no answer of a trace that names none: the busiest that it might be, and how to choose it; "" where there
/// is one. `what`: the answer; `command` and `file` as in [`nobody`].
pub fn refusal(program: &Program, what: &str, command: &str, file: &str) -> String {
    let Some((_, first)) = candidates(program, command, file).next() else {
        return String::new();
    };
    let named = program.candidates.iter().take(NAMED).map(|of| match of.on_cpu_ns {
        Some(ns) => format!("{} ({} of CPU time)", name_of(&of.name), duration(ns as f64)),
        None => name_of(&of.name),
    });
    let named: Vec<String> = named.collect();
    format!(
        "{what} is of one program, and the trace does not say which of its {} processes that is; the busiest are {}: {first}",
        count(program.n_processes.into()),
        named.join(", "),
    )
}

/// That the trace names no program, with the busiest that it might be and the command that chooses it; "" where there is one.
/// `command`: `kasuri critical`; `file`: a word of a shell command.
pub fn nobody(program: &Program, command: &str, file: &str) -> String {
    let Some(first) = program.candidates.first() else {
        return String::new();
    };
    let busy = match first.on_cpu_ns {
        Some(ns) => format!(" ({} of CPU time)", duration(ns as f64)),
        None => String::new(),
    };
    format!(
        "the trace names no program: all {} processes count as one; the busiest is {}{busy}: {command} {} {file}",
        count(program.n_processes.into()),
        name_of(&first.name),
        option(first),
    )
}

fn name_of(name: &str) -> String {
    match name {
        "" => "a process without a name".to_owned(),
        name => printable(name),
    }
}

/// `--process pigz`: by its number where its name would not do as a word, or would choose more than it.
fn option(of: &Candidate) -> String {
    let is_number = of.name.parse::<i64>().is_ok();
    let cannot = |c: char| c == '*' || c == '\'' || steers(c);
    match (of.name.as_str(), of.pids.first()) {
        (name, Some(pid)) if name.is_empty() || is_number || name.contains(cannot) => {
            format!("--process {pid}")
        }
        (name, _) if name.starts_with('-') => format!("--process={}", shell_word(name)),
        (name, _) => format!("--process {}", shell_word(name)),
    }
}

impl Page<'_> {
    /// The candidates, where the trace names no program.
    pub(super) fn which_program(&mut self, s: &Summary) {
        let Some(first) = s.program.candidates.first() else {
            return;
        };
        self.heading("which program", "");
        let n = count(s.program.n_processes.into());
        self.item(&format!(
            "the trace names none: all {n} processes count as one here, each as much as any other"
        ));
        let knows_time = first.on_cpu_ns.is_some();
        let by = if knows_time { "CPU TIME" } else { "SLICES" };
        let mut grid = Grid::new(&[number(by, 0), number("THREADS", 1), text("PROCESS")]);
        let found = s.program.candidates.iter();
        for row in found.filter(|c| c.on_cpu_ns != Some(0)).take(ROWS) {
            let of = match (row.n_processes, row.pids.first()) {
                (1, Some(pid)) => format!("{} ({pid})", name_of(&row.name)),
                (n, _) => format!("{} ({} processes)", name_of(&row.name), count(n.into())),
            };
            grid.row([
                row.on_cpu_ns.map_or(count(row.slices), |ns| duration(ns as f64)),
                count(row.n_threads.into()),
                of,
            ]);
        }
        self.grid(grid, 0, 0);
        let Layout { file, .. } = self.layout;
        self.note(&format!("one alone: kasuri stat {} {file}", option(first)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(name: &str) -> Candidate {
        Candidate { name: name.into(), pids: vec![7], n_processes: 1, ..Candidate::default() }
    }

    #[test]
    fn what_is_proposed_is_one_word_that_chooses_the_process() {
        for (name, expected) in [
            ("pigz", "--process pigz"),
            ("Web Content", "--process 'Web Content'"),
            ("-rf", "--process=-rf"),
            ("; rm -rf ~", "--process '; rm -rf ~'"),
            ("a'b", "--process 7"),
            ("a*", "--process 7"),
            ("12", "--process 7"),
            ("a\u{1b}[2J", "--process 7"),
            ("a\u{202e}b", "--process 7"),
            ("", "--process 7"),
        ] {
            assert_eq!(option(&candidate(name)), expected, "{name:?}");
        }
    }
}
