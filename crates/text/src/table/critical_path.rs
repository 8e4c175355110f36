//! The critical path as text: what to shorten first, by how much the run would shrink.
//!
//! Two tables. The first has the parts of the path, largest first, with the time that each takes of it. The second
//! has changes, and the length of the run when it is replayed with one of them. The replay without a change is
//! printed below as a check: its length should be that of the run.
use super::grid::{Grid, number, sentence, text, word};
use super::names::ThreadNames;
use super::units::file_name;
use super::units::{count, duration, percent, plural, printable};
use super::{Layout, Page};
use kasuri_analyze::critical_path::{CriticalPath, PathEntry, WhatIf};

/// The path as text, ending with a line feed.
pub fn render_critical_path(path: &CriticalPath, layout: &Layout) -> String {
    let mut page = Page {
        layout,
        text: String::new(),
    };
    let threads = path.entries.iter().map(|e| (e.thread.as_str(), e.tid));
    page.critical_path(path, &ThreadNames::new(threads));
    page.what_if(path);
    page.text
}

impl Page<'_> {
    /// The parts of the path. `LONGEST STRETCH` is in ms since the recording's start, as `--range` takes it.
    fn critical_path(&mut self, path: &CriticalPath, names: &ThreadNames<'_>) {
        let title = format!(
            "critical path: {} of {}, changing thread {}",
            duration(path.entries.iter().map(|e| e.ns).sum::<i64>() as f64),
            duration(path.length_ns as f64),
            plural(path.hops, "time")
        );
        let title = self.styled("1", &title);
        self.line(&title);
        let mut grid = Grid::new(&[
            number("TIME", 0),
            number("SHARE", 0),
            text("WHAT"),
            number("TIMES", 1),
            text("THREAD"),
            word("LONGEST STRETCH", 3),
            word("WHERE", 4),
        ]);
        let shown = self.shown(path.entries.len());
        for e in &path.entries[..shown] {
            // As `--range` of other commands takes it: ms from the recording's start.
            let since = |ns: i64| (ns - self.layout.start_ns) as f64 * 1e-6;
            grid.row([
                duration(e.ns as f64),
                percent(e.ns as f64 / path.length_ns.max(1) as f64),
                entry_text(e, names),
                count(e.count),
                if e.threads > 1 {
                    format!("{} threads", e.threads)
                } else {
                    names.text(&e.thread, e.tid)
                },
                format!(
                    "{:.3}ms..{:.3}ms",
                    since(e.longest_from_ns),
                    since(e.longest_to_ns)
                ),
                e.place.as_deref().map_or("-", file_name).into(),
            ]);
        }
        self.grid(grid, shown, path.entries.len());
    }

    /// The changes, with the length of the run that each would lead to.
    fn what_if(&mut self, path: &CriticalPath) {
        self.heading("what if", "length of the run replayed with one change");
        let per_cent = |ns: i64| percent(ns as f64 / path.replayed_ns.max(1) as f64);
        let mut grid = Grid::new(&[number("LENGTH", 0), number("SHORTER", 0), sentence("IF")]);
        for w in &path.what_if {
            grid.row([
                duration(w.length_ns as f64),
                per_cent(w.gain_ns.max(0)),
                change(w),
            ]);
        }
        // Per cent by which the replay differs from the run.
        let off = (path.replayed_ns - path.length_ns) as f64 / path.length_ns.max(1) as f64 * 100.0;
        let check = format!(
            "check: the replay without a change takes {}, the run took {} ({off:+.2} %)",
            duration(path.replayed_ns as f64),
            duration(path.length_ns as f64)
        );
        match path.what_if.is_empty() {
            true => self.item("nothing to change: no annotation and no lock is on the path"),
            false => self.grid(grid, 0, 0),
        }
        self.note(&check);
    }
}

/// A part of the path in words: code, a ready thread, a wait for something outside, or unknown time.
fn entry_text(e: &PathEntry, names: &ThreadNames<'_>) -> String {
    let thread = names.text(&e.thread, e.tid);
    let code = printable(&e.code);
    match (e.kind, code.is_empty()) {
        ("run", true) => format!("{thread} (not annotated)"),
        ("run", false) => code,
        ("ready", _) => format!("{thread}: ready, without a CPU"),
        ("outside", _) => format!("{thread}: external wait"),
        _ => "unknown: events lost or not recorded".into(),
    }
}

/// A change, in words that follow "if".
fn change(w: &WhatIf) -> String {
    let place = w
        .place
        .as_deref()
        .map_or(String::new(), |p| format!(" ({})", file_name(p)));
    let name = printable(&w.name);
    match w.change {
        "half" => format!("{name}{place} took half its time"),
        "half_held" => format!("the holders of lock `{name}`{place} took half the time"),
        "no_lock" => format!("no thread waited for lock `{name}`{place}"),
        _ => "the threads of each barrier had equal shares of the work".into(),
    }
}
