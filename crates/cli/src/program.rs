//! `--process` and `--thread`: which threads of a trace are the program.
use crate::message;
use anyhow::anyhow;
use kasuri_base::words::shell_word;
use kasuri_model::{Choice, NoSuch, ThreadIx, Trace};
use kasuri_text::table::program;
use std::fmt::Display;

/// Names that an error lists.
const NAMED: usize = 5;

/// The program that the user means.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ProgramArgs {
    /// Take this process and those that it started for the program; `*` in a name stands for any letters; may be repeated
    #[arg(long, value_name = "NAME|PID")]
    process: Vec<String>,
    /// Of the program's threads take only this one; may be repeated
    #[arg(long, value_name = "NAME|TID")]
    thread: Vec<String>,
}

impl ProgramArgs {
    /// Only processes: for a command with a `--thread` of its own.
    pub fn of_processes(process: Vec<String>) -> ProgramArgs {
        ProgramArgs { process, thread: Vec::new() }
    }

    /// Whether nothing was chosen.
    pub fn is_empty(&self) -> bool {
        self.process.is_empty() && self.thread.is_empty()
    }

    /// Makes what was chosen the program.
    ///
    /// # Errors
    /// When nothing is called so: then with the names that there are.
    pub fn choose(&self, trace: &mut Trace, file: &dyn Display) -> anyhow::Result<()> {
        let choice = Choice { processes: self.process.clone(), threads: self.thread.clone() };
        trace.choose(&choice).map_err(|none| {
            if let NoSuch::Thread(_) = none {
                return anyhow!("{file}: {none}; {}", self.threads_there(trace));
            }
            let busiest = trace.candidates().into_iter();
            let busiest = busiest.filter(|c| !c.name.is_empty()).take(NAMED);
            let names: Vec<String> = busiest.map(|c| format!("`{}`", c.name)).collect();
            anyhow!("{file}: {none}; the busiest processes are {}", names.join(", "))
        })
    }

    /// `its threads are `a`, `b` and others`: the names in the processes that were chosen.
    fn threads_there(&self, trace: &mut Trace) -> String {
        let processes = Choice { processes: self.process.clone(), threads: Vec::new() };
        // They are there: else the error would be about them.
        let _ = trace.choose(&processes);
        let mut names: Vec<&str> = Vec::new();
        for (ix, row) in trace.threads.iter().enumerate() {
            let name = trace.strings.get(row.name);
            if trace.is_target(ThreadIx(ix as u32)) && !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
            if names.len() > NAMED {
                break;
            }
        }
        let others = match names.len() > NAMED {
            true => " and others",
            false => "",
        };
        names.truncate(NAMED);
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        match names.is_empty() {
            true => "its threads have no names: give a number".to_owned(),
            false => format!("its threads are called {}{others}", names.join(", ")),
        }
    }

    /// As [`ProgramArgs::choose`]; where nothing was chosen and the trace names no program, says so, with the command to choose one.
    ///
    /// # Errors
    /// As [`ProgramArgs::choose`].
    pub fn choose_or_say(
        &self,
        trace: &mut Trace,
        command: &str,
        file: &dyn Display,
    ) -> anyhow::Result<()> {
        self.choose(trace, file)?;
        say_nobody(trace, command, &shell_word(file.to_string()));
        Ok(())
    }

    /// As [`ProgramArgs::choose`], for an answer (`what`) that only one program has.
    ///
    /// # Errors
    /// As [`ProgramArgs::choose`]; and where nothing was chosen, the trace names no program and has switches, with how to choose one.
    pub fn choose_one(
        &self,
        trace: &mut Trace,
        what: &str,
        command: &str,
        file: &dyn Display,
    ) -> anyhow::Result<()> {
        self.choose(trace, file)?;
        if trace.states.start.is_empty() {
            return Ok(());
        }
        let word = shell_word(file.to_string());
        let text = program::refusal(&kasuri_analyze::program(trace), what, command, &word);
        match text.as_str() {
            "" => Ok(()),
            text => Err(anyhow!("{file}: {text}")),
        }
    }
}

/// Says that the trace names no program, with the command that chooses one; false: it does. `files`: words of a shell command.
pub fn say_nobody(trace: &Trace, command: &str, files: &str) -> bool {
    let text = program::nobody(&kasuri_analyze::program(trace), command, files);
    if !text.is_empty() {
        message::note(&text);
    }
    !text.is_empty()
}

/// The program where no recorded command names it, for the title of a page.
pub fn named(trace: &Trace) -> String {
    program::named(&kasuri_analyze::program(trace), &trace.info.command)
}
