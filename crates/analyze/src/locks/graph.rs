//! Between acquisitions: who waited while whom held, queues that do not end, orders that cross.
use super::answer::{CONTENDED_NS, Convoy, Inversion, WaitsFor};
use super::holds::{self, Acquisition, LockKey, Owner, Read};
use kasuri_model::{ProcessIx, StrIx, TaskIx, ThreadIx, Time, Trace};
use std::collections::{BTreeMap, HashMap};

/// Part of a wait during which one thread held the lock.
pub(super) struct Meeting {
    pub lock: LockKey,
    pub waiter: Owner,
    /// None: nobody held it, it was on its way.
    pub holder: Option<Owner>,
    pub ns: i64,
    pub running_ns: i64,
    pub preempted_ns: i64,
    pub blocked_ns: i64,
}

/// Every contended wait, cut into the holds that overlap it and the rest.
pub(super) fn meetings(trace: &Trace, all: &[Acquisition]) -> Vec<Meeting> {
    let mut holds: HashMap<LockKey, Vec<(Time, Time, &Acquisition)>> = HashMap::new();
    for a in all {
        if let Some((from, to)) = a.hold {
            holds.entry(a.lock).or_default().push((from, to, a));
        }
    }
    let key = |h: &(Time, Time, &Acquisition)| (h.0, h.1, h.2.owner());
    holds.values_mut().for_each(|h| h.sort_unstable_by_key(key));
    let mut out = Vec::new();
    for a in all {
        let Some((from, to)) = a.wait.filter(|(a, b)| (*b - *a).ns() >= CONTENDED_NS) else {
            continue;
        };
        let of_lock = holds.get(&a.lock).map_or(&[][..], |h| h);
        // Exclusive holds do not overlap; shared ones may: then each is met, and the first counts.
        let first = of_lock.partition_point(|h| h.1 <= from);
        let mut known = from;
        for &(start, end, holder) in of_lock[first.min(of_lock.len())..]
            .iter()
            .take_while(|h| h.0 < to)
        {
            let (start, end) = (start.max(known), end.min(to));
            if holder.owner() == a.owner() || end <= start {
                continue;
            }
            let [running_ns, preempted_ns, blocked_ns] = doing(trace, holder, start, end);
            let ns = (end - start).ns();
            out.push(Meeting {
                lock: a.lock,
                waiter: a.owner(),
                holder: Some(holder.owner()),
                ns,
                running_ns,
                preempted_ns,
                blocked_ns,
            });
            if start > known {
                out.push(nobody(a, (start - known).ns()));
            }
            known = end;
        }
        if to > known {
            out.push(nobody(a, (to - known).ns()));
        }
    }
    out
}

fn nobody(a: &Acquisition, ns: i64) -> Meeting {
    Meeting {
        lock: a.lock,
        waiter: a.owner(),
        holder: None,
        ns,
        running_ns: 0,
        preempted_ns: 0,
        blocked_ns: 0,
    }
}

/// What a holder did in a part of its hold: running, ready, asleep. A task's worker runs others while it sleeps, so of a
/// task it is its shares of the whole hold.
fn doing(trace: &Trace, holder: &Acquisition, from: Time, to: Time) -> [i64; 3] {
    let whole = holder.hold_ns().unwrap_or(0);
    if !holder.task.is_some() || whole <= 0 {
        return holds::doing(trace, holder.thread, from, to);
    }
    let share = (to - from).ns() as f64 / whole as f64;
    [holder.running_ns, holder.preempted_ns, holder.blocked_ns].map(|ns| (ns as f64 * share) as i64)
}

/// A row's who: a thread, or all tasks of one name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Nobody,
    Thread(ThreadIx),
    Tasks(ProcessIx, StrIx),
}

fn who_is(trace: &Trace, owner: Owner) -> Who {
    match trace.tasks.get(owner.0.ix()).filter(|_| owner.0.is_some()) {
        Some(task) => Who::Tasks(task.process, task.name),
        None => Who::Thread(owner.1),
    }
}

/// The waits-for graph: one edge for each waiter, holder and lock.
pub(super) fn waits_for(
    trace: &Trace,
    read: &Read,
    name: &dyn Fn(LockKey) -> String,
) -> Vec<WaitsFor> {
    let mut edges: BTreeMap<(Who, Who, LockKey), [i64; 4]> = BTreeMap::new();
    for m in meetings(trace, &read.all) {
        let holder = m.holder.map_or(Who::Nobody, |h| who_is(trace, h));
        let edge = edges
            .entry((who_is(trace, m.waiter), holder, m.lock))
            .or_default();
        for (sum, ns) in edge
            .iter_mut()
            .zip([m.ns, m.running_ns, m.preempted_ns, m.blocked_ns])
        {
            *sum += ns;
        }
    }
    let who = |who: Who| match who {
        Who::Nobody => (String::new(), 0),
        Who::Thread(t) => {
            let info = &trace.threads[t.ix()];
            (trace.strings.get(info.name).to_string(), info.tid)
        }
        Who::Tasks(_, name) => (trace.strings.get(name).to_string(), 0),
    };
    let mut out: Vec<WaitsFor> = edges
        .into_iter()
        .map(
            |((waiter, holder, lock), [ns, running_ns, preempted_ns, blocked_ns])| {
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
            },
        )
        .collect();
    out.sort_by_key(|w| (std::cmp::Reverse(w.ns), w.waiter_tid, w.holder_tid));
    out
}

/// The longest chain of acquisitions of one lock that each waited while the one before held it; shorter ones than
/// twice the threads in it are no convoy.
pub(super) fn convoy(all: &[&Acquisition]) -> Option<Convoy> {
    let mut order: Vec<(Time, Time, Option<Time>, Owner)> = all
        .iter()
        .filter_map(|a| {
            let (from, to) = a.hold?;
            let asked = a
                .wait
                .filter(|(a, b)| (*b - *a).ns() >= CONTENDED_NS)
                .map(|w| w.0);
            Some((from, to, asked, a.owner()))
        })
        .collect();
    order.sort_unstable();
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

/// Pairs of locks that were taken in both orders.
pub(super) fn inversions(
    trace: &Trace,
    read: &Read,
    name: &dyn Fn(LockKey) -> String,
) -> Vec<Inversion> {
    let mut orders: BTreeMap<(LockKey, LockKey), (u64, ThreadIx)> = BTreeMap::new();
    let mut held: Vec<(Time, LockKey)> = Vec::new();
    let mut last: Owner = (TaskIx::NONE, ThreadIx::NONE);
    let mut all: Vec<&Acquisition> = read.all.iter().filter(|a| a.hold.is_some()).collect();
    all.sort_by_key(|a| (a.owner(), a.hold));
    for a in all {
        let Some((from, to)) = a.hold else {
            continue;
        };
        if last != a.owner() {
            held.clear();
            last = a.owner();
        }
        held.retain(|h| h.0 > from);
        for &(_, outer) in held.iter().filter(|h| h.1 != a.lock) {
            let order = orders.entry((outer, a.lock)).or_insert((0, a.thread));
            order.0 += 1;
        }
        held.push((to, a.lock));
    }
    let mut out = Vec::new();
    for (&(first, second), &(n, thread)) in &orders {
        if first < second
            && let Some(&(m, other)) = orders.get(&(second, first))
        {
            out.push(Inversion {
                first: name(first),
                second: name(second),
                first_then_second: n,
                second_then_first: m,
                tid_a: trace.threads[thread.ix()].tid,
                tid_b: trace.threads[other.ix()].tid,
            });
        }
    }
    out
}
