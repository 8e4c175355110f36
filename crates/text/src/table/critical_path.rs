//! The critical path as text: what to shorten first, by how much the run would shrink.
use super::grid::{Grid, number, text, word};
use super::units::{count, duration, percent, printable};
use super::{Layout, Page, sections::file_name};
use kasuri_analyze::critical_path::{CriticalPath, PathEntry, WhatIf};

/// The path as text, ending with a line feed.
pub fn render_critical_path(path: &CriticalPath, layout: &Layout) -> String {
    let mut page = Page {
        layout,
        text: String::new(),
    };
    page.critical_path(path);
    page.what_if(path);
    page.text
}

impl Page<'_> {
    fn critical_path(&mut self, path: &CriticalPath) {
        let title = format!(
            "critical path: {} of {}, {} hops between threads",
            duration(path.entries.iter().map(|e| e.ns).sum::<i64>() as f64),
            duration(path.length_ns as f64),
            count(path.hops)
        );
        let title = self.styled("1", &title);
        self.line(&title);
        let mut grid = Grid::new(&[
            number("TIME", 0),
            number("SHARE", 0),
            text("WHAT"),
            number("TIMES", 1),
            word("THREAD", 2),
            word("LONGEST STRETCH", 3),
            word("WHERE", 4),
        ]);
        let shown = self.shown(path.entries.len());
        for e in &path.entries[..shown] {
            let since = |ns: i64| (ns - self.layout.start_ns) as f64 * 1e-6;
            grid.row([
                duration(e.ns as f64),
                percent(e.ns as f64 / path.length_ns.max(1) as f64),
                what(e),
                count(e.count),
                if e.threads > 1 {
                    format!("{} threads", e.threads)
                } else {
                    printable(&e.thread)
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

    fn what_if(&mut self, path: &CriticalPath) {
        self.heading("what if", "the run replayed with one thing changed");
        let per_cent = |ns: i64| percent(ns as f64 / path.replayed_ns.max(1) as f64);
        for w in &path.what_if {
            let line = format!(
                "  {:>9}  {:>7} shorter  {}",
                duration(w.length_ns as f64),
                per_cent(w.gain_ns.max(0)),
                change(w)
            );
            self.line(&line);
        }
        let off = (path.replayed_ns - path.length_ns) as f64 / path.length_ns.max(1) as f64 * 100.0;
        let check = format!(
            "  replayed with nothing changed: {}, the run took {} ({off:+.2} %)",
            duration(path.replayed_ns as f64),
            duration(path.length_ns as f64)
        );
        let check = self.styled("2", &check);
        self.line(&check);
    }
}

fn what(e: &PathEntry) -> String {
    let code = printable(&e.code);
    match (e.kind, code.is_empty()) {
        ("run", true) => format!("{} (not annotated)", printable(&e.thread)),
        ("run", false) => code,
        ("ready", _) => format!("{}: ready, waiting for a CPU", printable(&e.thread)),
        ("outside", _) => format!(
            "{}: asleep until an interrupt or another program",
            printable(&e.thread)
        ),
        _ => "unknown: events lost or not recorded".into(),
    }
}

fn change(w: &WhatIf) -> String {
    let place = w
        .place
        .as_deref()
        .map_or(String::new(), |p| format!(" ({})", file_name(p)));
    let name = printable(&w.name);
    match w.change {
        "half" => format!("if {name}{place} took half its time"),
        "no_lock" => format!("if nobody waited for lock `{name}`{place}"),
        _ => "if every barrier's threads had equal shares".into(),
    }
}
