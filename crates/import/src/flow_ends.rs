//! Arrows of other tools: events that bear the same id, in order of time, are joined one to the next. They may be of
//! different processes, which arrows of annotations never are, so they go straight into the finished columns.
use kasuri_model::{Flows, StrIx, ThreadIx, Time, Trace};
use std::collections::HashMap;

/// What an event does with an arrow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    /// An arrow begins; one that comes in with the same id ends before.
    Begin,
    /// One comes in and goes on.
    Step,
    /// One comes in and ends.
    End,
}

#[derive(Clone, Copy, Debug)]
struct FlowEnd {
    id: u64,
    time: Time,
    pid: i32,
    tid: i32,
    role: Role,
    name: StrIx,
}

/// All ends met so far.
#[derive(Debug, Default)]
pub(crate) struct FlowEnds(Vec<FlowEnd>);

impl FlowEnds {
    /// One end; `id` is of the whole trace.
    pub fn add(&mut self, id: u64, time: Time, (pid, tid): (i32, i32), role: Role, name: StrIx) {
        self.0.push(FlowEnd {
            id,
            time,
            pid,
            tid,
            role,
            name,
        });
    }

    /// Adds the arrows to a trace that was built from the same events.
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
            let mut tail: Option<&FlowEnd> = None;
            for end in same {
                if let (Some(from), true) = (tail, end.role != Role::Begin) {
                    let at = |e: &FlowEnd| {
                        let time = Time(e.time.0.saturating_sub(origin));
                        (time, threads.find(trace, e, time))
                    };
                    let (from_time, from_thread) = at(from);
                    let (to_time, to_thread) = at(end);
                    let name = if from.name.is_some() {
                        from.name
                    } else {
                        end.name
                    };
                    if from_thread.is_some() && to_thread.is_some() {
                        rows.push(Row {
                            id: end.id,
                            name,
                            from: (from_time, from_thread),
                            to: (to_time, to_thread),
                        });
                    }
                }
                tail = (end.role != Role::End).then_some(end);
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

struct Row {
    id: u64,
    name: StrIx,
    from: (Time, ThreadIx),
    to: (Time, ThreadIx),
}

impl Row {
    fn of(flows: &Flows, i: usize) -> Row {
        Row {
            id: flows.id[i],
            name: flows.name[i],
            from: (flows.from_time[i], flows.from_thread[i]),
            to: (flows.to_time[i], flows.to_thread[i]),
        }
    }
}

/// Rows of each (process, thread).
struct Threads(HashMap<(i32, i32), Vec<ThreadIx>>);

impl Threads {
    fn new(trace: &Trace) -> Threads {
        let mut rows: HashMap<_, Vec<ThreadIx>> = HashMap::new();
        for (ix, thread) in trace.threads.iter().enumerate() {
            let pid = (trace.processes.get(thread.process.ix())).map_or(thread.tid, |p| p.pid);
            rows.entry((pid, thread.tid))
                .or_default()
                .push(ThreadIx(ix as u32));
        }
        Threads(rows)
    }

    /// The thread that had these ids then.
    fn find(&self, trace: &Trace, end: &FlowEnd, time: Time) -> ThreadIx {
        let rows = self.0.get(&(end.pid, end.tid)).map_or(&[][..], |rows| rows);
        let alive = |row: &&ThreadIx| trace.threads[row.ix()].alive.end >= time;
        rows.iter()
            .find(alive)
            .or(rows.last())
            .copied()
            .unwrap_or(ThreadIx::NONE)
    }
}
