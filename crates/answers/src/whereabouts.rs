//! The answer of `kasuri where`: where the threads of a program that hangs wait, since when, and for whom.
//!
//! First what nobody else says: threads that wait for each other, or the one for which most others wait. Then each thread; those that do
//! the same for the same thread are one row.
use crate::Answer;
use crate::document::{Document, Rows, Title, Unit};
use crate::paths::path_text;
use crate::units::{duration, percent, plural, printable};
use kasuri_analyze::{AtEnd, HeldBy, ThreadAtEnd};
use serde::Serialize;

/// Columns for a call path.
const PATH_ROOM: usize = 60;

/// What the threads of a program do.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Where {
    /// Each of them.
    pub at_end: AtEnd,
}

/// Threads that do the same.
struct Alike<'a> {
    first: &'a ThreadAtEnd,
    n: usize,
    what: String,
    by: String,
}

impl Answer for Where {
    fn document(&self, rows: usize) -> Document {
        let all = &self.at_end.threads;
        let mut out = Document::new("Where", Title::Line(title(all)));
        for circle in &self.at_end.circles {
            out.fact("dead-lock", circle_text(circle, all));
        }
        for &pid in &self.at_end.stuck {
            out.fact("hangs", stuck_text(pid, all));
        }
        if let Some(text) = culprit(&self.at_end) {
            out.fact("waited for", text);
        }
        let alike = alike(all);
        out.table(
            Rows::new("", "", &alike, rows)
                .column("since", Unit::Word, 0, "it last had a CPU", |a| since(a.first))
                .column("thread", Unit::Text, 0, "", |a| match a.n {
                    n if a.first.is_idle => format!("{n} of the runtime's"),
                    1 => named(&a.first.name, a.first.tid),
                    n => format!("{n} x {}", printable(&a.first.name)),
                })
                .column("does", Unit::Sentence, 0, "", |a| a.what.clone())
                .column("waits for", Unit::Sentence, 0, "", |a| {
                    (!a.by.is_empty()).then(|| a.by.clone())
                }),
        );
        if !self.at_end.has_paths {
            out.note("no call paths were recorded: a thread of the kernel has none; of a program, kasuri doctor says what they need");
        }
        for missing in &self.at_end.missing {
            out.note(format!("not known: {missing}"));
        }
        if let Some(by) = all.iter().flat_map(|t| &t.by).find(|by| is_other(by, all)) {
            out.note(format!("go on with kasuri where -p {}", by.pid));
        }
        out
    }
}

/// With its id: the next tool wants it.
fn named(name: &str, tid: i32) -> String {
    format!("{} ({tid})", printable(name))
}

fn title(all: &[ThreadAtEnd]) -> String {
    let n = |state: &str| all.iter().filter(|t| t.state == state).count();
    let waiting = n("waits") + n("waits_uninterruptibly");
    let mut parts = vec![format!("{waiting} waiting")];
    for (n, what) in
        [(n("stopped"), "stopped"), (n("runs"), "running"), (n("unknown"), "not known")]
    {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    format!("{}: {}", plural(all.len() as u64, "thread"), parts.join(", "))
}

fn circle_text(circle: &[i32], all: &[ThreadAtEnd]) -> String {
    let of = |tid: i32| all.iter().find(|t| t.tid == tid);
    let text = |tid: i32| of(tid).map_or_else(|| tid.to_string(), |t| named(&t.name, tid));
    let step = |(at, &tid): (usize, &i32)| {
        let next = circle[(at + 1) % circle.len()];
        match of(tid).map(|t| t.on.as_str()) {
            Some("thread") => format!("{} waits for the end of {}", text(tid), text(next)),
            Some(on) if next == tid => format!("{} waits for a {on} that it has itself", text(tid)),
            Some(on) => format!("{} waits for a {on} that {} has", text(tid), text(next)),
            None => text(tid),
        }
    };
    circle.iter().enumerate().map(step).collect::<Vec<_>>().join("; ")
}

/// A process whose threads all wait for threads of it.
fn stuck_text(pid: i32, all: &[ThreadAtEnd]) -> String {
    let its: Vec<&ThreadAtEnd> = all.iter().filter(|t| t.pid == pid).collect();
    let name = its.iter().find(|t| t.tid == pid).or(its.first());
    let name = name.map_or(String::new(), |t| named(&t.name, pid));
    let n = match its.iter().filter(|t| !t.is_idle).count() {
        1 => "its only thread waits".to_owned(),
        n => format!("all {n} threads of it wait"),
    };
    let n = match its.iter().any(|t| t.is_idle) {
        true => format!("but for those of the runtime's own, {n}"),
        false => n,
    };
    format!(
        "{name}: {n} for what a thread of it must do, and none runs: only a time limit, a signal or another process can end that"
    )
}

/// The thread for which most others wait, where that is not told by a circle.
fn culprit(at_end: &AtEnd) -> Option<String> {
    let in_circle = |t: &&ThreadAtEnd| at_end.circles.iter().flatten().any(|&tid| tid == t.tid);
    let waits_for_none = |t: &&ThreadAtEnd| t.by.iter().all(|by| is_other(by, &at_end.threads));
    let last =
        at_end.threads.iter().filter(|t| t.waiters > 0 && !in_circle(t) && waits_for_none(t));
    let most = last.max_by_key(|t| t.waiters)?;
    let others = plural(most.waiters as u64, "thread");
    let verb = if most.waiters == 1 { "waits" } else { "wait" };
    Some(format!("{others} {verb} for {}, which {}", named(&most.name, most.tid), does(most)))
}

fn is_other(by: &HeldBy, all: &[ThreadAtEnd]) -> bool {
    !all.iter().any(|t| t.pid == by.pid)
}

/// Threads of one name that do the same, in the order of the first.
fn alike<'a>(all: &'a [ThreadAtEnd]) -> Vec<Alike<'a>> {
    let mut rows: Vec<Alike<'a>> = Vec::new();
    for thread in all {
        let (what, by) = (does(thread), by_text(thread));
        let same = |a: &&mut Alike<'a>| {
            let is_alike = (&a.first.name, &a.what, &a.by) == (&thread.name, &what, &by);
            (is_alike || (a.first.is_idle && thread.is_idle)) && thread.waiters == 0
        };
        match rows.iter_mut().find(same) {
            Some(row) => row.n += 1,
            None => rows.push(Alike { first: thread, n: 1, what, by }),
        }
    }
    rows
}

/// Since when it waits; of one that runs nothing.
fn since(thread: &ThreadAtEnd) -> Option<String> {
    thread.since_ns.map(|ns| duration(ns as f64))
}

fn does(t: &ThreadAtEnd) -> String {
    if t.is_idle {
        return "waits for something to do".to_owned();
    }
    let path = path_text(&t.path, PATH_ROOM);
    let code = if path.is_empty() { "code that is not known".to_owned() } else { path };
    let file = match t.file.as_str() {
        "" => String::new(),
        file => format!(", at file {}", printable(file)),
    };
    match t.state {
        "waits" => format!("waits in {code}{file}"),
        "waits_uninterruptibly" => format!("waits in {code}{file}, which no signal ends"),
        "stopped" => format!("is stopped, by a signal or a debugger, in {code}"),
        "runs" => match t.path_share {
            Some(share) if share < 0.995 => {
                format!("runs {code}, {} of its CPU time", percent(share))
            }
            _ => format!("runs {code}"),
        },
        _ => "is in a state that is not known".to_owned(),
    }
}

fn by_text(t: &ThreadAtEnd) -> String {
    let who: Vec<String> = (t.by.iter()).map(|by| named(&by.name, by.tid)).collect();
    let own = t.by.iter().all(|by| by.pid == t.pid);
    let list = who.join(", ");
    match (t.on.as_str(), who.is_empty()) {
        ("", _) => String::new(),
        ("thread", _) => format!("the end of {list}"),
        ("child", true) => "a child, of which none lives".to_owned(),
        ("child", false) => format!("child {list}"),
        ("pipe", true) => "a pipe whose other end nobody is seen to have".to_owned(),
        ("pipe", false) if own => "a pipe whose other end only it has itself".to_owned(),
        ("pipe" | "socket", false) => format!("{list}, at the other end of a {}", t.on),
        ("socket", true) => "a socket".to_owned(),
        (on, true) => format!("a {on}"),
        (on, false) => format!("{list}, which has the {on}"),
    }
}
