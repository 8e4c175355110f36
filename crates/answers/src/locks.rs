//! The answer of `kasuri locks`: facts, then tables, each largest waits first. Ratios are those of docs/glossary.md.
use crate::Answer;
use crate::document::{Cell, Document, Go, Rows, Unit, share};
use crate::units::{count, duration, percent, plural};
use crate::verdict::Verdict;
use kasuri_analyze::{Convoy, Inversion, LockRow, Locks, OrderCycle, OrderStep, Use, WaitsFor};
use kasuri_predict::{Cap, Prediction};
use schemars::JsonSchema;
use serde::Serialize;

/// The locks of a recording, and what their waits will be on two CPUs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LocksAnswer<'a> {
    #[serde(flatten)]
    locks: &'a Locks,
    #[serde(flatten)]
    outlook: Outlook<'a>,
    #[serde(skip)]
    verdict: Verdict<'a>,
}

/// What follows from the locks and the prediction together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Outlook<'a> {
    /// `low`, `medium` or `high`: by what the locks leave of the speed on two CPUs and how far the busiest lets it grow; null for a part of
    /// a recording, or where no lock was seen.
    class: Option<&'static str>,
    /// Predicted speed on two CPUs / what it would be without locks.
    lock_efficiency_2_cpus: Option<f64>,
    /// Predicted speed-up on two CPUs.
    speedup_2_cpus: Option<f64>,
    /// The same without locks: speedup_2_cpus / lock_efficiency_2_cpus.
    speedup_2_cpus_without_locks: Option<f64>,
    /// The lock that lets the speed-up grow least.
    cap: Option<&'a Cap>,
    /// What to look at first; null: nothing can be said.
    look_at: Option<String>,
}

impl<'a> LocksAnswer<'a> {
    /// The class needs a prediction.
    pub fn new(locks: &'a Locks, prediction: Option<&'a Prediction>) -> LocksAnswer<'a> {
        let verdict = Verdict::new(locks, prediction);
        let p = verdict.prediction;
        LocksAnswer {
            locks,
            outlook: Outlook {
                class: p.and_then(|p| p.class).map(|class| class.word()),
                lock_efficiency_2_cpus: p.and_then(|p| p.lock_efficiency),
                speedup_2_cpus: p.and_then(|p| p.at(2)).map(|point| point.speedup),
                speedup_2_cpus_without_locks: p.map(|p| p.without_locks),
                cap: p.and_then(|p| p.cap.as_ref()),
                look_at: verdict.advice.as_ref().map(|advice| advice.text()),
            },
            verdict,
        }
    }
}

impl Answer for LocksAnswer<'_> {
    fn document(&self, rows: usize) -> Document {
        let l = self.locks;
        let mut out = Document::of("Locks", &l.command);
        // Facts before tables: on a screen of 24 lines the tables may have scrolled away the answer.
        ratios(&mut out, l);
        time_beside_locks(&mut out, l);
        // Class and advice need a prediction, and a recording that holds what they are derived from.
        match self.verdict.class_text() {
            Some(Ok(class)) => out.fact("class", class),
            Some(Err(why)) => out.refusal("class", format!("not known: {why}")),
            None => {}
        }
        if let Some(advice) = &self.outlook.look_at {
            out.fact("look at", advice);
        }
        // Time inside the kernel may be recorded although no lock of the program is.
        if !l.locks.is_empty() {
            lock_table(&mut out, l, rows);
            holders(&mut out, l, rows);
            waits_for(&mut out, l, rows);
            sites(&mut out, l, rows);
            other_waits(&mut out, l, rows);
            owners(&mut out, l, rows);
        }
        programs(&mut out, l, rows);
        inversions(&mut out, l, rows);
        kernel_tables(&mut out, l, rows);
        if l.locks.is_empty() {
            let probe = match l.lock_probe.as_str() {
                "" => "kasuri record --locks records pthread locks; ",
                _ => "",
            };
            out.refusal(
                "locks",
                format!("none recorded; kasuri stat has what samples tell. {probe}--lock-function LOCK,UNLOCK records locks with their own functions, also in static programs; KASURI_LOCK_* annotates a lock in the source (docs/guide/locks.md)"),
            );
        }
        out
    }
}

/// A time in a sentence.
fn ns(value: i64) -> String {
    duration(value as f64)
}

/// How many acquisitions waited, of how many where all are counted.
fn contended(u: &Use) -> String {
    let waited = plural(u.contended, "contended acquisition");
    match u.contended_share {
        Some(share) => {
            format!("{waited} of {} ({})", count(u.holds.max(u.requests)), percent(share))
        }
        None => waited,
    }
}

/// The lock ratio and the wait ratio, or why they are not known.
fn ratios(out: &mut Document, l: &Locks) {
    let t = &l.total;
    // Locks that were not seen do not make the ratio 0.
    if let Some(why) = &l.not_seen {
        out.refusal("lock ratio", format!("not known: {why}"));
        return out.refusal("wait ratio", "not known");
    }
    let Some(lock_ratio) = t.lock_ratio else {
        out.refusal("ratios", "not known: the recording has no scheduler events (kasuri info says how to record them)");
        // Waits are known without the scheduler: they are the client's own stamps. Only CPU time is not.
        return out.fact("waits", format!("{} in {}", ns(t.wait_ns), contended(t)));
    };
    out.fact(
        "lock ratio",
        format!(
            "{}: {} of {} CPU time inside critical sections ({} by the wall clock)",
            percent(lock_ratio),
            ns(t.inside_cpu_ns),
            ns(l.cpu_ns),
            ns(t.hold_wall_ns)
        ),
    );
    out.fact(
        "wait ratio",
        format!(
            "{}: {} waiting in {}",
            t.wait_ratio.map_or("-".into(), percent),
            ns(t.wait_ns),
            contended(t)
        ),
    );
}

/// Time in the kernel, and in waits that the recorded locks do not explain.
fn time_beside_locks(out: &mut Document, l: &Locks) {
    if let Some(share) = l.syscall_ratio {
        out.fact("syscalls", format!("{} of the CPU time", percent(share)));
    }
    if let Some(share) = l.kernel_contention_ratio {
        let text = format!("{} waiting for the kernel's own locks", percent(share));
        out.fact("kernel", text);
    }
    // Below 1 % of the CPU time, sleep in other futex calls is not worth a line.
    if let Some(unseen) = l.unseen_futex_ns
        && unseen > l.cpu_ns / 100
    {
        out.fact(
            "unrecorded",
            format!(
                "{} asleep in futex calls outside every recorded wait: locks that --locks does not record (Rust's std, OpenMP, Go, static programs); --lock-function may record them (docs/guide/locks.md)",
                ns(unseen)
            ),
        );
    }
    if l.sampled {
        out.fact("sampled", "the recording keeps a sample of the holds: ratios and numbers of holds are too low, waits are complete (--locks=full records all)");
    }
}

/// A row for each lock.
fn lock_table(out: &mut Document, l: &Locks, rows: usize) {
    let of_states = |of, whole| l.knows_states.then(|| share(of, whole)).flatten();
    let note = "most waited for first; waits under 300 ns are the cost of taking a free lock";
    out.table(
        Rows::new("locks", note, &l.locks, rows)
            .column("lock", Unit::Text, 0, "", |l| Cell::from(&l.name).to(Go::Lock(l.object)))
            .column(
                "source",
                Unit::Text,
                0,
                "how it was recorded: lock probe, ito, uprobes on named functions, or annotations",
                |l| l.source,
            )
            .column("pid", Unit::Id, 7, "", |l| l.pid)
            .column(
                "lock ratio",
                Unit::Ratio,
                0,
                "CPU time inside / CPU time of the process",
                |l| l.used.lock_ratio,
            )
            .column("wait ratio", Unit::Ratio, 0, "waiting / execution time", |l| l.used.wait_ratio)
            .column("waited", Unit::Ns, 1, "all waits of 300 ns and more", |l| l.used.wait_ns)
            .column("holds", Unit::Count, 2, "", |l| l.used.holds)
            .column("contended", Unit::Ratio, 1, "acquisitions that waited / acquisitions", |l| {
                l.used.contended_share
            })
            .column("hold p50", Unit::Ns, 3, "by the wall clock", |l| l.used.hold_p50_ns)
            .column("p99", Unit::Ns, 4, "", |l| l.used.hold_p99_ns)
            .column("max", Unit::Ns, 5, "", |l| l.used.hold_max_ns)
            .column("wait max", Unit::Ns, 6, "", |l| l.used.wait_max_ns)
            .column(
                "spun",
                Unit::Ratio,
                6,
                "share of the wait time on a CPU: spinning, going to sleep, waking up",
                |l| of_states(l.used.wait_spin_ns, l.used.wait_ns),
            )
            .column(
                "on path",
                Unit::Ratio,
                3,
                "share of the critical path on which it was held or waited for",
                |l| l.path_share,
            )
            .column("threads", Unit::Count, 7, "threads or tasks that took it", |l| l.threads),
    );
}

/// What holders did: of the time that they held a lock, and of the time that others waited for it. Only with thread
/// states, and only for locks that threads waited for: another one costs nothing, whatever its holders did.
fn holders(out: &mut Document, l: &Locks, rows: usize) {
    if !l.knows_states {
        return;
    }
    let waited_for = |l: &&LockRow| l.used.wait_ns > 0 || l.convoy.is_some();
    let waited_for = || l.locks.iter().filter(waited_for);
    let note = "what they did, of the time they held the lock";
    // These three add up to the hold, as far as states are known.
    let part = |part, of: &LockRow| share(part, of.used.hold_wall_ns);
    out.table(
        Rows::new("holders", note, waited_for(), rows)
            .column("lock", Unit::Text, 0, "", |l| &l.name)
            .column("held", Unit::Ns, 0, "", |l| l.used.hold_wall_ns)
            .column("running", Unit::Ratio, 0, "", |l| part(l.used.hold_cpu_ns, l))
            .column("preempted", Unit::Ratio, 0, "ready without a CPU", |l| {
                part(l.used.hold_preempted_ns, l)
            })
            .column("blocked", Unit::Ratio, 0, "", |l| part(l.used.hold_blocked_ns, l))
            .column("longest convoy", Unit::Word, 2, "", |l| l.convoy.map(convoy)),
    );
    // What is left to the whole wait is time in which no thread held the lock.
    let note = "what the holder did meanwhile; FREE: no thread held the lock, the waiter was on its way to a CPU";
    let part = |part, of: &LockRow| share(part, of.used.wait_ns);
    out.table(
        Rows::new("waits", note, waited_for(), rows)
            .column("lock", Unit::Text, 0, "", |l| &l.name)
            .column("waited", Unit::Ns, 0, "", |l| l.used.wait_ns)
            .column("running", Unit::Ratio, 0, "", |l| part(l.holder_running_ns, l))
            .column("preempted", Unit::Ratio, 0, "ready without a CPU", |l| {
                part(l.holder_preempted_ns, l)
            })
            .column("blocked", Unit::Ratio, 0, "", |l| part(l.holder_blocked_ns, l))
            // Without recorded holds it is not known when the lock was free.
            .column("free", Unit::Ratio, 0, "no thread held the lock", |l| {
                let free = (l.used.wait_ns - l.holder_ns).max(0);
                (l.used.holds > 0).then(|| part(free, l)).flatten()
            }),
    );
}

/// A row for each pair of waiter and holder of a lock. A holder with TID 0 and no name stands for "no thread": the
/// lock was free, and the waiter was on its way to a CPU.
fn waits_for(out: &mut Document, l: &Locks, rows: usize) {
    let is_free = |w: &WaitsFor| w.holder.is_empty() && w.holder_tid == 0;
    // 0 stands for tasks, which have no thread of their own; -1 for many holders, of which none is named.
    let tid = |tid: i32| match tid {
        0 => "tasks".into(),
        -1 => Cell::default(),
        tid => tid.into(),
    };
    let part = |part, of: &WaitsFor| {
        // Someone held the lock: if in none of these states, then in one that is not known.
        let is_known = of.running_ns + of.preempted_ns + of.blocked_ns > 0;
        (is_known && !is_free(of)).then(|| share(part, of.ns)).flatten()
    };
    out.table(
        Rows::new("waiters and holders", "and what the holder did meanwhile", &l.waits_for, rows)
            .column("waiter", Unit::Text, 0, "", |w| &w.waiter)
            .column("tid", Unit::Id, 0, "", |w| tid(w.waiter_tid))
            .column("holder", Unit::Text, 0, "", |w| match is_free(w) {
                true => "(free, waking up)",
                false => &w.holder,
            })
            .column("tid", Unit::Id, 0, "", |w| match is_free(w) {
                true => Cell::default(),
                false => tid(w.holder_tid),
            })
            .column("lock", Unit::Text, 0, "", |w| &w.lock)
            .column("time", Unit::Ns, 0, "", |w| w.ns)
            .column("running", Unit::Ratio, 1, "", |w| part(w.running_ns, w))
            .column("preempted", Unit::Ratio, 1, "", |w| part(w.preempted_ns, w))
            .column("blocked", Unit::Ratio, 1, "", |w| part(w.blocked_ns, w)),
    );
}

/// A row for each place in the source that took a lock.
fn sites(out: &mut Document, l: &Locks, rows: usize) {
    out.table(
        Rows::new("call sites", "places in the source that took a lock", &l.sites, rows)
            .column("place", Unit::Text, 0, "", |s| &s.place)
            .column("lock", Unit::Text, 0, "", |s| &s.lock)
            .column("waited", Unit::Ns, 0, "", |s| s.used.wait_ns)
            .column("contended", Unit::Count, 0, "", |s| s.used.contended)
            .column("holds", Unit::Count, 1, "", |s| s.used.holds),
    );
}

/// Conditions, semaphores, barriers: no locks, but what threads wait for.
fn other_waits(out: &mut Document, l: &Locks, rows: usize) {
    out.table(
        Rows::new("other waits", "for what no thread holds", &l.waits, rows)
            .column("for", Unit::Text, 0, "", |w| w.kind)
            .column("place", Unit::Text, 0, "", |w| &w.place)
            .column(
                "object",
                Unit::Id,
                4,
                "tells waits of one place for several objects apart",
                |w| format!("{:#x}", w.object),
            )
            .column("waited", Unit::Ns, 0, "", |w| w.wait_ns)
            .column("times", Unit::Count, 0, "", |w| w.count)
            .column("max", Unit::Ns, 1, "", |w| w.wait_max_ns)
            .column("threads", Unit::Count, 3, "threads or tasks that waited", |w| w.threads),
    );
}

/// Threads, tasks by name, and processes if there are several: the same columns for each.
fn owners(out: &mut Document, l: &Locks, rows: usize) {
    let threads = Rows::new("threads", "", &l.threads, rows)
        .column("thread", Unit::Text, 0, "", |t| &t.name)
        .column("tid", Unit::Id, 1, "", |t| t.tid);
    out.table(with_use(threads, |t| &t.used));
    let note = "by name; ratios are of their own CPU time";
    let tasks = Rows::new("tasks", note, &l.tasks, rows)
        .column("task", Unit::Text, 0, "", |t| &t.name)
        .column("tasks", Unit::Id, 1, "", |t| t.tasks);
    out.table(with_use(tasks, |t| &t.used));
    if l.processes.len() > 1 {
        let processes = Rows::new("processes", "", &l.processes, rows)
            .column("process", Unit::Text, 0, "", |p| &p.name)
            .column("pid", Unit::Id, 1, "", |p| p.pid);
        out.table(with_use(processes, |p| &p.used));
    }
}

/// Ratios are shares of the CPU time of that thread, task or process.
fn with_use<'r, R>(rows: Rows<'r, R>, of: impl Fn(&R) -> &Use) -> Rows<'r, R> {
    rows.column("lock ratio", Unit::Ratio, 0, "of its own CPU time", |r| of(r).lock_ratio)
        .column("wait ratio", Unit::Ratio, 0, "of its own execution time", |r| of(r).wait_ratio)
        .column("waited", Unit::Ns, 0, "", |r| of(r).wait_ns)
        .column("holds", Unit::Count, 1, "", |r| of(r).holds)
        .column("contended", Unit::Ratio, 1, "", |r| of(r).contended_share)
}

/// A row for each program of the tree.
fn programs(out: &mut Document, l: &Locks, rows: usize) {
    let note = "all processes of one name; ratios are of their own CPU time";
    out.table(
        Rows::new("programs", note, &l.programs, rows)
            .column("program", Unit::Text, 0, "", |p| &p.name)
            .column("processes", Unit::Id, 0, "", |p| p.processes)
            .column("cpu time", Unit::Ns, 0, "", |p| l.knows_states.then_some(p.cpu_ns))
            .column("lock ratio", Unit::Ratio, 0, "", |p| p.used.lock_ratio)
            .column("wait ratio", Unit::Ratio, 0, "", |p| p.used.wait_ratio)
            .column("system calls", Unit::Ratio, 1, "", |p| p.syscall_ratio)
            .column("kernel locks", Unit::Ratio, 1, "", |p| p.kernel_contention_ratio),
    );
}

/// System calls, and waits for the kernel's own locks.
fn kernel_tables(out: &mut Document, l: &Locks, rows: usize) {
    out.table(
        Rows::new("system calls", "most CPU time first", &l.syscalls, rows)
            .column("process", Unit::Text, 0, "", |s| &s.process)
            .column("pid", Unit::Id, 1, "", |s| s.pid)
            .column("call", Unit::Text, 0, "", |s| &s.name)
            .column("calls", Unit::Count, 0, "", |s| s.count)
            .column(
                "cpu time",
                Unit::Ns,
                0,
                "less than the time by what the thread slept in the call",
                |s| l.knows_states.then_some(s.cpu_ns),
            )
            .column("time", Unit::Ns, 0, "", |s| s.wall_ns)
            .column("max", Unit::Ns, 1, "", |s| s.max_ns),
    );
    // The kernel's event has no caller, so that is known only when system calls were recorded.
    let note = match l.syscalls.is_empty() {
        true => "waits; record --syscalls to see their callers",
        false => "waits",
    };
    out.table(
        Rows::new("the kernel's own locks", note, &l.kernel_locks, rows)
            .column("type", Unit::Text, 0, "", |k| &k.kind)
            .column("caller", Unit::Text, 0, "the system call that the thread was in", |k| {
                (!k.caller.is_empty()).then_some(&k.caller)
            })
            .column("waits", Unit::Count, 0, "", |k| k.count)
            .column("waited", Unit::Ns, 0, "", |k| k.wait_ns)
            .column("max", Unit::Ns, 0, "", |k| k.max_ns),
    );
}

/// Orders of locks that contradict each other. Circles of three locks and more are few, and are shown whatever `rows` says.
fn inversions(out: &mut Document, l: &Locks, rows: usize) {
    let mut heading = "locks taken in both orders";
    let mut note = "two threads that do so at the same time deadlock";
    out.list(heading, note, l.inversions.iter().map(inversion), rows);
    if !l.inversions.is_empty() {
        (heading, note) = ("", "");
    }
    let circles = l.order_cycles.iter().map(circle);
    out.list(heading, note, circles, usize::MAX);
}

/// A queue that did not end: as long as one holder handed the lock to the next.
fn convoy(c: Convoy) -> String {
    format!(
        "{} holds by {}, {}",
        c.length,
        plural(c.threads.into(), "thread"),
        ns(c.to_ns - c.from_ns)
    )
}

/// A place in the source, to be appended to a phrase.
fn place(place: &str) -> String {
    match place {
        "" => String::new(),
        place => format!(" at {place}"),
    }
}

/// Two locks in both orders: how often, by which threads, where, and whether that can deadlock. A common lock held around
/// both (a guard) prevents it, and so does a single thread that does both.
pub fn inversion(i: &Inversion) -> String {
    let whether = match &i.guard {
        // Whether it can is decided by the analysis; a guard alone is not the reason.
        _ if i.can_deadlock => "can deadlock".into(),
        Some(guard) => format!("not while `{guard}` is held around both, as it was every time"),
        None => format!("only by thread {}", i.tid_a),
    };
    format!(
        "`{a}` then `{b}`: {}, thread {}{}; `{b}` then `{a}`: {}, thread {}{}: {whether}",
        plural(i.first_then_second, "time"),
        i.tid_a,
        place(&i.place_a),
        plural(i.second_then_first, "time"),
        i.tid_b,
        place(&i.place_b),
        a = i.first,
        b = i.second,
    )
}

/// Three or more locks in a circle, step by step: each step's second lock is the next step's first.
fn circle(cycle: &OrderCycle) -> String {
    // Names are quoted: a lock may be called by an expression with spaces.
    let step = |s: &OrderStep| {
        let times = plural(s.times, "time");
        format!("`{}` then `{}` ({times}, thread {}{})", s.held, s.taken, s.tid, place(&s.place))
    };
    let steps: Vec<String> = cycle.steps.iter().map(step).collect();
    format!("in a circle: {}: can deadlock", steps.join(", "))
}
