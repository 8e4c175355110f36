//! Call paths: samples of what threads run.
//!
//! The kernel copies the registers and the top of the stack of a running thread to a ring; [`Sampler`] follows the copy with
//! kasuri-unwind as it drains the ring, so that only paths reach the disk, and none of the program's data. What it needs of
//! the program's files and mappings it learns from the same rings. docs/design/call-paths.md has reasons and figures.
//!
//! | module | contents |
//! |---|---|
//! | `blocks` | samples where threads begin to wait, and wake others |
//! | `calibrate` | the rate that costs little on this machine |
//! | `events` | perf events that take samples |
//! | `kept` | what a flight recorder keeps of them |
//! | `pace` | how many stacks are followed |
//! | `phase` | clocks that no program is in step with for long |
//! | `seen` | what the rings held of the events of `blocks` |
//! | `ring` | their rings and records |
//! | `registers` | perf's registers |
//! | `code` | files and mappings of processes |
//! | `descriptor` | names of files, pipes and sockets at which threads wait |
//! | `loaded` | which processes have mapped which files |
//! | `plan` | what samples will be taken with |
//! | `price` | what samples cost the recorder that wake it |
//! | `python` | what interpreters of Python run |
//! | `state` | records -> samples |
//! | `urgent` | the recorder before other threads, while samples need it at once |
//! | `waits` | stacks of threads that wait, read from outside |
mod blocks;
mod calibrate;
mod code;
mod descriptor;
mod events;
mod kept;
mod loaded;
mod pace;
mod phase;
mod plan;
mod price;
mod python;
mod registers;
mod ring;
mod seen;
mod state;
mod urgent;
mod waits;

use crate::clock;
use crate::guard::reader::Readers;
use crate::kernel::perf::{Reach, may_lock_more};
use blocks::Blocks;
use events::{CLOCK, STACK_BYTES_MAX, is_gone};
use kasuri_format::meta::SamplingRow;
pub(crate) use loaded::LoadedFile;
use phase::Phases;
pub(crate) use plan::Plan;
use price::{PROMPT_NS, Price};
use ring::{PerCpu, Ring};
use state::State;
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
pub(crate) use urgent::Urgent;

/// Pages of a ring: up to 8 MiB where pages are small, for 250 samples of the first size; of all rings together at most this
/// share of the free memory. A user without privileges gets less.
const RING_PAGES: usize = 2048;
const RINGS_SHARE: u64 = 64;
const RING_PAGES_OWN: usize = 32;
/// Samples are followed at once for [`PROMPT_NS`] after one that needed it, and so many times the
/// time between two of a thread that computes, at least: one may compute a tenth of the time.
const PROMPT_PERIODS: u64 = 20;
/// How long those of a CPU wake the recorder after such a one of this CPU, ns, and in periods.
/// Other CPUs run other programs' threads: there, what the program's threads run next is met a
/// little later.
const WAKES_NS: u64 = 10_000_000;
const WAKES_PERIODS: u64 = 4;
/// Copies that were too short, at least this many and more than one of so many, are a reason for longer ones.
const CUT_MIN: u64 = 2;
const CUT_ONE_OF: u64 = 200;

/// Takes samples.
#[derive(Debug)]
pub(crate) struct Sampler {
    plan: Plan,
    cpus: Vec<PerCpu>,
    state: State,
    /// Until when samples are to be followed at once (CLOCK_MONOTONIC), and what they cost then.
    prompt_until_ns: u64,
    price: Price,
    /// Whether [`Sampler::wakers`] can no longer be waited for.
    is_hung: bool,
    phases: Phases,
    /// `None`: waits and wake-ups are not sampled where they happen.
    blocks: Option<Blocks>,
}

impl Sampler {
    /// Those that read the program's memory for it.
    pub(crate) fn readers(&self) -> Readers {
        self.state.readers()
    }

    /// Opens the events: of a plan for the whole system all of them, else those of the threads `tids`. This takes the kernel up to
    /// hundreds of ms on a busy machine, for which a program should not wait: [`Sampler::begin`] is quick. `Err`: why it cannot.
    pub(crate) fn open(
        plan: Plan,
        tids: &[i32],
        keeps: bool,
        readers: &Readers,
    ) -> Result<Sampler, String> {
        let mut sampler = Sampler {
            plan,
            cpus: Vec::new(),
            state: State::new(&plan, keeps, readers.clone()),
            prompt_until_ns: 0,
            price: Price::default(),
            is_hung: false,
            phases: Phases::new(&plan, clock::monotonic_ns()),
            blocks: None,
        };
        for cpu in crate::host::cpu_list("online") {
            sampler.open_cpu(cpu, tids)?;
        }
        if sampler.cpus.is_empty() {
            return Err("no call paths: no thread of the program is left".to_owned());
        }
        sampler.open_samples(tids)?;
        sampler.state.row(SamplingRow {
            source: "read".to_owned(),
            on: true,
            ..SamplingRow::default()
        });
        sampler.note_period(String::new());
        sampler.open_blocks();
        Ok(sampler)
    }

    /// Takes samples of the processes `pids` and their descendants from now on. `is_started`: they run the program, and not yet our
    /// own code before exec(2).
    pub(crate) fn begin(&mut self, pids: &[i32], is_started: bool) {
        // What the rings hold is older, also that we have made a process.
        self.drain_until(u64::MAX);
        pids.iter().for_each(|&pid| self.state.add_process(pid, is_started));
        if self.plan.everyone {
            self.state.watch_all();
        }
        let now = clock::monotonic_ns();
        // What programs these are is not known yet: the first sample of Python wakes nobody.
        self.prompt_until_ns = now + PROMPT_NS;
        self.state.begin_at(now);
        if let Some(blocks) = &mut self.blocks {
            blocks.begin(&mut self.state, now);
        }
    }

    fn open_blocks(&mut self) {
        let opened = match self.plan.reach {
            Reach::System => Blocks::open(&self.cpus, &mut self.state, self.plan.is_deep),
            Reach::Own => Err("needs root or CAP_PERFMON".to_owned()),
        };
        match opened {
            Ok(blocks) => self.blocks = Some(blocks),
            Err(reason) => self.state.row(SamplingRow {
                source: "switch".to_owned(),
                reason,
                ..SamplingRow::default()
            }),
        }
    }

    /// Notes that samples are taken from now on, and why this has changed.
    fn note_period(&mut self, reason: String) {
        self.state.period_ns = self.phases.mean_ns;
        self.state.row(SamplingRow {
            source: CLOCK.to_owned(),
            on: true,
            period_ns: self.phases.mean_ns,
            reason,
            ..SamplingRow::default()
        });
    }

    /// What to open events on: -1 stands for every thread (perf_event_open(2)), else each thread on its own.
    fn tids<'t>(&self, tids: &'t [i32]) -> &'t [i32] {
        match self.plan.reach {
            Reach::System => &[-1],
            Reach::Own => tids,
        }
    }

    fn open_cpu(&mut self, cpu: u32, tids: &[i32]) -> Result<(), String> {
        let refused =
            |e| format!("no call paths: perf events are refused ({e}); see `kasuri doctor`");
        let mut opened = Vec::new();
        for &tid in self.tids(tids) {
            match events::open_changes(self.plan.reach, tid, cpu) {
                Ok(event) => opened.push(event),
                // A thread may end between the list and the system call: it needs no samples.
                Err(e) if is_gone(&e) => {}
                Err(e) => return Err(refused(e)),
            }
        }
        let mut changes = opened.into_iter();
        let Some(leader) = changes.next() else {
            return Ok(());
        };
        let pages = if may_lock_more() { ring_pages() } else { RING_PAGES_OWN };
        let ring = Ring::map(&leader, pages).map_err(|e| {
            format!("no call paths: no memory for samples ({e}); `ulimit -l unlimited`, or the capability CAP_IPC_LOCK")
        })?;
        let changes: Vec<OwnedFd> = changes.collect();
        // One ring for each CPU: the records of all its events come in the order of their times.
        for event in &changes {
            events::set_output(event, &leader).map_err(refused)?;
        }
        self.cpus.push(PerCpu {
            cpu,
            ring,
            leader,
            _changes: changes,
            samples: Vec::new(),
            wakes_until_ns: 0,
        });
        Ok(())
    }

    /// Opens events that take samples in place of those before.
    fn open_samples(&mut self, tids: &[i32]) -> Result<(), String> {
        let refused =
            |e| format!("no call paths: perf events are refused ({e}); see `kasuri doctor`");
        let reach = self.plan.reach;
        let all = self.tids(tids).to_vec();
        for per_cpu in &mut self.cpus {
            // A record must leave room in the ring for others.
            let most = (per_cpu.ring.data_bytes() / 4) as u32 & !7;
            let bytes = self.plan.stack_bytes.min(most);
            let mut samples = Vec::new();
            for &tid in &all {
                let period_ns = self.phases.period_ns();
                match events::open_samples(period_ns, reach, bytes, tid, per_cpu.cpu) {
                    Ok(event) => samples.push(event),
                    Err(e) if is_gone(&e) => {}
                    Err(e) => return Err(refused(e)),
                }
            }
            for event in &samples {
                events::set_output(event, &per_cpu.leader)
                    .and_then(|()| events::id(event))
                    .and_then(|id| {
                        self.state.add_event(id);
                        events::enable(event)
                    })
                    .map_err(refused)?;
            }
            per_cpu.samples = samples;
        }
        Ok(())
    }

    /// Takes the samples that wait in the rings.
    pub(crate) fn drain(&mut self) {
        // A record with an earlier time may still be on its way to another ring than those with later ones; those wait.
        // Without what is done once for each file: a sample costs no more because it was the first to meet one.
        let used = |state: &State| clock::thread_cpu_ns().saturating_sub(state.first_ns());
        let (began, records) = (used(&self.state), self.state.records);
        self.drain_until(clock::monotonic_ns());
        let cost = (used(&self.state).saturating_sub(began), self.state.records - records);
        if let Some(blocks) = &mut self.blocks {
            blocks.turn(&self.cpus, &mut self.state, cost, clock::monotonic_ns());
        }
        self.state.say_lost(clock::monotonic_ns());
        self.widen();
        let (taken, now) = (self.state.sampled(), clock::monotonic_ns());
        let price_ns = self.price.each_ns(now);
        if self.phases.change(&self.cpus, taken, price_ns, now) {
            let share = 100.0 * price_ns as f64 / self.phases.mean_ns as f64;
            self.note_period(match price_ns {
                0 => String::new(),
                _ => format!(
                    "a sample costs the recorder {} us, since it reads at once what Python runs: {share:.1} % of the time between two",
                    price_ns / 1000
                ),
            });
        }
        self.state.begin();
        self.state.read_waits();
        self.state.end();
        let late = self.state.take_late();
        self.wake_for(&late);
    }

    /// Samples of these CPUs were followed later than they should be: the next ones wake us.
    fn wake_for(&mut self, late: &HashSet<u32>) {
        if late.is_empty() {
            return;
        }
        let (now, period_ns) = (clock::monotonic_ns(), self.phases.mean_ns);
        self.prompt_until_ns = now + PROMPT_NS.max(PROMPT_PERIODS * period_ns);
        for per_cpu in self.cpus.iter_mut().filter(|c| late.contains(&c.cpu)) {
            per_cpu.wakes_until_ns = now + WAKES_NS.max(WAKES_PERIODS * period_ns);
        }
    }

    /// Whether samples should be followed at once, by [`Sampler::drain_promptly`]: a part of the
    /// program that they need changes all the time.
    pub(crate) fn is_prompt(&self) -> bool {
        clock::monotonic_ns() < self.prompt_until_ns
    }

    /// CPU time of this thread and of who reads memory for it, ns.
    pub(crate) fn used_ns(&self) -> u64 {
        clock::thread_cpu_ns() + self.state.readers().used_ns()
    }

    /// As [`Sampler::drain`], after a wait before which [`Sampler::used_ns`] was as told: what has
    /// been used since is what such samples cost.
    pub(crate) fn drain_promptly(&mut self, used_ns: u64) {
        let taken = self.state.sampled();
        self.drain();
        let used_ns = self.used_ns().saturating_sub(used_ns);
        self.price.add(used_ns, self.state.sampled() - taken, clock::monotonic_ns());
    }

    /// Descriptors that become readable with each sample on a CPU; none where nobody needs it at
    /// once.
    pub(crate) fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        if self.is_hung || !self.is_prompt() {
            return Vec::new();
        }
        let now = clock::monotonic_ns();
        let wakes = self.cpus.iter().filter(|c| now < c.wakes_until_ns);
        wakes.map(|c| c.leader.as_fd()).collect()
    }

    /// One of the [`Sampler::wakers`] is readable for good, since its thread has ended: they are of no use any more.
    pub(crate) fn hung(&mut self) {
        self.is_hung = true;
    }

    /// Takes the records of all rings in the order of their times, up to `horizon` (CLOCK_MONOTONIC, ns): a mapping
    /// must be known before a sample that needs it is unwound.
    fn drain_until(&mut self, horizon: u64) {
        let waiting: u64 = self.cpus.iter_mut().map(|c| c.ring.look()).sum();
        if waiting == 0 {
            return;
        }
        self.state.begin();
        loop {
            let times = self.cpus.iter_mut().enumerate();
            let next = times.filter_map(|(ix, c)| Some((c.ring.next_time()?, ix))).min();
            let Some((time, ix)) = next.filter(|&(time, _)| time <= horizon) else {
                break;
            };
            let per_cpu = &mut self.cpus[ix];
            if let Some(record) = per_cpu.ring.peek() {
                self.state.take(record, time, per_cpu.cpu);
            }
            per_cpu.ring.pass();
        }
        self.cpus.iter_mut().for_each(|c| c.ring.give_back());
        self.state.end();
    }

    /// Copies more of each stack when too many copies are too short.
    fn widen(&mut self) {
        let (judged, cut) = self.state.copies.judged();
        if cut < CUT_MIN || cut * CUT_ONE_OF <= judged {
            return;
        }
        self.state.copies.forget();
        let wider = (self.plan.stack_bytes * 2).min(STACK_BYTES_MAX);
        if wider == self.plan.stack_bytes {
            return;
        }
        self.plan.stack_bytes = wider;
        let tids: Vec<i32> = match self.plan.reach {
            Reach::System => Vec::new(),
            Reach::Own => self
                .state
                .tree()
                .iter()
                .flat_map(|&pid| crate::program::procs::threads(pid))
                .collect(),
        };
        let reason = match self.open_samples(&tids) {
            Ok(()) => format!(
                "{cut} of {judged} copies of stacks were too short: {} KiB of each are copied from now on",
                wider >> 10
            ),
            Err(why) => why,
        };
        self.note_period(reason);
    }

    /// Ends sampling, at once. [`Sampler::finish`] takes what is still in the rings.
    pub(crate) fn stop(&mut self) {
        let events = self.cpus.iter().flat_map(|c| &c.samples);
        events.for_each(events::disable);
        self.blocks.iter().for_each(Blocks::stop);
    }

    /// Takes the last samples, after [`Sampler::stop`]. Closing the events and following stacks takes tens of ms, which
    /// must not count as part of the recording.
    pub(crate) fn finish(&mut self) {
        self.cpus.iter_mut().for_each(|c| c.samples.clear());
        let blocks = self.blocks.take();
        self.drain_until(u64::MAX);
        if let Some(blocks) = blocks {
            blocks.finish(&mut self.state);
        }
        self.state.last_waits();
        self.state.say_lost(u64::MAX);
        self.state.row(SamplingRow { source: CLOCK.to_owned(), ..SamplingRow::default() });
    }

    /// Bytes for the end of the log.
    pub(crate) fn take_log(&mut self) -> Vec<u8> {
        self.state.take_log()
    }

    /// Rows for `sampling.jsonl`.
    pub(crate) fn take_rows(&mut self) -> Vec<SamplingRow> {
        self.state.take_rows()
    }

    /// Processes whose memory did not answer since the last time, in words.
    pub(crate) fn take_silent(&mut self) -> Vec<String> {
        self.state.take_silent()
    }

    /// Files that processes of the program have mapped as code since the recording began.
    pub(crate) fn loaded(&self) -> Vec<LoadedFile> {
        self.state.loaded.files()
    }

    /// The whole log of a flight recorder, with the samples from a time on.
    pub(crate) fn snapshot(&mut self, from_ns: u64) -> (Vec<u8>, Vec<SamplingRow>) {
        self.drain();
        self.state.snapshot(from_ns)
    }

    /// Forgets what a flight recorder need not keep.
    pub(crate) fn keep_from(&mut self, from_ns: u64) {
        self.state.keep_from(from_ns);
    }
}

fn ring_pages() -> usize {
    let n_cpus = crate::host::cpu_list("online").len().max(1) as u64;
    let bytes = crate::host::available_memory() / RINGS_SHARE / n_cpus;
    let pages = bytes / rustix::param::page_size() as u64;
    let pages = usize::try_from(pages).unwrap_or(RING_PAGES);
    1 << pages.clamp(128, RING_PAGES).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_samples_of_a_cpu_with_python_wake_the_recorder() {
        let (Some(cpu), Some(reach)) = (kasuri_unwind::Cpu::own(), crate::kernel::perf::reach())
        else {
            let why = "perf_event_open is refused";
            return kasuri_testkit::skip_for(kasuri_testkit::Need::Machine, why);
        };
        let own = std::process::id() as i32;
        let plan = Plan::of(cpu, reach, false);
        let mut sampler = Sampler::open(plan, &[own], false, &Readers::default()).unwrap();
        sampler.begin(&[own], true);
        assert!(sampler.wakers().is_empty(), "this is no Python");
        let now = clock::monotonic_ns();
        let first = sampler.cpus[0].cpu;
        sampler.wake_for(&HashSet::from([first, u32::MAX]));
        assert!(sampler.prompt_until_ns > now);
        // By when they do, not by whether they do now: this test may stand still for longer.
        let wakes = sampler.cpus.iter().filter(|c| c.wakes_until_ns > now);
        assert_eq!(wakes.map(|c| c.cpu).collect::<Vec<_>>(), [first]);
    }
}
