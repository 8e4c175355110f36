//! Places the runs that hidden switches began, by the kernel's own count of run time.
//!
//! Goal: each thread's time on a CPU is what the kernel counts, and lies where it was spent, even where the trace lacks the switches
//! to the thread. The rule and measured figures: docs/design/states.md, "Hidden switches".
//!
//! Method. Without run times such a run begins as early as it can have begun ([`Sched::hidden_switch`]). The kernel writes
//! sched_stat_runtime for the thread on a CPU at each tick and when the thread leaves. The sum since the thread last left a CPU is the
//! length of its run so far (`Row::ran`), so the run is moved to begin that long before the event. It never moves beyond what
//! the events allow: not before the CPU's last event that found another thread there, and not before the thread was ready.
//!
//! Rejected: the sum at a thread's exit (taskstats) or in /proc, spread over the stretches in doubt. It says how much is
//! missing and not where, and it leaves out what ran since the last tick.
use super::{CpuLog, Sched};
use crate::hidden_run::HiddenRun;
use crate::state_log::LoggedState;
use crate::table::NONE;
use crate::{ThreadState, Time};

impl Sched {
    /// The kernel counted `ns` more for the thread, up to now. The thread may not be known to be on a CPU yet: putting a thread into
    /// another CPU's queue updates the count of the thread that runs there.
    pub(super) fn run_time(&mut self, time: Time, tid: i32, ns: u32) {
        let row = self.table.find(tid);
        if row == NONE || self.table.rows[row as usize].dead {
            return;
        }
        self.run_times.are_recorded = true;
        let thread = &mut self.table.rows[row as usize];
        thread.ran = thread.ran.saturating_add(i64::from(ns));
        // The thread may have run since before the recording began.
        let counted = i64::from(ns).min((time - self.start).ns());
        thread.counted = thread.counted.saturating_add(counted);
        self.place_run(row, time);
    }

    /// Whether each thread's `Row::counted` is all that it ran.
    pub fn counts_run_time(&self) -> bool {
        self.run_times.are_recorded && !self.run_times.are_cut
    }

    /// Moves the beginning of a hidden run that lasts until `until`, or longer.
    #[inline]
    pub(super) fn place_run(&mut self, row: u32, until: Time) {
        let thread = &self.table.rows[row as usize];
        if let Some(run) = thread.hidden_run
            && thread.ran > 0
            && thread.state == ThreadState::Running
        {
            self.begin_run(row, run, Time(until.0.saturating_sub(thread.ran)));
        }
    }

    #[cold]
    fn begin_run(&mut self, row: u32, mut run: HiddenRun, begin: Time) {
        let thread = &mut self.table.rows[row as usize];
        let Some(now) = thread.states.last().copied() else {
            return;
        };
        // A wake-up of a running thread, which only damage has, may name any CPU.
        let Some(cpu_log) = self.cpus.get_mut(usize::from(now.cpu)) else {
            return;
        };
        if cpu_log.start.last() != Some(&now.start) || cpu_log.thread.last() != Some(&row) {
            return; // the two columns differ after stamps that go back
        }
        // The row before grows to the run's new beginning if it says what was before; otherwise a row is put in between.
        let thread_grows = thread.states.before_last();
        let thread_grows = thread_grows.filter(|b| b.state == run.thread_before.state);
        let cpu_grows = cpu_log.before_last().filter(|b| b.1 == run.cpu_before);
        let mut begin = begin.max(run.earliest);
        // No row lasts no time.
        for start in [thread_grows.map(|b| b.start), cpu_grows.map(|b| b.0)] {
            begin = begin.max(start.map_or(now.start, |start| Time(start.0 + 1)));
        }
        if begin != now.start {
            match thread_grows {
                Some(_) => thread.states.move_last(begin),
                None => {
                    if let Some(last) = thread.states.last_mut() {
                        let before = run.thread_before;
                        (last.state, last.by, last.cpu) = (before.state, before.by, before.cpu);
                    }
                    let running = LoggedState { start: begin, ..now };
                    self.table.state_logs.push(&mut thread.states, running);
                }
            }
            cpu_log.begin_last(begin, cpu_grows.is_some(), run.cpu_before);
        }
        if run.wakeup != NONE {
            let wakeup = run.wakeup as usize;
            self.wakes.latency[wakeup] = begin - self.wakes.time[wakeup];
        }
        cpu_log.placed += u64::from(!run.is_placed);
        run.is_placed = true;
        thread.hidden_run = Some(run);
    }
}

impl CpuLog {
    /// Start and thread of the row before the last.
    fn before_last(&self) -> Option<(Time, u32)> {
        let ix = self.start.len().checked_sub(2)?;
        Some((self.start[ix], self.thread[ix]))
    }

    /// The last row begins at `begin`; what was `before` lasts until then, the row before if it `grows`.
    fn begin_last(&mut self, begin: Time, grows: bool, before: u32) {
        if let (Some(start), Some(thread)) = (self.start.last_mut(), self.thread.last_mut()) {
            if grows {
                *start = begin;
                return;
            }
            let row = std::mem::replace(thread, before);
            self.start.push(begin);
            self.thread.push(row);
        }
    }
}
