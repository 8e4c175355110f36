//! The run again, with something changed: each thread does what it did, as soon as it may.
//!
//! A thread's time is made of running, being ready and being blocked. Running takes as long as it took, unless the
//! change says otherwise; being ready takes as long as it took. A wait that a thread of the program ended lasts until
//! that thread is where it was when it did; any other lasts as long as it lasted. Without a change every thread is at
//! every moment where it was: the replay of nothing is the run. Threads are carried along in the order in which they
//! woke each other, so one pass over the wake-ups does it: for each thread, two clocks, the run's and the replay's.
//!
//! The replay ignores this: with less waiting, more threads may be ready than CPUs; their delays stay those of the run.
use super::graph::{Graph, Spin};
use crate::account::track::Track;
use kasuri_model::{SliceKind, StrIx, ThreadIx, ThreadState, Time};
use std::collections::HashMap;

/// The change to the run.
pub(super) enum Change {
    /// Nothing.
    Nothing,
    /// All slices of this name take half their time on a CPU.
    Half(StrIx),
    /// What samples say of this function, of [`super::uses::Uses`], takes half its time on a CPU.
    HalfFunction(u32),
    /// Waits in this call that no thread of the program ends take half their time.
    HalfWait(u32),
    /// Threads take half the time on a CPU while they hold this lock.
    HalfHeld(u64),
    /// No thread waits for this lock.
    NoLock(u64),
    /// Between two barriers, all threads run as long as they did on average.
    Balance,
}

/// Thousandths.
const WHOLE: i64 = 1000;

/// One thread's two clocks.
struct Clock {
    row: usize,
    end: usize,
    /// The run's...
    old: Time,
    /// ...and the replay's.
    new: i64,
    /// Next of its spins.
    spin: usize,
    /// Factor for its running time, in thousandths; empty: 1000 throughout.
    factor: Track,
    /// It did not sleep in the replay: then it need not wait for a CPU after it either.
    awake: bool,
}

/// Dependences between threads, in time order.
#[derive(Clone, Copy)]
enum Edge {
    /// `maker` makes the thread.
    Birth(ThreadIx),
    /// The thread that spins may go on because of this one.
    Spin(ThreadIx),
    /// This thread wakes it.
    Wake(ThreadIx),
}

/// Length of the run with the change, ns.
pub(super) fn replay(graph: &Graph<'_>, change: &Change) -> i64 {
    let trace = graph.trace;
    let Some(span) = graph.span.clone() else {
        return 0;
    };
    let factors = factors(graph, change);
    let mut clocks: Vec<Clock> = trace
        .threads
        .iter()
        .zip(factors)
        .map(|(t, factor)| Clock {
            row: t.states.start as usize,
            end: t.states.end as usize,
            old: t.alive.start.max(span.start),
            new: t.alive.start.max(span.start).ns(),
            spin: 0,
            factor,
            awake: false,
        })
        .collect();
    for (time, thread, edge) in edges(graph) {
        let (Edge::Birth(by) | Edge::Spin(by) | Edge::Wake(by)) = edge;
        advance(graph, change, &mut clocks, by, time);
        let theirs = clocks[by.ix()].new + asleep_ns(graph, &clocks[by.ix()], time);
        match edge {
            Edge::Birth(_) => clocks[thread.ix()].new = theirs,
            _ => {
                advance(graph, change, &mut clocks, thread, time);
                let row = clocks[thread.ix()].row;
                let is_free = is_free(graph, change, thread, time);
                let clock = &mut clocks[thread.ix()];
                // Awake in the run when it was woken: then the wake-up changed nothing.
                let waits = matches!(edge, Edge::Spin(_)) || trace.states.state[row].is_blocked();
                if waits && !is_free {
                    clock.awake = theirs < clock.new;
                    clock.new = clock.new.max(theirs);
                } else if waits {
                    clock.awake = true;
                }
            }
        }
    }
    let mut last = span.start.ns();
    for t in (0..trace.threads.len() as u32).map(ThreadIx).filter(|t| graph.is_target[t.ix()]) {
        advance(graph, change, &mut clocks, t, graph.active_end(t));
        last = last.max(clocks[t.ix()].new);
    }
    last - span.start.ns()
}

/// All edges between threads of the program, in time order.
fn edges(graph: &Graph<'_>) -> Vec<(Time, ThreadIx, Edge)> {
    let trace = graph.trace;
    let own = |t: ThreadIx| t.is_some() && graph.is_target[t.ix()];
    let mut out = Vec::new();
    for (ix, thread) in trace.threads.iter().enumerate().filter(|(ix, _)| graph.is_target[*ix]) {
        let maker = trace.states.by[thread.states.start as usize];
        if own(maker) && maker.ix() != ix {
            out.push((thread.alive.start, ThreadIx(ix as u32), Edge::Birth(maker)));
        }
    }
    out.extend(graph.spins.iter().map(|s| (s.until, s.thread, Edge::Spin(s.by))));
    let wakes = &trace.wakeups;
    for at in 0..wakes.time.len() {
        let (waker, wakee) = (wakes.waker[at], wakes.wakee[at]);
        if own(waker) && own(wakee) && waker != wakee {
            out.push((wakes.time[at], wakee, Edge::Wake(waker)));
        }
    }
    // Stable: wake-ups of one instant stay in the order in which they were recorded, causes before effects.
    out.sort_by_key(|&(time, ..)| time);
    out
}

/// Brings both clocks of a thread to `until` of the run.
fn advance(
    graph: &Graph<'_>,
    change: &Change,
    clocks: &mut [Clock],
    thread: ThreadIx,
    until: Time,
) {
    let states = &graph.trace.states;
    let spins = graph.spins_of(thread);
    let clock = &mut clocks[thread.ix()];
    while clock.row < clock.end && clock.old < until {
        let stop = match clock.row + 1 < clock.end {
            true => states.start[clock.row + 1].min(until),
            false => until,
        };
        if stop > clock.old {
            let ns = (stop - clock.old).ns();
            match states.state[clock.row] {
                ThreadState::Running => clock.new += run(clock, spins, change, stop),
                ThreadState::RunnableWoken if clock.awake => {}
                state if state.is_blocked() && is_ended_inside(graph, thread, clock) => {}
                state => {
                    let is_halved = match change {
                        Change::HalfWait(at) if state.is_blocked() => {
                            graph.uses.tracks[thread.ix()].look(clock.old).0 == *at
                        }
                        _ => false,
                    };
                    clock.new += if is_halved { ns / 2 } else { ns };
                }
            }
            if states.state[clock.row] == ThreadState::Running {
                clock.awake = false;
            }
            clock.old = stop;
        }
        if clock.row + 1 < clock.end && states.start[clock.row + 1] <= clock.old {
            clock.row += 1;
        } else {
            break;
        }
    }
    // A wait that ends right now is still the state that the edge finds.
    if clock.row > 0
        && clock.row < clock.end
        && states.start[clock.row] == until
        && clock.row > graph.trace.threads[thread.ix()].states.start as usize
        && states.state[clock.row - 1].is_blocked()
    {
        clock.row -= 1;
    }
}

/// Where events contradict each other, a waker may itself seem asleep: returns for how long, by now.
fn asleep_ns(graph: &Graph<'_>, clock: &Clock, time: Time) -> i64 {
    let states = &graph.trace.states;
    let is_asleep = clock.row < clock.end && states.state[clock.row].is_blocked();
    let is_over = clock.row + 1 < clock.end && states.start[clock.row + 1] <= time;
    match is_asleep && !is_over {
        true => (time - states.start[clock.row]).ns().max(0),
        false => 0,
    }
}

/// Whether a thread of the program ends the wait that the clock is in: then the edge says how long it lasts.
fn is_ended_inside(graph: &Graph<'_>, thread: ThreadIx, clock: &Clock) -> bool {
    let next = clock.row + 1;
    next < clock.end
        && graph.waker(thread, next, graph.trace.states.start[next]).is_some_and(|by| by != thread)
}

/// Replay time of running from the clock's moment to `stop`.
fn run(clock: &mut Clock, spins: &[Spin], change: &Change, stop: Time) -> i64 {
    let (mut at, mut ns) = (clock.old, 0);
    while at < stop {
        while spins.get(clock.spin).is_some_and(|s| s.until <= at) {
            clock.spin += 1;
        }
        let mut end = stop;
        let mut spinning = false;
        if let Some(spin) = spins.get(clock.spin) {
            spinning = spin.start <= at;
            end = end.min(if spinning { spin.until } else { spin.start });
        }
        let (factor, until) = clock.factor.get(at);
        end = end.min(until);
        if !spinning {
            let factor = match change {
                Change::Nothing | Change::NoLock(_) | Change::HalfWait(_) => WHOLE,
                _ if factor == crate::account::track::NONE => WHOLE,
                _ => i64::from(factor),
            };
            let all = i128::from((end - at).ns()) * i128::from(factor);
            ns += (all / i128::from(WHOLE)) as i64;
        }
        at = end;
    }
    ns
}

/// Whether the change takes away what the thread waits for at `time`.
fn is_free(graph: &Graph<'_>, change: &Change, thread: ThreadIx, time: Time) -> bool {
    let Change::NoLock(lock) = change else {
        return false;
    };
    let s = &graph.trace.slices;
    let rows = graph.trace.threads[thread.ix()].slices.clone();
    let rows = rows.start as usize..rows.end as usize;
    let after = rows.start + s.start[rows.clone()].partition_point(|&start| start < time);
    (rows.start..after).rev().take(8).any(|row| {
        s.kind[row] == SliceKind::LockWait && s.object[row] == *lock && s.end[row] >= time
    })
}

/// Factors for each thread's running time.
fn factors(graph: &Graph<'_>, change: &Change) -> Vec<Track> {
    let trace = graph.trace;
    let mut out = vec![Track::default(); trace.threads.len()];
    let s = &trace.slices;
    match change {
        Change::Nothing | Change::NoLock(_) | Change::HalfWait(_) => {}
        Change::HalfFunction(at) => {
            for (uses, track) in graph.uses.tracks.iter().zip(&mut out) {
                for (start, _, of) in uses.stretches(Time::MAX) {
                    let factor = match of == *at {
                        true => (WHOLE / 2) as u32,
                        false => crate::account::track::NONE,
                    };
                    track.change_to(start, factor);
                }
            }
        }
        Change::Half(_) | Change::HalfHeld(_) => {
            let is_halved = |row: usize| match change {
                Change::Half(name) => {
                    matches!(s.kind[row], SliceKind::Work | SliceKind::TaskRun)
                        && s.name[row] == *name
                }
                Change::HalfHeld(lock) => {
                    s.kind[row] == SliceKind::LockHold && s.object[row] == *lock
                }
                _ => false,
            };
            for (thread, track) in trace.threads.iter().zip(&mut out) {
                let mut covered = Time::MIN;
                for row in thread.slices.start as usize..thread.slices.end as usize {
                    if is_halved(row) && s.start[row] >= covered {
                        track.change(s.start[row], (WHOLE / 2) as u32);
                        track.change(s.end[row], crate::account::track::NONE);
                        covered = s.end[row];
                    }
                }
            }
        }
        Change::Balance => balance(graph, &mut out),
    }
    out
}

/// Between two barriers each thread's running time becomes the mean of all threads at the second.
fn balance(graph: &Graph<'_>, out: &mut [Track]) {
    let s = &graph.trace.slices;
    let mut regions: Vec<(ThreadIx, Time, Time, i64)> = Vec::with_capacity(graph.barriers.len());
    let mut of_episode: HashMap<u32, (i64, i64)> = HashMap::new();
    let mut from = (ThreadIx::NONE, Time::MIN);
    for wait in &graph.barriers {
        let row = wait.row as usize;
        if from.0 != s.thread[row] {
            from = (s.thread[row], graph.trace.threads[s.thread[row].ix()].alive.start);
        }
        let busy = ran(graph, from.0, from.1, s.start[row]);
        regions.push((from.0, from.1, s.start[row], busy));
        let sum = of_episode.entry(wait.episode).or_default();
        (sum.0, sum.1) = (sum.0 + busy, sum.1 + 1);
        from.1 = s.end[row];
    }
    for (wait, (thread, from, to, busy)) in graph.barriers.iter().zip(regions) {
        let (sum, n) = of_episode[&wait.episode];
        if busy > 0 && n > 1 && to > from {
            let factor = (i128::from(sum) * i128::from(WHOLE) / (i128::from(n) * i128::from(busy)))
                .min(1 << 30);
            out[thread.ix()].change(from, factor as u32);
            out[thread.ix()].change(to, crate::account::track::NONE);
        }
    }
}

/// Running time of a thread between two moments.
fn ran(graph: &Graph<'_>, thread: ThreadIx, from: Time, to: Time) -> i64 {
    let states = &graph.trace.states;
    let rows = graph.trace.threads[thread.ix()].states.clone();
    let first = graph.row_before(thread, from).unwrap_or(rows.start as usize);
    let mut ns = 0;
    for row in first..rows.end as usize {
        if states.start[row] >= to {
            break;
        }
        let end = match row + 1 < rows.end as usize {
            true => states.start[row + 1],
            false => to,
        };
        if states.state[row] == ThreadState::Running {
            ns += (end.min(to) - states.start[row].max(from)).ns().max(0);
        }
    }
    ns
}
