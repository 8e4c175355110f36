//! The sections of `kasuri stat -v`, in the order of the page.
//!
//! Each section is a method of `Page` that prints nothing when the summary has nothing for it. A number that was not
//! recorded is `-`, never 0 ([`known`]). The functions below them turn one row of the summary into words.
use super::account::small_bar;
use super::grid::{Grid, number, text, word};
use super::units::{count, duration, percent, plural, printable};
use super::{Layout, Page};
use kasuri_analyze::{
    AnnotationSummary, CpuTime, Imbalance, Latency, LossSummary, Summary, TaskGraph, ThreadSummary,
    WorstWakeup, handed_over_in, no_light_threads, pinned_for,
};
use std::cmp::Reverse;

/// A time.
fn ns(value: i64) -> String {
    duration(value as f64)
}

/// A time that may not be known.
fn maybe_ns(value: Option<i64>) -> String {
    value.map_or("-".into(), ns)
}

/// One quantile of a latency.
fn latency(value: Option<Latency>, pick: impl Fn(Latency) -> i64) -> String {
    maybe_ns(value.map(pick))
}

/// `, exited with 0`; "" where it is not known.
pub(super) fn exit_text(status: Option<i32>) -> String {
    match status {
        Some(status @ 129..=192) => format!(", killed by signal {}", status - 128),
        Some(status) => format!(", exited with {status}"),
        None => String::new(),
    }
}

/// The wake-up that took longest: whose, when, and how to look at it.
fn worst_wakeup(w: &WorstWakeup, layout: &Layout) -> String {
    let from = w.at_ns.saturating_sub(layout.start_ns);
    let to = from.saturating_add(w.latency_ns);
    let cpu = w.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let whose = printable(&w.thread);
    let text =
        format!("the longest: {whose} ({}){cpu}, woken at {:.6} s", w.tid, from as f64 * 1e-9);
    // As much again on both sides, to see what had the CPU. Fragments of the page count in ns.
    let around = w.latency_ns.max(1_000);
    let (from, to) = (from.saturating_sub(around).max(0), to.saturating_add(around));
    let ms = |ns: i64| ns as f64 * 1e-6;
    match layout.file.as_str() {
        "" => text,
        file => format!(
            "{text}: kasuri stat --range {:.3}ms..{:.3}ms {file}, or its report at #t={from}~{to}",
            ms(from),
            ms(to)
        ),
    }
}

/// The text of a number, or `-` where it was not recorded and would be 0.
fn known(is_known: bool, text: String) -> String {
    if is_known { text } else { "-".into() }
}

/// The cost of tracing: `cost the program 0.4 % of its CPU time (0.3..0.5): 8.50 ms; ...`; none when it is not known.
fn tracing(s: &Summary) -> Option<String> {
    let t = &s.tracing;
    let mut parts = Vec::new();
    if let Some(share) = t.share {
        // The upper end of an interval may be more than the whole time; a share is not.
        let of_cpu = |ns: i64| (share * ns as f64 / t.cost_ns.max(1) as f64).min(1.0) * 100.0;
        parts.push(format!(
            "cost the program {} of its CPU time ({:.1}..{:.1} %): {}",
            percent(share),
            of_cpu(t.low_ns),
            of_cpu(t.high_ns),
            ns(t.cost_ns)
        ));
    } else if let Some(used) = t.program_cpu_ns.filter(|&used| used < t.cost_ns) {
        parts.push(format!(
            "cost not known: at what one event costs when measured alone it would be {}, more than the {} of CPU time that the program used",
            ns(t.cost_ns),
            ns(used)
        ));
    } else if !t.events.is_empty() {
        parts.push(format!("cost the program {}", ns(t.cost_ns)));
    } else if t.unpriced > 0 {
        parts.push("cost not known: the cost of an event was not measured on that machine".into());
    }
    // Kernel events are recorded on the whole system: the part of other programs and of idle CPUs is stated separately.
    if t.system_ns > t.cost_ns {
        let others = t.system_ns - t.cost_ns;
        parts.push(format!("other programs and idle CPUs: {}", ns(others)));
    }
    if let Some(cpu) = t.recorder_cpu_ns {
        parts.push(format!("the recorder itself: {}", ns(cpu)));
    }
    if t.buffer_bytes > 0 {
        parts.push(format!("kernel buffers: {} MiB", t.buffer_bytes >> 20));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

impl Page<'_> {
    /// The run in numbers.
    pub(super) fn run(&mut self, s: &Summary) {
        // What another tool's file does not say is left out. The host's name comes from the recording: it may hold anything.
        let machine = [&s.cpu_model, &s.machine, &s.kernel, &s.host];
        let machine: Vec<String> =
            machine.into_iter().filter(|t| !t.is_empty()).map(|t| printable(t)).collect();
        let cpus = (s.n_cpus > 0).then(|| plural(s.n_cpus.into(), "CPU"));
        let machine = Some(machine.join(", ")).filter(|text| !text.is_empty());
        let what: Vec<String> = cpus.into_iter().chain(machine).collect();
        if !what.is_empty() {
            self.fact("machine", &what.join("; "));
        }
        self.fact("wall time", &format!("{}{}", ns(s.wall_ns), exit_text(s.exit_status)));
        self.fact("CPU use", &cpu_use(s));
        // The events' CPU time beside the kernel's: how much they miss.
        if let Some(account) = &s.cpu_time {
            self.fact("CPU time", &cpu_time(account));
        }
        self.activity(s);
        let events = format!(
            "{} of the kernel, {} of the program",
            count(s.n_kernel_events),
            count(s.n_annotation_events)
        );
        self.fact("events", &events);
        if let Some(text) = tracing(s) {
            self.fact("tracing", &text);
        }
        if s.losses.is_empty() {
            // Losses have a section of their own; that there were none is said here, or silence could mean either.
            self.fact("lost", "nothing");
        }
        self.which_program(s);
    }

    /// Switches, wake-ups and tasks; what was not recorded has no line.
    fn activity(&mut self, s: &Summary) {
        if s.known.switches {
            let text = format!(
                "{}, of them {}; {}",
                count(s.switches),
                plural(s.preemptions, "preemption"),
                plural(s.migrations, "migration")
            );
            self.fact("switches", &text);
        }
        // Without the kernel's wake-ups there is no latency: a thread's first run may be any time after it became
        // ready.
        if let Some(l) = s.wake_latency_ns {
            let text = format!(
                "{}; from waking to running: p50 {}, p99 {}, max {}",
                plural(s.wakeups, "wake-up"),
                ns(l.p50),
                ns(l.p99),
                ns(l.max)
            );
            self.fact("wake-ups", &text);
            if let Some(worst) = &s.worst_wakeup {
                let text = worst_wakeup(worst, self.layout);
                self.fact("", &text);
            }
        }
        if s.tasks.count > 0 {
            self.tasks(s);
        }
        self.light_threads(s);
    }

    /// The tasks of a runtime that annotates itself, and what their graph allows.
    fn tasks(&mut self, s: &Summary) {
        let t = &s.tasks;
        let mut text = format!(
            "{} in {}, {} of which moved to another thread; ran {}, queued {}",
            tasks_of(t.count, t.folded),
            plural(t.runs, "run"),
            count(t.moved),
            ns(t.run_ns),
            ns(t.queued_ns)
        );
        let graph = t.graph.as_ref();
        if let Some(g) = graph.filter(|g| g.depends > 0) {
            let (waiting, ready) = (ns(g.waiting_ns), ns(g.ready_ns));
            text += &format!(": {waiting} for other tasks, then {ready} for a worker");
        }
        self.fact("tasks", &text);
        if let Some(graph) = graph {
            self.fact("task graph", &task_graph(graph, s.n_cpus));
            let doubts = edge_doubts(EdgeDoubts {
                unknown: graph.unknown_edges,
                circular: graph.circular,
                early: graph.early,
                waits_outside: graph.waits_outside,
            });
            if !doubts.is_empty() {
                self.fact("task edges", &doubts);
            }
        }
    }

    /// What ito says of threads that did not run as light ones do, also where it tells of no tasks (libito-pthread.so).
    fn light_threads(&mut self, s: &Summary) {
        let facts = [
            ("calls", hand_overs(&s.annotations)),
            ("pinned", pins(&s.annotations)),
            ("threads", refusals(&s.annotations)),
        ];
        for (name, text) in facts {
            if !text.is_empty() {
                self.fact(name, &text);
            }
        }
    }

    /// Lost events with their remedies, and limitations. Both are listed in full, whatever `--top` says: each of them may
    /// be the reason for a surprising number above.
    pub(super) fn losses(&mut self, s: &Summary) {
        if !s.losses.is_empty() {
            self.heading("lost events", "times near them are unknown, not zero");
            for loss in &s.losses {
                let (what, remedy) = (loss_text(loss), printable(&loss.remedy));
                self.item(&what);
                if !remedy.is_empty() {
                    self.item(&format!("  remedy: {remedy}"));
                }
            }
        }
        if !s.missing.is_empty() {
            self.heading("limitations of this recording", "");
            for text in &s.missing {
                self.item(&printable(text));
            }
        }
    }

    /// A paragraph; spaces at its beginning indent all of its lines.
    pub(super) fn item(&mut self, text: &str) {
        let indent = "  ".to_string() + &" ".repeat(text.len() - text.trim_start().len());
        for line in
            super::wrap(text.trim_start(), self.layout.width.saturating_sub(indent.len()).max(20))
        {
            self.line(&format!("{indent}{line}"));
        }
    }

    /// A paragraph for each region or loop whose threads had unequal work.
    pub(super) fn imbalance(&mut self, s: &Summary) {
        // An imbalance that would be printed as 0 % is left out.
        let found: Vec<&Imbalance> = s.imbalance.iter().filter(|i| i.imbalance >= 0.005).collect();
        if found.is_empty() {
            return;
        }
        self.heading(
            "load imbalance",
            match s.known.switches {
                true => "CPU time that threads waited for the slowest",
                false => "time that threads waited for the slowest, by the clock",
            },
        );
        let shown = self.shown(found.len());
        for i in &found[..shown] {
            self.item(&imbalance_text(i));
            // Details only where the cost is 0.5 % of the capacity or more: others would hide them.
            let is_worth = i.cost_ns >= s.capacity_ns as f64 * 0.005;
            let more = [late_text(i), rounds_text(i)];
            for text in more.into_iter().flatten().filter(|_| is_worth) {
                self.item(&format!("  {text}"));
            }
        }
        if shown < found.len() {
            let more = format!("  ... and {} more (--top 0 shows all)", found.len() - shown);
            self.line(&more);
        }
    }

    /// A row for each thread; process ids only where there are several.
    pub(super) fn threads(&mut self, s: &Summary) {
        if s.threads.is_empty() {
            return;
        }
        self.heading("threads", &threads_note(s));
        let mut grid = Grid::new(&[
            text("THREAD"),
            number("TID", 0),
            number("PID", 6),
            number("ON CPU", 0),
            number("READY", 1),
            number("BLOCKED", 1),
            number("UNKNOWN", 5),
            number("SWITCHES", 0),
            number("PREEMPTED", 2),
            number("MIGRATED", 3),
            number("WAKE P50", 4),
            number("WAKE P99", 3),
            number("WAKE MAX", 5),
            word("ACCOUNT", 3),
        ]);
        let shown = self.shown(s.threads.len());
        // A column that says the same in every row only takes room from the others.
        let many = s.threads.iter().any(|t| t.pid != s.threads[0].pid);
        for t in &s.threads[..shown] {
            grid.row(thread_row(s, t, many));
        }
        self.grid(grid, shown, s.threads.len());
    }

    /// A row for each CPU, of shares of the wall time.
    pub(super) fn cpus(&mut self, s: &Summary) {
        if !s.known.switches || s.cpus.is_empty() || s.wall_ns <= 0 {
            return;
        }
        self.heading("CPUs", "share of the wall time");
        let mut grid = Grid::new(&[
            text("CPU"),
            number("PROGRAM", 0),
            number("OTHERS", 0),
            number("IDLE", 0),
            number("UNKNOWN", 1),
            number("IRQ", 2),
            number("SWITCHES", 1),
            word("ACCOUNT", 3),
        ]);
        // IRQ lies inside the other columns: an interrupt takes its time from whatever it interrupts.
        let share = |value: i64| percent(value as f64 / s.wall_ns as f64);
        let unknown = s.cpus.iter().any(|c| c.unknown_ns > 0);
        // CPUs on which nothing of the program ran are alike: on large machines the busiest CPUs come first.
        let mut order: Vec<_> = s.cpus.iter().collect();
        let shown = if s.cpus.len() <= 16 { s.cpus.len() } else { self.shown(s.cpus.len()) };
        if shown < order.len() {
            order.sort_by_key(|c| std::cmp::Reverse(c.target_ns));
        }
        for c in &order[..shown] {
            grid.row([
                format!("CPU {}", c.cpu),
                share(c.target_ns),
                known(s.known.other_processes, share(c.other_ns)),
                known(s.known.other_processes, share(c.idle_ns)),
                known(unknown, share(c.unknown_ns)),
                c.irq_ns.map_or("-".into(), share),
                count(c.switches),
                s.account
                    .cpus
                    .iter()
                    .find(|a| a.cpu == c.cpu)
                    .map_or("-".into(), |a| small_bar(&a.classes)),
            ]);
        }
        self.grid(grid, shown, s.cpus.len());
    }

    /// What to try, with the command to start with.
    pub(super) fn hints(&mut self, s: &Summary) {
        if s.hints.is_empty() {
            return;
        }
        self.heading("what to try", "most to gain first");
        // Not cut by `--top`: hints are few, and each is worth a command.
        for hint in &s.hints {
            self.item(&printable(&hint.text));
            if let Some(command) = &hint.command {
                self.item(&format!("  {}", printable(command)));
            }
        }
    }
}

/// How many CPUs were busy on average.
fn cpu_use(s: &Summary) -> String {
    match s.cpu_use {
        Some(share) => format!(
            "{:.2} of {} busy ({}); ran on {}",
            // CPUs that were busy with the program, on average over the wall time.
            share * f64::from(s.n_cpus),
            plural(s.n_cpus.into(), "CPU"),
            percent(share),
            s.cpus_used
        ),
        None => "not recorded".into(),
    }
}

/// The CPU time that the kernel counted, and how much of it the events show.
fn cpu_time(account: &CpuTime) -> String {
    let (kernel, seen) = (ns(account.kernel_ns), ns(account.seen_ns));
    let share = percent(account.unseen_share.abs());
    if let Some(counted_ns) = account.counted_ns {
        // `counted_ns` is the sum over threads of sched_stat_runtime; `kernel_ns` is from getrusage. The second is
        // the yardstick.
        let off = (counted_ns - account.kernel_ns) as f64 / account.kernel_ns as f64;
        let how_far = match account.unseen_ns {
            1.. => format!("{share} less"),
            0 => "as much".to_owned(),
            _ => format!("{share} more"),
        };
        return format!(
            "{kernel} counted by the kernel; its run times add up to {} ({:+.2} %); the switches show {seen}, {how_far}",
            ns(counted_ns),
            off * 100.0
        );
    }
    let how_far = match account.unseen_ns {
        1.. => format!("{share} less"),
        0 => "the same".to_owned(),
        _ => format!("{share} more"),
    };
    format!("{kernel} counted by the kernel; the events show {seen}, {how_far}")
}

/// What makes a task graph less certain, as counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeDoubts {
    /// Edges that name a task that nobody knows.
    pub unknown: u64,
    /// Edges that close a circle.
    pub circular: u64,
    /// Dependences that were not kept.
    pub early: u64,
    /// Waits that are no edges.
    pub waits_outside: u64,
}

/// What is wrong with joins and dependences: those that name an unknown task, that are cut out of circles, that were not kept.
/// "" for nothing.
pub fn edge_doubts(of: EdgeDoubts) -> String {
    let doubts = [
        (of.unknown, "join or dependence", "joins or dependences", "left out: no task has the id"),
        (of.circular, "edge", "edges", "left out: tasks would wait for each other"),
        (
            of.early,
            "dependence",
            "dependences",
            "not kept: the task started before the other had ended",
        ),
        (
            of.waits_outside,
            "wait",
            "waits",
            "of code outside of tasks not in the graph: its span is too short, its parallelism too high",
        ),
    ];
    let seen = doubts.iter().filter(|d| d.0 > 0);
    let text = seen.map(|&(n, one, many, what)| {
        let noun = if n == 1 { one } else { many };
        format!("{} {noun} {what}", count(n))
    });
    text.collect::<Vec<_>>().join("; ")
}

/// How often a worker of ito went to another kernel thread, as its own waited in a call, and in which calls: the most frequent
/// ones first. Empty: never.
fn hand_overs(annotations: &[AnnotationSummary]) -> String {
    let (n, calls, total_ns) = most_frequent(annotations, handed_over_in, "in", "calls");
    if n == 0 {
        return String::new();
    }
    let n = plural(n, "time");
    format!("handed over {n}, {calls}; they took {}", ns(total_ns))
}

/// How many light threads were pinned, and what for. Empty: none.
fn pins(annotations: &[AnnotationSummary]) -> String {
    let (n, reasons, _) = most_frequent(annotations, pinned_for, "for", "reasons");
    if n == 0 {
        return String::new();
    }
    let whose = if n == 1 { "its" } else { "their" };
    let threads = plural(n, "light thread");
    format!("{threads} on a kernel thread of {whose} own: {reasons}")
}

/// Why threads are kernel threads, in each of the programs that were to have light ones.
fn refusals(annotations: &[AnnotationSummary]) -> String {
    let why = annotations
        .iter()
        .filter_map(|row| no_light_threads(&row.name))
        .map(|why| format!("kernel threads: {}", printable(why)));
    why.collect::<Vec<_>>().join("; ")
}

/// Of the annotations whose name says something by `of`: how many, "190 in write, 24 in futex" with the most frequent ones first, and
/// how long they took together.
fn most_frequent<'a>(
    annotations: &'a [AnnotationSummary],
    of: impl Fn(&'a str) -> Option<&'a str>,
    word: &str,
    others: &str,
) -> (u64, String, i64) {
    const NAMED: usize = 4;
    let mut rows: Vec<(u64, &str)> = Vec::new();
    let mut total_ns = 0;
    for row in annotations {
        if let Some(what) = of(&row.name) {
            rows.push((row.count, what));
            total_ns += row.total_ns;
        }
    }
    rows.sort_by_key(|&(n, what)| (Reverse(n), what));
    let sum = |rows: &[(u64, &str)]| rows.iter().map(|(n, _)| n).sum::<u64>();
    let mut parts: Vec<String> = rows
        .iter()
        .take(NAMED)
        .map(|&(n, what)| format!("{} {word} {}", count(n), printable(what)))
        .collect();
    if rows.len() > NAMED {
        let rest = count(sum(&rows[NAMED..]));
        parts.push(format!("{rest} {word} other {others}"));
    }
    (sum(&rows), parts.join(", "), total_ns)
}

/// How many tasks, and how many of these are folded into others.
fn tasks_of(count_of_all: u64, folded: u64) -> String {
    match folded {
        0 => plural(count_of_all, "task"),
        n => format!("{} ({} folded)", plural(count_of_all, "task"), count(n)),
    }
}

/// Work, span, the speed-up that they allow, and the parts of the heaviest chain.
fn task_graph(graph: &TaskGraph, n_cpus: u32) -> String {
    let (most, least) = match graph.folded {
        0 => ("", ""),
        _ => ("at most ", "at least "),
    };
    let mut text = format!(
        "work {}, span {most}{}: parallelism {least}{:.1}",
        ns(graph.work_ns),
        ns(graph.span_ns),
        graph.parallelism
    );
    // Brent's bound on time, T <= work / P + span, as a bound on speed-up: a greedy scheduler is at least this fast.
    let least = |cpus: u32| {
        let (work, span) = (graph.work_ns as f64, graph.span_ns as f64);
        (work / (work / f64::from(cpus) + span)).max(1.0)
    };
    // With a span that is too short it is no bound.
    if n_cpus > 1 && graph.waits_outside == 0 {
        text += &format!(", speed-up on {n_cpus} CPUs at least {:.2}", least(n_cpus));
    }
    let on_path: Vec<String> = graph
        .path
        .iter()
        // Parts under 5 % of the span would not change it if they took no time.
        .filter(|part| part.ns >= graph.span_ns / 20 && part.ns > 0)
        .take(3)
        .map(|part| {
            let share = percent(part.ns as f64 / graph.span_ns.max(1) as f64);
            let folded = match part.folded {
                0 => String::new(),
                n => format!(" ({} folded)", plural(n, "task")),
            };
            format!("{} {share}{folded}", printable(&part.name))
        })
        .collect();
    if !on_path.is_empty() {
        text += &format!("; longest path: {}", on_path.join(", "));
    }
    // A task ran then, and the recording does not show whether its thread was on a CPU.
    if graph.unknown_ns > 0 {
        let share = percent(graph.unknown_ns as f64 / graph.work_ns.max(1) as f64);
        text += &format!(" ({share} of the work: not known whether on a CPU)");
    }
    text
}

/// A loss: how many events, where, when and why.
pub(super) fn loss_text(loss: &LossSummary) -> String {
    // Tracers that overwrite old events tell that they did, and not always how many: 0 stands for that.
    let n = if loss.count == 0 { "an unknown number of".into() } else { count(loss.count) };
    let place = match (loss.cpu, loss.tid) {
        (Some(cpu), _) => format!(" on CPU {cpu}"),
        (None, Some(tid)) => format!(" of thread {tid}"),
        (None, None) => String::new(),
    };
    let gaps = if loss.gaps > 1 { format!(" in {} gaps", count(loss.gaps)) } else { String::new() };
    let (from, to) = (ns(loss.from_ns), ns(loss.to_ns));
    format!("{n} events{place}{gaps} between {from} and {to}: {}", printable(&loss.cause))
}

/// An imbalance: where, how much, what it cost, and which thread was slowest how often.
fn imbalance_text(i: &Imbalance) -> String {
    let name = printable(&i.name);
    let threads = plural(i.threads.into(), "thread");
    let (what, over) = match i.by {
        "region" => (
            format!("all work before {name}"),
            format!("{} of {threads}", plural(i.instances, "round")),
        ),
        // A loop without rounds: threads are compared by their sums over the whole recording.
        "total" => (name, format!("the sums of {threads}")),
        _ => (name, format!("{} of {threads}", plural(i.instances, "round"))),
    };
    let how_often = if i.instances < 2 {
        "in the only round".to_string()
    // Would be printed as 100.0 %, which "always" says better.
    } else if i.worst_share > 0.9995 {
        "always".to_string()
    } else {
        format!("in {}", percent(i.worst_share))
    };
    let (loss, cost) = (i.imbalance * 100.0, i.cost_ns * 1e-9);
    let worst = printable(&i.worst_thread);
    format!(
        "{what}: {loss:.0} % imbalance, cost {cost:.3} CPU-s over {over}; slowest {how_often}: thread {worst} ({})",
        i.worst_tid
    )
}

/// Which thread is late, and what to do about it; none without a test of chance, or with too few rounds.
fn late_text(i: &Imbalance) -> Option<String> {
    // Friedman's test: how often chance alone makes threads differ as much.
    let chance = match i.p_value? {
        p if p < 0.001 => "p < 0.001".to_string(),
        p => format!("p = {p:.3}"),
    };
    let first = i.by_thread.first()?;
    let mean = i.mean_busy_ns.max(1.0);
    let more = (first.busy_ns as f64 / mean - 1.0) * 100.0;
    let saves = i.static_cost_ns / i.cost_ns.max(1.0) * 100.0;
    let name = printable(&first.name);
    Some(match i.cause {
        "static" => format!(
            "the work is split unevenly: {name} has {more:.0} % more than the mean; a better fixed split saves {saves:.0} % of the cost ({chance})"
        ),
        "mixed" => format!(
            "the work is split unevenly in part: {name} has {more:.0} % more than the mean, which is {saves:.0} % of the cost ({chance}); the rest changes from round to round"
        ),
        "changing" => format!(
            "a different thread is late each time ({chance}): a better fixed split would save {saves:.0} % of the cost; hand out the work in smaller pieces, or look for interference"
        ),
        // Too few rounds to tell.
        _ => return None,
    })
}

/// The distribution over rounds, as a histogram in block characters; none below three rounds, as the line above has all
/// there is to a single round.
fn rounds_text(i: &Imbalance) -> Option<String> {
    // The lower eighths of a cell, one to eight.
    const BARS: [char; 8] = [
        '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}',
        '\u{2588}',
    ];
    // The histogram has equal steps from 0 to 100 %; the tallest bar is the most frequent one, not all rounds.
    let r = &i.rounds;
    let most = *r.histogram.iter().max()? as f64;
    if i.instances < 3 || most == 0.0 {
        return None;
    }
    let bar = |&n: &u64| match n {
        0 => '\u{b7}',
        n => BARS[((n as f64 / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    let bars: String = r.histogram.iter().map(bar).collect();
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    Some(format!(
        "imbalance by round: p50 {}, p90 {}, max {} at {}; 0 % {bars} 100 %",
        percent(r.p50),
        percent(r.p90),
        percent(r.max),
        ns(r.worst_at_ns)
    ))
}

/// The row of a thread; the account's bar is the last cell. Its cells are in the order of the columns of `threads`.
fn thread_row(s: &Summary, t: &ThreadSummary, many_processes: bool) -> [String; 14] {
    let k = s.known;
    [
        if t.name.is_empty() { format!("thread {}", t.tid) } else { t.name.clone() },
        t.tid.to_string(),
        // `known` writes `-` for false, and the grid drops a column that has nothing else.
        known(many_processes, t.pid.to_string()),
        known(k.switches, ns(t.on_cpu_ns)),
        known(k.switches, ns(t.runnable_ns)),
        known(k.switches, ns(t.blocked_ns)),
        known(t.unknown_ns > 0, ns(t.unknown_ns)),
        known(k.switches, count(t.switches)),
        known(k.switches, count(t.preemptions)),
        known(k.switches, count(t.migrations)),
        latency(t.wake_latency_ns, |l| l.p50),
        latency(t.wake_latency_ns, |l| l.p99),
        latency(t.wake_latency_ns, |l| l.max),
        s.account
            .threads
            .iter()
            .find(|a| k.switches && (a.tid, a.pid) == (t.tid, t.pid))
            .map_or("-".into(), |a| small_bar(&a.classes)),
    ]
}

/// What the table's headings mean with the events that were recorded.
fn threads_note(s: &Summary) -> String {
    let note = match (s.known.switches, s.known.wakeups) {
        // With wake-ups a thread is ready from the moment it is woken.
        (true, true) => "READY: could run, but had no CPU",
        // Without wake-ups it is not known when a sleeping thread became ready.
        (true, false) => "READY: preempted; BLOCKED: asleep, or woken and not yet running",
        (false, _) => "scheduler events were not recorded",
    };
    note.into()
}
