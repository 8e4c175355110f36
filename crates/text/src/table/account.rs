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
use super::call_paths::{class_lines, path_notes};
use super::grid::{Grid, number, text, word};
use super::units::{duration, percent, plural, printable};
use kasuri_analyze::account::{AccountSummary, CauseSummary, Class, ClassSum};
use kasuri_analyze::call_paths::{is_gil, public_name};
use kasuri_analyze::short_name;
use kasuri_analyze::{ProgramBy, Summary, THIS_RECORDER};
use kasuri_answers::account::{FINDING, class_of, knows_account};
use kasuri_answers::names::{ThreadNames, thread_names};
use kasuri_base::call_path::SPIN_LOOP;
use unicode_width::UnicodeWidthStr;

/// Most causes of one class in the table, and in the headline.
pub(super) const MAX_OF_CLASS: usize = 3;
const MAX_IN_HEADLINE: usize = 3;
/// A cause with this part of its time from one thread is that one's.
const ONE_THREAD: f64 = 0.95;

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

/// What a class holds.
pub(super) fn meaning(class: Class, by: ProgramBy) -> &'static str {
    match (class, by) {
        (Class::Work, ProgramBy::Nobody) => "the own code of any process",
        (Class::Tracing, ProgramBy::Nobody) => "writing the trace",
        _ => class.meaning(),
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

/// A lock of which samples know only the function that asks for it, and the file that it is, if it is one.
fn sampled_lock(asks: &str, lock: &str) -> String {
    let lock = match lock.strip_prefix("file ") {
        Some(path) => format!("the lock of file {}", super::units::file_name(path)),
        None if lock.is_empty() => "a lock".into(),
        None => format!("the lock of {}", public_name(lock)),
    };
    match asks {
        "" => format!("{lock}, as samples say"),
        _ if is_gil(asks) => "Python's GIL".into(),
        _ => format!("{lock} that {} asks for", asker(asks)),
    }
}

/// Who asks for a lock or a sleep: a function, or as in call paths a program or library whose functions have no names.
fn asker(name: &str) -> String {
    match name.starts_with('/') {
        true => format!("[{}]", super::units::file_name(name)),
        false => short_name(name),
    }
}

/// A cause's place in the source, ` (omp.c:6)`; empty: not known, or its class has none.
fn cause_place(cause: &CauseSummary) -> String {
    let place = match (class_of(cause.class), cause.note) {
        (Class::LockWait, note) if note != "by_samples" && !cause.name.is_empty() => &cause.place,
        (Class::LoadImbalance, _)
        | (Class::LowParallelism, "serial_phase")
        | (Class::ExternalWait | Class::IoWait, _)
        | (Class::Spinning, "late_thread")
            if !cause.code.is_empty() =>
        {
            &cause.code_place
        }
        _ => &None,
    };
    let place = place.as_deref().map(super::units::file_name);
    place.map_or(String::new(), |place| format!(" ({place})"))
}

/// A cause, in words that follow "lost to"; `in_sentence`: its class does not stand above it. `place`: see [`cause_place`].
pub(super) fn cause_text(
    cause: &CauseSummary,
    names: &ThreadNames<'_>,
    in_sentence: bool,
    place: &str,
) -> String {
    let thread = match cause.tid {
        Some(_) if cause.processes > 1 => {
            format!("{} processes {}", cause.processes, cause.thread)
        }
        Some(tid) => format!("thread {}", names.text(&cause.thread, tid)),
        None => "another thread".into(),
    };
    // The name is that of the wait; the code is what the awaited thread ran meanwhile, which tells more.
    let (name, code) = (&cause.name, &cause.code);
    let has_code = !code.is_empty();
    let text = match (class_of(cause.class), cause.note) {
        (Class::LockWait, "by_samples") => sampled_lock(name, code),
        (Class::LockWait, _) if name.is_empty() => format!("lock {:#x}", cause.object),
        (Class::LockWait, _) => format!("lock `{name}`{place}"),
        (Class::LoadImbalance, _) if has_code => format!("imbalance in {code}{place}"),
        (Class::LoadImbalance, "by_samples") => format!("waiting at a barrier for {thread}"),
        (Class::LoadImbalance, _) if !name.is_empty() => format!("waiting at {name}"),
        (Class::LoadImbalance, _) => format!("waiting for the end of {thread}"),
        (Class::WaitingForOwnThreads, "polled") => {
            format!("naps between tries in {}", asker(name))
        }
        (Class::WaitingForOwnThreads, _) => {
            let at = match name.as_str() {
                "" => String::new(),
                name => format!("{name}: "),
            };
            let code = match has_code {
                true => format!(" in {code}"),
                false => String::new(),
            };
            format!("{at}waiting for {thread}{code}")
        }
        (Class::IoWait, _) if name.is_empty() && has_code => {
            format!("the disk or another device, waited for in {code}{place}")
        }
        (Class::IoWait, _) if name.is_empty() => "the disk (uninterruptible sleep)".into(),
        (Class::IoWait, _) => format!("I/O {name}"),
        (Class::ExternalWait, _) => external_text(cause, place),
        (Class::LowParallelism, "serial_phase") => serial_text(cause, &thread, place),
        (Class::LowParallelism, "not_started") => "the time before the program began".into(),
        (Class::LowParallelism, "ended") => "the time after the program ended".into(),
        (Class::LowParallelism, "none_ran") => "fewer threads than CPUs, while none ran".into(),
        (Class::LowParallelism, "idle_worker") => "workers that found no task".into(),
        (Class::LowParallelism, _) => "fewer threads than CPUs".into(),
        (Class::Oversubscription, "late_thread") => match in_sentence {
            true => format!("oversubscription ({thread} was last at a barrier)"),
            false => format!("{thread}, last at a barrier"),
        },
        (Class::Oversubscription, _) => match in_sentence {
            true => format!("oversubscription ({thread} was waited for)"),
            false => format!("{thread}, waited for by others"),
        },
        (Class::Interference, _) if name.is_empty() => "other programs".into(),
        // Of the recorder's own this says so.
        (Class::Interference, _) if !cause.process.is_empty() => {
            format!("process {}", cause.process)
        }
        (Class::Interference, _) => format!("process {name}"),
        (Class::SchedulingDelay, "placement") => {
            "ready threads queued on another CPU (placement, affinity)".into()
        }
        (Class::SchedulingDelay, _) => "wake-up delays".into(),
        (Class::ThrottledByCpuLimit, _) if name.is_empty() => "its CPU limit".into(),
        (Class::ThrottledByCpuLimit, _) => format!("its CPU limit, {name}"),
        (Class::Spinning, _) => spinning_text(cause, &thread, place),
        (Class::TaskRuntime, _) if has_code => {
            format!("task runtime {}", super::units::file_name(code))
        }
        (Class::Interrupts, _) => format!("interrupt {name}"),
        (Class::SystemCalls, _) => format!("system call {name}"),
        (Class::Unknown, "uninterruptible") => {
            "uninterruptible sleep (D); what ended it was not recorded".into()
        }
        (Class::Unknown, _) => "unknown: events lost or not recorded".into(),
        (class, _) => class.label().into(),
    };
    printable(&text)
}

/// What ran alone.
fn serial_text(cause: &CauseSummary, thread: &str, place: &str) -> String {
    match (cause.code.as_str(), cause.processes) {
        ("", n) if n > 1 => format!("a serial phase: {thread} in turn"),
        ("", _) if cause.thread_share < ONE_THREAD => {
            "a serial phase: one thread at a time ran".into()
        }
        ("", _) => format!("a serial phase: only {thread} ran"),
        // One after the other, or, as Go's threads do, in turns.
        (code, _) if cause.thread_share < ONE_THREAD => {
            format!("serial phase {code}{place}: one thread at a time ran")
        }
        (code, _) => format!("serial phase {code}{place}: only {thread} ran"),
    }
}

/// What ended a wait from outside.
fn external_text(cause: &CauseSummary, place: &str) -> String {
    let (name, code) = (&cause.name, &cause.code);
    match cause.note {
        "process" if code.is_empty() => format!("waiting for process {}", cause.process),
        "process" => format!("waiting for process {} in {code}{place}", cause.process),
        "chosen" if name.is_empty() => "sleep that it asked for".into(),
        "chosen" => format!("sleep that {} asks for", asker(name)),
        "time_limit" => format!("a time limit in {code}{place}: no thread ended that wait before"),
        "interrupt" if name.is_empty() && code.is_empty() => {
            "sleep ended by a timer, a device, the network".into()
        }
        "interrupt" if name.is_empty() => {
            format!("a timer, a device or the network, waited for in {code}{place}")
        }
        "stopped" => "being stopped by a signal or a debugger".into(),
        "endless" => "waits that did not end in this recording".into(),
        _ => format!("{name}: ended by a timer, a device, the network or a timeout"),
    }
}

/// Where a thread spins: in what it called to wait, or for the only thread that had anything to run.
fn spinning_text(cause: &CauseSummary, thread: &str, place: &str) -> String {
    // A loop without a function's name has that of its module.
    let name = cause.name.trim_start_matches(SPIN_LOOP);
    match (cause.note, name, cause.code.as_str()) {
        ("late_thread", _, code) => format!("spinning for the last in {code}{place}"),
        ("serial_phase", _, "") => format!("spinning while only {thread} ran"),
        ("serial_phase", _, code) => format!("spinning while only {thread} ran, in {code}"),
        (_, "", "") => "spinning".into(),
        (_, "", at) | (_, at, "") => format!("spinning in {at}"),
        (_, at, by) => format!("spinning in {at} < {by}"),
    }
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

/// The account in one sentence, for other pages than this one; empty where nothing is known of the CPUs.
pub fn headline(s: &Summary) -> String {
    match knows_account(s) {
        true => headline_text(s, &thread_names(s)),
        false => String::new(),
    }
}

/// "you got 2.93 of 4 CPUs: 0.61 lost to imbalance in loop48, ...".
pub(super) fn headline_text(s: &Summary, names: &ThreadNames<'_>) -> String {
    let a = &s.account;
    let b = &a.bounds;
    if s.program.by == ProgramBy::Nobody {
        return format!(
            "together the {} processes got {:.2} of {}; what one of them lost is not known before it is chosen (--process)",
            super::units::count(s.program.n_processes.into()),
            a.got_cpus,
            plural(a.n_cpus.into(), "CPU")
        );
    }
    // The largest causes; only the first one says "lost". What is useful is no loss, and comes before the colon.
    let is_large = |c: &&CauseSummary| c.ns as f64 >= FINDING * a.capacity_ns as f64;
    let is_lost = |c: &&CauseSummary| !class_of(c.class).is_useful();
    let (others, own): (Vec<&CauseSummary>, Vec<&CauseSummary>) = (a.causes.iter())
        .filter(is_lost)
        .filter(is_large)
        .partition(|c| class_of(c.class) == Class::Interference);
    // What no thread could use while none ran says nothing of why: that comes first.
    let mut found: Vec<(bool, f64, String)> = (own.into_iter())
        .map(|c| match class_of(c.class) {
            // The text before the colon names the limit already.
            Class::ThrottledByCpuLimit if c.name == b.limit => (false, c.cpus, "that limit".into()),
            _ => (c.note == "none_ran", c.cpus, cause_text(c, names, true, &cause_place(c))),
        })
        .collect();
    let is_recorder = |c: &&CauseSummary| c.process.ends_with(THIS_RECORDER);
    let (recorder, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_recorder);
    found.extend(other_programs(&others, names));
    if !recorder.is_empty() {
        found.push((false, recorder.iter().map(|c| c.cpus).sum(), "this recorder".into()));
    }
    found.sort_by(|x, y| x.0.cmp(&y.0).then(y.1.total_cmp(&x.1)));
    let found: Vec<String> = (found.iter().take(MAX_IN_HEADLINE).enumerate())
        .map(|(i, (_, cpus, cause))| {
            let lost = if i == 0 { "lost " } else { "" };
            format!("{cpus:.2} {lost}to {cause}")
        })
        .collect();
    // An affinity mask or a cpuset may leave the program fewer CPUs than the machine has.
    let of = match (b.closed_by, a.n_cpus) {
        ("", n) => plural(n.into(), "CPU"),
        (by, 1) => format!("the 1 CPU its {by} allows (machine: {})", b.machine_cpus),
        (by, n) => format!("the {n} CPUs its {by} allows (machine: {})", b.machine_cpus),
    };
    // A CPU limit is a share of time, not a number of CPUs: it is printed beside them.
    let limit = match b.limit.as_str() {
        "" => String::new(),
        text => format!("; its CPU limit, {}, allows {:.2}", printable(text), b.cpus),
    };
    let got = format!("you got {:.2} of {of}{limit}", a.got_cpus);
    let useful = |c: &&ClassSum| class_of(c.class).is_useful();
    let useful: i64 = a.classes.iter().filter(useful).map(|c| c.ns).sum();
    let lost = a.capacity_ns.saturating_sub(useful) as f64;
    match found.is_empty() {
        // Many causes below 1 % may still add up to a loss.
        true if lost >= FINDING * a.capacity_ns as f64 => format!(
            "{got}: {} lost, to causes of less than 1 % each",
            percent(lost / a.capacity_ns as f64)
        ),
        true => format!("{got}: no cause took more than 1 %"),
        false => format!("{got}: {}", found.join(", ")),
    }
}

/// What other programs took together, CPUs: to the program it is one loss, however many they were. Two are named.
fn other_programs(
    causes: &[&CauseSummary],
    names: &ThreadNames<'_>,
) -> Option<(bool, f64, String)> {
    let cpus = causes.iter().map(|c| c.cpus).sum();
    let text = match causes {
        [] => return None,
        [one] => cause_text(one, names, true, ""),
        [first, second, more @ ..] => {
            let more = match more.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            let (first, second) = (printable(&first.process), printable(&second.process));
            format!("other programs ({first}, {second}{more})")
        }
    };
    Some((false, cpus, text))
}

/// A bar without colour, for a cell.
pub(super) fn small_bar(classes: &[ClassSum]) -> String {
    let all: i64 = classes.iter().map(|c| c.ns).sum();
    shares(classes, all, 20)
        .into_iter()
        .flat_map(|(class, n)| std::iter::repeat_n(letter(class).0, n))
        .collect()
}

/// Useful classes first, then losses; the largest first in both.
pub(super) fn by_size(classes: &[ClassSum]) -> Vec<&ClassSum> {
    let mut order: Vec<&ClassSum> = classes.iter().filter(|c| c.ns > 0).collect();
    order.sort_by_key(|c| (!class_of(c.class).is_useful(), std::cmp::Reverse(c.ns)));
    order
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

/// For load imbalance, and spinning for its sake, the thread that came last most often, with its share of the cause's time.
fn last(cause: &CauseSummary, names: &ThreadNames<'_>) -> String {
    let is_late = cause.note == "late_thread";
    match (cause.tid, class_of(cause.class)) {
        (Some(tid), class)
            if class == Class::LoadImbalance || (class == Class::Spinning && is_late) =>
        {
            format!(", last: {} ({})", names.text(&cause.thread, tid), percent(cause.thread_share))
        }
        _ => String::new(),
    }
}
