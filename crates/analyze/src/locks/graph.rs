//! Relations between acquisitions: which thread waited while which held, and queues that do not end (convoys).
//!
//! A wait of one among thousands of threads overlaps thousands of holds, so pairs of waits and holds are not enumerated:
//! each lock's holds are laid end to end with running sums, and a wait asks for the sums between its ends. Holders are
//! listed where at most [`PASSED`] holds overlap the wait, or at most so many threads took the lock; else the holders
//! are *many*. Time and memory are linear in the acquisitions.
use super::answer::{CONTENDED_NS, Convoy, MANY, WaitsFor};
use super::holds::{Acquisition, LockKey, Owner, Read, StatesOf};
use kasuri_model::{ProcessIx, StrIx, ThreadIx, Time, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Holds that are listed for one wait, and threads for one lock.
const PASSED: usize = 256;
/// Edges of the waits-for graph; later ones go to *many*.
const EDGES: usize = 65_536;

/// Time: of all, and of it with the holder running, ready, asleep.
type Split = [i64; 4];

fn add(sum: &mut Split, more: Split) {
    sum.iter_mut().zip(more).for_each(|(sum, ns)| *sum += ns);
}

/// One side of an edge: a thread, or all tasks of one name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Party {
    Nobody,
    Many,
    Thread(ThreadIx),
    Tasks(ProcessIx, StrIx),
}

fn party_of(trace: &Trace, owner: Owner) -> Party {
    match trace.tasks.get(owner.0.ix()).filter(|_| owner.0.is_some()) {
        Some(task) => Party::Tasks(task.process, task.name),
        None => Party::Thread(owner.1),
    }
}

/// Holds of one lock, or those of one owner, that do not overlap (of shared ones that do, the first counts); those that a wait overlaps.
#[derive(Default)]
struct Track<'a> {
    from: Vec<Time>,
    to: Vec<Time>,
    holder: Vec<&'a Acquisition>,
    /// Before each, and of all.
    sums: Vec<Split>,
}

impl<'a> Track<'a> {
    fn push(&mut self, from: Time, to: Time, holder: &'a Acquisition, states: &mut StatesOf<'_>) {
        let mut sum = self.sums.last().copied().unwrap_or_default();
        if self.sums.is_empty() {
            self.sums.push(sum);
        }
        add(&mut sum, states_in_hold(states, holder, from, to));
        self.sums.push(sum);
        self.from.push(from);
        self.to.push(to);
        self.holder.push(holder);
    }

    /// The holds that overlap an interval.
    fn within(&self, from: Time, to: Time) -> std::ops::Range<usize> {
        let first = self.to.partition_point(|&t| t <= from);
        first..self.from.partition_point(|&f| f < to).max(first)
    }

    /// The part of hold `i` in an interval that it overlaps.
    fn part(&self, i: usize, from: Time, to: Time, states: &mut StatesOf<'_>) -> Split {
        if from <= self.from[i] && self.to[i] <= to {
            let (a, b) = (self.sums[i], self.sums[i + 1]);
            return [0, 1, 2, 3].map(|k| b[k] - a[k]);
        }
        let (from, to) = (from.max(self.from[i]), to.min(self.to[i]));
        states_in_hold(states, self.holder[i], from, to)
    }

    /// The sum of the parts of all holds in an interval.
    fn sum(&self, from: Time, to: Time, states: &mut StatesOf<'_>) -> Split {
        let within = self.within(from, to);
        if within.len() <= 2 {
            let mut sum = Split::default();
            within.for_each(|i| add(&mut sum, self.part(i, from, to, states)));
            return sum;
        }
        let (first, last) = (within.start, within.end - 1);
        let (a, b) = (self.sums[first + 1], self.sums[last]);
        let mut sum = [0, 1, 2, 3].map(|k| b[k] - a[k]);
        add(&mut sum, self.part(first, from, to, states));
        add(&mut sum, self.part(last, from, to, states));
        sum
    }
}

/// The holder's states in a part of its hold. A task's worker runs others while the task sleeps, so for a task these are its shares of
/// the whole hold.
fn states_in_hold(states: &mut StatesOf<'_>, holder: &Acquisition, from: Time, to: Time) -> Split {
    let ns = (to - from).ns();
    let whole = holder.hold_ns().unwrap_or(0);
    if !holder.task.is_some() || whole <= 0 {
        let [running, ready, asleep, _] = states.of(holder.thread).within(from, to);
        return [ns, running, ready, asleep];
    }
    let share = ns as f64 / whole as f64;
    let of = |part: i64| (part as f64 * share) as i64;
    [ns, of(holder.running_ns), of(holder.preempted_ns), of(holder.blocked_ns)]
}

/// All holds of one lock.
#[derive(Default)]
struct Holds<'a> {
    all: Track<'a>,
    /// Those of each owner; empty where there are more than [`PASSED`] of them.
    by_owner: BTreeMap<Owner, Track<'a>>,
    is_crowd: bool,
}

impl<'a> Holds<'a> {
    /// Of one lock's acquisitions and the waits for it.
    fn new(all: &[&'a Acquisition], waits: &[Wait], states: &mut StatesOf<'_>) -> Holds<'a> {
        let mut holds: Vec<(Time, Time, &Acquisition)> =
            (all.iter()).filter_map(|a| a.hold.map(|(from, to)| (from, to, *a))).collect();
        // Each thread's are in order.
        holds.sort_by_key(|h| (h.0, h.1, h.2.owner()));
        let mut waited = union(waits.iter().map(|w| w.1)).into_iter().peekable();
        let mut owners = BTreeSet::new();
        let mut out = Holds::default();
        let (mut known, mut last) = (Time::MIN, None);
        for (from, to, holder) in holds {
            let from = from.max(known);
            if to <= from {
                continue;
            }
            known = to;
            let owner = holder.owner();
            if !out.is_crowd && last.replace(owner) != Some(owner) {
                owners.insert(owner);
                if owners.len() > PASSED {
                    out.is_crowd = true;
                    out.by_owner.clear();
                }
            }
            while waited.next_if(|w| w.1 <= from).is_some() {}
            if waited.peek().is_none_or(|w| to <= w.0) {
                continue;
            }
            out.all.push(from, to, holder, states);
            if !out.is_crowd {
                let own = out.by_owner.entry(owner).or_default();
                own.push(from, to, holder, states);
            }
        }
        out
    }

    /// Calls `each` for each holder that a wait of `waiter` overlaps, and for those not listed (none).
    fn for_each_holder(
        &self,
        waiter: Owner,
        (from, to): (Time, Time),
        states: &mut StatesOf<'_>,
        mut each: impl FnMut(Option<Owner>, Split),
    ) {
        let within = self.all.within(from, to);
        if within.len() <= PASSED {
            for i in within {
                let holder = self.all.holder[i].owner();
                if holder != waiter {
                    each(Some(holder), self.all.part(i, from, to, states));
                }
            }
        } else if self.is_crowd {
            each(None, self.all.sum(from, to, states));
        } else {
            for (&holder, track) in self.by_owner.iter().filter(|(h, _)| **h != waiter) {
                each(Some(holder), track.sum(from, to, states));
            }
        }
    }
}

/// Waits by waiter and holder, and the holders' states meanwhile.
pub(super) struct WaitGraph {
    edges: BTreeMap<(Party, Party, LockKey), Split>,
    /// By lock: the holder running, ready, asleep.
    pub blame: HashMap<LockKey, Split>,
}

/// The waiter, and the wait's start and end.
type Wait = (Owner, (Time, Time));

/// What the intervals cover, in order.
fn union(all: impl Iterator<Item = (Time, Time)>) -> Vec<(Time, Time)> {
    let mut all: Vec<(Time, Time)> = all.collect();
    all.sort_unstable();
    all.dedup_by(|next, last| {
        let is_inside = next.0 <= last.1;
        last.1 = if is_inside { last.1.max(next.1) } else { last.1 };
        is_inside
    });
    all
}

/// Every contended wait, cut into the holds that overlap it and the rest.
pub(super) fn wait_graph(trace: &Trace, read: &Read, of_lock: &[Vec<&Acquisition>]) -> WaitGraph {
    let mut states = StatesOf::new(trace);
    let mut out = WaitGraph { edges: BTreeMap::new(), blame: HashMap::new() };
    for (&(lock, _), all) in read.locks.iter().zip(of_lock) {
        let waits: Vec<Wait> = (all.iter())
            .filter_map(|a| Some((a.owner(), a.wait?)))
            .filter(|(_, (from, to))| (*to - *from).ns() >= CONTENDED_NS)
            .collect();
        if waits.is_empty() {
            continue;
        }
        let holds = Holds::new(all, &waits, &mut states);
        let mut blame = Split::default();
        for (waiter, wait) in waits {
            let waiting = party_of(trace, waiter);
            let mut unheld_ns = (wait.1 - wait.0).ns();
            holds.for_each_holder(waiter, wait, &mut states, |holder, split| {
                if split[0] > 0 {
                    unheld_ns -= split[0];
                    add(&mut blame, split);
                    let holder = holder.map_or(Party::Many, |h| party_of(trace, h));
                    out.edge(waiting, holder, lock, split);
                }
            });
            if unheld_ns > 0 {
                out.edge(waiting, Party::Nobody, lock, [unheld_ns, 0, 0, 0]);
            }
        }
        out.blame.insert(lock, blame);
    }
    out
}

impl WaitGraph {
    fn edge(&mut self, waiter: Party, holder: Party, lock: LockKey, split: Split) {
        let is_full = self.edges.len() >= EDGES;
        let key = (waiter, holder, lock);
        let key = match is_full && holder > Party::Many && !self.edges.contains_key(&key) {
            true => (waiter, Party::Many, lock),
            false => key,
        };
        add(self.edges.entry(key).or_default(), split);
    }

    /// The waits-for graph: one edge for each waiter, holder and lock.
    pub fn waits_for(self, trace: &Trace, name: &dyn Fn(LockKey) -> String) -> Vec<WaitsFor> {
        let who = |who: Party| match who {
            Party::Nobody => (String::new(), 0),
            Party::Many => (MANY.to_string(), -1),
            Party::Thread(t) => {
                let info = &trace.threads[t.ix()];
                (trace.strings.get(info.name).to_string(), info.tid)
            }
            Party::Tasks(_, name) => (trace.strings.get(name).to_string(), 0),
        };
        let mut out: Vec<WaitsFor> = self
            .edges
            .into_iter()
            .map(|((waiter, holder, lock), [ns, running_ns, preempted_ns, blocked_ns])| {
                let ((waiter, waiter_tid), (holder, holder_tid)) = (who(waiter), who(holder));
                WaitsFor {
                    waiter,
                    waiter_tid,
                    holder,
                    holder_tid,
                    lock: name(lock),
                    ns,
                    running_ns,
                    preempted_ns,
                    blocked_ns,
                }
            })
            .collect();
        out.sort_by_key(|w| (std::cmp::Reverse(w.ns), w.waiter_tid, w.holder_tid));
        out
    }
}

/// The longest chain of acquisitions of one lock that each waited while the one before held it; shorter ones than
/// twice the threads in it are no convoy.
pub(super) fn convoy(all: &[&Acquisition]) -> Option<Convoy> {
    let asked = |a: &Acquisition| {
        let wait = a.wait.filter(|(a, b)| (*b - *a).ns() >= CONTENDED_NS);
        wait.map(|w| w.0)
    };
    let mut order: Vec<(Time, Time, Option<Time>, Owner)> = (all.iter())
        .filter_map(|a| a.hold.map(|(from, to)| (from, to, asked(a), a.owner())))
        .collect();
    // Each thread's are in order.
    order.sort();
    let mut best: Option<Convoy> = None;
    let mut first = 0;
    for i in 1..=order.len() {
        let goes_on = i < order.len()
            && order[i].2.is_some_and(|asked| asked < order[i - 1].1)
            && order[i].3 != order[i - 1].3;
        if goes_on {
            continue;
        }
        let chain = &order[first..i];
        first = i;
        if best.is_some_and(|b| b.length as usize >= chain.len()) {
            continue;
        }
        let mut threads: Vec<Owner> = chain.iter().map(|c| c.3).collect();
        threads.sort_unstable();
        threads.dedup();
        if chain.len() >= 2 * threads.len() && threads.len() > 1 {
            best = Some(Convoy {
                length: chain.len() as u32,
                threads: threads.len() as u32,
                from_ns: chain[0].0.ns(),
                to_ns: chain[chain.len() - 1].1.ns(),
            });
        }
    }
    best
}
