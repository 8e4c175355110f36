//! Maps numbers to threads and processes while the events go by: tid -> the thread that has it now, pid -> its process.
//!
//! Rows are made when first needed and put in their final order at the end ([`Order`]).
use crate::hidden_run::HiddenRun;
use crate::input::Setup;
pub(crate) use crate::state_log::NONE;
use crate::state_log::{LoggedState, StateLog, StateLogs};
use crate::{Duration, Process, ProcessIx, StrIx, Strings, Thread, ThreadIx, ThreadState, Time};
use std::collections::HashMap;

/// tids beyond this are not given out by any Linux (PID_MAX_LIMIT) and take the slow path: the dense table must
/// not become gigabytes because of one damaged number.
const DENSE: i32 = 1 << 22;

/// A thread as the passes know it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub tid: i32,
    /// Row of [`Table::processes`].
    pub process: u32,
    /// Last known name.
    pub name: StrIx,
    pub start: Time,
    /// `Time::MAX`: alive.
    pub end: Time,
    /// That it is of this process is a guess.
    pub guessed: bool,
    /// Born in the recording and not woken yet.
    pub fresh: bool,
    pub dead: bool,
    /// Its last switch said that it is dead, which a zombie that sleeps once more on its way out says too.
    pub zombie: bool,
    pub state: ThreadState,
    /// CPU it is on, queued on, or was last on; u16::MAX: unknown.
    pub cpu: u16,
    /// Its states so far.
    pub states: StateLog,
    /// Wake-up that has not led to running yet.
    pub pending: u32,
    /// That wake-up came while it was still on a CPU.
    pub early: bool,
    /// CPU on which it was woken, until it is moved: u16::MAX.
    pub woken_on: u16,
    pub switches_out: u32,
    pub switches_in: u32,
    pub preemptions: u32,
    /// ns that the kernel counted as run since it last left a CPU; negative: not known ([`Row::lose_run`]).
    pub ran: i64,
    /// All ns that the kernel counted as run.
    pub counted: i64,
    /// Its run on a CPU, if a hidden switch began it.
    pub hidden_run: Option<HiddenRun>,
    /// Open system call.
    pub syscall: Option<(Time, StrIx, u16)>,
    /// Open wait for a lock of the kernel's own.
    pub kernel_lock: Option<(Time, StrIx, u16)>,
}

/// [`Row::ran`] after a loss: some of the run time may not have been told. Far from any sum, and no sum reaches 0 from it.
const NOT_KNOWN: i64 = i64::MIN / 2;

impl Row {
    /// A run ended, or one began that an event tells of.
    pub fn forget_run(&mut self) {
        self.ran = 0;
        self.hidden_run = None;
    }

    /// Events are missing.
    pub fn lose_run(&mut self) {
        self.ran = NOT_KNOWN;
        self.hidden_run = None;
    }
}

/// A process as the passes know it.
#[derive(Clone, Debug)]
pub(crate) struct Proc {
    pub pid: i32,
    /// Parent's pid; 0: unknown.
    pub ppid: i32,
    /// Parent's row, when it had one.
    pub parent: u32,
    /// Belongs to the program although no event says so.
    pub is_ours: bool,
}

/// A thread that /proc showed.
#[derive(Clone, Copy, Debug)]
struct Seen {
    time: Time,
    pid: i32,
    tid: i32,
    ppid: i32,
    name: StrIx,
}

/// All threads and processes so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub rows: Vec<Row>,
    /// The states of all rows.
    pub state_logs: StateLogs,
    pub processes: Vec<Proc>,
    dense: Vec<u32>,
    sparse: HashMap<i32, u32>,
    by_pid: HashMap<i32, u32>,
    known: HashMap<i32, Vec<Seen>>,
    did: HashMap<i32, Vec<(Time, ThreadState)>>,
    origin: Time,
}

impl Table {
    pub fn new(setup: &Setup, strings: &mut Strings) -> Table {
        let mut table = Table { origin: setup.span.start, ..Table::default() };
        for thread in &setup.known {
            table.known.entry(thread.tid).or_default().push(Seen {
                time: thread.time,
                pid: thread.pid,
                tid: thread.tid,
                ppid: thread.ppid,
                name: strings.intern(&thread.comm),
            });
        }
        for &(tid, time, state) in &setup.did {
            table.did.entry(tid).or_default().push((time, state));
        }
        table
    }

    /// The thread that has this tid now, dead or alive.
    #[inline]
    pub fn find(&self, tid: i32) -> u32 {
        match self.dense.get(tid as usize) {
            Some(&row) if tid > 0 => row,
            _ if tid > DENSE => self.sparse.get(&tid).copied().unwrap_or(NONE),
            _ => NONE,
        }
    }

    /// The thread that has this tid now; one that was not known lived from the recording's start. NONE for tid <= 0.
    #[inline]
    pub fn get(&mut self, tid: i32, time: Time) -> u32 {
        if tid <= 0 {
            return NONE;
        }
        let row = self.find(tid);
        if row != NONE && !self.rows[row as usize].dead {
            return row;
        }
        self.appear(tid, time, row)
    }

    /// As [`Table::get`], and notes the name.
    #[inline]
    pub fn get_named(&mut self, tid: i32, name: StrIx, time: Time) -> u32 {
        let row = self.get(tid, time);
        if row != NONE && name.is_some() {
            self.rows[row as usize].name = name;
        }
        row
    }

    #[cold]
    fn appear(&mut self, tid: i32, time: Time, before: u32) -> u32 {
        if before != NONE && self.rows[before as usize].zombie {
            // Nothing was born with this tid since: it is the same thread. It was dead meanwhile.
            let row = &mut self.rows[before as usize];
            let (start, cpu) = (row.end, row.cpu);
            (row.dead, row.zombie, row.end) = (false, false, Time::MAX);
            row.state = ThreadState::Dead;
            let dead = LoggedState { start, by: NONE, cpu, state: ThreadState::Dead };
            match row.states.last_mut() {
                Some(last) if last.start >= start => (last.state, last.by) = (dead.state, NONE),
                Some(_) => self.state_logs.push(&mut row.states, dead),
                None => row.state = ThreadState::Unknown,
            }
            return before;
        }
        // With a dead predecessor its birth was lost: it is known from now on.
        let start = if before == NONE { self.origin } else { time };
        self.add(tid, start, None, NONE)
    }

    /// A new thread with this tid. `process`: its row, when known; else /proc is asked, else it is guessed to be
    /// a process of its own whose parent is `parent` (a row of `processes`).
    pub fn add(&mut self, tid: i32, start: Time, process: Option<u32>, parent: u32) -> u32 {
        let old = self.find(tid);
        if old != NONE && !self.rows[old as usize].dead {
            self.end(old, start);
        }
        let seen = self.known_at(tid, start).copied();
        let (process, guessed) = match (process, &seen) {
            (Some(process), _) => (process, false),
            (None, Some(seen)) => (self.process_of(seen.pid, seen.ppid, parent), false),
            (None, None) => (self.process_of(tid, 0, parent), true),
        };
        let row = self.push(tid, start, process, guessed);
        if let Some(seen) = seen {
            self.rows[row as usize].name = seen.name;
        }
        self.set_current(tid, row);
        row
    }

    fn push(&mut self, tid: i32, start: Time, process: u32, guessed: bool) -> u32 {
        let row = self.rows.len() as u32;
        self.rows.push(Row {
            tid,
            process,
            name: StrIx::NONE,
            start,
            end: Time::MAX,
            guessed,
            fresh: false,
            dead: false,
            zombie: false,
            state: ThreadState::Unknown,
            cpu: u16::MAX,
            states: StateLog::default(),
            pending: NONE,
            early: false,
            woken_on: u16::MAX,
            switches_out: 0,
            switches_in: 0,
            preemptions: 0,
            ran: 0,
            counted: 0,
            hidden_run: None,
            syscall: None,
            kernel_lock: None,
        });
        row
    }

    /// The thread of this row is born only now; forgets what was presumed of it.
    pub fn begin_anew(&mut self, row: u32, start: Time, process: Option<u32>) {
        let row = &mut self.rows[row as usize];
        row.start = start;
        row.states = StateLog::default();
        row.state = ThreadState::Unknown;
        row.cpu = u16::MAX;
        row.pending = NONE;
        row.early = false;
        if let Some(process) = process {
            (row.process, row.guessed) = (process, false);
        }
    }

    fn set_current(&mut self, tid: i32, row: u32) {
        if tid <= 0 {
            // A track that is no thread of the kernel's: no event names it.
            return;
        }
        if tid > DENSE {
            self.sparse.insert(tid, row);
            return;
        }
        if self.dense.len() <= tid as usize {
            self.dense.resize((tid as usize + 1).next_power_of_two().max(1 << 16), NONE);
        }
        self.dense[tid as usize] = row;
    }

    /// The thread that /proc showed under a tid at that time or soonest after it; failing that, last before.
    fn known_at(&self, tid: i32, time: Time) -> Option<&Seen> {
        let seen = self.known.get(&tid)?;
        seen.iter().find(|k| k.time >= time).or(seen.last())
    }

    /// The living process with this pid, made when there is none.
    pub fn process_of(&mut self, pid: i32, ppid: i32, parent: u32) -> u32 {
        if let Some(&row) = self.by_pid.get(&pid) {
            return row;
        }
        self.add_process(pid, ppid, parent)
    }

    /// A new process, which takes the pid over.
    pub fn add_process(&mut self, pid: i32, ppid: i32, parent: u32) -> u32 {
        let ppid = match ppid {
            0 => self.known_at(pid, self.origin).map_or(0, |k| k.ppid),
            ppid => ppid,
        };
        let row = self.processes.len() as u32;
        self.processes.push(Proc { pid, ppid, parent, is_ours: false });
        self.by_pid.insert(pid, row);
        row
    }

    /// The thread has ended.
    pub fn end(&mut self, row: u32, time: Time) {
        let row = &mut self.rows[row as usize];
        row.dead = true;
        row.pending = NONE;
        row.end = row.end.min(time.max(row.start));
    }

    /// The row for annotations of (pid, tid) whose first stamp is `time`: the one alive then; made when there is none.
    pub fn for_annotations(
        &mut self,
        by_tid: &HashMap<i32, Vec<u32>>,
        pid: i32,
        tid: i32,
        first: Time,
    ) -> u32 {
        let candidates = by_tid.get(&tid).map_or(&[][..], |rows| rows);
        let distance = |row: &u32| {
            let row = &self.rows[*row as usize];
            // No subtraction that could overflow: ends may be Time::MAX.
            let gap = if first < row.start {
                row.start.0.saturating_sub(first.0)
            } else {
                first.0.saturating_sub(row.end.0).max(0)
            };
            let other_process = self.processes[row.process as usize].pid != pid && !row.guessed;
            (other_process, gap)
        };
        let best = candidates.iter().copied().min_by_key(distance).filter(|row| !distance(row).0);
        let process = self.process_of(pid, 0, NONE);
        match best {
            Some(row) => {
                let found = &mut self.rows[row as usize];
                if found.guessed && self.processes[found.process as usize].pid != pid {
                    found.process = process;
                }
                found.guessed = false;
                // Known by annotations alone: several clients stamp it, and the first of them need not have been the earliest.
                if found.states.last().is_none() && !found.dead {
                    found.start = found.start.min(self.origin.max(first));
                }
                row
            }
            // Other tools count threads anew in each process: a thread of another process with this tid lives on.
            None if self.lives(self.find(tid)) => {
                self.push(tid, self.origin.max(first), process, false)
            }
            None => self.add(tid, self.origin.max(first), Some(process), NONE),
        }
    }

    /// A thread that is known from its annotations alone.
    pub fn add_unseen(&mut self, tid: i32, first: Time, process: u32, name: StrIx) -> u32 {
        let row = self.push(tid, self.origin.max(first), process, false);
        self.rows[row as usize].name = name;
        row
    }

    /// The row of the process that has this pid now.
    pub fn current_process(&self, pid: i32) -> u32 {
        self.by_pid.get(&pid).copied().unwrap_or(NONE)
    }

    fn lives(&self, row: u32) -> bool {
        self.rows.get(row as usize).is_some_and(|row| !row.dead)
    }

    /// All rows of each tid.
    pub fn by_tid(&self) -> HashMap<i32, Vec<u32>> {
        let mut map: HashMap<i32, Vec<u32>> = HashMap::new();
        for (ix, row) in self.rows.iter().enumerate() {
            map.entry(row.tid).or_default().push(ix as u32);
        }
        map
    }

    /// Adds the threads of target processes that /proc showed at the start and no event mentions: they slept through.
    pub fn add_sleepers(&mut self, roots: &[i32]) {
        if roots.is_empty() {
            return;
        }
        let mut known: Vec<Seen> =
            self.known.values().filter_map(|seen| seen.first()).copied().collect();
        known.sort_by_key(|k| (k.pid, k.tid));
        for thread in known {
            if thread.time <= self.origin
                && self.find(thread.tid) == NONE
                && self.descends(thread.pid, roots)
            {
                self.add(thread.tid, self.origin, None, NONE);
            }
        }
    }

    /// What a thread did from `start` on until `until`, its first event, where /proc told in between: it raised none, so it did that all the time.
    pub fn state_before(&self, tid: i32, start: Time, until: Time) -> ThreadState {
        let told = self.did.get(&tid).map_or(&[][..], |told| told);
        let mut told = told.iter().filter(|(time, _)| (start..until).contains(time));
        match told.next() {
            Some(&(_, state)) if state.is_blocked() => state,
            _ => ThreadState::Unknown,
        }
    }

    /// Gives threads without an event the state that /proc told.
    pub fn add_silent_states(&mut self, until: Time) {
        for ix in 0..self.rows.len() {
            let row = &self.rows[ix];
            let (start, state) = (row.start, self.state_before(row.tid, row.start, until));
            if row.states.len() == 0 && !row.dead && state != ThreadState::Unknown {
                let all = LoggedState { start, by: NONE, cpu: u16::MAX, state };
                self.state_logs.push(&mut self.rows[ix].states, all);
            }
        }
    }

    /// Whether /proc says that the process is one of `roots` or descends from one.
    fn descends(&self, pid: i32, roots: &[i32]) -> bool {
        let mut pid = pid;
        // A chain longer than this is a circle of reused pids.
        for _ in 0..64 {
            if roots.contains(&pid) {
                return true;
            }
            match self.known.get(&pid).and_then(|seen| seen.first()) {
                Some(parent) if parent.ppid > 0 => pid = parent.ppid,
                _ => return false,
            }
        }
        false
    }

    pub fn is_target(&self, process: u32, roots: &[i32]) -> bool {
        if roots.is_empty() {
            return true;
        }
        let mut at = process;
        for _ in 0..=self.processes.len().min(1 << 16) {
            let proc = &self.processes[at as usize];
            if proc.is_ours || roots.contains(&proc.pid) {
                return true;
            }
            if proc.parent == NONE || proc.parent == at {
                return self.descends(proc.pid, roots) || self.descends(proc.ppid, roots);
            }
            at = proc.parent;
        }
        false
    }

    /// Final order: processes as they appeared, threads by (process, start).
    pub fn order(&self) -> Order {
        let mut threads: Vec<u32> = (0..self.rows.len() as u32).collect();
        threads.sort_by_key(|&ix| {
            let row = &self.rows[ix as usize];
            let is_main = row.tid == self.processes[row.process as usize].pid;
            (row.process, row.start, !is_main, ix)
        });
        let mut used = vec![NONE; self.processes.len()];
        let mut n_processes = 0;
        for &ix in &threads {
            let process = self.rows[ix as usize].process as usize;
            if used[process] == NONE {
                used[process] = n_processes;
                n_processes += 1;
            }
        }
        let mut new_thread = vec![NONE; threads.len()];
        for (new, &old) in threads.iter().enumerate() {
            new_thread[old as usize] = new as u32;
        }
        Order { threads, new_thread, new_process: used }
    }

    /// The process, or, if no thread of it is left in the final order, the nearest one above it.
    fn nearest_kept(&self, mut process: u32, order: &Order) -> u32 {
        for _ in 0..64 {
            match process {
                NONE => return NONE,
                at if order.new_process[at as usize] != NONE => {
                    return order.new_process[at as usize];
                }
                at => process = self.processes[at as usize].parent,
            }
        }
        NONE
    }

    /// The public tables, in final order, but for what later passes fill in.
    pub fn publish(
        &self,
        order: &Order,
        setup: &Setup,
        counts_run_time: bool,
        strings: &mut Strings,
    ) -> (Vec<Process>, Vec<Thread>) {
        let mut processes =
            vec![Process::default(); order.new_process.iter().filter(|&&p| p != NONE).count()];
        for (old, &new) in order.new_process.iter().enumerate() {
            if new != NONE {
                let proc = &self.processes[old];
                let parent = match proc.parent {
                    NONE => self.by_pid.get(&proc.ppid).copied().unwrap_or(NONE),
                    parent => parent,
                };
                let parent = self.nearest_kept(parent, order);
                // Its main thread may have slept through the recording: then only /proc showed it.
                let main = self.known_at(proc.pid, setup.span.start);
                let main = main.filter(|seen| seen.pid == proc.pid);
                processes[new as usize] = Process {
                    pid: proc.pid,
                    name: main.map_or(StrIx::NONE, |seen| seen.name),
                    parent: ProcessIx(parent),
                    is_target: self.is_target(old as u32, &setup.root_pids),
                    threads: 0..0,
                };
            }
        }
        let mut threads = Vec::with_capacity(order.threads.len());
        for (ix, &old) in order.threads.iter().enumerate() {
            let row = &self.rows[old as usize];
            let process = order.new_process[row.process as usize];
            let name = match row.name {
                StrIx::NONE => strings.intern(""),
                name => name,
            };
            let owner = &mut processes[process as usize];
            if owner.threads.is_empty() {
                owner.threads = ix as u32..ix as u32;
                if owner.name == StrIx::NONE {
                    owner.name = name;
                }
            }
            owner.threads.end = ix as u32 + 1;
            if row.tid == owner.pid {
                owner.name = name;
            }
            threads.push(Thread {
                process: ProcessIx(process),
                tid: row.tid,
                name,
                alive: row.start..row.end.min(setup.span.end).max(row.start),
                preemptions: row.preemptions,
                switches_out: row.switches_out,
                switches_in: row.switches_in,
                counted: counts_run_time.then_some(Duration(row.counted)),
                ..Thread::default()
            });
        }
        (processes, threads)
    }
}

/// Old rows -> final rows.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// Old row of each final one.
    pub threads: Vec<u32>,
    /// Final row of each old one.
    pub new_thread: Vec<u32>,
    /// Final row of each old process; NONE: it has no thread.
    pub new_process: Vec<u32>,
}

impl Order {
    pub fn thread(&self, old: u32) -> ThreadIx {
        if old == NONE { ThreadIx::NONE } else { ThreadIx(self.new_thread[old as usize]) }
    }
}
