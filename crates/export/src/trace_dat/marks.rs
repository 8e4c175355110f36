//! Annotations as texts that the program could have written to `trace_marker`.
//!
//! The texts are those of Android's atrace, which Perfetto's importer understands too:
//!
//! | text | meaning |
//! |---|---|
//! | `B\|pid\|name`, `E\|pid` | a slice begins, and the innermost one ends |
//! | `I\|pid\|name` | an instant |
//! | `C\|pid\|name\|value` | a counter's new value |
//! | `G\|pid\|track\|name\|id`, `H\|pid\|track\|id` | an asynchronous slice begins and ends |
//!
//! Slices that need not nest in their thread - held locks, and tracks that are no threads - are asynchronous.
use kasuri_model::label;
use kasuri_model::{SliceKind, ThreadIx, ThreadState, Time, Trace};

/// One text. Only its place in the model is kept; [`Mark::text`] makes the text when it is written.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub time: Time,
    pub cpu: u16,
    /// The thread that writes it.
    pub thread: ThreadIx,
    what: What,
}

/// The kind of text, with the row of the slice, instant or counter. A counter has a second number: its value's place.
#[derive(Clone, Copy, Debug)]
enum What {
    Begin(u32),
    End,
    Instant(u32),
    Counter(u32, u32),
    AsyncBegin(u32),
    AsyncEnd(u32),
}

/// All marks by CPU, each CPU's in the order in which they are written.
pub fn marks(trace: &Trace) -> Vec<Vec<Mark>> {
    let mut all = Marks { trace, out: vec![Vec::new(); trace.cpus.len().max(1)] };
    all.slices();
    all.instants();
    all.counters();
    for marks in &mut all.out {
        // Stable: those of one thread with one stamp stay in order.
        marks.sort_by_key(|m| m.time);
    }
    all.out
}

/// The marks while they are gathered, one list for each CPU.
struct Marks<'t> {
    trace: &'t Trace,
    out: Vec<Vec<Mark>>,
}

impl Marks<'_> {
    fn add(&mut self, time: Time, thread: ThreadIx, what: What) {
        let cpu = self.cpu(thread, time);
        self.out[usize::from(cpu)].push(Mark { time, cpu, thread, what });
    }

    /// The CPU that ran the thread at that time, or had run it last; 0 for a thread without scheduler events.
    fn cpu(&self, thread: ThreadIx, time: Time) -> u16 {
        let states = &self.trace.states;
        let rows = (self.trace.threads.get(thread.ix())).map_or(0..0, |t| t.states.clone());
        let rows = rows.start as usize..rows.end as usize;
        let starts = &states.start[rows.clone()];
        let ran = |row: &usize| {
            states.state[*row] == ThreadState::Running && states.cpu[*row] != u16::MAX
        };
        let until = rows.start + starts.partition_point(|&start| start <= time);
        // A slice that ends when its thread leaves the CPU was ended just before, so the last CPU counts. At most eight
        // states back are looked at.
        let before = (rows.start..until).rev().take(8).find(ran);
        let cpu = before.map_or(0, |row| states.cpu[row]);
        if usize::from(cpu) < self.out.len() { cpu } else { 0 }
    }

    /// The model has each thread's slices in order of their starts. The open ones of the current thread are a stack, so
    /// that ends come in the order in which the program would have written them.
    fn slices(&mut self) {
        let slices = &self.trace.slices;
        let mut open: Vec<(u16, Time)> = Vec::new();
        let mut current = ThreadIx::NONE;
        for row in 0..slices.start.len() {
            let (thread, start, depth) = (slices.thread[row], slices.start[row], slices.depth[row]);
            if thread != current {
                self.close(current, &mut open, Time::MAX, 0);
                current = thread;
            }
            let is_track = self.trace.threads[thread.ix()].tid <= 0;
            if is_track || slices.kind[row] == SliceKind::LockHold {
                self.add(start, thread, What::AsyncBegin(row as u32));
                self.add(slices.end[row], thread, What::AsyncEnd(row as u32));
                continue;
            }
            self.close(thread, &mut open, start, depth);
            self.add(start, thread, What::Begin(row as u32));
            open.push((depth, slices.end[row]));
        }
        self.close(current, &mut open, Time::MAX, 0);
    }

    /// Ends the slices that ended by `now` or are not outside `depth`.
    fn close(&mut self, thread: ThreadIx, open: &mut Vec<(u16, Time)>, now: Time, depth: u16) {
        while let Some((_, end)) = open.pop_if(|(d, end)| *d >= depth || *end <= now) {
            self.add(end, thread, What::End);
        }
    }

    fn instants(&mut self) {
        for row in 0..self.trace.instants.time.len() {
            let thread = self.trace.instants.thread[row];
            self.add(self.trace.instants.time[row], thread, What::Instant(row as u32));
        }
    }

    fn counters(&mut self) {
        for (ix, counter) in self.trace.counters.iter().enumerate() {
            let threads = self.trace.processes.get(counter.process.ix());
            // The model does not keep the thread that set a counter: the process's first stands for it.
            let thread = threads.map_or(ThreadIx::NONE, |p| ThreadIx(p.threads.start));
            for (row, &time) in counter.time.iter().enumerate() {
                self.add(time, thread, What::Counter(ix as u32, row as u32));
            }
        }
    }
}

impl Mark {
    /// Its text.
    pub fn text(&self, trace: &Trace) -> String {
        let pid_of = |thread: ThreadIx| {
            let process = trace.threads.get(thread.ix()).map(|t| t.process);
            process.map_or(0, |p| trace.processes.get(p.ix()).map_or(0, |p| p.pid))
        };
        let pid = pid_of(self.thread);
        let slice = |row: u32| label::named(trace, trace.slices.name[row as usize], "(no name)");
        let track = |row: u32| match trace.slices.kind[row as usize] {
            SliceKind::LockHold => "locks held".into(),
            _ => label::thread(trace, self.thread),
        };
        match self.what {
            What::Begin(row) => format!("B|{pid}|{}", slice(row)),
            What::End => format!("E|{pid}"),
            What::Instant(row) => {
                let name = trace.strings.get(trace.instants.name[row as usize]);
                format!("I|{pid}|{name}")
            }
            What::Counter(ix, row) => {
                let counter = &trace.counters[ix as usize];
                let name = label::named(trace, counter.name, "counter");
                format!("C|{pid}|{name}|{}", counter.value[row as usize])
            }
            What::AsyncBegin(row) => format!("G|{pid}|{}|{}|{row}", track(row), slice(row)),
            What::AsyncEnd(row) => format!("H|{pid}|{}|{row}", track(row)),
        }
    }
}
