//! What the account and the hints say of a trace, and small programs to say it of.
use super::join::sampled;
use crate::account::story::Story;
use ThreadState::{RunnablePreempted, Sleeping};
use kasuri_analyze::{Options, summary};
use kasuri_model::{SampleKind, ThreadState, Trace};

/// (class, note, code, tid, ns) of the causes with more than 20 ns, largest first.
pub fn causes(trace: &Trace) -> Vec<(&'static str, &'static str, String, i32, i64)> {
    let s = summary(trace, &Options::default());
    let found = s.account.causes.iter().filter(|c| c.ns > 20);
    let row = |c: &kasuri_analyze::account::CauseSummary| {
        (c.class, c.note, c.code.clone(), c.tid.unwrap_or(0), c.ns)
    };
    found.map(row).collect()
}

/// 10 and 11 run from 0; 11 waits from 400 until 10 wakes it at 900.
pub fn late() -> Story {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 400, 11, Sleeping, 0);
    s.wake(0, 900, 10, 11, 1);
    s.switch(1, 900, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    s
}

pub const START: &str = "start_thread@libc.so.6";
pub const WAIT: &[&str] = &[START, "worker", "pthread_cond_wait@libc.so.6"];

/// 10 runs `late` and 11 `early`, then waits at `wait`.
pub fn two(late_at: &[&str], early: &[&str], wait: &[&str]) -> Trace {
    let samples = [
        (10, 250, SampleKind::OnCpu, late_at),
        (10, 750, SampleKind::OnCpu, late_at),
        (11, 200, SampleKind::OnCpu, early),
        (11, 500, SampleKind::BlockedRead, wait),
    ];
    sampled(late().load(1000), &samples)
}

/// The kinds of hints of a trace, and what they say.
pub fn hints(trace: &Trace) -> Vec<(&'static str, String)> {
    let found = summary(trace, &Options::default()).hints;
    found.into_iter().map(|h| (h.kind, h.text)).collect()
}

pub fn kinds(trace: &Trace) -> Vec<&'static str> {
    hints(trace).iter().map(|hint| hint.0).collect()
}

pub fn held(call: &[&str], lock: &[&str]) -> Trace {
    let mut s = Story::new(2);
    s.known = vec![11];
    s.switch(1, 100, 11, Sleeping, 0);
    s.switch(0, 200, 10, Sleeping, 0);
    s.wake(0, 850, 0, 10, 0);
    s.switch(0, 850, 0, RunnablePreempted, 10);
    s.wake(0, 900, 10, 11, 1);
    s.switch(1, 900, 0, RunnablePreempted, 11);
    s.switch(0, 999, 10, RunnablePreempted, 0);
    s.switch(1, 999, 11, RunnablePreempted, 0);
    let samples = [
        (10, 150, SampleKind::OnCpu, &[START, "worker", "append"][..]),
        (10, 500, SampleKind::BlockedRead, call),
        (11, 500, SampleKind::BlockedRead, lock),
    ];
    sampled(s.load(1000), &samples)
}

pub fn advice(trace: &Trace, kind: &str) -> String {
    let hints = summary(trace, &Options::default()).hints;
    let hint = hints.into_iter().find(|hint| hint.kind == kind);
    hint.map_or(String::new(), |hint| hint.text)
}
