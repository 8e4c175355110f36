//! The scheduler's events as they come -> where CPU time went, window by window (`kasuri top`).
//!
//! [`Live::push`] takes raw pages of the kernel's buffers, [`Live::advance`] applies their events up to a moment, in the order of
//! time over all CPUs, and [`Live::close`] ends a window and returns its [`Window`]. No I/O; a few tens of ns an event; memory in
//! proportion to the threads that exist, not to time.
//!
//! This is a second, smaller reading of the events that `kasuri_model` reads (docs/design/states.md has the definitions). It keeps
//! sums instead of columns, because a window of one second at a million events would take longer to model than it lasts; what needs
//! the past (critical path, locks, prediction) needs a recording. `tests/golden.rs` holds the two against each other.
//!
//! | module | contents |
//! |---|---|
//! | `events` | bytes of an event -> what happened |
//! | `order` | pages of many CPUs -> events in the order of time |
//! | `state` | what threads and CPUs are doing, and the sums |
//! | `window` | the answer |
//! | `calls` | system calls that take too long, apart from all of that |
//! | `latency` | distribution of waits for a CPU |
#![forbid(unsafe_code)]

mod calls;
mod events;
mod latency;
mod order;
mod state;
mod window;

pub use calls::{Calls, LongCall};
pub use latency::Latencies;
pub use window::{ProcessRow, ThreadRow, Wait, Window, Worst};

use events::Decoder;
use kasuri_format::Result;
use kasuri_format::meta::KernelMeta;
use order::Order;
use state::State;
use std::sync::Arc;

/// Follows the scheduler's events. Not thread safe; one owner.
#[derive(Debug)]
pub struct Live {
    decoder: Decoder,
    order: Order,
    state: State,
}

impl Live {
    /// Begins at `now_ns`, with nothing known yet. `cpus`: numbers of the CPUs that have buffers, in the order in which
    /// [`Live::push`] names them.
    ///
    /// # Errors
    /// When the layout of pages, or the format of sched_switch, is not understood.
    pub fn new(kernel: &KernelMeta, cpus: &[u32], now_ns: u64) -> Result<Live> {
        Ok(Live {
            decoder: Decoder::new(kernel)?,
            order: Order::new(kernel, cpus.len())?,
            state: State::new(cpus, now_ns),
        })
    }

    /// A thread that exists: its process and names, as /proc shows them.
    pub fn learn(&mut self, pid: i32, tid: i32, name: &str) {
        self.state.learn(pid, tid, name);
    }

    /// Threads that events named and whose process is not known, at most `most`.
    pub fn unknown(&self, most: usize) -> Vec<i32> {
        self.state.unknown(most)
    }

    /// A page of the CPU at this position. Pages of one CPU come in their order.
    pub fn push(&mut self, cpu: usize, page: Arc<[u8]>) {
        self.order.push(cpu, page);
    }

    /// Applies all events with stamps up to `until_ns`. What CPUs wrote before that must have been pushed.
    pub fn advance(&mut self, until_ns: u64) {
        let (decoder, state) = (&self.decoder, &mut self.state);
        self.order.take_until(until_ns, |cpu, stamp, data| {
            match data {
                order::Taken::Event(data) => {
                    if let Some(event) = decoder.event(data) {
                        state.apply(cpu, stamp, &event);
                    }
                }
                order::Taken::Gap => state.gap(cpu, stamp),
            };
        });
    }

    /// Ends the window that began at the last call, or at the start, and begins the next.
    pub fn close(&mut self, now_ns: u64) -> Window {
        self.state.close(now_ns, self.order.take_damaged())
    }
}
