//! Samples where threads begin to wait, and where they wake others.
//!
//! Goal: the call path of waits that end before they can be read from outside ([`super::waits`]), and of the wake-ups that end waits.
//! Method: perf events on the scheduler's tracepoints, one for each CPU, which copy registers and stack. Each has a number of samples
//! that it may take, and the kernel switches it off at the last one (PERF_EVENT_IOC_REFRESH). The recorder gives more as long as that
//! costs no more than [`SHARE`] of a CPU, and [`SHARE_FOREIGN`] for those of other programs. So where threads wait seldom, every wait is
//! sampled; where they wait often, all those that begin in short times in turn: which ones depends on the time, never on a coin, and no
//! storm of switches can cost more.
//! Rejected: one of N switches: the others still cost the event's filter and buffer, a fifth of a sample. Times between ENABLE and DISABLE:
//! a storm fills them with as many samples as it likes.
//!
//! An event that is switched off costs each switch 10 to 40 ns, and each wake-up 40 to 120 ns (the kernel prepares the record of `sched_waking`
//! before it looks whether anyone wants it): where they are frequent, the events are closed, and opened now and then.
use super::events::{self, IOC_PERIOD, IOC_REFRESH, IOC_SET_FILTER};
use super::ring::PerCpu;
use super::seen::Count;
use super::state::State;
use crate::clock;
use kasuri_format::call_paths::SampleKind;
use kasuri_format::meta::SamplingRow;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Share of one CPU that all of it may cost, in the program and in the recorder; with `--stacks=deep`.
const SHARE: f64 = 0.005;
const SHARE_DEEP: f64 = 0.05;
/// Share of one CPU that samples of other programs may cost besides, in them and in the recorder: a filter cannot tell a program's
/// processes, so the events take them too. Beyond that they cost the program samples.
const SHARE_FOREIGN: f64 = 0.01;
/// Most ns of CPU time that are saved for later.
const SAVED_NS: i64 = 10_000_000;
/// What taking a sample costs the program, ns: 2,200 to 2,700 were measured, whatever is copied.
const TAKEN_NS: i64 = 2_500;
/// A sample's whole cost until it is measured, ns.
const FIRST_NS: i64 = 5_000;
/// Most samples that all events may take before they are given more; and one of them.
const BURST_ALL: u64 = 1024;
const BURST: u64 = 128;
/// Bytes of the stack that are copied at first.
const FIRST_BYTES: u32 = 4 << 10;
/// Bytes of a record without the stack, at most.
const RECORD_BYTES: u64 = 512;
/// Stacks after which their size is judged.
const JUDGED: u64 = 64;
/// Samples a second on one CPU from which on their events are closed.
const FREQUENT_PER_S: u64 = 20_000;
/// How long events of wake-ups are closed, ns; those of waits, which other waits within 1 s take their paths from.
const WAKES_CLOSED_NS: u64 = 2_000_000_000;
const WAITS_CLOSED_NS: u64 = 250_000_000;
/// They are closed at least so many times as long as opening them takes, which grows with the number of CPUs: 0.25 ms for two.
const CLOSED_MIN: u64 = 500;
/// Events that stay open for so long are no longer frequent, ns.
const SELDOM_NS: u64 = 1_000_000_000;

/// The tracepoint behind a kind of sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    kind: SampleKind,
    /// Its name in `sampling.jsonl`.
    source: &'static str,
    id: u64,
}

/// A tracepoint whose events are closed where they are frequent.
#[derive(Debug)]
struct Paused {
    point: Point,
    /// When its events are opened again; `None`: they are open.
    reopen_ns: Option<u64>,
    opened_ns: u64,
    /// CPU time that opening them took.
    opening_ns: u64,
    /// Whether the last row says that they are frequent.
    is_frequent: bool,
}

/// An event that takes a limited number of samples.
#[derive(Debug)]
struct Limited {
    event: OwnedFd,
    id: u64,
    point: Point,
    cpu: u32,
    /// Samples that may wait in its ring.
    room: u64,
    /// Samples that it was allowed, and those that it took.
    given: u64,
    used: u64,
    given_ns: u64,
}

/// The events, and what they may cost.
#[derive(Debug)]
pub(super) struct Blocks {
    points: Vec<Paused>,
    events: Vec<Limited>,
    stack_bytes: u32,
    is_deep: bool,
    /// CPU time that may be spent now; what events were allowed is spent.
    credit_ns: i64,
    credited_ns: u64,
    /// The same for samples of other programs.
    foreign_ns: i64,
    /// One sample's cost, as measured lately.
    each_ns: i64,
    /// The event that is given more first.
    next: usize,
    /// Sources of which it was said that not all are sampled.
    said_partial: HashSet<&'static str>,
}

impl Point {
    /// Those that this kernel has.
    fn all() -> Vec<Point> {
        let named = [
            (SampleKind::Blocked, "switch", "sched/sched_switch"),
            (SampleKind::Waker, "wake", "sched/sched_waking"),
        ];
        let found = named.into_iter().filter_map(|(kind, source, name)| {
            let id = events::tracepoint(name)?;
            Some(Point { kind, source, id })
        });
        found.collect()
    }

    /// Switches of threads that wait: asleep, uninterruptible, stopped or traced (the first four bits in every kernel), not preempted, not
    /// at their end. Wake-ups by threads: in an interrupt the running thread has no part in it (TRACE_FLAG_HARDIRQ, _SOFTIRQ). The
    /// recorder's own are of no use.
    fn filter(self) -> String {
        let own = rustix::thread::gettid().as_raw_nonzero();
        match self.kind {
            SampleKind::Waker => format!("!(common_flags & 24) && common_pid != {own}"),
            _ => format!("prev_state & 15 && prev_pid != {own}"),
        }
    }
}

impl Paused {
    fn new(point: Point) -> Paused {
        Paused { point, reopen_ns: None, opened_ns: 0, opening_ns: 0, is_frequent: false }
    }

    /// Its events were closed: they are frequent.
    fn close(&mut self, now: u64) {
        let ns = match self.point.kind {
            SampleKind::Waker => WAKES_CLOSED_NS,
            _ => WAITS_CLOSED_NS,
        };
        let ns = ns.max(self.opening_ns.saturating_mul(CLOSED_MIN));
        self.reopen_ns = Some(now.saturating_add(ns));
    }

    /// Whether its events are to be opened now.
    fn is_due(&self, now: u64) -> bool {
        self.reopen_ns.is_some_and(|at| at <= now)
    }

    /// Whether its events have been open for so long that they are frequent no more.
    fn is_seldom(&self, now: u64) -> bool {
        self.is_frequent && self.reopen_ns.is_none() && self.opened_ns + SELDOM_NS <= now
    }
}

impl Limited {
    fn open(point: Point, per_cpu: &PerCpu, stack_bytes: u32) -> io::Result<Limited> {
        let event = events::open_tracepoint(point.id, stack_bytes, per_cpu.cpu)?;
        let filter = std::ffi::CString::new(point.filter())?;
        // SAFETY: an open perf event; the filter is a string that ends with a zero byte.
        if unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_FILTER, filter.as_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        events::set_output(&event, &per_cpu.leader)?;
        Ok(Limited {
            id: events::id(&event)?,
            event,
            point,
            cpu: per_cpu.cpu,
            room: per_cpu.ring.data_bytes() / 4 / (u64::from(stack_bytes) + RECORD_BYTES),
            given: 0,
            used: 0,
            given_ns: 0,
        })
    }

    /// Samples that it may still take.
    fn left(&self) -> u64 {
        self.given.saturating_sub(self.used)
    }

    /// Allows `n` more samples and switches it on.
    fn give(&mut self, n: u64, now: u64) {
        self.given = self.given.max(self.used) + n;
        self.given_ns = now;
        let period = 1u64;
        // SAFETY: an open perf event; the second call reads eight bytes. Setting the period anew starts an event that kernels since 6.16
        // leave stopped when it is switched on again after its last sample.
        unsafe {
            libc::ioctl(self.event.as_raw_fd(), IOC_REFRESH, n as libc::c_ulong);
            libc::ioctl(self.event.as_raw_fd(), IOC_PERIOD, &raw const period);
        }
    }

    /// Whether it took its last samples, `burst` of them, so quickly that it costs less to close it.
    fn is_frequent(&self, state: &State, burst: u64) -> bool {
        let last_ns = state.seen.events.get(&self.id).map_or(0, |c| c.last_ns);
        let is_used_up = self.left() == 0 && self.used >= burst;
        // Where the ring lost the last, nobody knows when it was.
        let took_ns = last_ns.checked_sub(self.given_ns).filter(|_| is_used_up);
        took_ns.is_some_and(|ns| ns.saturating_mul(FREQUENT_PER_S) < burst * 1_000_000_000)
    }

    /// Samples that it took, also those that the ring had no room for.
    fn count(&self) -> u64 {
        let mut bytes = [0; 8];
        match rustix::io::read(&self.event, &mut bytes) {
            Ok(8) => u64::from_ne_bytes(bytes),
            _ => self.given,
        }
    }
}

impl Blocks {
    /// Opens the events, which take no samples yet. `Err`: why there are none.
    pub(super) fn open(
        cpus: &[PerCpu],
        state: &mut State,
        is_deep: bool,
    ) -> Result<Blocks, String> {
        let mut blocks = Blocks {
            points: Point::all().into_iter().map(Paused::new).collect(),
            events: Vec::new(),
            stack_bytes: FIRST_BYTES,
            is_deep,
            credit_ns: SAVED_NS,
            credited_ns: 0,
            foreign_ns: SAVED_NS,
            each_ns: FIRST_NS,
            next: 0,
            said_partial: HashSet::new(),
        };
        if blocks.points.is_empty() {
            return Err("this kernel has no event sched_switch, or tracefs is not mounted".into());
        }
        for ix in 0..blocks.points.len() {
            let point = blocks.points[ix].point;
            blocks
                .open_point(point, cpus, state)
                .map_err(|e| format!("perf refuses the event of {} ({e})", point.source))?;
            state.row(on(point, String::new()));
        }
        Ok(blocks)
    }

    /// Lets the events take their first samples.
    pub(super) fn begin(&mut self, state: &mut State, now: u64) {
        self.credited_ns = now;
        self.give(state, now);
    }

    fn open_point(&mut self, point: Point, cpus: &[PerCpu], state: &mut State) -> io::Result<()> {
        for per_cpu in cpus {
            let most = (per_cpu.ring.data_bytes() / 4) as u32 & !7;
            let event = match Limited::open(point, per_cpu, self.stack_bytes.min(most)) {
                Ok(event) => event,
                Err(e) if events::is_gone(&e) => continue,
                Err(e) => return Err(e),
            };
            let count = Count { kind: point.kind, samples: 0, last_ns: 0 };
            state.seen.events.insert(event.id, count);
            self.events.push(event);
        }
        Ok(())
    }

    /// After the rings were drained, which took `used_ns` for `records` records: pays for the samples, and gives events more.
    pub(super) fn turn(
        &mut self,
        cpus: &[PerCpu],
        state: &mut State,
        (used_ns, records): (u64, u64),
        now: u64,
    ) {
        let passed = now.saturating_sub(self.credited_ns) as f64;
        let earn = |has_ns: i64, share: f64| (has_ns + (share * passed) as i64).min(SAVED_NS);
        let share = if self.is_deep { SHARE_DEEP } else { SHARE };
        self.credit_ns = earn(self.credit_ns, share);
        self.foreign_ns = earn(self.foreign_ns, SHARE_FOREIGN);
        self.credited_ns = now;
        self.pay(state, used_ns, records);
        self.widen(cpus, state, now);
        self.reopen(cpus, state, now);
        self.give(state, now);
    }

    /// Opens the events again whose time has come.
    fn reopen(&mut self, cpus: &[PerCpu], state: &mut State, now: u64) {
        for ix in 0..self.points.len() {
            let point = self.points[ix].point;
            if self.points[ix].is_due(now) {
                let began = clock::thread_cpu_ns();
                let is_open = self.open_point(point, cpus, state).is_ok();
                let took = clock::thread_cpu_ns().saturating_sub(began);
                let paused = &mut self.points[ix];
                (paused.opened_ns, paused.opening_ns) = (now, took);
                paused.reopen_ns = None;
                if !is_open {
                    self.pause(point, state, now);
                }
            } else if self.points[ix].is_seldom(now) {
                self.points[ix].is_frequent = false;
                state.row(on(point, format!("less than {FREQUENT_PER_S} a second")));
            }
        }
    }

    /// Takes over what was seen, at its cost.
    fn pay(&mut self, state: &mut State, used_ns: u64, records: u64) {
        let samples = std::mem::take(&mut state.seen.samples) as i64;
        if samples > 0 {
            let ours = used_ns as i64 * samples / (records as i64).max(samples);
            let each = ours / samples + TAKEN_NS;
            self.credit_ns += (self.each_ns - each) * samples;
            let foreign = std::mem::take(&mut state.seen.foreign) as i64;
            let theirs = (foreign.min(samples) * each).min(self.foreign_ns.max(0));
            self.foreign_ns -= theirs;
            self.credit_ns += theirs;
            self.each_ns += (each - self.each_ns) / 8;
        }
        let lost = std::mem::take(&mut state.seen.lost);
        for event in &mut self.events {
            let seen = state.seen.events.get(&event.id);
            event.used = seen.map_or(event.used, |count| count.samples);
            if lost.contains(&event.cpu) {
                event.used = event.used.max(event.count());
            }
        }
    }

    /// Copies more of each stack when more than 2 % of enough copies were too short.
    fn widen(&mut self, cpus: &[PerCpu], state: &mut State, now: u64) {
        let seen = &mut state.seen;
        if seen.judged < JUDGED || seen.cut * 50 <= seen.judged {
            return;
        }
        (seen.judged, seen.cut) = (0, 0);
        let wider = (self.stack_bytes * 2).min(events::STACK_BYTES_MAX);
        if wider == self.stack_bytes {
            return;
        }
        self.stack_bytes = wider;
        let before = std::mem::take(&mut self.events);
        let is_open = |point: &Point| before.iter().any(|event| event.point == *point);
        let open: Vec<Point> = self.points.iter().map(|p| p.point).filter(is_open).collect();
        for point in open {
            let reason = match self.open_point(point, cpus, state) {
                Ok(()) => format!("{} KiB of each stack are copied from now on", wider >> 10),
                Err(e) => format!("perf refuses an event ({e})"),
            };
            state.row(on(point, reason));
        }
        self.close(before, state, now);
    }

    /// Gives events more samples, in turn, as long as there is credit.
    fn give(&mut self, state: &mut State, now: u64) {
        let n = self.events.len();
        let most = (BURST_ALL / (n as u64).max(1)).clamp(8, BURST);
        let mut frequent = Vec::new();
        // A sample may be on its way through the ring, or be none that counts: then the kernel knows.
        for event in &mut self.events {
            if event.left() <= most.min(event.room).max(2) / 2 {
                event.used = event.used.max(event.count());
            }
        }
        let used_up = self.used_up();
        for at in 0..n {
            let ix = (self.next + at) % n;
            let event = &mut self.events[ix];
            let burst = most.min(event.room).max(2);
            let left = event.left();
            if left > burst / 2 {
                continue;
            }
            // Who wants deep stacks is ready to pay for them.
            let may_close = !self.is_deep || event.point.kind == SampleKind::Waker;
            if may_close && event.is_frequent(state, burst) {
                frequent.push(event.point);
                continue;
            }
            if self.credit_ns <= 0 {
                self.next = ix;
                break;
            }
            let began = clock::thread_cpu_ns();
            event.give(burst - left, now);
            let took = clock::thread_cpu_ns().saturating_sub(began) as i64;
            self.credit_ns -= took + (burst - left) as i64 * self.each_ns;
        }
        for point in self.points.iter().map(|p| p.point).collect::<Vec<_>>() {
            if frequent.contains(&point) {
                self.pause(point, state, now);
            }
        }
        let used_up = used_up.into_iter().filter(|p| !frequent.contains(p));
        self.say_partial(used_up.collect(), state);
    }

    /// Those of which an event has taken all its samples: since then none was taken on its CPU.
    fn used_up(&self) -> Vec<Point> {
        let is_used_up = |event: &&Limited| event.given > 0 && event.left() == 0;
        let used_up = self.events.iter().filter(is_used_up);
        used_up.map(|event| event.point).collect()
    }

    fn say_partial(&mut self, used_up: Vec<Point>, state: &mut State) {
        for point in used_up {
            if self.said_partial.insert(point.source) {
                let reason = "they are more than may be sampled: all those of short times in turn";
                state.row(on(point, reason.to_owned()));
            }
        }
    }

    /// After the last samples: says which were not all taken.
    pub(super) fn finish(mut self, state: &mut State) {
        for event in &mut self.events {
            event.used = event.used.max(event.count());
        }
        self.say_partial(self.used_up(), state);
    }

    /// A tracepoint is met so often that its events cost too much while they are open.
    fn pause(&mut self, point: Point, state: &mut State, now: u64) {
        let events = std::mem::take(&mut self.events);
        let (closed, others) = events.into_iter().partition(|e| e.point == point);
        self.events = others;
        self.next = 0;
        for paused in self.points.iter_mut().filter(|p| p.point == point) {
            paused.close(now);
            if !std::mem::replace(&mut paused.is_frequent, true) {
                let reason = format!(
                    "more than {FREQUENT_PER_S} a second on a CPU: all those of short times in turn"
                );
                state.row(on(point, reason));
            }
        }
        self.close(closed, state, now);
    }

    /// Closes events. Closing the last one of a tracepoint takes the kernel tens of ms, for which the rings must not wait.
    fn close(&mut self, events: Vec<Limited>, state: &mut State, now: u64) {
        for event in &events {
            events::disable(&event.event);
            self.credit_ns += event.left() as i64 * self.each_ns;
            state.seen.close(event.id, now);
        }
        let close = move || drop(events);
        // Without a thread they are closed here, when the closure is dropped.
        let _ = std::thread::Builder::new().spawn(close);
    }

    /// Ends sampling.
    pub(super) fn stop(&self) {
        self.events.iter().for_each(|e| events::disable(&e.event));
    }
}

fn on(point: Point, reason: String) -> SamplingRow {
    SamplingRow { source: point.source.to_owned(), on: true, reason, ..SamplingRow::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::perf::Reach;
    use crate::stacks::plan::Plan;
    use kasuri_unwind::Cpu;
    use std::io::Write;

    fn state() -> Option<State> {
        let plan = Plan::of(Cpu::own()?, Reach::System, false);
        Some(State::new(&plan, false, Default::default()))
    }

    fn blocks(events: Vec<Limited>) -> Blocks {
        Blocks {
            points: Vec::new(),
            events,
            stack_bytes: FIRST_BYTES,
            is_deep: false,
            credit_ns: 0,
            credited_ns: 0,
            foreign_ns: 0,
            each_ns: FIRST_NS,
            next: 0,
            said_partial: HashSet::new(),
        }
    }

    #[test]
    fn events_that_took_all_their_samples_are_said_not_to_have_all() {
        let Some(mut state) = state() else { return };
        let event = |source, event, given| Limited {
            event,
            id: 1,
            point: Point { kind: SampleKind::Blocked, source, id: 1 },
            cpu: 0,
            room: 64,
            given,
            used: 0,
            given_ns: 0,
        };
        // The kernel's counts are read from pipes.
        let (one, to_one) = std::io::pipe().expect("a pipe");
        let (other, to_other) = std::io::pipe().expect("a pipe");
        let none = std::fs::File::open("/dev/zero").expect("open");
        let mut blocks = blocks(vec![
            event("one", one.into(), 7),
            event("other", other.into(), 7),
            event("none", none.into(), 0),
        ]);
        blocks.credit_ns = -1;
        let counts = |in_one: u64, in_other: u64| {
            for (mut to, count) in [(&to_one, in_one), (&to_other, in_other)] {
                to.write_all(&count.to_ne_bytes()).expect("written");
            }
        };
        let said = |state: &mut State| -> Vec<String> {
            let rows = state.take_rows();
            rows.into_iter().map(|row| row.source).collect()
        };
        for (samples, says) in [(6, &[][..]), (7, &["other"]), (7, &[])] {
            counts(6, samples);
            blocks.turn(&[], &mut state, (0, 0), 1);
            assert_eq!(said(&mut state), says, "{samples}");
        }
        counts(7, 7);
        blocks.finish(&mut state);
        assert_eq!(said(&mut state), ["one"], "what the last samples show");
    }

    #[test]
    fn samples_of_other_programs_are_paid_apart_until_their_share_is_spent() {
        let Some(mut state) = state() else { return };
        let each = TAKEN_NS + 800;
        let mut blocks = blocks(Vec::new());
        (blocks.foreign_ns, blocks.each_ns) = (5000 * each, each);
        // Each was paid for when it was allowed; what others took is given back.
        for (foreign, back) in [(0, 0), (1000, 1000), (3000, 3000), (3000, 1000), (1000, 0)] {
            (state.seen.samples, state.seen.foreign) = (4000, foreign);
            blocks.credit_ns = 0;
            blocks.pay(&mut state, 4000 * 800, 4000);
            assert_eq!(blocks.credit_ns, back * each, "{foreign}");
        }
        // It is earned again, at its own rate.
        blocks.turn(&[], &mut state, (0, 0), 1_000_000_000);
        assert_eq!(blocks.foreign_ns, (1e9 * SHARE_FOREIGN) as i64);
    }

    #[test]
    fn frequent_events_are_closed_for_longer_the_more_it_takes_to_open_them() {
        let second = 1_000_000_000;
        let point = |kind| Point { kind, source: "switch", id: 1 };
        for (kind, opening_ns, closed_ns) in [
            (SampleKind::Blocked, 250_000, second / 4),
            (SampleKind::Blocked, 3_000_000, 3 * second / 2),
            (SampleKind::Waker, 250_000, 2 * second),
            (SampleKind::Waker, 1 << 60, u64::MAX - 7),
        ] {
            let mut paused = Paused::new(point(kind));
            assert!(!paused.is_due(second), "it is open");
            (paused.opening_ns, paused.is_frequent) = (opening_ns, true);
            paused.close(7);
            assert!(!paused.is_due(6 + closed_ns) && paused.is_due(7 + closed_ns));
            assert!(!paused.is_seldom(u64::MAX), "it is closed");
            (paused.opened_ns, paused.reopen_ns) = (9, None);
            assert!(!paused.is_seldom(8 + second) && paused.is_seldom(9 + second));
        }
    }
}
