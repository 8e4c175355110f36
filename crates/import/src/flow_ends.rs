//! Arrows (flows) of Chrome JSON and Perfetto.
//!
//! Both formats write the ends of an arrow as separate events with the same id. The ends of one id, in order of time,
//! are joined one to the next: begin, step, step, end make three arrows. Arrows of Kasuri's annotations join threads of
//! one process; those of other tools may cross processes, so they bypass the passes and go into the finished columns.
//!
//! Readers call [`FlowEnds::add`] while they read, and [`FlowEnds::publish`] in [`crate::Opened::finish`], when the
//! rows of threads exist. Sorting dominates the cost: n log n for n ends.
use kasuri_model::{Flows, StrIx, ThreadIx, Time, Trace};
use std::collections::HashMap;

/// The effect of an event on an arrow. The order matters: of ends with the same time and id, a begin comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// An arrow begins. It is not joined to an earlier end of the same id.
    Begin,
    /// An arrow arrives, and the next one leaves.
    Step,
    /// An arrow arrives, and none leaves. What left before may arrive elsewhere, too (Chrome's `flow_in`).
    Arrival,
    /// An arrow arrives, and none leaves.
    End,
}

/// One end of an arrow; all ends with the same id belong together, in order of time.
#[derive(Clone, Copy, Debug)]
struct FlowEnd {
    id: u64,
    time: Time,
    pid: i32,
    tid: i32,
    role: Role,
    name: StrIx,
}

/// All ends read so far.
#[derive(Debug, Default)]
pub(crate) struct FlowEnds(Vec<FlowEnd>);

impl FlowEnds {
    /// Adds an end; `id` must be unique in the whole trace.
    pub fn add(&mut self, id: u64, time: Time, (pid, tid): (i32, i32), role: Role, name: StrIx) {
        self.0.push(FlowEnd { id, time, pid, tid, role, name });
    }

    /// Adds the arrows to a trace that was built from the same events. An arrow whose thread the trace does not have is
    /// dropped.
    pub fn publish(mut self, trace: &mut Trace) {
        if self.0.is_empty() {
            return;
        }
        let threads = Threads::new(trace);
        let origin = trace.origin_monotonic_ns;
        let old = std::mem::take(&mut trace.flows);
        let mut rows: Vec<Row> = (0..old.id.len()).map(|i| Row::of(&old, i)).collect();
        self.0.sort_by_key(|e| (e.id, e.time, e.role));
        for same in self.0.chunk_by(|a, b| a.id == b.id) {
            // The previous end, if an arrow leaves it.
            let mut tail: Option<&FlowEnd> = None;
            for end in same {
                if let (Some(from), true) = (tail, end.role != Role::Begin) {
                    let at = |e: &FlowEnd| {
                        let time = Time(e.time.0.saturating_sub(origin));
                        (time, threads.find(trace, e, time))
                    };
                    let (from_time, from_thread) = at(from);
                    let (to_time, to_thread) = at(end);
                    let name = if from.name.is_some() { from.name } else { end.name };
                    if from_thread.is_some() && to_thread.is_some() {
                        rows.push(Row {
                            id: end.id,
                            name,
                            from: (from_time, from_thread),
                            to: (to_time, to_thread),
                        });
                    }
                }
                tail = match end.role {
                    Role::Begin | Role::Step => Some(end),
                    Role::Arrival => tail,
                    Role::End => None,
                };
            }
        }
        rows.sort_by_key(|row| (row.from.0, row.to.0));
        trace.flows = Flows {
            id: rows.iter().map(|r| r.id).collect(),
            name: rows.iter().map(|r| r.name).collect(),
            from_time: rows.iter().map(|r| r.from.0).collect(),
            from_thread: rows.iter().map(|r| r.from.1).collect(),
            to_time: rows.iter().map(|r| r.to.0).collect(),
            to_thread: rows.iter().map(|r| r.to.1).collect(),
        };
    }
}

/// One arrow, as a row of [`Flows`].
struct Row {
    id: u64,
    name: StrIx,
    from: (Time, ThreadIx),
    to: (Time, ThreadIx),
}

impl Row {
    /// The row with this index.
    fn of(flows: &Flows, i: usize) -> Row {
        Row {
            id: flows.id[i],
            name: flows.name[i],
            from: (flows.from_time[i], flows.from_thread[i]),
            to: (flows.to_time[i], flows.to_thread[i]),
        }
    }
}

/// The rows that each pair of process and thread id has. Ids are reused, so there may be several.
struct Threads(HashMap<(i32, i32), Vec<ThreadIx>>);

impl Threads {
    fn new(trace: &Trace) -> Threads {
        let mut rows: HashMap<_, Vec<ThreadIx>> = HashMap::new();
        for (ix, thread) in trace.threads.iter().enumerate() {
            let pid = (trace.processes.get(thread.process.ix())).map_or(thread.tid, |p| p.pid);
            rows.entry((pid, thread.tid)).or_default().push(ThreadIx(ix as u32));
        }
        Threads(rows)
    }

    /// The thread that had these ids at `time`: the first that was still alive, else the last.
    fn find(&self, trace: &Trace, end: &FlowEnd, time: Time) -> ThreadIx {
        let rows = self.0.get(&(end.pid, end.tid)).map_or(&[][..], |rows| rows);
        let alive = |row: &&ThreadIx| trace.threads[row.ix()].alive.end >= time;
        rows.iter().find(alive).or(rows.last()).copied().unwrap_or(ThreadIx::NONE)
    }
}
