//! Code that several threads run at the same time: who is late in it is the slowest of them, not a thread that works alone.
//!
//! While one thread runs and the others wait for it, wake-ups do not tell a loop whose parts are unequal from code that only one thread
//! has. Samples do. The *root* of a path is the function with which its thread, or its part of a region of OpenMP, began; a *visit* is a
//! time in which a thread runs below one root and waits for no other thread. A visit is *shared* if another thread visited the same root
//! for [`SHARED_PART`] of it; so threads that enter a phase together share it, and the last one still does when all others are done.
//! What only one thread ever runs (a stage of a pipeline below a function that begins them all, a part for thread 0) is not shared.
//!
//! Rejected: which functions are shared by the whole recording. The same function may run alone first, and then in many threads.
use super::calls::Call;
use super::cover::{Cover, Owner};
use super::frames::Frames;
use super::polls::Polls;
use crate::account::track::{NONE, Track};
use crate::wakers::{self, DYING_NS, End};
use kasuri_base::quick::{QuickMap, QuickSet};
use kasuri_model::{
    FrameIx, PathIx, ProcessIx, SampleKind, StateRow, ThreadIx, ThreadState, Time, Trace,
};

/// Another thread must have been there for this part of a visit.
const SHARED_PART: i64 = 20;
/// Code with so many samples is known to be one thread's alone if all but this part of them are.
const KNOWN_SAMPLES: u32 = 10;
const OTHERS_PART: u32 = 50;
/// So many functions below the root are looked at.
const DEPTH: usize = 8;

/// When each thread was in a phase that it shared with others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phases {
    /// By row of [`Trace::threads`]. Value: the phase's frame, the most sampled one of its root.
    tracks: Vec<Track>,
    /// Of the frame of a region's part: the function that the region is in, where that was seen.
    pub region_of: Vec<(FrameIx, FrameIx)>,
}

/// What a path says: its root, and the node of its innermost function in the tree of calls below all roots.
#[derive(Clone, Copy)]
struct Place {
    root: FrameIx,
    /// A runtime called it: it is no function of that name which the program calls itself.
    in_region: bool,
    node: u32,
}

/// A part of a visit.
struct Piece {
    from: Time,
    to: Time,
    place: Place,
}

/// A thread's time below one root.
struct Visit {
    thread: ThreadIx,
    pieces: Vec<Piece>,
    /// Who has only to end, and waits for a CPU to do so, is not there for others.
    works_to: Time,
}

impl Visit {
    fn from(&self) -> Time {
        self.pieces[0].from
    }

    fn to(&self) -> Time {
        self.pieces[self.pieces.len() - 1].to
    }
}

impl Phases {
    /// Reads the whole recording. `spins`: whether a thread that runs at this path only waits for another.
    pub fn new(
        trace: &Trace,
        cover: &Cover,
        frames: &Frames<'_>,
        polls: &Polls,
        spins: impl Fn(PathIx) -> bool,
    ) -> Phases {
        let calls = Calls::new(trace, frames, spins);
        let mut visits: QuickMap<(ProcessIx, u32, bool), Vec<Visit>> = QuickMap::default();
        for thread in targets(trace) {
            let process = trace.threads[thread.ix()].process;
            for visit in Walk::visits(trace, cover, frames, &calls, polls, thread) {
                let place = visit.pieces[0].place;
                let key = (process, frames.function(place.root), place.in_region);
                visits.entry(key).or_default().push(visit);
            }
        }
        let mut shared: Vec<Visit> = Vec::new();
        for visits in visits.into_values() {
            let together = together(&visits);
            let is_shared = |visit: &Visit| {
                let length = (visit.to() - visit.from()).ns();
                overlap(&together, visit.from(), visit.to()).saturating_mul(SHARED_PART) >= length
            };
            shared.extend(visits.into_iter().filter(is_shared));
        }
        let names = names(trace, &shared);
        let mut out =
            Phases { tracks: vec![Track::default(); trace.threads.len()], region_of: Vec::new() };
        for (&path, place) in &calls.of_path {
            if let (Some(caller), Some(&name)) =
                (frames.region_caller(path), names.get(&place.root))
            {
                out.region_of.push((name, caller));
            }
        }
        out.region_of.sort_unstable();
        out.region_of.dedup_by_key(|(part, _)| *part);
        shared.sort_by_key(|visit| (visit.thread, visit.from()));
        for visit in &shared {
            let track = &mut out.tracks[visit.thread.ix()];
            for piece in &visit.pieces {
                let name = match calls.is_of_one_thread(piece.place.node) {
                    true => NONE,
                    false => names[&piece.place.root].0,
                };
                track.change_to(piece.from, name);
            }
            track.change_to(visit.to(), NONE);
        }
        out
    }

    /// The phase that the thread, which runs at `now`, shares with others, and until when; none: it is in none.
    pub fn at(&self, thread: ThreadIx, now: Time) -> (Option<FrameIx>, Time) {
        match self.tracks.get(thread.ix()) {
            Some(track) => {
                let (value, until) = track.look(now);
                ((value != NONE).then_some(FrameIx(value)), until)
            }
            None => (None, Time::MAX),
        }
    }

    /// The times at which a thread's phase changes, in no order.
    pub fn changes(&self) -> impl Iterator<Item = Time> + '_ {
        self.tracks.iter().flat_map(Track::changes)
    }
}

fn targets(trace: &Trace) -> impl Iterator<Item = ThreadIx> + '_ {
    let threads = (0..trace.threads.len() as u32).map(ThreadIx);
    threads.filter(|&thread| trace.is_target(thread))
}

/// The tree of calls below the roots, and which threads were seen where.
struct Calls {
    of_path: QuickMap<PathIx, Place>,
    /// By node: whether it, or one that it was called by, is known to be one thread's alone.
    is_of_one: Vec<bool>,
}

impl Calls {
    fn new(trace: &Trace, frames: &Frames<'_>, spins: impl Fn(PathIx) -> bool) -> Calls {
        let s = &trace.samples;
        let rows = (0..s.time.len()).filter(|&row| {
            s.kind[row] == SampleKind::OnCpu
                && s.path[row].is_some()
                && trace.is_target(s.thread[row])
        });
        let mut own: QuickMap<PathIx, (Vec<FrameIx>, bool)> = QuickMap::default();
        for row in rows.clone() {
            let path = s.path[row];
            own.entry(path).or_insert_with(|| match spins(path) {
                true => (Vec::new(), false),
                false => frames.region(path),
            });
        }
        // Functions that threads begin with: the thread that made them may call them, too.
        let begun: QuickSet<u32> = (own.values())
            .filter(|(_, in_region)| !in_region)
            .filter_map(|(own, _)| own.last())
            .map(|&root| frames.function(root))
            .collect();
        let mut children: QuickMap<(u32, u32), u32> = QuickMap::default();
        let mut parent: Vec<u32> = Vec::new();
        let mut of_path: QuickMap<PathIx, Place> = QuickMap::default();
        for (&path, (own, in_region)) in &own {
            let Some(&outermost) = own.last() else {
                continue;
            };
            let first = frames.function(outermost);
            let is_root = |frame: &&FrameIx| {
                let function = frames.function(**frame);
                !in_region && function != first && begun.contains(&function)
            };
            let at = own.iter().rposition(|frame| is_root(&frame)).unwrap_or(own.len() - 1);
            let root = own[at];
            let line = trace.frames.line[root.ix()];
            let inner = own[..at].iter().rev().map(|&frame| frames.function(frame));
            let mut node = NONE;
            for step in [frames.function(root), u32::from(*in_region), line]
                .into_iter()
                .chain(inner)
                .take(DEPTH)
            {
                node = *children.entry((node, step)).or_insert_with(|| {
                    parent.push(node);
                    parent.len() as u32 - 1
                });
            }
            let place = Place { root, in_region: *in_region, node };
            of_path.insert(path, place);
        }
        let mut seen: Vec<QuickMap<ThreadIx, u32>> = vec![QuickMap::default(); parent.len()];
        for row in rows {
            let mut node = of_path.get(&s.path[row]).map_or(NONE, |place| place.node);
            while node != NONE {
                *seen[node as usize].entry(s.thread[row]).or_default() += 1;
                node = parent[node as usize];
            }
        }
        let mut is_of_one = Vec::with_capacity(parent.len());
        for (by, &caller) in seen.iter().zip(&parent) {
            let (all, most) = (by.values().sum::<u32>(), by.values().copied().max().unwrap_or(0));
            let is_alone = all >= KNOWN_SAMPLES && (all - most).saturating_mul(OTHERS_PART) <= all;
            is_of_one.push(is_alone || (caller != NONE && is_of_one[caller as usize]));
        }
        Calls { of_path, is_of_one }
    }

    fn is_of_one_thread(&self, node: u32) -> bool {
        self.is_of_one[node as usize]
    }
}

/// Walks through a thread's states.
struct Walk {
    thread: ThreadIx,
    open: Vec<Piece>,
    done: Vec<Visit>,
    /// Where the thread was last; it is there until a sample says otherwise.
    last: Option<Place>,
}

impl Walk {
    fn visits(
        trace: &Trace,
        cover: &Cover,
        frames: &Frames<'_>,
        calls: &Calls,
        polls: &Polls,
        thread: ThreadIx,
    ) -> Vec<Visit> {
        let mut walk = Walk { thread, open: Vec::new(), done: Vec::new(), last: None };
        let path_of = |owner: Owner| {
            let path = owner.sample().map(|row| trace.samples.path[row]);
            path.unwrap_or(PathIx::NONE)
        };
        let rows = trace.threads[thread.ix()].states.clone();
        let mut begun = 0;
        let mut locks: QuickMap<PathIx, bool> = QuickMap::default();
        for (row, state) in (rows.start as usize..).zip(trace.states_of(thread)) {
            let (from, to) = (state.start, state.end);
            let mut at = from;
            match state.state {
                ThreadState::Running => {
                    for (owner, length) in cover.between_from(&mut begun, thread, from, to) {
                        let path = path_of(owner);
                        match path.is_some() {
                            true => match calls.of_path.get(&path) {
                                Some(&place) => walk.be(frames, place, at, at + length),
                                None => walk.leave(),
                            },
                            false => walk.stay(frames, at, at + length),
                        }
                        at = at + length;
                    }
                }
                ThreadState::Unknown => walk.leave(),
                state if state.is_runnable() => walk.stay(frames, from, to),
                // It waits for others, and between two tries, too.
                _ if polls.is_part(row) => walk.leave(),
                _ => {
                    let is_last = row + 1 >= rows.end as usize;
                    let by_own = || match wakers::end(trace, thread, row + 1) {
                        End::Thread(by) => trace.is_target(by),
                        _ => false,
                    };
                    let owner = cover.between_from(&mut begun, thread, from, to).next();
                    let path = owner.map_or(PathIx::NONE, |(owner, _)| path_of(owner));
                    let mut is_lock = |path| {
                        let call = || frames.call(path) == Call::Lock;
                        path != PathIx::NONE && *locks.entry(path).or_insert_with(call)
                    };
                    if is_last || (by_own() && !is_lock(path)) {
                        walk.rest();
                    }
                }
            }
        }
        walk.rest();
        if let (Some(last), Some(since)) = (walk.done.last_mut(), only_ends_since(trace, thread)) {
            last.works_to = since.max(last.from()).min(last.to());
        }
        walk.done
    }

    fn be(&mut self, frames: &Frames<'_>, place: Place, from: Time, to: Time) {
        let root = |place: Place| (frames.function(place.root), place.in_region);
        if self.open.last().is_some_and(|piece| root(piece.place) != root(place)) {
            self.rest();
        }
        self.open.push(Piece { from, to, place });
        self.last = Some(place);
    }

    fn stay(&mut self, frames: &Frames<'_>, from: Time, to: Time) {
        if let Some(place) = self.last {
            self.be(frames, place, from, to);
        }
    }

    /// It waits for another thread.
    fn rest(&mut self) {
        if let Some(last) = self.open.last() {
            self.done.push(Visit {
                thread: self.thread,
                works_to: last.to,
                pieces: std::mem::take(&mut self.open),
            });
        }
    }

    /// It is where no phase is.
    fn leave(&mut self) {
        self.rest();
        self.last = None;
    }
}

/// From when on a thread that ends has nothing to do but end, for which it waits for a CPU.
fn only_ends_since(trace: &Trace, thread: ThreadIx) -> Option<Time> {
    if trace.threads[thread.ix()].alive.end >= trace.span.end {
        return None;
    }
    let rows: Vec<StateRow> = trace.states_of(thread).collect();
    let (mut ran, mut since) = (0, None);
    for row in rows.iter().rev() {
        match row.state {
            ThreadState::Running => ran += (row.end - row.start).ns(),
            ThreadState::RunnablePreempted => since = Some(row.start),
            ThreadState::Dead => {}
            _ => break,
        }
        if ran >= DYING_NS {
            break;
        }
    }
    since
}

/// When threads of two or more of these visits had something to do, in order.
fn together(visits: &[Visit]) -> Vec<(Time, Time)> {
    let mut edges: Vec<(Time, i32)> = Vec::with_capacity(visits.len() * 2);
    for visit in visits {
        edges.push((visit.from(), 1));
        edges.push((visit.works_to, -1));
    }
    edges.sort_unstable();
    let (mut n, mut since, mut out) = (0, Time(0), Vec::new());
    for (time, change) in edges {
        match (n, n + change) {
            (1, 2) => since = time,
            (2, 1) if time > since => out.push((since, time)),
            _ => {}
        }
        n += change;
    }
    out
}

/// How much of from..to lies in these stretches, which are in order.
fn overlap(stretches: &[(Time, Time)], from: Time, to: Time) -> i64 {
    let first = stretches.partition_point(|s| s.1 <= from);
    let inside = stretches[first..].iter().take_while(|s| s.0 < to);
    inside.map(|s| (s.1.min(to) - s.0.max(from)).ns()).sum()
}

/// The frame that stands for the phase of each root's frame. Lines of a root that were seen in one visit are of one phase; the one in
/// which threads were longest stands for it.
fn names(trace: &Trace, shared: &[Visit]) -> QuickMap<FrameIx, FrameIx> {
    let mut ns: QuickMap<FrameIx, i64> = QuickMap::default();
    let mut joined: QuickMap<FrameIx, FrameIx> = QuickMap::default();
    fn find(joined: &mut QuickMap<FrameIx, FrameIx>, frame: FrameIx) -> FrameIx {
        let mut at = frame;
        while let Some(&next) = joined.get(&at).filter(|next| **next != at) {
            at = next;
        }
        joined.insert(frame, at);
        at
    }
    for visit in shared {
        let first = visit.pieces[0].place.root;
        for piece in &visit.pieces {
            let root = piece.place.root;
            *ns.entry(root).or_default() += (piece.to - piece.from).ns();
            let (a, b) = (find(&mut joined, first), find(&mut joined, root));
            joined.insert(a.max(b), a.min(b));
        }
    }
    let line = |frame: FrameIx| trace.frames.line[frame.ix()];
    let mut best: QuickMap<FrameIx, FrameIx> = QuickMap::default();
    let frames: Vec<FrameIx> = ns.keys().copied().collect();
    for &frame in &frames {
        let group = find(&mut joined, frame);
        let rank = |frame: FrameIx| (ns[&frame], std::cmp::Reverse((line(frame), frame)));
        let best = best.entry(group).or_insert(frame);
        if rank(frame) > rank(*best) {
            *best = frame;
        }
    }
    let of = |frame: FrameIx, joined: &mut _| (frame, best[&find(joined, frame)]);
    frames.into_iter().map(|frame| of(frame, &mut joined)).collect()
}
