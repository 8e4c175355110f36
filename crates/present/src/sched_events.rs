//! Scheduler events, rebuilt from the model's columns: each boundary between two rows of a CPU's occupancy
//! was one sched_switch, each wake-up one sched_waking, each migration one sched_migrate_task.
use kasuri_model::{ThreadIx, ThreadState, Time, Trace};
use std::io;

/// The model does not keep priorities; this is the kernel's number for a normal thread.
pub(crate) const PRIORITY: i32 = 120;

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SchedEvent {
    pub cpu: u16,
    pub time: Time,
    pub what: SchedWhat,
}

/// What happened. No thread: the idle thread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SchedWhat {
    Switch {
        prev: ThreadIx,
        left_as: ThreadState,
        next: ThreadIx,
        /// What the CPU did until now is not known: `prev` is not who left.
        after_gap: bool,
    },
    /// `prev` left, or was lost sight of; from now on it is not known what the CPU did.
    Gap { prev: ThreadIx },
    Waking {
        /// None: an interrupt.
        waker: ThreadIx,
        wakee: ThreadIx,
        target_cpu: u16,
        is_new: bool,
    },
    Migrate {
        thread: ThreadIx,
        from: u16,
        to: u16,
    },
}

struct CpuRows {
    next: usize,
    end: usize,
}

/// Rows of a CPU, its wake-ups and migrations in the order in which the kernel would have told them.
pub(crate) struct SchedEvents<'t> {
    trace: &'t Trace,
    cpus: Vec<CpuRows>,
}

/// Calls `each` for every event: in time order for each CPU, of different CPUs in any order.
///
/// # Errors
/// Those of `each`.
pub(crate) fn sched_events(
    trace: &Trace,
    each: &mut impl FnMut(SchedEvent) -> io::Result<()>,
) -> io::Result<()> {
    let rows = |cpu: &kasuri_model::Cpu| CpuRows {
        next: cpu.occupancy.start as usize,
        end: cpu.occupancy.end as usize,
    };
    let mut events = SchedEvents {
        trace,
        cpus: trace.cpus.iter().map(rows).collect(),
    };
    let (w, m) = (&trace.wakeups, &trace.migrations);
    let mut next_move = 0;
    for i in 0..w.time.len() {
        while next_move < m.time.len() && m.time[next_move] < w.time[i] {
            events.migration(next_move, each)?;
            next_move += 1;
        }
        // A waking and a switch with one stamp: the waking came first, it may be what the switch runs.
        events.switches_before(w.cpu[i], w.time[i], each)?;
        events.waking(i, each)?;
    }
    for i in next_move..m.time.len() {
        events.migration(i, each)?;
    }
    for cpu in 0..trace.cpus.len() as u16 {
        events.switches_before(cpu, Time::MAX, each)?;
    }
    Ok(())
}

impl SchedEvents<'_> {
    fn switches_before(
        &mut self,
        cpu: u16,
        time: Time,
        each: &mut impl FnMut(SchedEvent) -> io::Result<()>,
    ) -> io::Result<()> {
        let occupancy = &self.trace.occupancy;
        let first = match self.trace.cpus.get(usize::from(cpu)) {
            Some(cpu) => cpu.occupancy.start as usize,
            None => return Ok(()),
        };
        loop {
            let rows = &mut self.cpus[usize::from(cpu)];
            let row = rows.next;
            if row >= rows.end || occupancy.start[row] >= time {
                return Ok(());
            }
            rows.next += 1;
            let (at, next) = (occupancy.start[row], occupancy.thread[row]);
            let known = |row: usize| occupancy.thread[row].is_some() || occupancy.idle[row];
            let is_first = row == first;
            if is_first && !next.is_some() {
                continue;
            }
            let prev = match is_first {
                true => ThreadIx::NONE,
                false => occupancy.thread[row - 1],
            };
            let left_as = self.state_at(prev, at);
            let what = match known(row) {
                false => SchedWhat::Gap { prev },
                true => SchedWhat::Switch {
                    prev,
                    left_as,
                    next,
                    after_gap: is_first || !known(row - 1),
                },
            };
            each(SchedEvent {
                cpu,
                time: at,
                what,
            })?;
        }
    }

    fn waking(
        &self,
        i: usize,
        each: &mut impl FnMut(SchedEvent) -> io::Result<()>,
    ) -> io::Result<()> {
        let wakeups = &self.trace.wakeups;
        let (time, cpu, wakee) = (wakeups.time[i], wakeups.cpu[i], wakeups.wakee[i]);
        if !wakee.is_some() || usize::from(cpu) >= self.cpus.len() {
            return Ok(());
        }
        let row = self.state_row(wakee, time);
        let queue = row.map(|r| self.trace.states.cpu[r]);
        let thread = &self.trace.threads[wakee.ix()];
        let what = SchedWhat::Waking {
            waker: wakeups.waker[i],
            wakee,
            target_cpu: queue.filter(|&c| c != u16::MAX).unwrap_or(cpu),
            is_new: row == Some(thread.states.start as usize) && thread.alive.start == time,
        };
        each(SchedEvent { cpu, time, what })
    }

    fn migration(
        &mut self,
        i: usize,
        each: &mut impl FnMut(SchedEvent) -> io::Result<()>,
    ) -> io::Result<()> {
        let moves = &self.trace.migrations;
        let (time, cpu) = (moves.time[i], moves.to_cpu[i]);
        if usize::from(cpu) >= self.cpus.len() || !moves.thread[i].is_some() {
            return Ok(());
        }
        self.switches_before(cpu, time, each)?;
        let what = SchedWhat::Migrate {
            thread: moves.thread[i],
            from: moves.from_cpu[i],
            to: cpu,
        };
        each(SchedEvent { cpu, time, what })
    }

    /// The first state that the thread took at `time`.
    fn state_row(&self, thread: ThreadIx, time: Time) -> Option<usize> {
        let rows = self.trace.threads.get(thread.ix())?.states.clone();
        let starts = &self.trace.states.start[rows.start as usize..rows.end as usize];
        let at = starts.partition_point(|&start| start < time);
        (starts.get(at) == Some(&time)).then_some(rows.start as usize + at)
    }

    fn state_at(&self, thread: ThreadIx, time: Time) -> ThreadState {
        if let Some(row) = self.state_row(thread, time) {
            return self.trace.states.state[row];
        }
        // The last switch of a thread that ended is its end: no state follows.
        match self.trace.threads.get(thread.ix()) {
            Some(row) if row.alive.end <= time => ThreadState::Dead,
            _ => ThreadState::Unknown,
        }
    }
}

/// What the kernel (4.14 and later) writes into prev_state of a thread that leaves a CPU.
pub(crate) fn prev_state(left_as: ThreadState) -> i64 {
    match left_as {
        ThreadState::RunnablePreempted | ThreadState::RunnableWoken => 0x100,
        ThreadState::Sleeping => 0x01,
        ThreadState::DiskSleep => 0x02,
        ThreadState::Stopped => 0x04,
        ThreadState::Dead => 0x10,
        ThreadState::Idle => 0x80,
        ThreadState::Running | ThreadState::Unknown => 0,
    }
}
