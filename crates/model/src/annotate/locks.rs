//! Facts about locks that the lock probe reports besides slices: which locks there are (definitions and names), what a
//! thread waited for and where, and how many acquisitions one recorded hold stands for.
//!
//! A thread's slicer pushes these facts while the thread's events go by. [`LockFacts::publish`] then turns them into the
//! trace's tables: definitions become lives of locks (an address is used again after its lock is destroyed), waits and
//! counts become rows that refer to them, and the slices get the locks' names.
use super::open::DefaultNames;
use crate::input::Annotation;
use crate::{
    Lock, LockCounts, LockIx, LockKind, LockSource, LockWaits, ProcessIx, SliceKind, Slices, StrIx,
    ThreadIx, Time, Trace,
};
use kasuri_base::annotation::lock_type;
use std::collections::{HashMap, HashSet};

/// An event that defines a lock, or names it.
#[derive(Clone, Copy, Debug)]
struct Definition {
    thread: ThreadIx,
    time: Time,
    object: u64,
    kind: u16,
    site: StrIx,
}

/// The facts of all threads, in the order in which the threads are done.
#[derive(Debug, Default)]
pub(crate) struct LockFacts {
    definitions: Vec<Definition>,
    waits: LockWaits,
    counts: LockCounts,
    /// Conditions and the mutexes that went with them, as (thread, condition, mutex).
    conditions: HashSet<(ThreadIx, u64, u64)>,
}

/// Lengths of the three lists, to cut them back to.
pub(super) type Lengths = (usize, usize, usize);

impl LockFacts {
    pub fn define(&mut self, thread: ThreadIx, time: Time, e: &Annotation) {
        self.definitions.push(Definition { thread, time, object: e.a, kind: e.aux, site: e.name });
    }

    pub fn condition(&mut self, thread: ThreadIx, condition: u64, mutex: u64) {
        self.conditions.insert((thread, condition, mutex));
    }

    pub fn request(&mut self, thread: ThreadIx, time: Time, e: &Annotation) {
        let w = &mut self.waits;
        w.thread.push(thread);
        w.start.push(time);
        w.object.push(e.a);
        w.site.push(e.name);
        w.holder.push(i32::try_from(e.b).unwrap_or(0));
    }

    pub fn count(&mut self, thread: ThreadIx, time: Time, e: &Annotation) {
        let c = &mut self.counts;
        c.thread.push(thread);
        c.time.push(time);
        c.object.push(e.a);
        c.n.push(e.b);
    }

    pub fn lengths(&self) -> Lengths {
        let (waits, counts) = (self.waits.start.len(), self.counts.time.len());
        (self.definitions.len(), waits, counts)
    }

    pub fn truncate(&mut self, (definitions, waits, counts): Lengths) {
        self.definitions.truncate(definitions);
        let w = &mut self.waits;
        w.thread.truncate(waits);
        w.start.truncate(waits);
        w.object.truncate(waits);
        w.site.truncate(waits);
        w.holder.truncate(waits);
        let c = &mut self.counts;
        c.thread.truncate(counts);
        c.time.truncate(counts);
        c.object.truncate(counts);
        c.n.truncate(counts);
    }

    pub fn append(&mut self, own: LockFacts) {
        self.definitions.extend(own.definitions);
        let (w, more) = (&mut self.waits, own.waits);
        w.thread.extend(more.thread);
        w.start.extend(more.start);
        w.object.extend(more.object);
        w.site.extend(more.site);
        w.holder.extend(more.holder);
        let (c, more) = (&mut self.counts, own.counts);
        c.thread.extend(more.thread);
        c.time.extend(more.time);
        c.object.extend(more.object);
        c.n.extend(more.n);
        self.conditions.extend(own.conditions);
    }

    /// Fills the tables of locks, and gives their slices the locks' names.
    pub fn publish(&mut self, trace: &mut Trace, slices: &mut Slices, names: DefaultNames) {
        trace.lock_waits = std::mem::take(&mut self.waits);
        trace.lock_counts = std::mem::take(&mut self.counts);
        let mut definitions = std::mem::take(&mut self.definitions);
        let process = |d: &Definition| trace.threads[d.thread.ix()].process;
        definitions.sort_by_key(|d| (process(d), d.object, d.time));
        let mut locks: Vec<Lock> = Vec::new();
        for d in &definitions {
            let process = process(d);
            let same = |l: &&mut Lock| l.process == process && l.object == d.object;
            match locks.last_mut().filter(same) {
                Some(lock) if d.kind & lock_type::MASK == lock_type::SYMBOL => lock.name = d.site,
                // Two threads that used it first at the same time, or one that forgot it, define it twice.
                Some(lock) if lock.first_site == d.site && lock.since == d.time => {}
                _ => locks.push(lock_of(process, d)),
            }
        }
        for lock in &mut locks {
            if !lock.name.is_some() {
                let what = kind_name(lock.kind);
                let name = match trace.strings.get(lock.first_site) {
                    "" => format!("{what} {:#x}", lock.object),
                    site => format!("{what} at {site}"),
                };
                lock.name = trace.strings.intern(&name);
            }
        }
        self.find_gil(trace, slices, &mut locks);
        trace.locks = locks;
        if !trace.locks.is_empty() {
            name_slices(trace, slices, names);
        }
    }
}

/// CPython's state: conditions with a mutex in it are its global interpreter lock's.
const PYTHON: &str = "_PyRuntime";
/// The lock's name.
const GIL: &str = "GIL (_PyRuntime)";

impl LockFacts {
    /// CPython's global interpreter lock is no lock of the C library: a flag, a mutex around it, and two conditions. On
    /// one of them wait the threads that want the lock; on the other a thread that gave it up waits until another thread
    /// has taken it. A wait on either is a wait for the lock, and the two are one object. Its holder is not seen.
    fn find_gil(&self, trace: &mut Trace, slices: &mut Slices, locks: &mut Vec<Lock>) {
        let process = |thread: ThreadIx| trace.threads[thread.ix()].process;
        let key = |l: &Lock| (l.process, l.object);
        // By process: the conditions; the first stands for all.
        let mut found: HashMap<ProcessIx, Vec<u64>> = HashMap::new();
        for &(thread, condition, mutex) in &self.conditions {
            let of = (process(thread), mutex);
            let at = locks.partition_point(|l| key(l) < of);
            let is_python = |l: &Lock| {
                let name = trace.strings.get(l.name);
                let inside = name.strip_prefix(PYTHON);
                key(l) == of && inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('+'))
            };
            if locks.get(at).is_some_and(is_python) {
                found.entry(of.0).or_default().push(condition);
            }
        }
        if found.is_empty() {
            return;
        }
        for conditions in found.values_mut() {
            conditions.sort_unstable();
        }
        let name = trace.strings.intern(GIL);
        for row in 0..slices.start.len() {
            let of = trace.threads[slices.thread[row].ix()].process;
            if slices.kind[row] == SliceKind::Cond
                && let Some(conditions) = found.get(&of)
                && conditions.contains(&slices.object[row])
            {
                slices.kind[row] = SliceKind::LockWait;
                slices.object[row] = conditions[0];
                slices.name[row] = name;
            }
        }
        locks.extend(found.iter().map(|(&process, conditions)| Lock {
            process,
            object: conditions[0],
            since: Time::MIN,
            source: LockSource::Probe,
            name,
            ..Lock::default()
        }));
        locks.sort_by_key(|l| (l.process, l.object, l.since));
    }
}

fn lock_of(process: ProcessIx, d: &Definition) -> Lock {
    let kind = match d.kind & lock_type::MASK {
        lock_type::MUTEX => LockKind::Mutex,
        lock_type::RECURSIVE => LockKind::Recursive,
        lock_type::ERRORCHECK => LockKind::ErrorCheck,
        lock_type::ADAPTIVE => LockKind::Adaptive,
        lock_type::RWLOCK => LockKind::RwLock,
        lock_type::SPIN => LockKind::Spin,
        _ => LockKind::Other,
    };
    let is_symbol = d.kind & lock_type::MASK == lock_type::SYMBOL;
    let source = match d.kind {
        kind if kind & lock_type::ITO != 0 => LockSource::Ito,
        kind if kind & lock_type::UPROBE != 0 => LockSource::Uprobe,
        _ => LockSource::Probe,
    };
    let site = |wanted| if wanted { d.site } else { StrIx::NONE };
    Lock {
        process,
        object: d.object,
        since: d.time,
        kind,
        source,
        robust: !is_symbol && d.kind & lock_type::ROBUST != 0,
        inherits: !is_symbol && d.kind & (lock_type::INHERIT | lock_type::PROTECT) != 0,
        shared: !is_symbol && d.kind & lock_type::PSHARED != 0,
        name: site(is_symbol),
        first_site: site(!is_symbol),
    }
}

fn kind_name(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Mutex | LockKind::Adaptive => "mutex",
        LockKind::Recursive => "recursive mutex",
        LockKind::ErrorCheck => "errorcheck mutex",
        LockKind::RwLock => "rwlock",
        LockKind::Spin => "spin lock",
        LockKind::Other => "lock",
    }
}

fn name_slices(trace: &Trace, slices: &mut Slices, names: DefaultNames) {
    // Most locks have one life: no search by time then.
    let mut rows: HashMap<(ProcessIx, u64), (u32, u32)> = HashMap::new();
    for (ix, lock) in trace.locks.iter().enumerate() {
        let row = rows.entry((lock.process, lock.object));
        row.or_insert((ix as u32, 0)).1 += 1;
    }
    let mut last = (ProcessIx::NONE, 0, (0, 0));
    for row in 0..slices.start.len() {
        if !matches!(slices.kind[row], SliceKind::LockWait | SliceKind::LockHold) {
            continue;
        }
        let process = trace.threads[slices.thread[row].ix()].process;
        let object = slices.object[row];
        if (last.0, last.1) != (process, object) {
            let Some(&found) = rows.get(&(process, object)) else {
                continue;
            };
            last = (process, object, found);
        }
        let (first, n) = last.2;
        let lives = &trace.locks[first as usize..(first + n) as usize];
        let at = lives.partition_point(|l| l.since <= slices.start[row]);
        slices.name[row] = lives[at.saturating_sub(1)].name;
        debug_assert!(slices.name[row] != names.lock || n > 0);
    }
}

impl Trace {
    /// The lock at this address then: the life that began last, or the first when an event stands before it.
    pub fn lock_of(&self, process: ProcessIx, object: u64, time: Time) -> Option<LockIx> {
        let key = |l: &Lock| (l.process, l.object);
        let first = self.locks.partition_point(|l| key(l) < (process, object));
        let lives = self.locks[first..].iter().take_while(|l| key(l) == (process, object));
        let (mut n, mut before) = (0, 0);
        for life in lives {
            n += 1;
            before += usize::from(life.since <= time);
        }
        (n > 0).then(|| LockIx((first + before.saturating_sub(1)) as u32))
    }
}
