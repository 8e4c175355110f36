//! Scheduler events -> thread states, CPU occupancy, wake-ups, migrations: one pass, in time order.
//!
//! The states, what moves a thread between them, and what is done about ties, losses and contradictions:
//! docs/design/states.md. Two facts shape the code. A `sched_waking` may reach a thread that is still on its CPU, on
//! its way to sleep; whether it then slept at all shows only later, so such a wake-up waits in `Row::pending` with
//! `early` set. And after a loss nothing may be carried over the gap.
//!
//! Handling an event computes no hash and allocates only to grow a column. Each thread has its own log of states
//! (`state_log`).
mod run_time;

use crate::hidden_run::{HiddenRun, RunTimes};
use crate::input::{Event, LockCall, Setup, What};
use crate::probe_calls::ProbeCalls;
use crate::sched_log::{Keeper, is_sight, kept};
use crate::spans::Spans;
use crate::state_log::{LoggedState, StateLog};
use crate::table::{NONE, Table};
use crate::{Duration, StrIx, Strings, ThreadState, Time};

/// The state before an event, as far as its keeper needs it.
struct Before {
    /// The event showed which thread was on its CPU.
    is_news: bool,
    /// The thread that it is about was born and neither woken nor run.
    is_fresh: bool,
}

/// The occupant of a CPU now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Current {
    /// Not known: the next event's context tells.
    Unknown,
    /// A thread that the source does not show (perf: not ours).
    Other,
    Idle,
    Thread(u32),
}

/// One CPU's occupancy so far.
#[derive(Clone, Debug)]
pub(crate) struct CpuLog {
    pub current: Current,
    pub start: Vec<Time>,
    /// Old row of the thread; [`IDLE`] or [`NONE`].
    pub thread: Vec<u32>,
    pub seen: bool,
    /// Switches that the kernel did not report, as later events show.
    pub hidden: u64,
    /// Of these, those placed by the kernel's own count of run time.
    pub placed: u64,
    /// Time of its last event.
    last: Time,
    /// Time of its last event that certainly told which thread was there.
    last_sure: Time,
}

/// In [`CpuLog::thread`]: the CPU was idle.
pub(crate) const IDLE: u32 = u32::MAX - 1;

#[derive(Debug, Default)]
pub(crate) struct WakeLog {
    pub time: Vec<Time>,
    pub waker: Vec<u32>,
    pub wakee: Vec<u32>,
    pub cpu: Vec<u16>,
    pub latency: Vec<Duration>,
    /// Rows of those with a waker that were raised in a softirq.
    pub in_softirq: Vec<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct MigrationLog {
    pub time: Vec<Time>,
    pub thread: Vec<u32>,
    pub from: Vec<u16>,
    pub to: Vec<u16>,
}

/// The pass.
pub(crate) struct Sched {
    pub table: Table,
    pub cpus: Vec<CpuLog>,
    pub wakes: WakeLog,
    pub migrations: MigrationLog,
    /// Thread, and when it replaced its program.
    pub execs: Vec<(u32, Time)>,
    pub spans: Spans,
    pub lock_calls: Vec<LockCall>,
    pub probe_calls: ProbeCalls,
    /// The events themselves, when they are to be kept.
    pub keeper: Option<Keeper>,
    pub n_events: u64,
    run_times: RunTimes,
    start: Time,
    end: Time,
    /// Time of the last event.
    now: Time,
    has_migrations: bool,
    /// An event said that a thread came on or left a CPU.
    has_switches: bool,
}

const UNKNOWN_LATENCY: Duration = Duration(-1);

impl Sched {
    pub fn new(setup: &Setup, strings: &mut Strings) -> Sched {
        let cpu = CpuLog {
            current: Current::Unknown,
            start: Vec::new(),
            thread: Vec::new(),
            seen: false,
            hidden: 0,
            placed: 0,
            last: setup.span.start,
            last_sure: setup.span.start,
        };
        Sched {
            table: Table::new(setup, strings),
            cpus: vec![cpu; setup.n_cpus],
            wakes: WakeLog::default(),
            migrations: MigrationLog::default(),
            execs: Vec::new(),
            spans: Spans::new(setup.n_cpus),
            lock_calls: Vec::new(),
            probe_calls: ProbeCalls::default(),
            keeper: (setup.keeps_events).then(|| Keeper::new(setup.n_cpus, setup.has_migrations)),
            n_events: 0,
            run_times: RunTimes::default(),
            start: setup.span.start,
            end: setup.span.end,
            now: setup.span.start,
            has_migrations: setup.has_migrations,
            has_switches: false,
        }
    }

    /// Before the first event: what the first event of a CPU says about who ran there since the recording's start.
    pub fn first_event(&mut self, cpu: u16, event: &Event) {
        if !matches!(event.what, What::Lost) {
            self.learn(cpu, self.start, event);
        }
    }

    /// The next event in time order.
    pub fn event(&mut self, cpu: u16, event: &Event) {
        let Some(cpu_log) = self.cpus.get_mut(usize::from(cpu)) else {
            return;
        };
        cpu_log.seen = true;
        self.n_events += !matches!(event.what, What::Lost | What::ProbeArg { .. }) as u64;
        // The merge goes forward; a stamp that goes back within its CPU is taken as the one before.
        let time = event.time.min(self.end).max(self.now);
        self.now = time;
        let event = &self.by_whom(event);
        let before = self.keeper.is_some().then(|| self.before(cpu, event));
        let is_unknown = self.cpus[usize::from(cpu)].current == Current::Unknown;
        let mut is_sure = true;
        if is_unknown && !matches!(event.what, What::Lost) {
            self.learn(cpu, time, event);
        } else {
            is_sure = self.check_current(cpu, time, event);
        }
        let cpu_log = &mut self.cpus[usize::from(cpu)];
        cpu_log.last = time;
        if is_sure {
            cpu_log.last_sure = time;
        }
        self.apply(cpu, time, event);
        if let (Some(keeper), Some(before)) = (&mut self.keeper, before) {
            let is_again = before.is_fresh;
            let kept = kept(&self.table, cpu, time, event, is_again);
            keeper.event(&kept, is_sight(&event.what), before.is_news);
        }
    }

    /// After the last event: what the events do not tell becomes unknown.
    pub fn finish(&mut self, setup: &Setup) {
        if setup.may_lack_switches && !self.has_switches {
            return self.forget_states();
        }
        self.stop(&setup.stops);
    }

    /// No switch was recorded: nobody knows when threads ran. Events showed that they did at moments, not from when to when.
    fn forget_states(&mut self) {
        for row in &mut self.table.rows {
            if let Some(last) = row.states.last() {
                row.end = row.end.max(last.start);
            }
            row.states = StateLog::default();
        }
        for cpu_log in &mut self.cpus {
            cpu_log.start.clear();
            cpu_log.thread.clear();
            (cpu_log.hidden, cpu_log.placed) = (0, 0);
        }
    }

    /// These CPUs' streams end before the recording does ([`Setup::stops`]). Who ran there then, or waited for one of them, may have done
    /// anything since. Who slept is taken to sleep on: most are woken by a thread on a CPU whose stream tells it.
    fn stop(&mut self, stops: &[(u16, Time)]) {
        let mut until = vec![self.end; self.cpus.len()];
        for &(cpu, complete) in stops {
            if let Some(cpu_log) = self.cpus.get(usize::from(cpu)).filter(|log| log.seen) {
                until[usize::from(cpu)] = complete.max(cpu_log.last).min(self.end);
            }
        }
        for row in 0..self.table.rows.len() as u32 {
            let thread = &self.table.rows[row as usize];
            let (cpu, state) = (thread.cpu, thread.state);
            let was_there = state == ThreadState::Running || state.is_runnable();
            if let Some(&until) = until.get(usize::from(cpu))
                && until < self.end
                && was_there
                && !thread.dead
            {
                self.forget_wakeup(row);
                self.spans.syscall_exit(&mut self.table, row, until, self.start);
                self.set(row, until, ThreadState::Unknown, cpu, NONE);
            }
        }
        for (cpu, until) in until.into_iter().enumerate() {
            if until < self.end && self.cpus[cpu].current != Current::Unknown {
                self.occupy(cpu as u16, until, Current::Unknown);
            }
        }
    }

    /// The event, with an interrupt's word that the running thread has no part in it where that is known. A softirq works for that
    /// thread, as a packet to itself does, or for a device, on top of anyone. What is waited for without interruption is the device's.
    fn by_whom(&self, event: &Event) -> Event {
        let What::Waking { tid, in_softirq: true, .. } = event.what else {
            return *event;
        };
        let row = self.table.find(tid);
        let is_device =
            row != NONE && self.table.rows[row as usize].state == ThreadState::DiskSleep;
        Event { in_interrupt: event.in_interrupt || is_device, ..*event }
    }

    /// The state before an event, as far as the events' keeper needs it.
    fn before(&self, cpu: u16, event: &Event) -> Before {
        let tid = match event.what {
            What::Waking { tid, .. } => tid,
            What::Fork { child, .. } => child,
            _ => -1,
        };
        let row = self.table.find(tid);
        let current = self.cpus[usize::from(cpu)].current;
        Before {
            is_news: current == Current::Unknown
                || self.contradicts(cpu, event).is_some()
                || !self.lives(event.context),
            is_fresh: row != NONE && self.table.rows[row as usize].fresh,
        }
    }

    fn lives(&self, tid: i32) -> bool {
        let row = self.table.find(tid);
        row != NONE && !self.table.rows[row as usize].dead
    }

    #[inline]
    fn apply(&mut self, cpu: u16, time: Time, event: &Event) {
        match event.what {
            What::Switch { prev, prev_comm, left_as, next, next_comm } => {
                self.has_switches = true;
                self.leave(cpu, time, prev, prev_comm, left_as, next);
                self.arrive(cpu, time, next, next_comm);
            }
            What::Waking { tid, comm, cpu: queue, .. } => {
                self.waking(cpu, time, event, tid, comm, queue)
            }
            What::Migrate { tid, from, to } => self.migrate(cpu, time, tid, from, to),
            What::In { tid } => {
                self.has_switches = true;
                if let Current::Thread(before) = self.cpus[usize::from(cpu)].current
                    && before != self.table.find(tid)
                {
                    self.vanish(before, cpu, time);
                }
                self.arrive(cpu, time, tid, StrIx::NONE);
            }
            What::Out { tid, left_as } => {
                self.has_switches = true;
                self.leave(cpu, time, tid, StrIx::NONE, left_as, -1);
                self.occupy(cpu, time, Current::Other);
            }
            What::Fork { parent, child, comm, pid, same_process } => {
                let parent = if parent < 0 { event.context } else { parent };
                self.fork(cpu, time, parent, child, comm, pid, same_process);
            }
            What::Exec { tid, old_tid } => self.exec(cpu, time, tid, old_tid),
            What::Exit { tid, at_once } => self.exit(cpu, time, tid, at_once),
            What::Rename { tid, comm } => {
                self.table.get_named(tid, comm, time);
            }
            What::RunTime { tid, ns } => self.run_time(time, tid, ns),
            What::Lost => self.lost(cpu, time),
            _ => self.in_kernel(cpu, time, event),
        }
    }

    /// Events that move no thread.
    fn in_kernel(&mut self, cpu: u16, time: Time, event: &Event) {
        match event.what {
            What::SyscallEntry { name } => {
                let row = self.table.get(event.context, time);
                self.spans.syscall_entry(&mut self.table, row, cpu, time, name);
            }
            What::SyscallExit => {
                let row = self.table.get(event.context, time);
                self.spans.syscall_exit(&mut self.table, row, time, self.start);
            }
            What::LockBegin { name } if !event.in_interrupt => {
                let row = self.table.get(event.context, time);
                self.spans.lock_begin(&mut self.table, row, cpu, time, name);
            }
            What::LockEnd if !event.in_interrupt => {
                let row = self.table.get(event.context, time);
                self.spans.lock_end(&mut self.table, row, time);
            }
            What::LockBegin { .. } | What::LockEnd => {}
            What::Probe { side, pair, name, probe } => {
                let thread = self.table.get(event.context, time);
                if thread != NONE {
                    let names = [name, probe];
                    self.probe_calls.push((thread, time), side, pair, names);
                }
            }
            What::ProbeArg { kind, name, value } => {
                let thread = self.table.get(event.context, time);
                self.probe_calls.push_arg(thread, (kind, name, value));
            }
            What::LockCall { step, function, object, name } => {
                // The idle thread calls no function: only damage says so.
                let thread = self.table.get(event.context, time);
                if thread != NONE {
                    self.lock_calls.push(LockCall { thread, time, step, function, object, name });
                }
            }
            What::IrqEntry { .. }
            | What::IrqExit
            | What::SoftirqEntry { .. }
            | What::SoftirqExit => {
                let thread = match self.cpus[usize::from(cpu)].current {
                    Current::Thread(row) => row,
                    _ => NONE,
                };
                self.spans.interrupt(cpu, time, thread, &event.what);
            }
            // The scheduler's own.
            _ => {}
        }
    }

    /// The CPU's current thread is not known and an event tells it: it has been on since `since`.
    #[cold]
    fn learn(&mut self, cpu: u16, since: Time, event: &Event) {
        let tid = match event.what {
            What::Switch { prev, .. } => prev,
            What::Out { tid, .. } => tid,
            _ => event.context,
        };
        if tid == 0 {
            self.occupy(cpu, since, Current::Idle);
        } else if tid > 0 {
            let row = self.table.get(tid, since);
            self.forget_wakeup(row);
            self.table.rows[row as usize].forget_run();
            self.set(row, since, ThreadState::Running, cpu, NONE);
            self.occupy(cpu, since, Current::Thread(row));
        }
    }

    /// Each tracefs event names who was on the CPU. Some kernels hide switches (seen: all those from idle on one CPU of
    /// a virtual machine), so that may be another thread than the one last switched in.
    /// Returns whether the event certainly tells which thread is there.
    #[inline]
    fn check_current(&mut self, cpu: u16, time: Time, event: &Event) -> bool {
        let Some(tid) = self.contradicts(cpu, event) else {
            return true;
        };
        let is_sure = match event.what {
            What::Switch { .. } => true,
            // The kernel writes the run time of a thread that leaves before the switch.
            What::RunTime { tid: counted, .. } if counted == tid => true,
            _ => !self.has_just_left(cpu, tid),
        };
        if is_sure {
            self.hidden_switch(cpu, time, tid);
        }
        is_sure
    }

    /// Whether the CPU's last event was the switch away from the thread. The kernel reports a switch shortly before it makes it: an
    /// event in between still names the thread that left.
    fn has_just_left(&self, cpu: u16, tid: i32) -> bool {
        let row = self.table.find(tid);
        if row == NONE {
            return false;
        }
        let thread = &self.table.rows[row as usize];
        let since = thread.states.last().map_or(self.start, |last| last.start);
        !matches!(thread.state, ThreadState::Running | ThreadState::RunnableWoken)
            && since == self.cpus[usize::from(cpu)].last
    }

    /// The thread that an event finds on the CPU, if it is another than the one assumed to be there.
    #[inline]
    fn contradicts(&self, cpu: u16, event: &Event) -> Option<i32> {
        let tid = match event.what {
            What::Switch { prev, .. } => prev,
            What::In { .. } | What::Out { .. } | What::Exec { .. } | What::Lost => return None,
            _ => event.context,
        };
        let agrees = match self.cpus[usize::from(cpu)].current {
            Current::Idle => tid == 0,
            Current::Thread(row) => tid > 0 && self.table.find(tid) == row,
            Current::Unknown | Current::Other => true,
        };
        (tid >= 0 && !agrees).then_some(tid)
    }

    /// `tid` is on the CPU and was not switched in. Between the CPU's last event and now the thread before it left,
    /// at an unknown time. A thread that was ready has run since it was woken or preempted, as far
    /// as can be known: it was wanted here, and this CPU reported no other thread.
    #[cold]
    fn hidden_switch(&mut self, cpu: u16, time: Time, tid: i32) {
        let row = if tid == 0 { NONE } else { self.table.find(tid) };
        if tid > 0 && (row == NONE || self.table.rows[row as usize].dead) {
            return;
        }
        let cpu_log = &mut self.cpus[usize::from(cpu)];
        let (before, last) = (cpu_log.current, cpu_log.last);
        let thread = (row != NONE).then(|| &self.table.rows[row as usize]);
        let state = thread.map(|t| (t.state, t.states.last().map_or(self.start, |l| l.start)));
        if matches!(state, Some((ThreadState::Running, _))) {
            return; // on another CPU: that stands
        }
        cpu_log.hidden += 1;
        // Without run times nothing will say when the run began: then the last event of any kind is as good.
        let last_sure = match self.run_times.are_recorded {
            true => cpu_log.last_sure,
            false => last,
        };
        if let Current::Thread(before) = before {
            self.vanish(before, cpu, last);
            self.occupy(cpu, last, Current::Unknown);
        }
        let Some((state, since)) = state else {
            return self.occupy(cpu, time, Current::Idle);
        };
        // Woken while it was still leaving (`early`): it never slept.
        let wakeup = self.table.rows[row as usize].pending;
        let is_ready = state.is_runnable() || wakeup != NONE;
        let thread_before = self.before_hidden_run(row, is_ready, wakeup, cpu);
        self.forget_wakeup(row);
        // Taken off before, and yet the CPU went idle: a CPU limit held it back, until an unknown time.
        let was_held =
            state == ThreadState::RunnablePreempted && before == Current::Idle && since <= last;
        let came = if was_held {
            time
        } else if is_ready {
            since.max(last)
        } else {
            if state != ThreadState::Unknown {
                self.set(row, last_sure, ThreadState::Unknown, cpu, NONE);
            }
            self.occupy(cpu, last_sure, Current::Unknown);
            time
        };
        self.set(row, came, ThreadState::Running, cpu, NONE);
        self.occupy(cpu, came, Current::Thread(row));
        let earliest = if is_ready { since.max(last_sure) } else { last_sure };
        let run = HiddenRun {
            thread_before,
            cpu_before: match before {
                Current::Idle if is_ready => IDLE,
                _ => NONE,
            },
            earliest,
            wakeup: if state.is_runnable() { wakeup } else { NONE },
            is_placed: false,
        };
        self.table.rows[row as usize].hidden_run = Some(run);
    }

    /// The state before a run on `cpu` that a hidden switch began.
    fn before_hidden_run(&self, row: u32, is_ready: bool, wakeup: u32, cpu: u16) -> LoggedState {
        let last = self.table.rows[row as usize].states.last();
        if let Some(last) = last.filter(|last| last.state.is_runnable()) {
            return *last;
        }
        let waker = self.wakes.waker.get(wakeup as usize);
        LoggedState {
            start: self.start,
            by: waker.copied().unwrap_or(NONE),
            cpu,
            state: match is_ready {
                true => ThreadState::RunnableWoken,
                false => ThreadState::Unknown,
            },
        }
    }

    /// `tid` left the CPU; `next` came (0: idle, negative: not known).
    #[inline]
    fn leave(
        &mut self,
        cpu: u16,
        time: Time,
        tid: i32,
        comm: StrIx,
        left_as: ThreadState,
        next: i32,
    ) {
        let row = self.table.get_named(tid, comm, time);
        if let Current::Thread(before) = self.cpus[usize::from(cpu)].current
            && before != row
        {
            self.vanish(before, cpu, time);
        }
        if row == NONE {
            return;
        }
        let thread = &mut self.table.rows[row as usize];
        thread.switches_out += 1;
        thread.preemptions += (left_as == ThreadState::RunnablePreempted) as u32;
        if thread.state == ThreadState::Running && thread.cpu != cpu {
            // It is on another CPU already (equal stamps, or its coming here was not seen): that stands.
            return;
        }
        if thread.hidden_run.is_some() {
            self.place_run(row, time);
        }
        let thread = &mut self.table.rows[row as usize];
        thread.forget_run();
        match left_as {
            ThreadState::Dead => {
                self.forget_wakeup(row);
                self.table.end(row, time);
                self.table.rows[row as usize].zombie = true;
            }
            ThreadState::RunnablePreempted => {
                // Woken before it slept, and now it need not sleep any more: that wake-up has done its work.
                thread.pending = NONE;
                thread.early = false;
                let by = self.table.get(next, time);
                self.set(row, time, left_as, cpu, by);
            }
            _ => self.set(row, time, left_as, cpu, NONE),
        }
    }

    /// `tid` came on the CPU; 0: the idle thread.
    #[inline]
    fn arrive(&mut self, cpu: u16, time: Time, tid: i32, comm: StrIx) {
        if tid == 0 {
            return self.occupy(cpu, time, Current::Idle);
        }
        let row = self.table.get_named(tid, comm, time);
        if row == NONE {
            return self.occupy(cpu, time, Current::Other);
        }
        let thread = &mut self.table.rows[row as usize];
        thread.switches_in += 1;
        thread.fresh = false;
        thread.forget_run();
        if thread.pending != NONE {
            self.woken_runs(row, time);
        }
        let thread = &self.table.rows[row as usize];
        if !self.has_migrations && thread.cpu != cpu && thread.cpu != u16::MAX {
            let from = thread.cpu;
            self.push_migration(time, row, from, cpu);
        }
        self.set(row, time, ThreadState::Running, cpu, NONE);
        self.occupy(cpu, time, Current::Thread(row));
    }

    /// The wake-up that `row` waits for has led to running.
    #[inline]
    fn woken_runs(&mut self, row: u32, time: Time) {
        let thread = &mut self.table.rows[row as usize];
        let wake = thread.pending as usize;
        self.wakes.latency[wake] = time - self.wakes.time[wake];
        if thread.early {
            // It was woken while leaving and no later wake-up came: it never slept, it waited for a CPU.
            if let Some(last) = thread.states.last_mut().filter(|last| last.state.is_blocked()) {
                last.state = ThreadState::RunnableWoken;
                last.by = self.wakes.waker[wake];
            }
        }
        thread.pending = NONE;
        thread.early = false;
    }

    fn waking(&mut self, cpu: u16, time: Time, event: &Event, tid: i32, comm: StrIx, queue: i32) {
        let row = self.table.get_named(tid, comm, time);
        if row == NONE {
            return;
        }
        let waker = if event.in_interrupt || event.context <= 0 {
            NONE
        } else {
            self.table.get(event.context, time)
        };
        let wake = self.wakes.time.len() as u32;
        if waker != NONE
            && let What::Waking { in_softirq: true, .. } = event.what
        {
            self.wakes.in_softirq.push(wake);
        }
        let running = self.table.rows[row as usize].state == ThreadState::Running;
        self.wakes.time.push(time);
        self.wakes.waker.push(waker);
        self.wakes.wakee.push(row);
        self.wakes.cpu.push(cpu);
        self.wakes.latency.push(if running { Duration::ZERO } else { UNKNOWN_LATENCY });
        let thread = &mut self.table.rows[row as usize];
        thread.pending = wake;
        thread.early = running;
        thread.woken_on = cpu;
        if thread.fresh
            && queue >= 0
            && let Some(last) = thread.states.last_mut()
        {
            // A new thread's CPU is chosen between its making and its first wake-up.
            thread.cpu = queue as u16;
            last.cpu = queue as u16;
        }
        thread.fresh = false;
        let queue = if queue < 0 { thread.cpu } else { queue as u16 };
        if thread.state.is_blocked() || thread.state == ThreadState::Unknown {
            self.set(row, time, ThreadState::RunnableWoken, queue, waker);
        }
    }

    fn migrate(&mut self, cpu: u16, time: Time, tid: i32, from: u16, to: u16) {
        let row = self.table.get(tid, time);
        if row == NONE {
            return;
        }
        self.push_migration(time, row, from, to);
        let thread = &mut self.table.rows[row as usize];
        let state = thread.state;
        match thread.states.last_mut() {
            Some(last) if state == ThreadState::RunnableWoken && thread.woken_on == cpu => {
                // The waker looks for a CPU after sched_waking: that is where the thread was woken to, not a second wait.
                thread.woken_on = u16::MAX;
                thread.cpu = to;
                last.cpu = to;
            }
            Some(last) if state.is_runnable() => {
                let by = last.by;
                self.set(row, time, state, to, by);
            }
            _ => {}
        }
    }

    fn push_migration(&mut self, time: Time, row: u32, from: u16, to: u16) {
        self.migrations.time.push(time);
        self.migrations.thread.push(row);
        self.migrations.from.push(from);
        self.migrations.to.push(to);
    }

    #[allow(clippy::too_many_arguments)]
    fn fork(
        &mut self,
        cpu: u16,
        time: Time,
        parent: i32,
        child: i32,
        comm: StrIx,
        pid: Option<i32>,
        same: Option<bool>,
    ) {
        if child <= 0 {
            return;
        }
        let parent = self.table.get(parent, time);
        let known = self.table.find(child);
        let is_same = |row: u32| row != NONE && self.table.rows[row as usize].fresh;
        if is_same(known) {
            // The second event about one birth (task_newtask, then sched_process_fork).
            return;
        }
        let parents_process =
            if parent == NONE { NONE } else { self.table.rows[parent as usize].process };
        let process = match (pid, same) {
            (_, Some(true)) if parents_process != NONE => Some(parents_process),
            (Some(pid), _) if pid != child => Some(self.table.process_of(pid, 0, parents_process)),
            (Some(_), _) | (None, Some(_)) => {
                Some(self.table.add_process(child, 0, parents_process))
            }
            (None, None) => None,
        };
        let row = if self.was_presumed(known) {
            self.retract(known);
            self.table.begin_anew(known, time, process);
            known
        } else {
            self.table.add(child, time, process, parents_process)
        };
        let name = if !comm.is_some() && parent != NONE {
            self.table.rows[parent as usize].name
        } else {
            comm
        };
        let thread = &mut self.table.rows[row as usize];
        thread.name = name;
        thread.fresh = true;
        self.set(row, time, ThreadState::RunnableWoken, cpu, parent);
    }

    /// A thread that lives cannot be born. It was presumed to be on its CPU since the recording's start because that CPU's
    /// first event finds it there; in truth it came later, by a hidden switch.
    fn was_presumed(&self, row: u32) -> bool {
        row != NONE && {
            let thread = &self.table.rows[row as usize];
            !thread.dead && thread.switches_in == 0 && thread.switches_out == 0
        }
    }

    fn retract(&mut self, row: u32) {
        for cpu_log in &mut self.cpus {
            if cpu_log.current == Current::Thread(row) {
                cpu_log.current = Current::Unknown;
                if let Some(thread) = cpu_log.thread.last_mut() {
                    *thread = NONE;
                }
            }
        }
    }

    /// Only a thread other than the main one changes its id by exec: it takes over the main thread's.
    fn exec(&mut self, cpu: u16, time: Time, tid: i32, old_tid: i32) {
        if tid == old_tid || tid <= 0 || old_tid <= 0 {
            let row = self.table.find(tid);
            self.push_exec(row, time);
            return;
        }
        let old = self.table.get(old_tid, time);
        self.table.end(old, time);
        let process = self.table.rows[old as usize].process;
        let row = match self.table.find(tid) {
            row if row != NONE && !self.table.rows[row as usize].dead => row,
            _ => self.table.add(tid, time, Some(process), NONE),
        };
        self.forget_wakeup(row);
        self.table.rows[row as usize].forget_run();
        self.set(row, time, ThreadState::Running, cpu, NONE);
        self.occupy(cpu, time, Current::Thread(row));
        self.push_exec(row, time);
    }

    fn push_exec(&mut self, row: u32, time: Time) {
        if row != NONE {
            self.execs.push((row, time));
        }
    }

    fn exit(&mut self, cpu: u16, time: Time, tid: i32, at_once: bool) {
        // With tracefs the thread still runs to its last switch, which says that it is dead.
        let row = self.table.find(tid);
        if !at_once || row == NONE || self.table.rows[row as usize].dead {
            return;
        }
        self.table.end(row, time);
        if self.cpus[usize::from(cpu)].current == Current::Thread(row) {
            self.occupy(cpu, time, Current::Other);
        }
    }

    /// Events of this CPU are missing from here on. Threads last seen here may have done anything since.
    fn lost(&mut self, cpu: u16, time: Time) {
        self.run_times.are_cut = true;
        for row in 0..self.table.rows.len() as u32 {
            let thread = &mut self.table.rows[row as usize];
            // This CPU's events may have told of the run time of a thread on another.
            thread.lose_run();
            if thread.cpu == cpu && !thread.dead && thread.state != ThreadState::Unknown {
                self.forget_wakeup(row);
                self.set(row, time, ThreadState::Unknown, cpu, NONE);
            }
        }
        self.spans.lost(cpu);
        self.occupy(cpu, time, Current::Unknown);
    }

    /// `row` was thought to be on the CPU, and an event says that another was.
    #[cold]
    fn vanish(&mut self, row: u32, cpu: u16, time: Time) {
        let thread = &self.table.rows[row as usize];
        if thread.state == ThreadState::Running && thread.cpu == cpu && !thread.dead {
            self.forget_wakeup(row);
            self.table.rows[row as usize].forget_run();
            self.set(row, time, ThreadState::Unknown, cpu, NONE);
        }
    }

    fn forget_wakeup(&mut self, row: u32) {
        let thread = &mut self.table.rows[row as usize];
        thread.pending = NONE;
        thread.early = false;
    }

    /// The thread's state from `time` on. A state that lasted no time is replaced.
    #[inline]
    fn set(&mut self, row: u32, time: Time, state: ThreadState, cpu: u16, by: u32) {
        let thread = &self.table.rows[row as usize];
        let before = match thread.states.len() {
            0 => (self.table).state_before(thread.tid, thread.start, time),
            _ => ThreadState::Unknown,
        };
        let state_logs = &mut self.table.state_logs;
        let thread = &mut self.table.rows[row as usize];
        thread.state = state;
        thread.cpu = cpu;
        let mut time = time;
        match thread.states.last_mut() {
            None => {
                time = time.max(thread.start);
                if time > thread.start && state != before {
                    let row =
                        LoggedState { start: thread.start, by: NONE, cpu: u16::MAX, state: before };
                    state_logs.push(&mut thread.states, row);
                }
            }
            Some(last) => {
                // Stamps that go back (damage, or a clock that is not the same on all CPUs) must not break the order.
                time = time.max(last.start);
                if last.start == time {
                    (last.state, last.cpu, last.by) = (state, cpu, by);
                    return;
                }
            }
        }
        let row = LoggedState { start: time, by, cpu, state };
        state_logs.push(&mut thread.states, row);
    }

    /// Notes the occupant of the CPU from `time` on.
    #[inline]
    fn occupy(&mut self, cpu: u16, time: Time, current: Current) {
        let cpu_log = &mut self.cpus[usize::from(cpu)];
        cpu_log.current = current;
        let thread = match current {
            Current::Thread(row) => row,
            Current::Idle => IDLE,
            Current::Unknown | Current::Other => NONE,
        };
        match cpu_log.start.last().copied() {
            None if time > self.start => {
                cpu_log.start.push(self.start);
                cpu_log.thread.push(NONE);
            }
            Some(last) if last >= time => {
                if let Some(slot) = cpu_log.thread.last_mut() {
                    *slot = thread;
                }
                return;
            }
            _ => {}
        }
        cpu_log.start.push(time);
        cpu_log.thread.push(thread);
    }
}
