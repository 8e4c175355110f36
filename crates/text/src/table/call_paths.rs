//! Call paths on a screen: `compress (xz.c:90) < worker < main`, innermost function first.
//!
//! A path has the room that its line has. Callers are left out from the outermost on, and ` < ..` stands for them.
use super::units::{file_name, percent, printable};
use kasuri_analyze::account::Class;
use kasuri_analyze::call_paths::{
    CallPathSummary, ClassPaths, Coverage, HotPath, PathFrame, PathShares, RuntimeUse,
};
use unicode_width::UnicodeWidthStr;

/// Less of a class than this is not worth a line.
/// It is a share of the class's time, so the same path may have a line under a small class and none under a large
/// one.
const WORTH_A_LINE: f64 = 0.01;

/// A line below a class.
pub(super) struct PathLine {
    /// Its time.
    pub ns: i64,
    /// It, with its share of the class.
    pub text: String,
}

/// The lines below a class: at most `n` paths that explain it, and `n` that happened meanwhile, in `room` columns.
pub(super) fn class_lines(
    paths: Option<&CallPathSummary>,
    class: Class,
    n: usize,
    room: usize,
) -> Vec<PathLine> {
    let Some(summary) = paths else {
        return Vec::new();
    };
    let Some(of_class) = summary.classes.iter().find(|c| c.class == class.key()) else {
        return Vec::new();
    };
    // First what explains the class, then the other side: what happened on other threads during the same time. Both
    // have shares of the same whole, so they are not to be added.
    let mut lines = question_lines(of_class, &of_class.paths, n, room, |path| {
        match class {
            // The thread that others waited for.
            Class::LoadImbalance | Class::LowParallelism => asleep("", path),
            // Everywhere else the class says already whether the thread ran or waited.
            _ => "",
        }
    });
    if let Some(meanwhile) = &of_class.meanwhile {
        let word = |path: &HotPath| match class {
            Class::LockWait => asleep("holder: ", path),
            Class::WaitingForOwnThreads | Class::Spinning => asleep("for: ", path),
            _ => "others: ",
        };
        lines.extend(question_lines(of_class, meanwhile, n, room, word));
    }
    // Allocators and interpreters are inside work, so that a line says how much of it they are.
    if class == Class::Work {
        let runtimes = summary.runtimes.iter().take(n);
        lines.extend(runtimes.filter_map(|row| runtime_line(of_class, row)));
    }
    lines
}

/// How a path is introduced where a thread may run or wait.
fn asleep(word: &'static str, path: &HotPath) -> &'static str {
    // A path has the word of the state that most of its time was in: the same function may run in one stretch and
    // wait in the next.
    match (word, path.waited_ns * 2 > path.ns) {
        ("", true) => "asleep in ",
        ("holder: ", true) => "holder asleep in ",
        ("for: ", true) => "for: asleep in ",
        (word, _) => word,
    }
}

/// The lines of one question: a path each, and how much of the time has no sample. `word` introduces a path.
fn question_lines(
    class: &ClassPaths,
    shares: &PathShares,
    n: usize,
    room: usize,
    word: impl Fn(&HotPath) -> &'static str,
) -> Vec<PathLine> {
    let worth = shares.paths.iter().filter(|p| p.share >= WORTH_A_LINE);
    let mut lines: Vec<PathLine> = worth
        .take(n)
        .map(|path| {
            let begin = format!("{} {}", percent(path.share), word(path));
            // Columns of a terminal, not bytes: names may hold wide characters.
            let left = room.saturating_sub(begin.width());
            PathLine {
                ns: path.ns,
                text: begin + &path_text(&path.frames, left),
            }
        })
        .collect();
    // Of a time that is mostly not known, what is known is no answer.
    let unsampled = shares.unsampled_ns as f64 / class.ns.max(1) as f64;
    // With a single line per class there is room for the answer only.
    if n > 1 && unsampled >= 0.1 {
        lines.push(PathLine {
            ns: shares.unsampled_ns,
            text: format!("{} without a sample", percent(unsampled)),
        });
    }
    lines
}

/// A library's part of the work; none below 1 % of it.
fn runtime_line(class: &ClassPaths, row: &RuntimeUse) -> Option<PathLine> {
    let share = row.work_ns as f64 / class.ns.max(1) as f64;
    if share < WORTH_A_LINE {
        return None;
    }
    let (part, module) = (percent(share), &row.module);
    let text = match row.runtime {
        "allocator" => format!("{part} of it allocates memory ({module})"),
        _ => format!("{part} of it is {module}"),
    };
    Some(PathLine {
        ns: row.work_ns,
        text: printable(&text),
    })
}

/// How much of the times has a call path.
pub(super) fn coverage_text(paths: &CallPathSummary) -> String {
    let share = |ns: i64, of: &Coverage| ns as f64 / of.ns.max(1) as f64;
    let (ran, slept) = (&paths.on_cpu, &paths.blocked);
    let mut text = format!(
        "{} of on-CPU time has a complete stack",
        percent(share(ran.complete_ns, ran))
    );
    // The parts of Coverage, without those that are 0 or would be printed as such.
    let parts = [
        (ran.incomplete_ns, "an incomplete one"),
        (ran.unsampled_ns, "none"),
    ];
    for (ns, what) in parts {
        if share(ns, ran) >= 0.001 {
            text += &format!(", {} {what}", percent(share(ns, ran)));
        }
    }
    if share(ran.estimated_ns, ran) >= 0.01 {
        let taken = percent(share(ran.estimated_ns, ran));
        text += &format!(" ({taken} from other short threads of the same name)");
    }
    // An incomplete stack counts here, too: its innermost functions are those that wait.
    if slept.ns > 0 {
        let known = slept.ns - slept.unsampled_ns;
        text += &format!("; {} of blocked time has one", percent(share(known, slept)));
    }
    if let Some(points) = spinning_within(paths) {
        text += &format!("; spinning by samples, within {points:.1} points of it");
    }
    if paths.lost > 0 {
        text += &format!("; {} samples lost", super::units::count(paths.lost));
    }
    text
}

/// How much of the work and the losses has a named call path, and why the rest has none. `None`: nothing that code can explain.
pub(super) fn explained_text(paths: &CallPathSummary) -> Option<String> {
    let explained = &paths.explained;
    let share = |ns: i64| ns as f64 / explained.ns.max(1) as f64;
    // Less is printed as `0.0 %` or `<0.1 %`, which is no news.
    let is_worth = |ns: i64| share(ns) >= 0.001;
    let mut text = format!(
        "{} of what code can explain is in named functions",
        percent(share(explained.named_ns))
    );
    for row in explained
        .nameless
        .iter()
        .filter(|row| is_worth(row.ns))
        .take(3)
    {
        let part = percent(share(row.ns));
        let place = match row.kind {
            "kernel" => "in the kernel, whose functions have no names here".into(),
            "run_time" => "in code made at run time, without names".into(),
            "nowhere" => "at addresses of no known mapping".into(),
            _ => format!(
                "in {}, whose functions have no names",
                printable(&row.module)
            ),
        };
        text += &format!("; {part} {place}");
    }
    for row in explained.unsampled.iter().filter(|row| is_worth(row.ns)) {
        let (part, n) = (percent(share(row.ns)), super::units::count(row.threads));
        let threads = if row.threads == 1 {
            "thread"
        } else {
            "threads"
        };
        let reason = match row.reason {
            "short_thread" => format!("in {n} {threads} that ran too shortly for a sample"),
            "short_wait" => {
                format!("in waits under 160 ms of {n} {threads}, over before they were read")
            }
            _ => format!("without a sample for an unknown reason ({n} {threads})"),
        };
        text += &format!("; {part} {reason}");
    }
    (explained.ns > 0).then_some(text)
}

/// How far the part of on-CPU time that spins may be off because samples are few: two standard errors, in points.
fn spinning_within(paths: &CallPathSummary) -> Option<f64> {
    let spinning = paths
        .classes
        .iter()
        .find(|c| c.class == Class::Spinning.key())?;
    let share = (spinning.ns as f64 / paths.on_cpu.ns.max(1) as f64).min(1.0);
    let n = paths.samples_on_cpu.max(1) as f64;
    Some(200.0 * (share * (1.0 - share) / n).sqrt())
}

/// `compress (xz.c:90) < worker < main` in at most `room` columns, if the innermost function alone is not wider.
pub(super) fn path_text(frames: &[PathFrame], room: usize) -> String {
    const MORE: &str = " < ..";
    let mut text = String::new();
    // The place of the innermost function, or where that has none of the first caller that has one.
    let mut place_at = frames.iter().position(|f| !f.file.is_empty());
    for (at, frame) in frames.iter().enumerate() {
        let mut next = frame_name(frame);
        if place_at == Some(at) {
            place_at = None;
            next += &format!(" ({}:{})", file_name(&frame.file), frame.line);
        }
        // A recursion is one frame, and so are nameless places of one module.
        let is_same = at > 0 && {
            let inner = &frames[at - 1];
            (&inner.function, &inner.module) == (&frame.function, &frame.module)
        };
        if is_same {
            continue;
        }
        if at == 0 {
            text = printable(&next);
            continue;
        }
        let next = format!(" < {}", printable(&next));
        // ` < ..` must fit behind each function but the last, or the cut would itself be cut.
        let spare = if at + 1 < frames.len() { MORE.len() } else { 0 };
        if text.width() + next.width() + spare > room {
            return text + MORE;
        }
        text += &next;
    }
    text
}

/// The name of a function, or of its module where it has none.
fn frame_name(frame: &PathFrame) -> String {
    match (frame.function.as_str(), frame.module.as_str()) {
        ("", "") => "[unknown]".into(),
        // The kernel's own notation, such as `[kernel]` or `[vdso]`, has its brackets already.
        ("", module) if module.starts_with('[') => module.into(),
        ("", module) => format!("[{module}]"),
        (function, _) => short_name(function),
    }
}

/// A C++ or Rust name without its parameters, its template arguments and all but the last two parts of its path.
pub(crate) fn short_name(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let mut plain = String::new();
    let mut depth = 0usize;
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            // A `>` without its `<` is that of `->` or of an operator, and stays.
            '>' if depth > 0 => depth -= 1,
            // Parameters: the name is over, but for `operator()`, and for Go's methods: `sync.(*Mutex).Lock`.
            '(' if depth == 0
                && !plain.ends_with("operator")
                && !plain.ends_with('.')
                && !plain.is_empty()
                && !plain.ends_with("::") =>
            {
                break;
            }
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        // An operator such as `operator<`.
        [] => name,
        [.., a, b] => {
            // The type that a template returns stands before the path.
            let a = a.rsplit(' ').next().unwrap_or(a);
            format!("{a}::{b}")
        }
        [one] => one.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str, line: u32) -> PathFrame {
        PathFrame {
            function: function.into(),
            module: "prog".into(),
            file: file.into(),
            line,
        }
    }

    #[test]
    fn a_path_has_one_place_and_loses_outer_callers_first() {
        let path = [
            frame("write", "", 0),
            frame("flush", "/src/io.c", 88),
            frame("worker", "/src/io.c", 120),
            frame("main", "/src/main.c", 3),
        ];
        for (room, text) in [
            (80, "write < flush (io.c:88) < worker < main"),
            (39, "write < flush (io.c:88) < worker < main"),
            (38, "write < flush (io.c:88) < worker < .."),
            (30, "write < flush (io.c:88) < .."),
            (3, "write < .."),
        ] {
            assert_eq!(path_text(&path, room), text);
        }
    }

    #[test]
    fn a_recursion_is_one_frame_and_a_nameless_one_is_its_module() {
        let path = [
            frame("", "", 0),
            frame("fib", "", 0),
            frame("fib", "", 0),
            frame("main", "", 0),
        ];
        assert_eq!(path_text(&path, 80), "[prog] < fib < main");
        let nameless = [frame("", "", 0), frame("", "", 0), frame("main", "", 0)];
        assert_eq!(path_text(&nameless, 80), "[prog] < main");
    }

    #[test]
    fn names_are_short() {
        for (name, short) in [
            ("compress", "compress"),
            ("work::Queue::push(int)", "Queue::push"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int const&)",
                "vector::push_back",
            ),
            ("kasuri_model::build::sched::run", "sched::run"),
            ("<alloc::vec::Vec<T> as core::ops::Drop>::drop", "drop"),
            ("(anonymous namespace)::run(int)", "run"),
            ("Less::operator()(int, int) const", "Less::operator()"),
            ("main._omp_fn.0", "main._omp_fn.0"),
            ("sync.(*Mutex).Unlock", "sync.(*Mutex).Unlock"),
        ] {
            assert_eq!(short_name(name), short, "{name}");
        }
    }
}
