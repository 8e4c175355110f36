//! What each thread and each CPU is doing, and the sums of the window so far.
//!
//! Sums are added when a state ends, or when the window does ([`State::close`]), so an event touches two threads and one CPU.
//!
//! A wait for a CPU is divided by what that CPU did meanwhile: each CPU counts the time that it ran threads, of all processes and of
//! each ([`Cpu::ran`], [`Cpu::ran_of`]); what these counts rose by between the beginning of a wait and its end is what others, and
//! the thread's own process, ran there.
//!
//! Numbers of threads index a table directly (the kernel allows 2^22), and processes have dense numbers of their own, which are used
//! again when a process has ended: nothing is hashed for an event.
use crate::events::{Comm, Event};
use crate::latency::Latencies;
use crate::window::{ProcessRow, ThreadRow, Wait, Window, Worst};
use kasuri_model::ThreadState;
use std::collections::HashMap;
use std::num::NonZeroU64;

/// The largest number of a thread: PID_MAX_LIMIT (include/linux/threads.h).
const TID_MAX: usize = 1 << 22;
/// No thread has this place.
const NOBODY: u32 = u32::MAX;
/// The process of threads whose process is not known.
const UNKNOWN: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    /// No event has shown it yet.
    Unknown,
    Running,
    /// In the queue of its CPU, since it was woken or preempted: see [`Queued`].
    Waiting,
    Asleep,
    Disk,
    /// Stopped, parked, idle, or not started yet.
    Other,
    Ended,
}

/// A wait that has not ended: when the thread was woken, if it was, and what its CPU had run so far.
#[derive(Clone, Copy, Debug, Default)]
struct Queued {
    woken: Option<NonZeroU64>,
    ran: u64,
    ran_of: u64,
}

/// The sums of a thread in the window, ns.
#[derive(Debug, Default)]
struct Sums {
    run: u64,
    wait: Wait,
    asleep: u64,
    disk: u64,
    unknown: u64,
    blocked: u32,
    preempted: u32,
}

impl Sums {
    fn total_ns(&self) -> u64 {
        self.run + self.wait.sum_ns() + self.asleep + self.disk + self.unknown
    }
}

/// Two lines of the cache: a switch touches two threads, and of thousands that take turns few are in the cache.
#[derive(Debug)]
#[repr(align(64))]
struct Thread {
    doing: Doing,
    /// It was woken while it ran: it is about to sleep, or has changed its mind.
    woken_early: bool,
    tid: i32,
    process: u32,
    /// Where it ran last or waits.
    cpu: u32,
    /// From here on its time is not in the sums yet.
    since: u64,
    queued: Queued,
    comm: Comm,
    sums: Sums,
}

const _: () = assert!(size_of::<Thread>() == 128);

#[derive(Debug, Default)]
struct Process {
    pid: i32,
    name: String,
    /// Threads that have not ended.
    alive: usize,
    latencies: Latencies,
}

#[derive(Debug, Default)]
struct Cpu {
    number: u32,
    /// The thread's place; `NOBODY` with `is_known`: idle.
    runs: u32,
    is_known: bool,
    /// It has had no switch and no gap yet.
    is_new: bool,
    since: u64,
    last_event: u64,
    busy_ns: u64,
    idle_ns: u64,
    unknown_ns: u64,
    /// Time that it ran threads, ns, ever.
    ran: u64,
    /// The same by process.
    ran_of: Vec<u64>,
}

impl Cpu {
    /// Adds the time up to `now` to its sums. `process`: that of the thread that it runs.
    fn settle(&mut self, now: u64, process: usize) {
        let ns = now.saturating_sub(self.since);
        self.since += ns;
        match (self.is_known, self.runs) {
            (false, _) => self.unknown_ns += ns,
            (true, NOBODY) => self.idle_ns += ns,
            (true, _) => {
                self.busy_ns += ns;
                self.ran += ns;
                if self.ran_of.len() <= process {
                    self.ran_of.resize(process + 1, 0);
                }
                self.ran_of[process] += ns;
            }
        }
    }

    fn ran_of(&self, process: usize) -> u64 {
        self.ran_of.get(process).copied().unwrap_or(0)
    }
}

/// All of it.
#[derive(Debug)]
pub(crate) struct State {
    threads: Vec<Thread>,
    /// Places of threads by their number.
    places: Vec<u32>,
    /// Places whose thread has ended and was reported.
    free: Vec<u32>,
    processes: Vec<Process>,
    by_pid: HashMap<i32, usize>,
    free_processes: Vec<usize>,
    cpus: Vec<Cpu>,
    /// Positions of CPUs by their number.
    positions: Vec<usize>,
    window: Window,
}

impl State {
    pub(crate) fn new(cpus: &[u32], now: u64) -> State {
        let made = cpus.iter().map(|&number| Cpu {
            number,
            runs: NOBODY,
            is_new: true,
            since: now,
            last_event: now,
            ..Cpu::default()
        });
        let most = cpus.iter().max().map_or(0, |&max| max as usize + 1);
        let mut positions = vec![usize::MAX; most];
        for (ix, &number) in cpus.iter().enumerate() {
            positions[number as usize] = ix;
        }
        State {
            threads: Vec::new(),
            places: Vec::new(),
            free: Vec::new(),
            processes: vec![Process::default()],
            by_pid: HashMap::new(),
            free_processes: Vec::new(),
            cpus: made.collect(),
            positions,
            window: Window { start_ns: now, n_cpus: cpus.len(), ..Window::default() },
        }
    }

    /// The place of a thread, which is made if it is new; `None`: this is no thread.
    fn place(&mut self, tid: i32, now: u64) -> Option<usize> {
        let ix = usize::try_from(tid).ok().filter(|&n| n > 0 && n < TID_MAX)?;
        if self.places.len() <= ix {
            self.places.resize(ix + 1, NOBODY);
        }
        if self.places[ix] == NOBODY {
            // It has been there at least as long as the window, or its birth would have been seen.
            self.places[ix] = self.make(tid, UNKNOWN, self.window.start_ns.min(now));
        }
        Some(self.places[ix] as usize)
    }

    fn make(&mut self, tid: i32, process: usize, since: u64) -> u32 {
        self.processes[process].alive += 1;
        let thread = Thread {
            doing: Doing::Unknown,
            woken_early: false,
            tid,
            process: process as u32,
            cpu: 0,
            since,
            queued: Queued::default(),
            comm: [0; 16],
            sums: Sums::default(),
        };
        match self.free.pop() {
            Some(place) => {
                self.threads[place as usize] = thread;
                place
            }
            None => {
                self.threads.push(thread);
                self.threads.len() as u32 - 1
            }
        }
    }

    fn process(&mut self, pid: i32) -> usize {
        if let Some(&known) = self.by_pid.get(&pid) {
            return known;
        }
        let made = Process { pid, ..Process::default() };
        let ix = match self.free_processes.pop() {
            Some(ix) => {
                self.processes[ix] = made;
                ix
            }
            None => {
                self.processes.push(made);
                self.processes.len() - 1
            }
        };
        self.by_pid.insert(pid, ix);
        ix
    }

    pub(crate) fn learn(&mut self, pid: i32, tid: i32, name: &str) {
        let start = self.window.start_ns;
        let Some(place) = self.place(tid, start) else {
            return;
        };
        let process = self.process(pid);
        self.move_to(place, process);
        let mut comm = [0; 16];
        for (to, &from) in comm.iter_mut().zip(name.as_bytes()) {
            *to = from;
        }
        self.rename(place, &comm);
    }

    fn move_to(&mut self, place: usize, process: usize) {
        let before = std::mem::replace(&mut self.threads[place].process, process as u32);
        if before != process as u32 {
            self.processes[before as usize].alive -= 1;
            self.processes[process].alive += 1;
        }
    }

    fn rename(&mut self, place: usize, comm: &Comm) {
        let thread = &mut self.threads[place];
        if *comm == [0; 16] || thread.comm == *comm {
            return;
        }
        thread.comm = *comm;
        let process = &mut self.processes[thread.process as usize];
        if process.pid == thread.tid {
            process.name = text(comm);
        }
    }

    pub(crate) fn unknown(&self, most: usize) -> Vec<i32> {
        let unknown =
            self.threads.iter().filter(|t| t.process == UNKNOWN as u32 && t.doing != Doing::Ended);
        unknown.map(|t| t.tid).take(most).collect()
    }

    /// Adds a CPU's time up to `now`. That of one without a switch yet stays open: its first switch, or the end of the window, says
    /// what it did.
    #[inline]
    fn settle_cpu(&mut self, ix: usize, now: u64) {
        let cpu = &mut self.cpus[ix];
        if cpu.since >= now || cpu.is_new {
            return;
        }
        let process = match cpu.runs {
            NOBODY => UNKNOWN,
            place => self.threads[place as usize].process as usize,
        };
        cpu.settle(now, process);
    }

    /// Adds a thread's time up to `now`, and returns when it was woken if it has been waiting since.
    fn settle(&mut self, place: usize, now: u64) -> Option<NonZeroU64> {
        let (cpu, doing) = (self.threads[place].cpu as usize, self.threads[place].doing);
        if doing == Doing::Waiting {
            self.settle_cpu(cpu, now);
        }
        let thread = &mut self.threads[place];
        let ns = now.saturating_sub(thread.since);
        thread.since += ns;
        let sums = &mut thread.sums;
        match doing {
            Doing::Unknown => sums.unknown += ns,
            Doing::Running => sums.run += ns,
            Doing::Asleep | Doing::Other => sums.asleep += ns,
            Doing::Disk => sums.disk += ns,
            Doing::Ended => {}
            Doing::Waiting => {
                let cpu = &self.cpus[cpu];
                let now_of = cpu.ran_of(thread.process as usize);
                let queued = &mut thread.queued;
                // A CPU's stamps may be a little before those of the CPU that woke the thread.
                let all = cpu.ran.saturating_sub(queued.ran).min(ns);
                let own = now_of.saturating_sub(queued.ran_of).min(all);
                (queued.ran, queued.ran_of) = (cpu.ran, now_of);
                sums.wait.add(&Wait { own_ns: own, others_ns: all - own, idle_ns: ns - all });
                return queued.woken;
            }
        }
        None
    }

    /// Lets a thread wait for a CPU, from now on.
    fn wait(&mut self, place: usize, cpu: usize, now: u64, woken: Option<NonZeroU64>) {
        self.settle_cpu(cpu, now);
        let thread = &mut self.threads[place];
        let of = &self.cpus[cpu];
        thread.cpu = cpu as u32;
        thread.doing = Doing::Waiting;
        thread.queued = Queued { woken, ran: of.ran, ran_of: of.ran_of(thread.process as usize) };
    }

    fn position(&self, number: i32) -> Option<usize> {
        let ix = usize::try_from(number).ok()?;
        self.positions.get(ix).copied().filter(|&ix| ix != usize::MAX)
    }

    pub(crate) fn apply(&mut self, cpu: usize, now: u64, event: &Event) {
        self.window.events += 1;
        match *event {
            Event::Switch { prev, prev_state, next, next_comm } => {
                self.window.switches += 1;
                self.leave(cpu, now, prev, prev_state);
                self.enter(cpu, now, next, &next_comm);
            }
            Event::Waking { tid, cpu: on } => self.wake(tid, self.position(on), now),
            Event::Migrate { tid, cpu: to } => {
                if let (Some(place), Some(to)) = (self.place(tid, now), self.position(to))
                    && self.threads[place].doing == Doing::Waiting
                {
                    let woken = self.settle(place, now);
                    self.wait(place, to, now, woken);
                }
            }
            Event::New { tid, parent, is_thread, comm } => {
                self.born(tid, parent, is_thread, &comm, now)
            }
        }
        self.cpus[cpu].last_event = now;
    }

    fn born(&mut self, tid: i32, parent: i32, is_thread: bool, comm: &Comm, now: u64) {
        let of_parent = self.place(parent, now).map(|place| self.threads[place].process as usize);
        // Its number may have had an owner, whose end was not seen.
        if let Some(ix) = usize::try_from(tid).ok().filter(|&ix| ix < self.places.len())
            && self.places[ix] != NOBODY
        {
            let before = &self.threads[self.places[ix] as usize];
            if before.doing == Doing::Running {
                self.lose(before.cpu as usize);
            }
            self.end(self.places[ix] as usize, now);
        }
        let process = match (is_thread, of_parent) {
            (true, Some(process)) => process,
            (true, None) => UNKNOWN,
            (false, _) => self.process(tid),
        };
        if let Some(place) = self.place(tid, now) {
            self.move_to(place, process);
            let thread = &mut self.threads[place];
            (thread.since, thread.doing) = (now, Doing::Other);
            self.rename(place, comm);
        }
    }

    fn end(&mut self, place: usize, now: u64) {
        self.settle(place, now);
        let thread = &mut self.threads[place];
        if thread.doing == Doing::Ended {
            return;
        }
        thread.doing = Doing::Ended;
        self.processes[thread.process as usize].alive -= 1;
        let number = thread.tid as usize;
        if self.places[number] == place as u32 {
            self.places[number] = NOBODY;
        }
    }

    fn wake(&mut self, tid: i32, cpu: Option<usize>, now: u64) {
        self.window.wakeups += 1;
        let Some(place) = self.place(tid, now) else {
            return;
        };
        match self.threads[place].doing {
            Doing::Running => self.threads[place].woken_early = true,
            Doing::Waiting | Doing::Ended => {}
            _ => {
                self.settle(place, now);
                let cpu = cpu.unwrap_or(self.threads[place].cpu as usize);
                self.wait(place, cpu, now, NonZeroU64::new(now));
            }
        }
    }

    /// The thread that was on the CPU leaves it.
    fn leave(&mut self, cpu: usize, now: u64, prev: i32, state: ThreadState) {
        let place = self.place(prev, now);
        let was = place.map_or(NOBODY, |place| place as u32);
        let of = &mut self.cpus[cpu];
        let is_new = std::mem::take(&mut of.is_new);
        let is_hidden = of.is_known && of.runs != was;
        if is_hidden {
            self.lose(cpu);
        } else if is_new && was == NOBODY {
            // No switch came before this one: it has been idle all the time.
            of.is_known = true;
        }
        if let Some(place) = place
            && !(self.cpus[cpu].is_known && self.cpus[cpu].runs == was)
        {
            self.found(cpu, place, is_new, is_hidden);
        }
        self.settle_cpu(cpu, now);
        let Some(place) = place else { return };
        self.settle(place, now);
        match state {
            ThreadState::Dead => self.end(place, now),
            ThreadState::RunnablePreempted | ThreadState::RunnableWoken => {
                self.threads[place].sums.preempted += 1;
                // The CPU is another's from here on, which `enter` will say.
                self.cpus[cpu].runs = NOBODY;
                self.wait(place, cpu, now, None);
            }
            _ => {
                let thread = &mut self.threads[place];
                thread.sums.blocked += 1;
                thread.doing = match state {
                    ThreadState::DiskSleep => Doing::Disk,
                    ThreadState::Sleeping => Doing::Asleep,
                    _ => Doing::Other,
                };
                // It was woken before it slept: it is in the queue, although the event says that it sleeps.
                if std::mem::take(&mut thread.woken_early) && state == ThreadState::Sleeping {
                    self.cpus[cpu].runs = NOBODY;
                    self.wait(place, cpu, now, None);
                }
            }
        }
    }

    /// What the CPU did since its last event is not known, nor what the thread did that was thought to run there. What was added
    /// to the sums since then stays there, of both.
    fn lose(&mut self, cpu: usize) {
        self.settle_cpu(cpu, self.cpus[cpu].last_event);
        let of = &mut self.cpus[cpu];
        let (since, thought) = (of.since, of.runs);
        (of.is_known, of.runs) = (false, NOBODY);
        if thought != NOBODY {
            self.settle(thought as usize, since);
            self.threads[thought as usize].doing = Doing::Unknown;
        }
    }

    /// The thread leaves a CPU that was not known to run it, so it was there. Since when is known if the CPU had no switch at all
    /// (`is_new`), and of a thread that waited for a CPU if one switch was not reported (`is_hidden`).
    fn found(&mut self, cpu: usize, place: usize, is_new: bool, is_hidden: bool) {
        let doing = self.threads[place].doing;
        if doing == Doing::Running {
            self.lose(self.threads[place].cpu as usize);
        }
        let from = self.cpus[cpu].since.max(self.threads[place].since);
        self.settle(place, from);
        self.settle_cpu(cpu, from);
        let is_known = match doing {
            Doing::Waiting => is_new || is_hidden,
            Doing::Unknown => is_new,
            _ => false,
        };
        let thread = &mut self.threads[place];
        thread.doing = Doing::Unknown;
        if is_known {
            (thread.doing, thread.cpu) = (Doing::Running, cpu as u32);
            (self.cpus[cpu].is_known, self.cpus[cpu].runs) = (true, place as u32);
        }
    }

    /// A thread, or none, gets the CPU.
    fn enter(&mut self, cpu: usize, now: u64, next: i32, comm: &Comm) {
        let place = self.place(next, now);
        self.settle_cpu(cpu, now);
        let Some(place) = place else {
            (self.cpus[cpu].is_known, self.cpus[cpu].runs) = (true, NOBODY);
            return;
        };
        let before = self.threads[place].cpu as usize;
        if self.threads[place].doing == Doing::Running && before != cpu {
            // It left that CPU by a switch that was not reported.
            self.lose(before);
        }
        if let Some(woken) = self.settle(place, now) {
            self.count_latency(place, cpu, now, now.saturating_sub(woken.get()));
        }
        let thread = &mut self.threads[place];
        thread.doing = Doing::Running;
        thread.cpu = cpu as u32;
        thread.woken_early = false;
        (self.cpus[cpu].is_known, self.cpus[cpu].runs) = (true, place as u32);
        self.rename(place, comm);
    }

    fn count_latency(&mut self, place: usize, cpu: usize, now: u64, ns: u64) {
        let thread = &self.threads[place];
        self.processes[thread.process as usize].latencies.add(ns);
        if self.window.worst.as_ref().is_none_or(|worst| worst.ns < ns) {
            self.window.worst = Some(Worst {
                ns,
                at_ns: now,
                tid: thread.tid,
                name: text(&thread.comm),
                cpu: self.cpus[cpu].number,
            });
        }
    }

    /// Events of a CPU were lost: what it and the threads last seen there do is not known.
    pub(crate) fn gap(&mut self, cpu: usize, now: u64) {
        self.window.gaps += 1;
        self.settle_cpu(cpu, self.cpus[cpu].last_event.min(now));
        let since = self.cpus[cpu].since;
        for place in 0..self.threads.len() {
            let thread = &self.threads[place];
            if thread.cpu == cpu as u32 && thread.doing != Doing::Ended {
                self.settle(place, since.max(thread.since));
                self.threads[place].doing = Doing::Unknown;
            }
        }
        let of = &mut self.cpus[cpu];
        (of.is_known, of.is_new, of.runs) = (false, false, NOBODY);
    }

    /// Ends the window.
    pub(crate) fn close(&mut self, now: u64, damaged: u64) -> Window {
        for ix in 0..self.cpus.len() {
            if self.cpus[ix].is_new {
                self.cpus[ix].settle(now, UNKNOWN);
            } else {
                self.settle_cpu(ix, now);
            }
        }
        for place in 0..self.threads.len() {
            self.settle(place, now);
        }
        let next = Window { start_ns: now, n_cpus: self.cpus.len(), ..Window::default() };
        let mut window = std::mem::replace(&mut self.window, next);
        window.end_ns = now;
        window.gaps += damaged;
        for cpu in &mut self.cpus {
            window.busy_ns += std::mem::take(&mut cpu.busy_ns);
            window.idle_ns += std::mem::take(&mut cpu.idle_ns);
            window.unknown_ns += std::mem::take(&mut cpu.unknown_ns);
        }
        window.processes = self.rows(&mut window.threads, window.end_ns - window.start_ns.min(now));
        for process in &window.processes {
            window.latencies.merge(&process.latencies);
        }
        self.forget();
        window
    }

    /// Rows of threads and of processes.
    fn rows(&mut self, threads: &mut Vec<ThreadRow>, length: u64) -> Vec<ProcessRow> {
        let mut rows: Vec<ProcessRow> = self
            .processes
            .iter_mut()
            .map(|process| ProcessRow {
                pid: process.pid,
                name: process.name.clone(),
                latencies: std::mem::take(&mut process.latencies),
                ..ProcessRow::default()
            })
            .collect();
        let mut busy: Vec<(u64, u64, u64)> = vec![(0, 0, 0); rows.len()];
        for thread in &mut self.threads {
            let sums = std::mem::take(&mut thread.sums);
            let has_ended = thread.doing == Doing::Ended;
            // A place whose thread was reported before.
            if has_ended && sums.total_ns() == 0 && thread.comm == [0; 16] {
                continue;
            }
            let process = &mut rows[thread.process as usize];
            let row = ThreadRow {
                pid: process.pid,
                tid: thread.tid,
                name: text(&thread.comm),
                run_ns: sums.run,
                wait: sums.wait,
                asleep_ns: sums.asleep,
                disk_ns: sums.disk,
                unknown_ns: sums.unknown,
                blocked: u64::from(sums.blocked),
                preempted: u64::from(sums.preempted),
                is_blocked: matches!(thread.doing, Doing::Asleep | Doing::Disk | Doing::Unknown),
                has_ended,
            };
            process.n_threads += 1;
            process.run_ns += row.run_ns;
            process.wait.add(&row.wait);
            process.asleep_ns += row.asleep_ns;
            process.disk_ns += row.disk_ns;
            process.unknown_ns += row.unknown_ns;
            process.blocked += row.blocked;
            process.preempted += row.preempted;
            if row.run_ns >= length / 100 && row.run_ns > 0 {
                let (n, sum, max) = &mut busy[thread.process as usize];
                (*n, *sum, *max) = (*n + 1, *sum + row.run_ns, (*max).max(row.run_ns));
            }
            threads.push(row);
        }
        for (row, &(n, sum, max)) in rows.iter_mut().zip(&busy) {
            row.imbalance = (n > 1).then(|| 1.0 - sum as f64 / n as f64 / max as f64);
        }
        rows.retain(|row| row.n_threads > 0);
        rows.sort_by_key(|row| (std::cmp::Reverse(row.run_ns), row.pid));
        threads.sort_by_key(|row| (std::cmp::Reverse(row.run_ns), row.tid));
        rows
    }

    /// Gives back the places of what has ended.
    fn forget(&mut self) {
        let is_free: std::collections::HashSet<u32> = self.free.iter().copied().collect();
        for (place, thread) in self.threads.iter_mut().enumerate() {
            if thread.doing == Doing::Ended && !is_free.contains(&(place as u32)) {
                thread.comm = [0; 16];
                self.free.push(place as u32);
            }
        }
        for ix in 1..self.processes.len() {
            let process = &mut self.processes[ix];
            if process.alive == 0 && process.pid != 0 {
                self.by_pid.remove(&process.pid);
                *process = Process::default();
                self.free_processes.push(ix);
                for cpu in &mut self.cpus {
                    if let Some(ran) = cpu.ran_of.get_mut(ix) {
                        *ran = 0;
                    }
                }
            }
        }
    }
}

/// A name as the kernel writes it, up to its first NUL.
fn text(comm: &Comm) -> String {
    let end = comm.iter().position(|&b| b == 0).unwrap_or(comm.len());
    String::from_utf8_lossy(&comm[..end]).into_owned()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
