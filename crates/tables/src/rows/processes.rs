//! Processes, threads, CPUs.
use super::id;
use crate::batch::Text;
use crate::schema::{Out, table};
use crate::{Result, Source};
use kasuri_model::{ThreadIx, ThreadState};

table! {
    /// Processes seen.
    pub(crate) static PROCESS = "process", ProcessRow from processes;
    /// Id, unique in the run; a pid may be given to several processes.
    process_id: i64, "id";
    /// Process id, as the kernel calls it.
    pid: i32;
    /// Last known name.
    name: Text;
    /// The process that made it, when seen.
    parent_process_id: Option<i64>, "id";
    /// Whether it belongs to what was recorded: the program and its descendants.
    is_target: bool;
    /// Its threads.
    n_threads: i32, "count";
}

fn processes(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    for (ix, process) in source.trace().processes.iter().enumerate() {
        out.push(ProcessRow {
            process_id: ix as i64,
            pid: process.pid,
            name: process.name.into(),
            parent_process_id: id(process.parent.0),
            is_target: process.is_target,
            n_threads: process.threads.len() as i32,
        })?;
    }
    Ok(())
}

table! {
    /// Threads seen. `on_cpu_ns + runnable_ns + blocked_ns + unknown_ns = end_ns - start_ns` where the kernel's events mention it.
    pub(crate) static THREAD = "thread", ThreadRow from threads;
    /// Id, unique in the run; a tid may be given to several threads.
    thread_id: i64, "id";
    /// Its process.
    process_id: i64, "id";
    /// Process id.
    pid: i32;
    /// Thread id, as the kernel calls it.
    tid: i32;
    /// Last known name.
    name: Text;
    /// Name of its process.
    process: Text;
    /// Whether it belongs to what was recorded.
    is_target: bool;
    /// From when it is known to exist...
    start_ns: i64, "ns";
    /// ...until when.
    end_ns: i64, "ns";
    /// Time on a CPU.
    on_cpu_ns: i64, "ns";
    /// Time ready to run without a CPU: `woken_ns + preempted_ns`.
    runnable_ns: i64, "ns";
    /// Of it, after being woken or created.
    woken_ns: i64, "ns";
    /// Of it, after being taken off a CPU.
    preempted_ns: i64, "ns";
    /// Time asleep, stopped or idle.
    blocked_ns: i64, "ns";
    /// Of it, uninterruptible (D).
    disk_sleep_ns: i64, "ns";
    /// Time about which nothing is known.
    unknown_ns: i64, "ns";
    /// Times it was taken off a CPU.
    switches: i32, "count";
    /// Of these, while it could still run.
    preemptions: i32, "count";
}

fn threads(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    for (ix, thread) in trace.threads.iter().enumerate() {
        let mut ns = [0i64; 9];
        for row in trace.states_of(ThreadIx(ix as u32)) {
            ns[row.state as usize] += (row.end - row.start).ns();
        }
        let of = |state: ThreadState| ns[state as usize];
        let process = trace.processes.get(thread.process.ix());
        let woken_ns = of(ThreadState::RunnableWoken);
        let preempted_ns = of(ThreadState::RunnablePreempted);
        out.push(ThreadRow {
            thread_id: ix as i64,
            process_id: id(thread.process.0).unwrap_or(-1),
            pid: source.pid(thread.process),
            tid: thread.tid,
            name: thread.name.into(),
            process: process.map(|p| p.name).unwrap_or_default().into(),
            is_target: trace.is_target(ThreadIx(ix as u32)),
            start_ns: thread.alive.start.ns(),
            end_ns: thread.alive.end.ns(),
            on_cpu_ns: of(ThreadState::Running),
            runnable_ns: woken_ns + preempted_ns,
            woken_ns,
            preempted_ns,
            blocked_ns: of(ThreadState::Sleeping)
                + of(ThreadState::DiskSleep)
                + of(ThreadState::Stopped)
                + of(ThreadState::Idle)
                + of(ThreadState::Dead),
            disk_sleep_ns: of(ThreadState::DiskSleep),
            unknown_ns: of(ThreadState::Unknown),
            switches: thread.switches_out.cast_signed(),
            preemptions: thread.preemptions.cast_signed(),
        })?;
    }
    Ok(())
}

table! {
    /// CPUs whose scheduling was recorded. `target_ns + other_ns + idle_ns + unknown_ns = run.wall_ns`.
    pub(crate) static CPU = "cpu", CpuRow from cpus;
    /// Its number.
    cpu: i32;
    /// Time it ran the recorded program's threads.
    target_ns: i64, "ns";
    /// Time it ran other threads.
    other_ns: i64, "ns";
    /// Time it ran none.
    idle_ns: i64, "ns";
    /// Time about which nothing is known.
    unknown_ns: i64, "ns";
    /// Time in interrupt and softirq handlers, inside the times above; missing when they were not recorded.
    irq_ns: Option<i64>, "ns";
    /// Switches to another thread.
    switches: i64, "count";
}

fn cpus(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    for cpu in &source.summary().cpus {
        out.push(CpuRow {
            cpu: cpu.cpu.cast_signed(),
            target_ns: cpu.target_ns,
            other_ns: cpu.other_ns,
            idle_ns: cpu.idle_ns,
            unknown_ns: cpu.unknown_ns,
            irq_ns: cpu.irq_ns,
            switches: cpu.switches.cast_signed(),
        })?;
    }
    Ok(())
}
