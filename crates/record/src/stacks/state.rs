//! Turns records of the rings into samples: keeps mappings up to date, follows stacks.
use super::code::{MappedFiles, maps};
use super::descriptor::Descriptors;
use super::events::CLOCK;
use super::kept::{KEPT_MAX, Kept};
use super::loaded::Loaded;
use super::pace::{Copies, Pace};
use super::plan::Plan;
use super::python::{Moment, Pythons};
use super::registers;
use super::ring::{self, Record, Taken, kernel_part};
use super::seen::Seen;
use super::waits::{Follow, Followed, Wait, Waits};
use crate::clock;
use crate::guard::reader::Readers;
use crate::kernel::perf::Reach;
use crate::program::procs;
use kasuri_format::call_paths::{LogWriter, NONE, PathEnd, Sample, SampleKind};
use kasuri_format::meta::SamplingRow;
use kasuri_unwind::{Cpu, Mapping, Stack, Unwinder, backing};
use std::collections::{HashMap, HashSet, VecDeque};

/// The process that makes the kernel's own threads; nobody's, in a name space where it is not seen.
const KTHREADD: i32 = 2;
/// Most processes that are taken to belong to the program at one time.
const TREE_MAX: usize = if cfg!(test) { 4 } else { 1 << 16 };
/// Shortest time between two reads of the mappings of a process whose code is unknown, ns.
const REREAD_NS: u64 = 100_000_000;
/// Most such reads in that time, of all processes together.
const REREADS_MAX: usize = 32;
/// CPU time after which no more are read in that time: one of a process with as many mappings as there may be takes 20 ms and more.
const REREADS_NS: u64 = REREAD_NS / 5;
/// How long a process is remembered after its first thread ended, ns: samples of it may be on their way, and others of its
/// threads may still run.
const LINGER_NS: u64 = 1_000_000_000;
/// Most rows of changes; a recording with more says no more of them.
const ROWS_MAX: usize = 100_000;

/// Everything but the rings.
#[derive(Debug)]
pub(super) struct State {
    unwinder: Unwinder,
    files: MappedFiles,
    /// Who reads memory and mappings, and which processes did not answer, in words.
    readers: Readers,
    silent: Vec<String>,
    everyone: bool,
    /// CPU time between two samples, on average.
    pub(super) period_ns: u64,
    has_chain: bool,
    /// The program's processes.
    tree: HashSet<i32>,
    /// What they have mapped as code.
    pub(super) loaded: Loaded,
    /// Numbers of events that take samples.
    events: HashSet<u64>,
    /// Processes that ended, and when.
    ended: VecDeque<(u64, i32)>,
    reread: Reread,
    rows: Vec<SamplingRow>,
    n_rows: usize,
    /// Samples from before are of no use.
    began_ns: u64,
    /// A flight recorder's samples; else they go to the log at once.
    kept: Option<Kept>,
    /// Of the clock's samples.
    pub(super) copies: Copies,
    /// Whether it was said that some threads may not be read.
    said_refused: bool,
    /// Whether it was said that there are too many processes.
    said_many: bool,
    pace: Pace,
    /// `None`: while they are looked at.
    waits: Option<Waits>,
    /// Records lost on each CPU that no row tells yet, and when a row was written.
    lost: HashMap<u32, u64>,
    lost_ns: u64,
    /// Processes that run our own code until they call exec(2).
    before_exec: HashSet<i32>,
    /// Processes that may run another program than that whose mappings are known: the record of an exec may be among those lost.
    doubted: HashSet<i32>,
    /// What interpreters of Python run, and the CPUs with samples that were followed later than
    /// they should be.
    pythons: Pythons,
    late: HashSet<u32>,
    /// Names of what threads wait at.
    descriptors: Descriptors,
    /// Of the events where threads wait and wake.
    pub(super) seen: Seen,
    /// Records taken.
    pub(super) records: u64,
}

/// Processes whose mappings were read anew since a time, and the CPU time that it took.
#[derive(Debug, Default)]
struct Reread {
    since_ns: u64,
    pids: HashSet<i32>,
    used_ns: u64,
}

impl Reread {
    /// Whether those of a process were read a moment ago.
    fn was_read(&self, pid: i32, now: u64) -> bool {
        now.saturating_sub(self.since_ns) < REREAD_NS && self.pids.contains(&pid)
    }

    /// Whether those of a process may be read now; then they are.
    fn may(&mut self, pid: i32, now: u64) -> bool {
        if now.saturating_sub(self.since_ns) >= REREAD_NS {
            (self.since_ns, self.used_ns) = (now, 0);
            self.pids.clear();
        }
        self.pids.len() < REREADS_MAX && self.used_ns < REREADS_NS && self.pids.insert(pid)
    }
}

impl State {
    pub(super) fn new(plan: &Plan, keeps: bool, readers: Readers) -> State {
        let Plan { cpu, everyone, .. } = *plan;
        State {
            unwinder: Unwinder::new(cpu),
            files: MappedFiles::new(readers.clone()),
            everyone,
            period_ns: plan.period_ns,
            has_chain: plan.reach == Reach::System,
            tree: HashSet::new(),
            loaded: Loaded::default(),
            events: HashSet::new(),
            ended: VecDeque::new(),
            reread: Reread::default(),
            rows: Vec::new(),
            n_rows: 0,
            began_ns: 0,
            kept: keeps.then(Kept::default),
            copies: Copies::default(),
            said_refused: false,
            said_many: false,
            pace: Pace::new(),
            waits: Some(Waits::new(cpu, everyone, readers.clone())),
            lost: HashMap::new(),
            lost_ns: 0,
            before_exec: HashSet::new(),
            doubted: HashSet::new(),
            pythons: Pythons::new(cpu, readers.clone()),
            late: HashSet::new(),
            descriptors: Descriptors::default(),
            seen: Seen::default(),
            records: 0,
            readers,
            silent: Vec::new(),
        }
    }

    /// The recording begins: what was noted so far holds from now on.
    pub(super) fn begin_at(&mut self, now: u64) {
        self.began_ns = now;
        self.rows.iter_mut().for_each(|row| row.monotonic_ns = now);
    }

    /// A process of the program that was there before the recording began.
    pub(super) fn add_process(&mut self, pid: i32, is_started: bool) {
        self.tree.insert(pid);
        if !is_started {
            self.before_exec.insert(pid);
        }
        if let Some(waits) = &mut self.waits {
            procs::threads(pid).into_iter().for_each(|tid| waits.add(pid, tid));
        }
        if is_started && let Some(mappings) = maps(pid, &self.readers) {
            self.unwinder.set_maps(pid, mappings);
        }
    }

    /// Watches the waits of all threads that there are, but for the kernel's, which have no stack of their own here, and ours. Most have
    /// waited for long: one after the other, so that those that begin to wait have their turn.
    pub(super) fn watch_all(&mut self) {
        const APART_NS: u64 = 8_000_000;
        let own = std::process::id() as i32;
        let mut from_ns = clock::monotonic_ns();
        for pid in procs::all() {
            if pid == own || pid == KTHREADD || procs::parent(pid) == KTHREADD {
                continue;
            }
            for tid in procs::threads(pid) {
                if let Some(waits) = &mut self.waits {
                    waits.add_from(pid, tid, from_ns);
                    from_ns += APART_NS;
                }
            }
        }
    }

    /// CPUs whose samples should be followed at once, since this was asked last: what they need
    /// changes.
    pub(super) fn take_late(&mut self) -> HashSet<u32> {
        std::mem::take(&mut self.late)
    }

    pub(super) fn add_event(&mut self, id: u64) {
        self.events.insert(id);
    }

    pub(super) fn tree(&self) -> &HashSet<i32> {
        &self.tree
    }

    /// Adds a change, with the present time.
    pub(super) fn row(&mut self, row: SamplingRow) {
        self.n_rows += 1;
        if self.n_rows <= ROWS_MAX {
            let monotonic_ns = clock::monotonic_ns();
            self.rows.push(SamplingRow { monotonic_ns, ..row });
        }
    }

    pub(super) fn take_rows(&mut self) -> Vec<SamplingRow> {
        match self.kept {
            None => std::mem::take(&mut self.rows),
            Some(_) => Vec::new(),
        }
    }

    pub(super) fn take_silent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.silent)
    }

    pub(super) fn take_log(&mut self) -> Vec<u8> {
        self.unwinder.interner.take_log()
    }

    /// A drain begins.
    pub(super) fn begin(&mut self) {
        self.pace.begin();
        self.pythons.begin();
    }

    /// A drain ends.
    pub(super) fn end(&mut self) {
        let now = clock::monotonic_ns();
        if let Some(change) = self.pace.end(now) {
            self.row(change);
        }
        self.forget_ended(now);
        if self.kept.is_some() {
            // The flight recorder's log is written from the tables.
            drop(self.unwinder.interner.take_log());
        }
    }

    /// Forgets the processes whose first thread ended long ago.
    fn forget_ended(&mut self, now: u64) {
        while let Some(&(time, pid)) = self.ended.front()
            && time + LINGER_NS <= now
        {
            self.ended.pop_front();
            self.forget_if_gone(pid, now);
        }
    }

    /// Forgets a process, unless others of its threads run on: then it is looked at again later.
    fn forget_if_gone(&mut self, pid: i32, now: u64) {
        let threads = crate::program::procs::threads(pid);
        if threads.iter().any(|&tid| tid != pid) {
            self.ended.push_back((now, pid));
            return;
        }
        self.unwinder.forget(pid);
        self.pythons.forget(pid);
        self.readers.forget(pid);
        self.tree.remove(&pid);
        self.before_exec.remove(&pid);
        self.doubted.remove(&pid);
    }

    /// Takes one record of the ring of `cpu`.
    pub(super) fn take(&mut self, record: Record<'_>, time: u64, cpu: u32) {
        self.records += 1;
        let taken = match record.kind {
            ring::SAMPLE => match self.seen.kind(&record) {
                Some(kind) => record.sample(false).map(|taken| self.switch_sample(&taken, kind)),
                None => record.sample(self.has_chain).map(|taken| self.sample(&taken)),
            },
            // The four records that say where code is, and whose; the numbers are those of perf_event_open(2).
            ring::MMAP2 => self.mapped(&record),
            ring::COMM => self.new_program(&record),
            ring::FORK => self.forked(&record),
            ring::EXIT => self.ended(&record, time),
            ring::LOST => self.lost(&record, cpu),
            ring::THROTTLE | ring::UNTHROTTLE => {
                self.throttled(record.kind == ring::UNTHROTTLE, time, cpu);
                Some(())
            }
            _ => Some(()),
        };
        debug_assert!(taken.is_some(), "a record of kind {} that is too short", record.kind);
    }

    fn is_ours(&self, pid: i32) -> bool {
        pid > 0 && (self.everyone || self.tree.contains(&pid))
    }

    fn mapped(&mut self, record: &Record<'_>) -> Option<()> {
        let pid = record.u32(8)? as i32;
        let device = (record.u32(40)?, record.u32(44)?);
        let (inode, path) = (record.u64(48)?, record.text(72)?);
        if self.tree.contains(&pid) {
            self.loaded.add(pid, &path, device, inode);
        }
        // A process whose other mappings are not known is read as a whole, when it is met.
        if !self.is_ours(pid) || !self.unwinder.knows(pid) {
            return Some(());
        }
        let (start, len, offset) = (record.u64(16)?, record.u64(24)?, record.u64(32)?);
        let inode = (inode, record.u64(56)?);
        let mapping = Mapping {
            start,
            end: start.saturating_add(len),
            offset,
            backing: backing(&path, inode, device),
        };
        self.unwinder.map(pid, mapping);
        Some(())
    }

    fn new_program(&mut self, record: &Record<'_>) -> Option<()> {
        let pid = record.u32(8)? as i32;
        if record.misc & ring::COMM_EXEC != 0 && self.is_ours(pid) {
            self.unwinder.set_maps(pid, Vec::new());
            self.pythons.forget(pid);
            self.before_exec.remove(&pid);
            self.doubted.remove(&pid);
            // Its memory is another one.
            self.readers.forget(pid);
            if let Some(waits) = &mut self.waits {
                waits.changed(pid);
            }
        }
        Some(())
    }

    fn forked(&mut self, record: &Record<'_>) -> Option<()> {
        let (pid, parent) = (record.u32(8)? as i32, record.u32(12)? as i32);
        let tid = record.u32(16)? as i32;
        if pid == parent {
            self.watch(pid, tid);
            return Some(());
        }
        self.new_process(pid, parent);
        if parent != KTHREADD {
            self.watch(pid, tid);
        }
        Some(())
    }

    fn new_process(&mut self, pid: i32, parent: i32) {
        // The number may have belonged to a process of the program before.
        if self.tree.remove(&pid) || self.unwinder.knows(pid) {
            self.unwinder.forget(pid);
            self.pythons.forget(pid);
            self.readers.forget(pid);
            self.ended.retain(|&(_, other)| other != pid);
        }
        if !self.is_ours(parent) {
            return;
        }
        if self.tree.len() < TREE_MAX {
            self.tree.insert(pid);
        } else if !self.everyone {
            self.say_many();
            return;
        }
        self.unwinder.fork(parent, pid);
        match self.doubted.contains(&parent) {
            true => self.doubted.insert(pid),
            false => self.doubted.remove(&pid),
        };
    }

    fn say_many(&mut self) {
        if !std::mem::replace(&mut self.said_many, true) {
            self.row(SamplingRow {
                source: "follow".to_owned(),
                on: true,
                reason: format!(
                    "more than {TREE_MAX} processes at one time: later ones are not sampled"
                ),
                ..SamplingRow::default()
            });
        }
    }

    fn watch(&mut self, pid: i32, tid: i32) {
        if self.is_ours(pid)
            && let Some(waits) = &mut self.waits
        {
            waits.add(pid, tid);
        }
    }

    /// Reads the stacks of threads that wait.
    pub(super) fn read_waits(&mut self) {
        self.with_waits(Waits::look);
        self.say_silent();
    }

    /// Takes the stacks that were asked for last.
    pub(super) fn last_waits(&mut self) {
        self.with_waits(Waits::finish);
        self.say_silent();
    }

    /// See [`super::Sampler::readers`].
    pub(super) fn readers(&self) -> Readers {
        self.readers.clone()
    }

    /// Says who did not answer.
    fn say_silent(&mut self) {
        let on = !self.readers.is_closed();
        for reason in self.readers.take_said() {
            self.silent.push(reason.clone());
            self.row(SamplingRow {
                source: "read".to_owned(),
                on,
                reason,
                ..SamplingRow::default()
            });
        }
    }

    fn with_waits(&mut self, look: impl FnOnce(&mut Waits, u64, &mut Follow<'_>) -> Vec<Wait>) {
        let Some(mut waits) = self.waits.take() else {
            return;
        };
        let now = clock::monotonic_ns();
        let found = look(&mut waits, now, &mut |pid, tid, registers, stack, time_ns| {
            self.find_code(pid, registers.ip, now);
            let user = Some((registers, stack));
            self.pythons.take_read();
            let python = &mut self.pythons.look(tid, Moment::Waits(time_ns));
            let began = clock::thread_cpu_ns();
            let (path, end) = (self.unwinder).unwind(pid, user, &[], &mut self.files, python);
            let took_ns = clock::thread_cpu_ns().saturating_sub(began);
            Followed { path, end, took_ns, is_of_now: self.pythons.take_read() }
        });
        for Wait { pid, tid, time_ns, path: Followed { path, end, .. }, at } in found {
            let interner = &mut self.unwinder.interner;
            let path = match at.filter(|_| path != NONE) {
                Some(at) => self.descriptors.add(at, path, interner),
                None => path,
            };
            self.keep(Sample {
                time_ns,
                pid,
                tid,
                cpu: 0,
                kind: SampleKind::BlockedRead,
                end,
                path,
            });
        }
        if std::mem::take(&mut waits.refused) > 0 && !self.said_refused {
            self.said_refused = true;
            self.row(SamplingRow {
                source: "read".to_owned(),
                on: true,
                reason: "the kernel refused to let some threads be read: programs that changed their user, or \
                         kernel.yama.ptrace_scope"
                    .to_owned(),
                ..SamplingRow::default()
            });
        }
        self.waits = Some(waits);
    }

    fn ended(&mut self, record: &Record<'_>, time: u64) -> Option<()> {
        let (pid, tid) = (record.u32(8)? as i32, record.u32(16)? as i32);
        if let Some(waits) = &mut self.waits {
            waits.remove(tid);
        }
        if pid == tid && (self.tree.contains(&pid) || self.unwinder.knows(pid)) {
            self.ended.push_back((time, pid));
        }
        Some(())
    }

    fn lost(&mut self, record: &Record<'_>, cpu: u32) -> Option<()> {
        let n = record.u64(16)?;
        let count = self.lost.entry(cpu).or_default();
        *count = count.saturating_add(n);
        self.seen.lost.insert(cpu);
        self.doubt();
        Some(())
    }

    /// Records were lost: the mappings of any process may have changed.
    fn doubt(&mut self) {
        self.doubted.extend(self.unwinder.pids());
    }

    /// Says what was lost, at most once a second.
    pub(super) fn say_lost(&mut self, now: u64) {
        if self.lost.is_empty() || now < self.lost_ns.saturating_add(1_000_000_000) {
            return;
        }
        self.lost_ns = now;
        for (cpu, lost) in std::mem::take(&mut self.lost) {
            self.row(SamplingRow {
                source: CLOCK.to_owned(),
                on: true,
                cpu: Some(cpu),
                period_ns: self.period_ns,
                lost,
                reason: "the recorder came too late: the ring was full".to_owned(),
                ..SamplingRow::default()
            });
        }
    }

    fn throttled(&mut self, on: bool, time: u64, cpu: u32) {
        self.n_rows += 1;
        if self.n_rows <= ROWS_MAX {
            self.rows.push(SamplingRow {
                monotonic_ns: time,
                source: CLOCK.to_owned(),
                on,
                cpu: Some(cpu),
                period_ns: self.period_ns,
                lost: 0,
                reason: match on {
                    true => "the kernel lets it go on".to_owned(),
                    false => {
                        "the kernel stopped it for a while: too many samples in one tick".to_owned()
                    }
                },
            });
        }
    }

    /// CPU time of what is done once for each file, whatever samples are taken, ns.
    pub(super) fn first_ns(&self) -> u64 {
        self.unwinder.counts.first_ns
    }

    /// Samples that the clock took of the program.
    pub(super) fn sampled(&self) -> u64 {
        self.pace.sampled()
    }

    /// Between fork and exec(2) a child runs the recorder's own code, which is not the program's.
    fn is_program(&self, pid: i32) -> bool {
        self.is_ours(pid) && !self.before_exec.contains(&pid)
    }

    fn sample(&mut self, taken: &Taken<'_>) {
        let common = taken.common;
        let is_taken = self.events.contains(&common.event) && common.time_ns >= self.began_ns;
        if !is_taken || !self.is_program(common.pid) {
            return;
        }
        if !self.pace.is_followed() {
            return;
        }
        let kernel = kernel_part(taken.chain);
        let end = self.follow(taken, &kernel, SampleKind::OnCpu);
        self.copies.add(end);
    }

    /// One from where a thread began to wait, or woke another.
    fn switch_sample(&mut self, taken: &Taken<'_>, kind: SampleKind) {
        // Threads of the kernel have no registers of a user.
        if self.is_program(taken.common.pid) && taken.registers.is_some() {
            let end = self.follow(taken, &[], kind);
            self.seen.judge(end);
        } else {
            self.seen.foreign += 1;
        }
    }

    /// Follows a stack and keeps the sample.
    fn follow(&mut self, taken: &Taken<'_>, kernel: &[u64], kind: SampleKind) -> PathEnd {
        let pid = taken.common.pid;
        let registers = taken.registers.map(|words| registers::from_perf(&words));
        if let Some(registers) = &registers {
            self.find_code(pid, registers.ip, taken.common.time_ns);
        }
        let user = registers.as_ref().zip(stack(taken));
        let python = &mut self.pythons.look(taken.common.tid, Moment::Before);
        let (path, end) = (self.unwinder).unwind(pid, user, kernel, &mut self.files, python);
        if self.pythons.take_late() {
            self.late.insert(taken.common.cpu);
        }
        self.keep(Sample {
            time_ns: taken.common.time_ns,
            pid,
            tid: taken.common.tid,
            cpu: taken.common.cpu,
            kind,
            end,
            path,
        });
        end
    }

    /// Adds a sample to the log, or to what the flight recorder keeps.
    fn keep(&mut self, sample: Sample) {
        match &mut self.kept {
            None => self.unwinder.interner.sample(&sample),
            Some(kept) => kept.push(sample),
        }
    }

    /// Sees to it that the code at `address` is known, where it can be. Mappings without a record: the process was there before the
    /// events were opened, or the record was lost. What a process had mapped before a loss may be of another program than what runs now:
    /// it is read anew, and where that is not possible nothing is known. Not of the same process again and again, where much is lost.
    fn find_code(&mut self, pid: i32, address: u64, now: u64) {
        if self.doubted.contains(&pid) && !self.reread.was_read(pid, now) {
            self.doubted.remove(&pid);
            self.unwinder.forget(pid);
        }
        if !self.unwinder.has_code_at(pid, address) {
            self.read_maps(pid, now);
        }
    }

    /// Reads the mappings of a process whose code is not known: it was not met before, or changed them without a word.
    fn read_maps(&mut self, pid: i32, now: u64) {
        if !self.reread.may(pid, now) {
            return;
        }
        let began = clock::thread_cpu_ns();
        if let Some(mappings) = maps(pid, &self.readers) {
            self.unwinder.set_maps(pid, mappings);
        }
        self.reread.used_ns += clock::thread_cpu_ns().saturating_sub(began);
    }

    /// Flight recorder: forgets what is older than `from_ns` (CLOCK_MONOTONIC).
    pub(super) fn keep_from(&mut self, from_ns: u64) {
        if let Some(kept) = &mut self.kept {
            kept.forget_before(from_ns);
            // The last row before the time says how samples were taken then.
            let old = self.rows.partition_point(|r| r.monotonic_ns < from_ns);
            self.rows.drain(..old.saturating_sub(1));
            self.n_rows = self.rows.len();
        }
        self.forget_unneeded(from_ns);
    }

    /// Flight recorder: forgets what no kept sample and no running process needs, where that has become much. It may run for months, and
    /// each program that comes and goes would leave its files, frames and paths behind, in memory and in each snapshot. Each time
    /// costs as much as there is, and is paid for by as many new rows. After a burst of them few come, so it is looked again once
    /// none of the samples is kept for which they were needed.
    fn forget_unneeded(&mut self, from_ns: u64) {
        let Some(kept) = &mut self.kept else {
            return;
        };
        let before = self.unwinder.n_remembered();
        if !kept.is_due(before, from_ns) {
            return;
        }
        self.unwinder.keep(kept.needed());
        let interner = &mut self.unwinder.interner;
        self.descriptors.keep(interner);
        self.pythons.keep(interner);
        kept.looked(before, self.unwinder.n_remembered(), from_ns);
        // A record that was lost may have told of the end of these.
        let now = clock::monotonic_ns();
        let known: HashSet<i32> = self.unwinder.pids().into_iter().collect();
        let gone = known.union(&self.tree).filter(|&&pid| procs::start_time(pid).is_none());
        self.ended.extend(gone.map(|&pid| (now, pid)));
        crate::host::trim_memory();
    }

    /// Flight recorder: the log of what is kept, with all tables, since later snapshots need them again.
    pub(super) fn snapshot(&mut self, from_ns: u64) -> (Vec<u8>, Vec<SamplingRow>) {
        self.keep_from(from_ns);
        let mut log = LogWriter::default();
        let tables = self.unwinder.interner.tables();
        log.tables(tables);
        tables.names.iter().for_each(|n| log.names(n));
        self.kept.iter().flat_map(Kept::samples).for_each(|s| log.sample(s));
        let mut rows = self.rows.clone();
        let lost = self.kept.as_ref().map_or(0, Kept::n_dropped);
        if lost > 0 {
            rows.push(SamplingRow {
                monotonic_ns: clock::monotonic_ns(),
                source: "follow".to_owned(),
                on: true,
                lost,
                reason: format!(
                    "a flight recorder keeps the last {KEPT_MAX} samples of call paths: those before have none"
                ),
                ..SamplingRow::default()
            });
        }
        (log.take(), rows)
    }
}

/// The copy of the stack; of 32-bit programs none, since nobody here can follow it.
fn stack<'a>(taken: &Taken<'a>) -> Option<Stack<'a>> {
    let words = taken.registers?;
    let registers = registers::from_perf(&words);
    let (bytes, is_cut) = match taken.is_64_bit {
        true => (taken.stack, taken.is_cut),
        false => (&[][..], false),
    };
    Some(Stack { base: registers.get(Cpu::own()?.sp())?, bytes, is_cut })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_format::call_paths::{Frame, Module, read_log};

    /// Larger than any number that the kernel gives, so that no such process lives.
    const NOBODY: i32 = 1 << 30;

    fn state() -> Option<State> {
        let mut state =
            State::new(&Plan::of(Cpu::own()?, Reach::Own, false), false, Readers::default());
        state.tree.insert(NOBODY);
        Some(state)
    }

    #[test]
    fn mappings_are_read_anew_within_a_share_of_a_cpu() {
        let mut reread = Reread::default();
        let now = 5 * REREAD_NS;
        assert!(reread.may(1, now) && !reread.may(1, now + 1), "once");
        let others = (2..100).filter(|&pid| reread.may(pid, now));
        assert_eq!(others.count(), REREADS_MAX - 1);
        assert!(reread.may(1, now + REREAD_NS), "a while later again");
        reread.used_ns += REREADS_NS;
        assert!(!reread.may(2, now + REREAD_NS), "it took too long");
        assert!(reread.may(2, now + 2 * REREAD_NS));
    }

    /// After a loss a process may run another program: what was mapped before says nothing of it, as of a child that it forks then.
    #[test]
    fn what_was_mapped_before_a_loss_is_not_taken_for_what_is_there_now() {
        let Some(mut state) = state() else { return };
        let own = std::process::id() as i32;
        let mapping = |start| Mapping {
            start,
            end: start + 4096,
            offset: 0,
            backing: backing("/bin/before", (1, 0), (8, 1)),
        };
        // Where nothing is mapped, in no process.
        let (before, code) = (
            4096,
            what_was_mapped_before_a_loss_is_not_taken_for_what_is_there_now as fn() as usize
                as u64,
        );
        for pid in [NOBODY, own] {
            state.tree.insert(pid);
            state.unwinder.set_maps(pid, vec![mapping(before)]);
            state.find_code(pid, before, 5 * REREAD_NS);
            assert!(state.unwinder.has_code_at(pid, before), "nothing was lost");
        }
        state.doubt();
        state.new_process(NOBODY + 1, NOBODY);
        for pid in [NOBODY, NOBODY + 1, own] {
            state.find_code(pid, before, 5 * REREAD_NS);
            assert!(!state.unwinder.has_code_at(pid, before), "{pid}");
        }
        assert!(state.unwinder.has_code_at(own, code), "what is there now is known");
        // A moment later it counts as read; an exec that is told of ends the doubt.
        state.unwinder.set_maps(own, vec![mapping(before)]);
        state.doubt();
        state.find_code(own, before, 5 * REREAD_NS + 1);
        assert!(state.unwinder.has_code_at(own, before));
        state.find_code(own, before, 6 * REREAD_NS);
        assert!(!state.unwinder.has_code_at(own, before));
    }

    #[test]
    fn processes_one_after_the_other_are_sampled_whatever_their_number() {
        let Some(mut state) = state() else { return };
        for n in 1..100 {
            let (pid, time) = (NOBODY + n, n as u64 * LINGER_NS);
            state.new_process(pid, NOBODY);
            assert!(state.is_ours(pid), "the process number {n}");
            state.ended.push_back((time, pid));
            state.forget_ended(time + LINGER_NS);
            assert!(!state.is_ours(pid), "the process number {n} has ended");
        }
        assert!(state.rows.is_empty());
    }

    /// However many programs come and go: memory and snapshots have what the kept samples need.
    #[test]
    fn a_flight_recorder_of_months_remembers_the_paths_of_what_it_keeps() {
        let Some(cpu) = Cpu::own() else { return };
        let mut state = State::new(&Plan::of(cpu, Reach::System, true), true, Readers::default());
        for n in 0..10_000u64 {
            let interner = &mut state.unwinder.interner;
            let module = interner.module(Module { path: format!("/bin/{n}"), ..Module::default() });
            let frame = interner.frame(Frame { module, address: n });
            let path = interner.path(NONE, frame);
            let path = state.descriptors.add(format!("file /tmp/{}", n / 5), path, interner);
            state.keep(Sample { time_ns: n, path, ..Sample::default() });
            state.keep_from(n.saturating_sub(5));
            let rows = state.unwinder.n_remembered();
            assert!(rows <= 128, "{rows} after {n}");
        }
        let (bytes, rows) = state.snapshot(9_994);
        let log = read_log(&bytes, 0).0;
        assert_eq!(log.samples.len(), 6);
        for sample in &log.samples {
            let tables = &log.tables;
            let inner = tables.paths[sample.path as usize];
            let outer = tables.frames[tables.paths[inner.caller as usize].frame as usize];
            assert_eq!(outer.address, sample.time_ns);
            let module = &tables.modules[outer.module as usize];
            assert_eq!(module.path, format!("/bin/{}", sample.time_ns));
            let name = tables.names.iter().find(|n| n.frame == inner.frame);
            let expected = format!("file /tmp/{}", sample.time_ns / 5);
            assert_eq!(name.unwrap().calls[0].function, expected);
        }
        assert!(rows.is_empty(), "{rows:?}");
    }

    /// A program that calls itself in ever new ways fills the tables, and then behaves: what it filled is given back, although no
    /// more come that would be a reason to look. What is needed for long is not looked at again and again.
    #[test]
    fn a_burst_of_new_paths_is_forgotten_with_its_samples() {
        let Some(cpu) = Cpu::own() else { return };
        let mut state = State::new(&Plan::of(cpu, Reach::System, true), true, Readers::default());
        let sample = |state: &mut State, time_ns: u64, address: u64| {
            let interner = &mut state.unwinder.interner;
            let module = interner.module(Module::default());
            let mut path = NONE;
            for depth in 0..50 {
                let frame = interner.frame(Frame { module, address: address + depth });
                path = interner.path(path, frame);
            }
            state.keep(Sample { time_ns, path, ..Sample::default() });
            state.keep_from(time_ns.saturating_sub(50));
        };
        for n in 0..100 {
            sample(&mut state, n, n * 100);
        }
        let full = state.unwinder.n_remembered();
        assert!(full >= 50 * 100, "{full}");
        for n in 100..300 {
            sample(&mut state, n, 7);
        }
        let left = state.unwinder.n_remembered();
        assert!(left <= 2 * 100, "{left} of {full}");
        // All of it is needed now: looks become rare.
        let mut looks = 0;
        for n in 300..5000 {
            let before = state.kept.as_ref().map(Kept::next_look_ns);
            sample(&mut state, n, 7);
            looks += u32::from(state.kept.as_ref().map(Kept::next_look_ns) != before);
        }
        assert!((1..=8).contains(&looks), "{looks}");
    }

    #[test]
    fn samples_of_the_kept_time_that_had_no_room_are_told() {
        let Some(cpu) = Cpu::own() else { return };
        let mut state = State::new(&Plan::of(cpu, Reach::System, true), true, Readers::default());
        for n in 0..KEPT_MAX as u64 + 7 {
            state.keep(Sample { time_ns: n * 1_000_000_000, path: NONE, ..Sample::default() });
        }
        let (_, rows) = state.snapshot(3 * 1_000_000_000);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].lost, 4, "three are older than what is kept");
        let (_, rows) = state.snapshot(100 * 1_000_000_000);
        assert!(rows.is_empty(), "{rows:?}");
    }

    #[test]
    fn too_many_processes_at_one_time_are_said_once() {
        let Some(mut state) = state() else { return };
        for n in 1..10 {
            state.new_process(NOBODY + n, NOBODY);
        }
        assert_eq!(state.tree.len(), TREE_MAX);
        let reasons: Vec<&str> = state.rows.iter().map(|r| r.reason.as_str()).collect();
        assert_eq!(reasons, ["more than 4 processes at one time: later ones are not sampled"]);
    }

    #[test]
    fn a_process_whose_first_thread_ended_stays_while_others_run() {
        let Some(mut state) = state() else { return };
        let pid = std::process::id() as i32;
        let (tell, wait) = std::sync::mpsc::channel::<()>();
        // A thread that is not the first one, whatever runs this test.
        let thread = std::thread::spawn(move || wait.recv());
        state.tree.insert(pid);
        state.ended.push_back((0, pid));
        state.forget_ended(LINGER_NS);
        assert!(state.is_ours(pid));
        assert_eq!(state.ended, [(LINGER_NS, pid)], "it is looked at again");
        drop(tell);
        thread.join().unwrap().unwrap_err();
    }
}
