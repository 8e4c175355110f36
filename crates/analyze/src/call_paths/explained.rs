//! How much of the account has a named call path, and why the rest has none.
use super::cover::Cover;
use super::frames::Frames;
use super::hot::{PathTime, path_frame};
use kasuri_base::quick::QuickMap;
use kasuri_model::{FrameKind, ThreadIx, ThreadState, Time, Trace};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A thread that ran for less than so many periods has one sample or none.
const SHORT: i64 = 2;
/// A wait of this length is read from outside, ns: the recorder looks at a thread each 20 to 80 ms, and reads its stack at the second look.
const READ_NS: i64 = 160_000_000;

/// The time that the program's own code can explain, and what is known of it: all classes but those in which other
/// programs had the CPU, without their time without code. `named_ns`, and the `ns` of `nameless` and `unsampled` add up to `ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Explained {
    /// The time.
    pub ns: i64,
    /// Its call path begins with a function that has a name.
    pub named_ns: i64,
    /// It has a call path whose innermost function has no name, by module, most first.
    pub nameless: Vec<NamelessTime>,
    /// No sample with a call path stands for it, by reason, most first.
    pub unsampled: Vec<UnsampledTime>,
}

/// Time in code without names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct NamelessTime {
    /// `file`: a program or library; `run_time`: code that was made while the program ran; `kernel`; `nowhere`: an address in no mapping.
    #[schemars(extend("enum" = ["file", "run_time", "kernel", "nowhere"]))]
    pub kind: &'static str,
    /// Program or library, without its folders.
    pub module: String,
    /// Time.
    pub ns: i64,
}

/// Time without a sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct UnsampledTime {
    /// `short_thread`: a thread that ran for less than two periods in all; `short_wait`: a wait under 160 ms, which may be over before it is read;
    /// `other`: a thread that ran for longer, or a longer wait.
    #[schemars(extend("enum" = ["short_thread", "short_wait", "other"]))]
    pub reason: &'static str,
    /// Threads.
    pub threads: u64,
    /// Time.
    pub ns: i64,
}

/// Why a stretch has no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    ShortThread,
    ShortWait,
    Other,
}

impl Reason {
    const fn key(self) -> &'static str {
        match self {
            Reason::ShortThread => "short_thread",
            Reason::ShortWait => "short_wait",
            Reason::Other => "other",
        }
    }
}

/// Stretches without a sample, by thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Gaps {
    ns: BTreeMap<(Reason, ThreadIx), i64>,
    /// Of each thread that was asked for: whether it [`is_short`]. To find out takes a walk over its states, and it may have as many
    /// stretches as states.
    short: QuickMap<ThreadIx, bool>,
}

impl Gaps {
    /// Adds a stretch of a thread without a sample.
    pub fn add(&mut self, trace: &Trace, cover: &Cover, thread: ThreadIx, from: Time, to: Time) {
        let info = &trace.threads[thread.ix()];
        let rows = info.states.start as usize..info.states.end as usize;
        let starts = &trace.states.start[rows.clone()];
        let mut row = starts.partition_point(|&start| start <= from);
        let mut at = from;
        let mut is_short_thread = || {
            let known = self.short.entry(thread);
            *known.or_insert_with(|| is_short(trace, cover, thread))
        };
        while at < to {
            let begin = row.checked_sub(1).map(|row| starts[row]);
            let end = starts.get(row).copied().unwrap_or(info.alive.end.max(to));
            let state = row.checked_sub(1).map(|row| trace.states.state[rows.start + row]);
            let reason = match state {
                Some(ThreadState::Running) if is_short_thread() => Reason::ShortThread,
                Some(state)
                    if state.is_blocked() && begin.is_some_and(|b| (end - b).ns() < READ_NS) =>
                {
                    Reason::ShortWait
                }
                _ => Reason::Other,
            };
            let until = end.min(to).max(at);
            *self.ns.entry((reason, thread)).or_default() += (until - at).ns();
            if until == at && row >= starts.len() {
                break;
            }
            (at, row) = (until, row + 1);
        }
    }

    fn rows(&self) -> Vec<UnsampledTime> {
        let mut by_reason: BTreeMap<Reason, UnsampledTime> = BTreeMap::new();
        for (&(reason, _), &ns) in self.ns.iter().filter(|&(_, &ns)| ns > 0) {
            let row = by_reason.entry(reason).or_default();
            (row.reason, row.threads, row.ns) = (reason.key(), row.threads + 1, row.ns + ns);
        }
        let mut rows: Vec<UnsampledTime> = by_reason.into_values().collect();
        rows.sort_by_key(|row| (std::cmp::Reverse(row.ns), row.reason));
        rows
    }
}

/// Whether the thread ran for less than [`SHORT`] periods in all.
fn is_short(trace: &Trace, cover: &Cover, thread: ThreadIx) -> bool {
    let mut ran = 0;
    for row in trace.states_of(thread) {
        if row.state == ThreadState::Running {
            ran += (row.end - row.start).ns();
            if ran >= SHORT.saturating_mul(cover.period_ns(row.start)) {
                return false;
            }
        }
    }
    true
}

/// What is known of these paths, and of the time without.
pub(super) fn explained(
    trace: &Trace,
    frames: &mut Frames<'_>,
    times: &[PathTime],
    gaps: &Gaps,
) -> Explained {
    let mut out = Explained { unsampled: gaps.rows(), ..Explained::default() };
    out.ns = out.unsampled.iter().map(|row| row.ns).sum();
    let mut nameless: BTreeMap<(&'static str, String), i64> = BTreeMap::new();
    for time in times {
        out.ns += time.ns;
        let innermost = frames.shown(time.path)[0];
        if trace.frames.function[innermost.ix()].is_some() {
            out.named_ns += time.ns;
            continue;
        }
        let module = path_frame(trace, innermost).module;
        let kind = match trace.frames.kind[innermost.ix()] {
            FrameKind::Kernel => "kernel",
            FrameKind::Jit => "run_time",
            _ if module.is_empty() => "nowhere",
            _ => "file",
        };
        *nameless.entry((kind, module)).or_default() += time.ns;
    }
    let rows = nameless.into_iter().map(|((kind, module), ns)| NamelessTime { kind, module, ns });
    out.nameless = rows.collect();
    out.nameless.sort_by_key(|row| std::cmp::Reverse(row.ns));
    out
}
