//! The content of a recording, and which of Kasuri's questions it can answer: `kasuri info`.
//!
//! An answer is *yes* when nothing it rests on is missing, *partly* when a part of it is (and which), *no* when there is
//! nothing to work it out from. How to get more depends on the tool that recorded, known from the format.
use crate::summary_rows::LossSummary;
use kasuri_model::{KernelSpanKind, SliceKind, Trace};
use schemars::JsonSchema;
use serde::Serialize;

/// Version of what [`Contents`] looks like as JSON.
pub const CONTENTS_SCHEMA: &str = "kasuri.info/1";

/// A recording, described.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Contents {
    /// The name and version of this schema.
    #[schemars(extend("const" = CONTENTS_SCHEMA))]
    pub schema: &'static str,
    /// Format of the file.
    pub format: String,
    /// The tool that wrote it; "" when the file does not say.
    pub recorder: String,
    /// The recorded command; empty: none, or not known.
    pub command: Vec<String>,
    /// Host name; "" when not known, as all that follow.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine (architecture).
    pub machine: String,
    /// CPU model.
    pub cpu_model: String,
    /// Clock of the kernel's stamps, as tracefs names it.
    pub clock: String,
    /// CLOCK_REALTIME at the start, ns since 1970; none when not known.
    pub started_realtime_ns: Option<i64>,
    /// From the first event to the last.
    pub duration_ns: i64,
    /// CPUs of the machine.
    pub n_cpus: u32,
    /// CPUs whose scheduling was recorded.
    pub recorded_cpus: Vec<u32>,
    /// Processes seen.
    pub processes: u32,
    /// Threads seen.
    pub threads: u32,
    /// Kernel events.
    pub n_kernel_events: u64,
    /// Annotation events.
    pub n_annotation_events: u64,
    /// Events by kind, most first; empty when the file's reader does not count them.
    pub events: Vec<KindCount>,
    /// Rows made from them, by table.
    pub rows: Vec<KindCount>,
    /// Lost events by cause.
    pub losses: Vec<LossSummary>,
    /// Things that the recording cannot show, and how to get them.
    pub missing: Vec<String>,
    /// Kasuri's questions.
    pub answers: Vec<Answer>,
}

/// A kind and its number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KindCount {
    /// The kind.
    pub name: String,
    /// Number of events or rows.
    pub count: u64,
}

/// Whether a question can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Can {
    /// Yes.
    Yes,
    /// In part.
    Partly,
    /// No.
    No,
}

impl Can {
    /// For people.
    pub const fn word(self) -> &'static str {
        match self {
            Can::Yes => "yes",
            Can::Partly => "partly",
            Can::No => "no",
        }
    }
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Answer {
    /// The question, in short.
    pub topic: &'static str,
    /// The command that answers it.
    pub command: &'static str,
    /// Whether it can.
    pub can: Can,
    /// The data that it rests on, or that is missing.
    pub why: String,
    /// The way to the rest; "" when nothing is missing.
    pub remedy: String,
}

/// Describes a recording.
pub fn contents(trace: &Trace) -> Contents {
    let info = &trace.info;
    let mut events: Vec<KindCount> = (info.event_costs.iter())
        .map(|kind| KindCount { name: kind.name.clone(), count: kind.n })
        .collect();
    events.sort_by(|a, b| (b.count, &a.name).cmp(&(a.count, &b.name)));
    let cut = crate::cut::Cut::new(trace, &crate::Options::default());
    Contents {
        schema: CONTENTS_SCHEMA,
        format: info.format.clone(),
        recorder: info.recorder.clone(),
        command: info.command.clone(),
        host: info.host.clone(),
        kernel: info.kernel.clone(),
        machine: info.machine.clone(),
        cpu_model: info.cpu_model.clone(),
        clock: info.kernel_clock.clone(),
        started_realtime_ns: (trace.origin_realtime_ns != 0)
            .then(|| trace.origin_realtime_ns.saturating_add(trace.span.start.ns())),
        duration_ns: (trace.span.end - trace.span.start).ns(),
        n_cpus: trace.cpus.len() as u32,
        recorded_cpus: (0..trace.cpus.len() as u32)
            .filter(|&n| trace.cpus[n as usize].recorded)
            .collect(),
        processes: trace.processes.len() as u32,
        threads: trace.threads.len() as u32,
        n_kernel_events: trace.n_kernel_events,
        n_annotation_events: trace.n_annotation_events,
        events,
        rows: rows(trace),
        losses: crate::losses(&cut),
        missing: trace.missing(),
        answers: answers(trace),
    }
}

/// Rows of the tables that are not empty.
fn rows(trace: &Trace) -> Vec<KindCount> {
    let spans = |kind| trace.kernel_spans.kind.iter().filter(|k| **k == kind).count();
    let slices = |wanted: &[SliceKind]| {
        (trace.slices.kind.iter()).filter(|kind| wanted.contains(kind)).count()
    };
    let switches: u64 = trace.threads.iter().map(|t| u64::from(t.switches_in)).sum();
    let all = [
        ("switches to threads", switches as usize),
        ("wake-ups", trace.wakeups.time.len()),
        ("migrations", trace.migrations.time.len()),
        ("system calls", spans(KernelSpanKind::Syscall)),
        ("interrupts", spans(KernelSpanKind::Irq)),
        ("softirqs", spans(KernelSpanKind::Softirq)),
        ("kernel lock waits", spans(KernelSpanKind::LockContention)),
        ("slices of work", slices(&[SliceKind::Work])),
        (
            "waits",
            slices(&[
                SliceKind::Barrier,
                SliceKind::Join,
                SliceKind::Cond,
                SliceKind::Io,
                SliceKind::OtherWait,
            ]),
        ),
        ("waits for locks", slices(&[SliceKind::LockWait])),
        ("critical sections", slices(&[SliceKind::LockHold])),
        ("tasks", trace.tasks.len()),
        ("instants", trace.instants.time.len()),
        ("counters", trace.counters.len()),
        ("flows", trace.flows.id.len()),
    ];
    all.into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| KindCount { name: name.to_owned(), count: n as u64 })
        .collect()
}

/// The data that an answer can rest on.
struct Facts {
    switches: bool,
    wakeups: bool,
    others: bool,
    all_cpus: bool,
    lossless: bool,
    annotated: bool,
    repeated: bool,
    lock_slices: bool,
    kernel_locks: bool,
    tasks: bool,
    syscalls: bool,
    interrupts: bool,
    priced: bool,
    /// Call paths of this program or system.
    sampled: bool,
}

impl Facts {
    fn of(trace: &Trace) -> Facts {
        let known = crate::known(trace);
        let kinds = &trace.slices.kind;
        let has = |kind| kinds.contains(&kind);
        let spans = |kind| trace.kernel_spans.kind.contains(&kind);
        let work = (trace.slices.thread.iter().zip(kinds))
            .filter(|(_, kind)| matches!(kind, SliceKind::Work | SliceKind::Barrier));
        let mut threads: Vec<_> = work.map(|(thread, _)| *thread).collect();
        threads.dedup();
        threads.sort_unstable();
        threads.dedup();
        Facts {
            switches: known.switches,
            wakeups: known.switches && !trace.wakeups.time.is_empty(),
            others: known.other_processes,
            all_cpus: trace.cpus.iter().all(|cpu| cpu.recorded),
            lossless: trace.losses.is_empty(),
            annotated: !kinds.is_empty(),
            repeated: threads.len() > 1,
            lock_slices: has(SliceKind::LockHold) || has(SliceKind::LockWait),
            kernel_locks: spans(KernelSpanKind::LockContention),
            tasks: !trace.tasks.is_empty(),
            syscalls: spans(KernelSpanKind::Syscall),
            interrupts: spans(KernelSpanKind::Irq) || spans(KernelSpanKind::Softirq),
            priced: trace.info.event_costs.iter().any(|kind| kind.ns.is_some()),
            sampled: !trace.samples.time.is_empty(),
        }
    }
}

/// The tool whose options a remedy names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Kasuri,
    Perf,
    TraceCmd,
    Lttng,
    Other,
}

impl Tool {
    fn of(trace: &Trace) -> Tool {
        let format = trace.info.format.as_str();
        let starts = |prefix| format.starts_with(prefix);
        match () {
            _ if starts("kasuri") => Tool::Kasuri,
            _ if starts("perf") => Tool::Perf,
            // `perf data convert --to-ctf`
            _ if starts("CTF") && trace.info.recorder.starts_with("perf") => Tool::Perf,
            _ if starts("trace.dat") || starts("ftrace") => Tool::TraceCmd,
            _ if starts("CTF") => Tool::Lttng,
            _ => Tool::Other,
        }
    }

    fn switches(self) -> &'static str {
        match self {
            Tool::Kasuri => "record as root; kasuri doctor shows what is missing",
            Tool::Perf => "perf sched record",
            Tool::TraceCmd => "trace-cmd record -e sched",
            Tool::Lttng => "lttng enable-event -k 'sched_*'",
            Tool::Other => "kasuri record as root",
        }
    }

    fn wakeups(self) -> &'static str {
        match self {
            Tool::Perf => "perf record -a -e sched:sched_switch -e sched:sched_waking",
            Tool::TraceCmd => "trace-cmd record -e sched_switch -e sched_waking",
            Tool::Lttng => "lttng enable-event -k sched_switch,sched_waking",
            other => other.switches(),
        }
    }

    fn syscalls(self) -> &'static str {
        match self {
            Tool::Kasuri | Tool::Other => "kasuri record --syscalls",
            Tool::Perf => "perf record -a -e 'raw_syscalls:*' with the sched events",
            Tool::TraceCmd => "trace-cmd record -e sched -e raw_syscalls",
            Tool::Lttng => "lttng enable-event -k --syscall -a",
        }
    }

    fn call_paths(self) -> &'static str {
        match self {
            Tool::Kasuri => "kasuri doctor shows why none were",
            Tool::Perf => "perf record -g with the sched events",
            Tool::TraceCmd | Tool::Lttng | Tool::Other => "kasuri record",
        }
    }

    fn interrupts(self) -> &'static str {
        match self {
            Tool::Kasuri | Tool::Other => "kasuri record --irq",
            Tool::Perf => "perf record -a -e 'irq:*' with the sched events",
            Tool::TraceCmd => "trace-cmd record -e sched -e irq",
            Tool::Lttng => "lttng enable-event -k 'irq_*'",
        }
    }
}

const ANNOTATE: &str = "annotate the program (kasuri.h) and record it with kasuri record";

/// The way to what is missing, in the words of a tool.
type Remedy = fn(Tool) -> &'static str;

/// The answer of a rule that holds.
#[derive(Clone, Copy)]
enum Verdict {
    /// The scheduler's events are there: yes, or in part where [`limit`] finds that some of them are missing.
    Scheduler(&'static str),
    /// Yes.
    Yes(&'static str),
    /// In part: what is missing, and the way to it.
    Partly(&'static str, Remedy),
    /// No.
    No(&'static str, Remedy),
}
use Verdict::{No, Partly, Scheduler, Yes};

/// A verdict, and when it is given.
type Rule = (fn(&Facts) -> bool, Verdict);

/// A question that Kasuri answers. Its rules are asked in order, and the first that holds decides; the last always holds.
struct Question {
    topic: &'static str,
    command: &'static str,
    rules: &'static [Rule],
}

const NO_SWITCHES: &str = "no switches were recorded";
const OWN_SWITCHES: &str = "only this program's switches were recorded";
const PROBE: &str = "kasuri record --locks";

/// Wake-up latencies and the critical path rest on the same events.
const WITH_WAKEUPS: &[Rule] = &[
    (|f| f.wakeups, Scheduler("switches and wake-ups are known")),
    (|f| f.switches, No("no wake-ups were recorded", Tool::wakeups)),
    (|_| true, No(NO_SWITCHES, Tool::wakeups)),
];

/// In the order of `kasuri info`.
const QUESTIONS: &[Question] = &[
    Question {
        topic: "timeline",
        command: "kasuri report",
        rules: &[
            (|f| f.switches, Scheduler("every switch is known")),
            (
                |f| f.annotated,
                Partly("annotations only: the CPUs that they ran on are unknown", Tool::switches),
            ),
            (|_| true, No(NO_SWITCHES, Tool::switches)),
        ],
    },
    Question {
        topic: "account of all CPU time",
        command: "kasuri stat",
        rules: &[
            (|f| f.wakeups, Scheduler("switches and wake-ups are known")),
            (
                |f| f.switches,
                Partly(
                    "without wake-ups, blocked time includes time in the run queue",
                    Tool::wakeups,
                ),
            ),
            (|_| true, No(NO_SWITCHES, Tool::switches)),
        ],
    },
    Question {
        topic: "functions that ran and waited",
        command: "kasuri flame",
        rules: &[
            (|f| f.sampled, Yes("call paths were sampled")),
            (|_| true, No("no call paths were sampled", Tool::call_paths)),
        ],
    },
    Question { topic: "wake-up latencies", command: "kasuri stat", rules: WITH_WAKEUPS },
    Question { topic: "critical path", command: "kasuri critical", rules: WITH_WAKEUPS },
    Question {
        topic: "interference by other programs",
        command: "kasuri stat",
        rules: &[
            (|f| f.switches && f.others, Scheduler("every switch is known")),
            (|f| f.switches, No(OWN_SWITCHES, Tool::switches)),
            (|_| true, No(NO_SWITCHES, Tool::switches)),
        ],
    },
    Question {
        topic: "load imbalance",
        command: "kasuri stat",
        rules: &[
            (|f| f.repeated && f.switches, Scheduler("work of several threads is annotated")),
            (
                |f| f.sampled && f.switches,
                Partly(
                    "at barriers that samples tell; no work of several threads is annotated",
                    |_| ANNOTATE,
                ),
            ),
            (|f| !f.repeated, No("no work of several threads is annotated", |_| ANNOTATE)),
            (|_| true, Partly("by the clock, not by CPU time", Tool::switches)),
        ],
    },
    Question {
        topic: "locks",
        command: "kasuri locks",
        rules: &[
            (|f| f.lock_slices, Yes("locks are annotated")),
            (|f| f.kernel_locks, Partly("the kernel's own locks only", |_| PROBE)),
            (
                |f| f.sampled && f.switches,
                Partly(
                    "kasuri stat has the waits for locks that samples tell; no locks are annotated",
                    |_| PROBE,
                ),
            ),
            (|_| true, No("no locks are annotated", |_| PROBE)),
        ],
    },
    Question {
        topic: "work, span and parallelism",
        command: "kasuri stat",
        rules: &[
            (|f| f.tasks, Yes("tasks are annotated")),
            (
                |_| true,
                No("no tasks are annotated", |_| "ito and kasuri.h report tasks to kasuri record"),
            ),
        ],
    },
    Question {
        topic: "system calls",
        command: "kasuri stat",
        rules: &[
            (|f| f.syscalls, Yes("system calls are known")),
            (|_| true, No("not recorded; work includes them", Tool::syscalls)),
        ],
    },
    Question {
        topic: "interrupts",
        command: "kasuri stat",
        rules: &[
            (|f| f.interrupts, Yes("interrupts are known")),
            (
                |_| true,
                No(
                    "not recorded; the time of the code they interrupted includes them",
                    Tool::interrupts,
                ),
            ),
        ],
    },
    Question {
        topic: "speed-up on more CPUs",
        command: "kasuri predict",
        rules: &[
            (|f| f.wakeups, Scheduler("switches and wake-ups can be replayed")),
            (
                |f| f.switches,
                Partly(
                    "without wake-ups, the threads that were waited for are unknown",
                    Tool::wakeups,
                ),
            ),
            (|_| true, No(NO_SWITCHES, Tool::switches)),
        ],
    },
    Question {
        topic: "cost of the tracing itself",
        command: "kasuri stat",
        rules: &[
            (|f| f.priced, Yes("the cost of an event was measured on that machine")),
            (
                |_| true,
                No(
                    "the cost of an event was not measured on that machine",
                    |_| "kasuri overhead there, or kasuri record",
                ),
            ),
        ],
    },
];

/// The gravest limit on every answer that rests on the scheduler's events, and the way to the rest.
fn limit(facts: &Facts, tool: Tool) -> Option<(&'static str, &'static str)> {
    if !facts.lossless {
        let lost = "events were lost; times across the gaps are unknown";
        return Some((lost, "see the losses above"));
    }
    let missing = match (facts.others, facts.all_cpus) {
        (false, _) => OWN_SWITCHES,
        (true, false) => "not all CPUs were recorded",
        (true, true) => return None,
    };
    Some((missing, tool.switches()))
}

fn answers(trace: &Trace) -> Vec<Answer> {
    let (facts, tool) = (Facts::of(trace), Tool::of(trace));
    let limit = limit(&facts, tool);
    let answer = |question: &Question| {
        let mut rules = question.rules.iter();
        let (_, verdict) = rules.find(|(holds, _)| holds(&facts))?;
        let (can, why, remedy) = match (*verdict, limit) {
            (Scheduler(_), Some((missing, remedy))) => (Can::Partly, missing, remedy),
            (Scheduler(why) | Yes(why), _) => (Can::Yes, why, ""),
            (Partly(why, remedy), _) => (Can::Partly, why, remedy(tool)),
            (No(why, remedy), _) => (Can::No, why, remedy(tool)),
        };
        Some(Answer {
            topic: question.topic,
            command: question.command,
            can,
            why: why.to_owned(),
            remedy: remedy.to_owned(),
        })
    };
    QUESTIONS.iter().filter_map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_model::{Loss, ThreadIx, Time};

    fn can(trace: &Trace, topic: &str) -> (Can, String) {
        let answers = answers(trace);
        let answer = answers.iter().find(|a| a.topic == topic).unwrap();
        (answer.can, answer.remedy.clone())
    }

    fn with_switches(format: &str, kernel_source: &str) -> Trace {
        let mut trace = Trace::default();
        trace.info.format = format.into();
        trace.info.kernel_source = kernel_source.into();
        trace.states.start.push(Time(0));
        trace
    }

    #[test]
    fn an_empty_trace_answers_nothing_and_says_how_to_get_it() {
        let mut trace = Trace::default();
        trace.info.format = "perf.data".into();
        for answer in answers(&trace) {
            assert_eq!(answer.can, Can::No, "{answer:?}");
            assert!(!answer.remedy.is_empty(), "{answer:?}");
        }
        assert_eq!(can(&trace, "timeline").1, "perf sched record");
    }

    /// `kasuri stat` names locks and barriers by samples: then they are not *no*.
    #[test]
    fn what_samples_tell_is_told_in_part() {
        let mut trace = with_switches("kasuri", "tracefs");
        let all = ["functions that ran and waited", "load imbalance", "locks"];
        let found = |trace: &Trace| all.map(|topic| can(trace, topic).0);
        assert_eq!(found(&trace), [Can::No; 3]);
        trace.samples.time.push(Time(5));
        assert_eq!(found(&trace), [Can::Yes, Can::Partly, Can::Partly]);
    }

    #[test]
    fn the_remedy_is_the_recording_tools() {
        let by = |format| can(&with_switches(format, "tracefs"), "critical path").1;
        assert!(by("perf.data (pipe)").starts_with("perf record"));
        assert!(by("trace.dat v7").starts_with("trace-cmd record"));
        assert!(by("CTF 2").starts_with("lttng"));
    }

    /// A recorder that was killed while rings were full leaves an end at the last event kept, and losses after it.
    #[test]
    fn losses_behind_the_end_belong_to_the_whole_recording() {
        let mut trace = with_switches("kasuri", "tracefs");
        trace.span = Time(0)..Time(100);
        trace.losses.push(Loss {
            cause: "ring full".into(),
            cpu: None,
            thread: ThreadIx::NONE,
            when: Time(150)..Time(170),
            count: 13_888,
            remedy: String::new(),
        });
        let losses = |range| {
            let options = crate::Options { range, ..crate::Options::default() };
            let counts = crate::summary(&trace, &options).losses.into_iter();
            counts.map(|loss| loss.count).collect::<Vec<_>>()
        };
        assert_eq!(losses(None), [13_888]);
        assert_eq!(contents(&trace).losses[0].count, 13_888);
        assert!(losses(Some(Time(0)..Time(50))).is_empty());
    }

    #[test]
    fn losses_and_foreign_switches_make_answers_partial() {
        let mut trace = with_switches("kasuri", "tracefs");
        trace.wakeups.time.push(Time(0));
        assert_eq!(can(&trace, "account of all CPU time").0, Can::Yes);
        assert_eq!(
            can(&with_switches("kasuri", "perf"), "interference by other programs").0,
            Can::No
        );
        trace.losses.push(Loss {
            cause: "kernel buffer overrun".into(),
            cpu: Some(0),
            thread: ThreadIx::NONE,
            when: Time(0)..Time(1),
            count: 3,
            remedy: String::new(),
        });
        assert_eq!(can(&trace, "account of all CPU time").0, Can::Partly);
        assert_eq!(contents(&trace).losses[0].count, 3);
    }
}
