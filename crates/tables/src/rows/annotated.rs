//! The program's annotations: slices, their arguments, tasks, arrows, counters.
use super::{id, made, moment, name, object};
use crate::batch::Text;
use crate::schema::{Out, table};
use crate::{Result, Source};
use kasuri_analyze::{OnCpu, kind_name, task_graph};
use kasuri_model::{ArgValue, SliceIx, TaskEdgeKind, ThreadIx, Time, open};
use std::collections::HashMap;

table! {
    /// Annotated slices, waits and critical sections, by thread and time.
    pub(crate) static SLICE = "slice", SliceRow from slices;
    /// Id, unique in the run.
    slice_id: i64, "id";
    /// The thread that it belongs to.
    thread_id: i64, "id";
    /// Process id.
    pid: i32;
    /// Thread id.
    tid: i32;
    /// Its name.
    name: Text;
    /// `work`, `barrier`, `join`, `cond`, `io`, `wait`, `lock_wait`, `lock_hold` or `task`.
    kind: Text;
    /// From...
    start_ns: i64, "ns";
    /// ...to.
    end_ns: i64, "ns";
    /// `end_ns - start_ns`.
    dur_ns: i64, "ns";
    /// CPU time of the thread in it; missing when switches were not recorded.
    on_cpu_ns: Option<i64>, "ns";
    /// Nesting level in its thread, 0 outermost.
    depth: i32, "count";
    /// The slice that encloses it.
    parent_slice_id: Option<i64>, "id";
    /// The task that ran it.
    task_id: Option<i64>, "id";
    /// Waits and locks: the address, as 64 bits with sign.
    object: Option<i64>;
    /// `file:line` where the name was first annotated.
    place: Option<Text>;
    /// Its beginning was not seen: `start_ns` is where the thread's known life begins.
    begin_unseen: bool;
    /// Its end was not seen: `end_ns` is where the thread's known life ends.
    end_unseen: bool;
}

fn slices(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    let s = &trace.slices;
    let place = |ix: usize| trace.places.get(&s.name[ix]).map(|p| Text::Made(p.clone()));
    for (ix, thread) in trace.threads.iter().enumerate() {
        let ix = ThreadIx(ix as u32);
        let (pid, tid) = source.pid_tid(ix);
        let mut on_cpu = (!thread.states.is_empty()).then(|| OnCpu::new(trace, ix));
        for row in thread.slices.start as usize..thread.slices.end as usize {
            let (start, end) = (s.start[row], s.end[row]);
            out.push(SliceRow {
                slice_id: row as i64,
                thread_id: ix.0.into(),
                pid,
                tid,
                name: s.name[row].into(),
                kind: kind_name(s.kind[row]).into(),
                start_ns: start.ns(),
                end_ns: end.ns(),
                dur_ns: (end - start).ns(),
                on_cpu_ns: on_cpu.as_mut().map(|on_cpu| on_cpu.within(start, end)),
                depth: s.depth[row].into(),
                parent_slice_id: id(s.parent[row].0),
                task_id: id(s.task[row].0),
                object: object(s.object[row]),
                place: place(row),
                begin_unseen: s.open[row] & open::BEGIN_UNSEEN != 0,
                end_unseen: s.open[row] & open::END_UNSEEN != 0,
            })?;
        }
    }
    Ok(())
}

table! {
    /// Arguments of slices.
    pub(crate) static ARG = "arg", ArgRow from args;
    /// The slice.
    slice_id: i64, "id";
    /// The argument's name.
    name: Text;
    /// Its value when it is a whole number, as 64 bits with sign.
    int_value: Option<i64>;
    /// Its value when it is a number of any kind.
    float_value: Option<f64>;
    /// Its value when it is a text.
    text_value: Option<Text>;
}

fn args(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let args = &source.trace().args;
    let of_slice = |&row: &usize| args.slice[row] != SliceIx::NONE;
    for row in (0..args.name.len()).filter(of_slice) {
        let (int_value, float_value, text_value) = match args.value[row] {
            ArgValue::Int(v) => (Some(v), Some(v as f64), None),
            ArgValue::Uint(v) => (Some(v.cast_signed()), Some(v as f64), None),
            ArgValue::Float(v) => (None, Some(v), None),
            ArgValue::Str(v) => (None, None, Some(Text::Name(v))),
        };
        out.push(ArgRow {
            slice_id: args.slice[row].0.into(),
            name: args.name[row].into(),
            int_value,
            float_value,
            text_value,
        })?;
    }
    Ok(())
}

table! {
    /// Annotated tasks.
    pub(crate) static TASK = "task", TaskRow from tasks;
    /// Id, unique in the run.
    task_id: i64, "id";
    /// Its process.
    process_id: i64, "id";
    /// Process id.
    pid: i32;
    /// The program's id, as 64 bits with sign, unique in its process.
    program_id: i64;
    /// Its name.
    name: Text;
    /// The task that created it.
    parent_task_id: Option<i64>, "id";
    /// The thread that created it.
    creator_thread_id: Option<i64>, "id";
    /// When it was created.
    created_ns: Option<i64>, "ns";
    /// Of the time from then to its first run: until the last task that it depends on had ended. After that it was ready.
    waiting_ns: Option<i64>, "ns";
    /// How much longer it could have run without a longer span of the task graph; missing: it did not run.
    slack_ns: Option<i64>, "ns";
    /// When it first ran. A future or a group of ito, which is a row too, never does.
    start_ns: Option<i64>, "ns";
    /// When it ended.
    end_ns: Option<i64>, "ns";
    /// When another went on after its end.
    joined_ns: Option<i64>, "ns";
    /// The task that did.
    joiner_task_id: Option<i64>, "id";
    /// Small tasks that the runtime counted and did not record one by one; their time is this one's.
    folded: i64, "count";
}

fn tasks(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    let queued = task_graph::queued_by_task(trace);
    let slack = task_graph::strands(trace).map(|s| s.slack_ns(trace.tasks.len()));
    let mut folded: HashMap<u32, u64> = HashMap::new();
    for (task, n) in (trace.folded_tasks.task.iter()).zip(&trace.folded_tasks.count) {
        let sum = folded.entry(task.0).or_default();
        *sum = sum.saturating_add(*n);
    }
    for (ix, task) in trace.tasks.iter().enumerate() {
        out.push(TaskRow {
            task_id: ix as i64,
            process_id: id(task.process.0).unwrap_or(-1),
            pid: source.pid(task.process),
            program_id: task.id.cast_signed(),
            name: task.name.into(),
            parent_task_id: id(task.parent.0),
            creator_thread_id: id(task.creator.0),
            created_ns: moment(task.created),
            waiting_ns: queued[ix].map(|q| q.waiting_ns),
            slack_ns: slack.as_ref().and_then(|slack| slack[ix]),
            start_ns: moment(task.started),
            end_ns: moment(task.ended),
            joined_ns: moment(task.joined),
            joiner_task_id: id(task.joiner.0),
            folded: folded.get(&(ix as u32)).map_or(0, |n| i64::try_from(*n).unwrap_or(i64::MAX)),
        })?;
    }
    Ok(())
}

table! {
    /// Edges of the task graph: what a task needs before it starts or goes on.
    pub(crate) static TASK_EDGE = "task_edge", TaskEdgeRow from task_edges;
    /// `create`: the task exists from some point of the other on. `join`: it went on after the other's end. `depends`: it
    /// cannot start before the other's end.
    kind: Text;
    /// The task; missing: a join by a thread that ran no task.
    task_id: Option<i64>, "id";
    /// The task before it: its creator, the one that it joined, or the one that it depends on.
    on_task_id: i64, "id";
    /// When the program said so.
    time_ns: i64, "ns";
}

fn task_edges(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    let mut edge = |kind: &'static str, task: u32, on: u32, time: Time| {
        out.push(TaskEdgeRow {
            kind: Text::Word(kind),
            task_id: id(task),
            on_task_id: on.into(),
            time_ns: time.ns(),
        })
    };
    for (ix, task) in trace.tasks.iter().enumerate() {
        if task.parent.is_some() && task.created != Time::MIN {
            edge("create", ix as u32, task.parent.0, task.created)?;
        }
        if task.joined != Time::MAX {
            edge("join", task.joiner.0, ix as u32, task.joined)?;
        }
    }
    let e = &trace.task_edges;
    for row in 0..e.kind.len() {
        let kind = match e.kind[row] {
            TaskEdgeKind::Join => "join",
            TaskEdgeKind::Depends => "depends",
        };
        edge(kind, e.task[row].0, e.on[row].0, e.time[row])?;
    }
    Ok(())
}

table! {
    /// Arrows: the program's own, and steals of tasks.
    pub(crate) static FLOW = "flow", FlowRow from flows;
    /// Id, unique in the run.
    flow_id: i64, "id";
    /// The program's id, as 64 bits with sign; steals: the task's.
    program_id: i64;
    /// Its name; steals: `steal`.
    name: Option<Text>;
    /// When it leaves...
    from_time_ns: i64, "ns";
    /// ...this thread.
    from_thread_id: Option<i64>, "id";
    /// When it arrives...
    to_time_ns: i64, "ns";
    /// ...at this thread.
    to_thread_id: Option<i64>, "id";
}

fn flows(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let f = &source.trace().flows;
    for row in 0..f.id.len() {
        out.push(FlowRow {
            flow_id: row as i64,
            program_id: f.id[row].cast_signed(),
            name: name(f.name[row]),
            from_time_ns: f.from_time[row].ns(),
            from_thread_id: id(f.from_thread[row].0),
            to_time_ns: f.to_time[row].ns(),
            to_thread_id: id(f.to_thread[row].0),
        })?;
    }
    Ok(())
}

table! {
    /// Values of counters: each holds until the counter's next one.
    pub(crate) static COUNTER = "counter", CounterRow from counters;
    /// Which counter; unique in the run.
    counter_id: i64, "id";
    /// Its name.
    name: Text;
    /// Its process; missing: the machine's.
    pid: Option<i32>;
    /// From when on.
    time_ns: i64, "ns";
    /// The value.
    value: f64;
}

fn counters(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    for (ix, counter) in source.trace().counters.iter().enumerate() {
        let process = counter.process;
        for (&time, &value) in counter.time.iter().zip(&counter.value) {
            out.push(CounterRow {
                counter_id: ix as i64,
                name: counter.name.into(),
                pid: process.is_some().then(|| source.pid(process)),
                time_ns: time.ns(),
                value,
            })?;
        }
    }
    Ok(())
}

table! {
    /// Points in time with a name, and messages.
    pub(crate) static INSTANT = "instant", InstantRow from instants;
    /// Id, unique in the run.
    instant_id: i64, "id";
    /// When.
    time_ns: i64, "ns";
    /// The thread.
    thread_id: Option<i64>, "id";
    /// Process id.
    pid: i32;
    /// Thread id.
    tid: i32;
    /// Its name, or the message.
    name: Text;
    /// `file:line` where the name was first annotated.
    place: Option<Text>;
}

fn instants(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    let i = &trace.instants;
    for row in 0..i.time.len() {
        let (pid, tid) = source.pid_tid(i.thread[row]);
        out.push(InstantRow {
            instant_id: row as i64,
            time_ns: i.time[row].ns(),
            thread_id: id(i.thread[row].0),
            pid,
            tid,
            name: i.name[row].into(),
            place: trace.places.get(&i.name[row]).and_then(|p| made(p)),
        })?;
    }
    Ok(())
}
