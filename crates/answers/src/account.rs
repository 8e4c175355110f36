//! What all that is said of the account shares.
use crate::names::{ThreadNames, thread_names};
use crate::units::{count, file_name, percent, plural, printable};
use kasuri_analyze::account::{CauseSummary, Class, ClassSum};
use kasuri_analyze::call_paths::{is_gil, public_name};
use kasuri_analyze::{ProgramBy, Summary, THIS_RECORDER, short_name};
use kasuri_base::call_path::SPIN_LOOP;

/// Causes and losses with less of the capacity than this are left out.
pub const FINDING: f64 = 0.01;
/// Most causes of one class in the table, and in the headline.
pub const MAX_OF_CLASS: usize = 3;
const MAX_IN_HEADLINE: usize = 3;

/// A cause with this part of its time from one thread is that one's.
const ONE_THREAD: f64 = 0.95;

/// Whether anything is known of where CPU time went.
pub fn knows_account(s: &Summary) -> bool {
    let a = &s.account;
    a.capacity_ns > 0 && a.classes.iter().any(|c| c.class != Class::Unknown.key())
}

/// The class of a key; summaries have keys, as JSON does. A class of a newer version is *other*.
pub fn class_of(key: &str) -> Class {
    let same = |class: &&Class| class.key() == key;
    Class::ALL.iter().find(same).copied().unwrap_or(Class::Other)
}

/// What a class holds.
pub fn meaning(class: Class, by: ProgramBy) -> &'static str {
    match (class, by) {
        (Class::Work, ProgramBy::Nobody) => "the own code of any process",
        (Class::Tracing, ProgramBy::Nobody) => "writing the trace",
        _ => class.meaning(),
    }
}

/// A lock of which samples know only the function that asks for it, and the file that it is, if it is one.
fn sampled_lock(asks: &str, lock: &str) -> String {
    let lock = match lock.strip_prefix("file ") {
        Some(path) => format!("the lock of file {}", file_name(path)),
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
        true => format!("[{}]", file_name(name)),
        false => short_name(name),
    }
}

/// A cause's place in the source, ` (omp.c:6)`; empty: not known, or its class has none.
pub fn cause_place(cause: &CauseSummary) -> String {
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
    let place = place.as_deref().map(file_name);
    place.map_or(String::new(), |place| format!(" ({place})"))
}

/// A cause, in words that follow "lost to"; `in_sentence`: its class does not stand above it. `place`: see [`cause_place`].
pub fn cause_text(
    cause: &CauseSummary,
    names: &ThreadNames<'_>,
    in_sentence: bool,
    place: &str,
) -> String {
    let thread = match cause.tid {
        Some(_) if has_several(cause) => format!("{} processes {}", cause.processes, cause.thread),
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
        (Class::Interference, "stood_still") => "the machine, which stood still".into(),
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
            format!("task runtime {}", file_name(code))
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

/// Whether the cause is that of several processes of a name, of which no one had nearly all.
fn has_several(cause: &CauseSummary) -> bool {
    cause.processes > 1 && cause.thread_share < ONE_THREAD
}

/// What ran alone.
fn serial_text(cause: &CauseSummary, thread: &str, place: &str) -> String {
    match cause.code.as_str() {
        "" if has_several(cause) => format!("a serial phase: {thread} in turn"),
        "" if cause.thread_share < ONE_THREAD => "a serial phase: one thread at a time ran".into(),
        "" => format!("a serial phase: only {thread} ran"),
        // One after the other, or, as Go's threads do, in turns.
        code if cause.thread_share < ONE_THREAD => {
            format!("serial phase {code}{place}: one thread at a time ran")
        }
        code => format!("serial phase {code}{place}: only {thread} ran"),
    }
}

/// In which Go's scheduler waits for timers and files where no goroutine can run.
const GOS_POLL: &str = "runtime.netpoll";

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
        "interrupt" if name.is_empty() && code.ends_with(GOS_POLL) => {
            "a timer, a device or the network: no goroutine could run".into()
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

/// The account in one sentence, for other pages than this one; empty where nothing is known of the CPUs.
pub fn headline(s: &Summary) -> String {
    match knows_account(s) {
        true => headline_text(s, &thread_names(s)),
        false => String::new(),
    }
}

/// "you got 2.93 of 4 CPUs: 0.61 lost to imbalance in loop48, ...".
pub fn headline_text(s: &Summary, names: &ThreadNames<'_>) -> String {
    let a = &s.account;
    let b = &a.bounds;
    if s.program.by == ProgramBy::Nobody {
        return format!(
            "together the {} processes got {:.2} of {}; what one of them lost is not known before it is chosen (--process)",
            count(s.program.n_processes.into()),
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
        .partition(|c| class_of(c.class) == Class::Interference && c.note != "stood_still");
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

/// Useful classes first, then losses; the largest first in both.
pub fn by_size(classes: &[ClassSum]) -> Vec<&ClassSum> {
    let mut order: Vec<&ClassSum> = classes.iter().filter(|c| c.ns > 0).collect();
    order.sort_by_key(|c| (!class_of(c.class).is_useful(), std::cmp::Reverse(c.ns)));
    order
}

/// For load imbalance, and spinning for its sake, the thread that came last most often, with its share of the cause's time.
pub fn last(cause: &CauseSummary, names: &ThreadNames<'_>) -> String {
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
