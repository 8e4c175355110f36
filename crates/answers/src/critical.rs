//! The answer of `kasuri critical`: what to shorten first, by how much the run would shrink.
//!
//! Two tables. The first has the parts of the path, largest first, with the time that each takes of it. The second
//! has changes, and the length of the run when it is replayed with one of them. The replay without a change stands
//! below as a check: its length should be that of the run.
use crate::Answer;
use crate::document::{Document, Rows, Title, Unit, share};
use crate::names::ThreadNames;
use crate::units::{duration, file_name, plural};
use kasuri_analyze::critical_path::{CriticalPath, PathEntry, WhatIf};
use schemars::JsonSchema;
use serde::Serialize;

/// Its name and version.
const SCHEMA: &str = "kasuri.critical/1";

/// The critical path of a recording.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Critical {
    /// The name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The path.
    #[serde(flatten)]
    pub path: CriticalPath,
    /// Start of the recording: ranges for the command line count from it.
    #[serde(skip)]
    pub start_ns: i64,
}

impl Critical {
    /// The answer about a recording that starts at `start_ns`.
    pub fn new(path: CriticalPath, start_ns: i64) -> Critical {
        Critical { schema: SCHEMA, path, start_ns }
    }
}

impl Answer for Critical {
    fn document(&self, rows: usize) -> Document {
        let path = &self.path;
        let title = format!(
            "critical path: {} of {}, changing thread {}",
            duration(path.entries.iter().map(|e| e.ns).sum::<i64>() as f64),
            duration(path.length_ns as f64),
            plural(path.hops, "time")
        );
        let mut out = Document::new("Critical path", Title::Line(title));
        entries(&mut out, self, rows);
        what_if(&mut out, path);
        out
    }
}

/// The parts of the path.
fn entries(out: &mut Document, of: &Critical, rows: usize) {
    let path = &of.path;
    let threads = path.entries.iter().map(|e| (e.thread.as_str(), e.tid));
    let names = ThreadNames::new(threads);
    // As `--range` of other commands takes it: ms from the recording's start.
    let since = |ns: i64| format!("{:.3}ms", (ns - of.start_ns) as f64 * 1e-6);
    out.table(
        Rows::new("", "", &path.entries, rows)
            .column("time", Unit::Ns, 0, "", |e| e.ns)
            .column("share", Unit::Ratio, 0, "of the path", |e| share(e.ns, path.length_ns.max(1)))
            .column("what", Unit::Text, 0, "", |e| entry_text(e, &names))
            .column("times", Unit::Count, 1, "", |e| e.count)
            .column("thread", Unit::Text, 0, "", |e| match e.threads {
                0 | 1 => names.text(&e.thread, e.tid),
                n => format!("{n} threads"),
            })
            .column("longest stretch", Unit::Word, 3, "as --range takes it", |e| {
                [e.longest_from_ns, e.longest_to_ns].map(since).join("..")
            })
            .column("where", Unit::Word, 4, "", |e| e.place.as_deref().map(file_name)),
    );
}

/// The changes, with the length of the run that each would lead to.
fn what_if(out: &mut Document, path: &CriticalPath) {
    let (heading, note) = ("what if", "length of the run replayed with one change");
    if path.what_if.is_empty() {
        let why = "not known: neither samples nor annotations name what is on the path, and no lock was recorded (record --locks)";
        out.refusal("what if", why);
    }
    out.table(
        Rows::new(heading, note, &path.what_if, usize::MAX)
            .column("length", Unit::Ns, 0, "", |w| w.length_ns)
            .column("shorter", Unit::Ratio, 0, "", |w| {
                share(w.gain_ns.max(0), path.replayed_ns.max(1))
            })
            .column("if", Unit::Sentence, 0, "", change),
    );
    // Per cent by which the replay differs from the run.
    let off = (path.replayed_ns - path.length_ns) as f64 / path.length_ns.max(1) as f64 * 100.0;
    out.note(format!(
        "check: the replay without a change takes {}, the run took {} ({off:+.2} %)",
        duration(path.replayed_ns as f64),
        duration(path.length_ns as f64)
    ));
}

/// A part of the path in words: code, a ready thread, a wait for something outside, or unknown time.
fn entry_text(e: &PathEntry, names: &ThreadNames<'_>) -> String {
    let thread = names.text(&e.thread, e.tid);
    let code = e.code.clone();
    match (e.kind, code.is_empty()) {
        ("run", true) => format!("{thread} (not annotated)"),
        ("run", false) => code,
        ("ready", _) => format!("{thread}: ready, without a CPU"),
        ("outside", true) => format!("{thread}: external wait"),
        ("outside", false) => format!("waits in {code}"),
        _ => "unknown: events lost or not recorded".into(),
    }
}

/// A change, in words that follow "if".
fn change(w: &WhatIf) -> String {
    let place = w.place.as_deref().map_or(String::new(), |p| format!(" ({})", file_name(p)));
    let name = &w.name;
    match w.change {
        "half" | "half_function" => format!("{name}{place} took half its time"),
        "half_wait" => format!("the waits in {name}{place} took half their time"),
        "half_held" => format!("the holders of lock `{name}`{place} took half the time"),
        "no_lock" => format!("no thread waited for lock `{name}`{place}"),
        _ => "the threads of each barrier had equal shares of the work".into(),
    }
}
