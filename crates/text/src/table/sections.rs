//! The sections of `kasuri stat -v` that are no documents: the run in numbers, losses, what to try.
//!
//! Each is a method of `Page` that prints nothing when the summary has nothing for it.
use super::units::{count, duration, percent, plural, printable};
use super::{Layout, Page};
use kasuri_analyze::{
    AnnotationSummary, CpuTime, Summary, TaskGraph, WorstWakeup, handed_over_in, no_light_threads,
    pinned_for,
};
use kasuri_answers::run::{exit_text, loss_text};
use std::cmp::Reverse;

/// A time.
fn ns(value: i64) -> String {
    duration(value as f64)
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
