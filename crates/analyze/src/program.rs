//! Which processes are the program, and whose word that is; where it is nobody's, which might be.
//!
//! The marks themselves are the model's (`kasuri_model::Trace::choose`), so every analysis follows them.
use kasuri_model::{ThreadIx, Trace};
use schemars::JsonSchema;
use serde::Serialize;

/// Processes, or candidates, of which more are not listed.
const MOST: usize = 10;
/// Processes that a title names.
const NAMED: usize = 3;

/// The program that all tables are about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Program {
    /// Whose word it is.
    pub by: ProgramBy,
    /// Its processes: the first ten in the trace's order; with `nobody` none.
    pub processes: Vec<ProgramProcess>,
    /// Number of all its processes; with `nobody` of the trace's.
    pub n_processes: u32,
    /// Number of its threads.
    pub n_threads: u32,
    /// Whether threads of its processes are left out: some were chosen (`--thread`).
    pub is_part: bool,
    /// With `nobody`: the names that may be the program's, the busiest ten.
    pub candidates: Vec<Candidate>,
}

/// Whose word it is which processes are the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramBy {
    /// The recording's.
    #[default]
    Recording,
    /// The user's (`--process`, `--thread`).
    Choice,
    /// Nobody's: all processes count as the program.
    Nobody,
}

/// A process of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProgramProcess {
    /// Process id.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// Processes of one name, which may be the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Candidate {
    /// The name that they share; "" for none.
    pub name: String,
    /// Their ids: the first ten.
    pub pids: Vec<i32>,
    /// Number of these processes.
    pub n_processes: u32,
    /// Number of their threads.
    pub n_threads: u32,
    /// Their CPU time in the whole recording; none: switches were not recorded.
    pub on_cpu_ns: Option<i64>,
    /// Number of their annotated slices.
    pub slices: u64,
}

impl Program {
    /// The program in words, `process app (12)`, where the user chose it or no recorded command names it; else "". Names are as they were
    /// recorded: whoever prints them to a terminal makes them printable.
    pub fn named(&self, command: &[String]) -> String {
        match self.by {
            ProgramBy::Choice => self.in_words(),
            // A process that ran before, or the only one of a trace.
            ProgramBy::Recording if command.is_empty() && !self.processes.is_empty() => {
                self.in_words()
            }
            ProgramBy::Recording | ProgramBy::Nobody => String::new(),
        }
    }

    /// A heading for a file about this program, of a recording of `command`.
    pub fn title(&self, command: &[String]) -> String {
        program_title(&self.named(command), command)
    }

    /// `2 threads of process app (12)`, `processes make (3), cc1 (4), cc1 (5) and 7 more`.
    fn in_words(&self) -> String {
        let name = |p: &ProgramProcess| match p.name.as_str() {
            "" => p.pid.to_string(),
            name => format!("{name} ({})", p.pid),
        };
        let named: Vec<String> = self.processes.iter().take(NAMED).map(name).collect();
        let more = match (self.n_processes as usize).saturating_sub(named.len()) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let threads = match (self.is_part, self.n_threads) {
            (true, 1) => "1 thread of ".to_owned(),
            (true, n) => format!("{n} threads of "),
            (false, _) => String::new(),
        };
        let what = match self.n_processes {
            1 => "process",
            _ => "processes",
        };
        format!("{threads}{what} {}{more}", named.join(", "))
    }
}

/// A heading: the program ([`Program::named`]), and the recorded command.
pub fn program_title(named: &str, command: &[String]) -> String {
    let command = command.join(" ");
    match (named, command.as_str()) {
        ("", "") => "whole system".to_owned(),
        ("", command) => command.to_owned(),
        (named, "") => named.to_owned(),
        (named, command) => format!("{named}, of {command}"),
    }
}

/// The program of this trace.
pub fn program(trace: &Trace) -> Program {
    let by = match trace.program_by {
        kasuri_model::ProgramBy::Recording => ProgramBy::Recording,
        kasuri_model::ProgramBy::Choice => ProgramBy::Choice,
        kasuri_model::ProgramBy::Nobody => ProgramBy::Nobody,
    };
    let own = || trace.processes.iter().filter(|p| p.is_target);
    let threads = (0..trace.threads.len() as u32).map(ThreadIx);
    let (mut n_threads, mut of_own) = (0, 0);
    for thread in threads {
        n_threads += u32::from(trace.is_target(thread));
        of_own += u32::from(trace.process_of(thread).is_target);
    }
    let mut out = Program {
        by,
        n_processes: own().count() as u32,
        n_threads,
        is_part: n_threads < of_own,
        ..Program::default()
    };
    if by == ProgramBy::Nobody {
        out.candidates = candidates(trace, MOST);
    } else {
        let process = |p: &kasuri_model::Process| ProgramProcess {
            pid: p.pid,
            name: trace.strings.get(p.name).into(),
        };
        out.processes = own().take(MOST).map(process).collect();
    }
    out
}

/// The busiest names, at most `most`.
fn candidates(trace: &Trace, most: usize) -> Vec<Candidate> {
    let rows = trace.candidates().into_iter().take(most);
    let row = |row: kasuri_model::Candidate| Candidate {
        name: row.name,
        n_processes: row.pids.len() as u32,
        pids: row.pids.into_iter().take(MOST).collect(),
        n_threads: row.threads,
        on_cpu_ns: row.on_cpu_ns,
        slices: row.slices,
    };
    rows.map(row).collect()
}
