//! The path, from the end back.
//!
//! It begins with the thread that ended last. As long as a thread runs, or is ready, the path stays with it. Where a
//! thread of the program woke it, or made it, or it had spun until that thread gave a lock back or came to a barrier,
//! the path goes on with that thread at that moment. So the stretches follow each other without gaps.
use super::Stretch;
use super::graph::Graph;
use super::uses::NONE;
use kasuri_model::{StrIx, ThreadIx, ThreadState, Time};
use std::ops::Range;

/// The stretches, last first, and the number of hops between threads.
pub(super) fn walk(graph: &mut Graph<'_>, span: Range<Time>) -> (Vec<Stretch>, u64) {
    let trace = graph.trace;
    let ends_last = |t: &ThreadIx| (graph.active_end(*t), std::cmp::Reverse(*t));
    let mut threads = (0..trace.threads.len() as u32).map(ThreadIx);
    let is_target = |t: &ThreadIx| graph.is_target[t.ix()];
    let Some(mut thread) = threads.by_ref().filter(is_target).max_by_key(ends_last) else {
        return (Vec::new(), 0);
    };
    let (mut out, mut hops, mut at) = (Vec::new(), 0, span.end);
    // A hop at the same instant takes no time; a circle of them would never end.
    let (mut still, most_still) = (0, trace.threads.len() + 2);
    while at > span.start && still <= most_still {
        let before = at;
        let Some(row) = graph.row_before(thread, at) else {
            break;
        };
        let start = trace.states.start[row].max(span.start);
        let mut hop = None;
        match trace.states.state[row] {
            ThreadState::Running => hop = run(graph, thread, start, &mut at, &mut out),
            state => {
                let kind = match state {
                    ThreadState::RunnableWoken | ThreadState::RunnablePreempted => "ready",
                    ThreadState::Unknown => "unknown",
                    _ => "outside",
                };
                // Asleep until the instant it ran: the path goes on with the thread that woke it.
                let asleep = kind == "outside";
                let direct = if asleep { graph.waker(thread, row, at) } else { None };
                match direct {
                    Some(by) => hop = Some(by),
                    None => {
                        match kind {
                            "outside" => waits(graph, thread, start, at, &mut out),
                            _ => push(&mut out, kind, thread, (StrIx::NONE, NONE), start, at),
                        }
                        at = start;
                        if state == ThreadState::RunnableWoken {
                            hop = graph.waker(thread, row, start);
                        }
                    }
                }
            }
        }
        let alive = trace.threads[thread.ix()].alive.start;
        if hop.is_none() && at <= alive && at > span.start {
            let first = trace.threads[thread.ix()].states.start as usize;
            let maker = trace.states.by[first];
            hop = Some(maker).filter(|m| m.is_some() && graph.is_target[m.ix()]);
            if hop.is_none() {
                break;
            }
        }
        if let Some(by) = hop.filter(|by| *by != thread) {
            thread = by;
            hops += 1;
        }
        still = if at < before { 0 } else { still + 1 };
    }
    if at > span.start {
        push(&mut out, "unknown", thread, (StrIx::NONE, NONE), span.start, at);
    }
    (out, hops)
}

/// Back over a running stretch, to its start or to where it had spun for another thread.
fn run(
    graph: &mut Graph<'_>,
    thread: ThreadIx,
    start: Time,
    at: &mut Time,
    out: &mut Vec<Stretch>,
) -> Option<ThreadIx> {
    let spins = graph.spins_of(thread);
    let last = spins[..spins.partition_point(|s| s.until <= *at)].last().copied();
    let spin = last.filter(|s| s.until > start);
    let stop = spin.map_or(start, |s| s.until);
    while *at > stop {
        let (code, mut since) = graph.code_before(thread, stop, *at);
        let mut of_sample = NONE;
        if !code.is_some() {
            let begun;
            (of_sample, begun) = graph.uses.tracks[thread.ix()].before(*at);
            since = since.max(begun);
        }
        push(out, "run", thread, (code, of_sample), since, *at);
        *at = since;
    }
    spin.map(|s| s.by)
}

/// Back over a wait.
fn waits(graph: &Graph<'_>, thread: ThreadIx, start: Time, end: Time, out: &mut Vec<Stretch>) {
    let mut at = end;
    while at > start {
        let (of_sample, begun) = graph.uses.tracks[thread.ix()].before(at);
        let since = begun.max(start);
        push(out, "outside", thread, (StrIx::NONE, of_sample), since, at);
        at = since;
    }
}

fn push(
    out: &mut Vec<Stretch>,
    kind: &'static str,
    thread: ThreadIx,
    (code, of_sample): (StrIx, u32),
    from: Time,
    to: Time,
) {
    if to > from {
        out.push(Stretch { kind, thread, code, at: of_sample, from, to });
    }
}
