//! Waits, each followed to what it waited for, line below line:
//!
//! ```text
//! 0.48  24.0 %  480 ms      97.0 % consumer waits in read < consume (p.c:30)
//!               <- writer filter waits in read < filter (p.c:52) < run
//!               <- writer producer ran compress (p.c:12) < run
//! ```
//!
//! Where one wait has several causes, each has its share of the class and what is behind it stands further to the right.
use crate::names::ThreadNames;
use crate::paths::path_text;
use crate::units::{count, cut, duration, file_name, percent, printable};
use kasuri_analyze::account::Class;
use kasuri_analyze::call_paths::{ChainNode, ClassPaths, WaitChains, is_gil};
use unicode_width::UnicodeWidthStr;

/// Less of a class than this is not worth a line.
/// It is a share of the class's time, so the same path may have a line under a small class and none under a large
/// one.
pub(crate) const WORTH_A_LINE: f64 = 0.01;

/// A line below a class.
pub struct PathLine {
    /// Its time; none: it goes on with what the line above says, and may be longer.
    pub ns: Option<i64>,
    /// It, with its share of the class.
    pub text: String,
}

/// A cause that has less of the wait before it than this has no line.
const WORTH_A_BRANCH: f64 = 0.1;
/// Lines below a wait: on one screen, and else.
const FEW_LINES: usize = 3;
const MORE_LINES: usize = 9;
/// Columns for the name of a file, so that the path behind it has some.
const FILE_NAME: usize = 24;

/// The lines of the `n` largest waits of a class: the first of each in as many columns as `rooms` has first, the others in as many as
/// it has second. `is_below`: below lines that say what the one thread of a serial phase ran.
pub(crate) fn chain_lines(
    chains: &WaitChains,
    class: &ClassPaths,
    names: &ThreadNames<'_>,
    n: usize,
    [room, across]: [usize; 2],
    is_below: bool,
) -> Vec<PathLine> {
    let is_serial = is_below && class.class == Class::LowParallelism.key();
    let mut lines = Vec::new();
    let heads = (0..chains.nodes.len()).filter(|&at| chains.nodes[at].depth == 0);
    for head in heads.take(n) {
        let node = &chains.nodes[head];
        if (node.ns as f64) < WORTH_A_LINE * class.ns as f64 {
            break;
        }
        let mut text = Lines {
            nodes: &chains.nodes,
            names,
            class_ns: class.ns,
            is_serial,
            room: across,
            left: if n > 1 { MORE_LINES } else { FEW_LINES },
            lines: Vec::new(),
        };
        let begin = format!("{} ", percent(node.ns as f64 / class.ns.max(1) as f64));
        let who = who_text(names, node);
        let room = room.saturating_sub(begin.width());
        let line = waited_text(&who, node, room);
        // Where the path has no room, or the place in the source has none, the path has a line of its own.
        let has_no_place = node.frames.iter().any(|f| !f.file.is_empty()) && !line.contains('(');
        let is_cut = !node.frames.is_empty() && (has_no_place || line.width() > room);
        let line = match is_cut {
            true => format!("{who} waits"),
            false => line,
        };
        text.lines.push(PathLine { ns: Some(node.ns), text: begin + &line });
        if is_cut {
            text.lines.push(PathLine { ns: None, text: where_text(node, across) });
        }
        text.behind(head, 0);
        lines.append(&mut text.lines);
    }
    lines
}

/// The lines of one wait.
struct Lines<'c> {
    nodes: &'c [ChainNode],
    names: &'c ThreadNames<'c>,
    class_ns: i64,
    /// One thread ran, and the lines above say what.
    is_serial: bool,
    room: usize,
    /// Lines that may follow.
    left: usize,
    lines: Vec<PathLine>,
}

impl Lines<'_> {
    /// The nodes directly behind the one at `at`, the most time first.
    fn children(&self, at: usize) -> Vec<usize> {
        let depth = self.nodes[at].depth;
        let behind = (at + 1..self.nodes.len()).take_while(|&row| self.nodes[row].depth > depth);
        behind.filter(|&row| self.nodes[row].depth == depth + 1).collect()
    }

    /// The same with their times. Where the lines above say what a thread ran, all that it ran is one.
    fn causes(&self, at: usize) -> Vec<(usize, i64)> {
        let mut causes: Vec<(usize, i64)> = Vec::new();
        for row in self.children(at) {
            let node = &self.nodes[row];
            let is_same = |other: &ChainNode| {
                let both_ran = (node.did, other.did) == ("ran", "ran");
                self.is_serial && both_ran && node.thread == other.thread
            };
            match causes.iter_mut().find(|(row, _)| is_same(&self.nodes[*row])) {
                Some((_, ns)) => *ns += node.ns,
                None => causes.push((row, node.ns)),
            }
        }
        causes
    }

    /// What the wait at `at` waited for, `indent` columns to the right.
    fn behind(&mut self, at: usize, indent: usize) {
        let wait = &self.nodes[at];
        let least = (WORTH_A_BRANCH * wait.ns as f64) as i64;
        let mut shown = self.causes(at);
        shown.retain(|&(_, ns)| ns >= least.max(1));
        if self.left == 0 && !shown.is_empty() {
            // The last line says that there is more.
            if let Some(line) = self.lines.last_mut() {
                line.text += " <- ..";
            }
            return;
        }
        shown.truncate(self.left);
        let is_split = shown.iter().any(|&(_, ns)| (ns as f64) < 0.995 * wait.ns as f64);
        let is_branching = shown.len() > 1;
        for (row, ns) in shown {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let node = &self.nodes[row];
            let share = match is_split {
                true => format!("{} ", percent(ns as f64 / self.class_ns.max(1) as f64)),
                false => String::new(),
            };
            let begin = format!("{:indent$}<- {share}", "");
            let room = self.room.saturating_sub(begin.width());
            let text = begin
                + &match self.is_serial && node.did == "ran" {
                    true => format!("{}{} ran, as above", role(wait), who_text(self.names, node)),
                    false => behind_text(self.names, wait, node, room),
                };
            self.lines.push(PathLine { ns: None, text });
            // Who signals is no part of what it did meanwhile, but for a run too short for a sample.
            let is_told = node.did == "ran" && node.frames.is_empty();
            if wait.call == "condition" && !node.woke.is_empty() && !is_told {
                let begin = format!("{:indent$}   wakes it by ", "");
                let room = self.room.saturating_sub(begin.width());
                let text = begin + &path_text(&node.woke, room);
                self.lines.push(PathLine { ns: None, text });
            }
            if node.did == "waited" {
                self.behind(row, indent + if is_branching { 2 } else { 0 });
            }
        }
    }
}

/// The thread, with its id where others have its name; of several of this name, the name.
fn who_text(names: &ThreadNames<'_>, node: &ChainNode) -> String {
    match node.tid {
        Some(tid) => names.text(&node.thread, tid),
        None => printable(&node.thread),
    }
}

/// `consumer waits in read < consume (p.c:30)`.
fn waited_text(who: &str, node: &ChainNode, room: usize) -> String {
    if node.frames.is_empty() {
        return format!("{who} waits, without a sample");
    }
    let begin = format!("{who} waits ");
    let left = room.saturating_sub(begin.width());
    begin + &where_text(node, left)
}

/// `in read < consume (p.c:30)`, `at a pipe: read < consume (p.c:30)`.
fn where_text(node: &ChainNode, room: usize) -> String {
    let begin = match node.channel {
        "pipe" => "at a pipe: ".into(),
        "socket" => "at a socket: ".into(),
        "eventfd" => "at an eventfd: ".into(),
        "timer" => "at a timer: ".into(),
        "file" if !node.file.is_empty() => {
            format!("at {}: ", cut(&printable(name_of(&node.file)), FILE_NAME))
        }
        _ => String::from("in "),
    };
    let left = room.saturating_sub(begin.width());
    begin + &path_text(&node.frames, left)
}

/// A file's name without its folders; of a device its path, as `/dev/pts/7` says more than `7`.
fn name_of(path: &str) -> &str {
    match path.starts_with("/dev/") {
        true => path,
        false => file_name(path),
    }
}

/// Before the name of the thread that will end a wait: who reads waits for somebody who writes.
fn role(wait: &ChainNode) -> &'static str {
    match wait.call {
        "read" => "writer ",
        "write" => "reader ",
        // Nothing says so but the wake-up.
        "lock" => "probably held by ",
        _ => "",
    }
}

/// What a wait waited for.
fn behind_text(names: &ThreadNames<'_>, wait: &ChainNode, node: &ChainNode, room: usize) -> String {
    let role = role(wait);
    let colon = match wait.call {
        "lock" => ":",
        _ => "",
    };
    let who = format!("{role}{}{colon}", who_text(names, node));
    match node.did {
        "waited" => waited_text(&who, node, room),
        "ran" => ran_text(&who, node, room),
        "ready" => format!("{who} was ready, but had no CPU"),
        "timer" => {
            let each = wait.waits_ns as f64 / wait.waits.max(1) as f64;
            let times = match wait.waits {
                1 => "once".into(),
                n => format!("{} times", count(n)),
            };
            format!("by its own choice: {times} {}", duration(each))
        }
        "interrupt" => match (wait.call, wait.channel) {
            (_, "socket") => "the network".into(),
            (_, "timer") => "its timer".into(),
            ("poll", _) => "its input, or its time limit".into(),
            // Python asks for its lock again and again.
            ("lock", _) if wait.frames.first().is_some_and(|f| is_gil(&f.function)) => {
                "its time limit: another thread kept the GIL".into()
            }
            ("condition" | "lock" | "join", _) => "its time limit, or a signal".into(),
            _ => "a timer, a device or the network".into(),
        },
        "device" => "the disk, or another device".into(),
        "process" => format!("process {}", printable(&node.process)),
        "endless" => "nobody: it did not end".into(),
        "more" => "..".into(),
        _ => "it is not known who ended it".into(),
    }
}

/// `producer ran compress (p.c:12) < run`.
fn ran_text(who: &str, node: &ChainNode, room: usize) -> String {
    let (begin, frames) = match (node.frames.is_empty(), node.woke.is_empty()) {
        (false, _) => (format!("{who} ran "), &node.frames),
        // A run too short for a sample.
        (true, false) => (format!("{who} ran to "), &node.woke),
        (true, true) => return format!("{who} ran, without a sample"),
    };
    let left = room.saturating_sub(begin.width());
    begin + &path_text(frames, left)
}
