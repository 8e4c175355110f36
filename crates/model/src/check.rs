//! Checks what holds for every trace, whatever was recorded: the rules of [`crate::types`], executable.
//!
//! Tests of the passes, of importers and of damaged files call [`Trace::broken_rules`] on their result: columns of one
//! table have one length, rows are sorted as documented, ranges lie inside their tables, slices of one depth do not
//! overlap. [`Trace::disagreements`] is apart, because what it reports may be true of the
//! recorded events themselves.
use crate::{SliceKind, TaskEdgeKind, ThreadIx, ThreadState, Trace};

/// Further messages are left out: they rarely tell anything new.
const MOST: usize = 20;

struct Report(Vec<String>);

impl Report {
    fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds && self.0.len() < MOST {
            self.0.push(what());
        }
    }
}

/// The named columns of a table have one length.
macro_rules! same_lengths {
    ($report:ident, $trace:ident.$table:ident: $($column:ident),+) => {
        let lengths = [$($trace.$table.$column.len()),+];
        $report.expect(lengths.iter().all(|&n| n == lengths[0]), || {
            let table = stringify!($table).replace('_', " ");
            format!("columns of {table}: {lengths:?}")
        });
    };
}

impl Trace {
    /// The rules of [`crate::types`] that this trace breaks; empty: none. For tests and for importers.
    pub fn broken_rules(&self) -> Vec<String> {
        let mut report = Report(Vec::new());
        self.check_lengths(&mut report);
        if report.0.is_empty() {
            self.check_threads(&mut report);
            self.check_occupancy(&mut report);
            self.check_slices(&mut report);
            self.check_times(&mut report);
            self.check_task_edges(&mut report);
            self.check_call_paths(&mut report);
        }
        report.0
    }

    /// Threads whose running time by their states differs from that by the CPUs' occupancy. The two may differ when
    /// events contradict each other (clocks that are not the same on all CPUs, losses that no event reports).
    pub fn disagreements(&self) -> Vec<String> {
        let mut ran = vec![0i64; self.threads.len()];
        for cpu in 0..self.cpus.len() {
            for row in self.occupancy_of(cpu).filter(|r| r.thread.is_some()) {
                ran[row.thread.ix()] += (row.end - row.start).ns();
            }
        }
        let mut report = Report(Vec::new());
        for (ix, &ran) in ran.iter().enumerate() {
            let rows =
                self.states_of(ThreadIx(ix as u32)).filter(|r| r.state == ThreadState::Running);
            let running: i64 = rows.map(|r| (r.end - r.start).ns()).sum();
            let tid = self.threads[ix].tid;
            report.expect(running == ran, || {
                format!("tid {tid} ran {running} ns, its CPUs say {ran}")
            });
        }
        report.0
    }

    fn check_lengths(&self, report: &mut Report) {
        same_lengths!(report, self.states: start, state, cpu, by);
        same_lengths!(report, self.occupancy: start, thread, idle);
        same_lengths!(report, self.wakeups: time, waker, wakee, cpu, latency);
        same_lengths!(report, self.migrations: time, thread, from_cpu, to_cpu);
        same_lengths!(report, self.execs: thread, time);
        same_lengths!(report, self.slices: start, end, thread, name, depth);
        same_lengths!(report, self.slices: start, parent, kind, task, object, open);
        same_lengths!(report, self.args: slice, instant, name, value);
        same_lengths!(report, self.instants: time, thread, name);
        same_lengths!(report, self.kernel_spans: kind, start, end, cpu, thread, name);
        same_lengths!(report, self.flows: id, name, from_time, from_thread, to_time, to_thread);
        same_lengths!(report, self.task_edges: kind, time, task, on);
        same_lengths!(report, self.folded_tasks: task, name, count);
        same_lengths!(report, self.frames: function, module, file, line, address, kind);
        same_lengths!(report, self.paths: caller, frame);
        same_lengths!(report, self.samples: time, thread, cpu, kind, is_complete, path);
    }

    fn check_threads(&self, report: &mut Report) {
        let (mut next_state, mut next_slice, mut next_thread) = (0, 0, 0);
        for (ix, process) in self.processes.iter().enumerate() {
            report.expect(process.threads.start == next_thread, || {
                format!("process {ix}: threads {:?}", process.threads)
            });
            next_thread = process.threads.end;
            let parent = process.parent;
            report.expect(!parent.is_some() || parent.ix() < self.processes.len(), || {
                format!("process {ix}: parent {parent:?}")
            });
        }
        report.expect(next_thread as usize == self.threads.len(), || {
            "threads without a process".into()
        });
        for (ix, thread) in self.threads.iter().enumerate() {
            let tid = thread.tid;
            report.expect(thread.states.start == next_state, || {
                format!("tid {tid}: states {:?}", thread.states)
            });
            report.expect(thread.slices.start == next_slice, || {
                format!("tid {tid}: slices {:?}", thread.slices)
            });
            (next_state, next_slice) = (thread.states.end, thread.slices.end);
            report.expect(thread.alive.start <= thread.alive.end, || {
                format!("tid {tid}: alive {:?}", thread.alive)
            });
            let mut at = thread.alive.start;
            for (n, row) in self.states_of(ThreadIx(ix as u32)).enumerate() {
                let follows = if n == 0 {
                    row.start == at
                } else {
                    row.start == at && row.start > thread.alive.start
                };
                report.expect(follows && row.end >= row.start, || {
                    format!("tid {tid}: state {n} at {:?} after {at:?}", row.start)
                });
                at = row.end;
            }
            let whole = thread.states.is_empty() || at == thread.alive.end;
            report.expect(whole, || {
                format!("tid {tid}: states end at {at:?}, it at {:?}", thread.alive.end)
            });
        }
        report.expect(next_state as usize == self.states.start.len(), || {
            "states without a thread".into()
        });
        report.expect(next_slice as usize == self.slices.start.len(), || {
            "slices without a thread".into()
        });
        for by in self.states.by.iter().filter(|by| by.is_some()) {
            report.expect(by.ix() < self.threads.len(), || format!("states: by {by:?}"));
        }
    }

    fn check_occupancy(&self, report: &mut Report) {
        let mut next = 0;
        for (number, cpu) in self.cpus.iter().enumerate() {
            report.expect(cpu.occupancy.start == next, || {
                format!("CPU {number}: rows {:?}", cpu.occupancy)
            });
            next = cpu.occupancy.end;
            let mut at = self.span.start;
            for (n, row) in self.occupancy_of(number).enumerate() {
                let follows = row.start == at && (n == 0 || row.start > self.span.start);
                report.expect(follows, || {
                    format!("CPU {number}: row {n} at {:?} after {at:?}", row.start)
                });
                report.expect(!(row.idle && row.thread.is_some()), || {
                    format!("CPU {number}: row {n} idle with a thread")
                });
                at = row.end;
            }
            report.expect(cpu.occupancy.is_empty() || at == self.span.end, || {
                format!("CPU {number} ends at {at:?}")
            });
        }
        report.expect(next as usize == self.occupancy.start.len(), || {
            "occupancy without a CPU".into()
        });
    }

    fn check_slices(&self, report: &mut Report) {
        let s = &self.slices;
        for (ix, thread) in self.threads.iter().enumerate() {
            let mut free_at = vec![crate::Time::MIN; usize::from(thread.slice_levels)];
            let mut before = (crate::Time::MIN, 0);
            for row in thread.slices.start as usize..thread.slices.end as usize {
                let (start, end, depth) = (s.start[row], s.end[row], s.depth[row]);
                let place = || {
                    format!("slice {row} ({start:?}..{end:?}, depth {depth}) of tid {}", thread.tid)
                };
                report
                    .expect(s.thread[row].ix() == ix, || format!("{}: another thread's", place()));
                report
                    .expect(before <= (start, depth), || format!("{}: after {before:?}", place()));
                report.expect(start <= end, || format!("{}: ends before it begins", place()));
                before = (start, depth);
                match free_at.get_mut(usize::from(depth)) {
                    Some(free) => {
                        report.expect(*free <= start, || {
                            format!("{}: overlaps one that ends at {free:?}", place())
                        });
                        *free = end;
                    }
                    None => report
                        .expect(false, || format!("{}: {} levels", place(), thread.slice_levels)),
                }
                if s.parent[row].is_some() {
                    let parent = s.parent[row].ix();
                    let inside =
                        parent < row && s.thread[parent].ix() == ix && s.start[parent] <= start;
                    let encloses = s.kind[row] == SliceKind::LockHold
                        || (s.end[parent] >= end && s.depth[parent] < depth);
                    report.expect(inside && encloses, || format!("{}: parent {parent}", place()));
                }
            }
        }
    }

    fn check_times(&self, report: &mut Report) {
        report.expect(self.wakeups.time.is_sorted(), || "wake-ups out of order".into());
        report.expect(self.migrations.time.is_sorted(), || "migrations out of order".into());
        let execs = self.execs.thread.iter().zip(&self.execs.time);
        report.expect(execs.is_sorted(), || "execs out of order".into());
        report.expect(self.flows.from_time.is_sorted(), || "flows out of order".into());
        for counter in &self.counters {
            report.expect(counter.time.is_sorted(), || "a counter goes back in time".into());
        }
        let sorted = |row: &usize| {
            let k = &self.kernel_spans;
            (k.kind[*row], k.start[*row])
        };
        let n = self.kernel_spans.kind.len();
        report.expect((1..n).all(|row| sorted(&(row - 1)) <= sorted(&row)), || {
            "kernel spans out of order".into()
        });
    }

    fn check_task_edges(&self, report: &mut Report) {
        let (edges, n) = (&self.task_edges, self.tasks.len());
        for row in 0..edges.kind.len() {
            let (task, on) = (edges.task[row], edges.on[row]);
            let may_be_none = edges.kind[row] == TaskEdgeKind::Join;
            let holds = on.ix() < n && (task.ix() < n || (may_be_none && !task.is_some()));
            report.expect(holds, || format!("task edge {row}: {task:?} on {on:?}"));
        }
    }

    fn check_call_paths(&self, report: &mut Report) {
        for (row, (caller, frame)) in (self.paths.caller.iter().zip(&self.paths.frame)).enumerate()
        {
            report.expect(!caller.is_some() || caller.ix() < row, || {
                format!("path {row}: caller {caller:?}")
            });
            report.expect(frame.ix() < self.frames.function.len(), || {
                format!("path {row}: frame {frame:?}")
            });
        }
        let s = &self.samples;
        report.expect(s.weight.is_empty() || s.weight.len() == s.time.len(), || {
            format!("{} weights of {} samples", s.weight.len(), s.time.len())
        });
        for row in 0..s.time.len() {
            let (thread, path) = (s.thread[row], s.path[row]);
            report.expect(thread.ix() < self.threads.len(), || {
                format!("sample {row}: thread {thread:?}")
            });
            report.expect(!path.is_some() || path.ix() < self.paths.frame.len(), || {
                format!("sample {row}: path {path:?}")
            });
            let before = row.checked_sub(1).map(|row| (s.thread[row], s.time[row]));
            report.expect(before.is_none_or(|b| b <= (thread, s.time[row])), || {
                format!("sample {row}: after {before:?}")
            });
        }
        report.expect(self.sampling.is_sorted_by_key(|change| change.time), || {
            "changes of sampling out of order".into()
        });
    }
}
