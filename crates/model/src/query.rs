//! Rows with the end that the next row gives them.
use crate::{States, ThreadIx, ThreadState, Time, Trace};

/// One row of [`crate::States`] with its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateRow {
    /// From...
    pub start: Time,
    /// ...to.
    pub end: Time,
    /// The state.
    pub state: ThreadState,
    /// See [`crate::States::cpu`].
    pub cpu: u16,
    /// See [`crate::States::by`].
    pub by: ThreadIx,
}

impl StateRow {
    /// A row of a thread's, which go up to `end`, the last until `last`.
    #[inline]
    fn of(s: &States, row: usize, end: usize, last: Time) -> StateRow {
        StateRow {
            start: s.start[row],
            end: if row + 1 < end { s.start[row + 1] } else { last.max(s.start[row]) },
            state: s.state[row],
            cpu: s.cpu[row],
            by: s.by[row],
        }
    }
}

/// One row of [`crate::Occupancy`] with its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OccupancyRow {
    /// From...
    pub start: Time,
    /// ...to.
    pub end: Time,
    /// The thread that ran; none: idle or unknown.
    pub thread: ThreadIx,
    /// The CPU was idle.
    pub idle: bool,
}

impl Trace {
    /// A thread's states in order: no gaps, no overlaps, the last until `alive.end`.
    #[inline]
    pub fn states_of(
        &self,
        thread: ThreadIx,
    ) -> impl ExactSizeIterator<Item = StateRow> + DoubleEndedIterator + '_ {
        let (rows, last) = self.state_rows(thread);
        let (s, end) = (&self.states, rows.end);
        rows.map(move |row| StateRow::of(s, row, end, last))
    }

    /// Of these the ones that have a part of `time`, whole.
    pub fn states_in(
        &self,
        thread: ThreadIx,
        time: &std::ops::Range<Time>,
    ) -> impl Iterator<Item = StateRow> + '_ {
        let (rows, last) = self.state_rows(thread);
        let (s, end) = (&self.states, rows.end);
        let begun = s.start[rows.clone()].partition_point(|&start| start <= time.start);
        let first = rows.start + begun.saturating_sub(1);
        let n = s.start[first..end].partition_point(|&start| start < time.end);
        (first..first + n).map(move |row| StateRow::of(s, row, end, last))
    }

    /// Of these the ones in which the thread is ready to run: most of the others are not looked at.
    #[inline]
    pub fn ready_of(&self, thread: ThreadIx) -> impl Iterator<Item = StateRow> + '_ {
        let (rows, last) = self.state_rows(thread);
        let (s, end) = (&self.states, rows.end);
        rows.filter(|&row| s.state[row].is_runnable())
            .map(move |row| StateRow::of(s, row, end, last))
    }

    /// A thread's rows, and when its last one ends.
    #[inline]
    fn state_rows(&self, thread: ThreadIx) -> (std::ops::Range<usize>, Time) {
        let info = &self.threads[thread.ix()];
        let rows = info.states.start as usize..info.states.end as usize;
        (rows, info.alive.end)
    }

    /// The threads that a CPU ran, in order: no gaps, no overlaps, the last until `span.end`.
    #[inline]
    pub fn occupancy_of(&self, cpu: usize) -> impl ExactSizeIterator<Item = OccupancyRow> + '_ {
        let range = self.cpus.get(cpu).map_or(0..0, |c| c.occupancy.clone());
        let (rows, last) = (range.start as usize..range.end as usize, self.span.end);
        let o = &self.occupancy;
        let end = rows.end;
        rows.map(move |row| OccupancyRow {
            start: o.start[row],
            end: if row + 1 < end { o.start[row + 1] } else { last.max(o.start[row]) },
            thread: o.thread[row],
            idle: o.idle[row],
        })
    }

    /// The process of a thread.
    #[inline]
    pub fn process_of(&self, thread: ThreadIx) -> &crate::Process {
        &self.processes[self.threads[thread.ix()].process.ix()]
    }
}

impl Trace {
    /// In words, when the kernel hid switches.
    pub fn hidden_switches(&self) -> Option<String> {
        let placed: u64 = self.cpus.iter().map(|cpu| cpu.placed_switches).sum();
        let hidden: Vec<String> = (self.cpus.iter().enumerate())
            .filter(|(_, cpu)| cpu.hidden_switches > 0)
            .map(|(number, cpu)| format!("{} on CPU {number}", cpu.hidden_switches))
            .collect();
        (!hidden.is_empty()).then(|| {
        format!(
            "this kernel hid switches ({}): {} (a fault of some virtual machines)",
            hidden.join(", "),
            match placed {
                0 => "a thread found running there counts as running since it was woken, so its wait for the CPU is not known; \
                      `kasuri record --events run-time` records how long it ran".to_owned(),
                n => format!("when {n} of these threads came on their CPU is told by the run times that the kernel counted"),
            }
        )
    })
    }
}
