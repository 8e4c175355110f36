//! Which threads are "the program": all that analyses ask is [`Trace::is_target`].
//!
//! A recording of a program names it: its process and the processes that it started. A trace of a whole system names none, and
//! all of its processes count. [`Trace::choose`] makes others the program after the fact. It changes marks, never
//! events: states, occupancy and slices are those of the whole trace. What the recorder knew of the program that it
//! started (its exit status, the kernel's own count of its CPU time, its limits) is forgotten where it is not of all that was
//! chosen.
use crate::{ProcessIx, ThreadIx, ThreadState, Trace};
use std::collections::HashMap;

/// Whose word it is that a process is the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProgramBy {
    /// The trace's own.
    #[default]
    Recording,
    /// The user's: [`Trace::choose`].
    Choice,
    /// Nobody's: every process counts as the program.
    Nobody,
}

/// Processes and threads that a user chose. A word is a number, or a name in which `*` stands for any letters.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Processes, each with those that it started; none: the program's as the trace has it.
    pub processes: Vec<String>,
    /// Of their threads those with one of these names or numbers; none: all.
    pub threads: Vec<String>,
}

/// A word that nothing in the trace is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuch {
    /// No process of that name or id.
    Process(String),
    /// No thread of that name or id in the processes that were chosen.
    Thread(String),
}

impl std::fmt::Display for NoSuch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoSuch::Process(word) => write!(f, "no process is called `{word}`"),
            NoSuch::Thread(word) => write!(f, "no thread of the program is called `{word}`"),
        }
    }
}

/// Processes of one name, which may be the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// The name that they share; "" for none.
    pub name: String,
    /// Their ids, in the trace's order.
    pub pids: Vec<i32>,
    /// Number of threads.
    pub threads: u32,
    /// CPU time of these, ns; none: the trace has no switches.
    pub on_cpu_ns: Option<i64>,
    /// Slices of these.
    pub slices: u64,
}

impl Choice {
    /// Whether nothing was chosen.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.threads.is_empty()
    }
}

impl Trace {
    /// Whether the thread belongs to the program. No thread does not.
    #[inline]
    pub fn is_target(&self, thread: ThreadIx) -> bool {
        let is_aside = self.set_aside.get(thread.ix()).copied().unwrap_or(false);
        let row = self.threads.get(thread.ix()).filter(|_| !is_aside);
        row.and_then(|row| self.processes.get(row.process.ix()))
            .is_some_and(|process| process.is_target)
    }

    /// Whether the process is the recorder of this recording, or the one by which that reads other processes.
    pub fn is_recorder(&self, process: ProcessIx) -> bool {
        let Some((recorder, row)) = self.info.recorder_pid.zip(self.processes.get(process.ix()))
        else {
            return false;
        };
        let parent = self.processes.get(row.parent.ix()).map(|parent| parent.pid);
        let is_reader =
            || parent == Some(recorder) && self.strings.get(row.name) == "kasuri-reader";
        row.pid == recorder || is_reader()
    }

    /// Makes the chosen processes and threads the program. Nothing chosen changes nothing.
    ///
    /// # Errors
    /// A word that nothing is called; the trace is as it was.
    pub fn choose(&mut self, choice: &Choice) -> Result<(), NoSuch> {
        if choice.is_empty() {
            return Ok(());
        }
        let before: Vec<bool> = self.targets();
        let processes = match choice.processes.is_empty() {
            true => self.processes.iter().map(|p| p.is_target).collect(),
            false => self.with_children(self.named_processes(&choice.processes)?),
        };
        let is_chosen = |thread: usize| processes[self.threads[thread].process.ix()];
        let threads = match choice.threads.is_empty() {
            true => (0..self.threads.len()).map(is_chosen).collect(),
            false => self.named_threads(&choice.threads, is_chosen)?,
        };
        for row in &mut self.processes {
            row.is_target = false;
        }
        for (row, is_chosen) in self.threads.iter().zip(&threads) {
            self.processes[row.process.ix()].is_target |= is_chosen;
        }
        self.set_aside = threads.iter().map(|is_chosen| !is_chosen).collect();
        self.forget_the_recorded_program(&before, &threads);
        self.program_by = ProgramBy::Choice;
        Ok(())
    }

    fn targets(&self) -> Vec<bool> {
        let threads = (0..self.threads.len() as u32).map(ThreadIx);
        threads.map(|thread| self.is_target(thread)).collect()
    }

    /// Drops what the recorder knew of another set of threads.
    fn forget_the_recorded_program(&mut self, before: &[bool], now: &[bool]) {
        if before == now {
            return;
        }
        self.info.exit_status = None;
        self.info.program_cpu = None;
        // They say what was written in the time of the recorded program.
        self.info.event_costs.clear();
        // What bounds the whole bounds its parts; of others nothing is known.
        if before.iter().zip(now).any(|(before, now)| *now && !before) {
            self.limits = crate::Limits::default();
        }
    }

    fn named_processes(&self, words: &[String]) -> Result<Vec<bool>, NoSuch> {
        let mut chosen = vec![false; self.processes.len()];
        for word in words {
            let (number, mut found) = (word.parse().ok(), false);
            for (row, chosen) in self.processes.iter().zip(&mut chosen) {
                let is_it = Some(row.pid) == number || matches(word, self.strings.get(row.name));
                *chosen |= is_it;
                found |= is_it;
            }
            if !found {
                return Err(NoSuch::Process(word.clone()));
            }
        }
        Ok(chosen)
    }

    fn named_threads(
        &self,
        words: &[String],
        is_meant: impl Fn(usize) -> bool,
    ) -> Result<Vec<bool>, NoSuch> {
        let mut chosen = vec![false; self.threads.len()];
        for word in words {
            let (number, mut found) = (word.parse().ok(), false);
            for (ix, row) in self.threads.iter().enumerate() {
                let is_it = Some(row.tid) == number || matches(word, self.strings.get(row.name));
                if is_it && is_meant(ix) {
                    (chosen[ix], found) = (true, true);
                }
            }
            if !found {
                return Err(NoSuch::Thread(word.clone()));
            }
        }
        Ok(chosen)
    }

    /// Adds the descendants, as the recorder does.
    fn with_children(&self, mut chosen: Vec<bool>) -> Vec<bool> {
        let mut children: HashMap<ProcessIx, Vec<usize>> = HashMap::new();
        for (ix, row) in self.processes.iter().enumerate() {
            if row.parent.is_some() {
                children.entry(row.parent).or_default().push(ix);
            }
        }
        let mut open: Vec<usize> = (0..chosen.len()).filter(|&ix| chosen[ix]).collect();
        while let Some(ix) = open.pop() {
            for &child in children.get(&ProcessIx(ix as u32)).into_iter().flatten() {
                // A circle of parents ends where it began.
                if !std::mem::replace(&mut chosen[child], true) {
                    open.push(child);
                }
            }
        }
        chosen
    }

    /// The processes that may be the program, by name; the busiest first.
    pub fn candidates(&self) -> Vec<Candidate> {
        let knows_switches = !self.states.start.is_empty();
        let mut rows: Vec<Candidate> = Vec::new();
        let mut by_name: HashMap<&str, usize> = HashMap::new();
        for process in &self.processes {
            let name = self.strings.get(process.name);
            // Without a name it is known by its number alone.
            let at = match name {
                "" => rows.len(),
                name => *by_name.entry(name).or_insert(rows.len()),
            };
            if at == rows.len() {
                rows.push(Candidate {
                    name: name.into(),
                    on_cpu_ns: knows_switches.then_some(0),
                    ..Candidate::default()
                });
            }
            let row = &mut rows[at];
            row.pids.push(process.pid);
            row.threads += process.threads.len() as u32;
            for thread in process.threads.clone() {
                row.slices += self.threads[thread as usize].slices.len() as u64;
                let states = self.states_of(ThreadIx(thread));
                let runs = states.filter(|row| row.state == ThreadState::Running);
                let ns: i64 = runs.map(|run| (run.end - run.start).ns()).sum();
                row.on_cpu_ns = row.on_cpu_ns.map(|sum| sum.saturating_add(ns));
            }
        }
        rows.sort_by_key(|row| (std::cmp::Reverse((row.on_cpu_ns, row.slices)), row.pids[0]));
        rows
    }
}

/// Whether the whole of `name` is `pattern`, in which `*` stands for any letters, also for none.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    // The leftmost place of each part leaves most room for those after it.
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_letters() {
        for (pattern, name, expected) in [
            ("app", "app", true),
            ("app", "apple", false),
            ("app*", "app", true),
            ("app*", "apple", true),
            ("*le", "apple", true),
            ("a*p*e", "apple", true),
            ("a*pp*pe", "apple", false),
            ("a*a", "a", false),
            ("*", "", true),
            ("**", "x", true),
            ("kworker/*:1", "kworker/0:1", true),
            ("", "x", false),
            ("a*b*b", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn hostile_patterns_take_no_time_beyond_their_lengths() {
        let name = "a".repeat(10_000);
        assert!(!matches(&format!("{}b", "a*".repeat(1_000)), &name));
    }
}
