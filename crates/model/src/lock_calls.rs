//! Uprobes on lock functions -> the events that the lock probe would have written.
//!
//! A probe costs some microseconds, which lie between the request and the return of a lock that was free. The recording
//! shows the cost on its machine: for each function, the shortest time between the two. It is subtracted from every call;
//! the rest counts as a wait when it is longer than the cost.
use crate::input::{Annotation, AnnotationEvents, AnnotationVec, LockCall, LockStep};
use crate::{Error, ProcessIx, StrIx, Strings, Thread, ThreadIx, Time};
use kasuri_base::annotation::{Kind, lock_type};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A lock function's call that is not over.
#[derive(Clone, Copy)]
struct Asked {
    time: Time,
    function: u16,
    object: u64,
    name: StrIx,
}

/// One stream for each thread that called such a function.
pub(crate) fn streams(
    calls: Vec<LockCall>,
    threads: &[Thread],
    row: impl Fn(u32) -> ThreadIx,
) -> Vec<(ThreadIx, AnnotationVec)> {
    let releases: HashSet<u16> =
        calls.iter().filter(|c| c.step == LockStep::Released).map(|c| c.function).collect();
    let mut of_thread: BTreeMap<u32, Vec<LockCall>> = BTreeMap::new();
    for call in calls {
        of_thread.entry(call.thread).or_default().push(call);
    }
    let price = prices(&of_thread);
    let mut known: HashSet<(ProcessIx, u64)> = HashSet::new();
    of_thread
        .into_iter()
        .map(|(old, calls)| {
            let thread = row(old);
            let process = threads[thread.ix()].process;
            let mut events = Vec::with_capacity(calls.len());
            paired(&calls, |call, asked| {
                let Some(asked) = asked else {
                    events.push(event(Kind::LockLeft, call.time, call.object, 0, StrIx::NONE));
                    return;
                };
                if known.insert((process, asked.object)) {
                    let aux = lock_type::UPROBE;
                    let define = Kind::LockDefine;
                    events.push(event(define, asked.time, asked.object, aux, asked.name));
                }
                let price = price.get(&asked.function).copied().unwrap_or(0);
                let begin = Time(asked.time.ns() + price);
                let holds = releases.contains(&asked.function);
                if (call.time - begin).ns() > price {
                    let request = Kind::LockRequest;
                    events.push(event(request, begin, asked.object, 0, asked.name));
                    let end = if holds { Kind::LockAcquired } else { Kind::LockGivenUp };
                    events.push(event(end, call.time, asked.object, 0, StrIx::NONE));
                } else if holds {
                    events.push(event(Kind::LockTaken, call.time, asked.object, 0, StrIx::NONE));
                }
            });
            let stream = AnnotationVec { events, ..AnnotationVec::default() };
            (thread, stream)
        })
        .collect()
}

/// The shortest call of each function that was not followed by a sleep: what the probes cost.
fn prices(of_thread: &BTreeMap<u32, Vec<LockCall>>) -> HashMap<u16, i64> {
    let mut out: HashMap<u16, i64> = HashMap::new();
    for calls in of_thread.values() {
        paired(calls, |call, asked| {
            if let Some(asked) = asked {
                let ns = (call.time - asked.time).ns();
                let least = out.entry(asked.function).or_insert(ns);
                *least = ns.min(*least);
            }
        });
    }
    out
}

/// Each return with its call, and each release (with none). A return without a call began before the recording.
fn paired(calls: &[LockCall], mut each: impl FnMut(&LockCall, Option<Asked>)) {
    let mut open: Vec<Asked> = Vec::new();
    for call in calls {
        match call.step {
            LockStep::Request => open.push(Asked {
                time: call.time,
                function: call.function,
                object: call.object,
                name: call.name,
            }),
            LockStep::Acquired => {
                if let Some(at) = open.iter().rposition(|a| a.function == call.function) {
                    let asked = open[at];
                    // Calls inside it that never returned were left by a jump (longjmp, an exception).
                    open.truncate(at);
                    each(call, Some(asked));
                }
            }
            LockStep::Released => each(call, None),
        }
    }
}

fn event(kind: Kind, time: Time, object: u64, aux: u16, name: StrIx) -> Annotation {
    Annotation { time, kind: kind as u8, aux, name, a: object, b: 0 }
}

/// A client's stream, or one made of probes.
pub(crate) enum Either<S> {
    Client(S),
    Probes(AnnotationVec),
}

impl<S: AnnotationEvents> AnnotationEvents for Either<S> {
    fn pid(&self) -> i32 {
        match self {
            Either::Client(s) => s.pid(),
            Either::Probes(s) => s.pid(),
        }
    }

    fn tid(&self) -> i32 {
        match self {
            Either::Client(s) => s.tid(),
            Either::Probes(s) => s.tid(),
        }
    }

    fn fill(&mut self, strings: &mut Strings, out: &mut Vec<Annotation>) -> Result<(), Error> {
        match self {
            Either::Client(s) => s.fill(strings, out),
            Either::Probes(s) => s.fill(strings, out),
        }
    }

    fn first_time(&self) -> Option<Time> {
        match self {
            Either::Client(s) => s.first_time(),
            Either::Probes(s) => s.first_time(),
        }
    }

    fn rewind(&mut self) {
        match self {
            Either::Client(s) => s.rewind(),
            Either::Probes(s) => s.rewind(),
        }
    }
}
