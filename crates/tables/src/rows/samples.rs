//! Samples of call paths.
use super::{cpu, id, made, name};
use crate::batch::Text;
use crate::schema::{Out, table};
use crate::{Result, Source};
use kasuri_analyze::call_paths::weigh;
use kasuri_model::{FrameKind, PathIx, SampleKind};

table! {
    /// Where threads were, by thread and time. The weights of a thread's samples and its time without one add up to its time on a CPU, and blocked; on a CPU, short threads of one name share samples, and add up together.
    pub(crate) static SAMPLE = "sample", SampleRow from samples;
    /// Id, unique in the run.
    sample_id: i64, "id";
    /// The thread.
    thread_id: i64, "id";
    /// Process id.
    pid: i32;
    /// Thread id.
    tid: i32;
    /// When.
    time_ns: i64, "ns";
    /// The CPU, while it ran.
    cpu: Option<i32>;
    /// `on_cpu`; `blocked` (taken when it left its CPU to wait), `blocked_read` (read while it waited), `lock_wait` (when it asked for a lock); `waker` (when it woke another thread).
    kind: Text;
    /// The time that it stands for, on a CPU or blocked.
    weight_ns: i64, "ns";
    /// Whether the path reaches the thread's outermost function, without a gap (a function `py::(callers not known)` of its path).
    is_complete: bool;
    /// Its path, see `stack_frame`; missing: nothing of it is known.
    path_id: Option<i64>, "id";
}

fn samples(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    let s = &trace.samples;
    if s.time.is_empty() {
        return Ok(());
    }
    let weights = weigh(trace);
    for row in 0..s.time.len() {
        let (pid, tid) = source.pid_tid(s.thread[row]);
        out.push(SampleRow {
            sample_id: row as i64,
            thread_id: s.thread[row].0.into(),
            pid,
            tid,
            time_ns: s.time[row].ns(),
            cpu: cpu(s.cpu[row]),
            kind: sample_kind(s.kind[row]).into(),
            weight_ns: weights.sample[row].ns(),
            is_complete: s.is_complete[row],
            path_id: id(s.path[row].0),
        })?;
    }
    Ok(())
}

fn sample_kind(kind: SampleKind) -> &'static str {
    match kind {
        SampleKind::OnCpu => "on_cpu",
        SampleKind::Blocked => "blocked",
        SampleKind::BlockedRead => "blocked_read",
        SampleKind::Waker => "waker",
        SampleKind::LockWait => "lock_wait",
    }
}

table! {
    /// The functions of each call path that a sample has, innermost first.
    pub(crate) static STACK_FRAME = "stack_frame", StackFrameRow from stack_frames;
    /// The path.
    path_id: i64, "id";
    /// 0: the innermost function; 1: its caller...
    depth: i32;
    /// The function, see `frame`.
    frame_id: i64, "id";
}

fn stack_frames(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    let mut is_used = vec![false; trace.paths.frame.len()];
    for path in trace.samples.path.iter().filter(|path| path.is_some()) {
        is_used[path.ix()] = true;
    }
    for path in (0..is_used.len()).filter(|&path| is_used[path]) {
        for (depth, frame) in trace.frames_of(PathIx(path as u32)).enumerate() {
            out.push(StackFrameRow {
                path_id: path as i64,
                depth: depth as i32,
                frame_id: frame.0.into(),
            })?;
        }
    }
    Ok(())
}

table! {
    /// Functions of call paths, each with a line; places in code that no name is known for.
    pub(crate) static FRAME = "frame", FrameRow from frames;
    /// Id, unique in the run.
    frame_id: i64, "id";
    /// Its name, as the linker has it; missing: not known.
    function: Option<Text>;
    /// The same, demangled.
    readable: Option<Text>;
    /// Path of the program or library; `[kernel]`, `[vdso]`.
    module: Option<Text>;
    /// Source file.
    file: Option<Text>;
    /// Line in it.
    line: Option<i32>;
    /// Without a name: its address in the module's own numbering.
    address: Option<i64>;
    /// `native`, `inlined` into its caller, `kernel`, `jit` or `interpreted`.
    kind: Text;
}

fn frames(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let trace = source.trace();
    let f = &trace.frames;
    for row in 0..f.function.len() {
        let function = trace.strings.get(f.function[row]);
        let is_named = f.function[row].is_some();
        out.push(FrameRow {
            frame_id: row as i64,
            function: name(f.function[row]),
            readable: made(&kasuri_analyze::demangled(function)),
            module: name(f.module[row]),
            file: name(f.file[row]),
            line: i32::try_from(f.line[row]).ok().filter(|&line| line > 0),
            address: (!is_named).then(|| f.address[row].cast_signed()),
            kind: match f.kind[row] {
                FrameKind::Native => "native",
                FrameKind::Inlined => "inlined",
                FrameKind::Kernel => "kernel",
                FrameKind::Jit => "jit",
                FrameKind::Interpreted => "interpreted",
            }
            .into(),
        })?;
    }
    Ok(())
}
