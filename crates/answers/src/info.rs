//! The answer of `kasuri info`: facts about the recording, its events by kind, losses and
//! limitations, and the questions that it can answer, each with the command, or with what would
//! have to be recorded.
use crate::Answer;
use crate::document::{Document, List, Part, Rows, Title, Unit};
use crate::units::{count, duration, plural};
use kasuri_analyze::{Can, Contents, HeldUp, LossSummary, TimedCalls};
use kasuri_model::Trace;
use schemars::JsonSchema;
use serde::Serialize;

/// The answer of `kasuri info`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Info {
    /// The file's.
    #[serde(skip)]
    name: String,
    /// What is in the file.
    #[serde(flatten)]
    contents: Contents,
    /// How long calls of the recorder took for which threads of programs may have had to wait;
    /// none: not measured.
    held_up: Option<HeldUp>,
}

impl Info {
    /// The answer about the trace of a file of this name.
    pub fn new(name: String, trace: &Trace) -> Info {
        Info { name, contents: kasuri_analyze::contents(trace), held_up: HeldUp::of(&trace.info) }
    }
}

impl Answer for Info {
    fn document(&self, rows: usize) -> Document {
        let c = &self.contents;
        let by = match c.recorder.as_str() {
            "" => String::new(),
            tool => format!(", written by {tool}"),
        };
        let title = format!("{}: {}{by}", self.name, c.format);
        let mut out = Document::new("Recording", Title::Line(title));
        facts(&mut out, c);
        out.fact("held up", held_up(self.held_up));
        events(&mut out, c, rows);
        lost(&mut out, c);
        let how = |can: Can, command: &str, why: &str, remedy: &str| match (can, remedy) {
            (Can::Yes, _) => command.to_owned(),
            (_, "") => why.to_owned(),
            _ => format!("{why}; remedy: {remedy}"),
        };
        out.table(
            Rows::new("questions it can answer", "", &c.answers, usize::MAX)
                .column("about", Unit::Word, 0, "", |a| a.topic)
                .column("answer", Unit::Word, 0, "", |a| a.can.word())
                .column("how, or why not", Unit::Sentence, 0, "", |a| {
                    how(a.can, a.command, &a.why, &a.remedy)
                }),
        );
        out
    }
}

/// Those that the file does not have are left out.
fn facts(out: &mut Document, c: &Contents) {
    out.fact("duration", duration(c.duration_ns as f64));
    // Other tools' files have few of these facts, in no particular combination.
    let machine = [&c.cpu_model, &c.machine, &c.kernel, &c.host].map(String::as_str);
    let machine: Vec<&str> = machine.into_iter().filter(|part| !part.is_empty()).collect();
    // A CPU that was not recorded is not known to be idle, so the number of those that were is part
    // of the answer.
    let cpus = match (c.n_cpus as usize, c.recorded_cpus.len()) {
        (0, _) => "not known".to_owned(),
        (all, recorded) if all == recorded => format!("{all}, all recorded"),
        (all, 0) => format!("{all}, scheduling not recorded"),
        (all, recorded) => format!("{all}, {recorded} of them recorded"),
    };
    let threads = plural(u64::from(c.threads), "thread");
    let processes = match c.processes {
        1 => "1 process".to_owned(),
        n => format!("{n} processes"),
    };
    for (label, text) in [
        ("machine", machine.join(", ")),
        ("CPUs", cpus),
        ("command", c.command.join(" ")),
        ("clock", c.clock.clone()),
        ("threads", format!("{threads} of {processes}")),
    ] {
        if !text.is_empty() {
            out.fact(label, text);
        }
    }
}

/// How long the recorder may have held threads up.
fn held_up(held: Option<HeldUp>) -> String {
    let Some(held) = held else {
        return "not measured".to_owned();
    };
    let part = |what: &str, of: TimedCalls| {
        let [longest, sum] = [of.longest_ns, of.sum_ns].map(|ns| duration(ns as f64));
        (of.n > 0).then(|| format!("{longest} {what} once, {sum} in all"))
    };
    let parts = [part("to read memory", held.memory), part("to switch probes", held.probes)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "by no call that was timed".to_owned(),
        false => format!("threads by the recorder, at most: {}", parts.join("; ")),
    }
}

/// Events by kind, and the rows that the model made of them: events that led to no row were
/// recorded in vain, or are of a kind that no pass reads.
fn events(out: &mut Document, c: &Contents, rows: usize) {
    let [kernel, program] = [c.n_kernel_events, c.n_annotation_events].map(count);
    let said = format!("{kernel} of the kernel, {program} of the program");
    if c.events.is_empty() {
        out.fact("events", &said);
    }
    for (head, heading, note, kinds) in
        [("event", "events", said.as_str(), &c.events), ("result", "", "", &c.rows)]
    {
        out.table(
            Rows::new(heading, note.to_owned(), kinds, rows)
                .column("count", Unit::Count, 0, "", |kind| kind.count)
                .column(head, Unit::Text, 0, "", |kind| &kind.name),
        );
    }
}

/// Losses with their causes and remedies, and limitations.
fn lost(out: &mut Document, c: &Contents) {
    let loss = |loss: &LossSummary| {
        // A gap whose events nobody counted has the count 0, which is not "none".
        let many = match loss.count {
            0 => "events".to_owned(),
            n => plural(n, "event"),
        };
        let at = loss.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
        let remedy = match loss.remedy.as_str() {
            "" => String::new(),
            remedy => format!("; {remedy}"),
        };
        format!("{many}{at}, in {}: {}{remedy}", plural(loss.gaps, "gap"), loss.cause)
    };
    let items: Vec<String> = c.losses.iter().map(loss).chain(c.missing.iter().cloned()).collect();
    let (heading, note) = match items.is_empty() {
        true => ("lost events", "none"),
        false => ("lost events and limitations", ""),
    };
    // Said also where there are none.
    out.parts.push(Part::List(List { heading, note: note.into(), all: items.len(), items }));
}
