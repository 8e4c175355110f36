//! `kasuri top`: one window as lines of text, for a screen and for a pipe alike.
use super::grid::cut;
use super::units::{count, duration, percent, plural, printable};
use kasuri_live::{ProcessRow, ThreadRow, Wait, Window};
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopSort {
    /// CPU time.
    #[default]
    Cpu,
    /// Time able to run and not on a CPU.
    Ready,
    /// Of that, the part in which others had the CPU.
    Others,
    /// Switches.
    Switches,
}

impl TopSort {
    /// All, with their names.
    pub const ALL: [(&'static str, TopSort); 4] = [
        ("cpu", TopSort::Cpu),
        ("ready", TopSort::Ready),
        ("others", TopSort::Others),
        ("switches", TopSort::Switches),
    ];

    fn name(self) -> &'static str {
        let named = TopSort::ALL.iter().find(|(_, sort)| *sort == self);
        named.map_or("", |(name, _)| name)
    }

    fn key(self, run_ns: u64, wait: &Wait, switches: u64) -> u64 {
        match self {
            TopSort::Cpu => run_ns,
            TopSort::Ready => wait.sum_ns(),
            TopSort::Others => wait.others_ns,
            TopSort::Switches => switches,
        }
    }
}

/// What is shown, and how.
#[derive(Clone, Debug)]
pub struct TopView {
    /// Columns of the screen.
    pub width: usize,
    /// Rows of the table at most.
    pub rows: usize,
    /// A row for each thread instead of each process.
    pub threads: bool,
    /// The order of the rows.
    pub sort: TopSort,
    /// Only what has this in its name, or is this number; empty: all.
    pub filter: String,
}

/// What the events do not tell.
#[derive(Clone, Debug, Default)]
pub struct TopFacts {
    /// CPU time of kasuri itself in the window, ns.
    pub own_ns: u64,
    /// Events that the kernel lost in the window.
    pub lost: u64,
    /// Time of day at the end of the window, UTC.
    pub clock: String,
    /// Where blocked threads wait as the window ends, by process or thread.
    pub blocked_in: BTreeMap<i32, BlockedIn>,
    /// CPU limits: process, CPUs, ns for which its cgroup was held off in the window.
    pub limits: Vec<(i32, f64, u64)>,
}

/// System calls in which the blocked threads of a process wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockedIn {
    /// The calls, and how many threads wait in each.
    pub calls: Vec<(String, usize)>,
    /// Blocked threads that were not asked, because there are so many.
    pub not_asked: usize,
}

/// The columns of numbers: heading and width.
const COLUMNS: [(&str, usize); 7] =
    [("THR", 4), ("CPUS", 5), ("READY", 5), ("OTHERS", 6), ("IMBAL", 5), ("SW/S", 6), ("P99", 7)];

/// Columns of a name.
const NAME: usize = 13;

/// The lines of a window. The heading of the table is the last line before its rows.
pub fn top(window: &Window, facts: &TopFacts, view: &TopView) -> TopPage {
    let mut page = TopPage::default();
    head(&mut page.lines, window, facts);
    let shown = match view.threads {
        true => thread_rows(window, facts, view),
        false => process_rows(window, facts, view),
    };
    let filter = match view.filter.is_empty() {
        true => String::new(),
        false => format!("; only /{}/", printable(&view.filter)),
    };
    let what = if view.threads { "threads" } else { "processes" };
    page.lines.push(format!(
        "{} of {} {what}, by {}{filter}",
        shown.rows.len(),
        shown.all,
        view.sort.name(),
    ));
    page.heading = page.lines.len();
    page.lines.push(heading(view.threads));
    page.lines.extend(shown.rows);
    for line in &mut page.lines {
        *line = fitted(line, view.width);
    }
    page
}

/// A window as lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopPage {
    /// The lines, none wider than the screen.
    pub lines: Vec<String>,
    /// The line that heads the table.
    pub heading: usize,
}

fn fitted(line: &str, width: usize) -> String {
    let line = line.trim_end();
    if line.width() <= width {
        return line.to_owned();
    }
    let mut out = String::new();
    for c in line.chars() {
        out.push(c);
        if out.width() > width {
            out.pop();
            break;
        }
    }
    out
}

fn head(lines: &mut Vec<String>, window: &Window, facts: &TopFacts) {
    let seconds = window.length_ns() as f64 / 1e9;
    let per_second = |n: u64| count((n as f64 / seconds).round() as u64);
    lines.push(format!(
        "kasuri top  {}  last {}  kasuri itself {} of a CPU",
        facts.clock,
        duration(window.length_ns() as f64),
        percent(window.cpus(facts.own_ns)),
    ));
    let share = |ns: u64| percent(window.cpus(ns) / window.n_cpus.max(1) as f64);
    let unknown = match window.unknown_ns {
        0 => String::new(),
        ns => format!(", not known yet {:.2}", window.cpus(ns)),
    };
    lines.push(format!(
        "CPUs    {:.2} of {} busy ({}), {:.2} idle{unknown}",
        window.cpus(window.busy_ns),
        window.n_cpus,
        share(window.busy_ns),
        window.cpus(window.idle_ns),
    ));
    let mut wait = Wait::default();
    for process in &window.processes {
        wait.add(&process.wait);
    }
    lines.push(format!(
        "Ready   {:.2} threads without a CPU; others had it for {:.2}, own for {:.2}",
        window.cpus(wait.sum_ns()),
        window.cpus(wait.others_ns),
        window.cpus(wait.own_ns),
    ));
    let at = |share: f64| {
        let found = window.latencies.percentile(share);
        found.map_or("-".to_owned(), |ns| duration(ns as f64))
    };
    lines.push(format!("Wakeups median {} to a CPU, 99 % within {}", at(0.5), at(0.99)));
    if let Some(worst) = &window.worst {
        lines.push(format!(
            "Longest {}: {}/{} on CPU {}, ended {} before the end",
            duration(worst.ns as f64),
            printable(&worst.name),
            worst.tid,
            worst.cpu,
            duration(window.end_ns.saturating_sub(worst.at_ns) as f64),
        ));
    }
    let lost = match (facts.lost, window.gaps) {
        (0, 0) => "none lost".to_owned(),
        (n, 0) => format!("{} lost", count(n)),
        (n, gaps) => {
            format!("{} lost, {}: what those CPUs did is not known", count(n), plural(gaps, "gap"))
        }
    };
    lines.push(format!(
        "Events  {} switches/s, {} wake-ups/s, {lost}",
        per_second(window.switches),
        per_second(window.wakeups),
    ));
    for (pid, cpus, ns) in facts.limits.iter().filter(|limit| limit.2 > 0) {
        lines.push(format!(
            "Limit   process {pid} was held off for {} by a limit of {cpus:.2} CPUs",
            duration(*ns as f64),
        ));
    }
}

fn heading(threads: bool) -> String {
    let mut line = format!("{:>7} {:<NAME$}", if threads { "TID" } else { "PID" }, "NAME");
    for (name, width) in COLUMNS {
        if threads && (name == "IMBAL" || name == "P99") {
            continue;
        }
        let (name, width) = match name {
            "THR" if threads => ("PID", 7),
            name => (name, width),
        };
        line += &format!(" {name:>width$}");
    }
    line + " BLOCKED IN"
}

struct Rows {
    rows: Vec<String>,
    /// How many fit the filter.
    all: usize,
}

fn rows<T>(
    of: &[T],
    view: &TopView,
    fits: impl Fn(&T) -> bool,
    key: impl Fn(&T) -> u64,
    text: impl Fn(&T) -> String,
) -> Rows {
    let mut wanted: Vec<&T> = of.iter().filter(|row| fits(row)).collect();
    wanted.sort_by_key(|row| std::cmp::Reverse(key(row)));
    Rows { all: wanted.len(), rows: wanted.iter().take(view.rows).map(|row| text(row)).collect() }
}

fn fits(view: &TopView, name: &str, numbers: [i32; 2]) -> bool {
    view.filter.is_empty()
        || name.contains(&view.filter)
        || numbers.iter().any(|n| n.to_string() == view.filter)
}

fn process_rows(window: &Window, facts: &TopFacts, view: &TopView) -> Rows {
    let switches = |row: &ProcessRow| row.blocked + row.preempted;
    let text = |row: &ProcessRow| {
        let p99 = row.latencies.percentile(0.99);
        let (pid, name) = match row.pid {
            0 => ("-".to_owned(), "(not known)".to_owned()),
            pid => (pid.to_string(), printable(&row.name)),
        };
        let numbers = [
            row.n_threads.to_string(),
            format!("{:.2}", window.cpus(row.run_ns)),
            format!("{:.2}", window.cpus(row.wait.sum_ns())),
            format!("{:.2}", window.cpus(row.wait.others_ns)),
            row.imbalance.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            per_second(window, switches(row)),
            p99.map_or("-".to_owned(), |ns| duration(ns as f64)),
        ];
        let widths = COLUMNS.map(|(_, width)| width);
        line(&pid, &name, numbers.iter().zip(widths), &blocked(facts, row.pid))
    };
    rows(
        &window.processes,
        view,
        |row| fits(view, &row.name, [row.pid; 2]),
        |row| view.sort.key(row.run_ns, &row.wait, switches(row)),
        text,
    )
}

fn thread_rows(window: &Window, facts: &TopFacts, view: &TopView) -> Rows {
    let switches = |row: &ThreadRow| row.blocked + row.preempted;
    let text = |row: &ThreadRow| {
        let pid = match row.pid {
            0 => "-".to_owned(),
            pid => pid.to_string(),
        };
        let numbers = [
            pid,
            format!("{:.2}", window.cpus(row.run_ns)),
            format!("{:.2}", window.cpus(row.wait.sum_ns())),
            format!("{:.2}", window.cpus(row.wait.others_ns)),
            per_second(window, switches(row)),
        ];
        let widths = [7, COLUMNS[1].1, COLUMNS[2].1, COLUMNS[3].1, COLUMNS[5].1];
        let blocked = match row.has_ended {
            true => "(ended)".to_owned(),
            false => blocked(facts, row.tid),
        };
        let name = printable(&row.name);
        line(&row.tid.to_string(), &name, numbers.iter().zip(widths), &blocked)
    };
    rows(
        &window.threads,
        view,
        |row| fits(view, &row.name, [row.pid, row.tid]),
        |row| view.sort.key(row.run_ns, &row.wait, switches(row)),
        text,
    )
}

fn per_second(window: &Window, n: u64) -> String {
    count((n as f64 * 1e9 / window.length_ns() as f64).round() as u64)
}

fn line<'a>(
    number: &str,
    name: &str,
    numbers: impl Iterator<Item = (&'a String, usize)>,
    blocked: &str,
) -> String {
    let name = cut(name, NAME);
    let pad = NAME.saturating_sub(name.width());
    let mut out = format!("{number:>7} {name}{:pad$}", "");
    for (text, width) in numbers {
        out += &format!(" {text:>width$}");
    }
    format!("{out} {blocked}")
}

fn blocked(facts: &TopFacts, of: i32) -> String {
    let Some(found) = facts.blocked_in.get(&of) else {
        return String::new();
    };
    let text = |(name, n): &(String, usize)| match n {
        1 => name.clone(),
        n => format!("{name} {n}"),
    };
    let mut words: Vec<String> = found.calls.iter().map(text).collect();
    words.extend((found.not_asked > 0).then(|| format!("? {}", found.not_asked)));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        let process = |pid: i32, name: &str, run_ns: u64, others_ns: u64| ProcessRow {
            pid,
            name: name.to_owned(),
            n_threads: 2,
            run_ns,
            wait: Wait { own_ns: 50_000_000, others_ns, idle_ns: 1_000 },
            blocked: 100,
            preempted: 3,
            imbalance: Some(0.25),
            ..ProcessRow::default()
        };
        Window {
            start_ns: 1_000_000_000,
            end_ns: 2_000_000_000,
            n_cpus: 2,
            busy_ns: 1_500_000_000,
            idle_ns: 500_000_000,
            events: 1000,
            switches: 500,
            wakeups: 200,
            processes: vec![
                process(4711, "server", 1_400_000_000, 0),
                process(4712, "a\u{1b}[2Jvery-long-name-of-one", 100_000_000, 700_000_000),
            ],
            ..Window::default()
        }
    }

    fn view() -> TopView {
        TopView { width: 80, rows: 10, threads: false, sort: TopSort::Cpu, filter: String::new() }
    }

    #[test]
    fn lines_fit_the_screen_and_names_do_not_steer_it() {
        for width in [80, 100, 40] {
            let view = TopView { width, ..view() };
            let page = top(&window(), &TopFacts::default(), &view);
            for line in &page.lines {
                assert!(line.width() <= width, "{line}");
                assert!(!line.contains('\u{1b}'), "{line}");
            }
        }
    }

    #[test]
    fn numbers_are_cpus_of_the_window() {
        let mut facts = TopFacts::default();
        let blocked = BlockedIn {
            calls: vec![("futex".to_owned(), 2), ("read".to_owned(), 1)],
            not_asked: 7,
        };
        facts.blocked_in.insert(4711, blocked);
        facts.limits.push((4712, 0.5, 250_000_000));
        let page = top(&window(), &facts, &TopView { width: 120, ..view() });
        let server = &page.lines[page.heading + 1];
        let words: Vec<&str> = server.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "4711", "server", "2", "1.40", "0.05", "0.00", "25", "%", "103", "-", "futex",
                "2,", "read,", "?", "7"
            ]
        );
        assert!(page.lines[1].contains("1.50 of 2 busy (75.0 %), 0.50 idle"));
        let limit = "process 4712 was held off for 250 ms by a limit of 0.50 CPUs";
        assert!(page.lines.iter().any(|line| line.contains(limit)), "{:#?}", page.lines);
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        let first = |view: &TopView| {
            let page = top(&window(), &TopFacts::default(), view);
            page.lines.get(page.heading + 1).cloned().unwrap_or_default()
        };
        assert!(first(&view()).contains("4711"));
        let others = TopView { sort: TopSort::Others, ..view() };
        assert!(first(&others).contains("4712"));
        let filtered = TopView { filter: "4712".to_owned(), ..view() };
        assert!(first(&filtered).contains("4712"));
        let none = TopView { filter: "nothing".to_owned(), ..view() };
        assert_eq!(first(&none), "");
    }
}
