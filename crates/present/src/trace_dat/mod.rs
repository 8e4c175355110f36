//! trace-cmd's `trace.dat`, version 6: scheduler events, and annotations as texts written to `trace_marker`. Opens in
//! `trace-cmd report` and KernelShark. Version 6, because every trace-cmd reads it; newer ones convert it.
//!
//! Stamps are CLOCK_MONOTONIC, whatever clock the recording had. All pages are made before the first is written: the
//! file's header says where each CPU's are.
mod events;
mod marks;
mod pages;

use crate::Exported;
use crate::sched_events::{SchedWhat, prev_state, sched_events};
use events::{Bytes, Task};
use kasuri_model::{SliceKind, ThreadIx, ThreadState, Time, Trace};
use marks::Mark;
use pages::{PAGE, Pages};
use std::io::{self, Write};

/// Option ids.
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const CPUCOUNT: u16 = 8;
const VERSION: u16 = 9;
const CLOCK: &str = "[mono]";
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

/// Writes the whole recording.
///
/// # Errors
/// Those of `out`.
pub fn write<W: Write>(trace: &Trace, mut out: W) -> io::Result<Exported> {
    let mut cpus = Cpus::new(trace);
    sched_events(trace, &mut |event| {
        cpus.event(event.cpu, event.time, event.what);
        Ok(())
    })?;
    let (cpus, gaps) = cpus.finish();
    let records = cpus.iter().map(|c| c.n_events).sum();
    let header = header(trace, &cpus);
    out.write_all(&header)?;
    for cpu in &cpus {
        out.write_all(&cpu.bytes)?;
    }
    out.flush()?;
    Ok(Exported {
        records,
        left_out: left_out(trace, gaps),
    })
}

/// Scheduler events alone, as the kernel's ring buffers would have held them: for files that keep raw pages.
#[derive(Clone, Debug, Default)]
pub struct KernelPages {
    /// Text of `events/header_page`.
    pub header_page: &'static str,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Text of each event's format file, by `system/event`.
    pub formats: Vec<(String, String)>,
    /// `cpus[n]`: pages of CPU n.
    pub cpus: Vec<Vec<u8>>,
}

/// The pages of a trace's scheduler events; stamps are CLOCK_MONOTONIC.
pub fn kernel_pages(trace: &Trace) -> KernelPages {
    let mut cpus = Cpus::new(trace);
    cpus.marks.iter_mut().for_each(Vec::clear);
    let done = sched_events(trace, &mut |event| {
        cpus.event(event.cpu, event.time, event.what);
        Ok(())
    });
    debug_assert!(done.is_ok(), "nothing is written here");
    let (pages, _) = cpus.finish();
    let names = [
        "sched_switch",
        "sched_waking",
        "sched_wakeup_new",
        "sched_migrate_task",
    ];
    let formats = names.iter().zip(events::sched_formats());
    KernelPages {
        header_page: HEADER_PAGE,
        page_bytes: PAGE as u32,
        formats: formats
            .map(|(n, text)| (format!("sched/{n}"), text))
            .collect(),
        cpus: pages.into_iter().map(|p| p.bytes).collect(),
    }
}

/// The CPUs' pages while they are made.
struct Cpus<'t> {
    trace: &'t Trace,
    pages: Vec<Pages>,
    /// Marks of each CPU that are not written yet, first last.
    marks: Vec<Vec<Mark>>,
    /// Who runs there.
    running: Vec<ThreadIx>,
    bytes: Bytes,
    gaps: u64,
}

impl<'t> Cpus<'t> {
    fn new(trace: &'t Trace) -> Cpus<'t> {
        let n = trace.cpus.len().max(1);
        let mut marks = marks::marks(trace);
        marks.iter_mut().for_each(|m| m.reverse());
        // Who was there before the first switch.
        let first = |cpu: &kasuri_model::Cpu| {
            let row = cpu.occupancy.start as usize;
            match cpu.occupancy.is_empty() {
                true => ThreadIx::NONE,
                false => trace.occupancy.thread[row],
            }
        };
        let mut running: Vec<ThreadIx> = trace.cpus.iter().map(first).collect();
        running.resize(n, ThreadIx::NONE);
        Cpus {
            trace,
            pages: (0..n).map(|_| Pages::default()).collect(),
            marks,
            running,
            bytes: Bytes::default(),
            gaps: 0,
        }
    }

    fn stamp(&self, time: Time) -> u64 {
        let ns = self.trace.origin_monotonic_ns.saturating_add(time.ns());
        u64::try_from(ns).unwrap_or(0)
    }

    fn event(&mut self, cpu: u16, time: Time, what: SchedWhat) {
        self.marks_before(cpu, time, &what);
        let (at, stamp, trace) = (usize::from(cpu), self.stamp(time), self.trace);
        let context = Task::of(trace, self.running[at], cpu).tid;
        match what {
            SchedWhat::Switch {
                prev,
                left_as,
                next,
                after_gap,
            } => {
                self.running[at] = next;
                // The first row of a CPU says who was there, and is no event - unless it is all there is.
                let rows = &trace.cpus[at].occupancy;
                let is_first = trace.occupancy.start[rows.start as usize] == time && after_gap;
                if is_first && rows.len() > 1 && self.pages[at].n_events == 0 && !prev.is_some() {
                    return;
                }
                let (prev, next) = (Task::of(trace, prev, cpu), Task::of(trace, next, cpu));
                // Woken before it left: it left asleep, as far as the kernel said (docs/design/states.md).
                let left_as = match left_as {
                    ThreadState::RunnableWoken => ThreadState::Sleeping,
                    other => other,
                };
                let prev_state = prev_state(left_as);
                self.pages[at].push(stamp, self.bytes.switch(prev, prev_state, next));
            }
            SchedWhat::Gap { .. } => {
                self.gaps += 1;
                self.running[at] = ThreadIx::NONE;
                self.pages[at].gap();
            }
            SchedWhat::Waking {
                waker,
                wakee,
                target_cpu,
                is_new,
            } => {
                let waker = trace.threads.get(waker.ix()).map(|t| t.tid);
                let wakee = Task::of(trace, wakee, cpu);
                let bytes = self.bytes.waking(waker, context, wakee, target_cpu, is_new);
                self.pages[at].push(stamp, bytes);
            }
            SchedWhat::Migrate { thread, from, to } => {
                let task = Task::of(trace, thread, cpu);
                self.pages[at].push(stamp, self.bytes.migrate(context, task, from, to));
            }
        }
    }

    /// Marks that come before an event: older ones, and of the same stamp those of a thread that a switch takes away.
    fn marks_before(&mut self, cpu: u16, time: Time, what: &SchedWhat) {
        let leaves = match what {
            SchedWhat::Switch { prev, .. } | SchedWhat::Gap { prev, .. } => *prev,
            _ => ThreadIx::NONE,
        };
        let at = usize::from(cpu);
        while let Some(mark) = self.marks[at].pop_if(|m| {
            m.time < time || (m.time == time && m.thread.is_some() && m.thread == leaves)
        }) {
            self.mark(mark);
        }
    }

    fn mark(&mut self, mark: Mark) {
        let text = mark.text(self.trace);
        let (at, stamp) = (usize::from(mark.cpu), self.stamp(mark.time));
        let task = Task::of(self.trace, mark.thread, mark.cpu);
        // A track is no thread: its process's main thread speaks for it.
        let tid = match self.trace.threads.get(mark.thread.ix()) {
            Some(row) if row.tid <= 0 => {
                (self.trace.processes.get(row.process.ix())).map_or(0, |p| p.pid)
            }
            _ => task.tid,
        };
        self.pages[at].push(stamp, self.bytes.print(tid, &text));
    }

    fn finish(mut self) -> (Vec<Pages>, u64) {
        for at in 0..self.pages.len() {
            while let Some(mark) = self.marks[at].pop() {
                self.mark(mark);
            }
            self.pages[at].close();
        }
        (self.pages, self.gaps)
    }
}

fn header(trace: &Trace, cpus: &[Pages]) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    out.extend_from_slice(&(PAGE as u32).to_le_bytes());
    let blob = |out: &mut Vec<u8>, text: &str| {
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    };
    out.extend_from_slice(b"header_page\0");
    blob(&mut out, HEADER_PAGE);
    out.extend_from_slice(b"header_event\0");
    blob(
        &mut out,
        "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\
         \tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n",
    );
    out.extend_from_slice(&1u32.to_le_bytes());
    blob(&mut out, &events::print_format());
    out.extend_from_slice(&1u32.to_le_bytes());
    out.extend_from_slice(b"sched\0");
    let formats = events::sched_formats();
    out.extend_from_slice(&(formats.len() as u32).to_le_bytes());
    formats.iter().for_each(|text| blob(&mut out, text));
    // No symbols, no formats of trace_printk.
    out.extend_from_slice(&[0; 8]);
    blob(&mut out, &cmdlines(trace));
    out.extend_from_slice(&(cpus.len() as u32).to_le_bytes());
    out.extend_from_slice(b"options  \0");
    let info = &trace.info;
    let host = if info.host.is_empty() {
        "-"
    } else {
        &info.host
    };
    let uname = format!("Linux {host} {} {}", info.kernel, info.machine);
    let version = format!("kasuri {}", env!("CARGO_PKG_VERSION"));
    for (id, text) in [(TRACECLOCK, CLOCK), (UNAME, &uname), (VERSION, &version)] {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
        out.push(0);
    }
    out.extend_from_slice(&CPUCOUNT.to_le_bytes());
    out.extend_from_slice(&4u32.to_le_bytes());
    out.extend_from_slice(&(cpus.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(b"flyrecord\0");
    let clock_bytes = 8 + CLOCK.len() + 1;
    let mut at = (out.len() + 16 * cpus.len() + clock_bytes).next_multiple_of(PAGE);
    let end = at;
    for cpu in cpus {
        out.extend_from_slice(&(at as u64).to_le_bytes());
        out.extend_from_slice(&(cpu.bytes.len() as u64).to_le_bytes());
        at += cpu.bytes.len();
    }
    out.extend_from_slice(&(CLOCK.len() as u64 + 1).to_le_bytes());
    out.extend_from_slice(CLOCK.as_bytes());
    out.resize(end, 0);
    out
}

fn cmdlines(trace: &Trace) -> String {
    let mut out = String::new();
    for ix in 0..trace.threads.len() {
        let (tid, name) = (
            trace.threads[ix].tid,
            crate::label::thread(trace, ThreadIx(ix as u32)),
        );
        if tid > 0 {
            out.push_str(&format!("{tid} {}\n", name.replace('\n', " ")));
        }
    }
    out
}

fn left_out(trace: &Trace, gaps: u64) -> Vec<String> {
    let mut out = vec![
        "thread priorities (shown as 120)".to_owned(),
        "which process a thread belongs to, but for those with annotations".to_owned(),
    ];
    let mut some = |n: usize, what: &str| {
        if n > 0 {
            out.push(format!("{n} {what}"));
        }
    };
    some(trace.args.name.len(), "arguments of annotations");
    some(trace.flows.id.len(), "arrows");
    some(trace.tasks.len(), "tasks (their runs are slices)");
    let is_wait = |k: &&SliceKind| !matches!(k, SliceKind::Work | SliceKind::TaskRun);
    let n_waits = trace.slices.kind.iter().filter(is_wait).count();
    some(n_waits, "times: that a slice is a wait or a held lock");
    some(
        trace.kernel_spans.start.len(),
        "interrupts, system calls and waits for kernel locks",
    );
    if gaps > 0 {
        out.push(format!(
            "how many events were lost in {gaps} gaps (that there were some is kept)"
        ));
    }
    out
}
