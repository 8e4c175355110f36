//! Scheduler events, rebuilt from the model's columns: each boundary between two rows of a CPU's occupancy
//! was one sched_switch, each wake-up one sched_waking, each birth one task_newtask.
//!
//! The columns of a CPU (occupancy) are merged with the wake-ups, which are in time order over all CPUs, by
//! one cursor for each CPU; memory is one bundle for each CPU.
use super::packets::Packets;
use super::proto::*;
use crate::label;
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};
use std::io::{self, Write};

/// Events in one bundle.
const BUNDLE_EVENTS: usize = 512;

/// The model does not keep priorities; this is the kernel's number for a normal thread.
const PRIORITY: i32 = 120;

/// `common_flags`: raised in a hardware interrupt (TRACE_FLAG_HARDIRQ).
const IN_INTERRUPT: u32 = 8;
/// `clone_flags`: CLONE_THREAD.
const CLONE_THREAD: u64 = 0x1_0000;
/// `prev_state` of a thread that is gone (EXIT_DEAD).
const EXIT_DEAD: i64 = 0x10;

struct CpuStream {
    next_row: usize,
    end_row: usize,
    bundle: Vec<FtraceEvent>,
    /// Events before the bundle are missing.
    is_after_loss: bool,
}

/// Writes all bundles. Returns the number of stretches in which what a CPU did is not known.
pub fn write<W: Write>(trace: &Trace, packets: &mut Packets<W>) -> io::Result<u64> {
    let mut sched = Sched {
        trace,
        cpus: streams(trace),
        unknown: 0,
    };
    let mut births: Vec<ThreadIx> = (0..trace.threads.len() as u32).map(ThreadIx).collect();
    births.retain(|ix| sched.is_born(*ix));
    births.sort_by_key(|ix| trace.threads[ix.ix()].alive.start);
    let mut births = births.into_iter().peekable();
    for i in 0..trace.wakeups.time.len() {
        let (cpu, time) = (trace.wakeups.cpu[i], trace.wakeups.time[i]);
        // A thread is born before it is woken.
        while let Some(ix) = births.next_if(|ix| trace.threads[ix.ix()].alive.start <= time) {
            sched.birth(ix, packets)?;
        }
        // A waking and a switch with one stamp: the waking came first, it may be what the switch runs.
        sched.switches_before(cpu, time, packets)?;
        sched.waking(i, packets)?;
    }
    for ix in births {
        sched.birth(ix, packets)?;
    }
    for cpu in 0..trace.cpus.len() as u16 {
        sched.switches_before(cpu, Time::MAX, packets)?;
        sched.flush(cpu, packets)?;
    }
    Ok(sched.unknown)
}

fn streams(trace: &Trace) -> Vec<CpuStream> {
    let stream = |cpu: &kasuri_model::Cpu| CpuStream {
        next_row: cpu.occupancy.start as usize,
        end_row: cpu.occupancy.end as usize,
        bundle: Vec::new(),
        is_after_loss: false,
    };
    trace.cpus.iter().map(stream).collect()
}

struct Sched<'a> {
    trace: &'a Trace,
    cpus: Vec<CpuStream>,
    unknown: u64,
}

impl Sched<'_> {
    fn switches_before<W: Write>(
        &mut self,
        cpu: u16,
        time: Time,
        packets: &mut Packets<W>,
    ) -> io::Result<()> {
        loop {
            let Some(stream) = self.cpus.get_mut(usize::from(cpu)) else {
                return Ok(());
            };
            let row = stream.next_row;
            if row >= stream.end_row || self.trace.occupancy.start[row] >= time {
                return Ok(());
            }
            stream.next_row += 1;
            let first = row == self.trace.cpus[usize::from(cpu)].occupancy.start as usize;
            if let Some(event) = self.switch(row, first, packets) {
                self.push(cpu, event, packets)?;
            }
            let occupancy = &self.trace.occupancy;
            if !first && !occupancy.thread[row].is_some() && !occupancy.idle[row] {
                self.flush(cpu, packets)?;
                self.cpus[usize::from(cpu)].is_after_loss = true;
            }
        }
    }

    /// The sched_switch that began row `row` of the occupancy.
    fn switch<W: Write>(
        &mut self,
        row: usize,
        first: bool,
        packets: &Packets<W>,
    ) -> Option<FtraceEvent> {
        let occupancy = &self.trace.occupancy;
        let (time, next) = (occupancy.start[row], occupancy.thread[row]);
        let prev = if first {
            ThreadIx::NONE
        } else {
            occupancy.thread[row - 1]
        };
        if !next.is_some() && !occupancy.idle[row] {
            self.unknown += u64::from(!first);
        }
        if first && !next.is_some() {
            return None;
        }
        let (prev_comm, prev_pid) = self.comm(prev);
        let (next_comm, next_pid) = self.comm(next);
        Some(FtraceEvent {
            timestamp: Some(packets.stamp(time)),
            pid: Some(prev_pid as u32),
            common_flags: None,
            event: Some(Event::SchedSwitch(SchedSwitch {
                prev_comm: Some(prev_comm),
                prev_pid: Some(prev_pid),
                prev_prio: Some(PRIORITY),
                prev_state: Some(self.prev_state(prev, time)),
                next_comm: Some(next_comm),
                next_pid: Some(next_pid),
                next_prio: Some(PRIORITY),
            })),
        })
    }

    fn waking<W: Write>(&mut self, i: usize, packets: &mut Packets<W>) -> io::Result<()> {
        let wakeups = &self.trace.wakeups;
        let (time, cpu, wakee) = (wakeups.time[i], wakeups.cpu[i], wakeups.wakee[i]);
        if !wakee.is_some() || usize::from(cpu) >= self.cpus.len() {
            return Ok(());
        }
        let (waker, flags) = match wakeups.waker[i] {
            // An interrupt: whoever was on the CPU did not cause it.
            ThreadIx::NONE => (self.occupant(cpu), Some(IN_INTERRUPT)),
            waker => (waker, None),
        };
        let (_, waker) = self.comm(waker);
        let (comm, pid) = self.comm(wakee);
        let row = self.state_row(wakee, time);
        let target = row
            .map(|r| self.trace.states.cpu[r])
            .filter(|&c| c != u16::MAX)
            .unwrap_or(cpu);
        let waking = SchedWaking {
            comm: Some(comm),
            pid: Some(pid),
            prio: Some(PRIORITY),
            success: Some(1),
            target_cpu: Some(i32::from(target)),
        };
        let is_new = row == Some(self.trace.threads[wakee.ix()].states.start as usize)
            && self.trace.threads[wakee.ix()].alive.start == time;
        let event = if is_new {
            Event::SchedWakeupNew(waking)
        } else {
            Event::SchedWaking(waking)
        };
        let event = FtraceEvent {
            timestamp: Some(packets.stamp(time)),
            pid: Some(waker as u32),
            common_flags: flags,
            event: Some(event),
        };
        self.push(cpu, event, packets)
    }

    /// Who is on the CPU, after the switches so far.
    fn occupant(&self, cpu: u16) -> ThreadIx {
        let row = self.cpus[usize::from(cpu)].next_row.checked_sub(1);
        row.map_or(ThreadIx::NONE, |row| self.trace.occupancy.thread[row])
    }

    /// A thread that came to life while it was recorded.
    fn birth<W: Write>(&mut self, child: ThreadIx, packets: &mut Packets<W>) -> io::Result<()> {
        let trace = self.trace;
        let row = &trace.threads[child.ix()];
        let Some(state) = self.state_row(child, row.alive.start) else {
            return Ok(());
        };
        let parent = trace.states.by[state];
        let Some(maker) = trace.threads.get(parent.ix()) else {
            return Ok(());
        };
        let Some(cpu) = self.cpu_of(parent, row.alive.start) else {
            return Ok(());
        };
        self.switches_before(cpu, row.alive.start, packets)?;
        let is_thread = maker.process == row.process;
        let (comm, pid) = self.comm(child);
        let event = FtraceEvent {
            timestamp: Some(packets.stamp(row.alive.start)),
            pid: Some(maker.tid as u32),
            common_flags: None,
            event: Some(Event::TaskNewtask(TaskNewtask {
                pid: Some(pid),
                comm: Some(comm),
                clone_flags: Some(if is_thread { CLONE_THREAD } else { 0 }),
            })),
        };
        self.push(cpu, event, packets)
    }

    /// The CPU that a thread was on.
    fn cpu_of(&self, thread: ThreadIx, time: Time) -> Option<u16> {
        let rows = self.trace.threads.get(thread.ix())?.states.clone();
        let starts = &self.trace.states.start[rows.start as usize..rows.end as usize];
        let row = rows.start as usize
            + starts
                .partition_point(|&start| start <= time)
                .checked_sub(1)?;
        let cpu = self.trace.states.cpu[row];
        (usize::from(cpu) < self.cpus.len()).then_some(cpu)
    }

    fn push<W: Write>(
        &mut self,
        cpu: u16,
        event: FtraceEvent,
        packets: &mut Packets<W>,
    ) -> io::Result<()> {
        let bundle = &mut self.cpus[usize::from(cpu)].bundle;
        bundle.push(event);
        if bundle.len() >= BUNDLE_EVENTS {
            self.flush(cpu, packets)
        } else {
            Ok(())
        }
    }

    fn flush<W: Write>(&mut self, cpu: u16, packets: &mut Packets<W>) -> io::Result<()> {
        let event = std::mem::take(&mut self.cpus[usize::from(cpu)].bundle);
        if event.is_empty() {
            return Ok(());
        }
        let stream = &mut self.cpus[usize::from(cpu)];
        let lost = std::mem::take(&mut stream.is_after_loss);
        packets.bundle(FtraceEventBundle {
            cpu: Some(cpu.into()),
            event,
            lost_events: lost.then_some(true),
        })
    }

    /// Whether the thread is known to have been made by another while it was recorded.
    fn is_born(&self, thread: ThreadIx) -> bool {
        let row = &self.trace.threads[thread.ix()];
        row.alive.start > self.trace.span.start
            && self
                .state_row(thread, row.alive.start)
                .is_some_and(|state| {
                    self.trace.states.by[state].is_some()
                        && self.trace.states.state[state] == ThreadState::RunnableWoken
                })
    }

    fn comm(&self, thread: ThreadIx) -> (String, i32) {
        if thread.is_some() {
            (
                label::thread(self.trace, thread).into_owned(),
                self.trace.threads[thread.ix()].tid,
            )
        } else {
            ("swapper".into(), 0)
        }
    }

    /// The first state that the thread took at `time`.
    fn state_row(&self, thread: ThreadIx, time: Time) -> Option<usize> {
        let rows = self.trace.threads.get(thread.ix())?.states.clone();
        let starts = &self.trace.states.start[rows.start as usize..rows.end as usize];
        let at = starts.partition_point(|&start| start < time);
        (starts.get(at) == Some(&time)).then_some(rows.start as usize + at)
    }

    /// What the kernel (4.14 and later) writes into prev_state for the state taken at `time`.
    fn prev_state(&self, thread: ThreadIx, time: Time) -> i64 {
        let row = self.trace.threads.get(thread.ix());
        if row.is_some_and(|row| row.alive.end == time && time < self.trace.span.end) {
            return EXIT_DEAD;
        }
        match self
            .state_row(thread, time)
            .map(|row| self.trace.states.state[row])
        {
            Some(ThreadState::RunnablePreempted | ThreadState::RunnableWoken) => 0x100,
            Some(ThreadState::Sleeping) => 0x01,
            Some(ThreadState::DiskSleep) => 0x02,
            Some(ThreadState::Stopped) => 0x04,
            Some(ThreadState::Dead) => 0x10,
            Some(ThreadState::Idle) => 0x80,
            Some(ThreadState::Running | ThreadState::Unknown) | None => 0,
        }
    }
}
