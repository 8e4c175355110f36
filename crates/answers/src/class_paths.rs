//! The code behind each class of the account: the lines below its row.
pub use crate::chains::PathLine;
use crate::chains::{WORTH_A_LINE, chain_lines};
use crate::names::{ThreadNames, thread_names};
use crate::paths::hot_path_text;
use crate::units::{cut, percent, plural, printable};
use kasuri_analyze::account::Class;
use kasuri_analyze::call_paths::{
    CallPathSummary, ClassPaths, Coverage, HotPath, PathShares, RuntimeUse, WaitChains, points_off,
};
use kasuri_analyze::{Summary, goroutines_by, names_by};
use unicode_width::UnicodeWidthStr;

/// The waits of a class with what they waited for, where these are the best answer.
fn followed(of_class: &ClassPaths, class: Class) -> Option<&WaitChains> {
    let is_best = match class {
        // Where annotations say who held most locks, they are the better answer.
        Class::LockWait => of_class.likely_holders_ns * 2 > of_class.ns,
        _ => true,
    };
    of_class.chains.as_ref().filter(|_| is_best)
}

/// The largest waits of each class with what they waited for, a line each, in at most `width` columns: those of `kasuri stat -v`.
pub fn waits(s: &Summary, width: usize) -> Vec<(Class, Vec<String>)> {
    /// Waits of a class.
    const MOST: usize = 3;
    let names = thread_names(s);
    let of_class = |class: Class| {
        let classes = &s.call_paths.as_ref()?.classes;
        let of_class = classes.iter().find(|c| c.class == class.key())?;
        let chains = followed(of_class, class)?;
        let lines = chain_lines(chains, of_class, &names, MOST, [width, width], false);
        let lines = lines.into_iter().map(|line| cut(&line.text, width));
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then_some((class, lines))
    };
    Class::ALL.into_iter().filter_map(of_class).collect()
}

/// The lines below a class: at most `n` paths that explain it, and `n` that happened meanwhile, in as many columns as `rooms` has first; those that go on
/// in as many as it has second.
pub fn class_lines(
    paths: Option<&CallPathSummary>,
    class: Class,
    names: &ThreadNames<'_>,
    n: usize,
    rooms: [usize; 2],
) -> Vec<PathLine> {
    let [room, _] = rooms;
    let Some(summary) = paths else {
        return Vec::new();
    };
    let Some(of_class) = summary.classes.iter().find(|c| c.class == class.key()) else {
        return Vec::new();
    };
    // Waits that were followed to their end say both.
    if let Some(chains) = followed(of_class, class) {
        let mut lines = match class {
            // What the one thread ran comes first.
            Class::LowParallelism => question_lines(of_class, &of_class.paths, n, room, |_| ""),
            _ => Vec::new(),
        };
        lines.extend(chain_lines(chains, of_class, names, n, rooms, true));
        return lines;
    }
    // First what explains the class, then the other side: what happened on other threads during the same time. Both
    // have shares of the same whole, so they are not to be added.
    let mut lines = question_lines(of_class, &of_class.paths, n, room, |path| {
        match class {
            // The thread that others waited for.
            Class::LoadImbalance => asleep("", path),
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

/// What explains this share of a class has a line, however few lines a class has.
const WORTH_A_LINE_MORE: f64 = 0.2;

/// The lines of one question: a path each, and how much of the time has no sample. `word` introduces a path.
fn question_lines(
    class: &ClassPaths,
    shares: &PathShares,
    n: usize,
    room: usize,
    word: impl Fn(&HotPath) -> &'static str,
) -> Vec<PathLine> {
    let is_own = std::ptr::eq(shares, &raw const class.paths);
    let worth = shares.paths.iter().enumerate().filter(|(at, path)| {
        let is_large = is_own && path.share >= WORTH_A_LINE_MORE;
        is_large || (*at < n && path.share >= WORTH_A_LINE)
    });
    let mut lines: Vec<PathLine> = worth
        .map(|(_, path)| {
            let begin = format!("{} {}", percent(path.share), word(path));
            // Columns of a terminal, not bytes: names may hold wide characters.
            let left = room.saturating_sub(begin.width());
            PathLine { ns: Some(path.ns), text: begin + &hot_path_text(path, left) }
        })
        .collect();
    // Of a time that is mostly not known, what is known is no answer.
    let unsampled = shares.unsampled_ns as f64 / class.ns.max(1) as f64;
    // With a single line per class there is room for the answer only.
    if n > 1 && unsampled >= 0.1 {
        lines.push(PathLine {
            ns: Some(shares.unsampled_ns),
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
        "collector" => format!("{part} of it collects garbage ({module})"),
        _ => format!("{part} of it is {module}"),
    };
    Some(PathLine { ns: Some(row.work_ns), text: printable(&text) })
}

/// A stack that is not known for this part of the time, or a function without a name, may change what the account shows.
const WORTH_A_NOTE: f64 = 0.1;

/// What is to be known of the call paths in the account: how sure spinning is, and how much of the time they explain, `always` or where
/// more than a tenth of it is not known.
pub fn path_notes(s: &Summary, paths: &CallPathSummary, always: bool) -> Vec<String> {
    let (ran, slept, explained) = (&paths.on_cpu, &paths.blocked, &paths.explained);
    let is_large = |ns: i64, of: i64| ns as f64 > WORTH_A_NOTE * of as f64;
    let lacks_stacks = is_large(ran.ns - ran.complete_ns, ran.ns)
        || is_large(slept.unsampled_ns, slept.ns)
        || is_large(ran.estimated_ns, ran.ns)
        || paths.lost > 0;
    let lacks_names = is_large(explained.ns - explained.named_ns, explained.ns);
    let notes = [
        spinning_text(paths),
        (always || lacks_stacks).then(|| coverage_text(paths)),
        (always || lacks_names).then(|| explained_text(paths, &s.missing)).flatten(),
        goroutines_text(s),
    ];
    notes.into_iter().flatten().collect()
}

/// Where CPUs were idle until something from outside came: for what goroutines waited meanwhile is not recorded.
fn goroutines_text(s: &Summary) -> Option<String> {
    let classes = s.account.classes.iter().filter(|class| class.class == "external_wait");
    let waited: i64 = classes.map(|class| class.ns).sum();
    let is_much = waited as f64 > WORTH_A_NOTE * s.capacity_ns as f64;
    goroutines_by(&s.missing).filter(|_| is_much).map(|text| format!("not recorded: {text}"))
}

/// How far the time that spins may be off. `None`: nothing spins.
fn spinning_text(paths: &CallPathSummary) -> Option<String> {
    let share = spinning(paths)?;
    Some(match paths.independent_samples.map(|n| points_off(share, n)) {
        Some(points) if points <= TELLING_POINTS => {
            format!("spinning by samples, within {points:.1} points of on-CPU time")
        }
        Some(_) => {
            let samples = plural(paths.samples_on_cpu, "sample");
            format!("{samples} while running: too few to tell how much of it spins")
        }
        None => "spinning by samples, which may be in step with it".to_owned(),
    })
}

/// How much of the times has a call path.
fn coverage_text(paths: &CallPathSummary) -> String {
    let share = |ns: i64, of: &Coverage| ns as f64 / of.ns.max(1) as f64;
    let (ran, slept) = (&paths.on_cpu, &paths.blocked);
    let mut text =
        format!("{} of on-CPU time has a complete stack", percent(share(ran.complete_ns, ran)));
    const INCOMPLETE: &str = "an incomplete one";
    // The parts of Coverage, without those that are 0 or would be printed as such.
    let parts = [(ran.incomplete_ns, INCOMPLETE), (ran.unsampled_ns, "none")];
    for (ns, what) in parts {
        if share(ns, ran) >= 0.001 {
            text += &format!(", {} {what}", percent(share(ns, ran)));
        }
        let is_gap = what == INCOMPLETE && share(ran.gap_ns, ran) >= 0.001;
        if is_gap {
            let gap = percent(share(ran.gap_ns, ran));
            text += &format!(" ({gap} lacks callers in Python)");
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
    if paths.lost > 0 {
        text += &format!("; {} samples lost", crate::units::count(paths.lost));
    }
    text
}

/// How much of the work and the losses has a named call path, and why the rest has none.
/// `missing`: see [`Summary::missing`]. `None`: nothing that code can explain.
fn explained_text(paths: &CallPathSummary, missing: &[String]) -> Option<String> {
    let explained = &paths.explained;
    let share = |ns: i64| ns as f64 / explained.ns.max(1) as f64;
    // Less is printed as `0.0 %` or `<0.1 %`, which is no news.
    let is_worth = |ns: i64| share(ns) >= 0.001;
    let mut text = format!(
        "{} of what code can explain is in named functions",
        percent(share(explained.named_ns))
    );
    for row in explained.nameless.iter().filter(|row| is_worth(row.ns)).take(3) {
        let part = percent(share(row.ns));
        let place = match row.kind {
            "kernel" => "in the kernel, whose functions have no names here".into(),
            "run_time" => {
                let by = names_by(missing).map_or(String::new(), |by| format!(" ({by})"));
                format!("in code made at run time, without names{by}")
            }
            "nowhere" => "at addresses of no known mapping".into(),
            _ => format!("in {}, whose functions have no names", printable(&row.module)),
        };
        text += &format!("; {part} {place}");
    }
    for row in explained.unsampled.iter().filter(|row| is_worth(row.ns)) {
        let (part, n) = (percent(share(row.ns)), crate::units::count(row.threads));
        let threads = if row.threads == 1 { "thread" } else { "threads" };
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

/// How far the part of on-CPU time that spins may be off for it to be told, in points.
const TELLING_POINTS: f64 = 10.0;

/// The part of on-CPU time that spins. `None`: nothing does.
fn spinning(paths: &CallPathSummary) -> Option<f64> {
    let class = Class::Spinning.key();
    let spinning = paths.classes.iter().find(|c| c.class == class)?;
    Some((spinning.ns as f64 / paths.on_cpu.ns.max(1) as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_analyze::account::ClassSum;

    #[test]
    fn of_go_it_is_said_that_what_goroutines_wait_for_is_not_recorded() {
        let text = "for which lock or channel a goroutine waits: ..".to_owned();
        let told = |class, ns, missing: &[String]| {
            let mut s =
                Summary { capacity_ns: 1000, missing: missing.to_vec(), ..Summary::default() };
            s.account.classes.push(ClassSum { class, ns, cpus: 0.0 });
            goroutines_text(&s)
        };
        let missing = [text.clone()];
        assert_eq!(told("external_wait", 800, &missing), Some(format!("not recorded: {text}")));
        assert_eq!(told("external_wait", 50, &missing), None);
        assert_eq!(told("work", 800, &missing), None);
        assert_eq!(told("external_wait", 800, &[]), None);
    }
}
