//! Kernel events that are annotations: what programs and drivers wrote, functions that the kernel ran, counters that it keeps.
use super::sequence::Sequence;
use crate::marks::{Mark as Said, Marks};
use kasuri_format::perfetto::{Mark, MarkEvent, Of};
use kasuri_model::{StrIx, Strings, Time};
use std::collections::HashMap;

/// Most address spaces whose owners are kept; a file of noise must not fill the memory.
const MAX_SPACES: usize = 1 << 20;

/// What marks need to know of threads.
#[derive(Debug, Default)]
pub(super) struct KernelMarks {
    /// The process of a thread.
    pub processes: HashMap<i32, i32>,
    /// The process that an address space was last said to be of.
    spaces: HashMap<u32, i32>,
    /// Number of changes of an unknown process's memory.
    pub n_foreign_memory: u64,
}

impl KernelMarks {
    /// Takes in one; returns process, name and new value of the counter that it is about, if it is about one.
    pub fn add(
        &mut self,
        time: Time,
        event: &MarkEvent,
        sequence: &Sequence,
        marks: &mut Marks,
        strings: &mut Strings,
    ) -> Option<(i32, StrIx, f64)> {
        let text = String::from_utf8_lossy;
        let tid = event.tid;
        let mut tell = |said| marks.tell(time, tid, 0, said, strings);
        match event.mark {
            Mark::Text(words) => marks.add(time, tid, 0, words, strings),
            Mark::End => tell(Said::End),
            Mark::Begin(pid, name) => tell(Said::Begin(pid, &text(name))),
            Mark::Instant(name) => tell(Said::Instant(&text(name))),
            Mark::Call(function) => {
                let name = match sequence.kernel_symbols.get(&function) {
                    Some(&name) => strings.get(name).to_owned(),
                    None => format!("{function:#x}"),
                };
                marks.tell(time, tid, 0, Said::Begin(0, &name), strings);
            }
            Mark::Counter(pid, name, value) => {
                return Some((pid, strings.intern(&text(name)), value as f64));
            }
            Mark::Gauge(of, what, value) => {
                let name = match of {
                    Of::Machine => what.to_owned(),
                    Of::Cpu(cpu) => format!("{what} [CPU {cpu}]"),
                    Of::Gpu(gpu) => format!("{what} [GPU {gpu}]"),
                    Of::Named(name) => format!("{what} {}", text(name)),
                };
                return Some((0, strings.intern(&name), value as f64));
            }
            Mark::Memory { what, bytes, space, is_own } => {
                let owner = self.owner(tid, space, is_own);
                self.n_foreign_memory += u64::from(owner.is_none());
                return Some((owner?, strings.intern(what), bytes as f64));
            }
        }
        None
    }

    /// The process whose memory an event is about. The kernel counts for others, too: when it makes or ends them, or frees their pages.
    /// Then only the address space says whose it is.
    fn owner(&mut self, tid: i32, space: u32, is_own: Option<bool>) -> Option<i32> {
        let writer = self.processes.get(&tid).copied().unwrap_or(tid);
        match is_own {
            Some(false) => self.spaces.get(&space).copied(),
            Some(true) => {
                if space != 0
                    && (self.spaces.len() < MAX_SPACES || self.spaces.contains_key(&space))
                {
                    self.spaces.insert(space, writer);
                }
                Some(writer)
            }
            // Kernels before 5.6 do not say, and nearly always mean the writer.
            None => Some(writer),
        }
    }
}
