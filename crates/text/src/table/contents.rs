//! The contents of a file, as text: what `kasuri info` prints.
//!
//! Four sections: facts about the recording, its events by kind, losses and limitations, and the questions that it can
//! answer, each with the command, or with what would have to be recorded.
use super::grid::{Grid, number, text};
use super::units::{count, duration, plural, printable};
use super::{Layout, Page, wrap};
use crate::info::{Info, TimedCalls};
use kasuri_analyze::{Can, Contents};

/// The description as text, ending with a line feed. `name`: the file's.
pub fn contents(name: &str, info: &Info, layout: &Layout) -> String {
    let contents = &info.contents;
    let mut page = Page { layout, text: String::new() };
    page.file(name, contents);
    page.fact("held up", &held_up(info));
    page.events(contents);
    page.lost(contents);
    page.answers(contents);
    page.text
}

/// How long the recorder may have held threads up.
fn held_up(info: &Info) -> String {
    let Some(held) = info.held_up else {
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

impl Page<'_> {
    /// Facts about the file; those that the file does not have are left out.
    fn file(&mut self, name: &str, c: &Contents) {
        let by = match c.recorder.as_str() {
            "" => String::new(),
            tool => format!(", written by {}", printable(tool)),
        };
        let title = self.styled("1", &format!("{}: {}{by}", printable(name), c.format));
        self.line(&title);
        self.fact("duration", &duration(c.duration_ns as f64));
        // Other tools' files have few of these facts, in no particular combination.
        let machine = [&c.cpu_model, &c.machine, &c.kernel, &c.host];
        let machine: Vec<String> =
            (machine.iter().filter(|part| !part.is_empty())).map(|part| printable(part)).collect();
        if !machine.is_empty() {
            self.fact("machine", &machine.join(", "));
        }
        // A CPU that was not recorded is not known to be idle, so the number of those that were is part of the answer.
        let cpus = match (c.n_cpus as usize, c.recorded_cpus.len()) {
            (0, _) => "not known".to_owned(),
            (all, recorded) if all == recorded => format!("{all}, all recorded"),
            (all, 0) => format!("{all}, scheduling not recorded"),
            (all, recorded) => format!("{all}, {recorded} of them recorded"),
        };
        self.fact("CPUs", &cpus);
        if !c.command.is_empty() {
            self.fact("command", &printable(&c.command.join(" ")));
        }
        if !c.clock.is_empty() {
            self.fact("clock", &printable(&c.clock));
        }
        let threads = plural(u64::from(c.threads), "thread");
        let processes = match c.processes {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        };
        self.fact("threads", &format!("{threads} of {processes}"));
    }

    /// Events by kind, and the rows that the model made of them.
    fn events(&mut self, c: &Contents) {
        let title = format!(
            "{} of the kernel, {} of the program",
            count(c.n_kernel_events),
            count(c.n_annotation_events)
        );
        self.heading("events", &title);
        // Both are wanted: events that led to no row were recorded in vain, or are of a kind that no pass reads.
        for (head, kinds) in [("EVENT", &c.events), ("RESULT", &c.rows)] {
            if kinds.is_empty() {
                continue;
            }
            let mut grid = Grid::new(&[number("COUNT", 0), text(head)]);
            let shown = self.shown(kinds.len());
            for kind in &kinds[..shown] {
                grid.row([count(kind.count), kind.name.clone()]);
            }
            self.grid(grid, shown, kinds.len());
        }
    }

    /// Losses with their causes and remedies, and limitations.
    fn lost(&mut self, c: &Contents) {
        if c.losses.is_empty() && c.missing.is_empty() {
            self.heading("lost events", "none");
            return;
        }
        self.heading("lost events and limitations", "");
        for loss in &c.losses {
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
            let line =
                format!("{many}{at}, in {}: {}{remedy}", plural(loss.gaps, "gap"), loss.cause);
            self.paragraph(&printable(&line));
        }
        for text in &c.missing {
            self.paragraph(&printable(text));
        }
    }

    /// Text over the width of the page.
    fn paragraph(&mut self, text: &str) {
        let room = self.layout.width.saturating_sub(2).max(20);
        for line in wrap(text, room) {
            self.line(&format!("  {line}"));
        }
    }

    /// Topic, `yes`, `partly` or `no`, and the command or the reason: three columns, the last one wrapped.
    fn answers(&mut self, c: &Contents) {
        // Columns; the commands and reasons get the rest of the width, and wrap below themselves.
        const TOPIC: usize = 32;
        const CAN: usize = 8;
        self.heading("questions it can answer", "");
        let room = (self.layout.width).saturating_sub(2 + TOPIC + CAN).max(20);
        for answer in &c.answers {
            let why = match (answer.can, answer.remedy.as_str()) {
                (Can::Yes, _) => answer.command.to_owned(),
                (_, "") => answer.why.clone(),
                (_, remedy) => format!("{}; remedy: {remedy}", answer.why),
            };
            for (ix, part) in wrap(&why, room).into_iter().enumerate() {
                // Only the first line of an answer has its topic.
                let (topic, can) = match ix {
                    0 => (answer.topic, answer.can.word()),
                    _ => ("", ""),
                };
                let can = self.styled(
                    if answer.can == Can::Yes { "1" } else { "2" },
                    &format!("{can:<CAN$}"),
                );
                self.line(&format!("  {topic:<TOPIC$}{can}{part}"));
            }
        }
    }
}
