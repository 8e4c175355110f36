//! The account: a headline, a bar, and a table of what the capacity was spent on.
//!
//! ```text
//! where the time went
//!   you got 2.93 of 4 CPUs: 0.61 lost to imbalance in loop48, 0.22 to lock `queue`
//!   ##############################################BBBBBBBBBB....LLLL
//!      CPUS   SHARE     TIME  WHAT
//!   #  2.93  73.3 %   1.82 s  work: ...
//!   B  0.61  15.3 %   379 ms  load imbalance: ...
//! ```
//!
//! A class has a letter, which stands for it in all bars. Below a class stand its largest causes. The numbers add up to
//! the capacity exactly; what is below [`FINDING`] is listed in one line on the overview.
use super::Page;
use super::grid::{Grid, number, text, word};
use super::units::{duration, percent};
use kasuri_analyze::Summary;
use kasuri_analyze::account::{AccountSummary, CauseSummary, Class, ClassSum};
use kasuri_answers::account::{
    FINDING, MAX_OF_CLASS, by_size, cause_place, cause_text, class_of, headline_text,
    knows_account, last, meaning,
};
use kasuri_answers::class_paths::{class_lines, path_notes};
use kasuri_answers::names::{ThreadNames, thread_names};
use unicode_width::UnicodeWidthStr;

/// Columns of the screen before the text of a call path, and before the lines that say what a wait waited for.
const BEFORE_PATHS: usize = 34;
const BEFORE_CHAINS: usize = 12;

/// Letter of a class in the bar, and its colour (256 colours, readable on dark and light).
fn letter(class: Class) -> (char, u8) {
    match class {
        Class::Work => ('#', 34),
        Class::SystemCalls => ('k', 71),
        Class::TaskRuntime => ('r', 143),
        Class::Tracing => ('t', 246),
        Class::LockWait => ('L', 160),
        Class::LoadImbalance => ('B', 208),
        Class::WaitingForOwnThreads => ('W', 172),
        Class::IoWait => ('D', 33),
        Class::ExternalWait => ('Z', 68),
        Class::LowParallelism => ('.', 244),
        Class::Oversubscription => ('O', 133),
        Class::Interference => ('X', 169),
        Class::SchedulingDelay => ('s', 97),
        Class::Interrupts => ('i', 37),
        Class::Unknown => ('?', 240),
        Class::Other => ('o', 240),
        Class::ThrottledByCpuLimit => ('Q', 161),
        Class::Spinning => ('S', 166),
    }
}

/// How much of the account to print.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// The largest losses: on a screen of 80 columns nothing else moves out of sight.
    OneScreen,
    /// Every class, and where the worst stretch of each cause lies.
    Whole,
}

impl Page<'_> {
    /// The section of the account.
    pub(super) fn account(&mut self, s: &Summary, detail: Detail) {
        let a = &s.account;
        if !knows_account(s) {
            return;
        }
        let names = thread_names(s);
        self.heading("where the time went", "");
        self.item(&headline_text(s, &names));
        let bar = self.bar(a);
        self.line(&format!("  {bar}"));
        self.account_table(s, &names, detail);
        if detail == Detail::Whole {
            self.account_notes(a);
        }
    }

    /// One letter for an equal part of the capacity, every class with a finding at least one.
    fn bar(&self, a: &AccountSummary) -> String {
        // At most 100 cells, so that one is never less than a per cent.
        let width = self.layout.width.saturating_sub(4).clamp(20, 100);
        let mut bar = String::new();
        for (class, n) in shares(&a.classes, a.capacity_ns, width) {
            let (letter, colour) = letter(class);
            let part: String = std::iter::repeat_n(letter, n).collect();
            bar += &match self.layout.colour {
                true => format!("\u{1b}[38;5;{colour}m{part}\u{1b}[0m"),
                false => part,
            };
        }
        bar
    }

    /// Classes by size, useful ones first, each with its largest causes.
    fn account_table(&mut self, s: &Summary, names: &ThreadNames<'_>, detail: Detail) {
        let a = &s.account;
        let mut grid = Grid::new(&[
            word("", 0),
            number("CPUS", 0),
            number("SHARE", 0),
            number("TIME", 0),
            text("WHAT"),
            number("SPINNING", 2),
            word("LONGEST STRETCH", 1),
        ]);
        let share = |ns: i64| ns as f64 / a.capacity_ns as f64;
        let is_shown = |ns: i64| detail == Detail::Whole || share(ns) >= FINDING;
        let classes = by_size(&a.classes);
        let (shown, small): (Vec<&ClassSum>, Vec<&ClassSum>) =
            classes.into_iter().partition(|c| is_shown(c.ns));
        let n_paths = match detail {
            Detail::OneScreen => 1,
            Detail::Whole => MAX_OF_CLASS,
        };
        for class in shown {
            let kind = class_of(class.class);
            grid.row([
                letter(kind).0.to_string(),
                format!("{:.2}", class.cpus),
                percent(share(class.ns)),
                duration(class.ns as f64),
                format!("{}: {}", kind.label(), meaning(kind, s.program.by)),
                "-".into(),
                "-".into(),
            ]);
            let room = self.layout.width.saturating_sub(BEFORE_PATHS).max(30);
            // Causes come largest first. One that has nothing to add to its class is left to the class's row.
            let of_class = a.causes.iter().filter(|c| c.class == class.class);
            let found = of_class.filter(|c| share(c.ns) >= FINDING && kind != Class::Unknown);
            for cause in found.take(MAX_OF_CLASS) {
                let share = share(cause.ns);
                self.cause_lines(&mut grid, cause, share, s.call_paths.is_some(), names, detail);
            }
            let across = self.layout.width.saturating_sub(BEFORE_CHAINS).max(30);
            for line in class_lines(s.call_paths.as_ref(), kind, names, n_paths, [room, across]) {
                let Some(ns) = line.ns else {
                    grid.line_across(&format!("{:BEFORE_CHAINS$}{}", "", line.text));
                    continue;
                };
                grid.row([
                    String::new(),
                    format!("{:.2}", ns as f64 / s.wall_ns.max(1) as f64),
                    percent(share(ns)),
                    duration(ns as f64),
                    format!("    {}", line.text),
                    "-".into(),
                    "-".into(),
                ]);
            }
        }
        self.grid(grid, 0, 0);
        // What is too small for a row is still named: the numbers add up to the capacity.
        let small: Vec<String> = (small.iter())
            .map(|c| format!("{} {}", class_of(c.class).label(), percent(share(c.ns))))
            .collect();
        if !small.is_empty() {
            self.note(&format!("below 1 %: {}", small.join(", ")));
        }
        if let Some(paths) = &s.call_paths {
            for text in path_notes(s, paths, detail == Detail::Whole) {
                self.note(&text);
            }
        }
    }

    /// The row of a cause below its class, and the thread that was last where the row has no room for it.
    fn cause_lines(
        &self,
        grid: &mut Grid,
        cause: &CauseSummary,
        share: f64,
        has_paths: bool,
        names: &ThreadNames<'_>,
        detail: Detail,
    ) {
        let room = self.layout.width.saturating_sub(BEFORE_PATHS).max(30);
        let mut cells = self.cause_row(cause, share, names, detail, room);
        // On a narrow screen the call paths need the room of the last two columns.
        if has_paths && self.layout.width < 120 {
            cells[6] = "-".into();
            let spinning = std::mem::replace(&mut cells[5], "-".into());
            if cause.on_cpu_ns as f64 >= FINDING * cause.ns as f64 && spinning != "-" {
                cells[4] += &format!(", {spinning} spinning");
            }
        }
        // Where the thread that was last would push the name of the region out, it has a line of its own, or on one screen none.
        let last = last(cause, names);
        let has_room = cells[4].width() + last.width() <= room || last.is_empty();
        if has_room {
            cells[4] += &last;
        }
        grid.row(cells);
        if !has_room && detail == Detail::Whole {
            let last = last.trim_start_matches(", ");
            grid.line_across(&format!("{:BEFORE_CHAINS$}{last}", ""));
        }
    }

    /// The cells of a cause below its class, with its place where `room` is enough. On one screen there is no room for how it was spent.
    fn cause_row(
        &self,
        cause: &CauseSummary,
        share: f64,
        names: &ThreadNames<'_>,
        detail: Detail,
        room: usize,
    ) -> [String; 7] {
        let text = |place: &str| format!("    {}", cause_text(cause, names, false, place));
        let placed = text(&cause_place(cause));
        [
            String::new(),
            format!("{:.2}", cause.cpus),
            percent(share),
            duration(cause.ns as f64),
            match placed.width() <= room {
                true => placed,
                false => text(""),
            },
            match (detail, cause.on_cpu_ns) {
                (Detail::OneScreen, _) | (_, 0) => "-".into(),
                (_, ns) => duration(ns as f64),
            },
            match detail {
                Detail::OneScreen => "-".into(),
                Detail::Whole => self.stretch(cause),
            },
        ]
    }

    /// The longest stretch in ms since the recording's start, as `--range` takes it.
    fn stretch(&self, cause: &CauseSummary) -> String {
        let since = |ns: i64| (ns - self.layout.start_ns) as f64 * 1e-6;
        format!("{:.3}ms..{:.3}ms", since(cause.longest_from_ns), since(cause.longest_to_ns))
    }

    /// How much of the lost time has a known cause, and commands that show more.
    fn account_notes(&mut self, a: &AccountSummary) {
        let is_lost = |c: &ClassSum| c.ns > 0 && !class_of(c.class).is_useful();
        let mut notes = match a.classes.iter().any(is_lost) {
            true => vec![format!("{} of the lost time has a known cause", percent(a.named_share))],
            false => vec!["nothing was lost".into()],
        };
        if !a.knows_syscalls {
            notes.push(
                "work includes system calls (kasuri record --syscalls separates them)".into(),
            );
        }
        if !self.layout.file.is_empty() {
            let file = &self.layout.file;
            notes.push(format!("one stretch: kasuri stat --range A..B {file}"));
        }
        self.note(&notes.join("; "));
    }
}

/// A bar without colour, for a cell.
pub(super) fn small_bar(classes: &[ClassSum]) -> String {
    let all: i64 = classes.iter().map(|c| c.ns).sum();
    shares(classes, all, 20)
        .into_iter()
        .flat_map(|(class, n)| std::iter::repeat_n(letter(class).0, n))
        .collect()
}

/// Cells of a bar of `width` for each class, by the method of largest remainders: whole cells first, and the cells that
/// are left over go to the classes with the largest fractions, so that the sum is `width`.
fn shares(classes: &[ClassSum], capacity: i64, width: usize) -> Vec<(Class, usize)> {
    let exact = |ns: i64| ns as f64 * width as f64 / capacity.max(1) as f64;
    let mut cells: Vec<(Class, usize, f64)> = by_size(classes)
        .into_iter()
        .map(|c| {
            let exact = exact(c.ns);
            (class_of(c.class), exact as usize, exact.fract())
        })
        .collect();
    // Cells that rounding down left over.
    let used: usize = cells.iter().map(|c| c.1).sum();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by(|&a, &b| cells[b].2.total_cmp(&cells[a].2));
    for &at in order.iter().take(width.saturating_sub(used)) {
        cells[at].1 += 1;
    }
    cells.into_iter().map(|(class, n, _)| (class, n)).collect()
}
