//! The order in which locks are taken: where it goes in a circle, threads can stop each other for ever.
//!
//! An edge of the *order graph* goes from a lock that is held to one that is taken meanwhile. Edges from the innermost lock
//! held are enough to find circles: whatever else is held was taken before it, so a path leads from there to the innermost
//! lock (by induction over the order of taking). That keeps the graph linear in the acquisitions however many locks are held at
//! once. Only within its strongly connected parts (mostly there are none) are pairs of locks looked at one by one,
//! and of those held at once the [`DEPTH`] innermost (fewer where circles have thousands of locks).
//!
//! Orders that cannot deadlock are listed apart: orders seen in one thread only, orders that a third lock guards, readers among
//! themselves. What remains *can*, if both happen at once; whether they ever do (one phase may follow the other, an
//! acquisition may have been a try) the recording does not say.
use super::answer::{Inversion, Locks, MAX_INVERSIONS, OrderCycle, OrderStep};
use super::holds::{Acquisition, LockKey, Owner, Read};
use kasuri_model::{StrIx, ThreadIx, Time, Trace};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Locks held at once that are looked at in pairs, innermost first.
const DEPTH: usize = 32;
/// Locks taken within one tick of the clock that are looked behind.
const TIES: usize = 4;
/// Pairs of locks that are remembered.
const PAIRS: usize = 100_000;
/// Locks that may guard a pair which are remembered.
const GUARDS: usize = 8;

/// One lock taken while another was held.
struct Edge<'a> {
    times: u64,
    /// The first thread that did so, and the first other one.
    who: Owner,
    other: Option<Owner>,
    thread: ThreadIx,
    other_thread: ThreadIx,
    place: StrIx,
    /// Whether the one held, and the one taken, was ever exclusive.
    held_alone: bool,
    taken_alone: bool,
    /// Other locks that were held each time.
    guards: Vec<LockKey>,
    first: &'a Acquisition,
}

impl<'a> Edge<'a> {
    fn new(held: &Acquisition, taken: &'a Acquisition) -> Edge<'a> {
        Edge {
            times: 0,
            who: taken.owner(),
            other: None,
            thread: taken.thread,
            other_thread: taken.thread,
            place: StrIx::NONE,
            held_alone: !held.is_shared,
            taken_alone: !taken.is_shared,
            guards: Vec::new(),
            first: taken,
        }
    }

    fn add(&mut self, held: &Acquisition, taken: &Acquisition) {
        self.times += 1;
        self.held_alone |= !held.is_shared;
        self.taken_alone |= !taken.is_shared;
        if self.place == StrIx::NONE {
            self.place = taken.site;
        }
        if self.other.is_none() && taken.owner() != self.who {
            self.other = Some(taken.owner());
            self.other_thread = taken.thread;
        }
    }
}

type Edges<'a> = BTreeMap<(LockKey, LockKey), Edge<'a>>;

/// Finds circles of the lock order.
pub(super) fn find(trace: &Trace, read: &Read, name: &dyn Fn(LockKey) -> String, out: &mut Locks) {
    let mut all: Vec<&Acquisition> = read.all.iter().filter(|a| a.hold.is_some()).collect();
    let key = |a: &&Acquisition| (a.owner(), a.hold.map(|(from, to)| (from, Reverse(to))));
    all.sort_by_key(key);
    let edges = innermost(&all);
    let parts = parts(&edges);
    if parts.is_empty() {
        return;
    }
    let pairs = pairs(&all, &parts);
    let teller = Teller { trace, name };
    let mut is_told: Vec<u32> = Vec::new();
    for (&(first, second), one) in pairs.iter().filter(|((a, b), _)| a < b) {
        let Some(two) = pairs.get(&(second, first)) else {
            continue;
        };
        let collide = (one.taken_alone || two.held_alone) && (two.taken_alone || one.held_alone);
        if collide {
            out.inversions.push(teller.inversion((first, second), one, two));
            is_told.push(parts[&first]);
        }
    }
    out.inversions
        .sort_by_key(|i| (!i.can_deadlock, Reverse(i.first_then_second.min(i.second_then_first))));
    out.inversions.truncate(MAX_INVERSIONS);
    is_told.sort_unstable();
    is_told.dedup();
    for circle in circles(&edges, &parts, &is_told) {
        if let Some(cycle) = teller.cycle(&circle, &pairs, &edges) {
            out.order_cycles.push(cycle);
        }
    }
}

/// Calls `visit` with each acquisition and what its owner held then: entries may have ended, but for the last.
fn walk<'a>(
    all: &[&'a Acquisition],
    mut visit: impl FnMut(&[(Time, &'a Acquisition)], &'a Acquisition, Time),
) {
    let mut held: Vec<(Time, &Acquisition)> = Vec::new();
    let mut last = None;
    for &a in all {
        let Some((from, to)) = a.hold else {
            continue;
        };
        if last != Some(a.owner()) {
            held.clear();
            last = Some(a.owner());
        }
        while held.last().is_some_and(|h| h.0 <= from) {
            held.pop();
        }
        visit(&held, a, from);
        held.push((to, a));
    }
}

/// Whether a lock was surely held before the other was taken. Of two with the same stamp it is not known which came first.
fn is_outer(held: &(Time, &Acquisition), taken: &Acquisition, now: Time) -> bool {
    let before = held.1.hold.is_some_and(|(from, _)| from < now);
    before && held.0 > now && held.1.lock != taken.lock
}

fn innermost<'a>(all: &[&'a Acquisition]) -> Edges<'a> {
    let mut edges = Edges::new();
    walk(all, |held, taken, now| {
        let mut near = held.iter().rev().take(TIES);
        if let Some(&(_, outer)) = near.find(|h| is_outer(h, taken, now)) {
            let edge = edges.entry((outer.lock, taken.lock));
            edge.or_insert_with(|| Edge::new(outer, taken)).add(outer, taken);
        }
    });
    edges
}

/// All pairs of locks of one strongly connected part.
fn pairs<'a>(all: &[&'a Acquisition], parts: &HashMap<LockKey, u32>) -> Edges<'a> {
    // With very many locks fewer at a time, so that there is room for all threads' orders.
    let depth = (PAIRS / 2 / parts.len().max(1)).clamp(1, DEPTH);
    let mut edges = Edges::new();
    walk(all, |held, taken, now| {
        let Some(part) = parts.get(&taken.lock) else {
            return;
        };
        let held: Vec<&Acquisition> = (held.iter().rev().take(depth))
            .filter(|h| is_outer(h, taken, now))
            .map(|h| h.1)
            .collect();
        for &outer in held.iter().filter(|h| parts.get(&h.lock) == Some(part)) {
            let key = (outer.lock, taken.lock);
            let n = edges.len();
            let edge = match edges.get_mut(&key) {
                Some(edge) => edge,
                None if n < PAIRS => {
                    let guards = held.iter().map(|h| h.lock).filter(|&l| l != outer.lock);
                    let guards = guards.take(GUARDS).collect();
                    edges.entry(key).or_insert(Edge { guards, ..Edge::new(outer, taken) })
                }
                None => continue,
            };
            edge.guards.retain(|&guard| held.iter().any(|h| h.lock == guard));
            edge.add(outer, taken);
        }
    });
    edges
}

/// The strongly connected parts with more than one lock: each such lock's part. Tarjan's algorithm, without recursion.
fn parts(edges: &Edges<'_>) -> HashMap<LockKey, u32> {
    let mut number: HashMap<LockKey, usize> = HashMap::new();
    let mut locks: Vec<LockKey> = Vec::new();
    for &(a, b) in edges.keys() {
        for lock in [a, b] {
            number.entry(lock).or_insert_with(|| {
                locks.push(lock);
                locks.len() - 1
            });
        }
    }
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); locks.len()];
    for (a, b) in edges.keys() {
        next[number[a]].push(number[b]);
    }
    const NEW: usize = usize::MAX;
    let n = locks.len();
    let (mut index, mut low) = (vec![NEW; n], vec![0; n]);
    let mut on_stack = vec![false; n];
    let (mut stack, mut calls) = (Vec::new(), Vec::new());
    let mut count = 0;
    let mut out = HashMap::new();
    for root in 0..n {
        if index[root] != NEW {
            continue;
        }
        calls.push((root, 0));
        while let Some(&mut (v, ref mut at)) = calls.last_mut() {
            if *at == 0 {
                (index[v], low[v]) = (count, count);
                count += 1;
                stack.push(v);
                on_stack[v] = true;
            }
            if let Some(&w) = next[v].get(*at) {
                *at += 1;
                if index[w] == NEW {
                    calls.push((w, 0));
                } else if on_stack[w] {
                    low[v] = low[v].min(index[w]);
                }
                continue;
            }
            calls.pop();
            if let Some(&(parent, _)) = calls.last() {
                low[parent] = low[parent].min(low[v]);
            }
            if low[v] == index[v] {
                let from = stack.iter().rposition(|&w| w == v).unwrap_or(0);
                let part = stack.split_off(from);
                part.iter().for_each(|&w| on_stack[w] = false);
                if part.len() > 1 {
                    part.iter().for_each(|&w| {
                        out.insert(locks[w], v as u32);
                    });
                }
            }
        }
    }
    out
}

/// A shortest circle through one lock of each part that is not reported yet.
fn circles(edges: &Edges<'_>, parts: &HashMap<LockKey, u32>, is_told: &[u32]) -> Vec<Vec<LockKey>> {
    let mut next: HashMap<LockKey, Vec<LockKey>> = HashMap::new();
    for (a, b) in edges.keys() {
        if parts.get(a).is_some_and(|part| parts.get(b) == Some(part)) {
            next.entry(*a).or_default().push(*b);
        }
    }
    // Of each part the lowest lock, so that the answer does not depend on hashes.
    let mut least: BTreeMap<u32, LockKey> = BTreeMap::new();
    for (&lock, &part) in parts {
        if is_told.binary_search(&part).is_err() {
            let at = least.entry(part).or_insert(lock);
            *at = lock.min(*at);
        }
    }
    let mut starts: Vec<LockKey> = least.into_values().collect();
    starts.sort_unstable();
    let shortest = |start: LockKey| -> Option<Vec<LockKey>> {
        let mut came: HashMap<LockKey, LockKey> = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(lock) = queue.pop_front() {
            for &to in next.get(&lock)? {
                if to == start {
                    let mut circle = vec![lock];
                    while let Some(&before) = circle.last().and_then(|l| came.get(l)) {
                        circle.push(before);
                    }
                    circle.reverse();
                    return Some(circle);
                }
                if let std::collections::hash_map::Entry::Vacant(new) = came.entry(to) {
                    new.insert(lock);
                    queue.push_back(to);
                }
            }
        }
        None
    };
    let found = starts.into_iter().filter_map(shortest);
    found.take(MAX_INVERSIONS).collect()
}

/// Turns keys into words.
struct Teller<'a> {
    trace: &'a Trace,
    name: &'a dyn Fn(LockKey) -> String,
}

impl Teller<'_> {
    fn tid(&self, thread: ThreadIx) -> i32 {
        self.trace.threads[thread.ix()].tid
    }

    /// Place where it was requested; else where the lock was first used.
    fn place(&self, edge: &Edge<'_>) -> String {
        let (process, object) = edge.first.lock;
        let first_use = || {
            let lock = self.trace.lock_of(process, object, Time::MAX)?;
            Some(self.trace.locks[lock.ix()].first_site)
        };
        let place = Some(edge.place).filter(|p| p.is_some()).or_else(first_use);
        place.map_or(String::new(), |p| self.trace.strings.get(p).into())
    }

    fn inversion(
        &self,
        (first, second): (LockKey, LockKey),
        one: &Edge<'_>,
        two: &Edge<'_>,
    ) -> Inversion {
        // Two different ones, where there are.
        let (a, b) = if one.who != two.who {
            (one.thread, two.thread)
        } else if two.other.is_some() {
            (one.thread, two.other_thread)
        } else if one.other.is_some() {
            (one.other_thread, two.thread)
        } else {
            (one.thread, two.thread)
        };
        let two_of_them = one.who != two.who || one.other.is_some() || two.other.is_some();
        let guard = one.guards.iter().find(|g| two.guards.contains(g));
        Inversion {
            first: (self.name)(first),
            second: (self.name)(second),
            first_then_second: one.times,
            second_then_first: two.times,
            tid_a: self.tid(a),
            tid_b: self.tid(b),
            place_a: self.place(one),
            place_b: self.place(two),
            guard: guard.map(|&g| (self.name)(g)),
            can_deadlock: two_of_them && guard.is_none(),
        }
    }

    /// A circle that more than one thread goes, and no lock guards.
    fn cycle(
        &self,
        circle: &[LockKey],
        pairs: &Edges<'_>,
        edges: &Edges<'_>,
    ) -> Option<OrderCycle> {
        let around = || (0..circle.len()).map(|i| (circle[i], circle[(i + 1) % circle.len()]));
        let of: Vec<&Edge<'_>> = around()
            .map(|key| pairs.get(&key).or_else(|| edges.get(&key)))
            .collect::<Option<_>>()?;
        let is_alone = of.iter().all(|e| e.who == of[0].who && e.other.is_none());
        let is_guard = |g: &&LockKey| of.iter().all(|e| e.guards.contains(g));
        if circle.len() < 3 || is_alone || of[0].guards.iter().any(|g| is_guard(&g)) {
            return None;
        }
        let step = |((held, taken), edge): ((LockKey, LockKey), &Edge<'_>)| OrderStep {
            held: (self.name)(held),
            taken: (self.name)(taken),
            times: edge.times,
            tid: self.tid(edge.thread),
            place: self.place(edge),
        };
        Some(OrderCycle { steps: around().zip(of).map(step).collect() })
    }
}
