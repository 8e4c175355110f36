//! Load imbalance of what several threads do side by side.
//!
//! Goal: for each piece of work that is executed again and again by the threads of a process, how uneven its split
//! is, what that costs, and whether it is always the same thread that is late.
//!
//! An *instance* is one execution by all threads together; b_i is how busy thread i was in it: the time inside the
//! annotation on a CPU, without the annotated waits in it. (A thread preempted by another program is late, but not for
//! having more to do: that is interference.) Without kernel events it is all time without the annotated waits; time
//! whose thread state is not known counts as busy. Then imbalance = (max b - mean b) / max b and its cost is
//! n * (max b - mean b): the CPU time that the others waited for the slowest. Instances are separated in this order:
//!
//! 1. `region`: where barrier waits are annotated, all that each thread does between two of them, under any name.
//!    The k-th wait of each thread at the same barrier ends the k-th instance. The time before a thread's first wait
//!    is left out: its start is not known.
//! 2. `barrier`: for each name, its slices between two barrier waits, added up: right also when threads take
//!    different numbers of pieces (dynamic schedules).
//! 3. `occurrence`: without barriers, the k-th slice of that name on each thread, if all threads have as many.
//! 4. `total`: else all slices of that name on each thread, as one instance.
//!
//! A slice counts where it begins. Of slices inside one of the same name, the outermost counts.
//!
//! `rounds` then says whether it is always the same thread, and how the imbalance is distributed over the instances.
use crate::Imbalance;
use crate::account::is_dock_name;
use crate::annotations::{handed_over_in, no_light_threads, pinned_for};
use crate::busy::{BusyClock, knows_states};
use crate::cut::Cut;
use crate::rounds::{self, Round};
use kasuri_base::quick::QuickMap;
use kasuri_model::{ProcessIx, SliceKind, StrIx, ThreadIx, Time};
use std::collections::HashMap;

/// One thread's time under one name.
#[derive(Default)]
struct Work {
    thread: ThreadIx,
    /// Slices or regions in the whole recording: instances are paired over all of it, whatever range is asked for.
    n: u32,
    /// Each that the range touches.
    pieces: Vec<Piece>,
}

struct Piece {
    /// Number of the slice or region.
    number: u32,
    /// Barrier waits before it.
    epoch: u32,
    busy_ns: i64,
    start: Time,
}

impl Work {
    fn of(thread: ThreadIx) -> Work {
        Work { thread, ..Work::default() }
    }

    /// The next one; `busy` in the range, none: outside it.
    fn add(&mut self, epoch: u32, start: Time, busy: Option<i64>) {
        let number = self.n;
        self.pieces.extend(busy.map(|busy_ns| Piece { number, epoch, busy_ns, start }));
        self.n += 1;
    }
}

#[derive(Default)]
struct OfProcess {
    /// By name: one entry for each thread.
    work: HashMap<StrIx, Vec<Work>>,
    /// By barrier (object, name).
    regions: HashMap<(u64, StrIx), Vec<Work>>,
    /// Threads that wait at barriers.
    n_waiting: u32,
}

/// Rows of the table, most CPU time lost first.
pub(crate) fn imbalance(cut: &Cut<'_>) -> Vec<Imbalance> {
    let trace = cut.trace;
    let mut processes: HashMap<ProcessIx, OfProcess> = HashMap::new();
    let meanings: Vec<Meaning> = trace.strings.iter().map(Meaning::of).collect();
    for thread in cut.threads().filter(|t| cut.is_shown(*t)) {
        if !trace.threads[thread.ix()].slices.is_empty() {
            scan(
                cut,
                &meanings,
                thread,
                processes.entry(trace.threads[thread.ix()].process).or_default(),
            );
        }
    }
    let mut out = Vec::new();
    for (process, of) in &mut processes {
        for works in of.work.values_mut().chain(of.regions.values_mut()) {
            works.retain(|work| !work.pieces.is_empty());
        }
        let pid = trace.processes[process.ix()].pid;
        for ((_, name), works) in of.regions.iter().filter(|(_, w)| w.len() > 1) {
            let instances = by_key(works, |number, _| number);
            out.extend(row(cut, pid, *name, "region", works, &instances));
        }
        for (name, works) in of.work.iter().filter(|(_, w)| w.len() > 1) {
            let same = works.iter().all(|w| w.n == works[0].n);
            let (by, instances) = match (of.n_waiting > 1, same) {
                (true, _) => ("barrier", by_key(works, |_, epoch| epoch)),
                (false, true) => ("occurrence", by_key(works, |number, _| number)),
                (false, false) => ("total", by_key(works, |_, _| 0)),
            };
            out.extend(row(cut, pid, *name, by, works, &instances));
        }
    }
    out.sort_by(|a, b| {
        b.cost_ns
            .total_cmp(&a.cost_ns)
            .then_with(|| (&a.name, a.by, a.pid).cmp(&(&b.name, b.by, b.pid)))
    });
    out
}

/// What slices of work of a name are here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// A worker's time between two regions of OpenMP.
    Dock,
    /// A task runtime's own work (account.rs has the same rule), or it says how a thread ran: a call for which a worker was given
    /// away, a pinned thread.
    Runtime,
    /// A parallel region, as its team's master names it.
    Region,
    Work,
}

impl Meaning {
    fn of(name: &str) -> Meaning {
        match name {
            _ if is_dock_name(name) => Meaning::Dock,
            _ if name.starts_with("ito:") || name.starts_with("omp:") => Meaning::Runtime,
            _ if handed_over_in(name).is_some()
                || pinned_for(name).is_some()
                || no_light_threads(name).is_some() =>
            {
                Meaning::Runtime
            }
            _ if name.starts_with("parallel ") => Meaning::Region,
            _ => Meaning::Work,
        }
    }
}

/// One thread's slices, which come in order of their start.
fn scan(cut: &Cut<'_>, meanings: &[Meaning], thread: ThreadIx, of: &mut OfProcess) {
    let s = &cut.trace.slices;
    let rows = cut.trace.threads[thread.ix()].slices.clone();
    let (first, rows) = (rows.start as usize, rows.start as usize..rows.end as usize);
    let clock = BusyClock::new(cut, thread);
    let waiting = waiting_inside(cut, &clock, first, rows.clone());
    // Until when the last outermost slice of each name lasts.
    let mut covered: QuickMap<StrIx, (Time, usize)> = QuickMap::default();
    let mut works: Vec<(StrIx, Work)> = Vec::new();
    let mut epoch = 0;
    let mut region = Region::default();
    for row in rows {
        let (start, end, kind) = (s.start[row], s.end[row], s.kind[row]);
        match kind {
            // No one assigned the task to this thread rather than to another: it went where a worker was free.
            SliceKind::TaskRun => {}
            SliceKind::Work => {
                let name = s.name[row];
                match meanings.get(name.ix()).unwrap_or(&Meaning::Work) {
                    // A worker comes from its team's dock: what it did there is of no region.
                    Meaning::Dock => {
                        region.begin_again_at(end);
                        continue;
                    }
                    Meaning::Runtime => continue,
                    // A team's region begins here for its master, too: what was before ran without the team.
                    Meaning::Region => region.begin_again_at(start),
                    Meaning::Work => {}
                }
                let (until, at) = covered.entry(name).or_insert_with(|| {
                    works.push((name, Work::of(thread)));
                    (Time::MIN, works.len() - 1)
                });
                if start >= *until {
                    *until = end;
                    let busy = || clock.inside(cut, start, end) - waiting[row - first];
                    works[*at].1.add(epoch, start, cut.touches(start, end).then(busy));
                }
            }
            SliceKind::Barrier => {
                if let Some(began) = region.start {
                    let works = of.regions.entry((s.object[row], s.name[row])).or_default();
                    if works.last().is_none_or(|w| w.thread != thread) {
                        works.push(Work::of(thread));
                    }
                    if let Some(work) = works.last_mut() {
                        let busy =
                            cut.touches(began, start).then(|| region.busy(cut, start, &clock));
                        work.add(epoch, began, busy);
                    }
                }
                region.begin_at(end);
                epoch += 1;
            }
            SliceKind::LockHold => {}
            _ => region.wait(cut, start, end, &clock),
        }
    }
    of.n_waiting += u32::from(epoch > 0);
    for (name, work) in works {
        of.work.entry(name).or_default().push(work);
    }
}

/// From the end of one barrier wait to the start of the next.
#[derive(Default)]
struct Region {
    start: Option<Time>,
    waited_ns: i64,
    waited_until: Time,
}

impl Region {
    fn begin_at(&mut self, time: Time) {
        *self = Region { start: Some(time), waited_ns: 0, waited_until: time };
    }

    /// The same where a region has begun: it begins no earlier than this.
    fn begin_again_at(&mut self, time: Time) {
        if self.start.is_some() {
            self.begin_at(time);
        }
    }

    /// Another wait inside it; those inside a wait count once.
    fn wait(&mut self, cut: &Cut<'_>, start: Time, end: Time, clock: &BusyClock<'_>) {
        let start = start.max(self.waited_until);
        if end > start {
            self.waited_ns += clock.inside(cut, start, end);
            self.waited_until = end;
        }
    }

    /// Busy time until `end`, as much of it as lies in the range.
    fn busy(&self, cut: &Cut<'_>, end: Time, clock: &BusyClock<'_>) -> i64 {
        let start = self.start.unwrap_or(end);
        (clock.inside(cut, start, end) - self.waited_ns).max(0)
    }
}

/// For each slice of a thread, the time on the clock of the outermost waits inside it.
fn waiting_inside(
    cut: &Cut<'_>,
    clock: &BusyClock<'_>,
    first: usize,
    rows: std::ops::Range<usize>,
) -> Vec<i64> {
    let s = &cut.trace.slices;
    let mut waiting = vec![0; rows.len()];
    let mut until = Time::MIN;
    for row in rows {
        if matches!(s.kind[row], SliceKind::Work | SliceKind::TaskRun | SliceKind::LockHold)
            || s.start[row] < until
        {
            continue;
        }
        until = s.end[row];
        let ns = clock.inside(cut, s.start[row], s.end[row]);
        let mut parent = s.parent[row];
        while let Some(ix) =
            parent.ix().checked_sub(first).filter(|ix| parent.is_some() && *ix < waiting.len())
        {
            waiting[ix] += ns;
            parent = s.parent[parent.ix()];
        }
    }
    waiting
}

/// Busy time of each thread (by place in `works`) in each instance; a thread that took no part in it was not busy.
fn by_key(works: &[Work], key: impl Fn(u32, u32) -> u32) -> Vec<Round> {
    let mut instances: HashMap<u32, Round> = HashMap::new();
    for (at, work) in works.iter().enumerate() {
        for piece in &work.pieces {
            let round = instances
                .entry(key(piece.number, piece.epoch))
                .or_insert_with(|| Round { start: piece.start, busy_ns: vec![0; works.len()] });
            round.busy_ns[at] += piece.busy_ns;
            round.start = round.start.min(piece.start);
        }
    }
    let mut keyed: Vec<(u32, Round)> = instances.into_iter().collect();
    keyed.sort_unstable_by_key(|(key, _)| *key);
    keyed.into_iter().map(|(_, round)| round).collect()
}

fn row(
    cut: &Cut<'_>,
    pid: i32,
    name: StrIx,
    by: &'static str,
    works: &[Work],
    instances: &[Round],
) -> Option<Imbalance> {
    let mut out = Imbalance {
        name: cut.trace.strings.get(name).into(),
        pid,
        by,
        busy: if knows_states(cut) { "on_cpu" } else { "wall" },
        ..Imbalance::default()
    };
    let threads: Vec<ThreadIx> = works.iter().map(|work| work.thread).collect();
    rounds::fill(&mut out, cut, &threads, instances)?;
    Some(out)
}
