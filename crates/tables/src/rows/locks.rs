//! Locks, their holds and waits.
use super::{id, name};
use crate::batch::Text;
use crate::schema::{Out, table};
use crate::{Result, Source};
use kasuri_analyze::LockRow as Answer;
use kasuri_model::LockKind;
use std::collections::HashMap;

fn kind(kind: LockKind) -> &'static str {
    match kind {
        LockKind::Other => "other",
        LockKind::Mutex => "mutex",
        LockKind::Recursive => "recursive",
        LockKind::ErrorCheck => "error_check",
        LockKind::Adaptive => "adaptive",
        LockKind::RwLock => "rwlock",
        LockKind::Spin => "spin",
    }
}

table! {
    /// Locks, with how they were used. Several lives of one address are one row. Where `run.lock_probe` is `light`, holds are a sample.
    pub(crate) static LOCK = "lock", LockRow from locks;
    /// Id, unique in the run.
    lock_id: i64, "id";
    /// Its process.
    process_id: i64, "id";
    /// Process id.
    pid: i32;
    /// Its address, as 64 bits with sign.
    object: i64;
    /// Its address for people.
    address: Text;
    /// As the program calls it.
    name: Text;
    /// `mutex`, `recursive`, `error_check`, `adaptive`, `rwlock`, `spin` or `other`.
    kind: Text;
    /// Source of its events: `probe`, `ito`, `uprobe`, or `annotation` (KASURI_LOCK_* of kasuri.h).
    source: Text;
    /// Where it was initialised, or first used.
    first_site: Option<Text>;
    /// Threads that took it.
    threads: i32, "count";
    /// Critical sections.
    holds: i64, "count";
    /// From acquired to released, by the wall clock.
    hold_ns: i64, "ns";
    /// Of it, on a CPU...
    hold_cpu_ns: i64, "ns";
    /// ...ready without a CPU...
    hold_preempted_ns: i64, "ns";
    /// ...asleep.
    hold_blocked_ns: i64, "ns";
    /// The longest.
    hold_max_ns: i64, "ns";
    /// Acquisitions that waited for 300 ns or more.
    contended: i64, "count";
    /// Time of those waits...
    wait_ns: i64, "ns";
    /// ...of it on a CPU.
    wait_spin_ns: i64, "ns";
    /// The longest.
    wait_max_ns: i64, "ns";
    /// CPU time inside / CPU time of the process; missing when switches were not recorded.
    lock_ratio: Option<f64>, "0..1";
    /// Waiting / execution time of the process.
    wait_ratio: Option<f64>, "0..1";
}

fn locks(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    let all = source.acquisitions();
    let answers = &source.session().locks().locks;
    let answers: HashMap<(i32, u64), &Answer> =
        answers.iter().map(|a| ((a.pid, a.object), a)).collect();
    let none = Answer::default();
    // Of several lives at an address the last one's kind and site.
    let lives: HashMap<_, _> = trace.locks.iter().map(|l| ((l.process, l.object), l)).collect();
    for (lock_id, key) in all.locks.iter().enumerate() {
        let (process, object) = *key;
        let pid = source.pid(process);
        let life = lives.get(key);
        let answer = answers.get(&(pid, object)).copied().unwrap_or(&none);
        let used = &answer.used;
        out.push(LockRow {
            lock_id: lock_id as i64,
            process_id: id(process.0).unwrap_or(-1),
            pid,
            object: object.cast_signed(),
            address: format!("{object:#x}").into(),
            name: match (all.names.get(key), life) {
                (Some(name), _) => name.clone().into(),
                (None, Some(life)) => life.name.into(),
                (None, None) => "".into(),
            },
            kind: kind(life.map(|l| l.kind).unwrap_or_default()).into(),
            source: life.map_or("annotation", |l| l.source.word()).into(),
            first_site: life.and_then(|l| name(l.first_site)),
            threads: answer.threads.cast_signed(),
            holds: used.holds.cast_signed(),
            hold_ns: used.hold_wall_ns,
            hold_cpu_ns: used.hold_cpu_ns,
            hold_preempted_ns: used.hold_preempted_ns,
            hold_blocked_ns: used.hold_blocked_ns,
            hold_max_ns: used.hold_max_ns,
            contended: used.contended.cast_signed(),
            wait_ns: used.wait_ns,
            wait_spin_ns: used.wait_spin_ns,
            wait_max_ns: used.wait_max_ns,
            lock_ratio: used.lock_ratio,
            wait_ratio: used.wait_ratio,
        })?;
    }
    Ok(())
}

table! {
    /// Critical sections: from acquired to released, by thread and time.
    pub(crate) static LOCK_HOLD = "lock_hold", HoldRow from holds;
    /// Id of the acquisition, unique in the run; the wait that led to it has the same.
    acquisition_id: i64, "id";
    /// The lock.
    lock_id: i64, "id";
    /// The thread that held it.
    thread_id: i64, "id";
    /// Process id.
    pid: i32;
    /// Thread id.
    tid: i32;
    /// Acquired...
    start_ns: i64, "ns";
    /// ...released.
    end_ns: i64, "ns";
    /// `end_ns - start_ns`.
    dur_ns: i64, "ns";
    /// Of it, on a CPU...
    on_cpu_ns: i64, "ns";
    /// ...ready without a CPU...
    preempted_ns: i64, "ns";
    /// ...asleep...
    blocked_ns: i64, "ns";
    /// ...not known.
    unknown_ns: i64, "ns";
    /// Where in the program it was taken, when known.
    site: Option<Text>;
}

fn holds(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let acquisitions = source.acquisitions();
    for (at, a) in acquisitions.all.iter().enumerate() {
        let Some(hold) = &a.hold else { continue };
        let (pid, tid) = source.pid_tid(a.thread);
        out.push(HoldRow {
            acquisition_id: at as i64,
            lock_id: acquisitions.id_of(a.process, a.object).unwrap_or(-1),
            thread_id: a.thread.0.into(),
            pid,
            tid,
            start_ns: hold.start.ns(),
            end_ns: hold.end.ns(),
            dur_ns: (hold.end - hold.start).ns(),
            on_cpu_ns: a.hold_cpu_ns,
            preempted_ns: a.hold_preempted_ns,
            blocked_ns: a.hold_blocked_ns,
            unknown_ns: a.hold_unknown_ns,
            site: name(a.site),
        })?;
    }
    Ok(())
}

table! {
    /// Requests of locks: from requested to acquired, or given up, by thread and time. Also those that were granted at once.
    pub(crate) static LOCK_WAIT = "lock_wait", WaitRow from waits;
    /// Id of the acquisition, unique in the run; the hold that followed has the same.
    acquisition_id: i64, "id";
    /// The lock.
    lock_id: i64, "id";
    /// The thread that waited.
    thread_id: i64, "id";
    /// Process id.
    pid: i32;
    /// Thread id.
    tid: i32;
    /// Requested...
    start_ns: i64, "ns";
    /// ...acquired, or given up.
    end_ns: i64, "ns";
    /// `end_ns - start_ns`.
    dur_ns: i64, "ns";
    /// Of it, on a CPU: spinning, going to sleep, waking up.
    spin_ns: i64, "ns";
    /// Whether it got the lock.
    acquired: bool;
    /// Where in the program it was asked for, when known.
    site: Option<Text>;
    /// Thread id of the holder when it was asked for, as the lock itself says; missing: it does not.
    holder_tid: Option<i32>;
}

fn waits(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let acquisitions = source.acquisitions();
    let w = &source.trace().lock_waits;
    let holders: HashMap<_, i32> = (0..w.start.len())
        .filter(|&row| w.holder[row] != 0)
        .map(|row| ((w.thread[row], w.start[row], w.object[row]), w.holder[row]))
        .collect();
    for (at, a) in acquisitions.all.iter().enumerate() {
        let Some(wait) = &a.wait else { continue };
        let (pid, tid) = source.pid_tid(a.thread);
        out.push(WaitRow {
            acquisition_id: at as i64,
            lock_id: acquisitions.id_of(a.process, a.object).unwrap_or(-1),
            thread_id: a.thread.0.into(),
            pid,
            tid,
            start_ns: wait.start.ns(),
            end_ns: wait.end.ns(),
            dur_ns: (wait.end - wait.start).ns(),
            spin_ns: a.wait_spin_ns,
            acquired: a.hold.is_some(),
            site: name(a.site),
            holder_tid: holders.get(&(a.thread, wait.start, a.object)).copied(),
        })?;
    }
    Ok(())
}
