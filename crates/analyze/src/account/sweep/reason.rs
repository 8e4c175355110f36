//! The reason for which a CPU does no useful work now.
//!
//! It follows a wait from thread to thread. A blocked thread waits for the thread that will end its wait, which its
//! annotation or the wake-up at its end tells ([`Sweep::reason_of_wait`]); that one runs, is ready, or is blocked itself, and then the
//! question is asked of it, at most [`MAX_CHAIN`] times. The recording is complete, so the end of a wait is looked up in the
//! thread's later states. A wait that no thread of the program ends is I/O or an external wait.
use super::crowd::Activity;
use super::{MAX_CHAIN, Occupant, Reason, Sweep, Wake, is_dock_name, is_runtime_name};
use crate::account::class::{Class, Note};
use crate::account::track::NONE;
use crate::wakers::{self, DYING_NS, End};
use kasuri_model::{SliceKind, ThreadIx, ThreadState, Time, open};

impl Sweep<'_> {
    /// The end of a blocked thread's wait: of an annotated wait that checks its condition by the clock, the end of
    /// the whole of it.
    pub(super) fn wake_up(&self, thread: usize) -> Wake {
        match self.next_wake_up(thread) {
            limit @ (Wake::Interrupt | Wake::Unknown) => self.end_of_wait(thread).unwrap_or(limit),
            known => known,
        }
    }

    /// The last wake-up inside the annotated wait that the thread is in, if it was not an interrupt's.
    fn end_of_wait(&self, thread: usize) -> Option<Wake> {
        let worker = &self.workers[thread];
        let slices = &self.trace.slices;
        let wait = worker.wait as usize;
        if worker.wait == NONE || slices.open[wait] & open::END_UNSEEN != 0 {
            return None;
        }
        let states = &self.trace.states;
        let rows = worker.row as usize + 1..worker.end as usize;
        let inside = states.start[rows.clone()].partition_point(|&t| t <= slices.end[wait]);
        let mut rows = rows.start..rows.start + inside;
        let sleeps = |row: usize| {
            let state = states.state[row];
            state != ThreadState::Running && !state.is_runnable()
        };
        let last = rows.rfind(|&row| !sleeps(row) && sleeps(row - 1))?;
        Some(self.wake_at(thread, last))
    }

    /// The end of a blocked thread's current state, or of the whole wait that its limit cut into several.
    fn next_wake_up(&self, thread: usize) -> Wake {
        let worker = &self.workers[thread];
        let next = self.sampled.rearmed.whole(worker.row as usize).end;
        let is_killed = self.sampled.killed.has(next - 1);
        match next >= worker.end as usize || is_killed {
            true => Wake::Never,
            false => self.wake_at(thread, next),
        }
    }

    /// The waker that brought the thread into the state of this row.
    fn wake_at(&self, thread: usize, row: usize) -> Wake {
        match wakers::end(self.trace, ThreadIx(thread as u32), row) {
            End::Thread(by) if self.is_target[by.ix()] => {
                Wake::Own(by, self.trace.states.start[row])
            }
            End::Thread(by) if self.trace.is_recorder(self.trace.threads[by.ix()].process) => {
                Wake::Recorder
            }
            End::Thread(by) => Wake::Process(by),
            End::Device => Wake::Device,
            End::Interrupt => Wake::Interrupt,
            End::Unknown => Wake::Unknown,
        }
    }

    /// Whether the waker woke by ending.
    fn is_dying(&self, waker: ThreadIx, time: Time) -> bool {
        let end = self.trace.threads[waker.ix()].alive.end;
        end < self.trace.span.end && (end - time).ns() < DYING_NS
    }

    pub(super) fn is_child_end(&self, thread: usize, waker: ThreadIx) -> bool {
        let next = self.sampled.rearmed.whole(self.workers[thread].row as usize).end;
        self.trace.threads[waker.ix()].process != self.trace.threads[thread].process
            && self.is_dying(waker, self.trace.states.start[next])
    }

    pub(super) fn interference(&self, thread: ThreadIx) -> Reason {
        let mut reason = Reason::of(Class::Interference, Note::None);
        if thread.is_some() {
            let process = self.trace.threads[thread.ix()].process;
            reason.cause.process = process;
            reason.cause.name = self.trace.processes[process.ix()].name;
            if self.on_stretch.is_some() {
                reason.instead = thread;
            }
        }
        reason
    }

    /// No thread waits: there are fewer threads than CPUs.
    pub(super) fn no_thread(&self, now: Time) -> Reason {
        let none_ran = Reason::of(Class::LowParallelism, Note::NoneRan);
        match (self.crowd.runnable(), self.crowd.alive) {
            (_, 0) if self.crowd.has_lived => Reason::of(Class::LowParallelism, Note::Ended),
            (_, 0) => Reason::of(Class::LowParallelism, Note::NotStarted),
            (0, _) if self.waiting.len() == 0 && self.crowd.spinning == 0 => {
                Reason::of(Class::Unknown, Note::Lost)
            }
            (0, _) if self.crowd.spinning == 0 => none_ran,
            (1, _) if self.crowd.spinning == 0 && self.has_no_cpu(self.crowd.alone(), now) => {
                self.late_in_phase(self.crowd.alone(), now).unwrap_or(none_ran)
            }
            (1, _) => self.serial(now),
            _ => Reason::of(Class::LowParallelism, Note::FewThreads),
        }
    }

    /// Whether the thread is ready, and nothing but its own CPU limit would let it run.
    fn has_no_cpu(&self, thread: ThreadIx, now: Time) -> bool {
        let worker = &self.workers[thread.ix()];
        worker.activity == Activity::Ready && self.throttled.at(worker.cpu, now).is_none()
    }

    /// Only one thread has anything to run: others ran the same, or it works alone.
    fn serial(&self, now: Time) -> Reason {
        let thread = self.crowd.alone();
        if let Some(late) = self.late_in_phase(thread, now) {
            return late;
        }
        let mut reason = Reason::of(Class::LowParallelism, Note::SerialPhase);
        reason.cause.thread = thread;
        reason.runner = thread;
        reason
    }

    /// The thread is late in a phase that it shares with others, as samples tell.
    fn late_in_phase(&self, thread: ThreadIx, now: Time) -> Option<Reason> {
        let phase = self.sampled.phases.at(thread, now).0?;
        let mut reason = Reason::of(Class::LoadImbalance, Note::BySamples);
        reason.cause.phase = phase;
        (reason.cause.thread, reason.runner) = (thread, thread);
        Some(reason)
    }

    /// The reason for which a thread is blocked now.
    pub(super) fn reason_of_wait(&self, thread: usize, now: Time) -> Reason {
        let mut last = thread;
        let mut reason = self.follow(&mut last, now);
        if self.on_stretch.is_some() {
            let waiter = match reason.cause.class {
                // These are waits of the last thread of the chain; what others do is a reason to wait for the first.
                Class::LockWait | Class::IoWait | Class::ExternalWait => last,
                _ => thread,
            };
            reason.waiter = ThreadIx(waiter as u32);
            reason.head = ThreadIx(thread as u32);
        }
        reason
    }

    /// Follows the wait of `at` from thread to thread; `at` becomes the last one.
    fn follow(&self, at: &mut usize, now: Time) -> Reason {
        let s = &self.trace.slices;
        let mut context: Option<(SliceKind, u32)> = None;
        for _ in 0..MAX_CHAIN {
            let worker = &self.workers[*at];
            match worker.activity {
                Activity::Running | Activity::Spinning => {
                    return self.reason_while_running(context, ThreadIx(*at as u32), now);
                }
                Activity::Ready if self.throttled.at(worker.cpu, now).is_some() => {
                    // Its own queue's CPU bears what the limit takes, as far as the kernel counted it; who waits for
                    // it waits as for one that runs, only longer.
                    return self.reason_while_running(context, ThreadIx(*at as u32), now);
                }
                Activity::Ready => {
                    return match context {
                        // The cost of its delays is charged at the end of the wait, once.
                        Some((SliceKind::Barrier, row)) if self.is_late(row, *at) => {
                            self.reason_while_running(context, ThreadIx(*at as u32), now)
                        }
                        _ => self.reason_while_ready(*at, worker.cpu),
                    };
                }
                Activity::Unknown => return Reason::of(Class::Unknown, Note::Lost),
                Activity::NotAlive => {
                    // It is born later, by a thread that we wait for until then.
                    let first = self.trace.threads[*at].states.start as usize;
                    let maker = self.trace.states.by.get(first).copied();
                    match maker.filter(|m| m.is_some() && self.is_target[m.ix()]) {
                        Some(maker) if self.workers[*at].row as usize == first => *at = maker.ix(),
                        _ => return self.no_thread(now),
                    }
                    continue;
                }
                Activity::Blocked => {}
            }
            let state = self.trace.states.state[worker.row as usize];
            let of_place = self.sampled.class(worker.place);
            let kind = s.kind.get(worker.wait as usize).copied();
            match kind {
                Some(SliceKind::LockWait) => return self.named(Class::LockWait, worker.wait),
                Some(SliceKind::Io) => return self.named(Class::IoWait, worker.wait),
                _ if of_place == Some(Class::LockWait) => {
                    return self.sampled_wait(Note::BySamples, worker.place);
                }
                Some(kind) => context = context.or(Some((kind, worker.wait))),
                None if of_place == Some(Class::LoadImbalance) => {
                    context = context.or(Some((SliceKind::Barrier, NONE)));
                }
                None if state == ThreadState::Stopped => {
                    return Reason::of(Class::ExternalWait, Note::Stopped);
                }
                None => {}
            }
            // The last arrival is better known than the thread that releases: at some barriers the threads release each other in turns.
            if let Some(late) = self.late(worker.wait, *at, now) {
                *at = late;
                continue;
            }
            match self.wake_up(*at) {
                Wake::Own(waker, time) => {
                    if context.is_none() && self.is_dying(waker, time) {
                        let process = |thread: usize| self.trace.threads[thread].process;
                        match process(waker.ix()) == process(*at) {
                            true => context = Some((SliceKind::Join, NONE)),
                            false if self.crowd.runnable() + self.crowd.spinning > 0 => {
                                return self.no_thread(now);
                            }
                            // What the child waits for is what its parent waits for.
                            false => {}
                        }
                    }
                    *at = waker.ix();
                }
                end => return self.not_by_own(*at, context, &end, now),
            }
        }
        Reason::of(Class::WaitingForOwnThreads, Note::Endless)
    }

    /// No thread of the program ends this wait.
    fn not_by_own(
        &self,
        thread: usize,
        context: Option<(SliceKind, u32)>,
        end: &Wake,
        now: Time,
    ) -> Reason {
        let worker = &self.workers[thread];
        let n_runnable = self.crowd.runnable();
        match end {
            Wake::Never if n_runnable + self.crowd.spinning > 0 => self.no_thread(now),
            Wake::Device if worker.wait == NONE => Reason::of(Class::IoWait, Note::None),
            Wake::Unknown
                if worker.wait == NONE
                    && self.trace.states.state[worker.row as usize] == ThreadState::DiskSleep =>
            {
                Reason::of(Class::Unknown, Note::Uninterruptible)
            }
            // It tries again and again until something is so: while others run, that is for them.
            Wake::Interrupt
                if n_runnable > 0 && self.sampled.polls.is_part(worker.row as usize) =>
            {
                match n_runnable {
                    1 => self.serial(now),
                    _ => self.polling(worker.place),
                }
            }
            // Who has nothing to do looks again and again: nobody waits for that while others run.
            Wake::Interrupt
                if n_runnable > 0
                    && self.sampled.class(worker.place) == Some(Class::LowParallelism) =>
            {
                self.no_thread(now)
            }
            // It sleeps as long as it chose, whoever waits for it: no device ended that.
            Wake::Interrupt if self.sampled.class(worker.place) == Some(Class::ExternalWait) => {
                self.sampled_wait(Note::Chosen, worker.place)
            }
            end => self.reason_outside(context, end),
        }
    }

    /// It tries again and again at this place, while several threads run.
    fn polling(&self, place: u32) -> Reason {
        let mut reason = Reason::of(Class::WaitingForOwnThreads, Note::Polled);
        if let Some(place) = self.sampled.places.get(place as usize) {
            reason.cause.name = place.name;
        }
        reason
    }

    /// The wait at this row of [`crate::call_paths::Sampled::places`].
    fn sampled_wait(&self, note: Note, place: u32) -> Reason {
        let place = self.sampled.places[place as usize];
        let mut reason = Reason::of(place.class, note);
        (reason.cause.name, reason.cause.code) = (place.name, place.code);
        reason
    }

    /// The last thread of this use of a barrier, as long as it has not come.
    fn late(&self, wait: u32, thread: usize, now: Time) -> Option<usize> {
        if wait == NONE || self.trace.slices.kind[wait as usize] != SliceKind::Barrier {
            return None;
        }
        let at = self.barriers.binary_search_by_key(&wait, |b| b.row).ok()?;
        let wait = &self.barriers[at];
        let is_awaited = wait.late.is_some() && wait.late.ix() != thread && now < wait.arrival;
        is_awaited.then_some(wait.late.ix())
    }

    fn is_late(&self, row: u32, thread: usize) -> bool {
        let at = self.barriers.binary_search_by_key(&row, |b| b.row);
        at.is_ok_and(|at| self.barriers[at].late.ix() == thread)
    }

    fn reason_outside(&self, context: Option<(SliceKind, u32)>, end: &Wake) -> Reason {
        let mut reason = match context {
            Some((kind @ (SliceKind::Barrier | SliceKind::Join), row)) if row != NONE => {
                let mut reason = self.named(Class::LoadImbalance, row);
                if kind == SliceKind::Barrier {
                    self.at_barrier(&mut reason, row);
                }
                reason
            }
            Some((_, row)) if row != NONE && !self.is_idle_worker(row) => {
                self.named(Class::ExternalWait, row)
            }
            Some((_, row)) if row != NONE => Reason::of(Class::LowParallelism, Note::IdleWorker),
            _ => Reason::of(Class::ExternalWait, Note::None),
        };
        match *end {
            // Without the recording there would be no such wait.
            Wake::Recorder => reason = Reason::of(Class::Tracing, Note::None),
            Wake::Process(by) => {
                let process = self.trace.threads[by.ix()].process;
                (reason.cause.note, reason.cause.process) = (Note::Process, process);
            }
            Wake::Never => reason.cause.note = Note::Endless,
            _ => reason.cause.note = Note::Interrupt,
        }
        reason
    }

    /// Whether the wait is a task runtime's, for something to run.
    pub(super) fn is_idle_worker(&self, row: u32) -> bool {
        is_runtime_name(self.trace.strings.get(self.trace.slices.name[row as usize]))
    }

    /// Whether it is the dock of an OpenMP worker.
    pub(super) fn is_dock(&self, row: u32) -> bool {
        is_dock_name(self.trace.strings.get(self.trace.slices.name[row as usize]))
    }

    pub(super) fn named(&self, class: Class, row: u32) -> Reason {
        let mut reason = Reason::of(class, Note::None);
        reason.cause.name = self.trace.slices.name[row as usize];
        reason.cause.object = self.trace.slices.object[row as usize];
        reason
    }

    /// The thread that is waited for has no CPU.
    fn reason_while_ready(&self, thread: usize, cpu: u16) -> Reason {
        let mut reason = match self.slots.get(self.slot_of(cpu) as usize).map(|l| l.occupant) {
            Some(Occupant::Own(by)) => {
                let mut reason = Reason::of(Class::Oversubscription, Note::None);
                if self.on_stretch.is_some() {
                    reason.instead = by;
                }
                reason
            }
            Some(Occupant::Other(by)) => self.interference(by),
            Some(Occupant::Unknown) => Reason::of(Class::Unknown, Note::Lost),
            Some(Occupant::Idle) | None => Reason::of(Class::SchedulingDelay, Note::WakeUp),
        };
        if reason.cause.class == Class::Oversubscription {
            reason.cause.thread = ThreadIx(thread as u32);
        }
        reason
    }

    /// The thread that is waited for runs.
    fn reason_while_running(
        &self,
        context: Option<(SliceKind, u32)>,
        runner: ThreadIx,
        now: Time,
    ) -> Reason {
        let alone = self.crowd.alone().is_some();
        let (class, row) = match context {
            Some((SliceKind::Barrier, NONE)) => {
                let mut reason = Reason::of(Class::LoadImbalance, Note::BySamples);
                (reason.cause.thread, reason.runner) = (runner, runner);
                return self.late_in_phase(runner, now).unwrap_or(reason);
            }
            Some((SliceKind::Barrier, row)) => (Class::LoadImbalance, row),
            Some((_, row)) if row != NONE && self.is_idle_worker(row) => {
                return match alone {
                    true => self.serial(now),
                    false => Reason::of(Class::LowParallelism, Note::IdleWorker),
                };
            }
            _ if alone => return self.serial(now),
            Some((_, NONE)) | None if let Some(late) = self.late_in_phase(runner, now) => {
                return late;
            }
            Some((SliceKind::Join, row)) => (Class::LoadImbalance, row),
            Some((_, row)) => (Class::WaitingForOwnThreads, row),
            None => (Class::WaitingForOwnThreads, NONE),
        };
        let mut reason = match row {
            NONE => Reason::of(class, Note::None),
            row => self.named(class, row),
        };
        (reason.runner, reason.cause.thread) = (runner, runner);
        if let Some((SliceKind::Barrier, row)) = context {
            self.at_barrier(&mut reason, row);
        }
        reason
    }

    /// Adds what is known of this use of the barrier.
    pub(super) fn at_barrier(&self, reason: &mut Reason, row: u32) {
        if let Ok(at) = self.barriers.binary_search_by_key(&row, |b| b.row) {
            reason.barrier = at as u32;
            if self.barriers[at].late.is_some() {
                (reason.runner, reason.cause.thread) =
                    (self.barriers[at].late, self.barriers[at].late);
            }
        }
    }
}
