//! Interrupts, softirqs, system calls and waits for kernel locks: entry and exit events -> spans.
//!
//! Interrupts nest on their CPU, so their open ones are a stack by CPU. A system call and a wait for a kernel lock belong to
//! the thread, which may sleep in them and leave on another CPU, so these are kept by thread.
use crate::input::What;
use crate::table::{NONE, Order, Table};
use crate::{KernelSpanKind, KernelSpans, StrIx, Time};

#[derive(Clone, Copy, Debug)]
struct Span {
    kind: KernelSpanKind,
    start: Time,
    end: Time,
    cpu: u16,
    thread: u32,
    name: StrIx,
}

/// Spans so far, and the open ones.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    done: Vec<Span>,
    /// Open interrupt handlers of each CPU, outermost first. Nested more deeply than this: damage.
    open: Vec<Vec<Span>>,
}

const MAX_NESTED: usize = 16;

impl Spans {
    pub fn new(n_cpus: usize) -> Spans {
        Spans { done: Vec::new(), open: vec![Vec::new(); n_cpus] }
    }

    pub fn interrupt(&mut self, cpu: u16, time: Time, thread: u32, what: &What) {
        let open = &mut self.open[usize::from(cpu)];
        let (kind, entry) = match *what {
            What::IrqEntry { name } => (KernelSpanKind::Irq, Some(name)),
            What::IrqExit => (KernelSpanKind::Irq, None),
            What::SoftirqEntry { name } => (KernelSpanKind::Softirq, Some(name)),
            _ => (KernelSpanKind::Softirq, None),
        };
        match entry {
            Some(name) if open.len() < MAX_NESTED => {
                open.push(Span { kind, start: time, end: time, cpu, thread, name })
            }
            Some(_) => {}
            None => {
                // An exit without an entry (before the start, or lost) is left out.
                if let Some(at) = open.iter().rposition(|s| s.kind == kind) {
                    self.done.push(Span { end: time, ..open[at] });
                    open.truncate(at);
                }
            }
        }
    }

    pub fn syscall_entry(
        &mut self,
        table: &mut Table,
        row: u32,
        cpu: u16,
        time: Time,
        name: StrIx,
    ) {
        if row != NONE {
            table.rows[row as usize].syscall = Some((time, name, cpu));
        }
    }

    pub fn syscall_exit(&mut self, table: &mut Table, row: u32, time: Time, _start: Time) {
        if row == NONE {
            return;
        }
        if let Some((start, name, cpu)) = table.rows[row as usize].syscall.take() {
            self.done.push(Span {
                kind: KernelSpanKind::Syscall,
                start,
                end: time.max(start),
                cpu,
                thread: row,
                name,
            });
        }
    }

    /// A mutex says so twice, when it begins to spin and when it goes to sleep, and ends once.
    pub fn lock_begin(&mut self, table: &mut Table, row: u32, cpu: u16, time: Time, name: StrIx) {
        if row != NONE {
            let open = &mut table.rows[row as usize].kernel_lock;
            open.get_or_insert((time, name, cpu));
        }
    }

    pub fn lock_end(&mut self, table: &mut Table, row: u32, time: Time) {
        if row == NONE {
            return;
        }
        if let Some((start, name, cpu)) = table.rows[row as usize].kernel_lock.take() {
            self.done.push(Span {
                kind: KernelSpanKind::LockContention,
                start,
                end: time.max(start),
                cpu,
                thread: row,
                name,
            });
        }
    }

    /// Events of this CPU are missing: what was open may have ended long ago.
    pub fn lost(&mut self, cpu: u16) {
        self.open[usize::from(cpu)].clear();
    }

    /// The columns. System calls still open at the end last until it.
    pub fn publish(mut self, table: &Table, order: &Order, end: Time) -> KernelSpans {
        for (row, thread) in table.rows.iter().enumerate() {
            if let Some((start, name, cpu)) = thread.syscall {
                let end = thread.end.min(end).max(start);
                self.done.push(Span {
                    kind: KernelSpanKind::Syscall,
                    start,
                    end,
                    cpu,
                    thread: row as u32,
                    name,
                });
            }
        }
        self.done.sort_by_key(|s| (s.kind, s.start, Reverse(s.end)));
        let mut out = KernelSpans::default();
        for span in &self.done {
            out.kind.push(span.kind);
            out.start.push(span.start);
            out.end.push(span.end);
            out.cpu.push(span.cpu);
            out.thread.push(order.thread(span.thread));
            out.name.push(span.name);
        }
        out
    }
}

use std::cmp::Reverse;
