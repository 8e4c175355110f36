//! Annotation events -> slices, tasks, flows, counters, instants.
//!
//! A thread may have several streams (one for each client: modules of one program). Without tasks, threads do not
//! touch each other, so each is done by itself, its streams merged by stamp. Tasks move between threads with their
//! open slices, so a process that has any is done again from its start with all its threads in one time order.
//!
//! | module | does |
//! |---|---|
//! | `slicer` | one thread's events -> its slices, instants and arguments |
//! | `tidy` | levels of critical sections, ends without a beginning, order of rows |
//! | `barriers` | waits at barriers whose end was not written |
//! | `open` | slices that are open, and default names |
//! | `shared` | what the threads of a process share: tasks, counters, flows |
//! | `children` | waits of tasks for all that they have created |
//! | `edges` | dependences and further joins of tasks, once all tasks of a process are known |
//! | `locks` | what the lock probe reports besides slices |
mod barriers;
mod children;
mod edges;
mod folded;
mod locks;
mod open;
mod shared;
mod slicer;
mod tidy;

use crate::input::{Annotation, AnnotationEvents};
use crate::{Error, ProcessIx, SliceIx, Strings, ThreadIx, Time, Trace};
use kasuri_base::annotation::Kind;
use locks::Lengths;
use open::DefaultNames;
use shared::Shared;
use slicer::{Out, Slicer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// A stream with its next events taken out.
struct Cursor<S> {
    stream: S,
    batch: Vec<Annotation>,
    /// The next one in `batch`.
    at: usize,
}

impl<S: AnnotationEvents> Cursor<S> {
    fn head(&self) -> Option<&Annotation> {
        self.batch.get(self.at)
    }

    fn advance(&mut self, strings: &mut Strings) -> Result<(), Error> {
        self.at += 1;
        if self.at >= self.batch.len() {
            self.refill(strings)?;
        }
        Ok(())
    }

    fn refill(&mut self, strings: &mut Strings) -> Result<(), Error> {
        self.batch.clear();
        self.at = 0;
        self.stream.fill(strings, &mut self.batch)?;
        for event in &mut self.batch {
            event.time = event.time.within_horizon();
        }
        Ok(())
    }

    fn time(&self) -> Option<Time> {
        self.head().map(|e| e.time)
    }
}

/// The streams of one thread.
struct ThreadStreams<S> {
    thread: ThreadIx,
    streams: Vec<Cursor<S>>,
}

impl<S: AnnotationEvents> ThreadStreams<S> {
    fn rewind(&mut self, strings: &mut Strings) -> Result<(), Error> {
        for cursor in &mut self.streams {
            cursor.stream.rewind();
            cursor.refill(strings)?;
        }
        Ok(())
    }

    /// The stream with the oldest next event. Two clients of a thread may stamp within one tick of the clock: which of
    /// those came first is taken from what is open in the thread ([`Slicer::turn`]).
    fn oldest(&self, slicer: &Slicer, out: &Out) -> Option<(Time, usize)> {
        if let [only] = &self.streams[..] {
            return only.time().map(|t| (t, 0));
        }
        let first = self.streams.iter().filter_map(Cursor::time).min()?;
        let heads = self.streams.iter().enumerate();
        let equal = heads.filter_map(|(ix, c)| Some((c.head().filter(|e| e.time == first)?, ix)));
        let (_, ix) = equal.min_by_key(|(e, ix)| (slicer.turn(e, out), *ix))?;
        Some((first, ix))
    }
}

/// Fills the columns of `trace` that come from annotations. `streams` come with their thread.
pub(crate) fn annotate<S: AnnotationEvents>(
    trace: &mut Trace,
    streams: Vec<(ThreadIx, S)>,
) -> Result<(), Error> {
    let names = default_names(&mut trace.strings);
    let mut shared = Shared::new(names, trace.span.clone());
    let mut out = Out::default();
    for (process, mut threads) in by_process(trace, streams) {
        shared.enter(process);
        let lengths = (
            out.slices.start.len(),
            out.args.slice.len(),
            out.instants.time.len(),
            out.locks.lengths(),
        );
        if !apart(trace, &mut threads, &mut shared, &mut out)? {
            shared.restart();
            truncate(&mut out, lengths);
            together(trace, &mut threads, &mut shared, &mut out)?;
        }
    }
    if out.slices.start.len() >= u32::MAX as usize {
        return Err(Error::TooMany { what: "slices", max: u32::MAX });
    }
    trace.folded_tasks = shared.take_folded();
    let folded = &trace.folded_tasks;
    folded::say_in_slices(folded, &out.slices, &mut out.args, &mut trace.strings);
    sort_args(&mut out);
    barriers::end_unseen(&trace.threads, &mut out.slices);
    out.locks.publish(trace, &mut out.slices, names);
    trace.slices = out.slices;
    trace.args = out.args;
    trace.instants = out.instants;
    trace.flows = shared.join_flows();
    trace.counters = shared.take_counters();
    trace.task_edges = shared.take_edges();
    trace.tasks = shared.tasks;
    Ok(())
}

fn default_names(strings: &mut Strings) -> DefaultNames {
    DefaultNames {
        waits: ["wait", "barrier", "join", "cond", "io", "semaphore", "once"]
            .map(|name| strings.intern(name)),
        lock: strings.intern("lock"),
        task: strings.intern("task"),
        steal: strings.intern("steal"),
        unnamed: strings.intern("(no name)"),
        began_unseen: strings.intern("(began unseen)"),
    }
}

/// Threads in final order, grouped by process; each with its streams.
fn by_process<S: AnnotationEvents>(
    trace: &Trace,
    streams: Vec<(ThreadIx, S)>,
) -> Vec<(ProcessIx, Vec<ThreadStreams<S>>)> {
    let mut streams = streams;
    streams.sort_by_key(|(thread, _)| *thread);
    let mut out: Vec<(ProcessIx, Vec<ThreadStreams<S>>)> = Vec::new();
    for (thread, stream) in streams {
        let process = trace.threads[thread.ix()].process;
        if out.last().is_none_or(|(p, _)| *p != process) {
            out.push((process, Vec::new()));
        }
        let Some((_, threads)) = out.last_mut() else {
            continue;
        };
        let cursor = Cursor { stream, batch: Vec::new(), at: 0 };
        match threads.last_mut() {
            Some(last) if last.thread == thread => last.streams.push(cursor),
            _ => threads.push(ThreadStreams { thread, streams: vec![cursor] }),
        }
    }
    out
}

/// Thread after thread. False: the process has tasks, and the result must be thrown away.
fn apart<S: AnnotationEvents>(
    trace: &mut Trace,
    threads: &mut [ThreadStreams<S>],
    shared: &mut Shared,
    out: &mut Out,
) -> Result<bool, Error> {
    let before = trace.n_annotation_events;
    for thread in threads.iter_mut() {
        thread.rewind(&mut trace.strings)?;
        let mut slicer = slicer_for(trace, thread.thread, out);
        if let [only] = &mut thread.streams[..] {
            while !only.batch.is_empty() {
                for e in &only.batch {
                    if Slicer::is_task(e.kind) {
                        trace.n_annotation_events = before;
                        return Ok(false);
                    }
                    slicer.event(e, out, shared);
                }
                only.refill(&mut trace.strings)?;
            }
        }
        while let Some((_, ix)) = thread.oldest(&slicer, out) {
            let others = thread.streams.iter().enumerate();
            let others = others.filter(|(other, _)| *other != ix);
            let limit = others.filter_map(|(_, c)| c.time()).min();
            let cursor = &mut thread.streams[ix];
            // Drained until another stream's stamp comes, or an equal one.
            while let Some(e) = cursor.head().copied() {
                if Slicer::is_task(e.kind) {
                    trace.n_annotation_events = before;
                    return Ok(false);
                }
                slicer.event(&e, out, shared);
                cursor.advance(&mut trace.strings)?;
                if cursor.time() >= limit && limit.is_some() {
                    break;
                }
            }
        }
        close(trace, slicer, out);
    }
    Ok(true)
}

/// All threads of a process in one time order; each writes to its own columns, which are then joined.
fn together<S: AnnotationEvents>(
    trace: &mut Trace,
    threads: &mut [ThreadStreams<S>],
    shared: &mut Shared,
    out: &mut Out,
) -> Result<(), Error> {
    let mut work: Vec<(Slicer, Out)> = Vec::with_capacity(threads.len());
    let mut heap = BinaryHeap::new();
    for (ix, thread) in threads.iter_mut().enumerate() {
        thread.rewind(&mut trace.strings)?;
        let own = Out::default();
        let slicer = slicer_for(trace, thread.thread, &own);
        let oldest = thread.oldest(&slicer, &own);
        heap.extend(oldest.map(|(time, stream)| Reverse((time, ix, stream))));
        work.push((slicer, own));
    }
    while let Some(Reverse((_, ix, stream))) = heap.pop() {
        let limit = heap.peek().map(|Reverse((time, _, _))| *time);
        let mut at = Some(stream);
        // Drained until another thread's turn comes, so that a burst costs no heap operation.
        while let Some(stream) = at {
            if let Some(e) = threads[ix].streams[stream].head() {
                if e.kind == Kind::TaskResume as u8 {
                    take_from_others(&mut work, ix, e, shared);
                }
                let (slicer, own) = &mut work[ix];
                slicer.event(e, own, shared);
            }
            threads[ix].streams[stream].advance(&mut trace.strings)?;
            let (slicer, own) = &work[ix];
            at = match threads[ix].oldest(slicer, own) {
                Some((time, stream)) if limit.is_none_or(|l| time < l) => Some(stream),
                Some((time, stream)) => {
                    heap.push(Reverse((time, ix, stream)));
                    None
                }
                None => None,
            };
        }
    }
    for (slicer, mut own) in work {
        close(trace, slicer, &mut own);
        append(out, own);
    }
    Ok(())
}

/// Thread `thief` resumes a task: when another thread still runs it, that one has lost it.
fn take_from_others(work: &mut [(Slicer, Out)], thief: usize, e: &Annotation, shared: &mut Shared) {
    let task = shared.task(e.a, crate::StrIx::NONE);
    let to = (e.time.min(shared.span.end), work[thief].0.thread);
    for ix in (0..work.len()).filter(|&ix| ix != thief) {
        let (slicer, own) = &mut work[ix];
        if let Some((when, carried)) = slicer.stolen(task, to.0, own) {
            shared.suspended(task, carried);
            shared.stolen(task, (when, slicer.thread), to);
        }
    }
}

fn slicer_for(trace: &Trace, thread: ThreadIx, out: &Out) -> Slicer {
    Slicer::new(thread, trace.threads[thread.ix()].alive.clone(), out)
}

/// The thread's events are over: its last facts.
fn close(trace: &mut Trace, mut slicer: Slicer, out: &mut Out) {
    let thread = &mut trace.threads[slicer.thread.ix()];
    thread.slice_levels = slicer.finish(out);
    trace.n_annotation_events += slicer.n_events;
    if slicer.name.is_some() {
        thread.name = slicer.name;
    }
}

fn truncate(out: &mut Out, (slices, args, instants, locks): (usize, usize, usize, Lengths)) {
    out.locks.truncate(locks);
    let s = &mut out.slices;
    s.start.truncate(slices);
    s.end.truncate(slices);
    s.thread.truncate(slices);
    s.name.truncate(slices);
    s.depth.truncate(slices);
    s.parent.truncate(slices);
    s.kind.truncate(slices);
    s.task.truncate(slices);
    s.object.truncate(slices);
    s.open.truncate(slices);
    out.args.slice.truncate(args);
    out.args.instant.truncate(args);
    out.args.name.truncate(args);
    out.args.value.truncate(args);
    out.instants.time.truncate(instants);
    out.instants.thread.truncate(instants);
    out.instants.name.truncate(instants);
}

fn append(out: &mut Out, own: Out) {
    let (slices, instants) = (out.slices.start.len() as u32, out.instants.time.len() as u32);
    let moved = |ix: SliceIx| {
        if ix.is_some() { SliceIx(ix.0 + slices) } else { ix }
    };
    out.locks.append(own.locks);
    let s = &mut out.slices;
    s.start.extend(own.slices.start);
    s.end.extend(own.slices.end);
    s.thread.extend(own.slices.thread.iter().copied());
    s.name.extend(own.slices.name);
    s.depth.extend(own.slices.depth);
    s.parent.extend(own.slices.parent.iter().copied().map(moved));
    s.kind.extend(own.slices.kind);
    s.task.extend(own.slices.task.iter().copied());
    s.object.extend(own.slices.object.iter().copied());
    s.open.extend(own.slices.open.iter().copied());
    out.args.slice.extend(own.args.slice.into_iter().map(moved));
    out.args.instant.extend(
        own.args
            .instant
            .into_iter()
            .map(|ix| if ix.is_some() { crate::InstantIx(ix.0 + instants) } else { ix }),
    );
    out.args.name.extend(own.args.name);
    out.args.value.extend(own.args.value);
    out.instants.time.extend(own.instants.time);
    out.instants.thread.extend(own.instants.thread);
    out.instants.name.extend(own.instants.name);
}

/// By slice, then by instant, then as they came.
fn sort_args(out: &mut Out) {
    let a = &mut out.args;
    let key = |row: usize| (a.slice[row], a.instant[row]);
    if (1..a.slice.len()).all(|row| key(row - 1) <= key(row)) {
        return;
    }
    let mut order: Vec<usize> = (0..a.slice.len()).collect();
    order.sort_by_key(|&row| key(row));
    a.slice = order.iter().map(|&row| a.slice[row]).collect();
    a.instant = order.iter().map(|&row| a.instant[row]).collect();
    a.name = order.iter().map(|&row| a.name[row]).collect();
    a.value = order.iter().map(|&row| a.value[row]).collect();
}

/// Sets the range of each thread's slices.
pub(crate) fn slice_ranges(trace: &mut Trace) {
    let mut row = 0u32;
    let n = trace.slices.thread.len() as u32;
    for ix in 0..trace.threads.len() {
        let start = row;
        while row < n && trace.slices.thread[row as usize].ix() == ix {
            row += 1;
        }
        trace.threads[ix].slices = Range { start, end: row };
    }
}
