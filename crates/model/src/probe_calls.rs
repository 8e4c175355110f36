//! USDT probes -> the annotations that the program would have written: slices from pairs of probes, instants from the rest.
//!
//! A beginning and an end belong together when they are of one pair, of one name and on one thread, the inner before the outer. What was
//! begun inside and not ended (an exception passed it) ends with what is around it. A pair that is ended on a thread which did
//! not begin it moves between threads, or began before the recording; then beginnings of it that do not end on their thread
//! are instants too, and no slices that would last until the thread's end.
use crate::input::{Annotation, AnnotationVec};
use crate::{StrIx, ThreadIx, Time};
use kasuri_base::annotation::{ArgType, Kind};
use kasuri_base::usdt::Side;
use std::collections::{BTreeMap, HashSet};

/// Calls that may lie between one and its arguments: those of other CPUs with the same stamp.
const NEAR: usize = 64;

/// A thread passed a probe.
#[derive(Clone, Debug)]
struct ProbeCall {
    /// Row of the thread table while it is made.
    thread: u32,
    time: Time,
    side: Side,
    /// The same for the two ends of one thing.
    pair: u16,
    /// The slice's name.
    name: StrIx,
    /// The probe's own name.
    probe: StrIx,
}

impl ProbeCall {
    /// What it is an end of.
    fn thing(&self) -> (u16, StrIx) {
        (self.pair, self.name)
    }
}

/// An argument of a call: type, name and value as annotations have them.
type Arg = (ArgType, StrIx, u64);

/// The probes that were passed, in time order.
#[derive(Debug, Default)]
pub(crate) struct ProbeCalls {
    calls: Vec<ProbeCall>,
    /// The call of each argument, ascending on each thread.
    args: Vec<(u32, Arg)>,
}

/// What becomes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Instant,
    /// Begins a slice that ends, later or with the one around it.
    Begins,
    /// Ends the slice of this call.
    Ends(usize),
    /// Begins a slice whose end is not seen.
    Open,
}

impl ProbeCalls {
    /// A thread passed a probe.
    pub fn push(&mut self, (thread, time): (u32, Time), side: Side, pair: u16, names: [StrIx; 2]) {
        let [name, probe] = names;
        self.calls.push(ProbeCall { thread, time, side, pair, name, probe });
    }

    /// An argument of the probe that the thread passed last.
    pub fn push_arg(&mut self, thread: u32, arg: Arg) {
        let calls = self.calls.iter().enumerate().rev().take(NEAR);
        let of = calls.into_iter().find(|(_, call)| call.thread == thread);
        if let Some((ix, _)) = of {
            self.args.push((ix as u32, arg));
        }
    }

    /// One stream for each thread that passed a probe.
    pub fn streams(mut self, row: impl Fn(u32) -> ThreadIx) -> Vec<(ThreadIx, AnnotationVec)> {
        // Calls are in time order, so a thread's numbers ascend, and so do those of its arguments.
        self.args.sort_by_key(|&(call, _)| call);
        let mut of_thread: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (ix, call) in self.calls.iter().enumerate() {
            of_thread.entry(call.thread).or_default().push(ix);
        }
        let fates = self.fates(&of_thread);
        let stream = |(old, calls): (u32, Vec<usize>)| {
            let thread = row(old);
            let stream = AnnotationVec {
                events: self.annotations(&calls, &fates),
                ..AnnotationVec::default()
            };
            (thread, stream)
        };
        of_thread.into_iter().map(stream).collect()
    }

    fn fates(&self, of_thread: &BTreeMap<u32, Vec<usize>>) -> Vec<Fate> {
        let mut fates = vec![Fate::Instant; self.calls.len()];
        let mut moving: HashSet<(u16, StrIx)> = HashSet::new();
        let mut unsure: Vec<usize> = Vec::new();
        for calls in of_thread.values() {
            let mut open: Vec<usize> = Vec::new();
            for &ix in calls {
                let call = &self.calls[ix];
                match call.side {
                    Side::Point => {}
                    Side::Begin => open.push(ix),
                    Side::End => {
                        let begun = |&b: &usize| self.calls[b].thing() == call.thing();
                        let Some(at) = open.iter().rposition(begun) else {
                            moving.insert(call.thing());
                            continue;
                        };
                        fates[open[at]] = Fate::Begins;
                        fates[ix] = Fate::Ends(open[at]);
                        for &left in &open[at + 1..] {
                            fates[left] = Fate::Begins;
                            unsure.push(left);
                        }
                        open.truncate(at);
                    }
                }
            }
            for &left in &open {
                fates[left] = Fate::Open;
                unsure.push(left);
            }
        }
        for ix in unsure {
            if moving.contains(&self.calls[ix].thing()) {
                fates[ix] = Fate::Instant;
            }
        }
        fates
    }

    fn annotations(&self, calls: &[usize], fates: &[Fate]) -> Vec<Annotation> {
        let mut out = Vec::with_capacity(calls.len());
        let mut open: Vec<usize> = Vec::new();
        for &ix in calls {
            let call = &self.calls[ix];
            match fates[ix] {
                Fate::Instant => {
                    out.push(event(Kind::Instant, call.time, call.probe));
                    self.add_args(ix, 0, &mut out);
                }
                Fate::Begins | Fate::Open => {
                    open.push(ix);
                    out.push(event(Kind::Begin, call.time, call.name));
                    self.add_args(ix, 1, &mut out);
                }
                Fate::Ends(begun) => {
                    while let Some(inner) = open.pop() {
                        if inner == begun {
                            self.add_args(ix, 1, &mut out);
                        }
                        out.push(event(Kind::End, call.time, StrIx::NONE));
                        if inner == begun {
                            break;
                        }
                    }
                }
            }
        }
        out
    }

    /// `of_slice`: 1: of the innermost slice, as [`Annotation::b`] says it.
    fn add_args(&self, ix: usize, of_slice: u64, out: &mut Vec<Annotation>) {
        let first = self.args.partition_point(|&(call, _)| call < ix as u32);
        let own = self.args[first..].iter().take_while(|&&(call, _)| call == ix as u32);
        for &(_, (kind, name, value)) in own {
            out.push(Annotation {
                aux: kind as u16,
                a: value,
                b: of_slice,
                ..event(Kind::Arg, self.calls[ix].time, name)
            });
        }
    }
}

fn event(kind: Kind, time: Time, name: StrIx) -> Annotation {
    Annotation { time, kind: kind as u8, name, ..Annotation::default() }
}
