//! What a machine charges for parallel work. `kasuri predict` measures it; the defaults are of one virtual machine.
use serde::{Deserialize, Serialize};

/// Costs, ns, and how much slower code runs when other CPUs are busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// From the call that wakes a thread until it runs on another, idle CPU.
    pub wake_latency_ns: f64,
    /// What the waker pays for that call.
    pub wake_call_ns: f64,
    /// What the waker pays when the thread is put in a busy CPU's queue.
    pub wake_local_ns: f64,
    /// From finding a lock taken until the kernel looks whether it still is: a release within this time is noticed.
    pub retry_ns: f64,
    /// What it costs the CPU to go to another thread.
    pub switch_ns: f64,
    /// How long a thread may run while others are ready.
    pub slice_ns: f64,
    /// Getting the data of a critical section from another CPU's cache, for each acquisition after another CPU's.
    pub transfer_ns: f64,
    /// Code outside locks takes this many times longer when all CPUs are busy.
    pub slowdown: f64,
    /// What recording one lock event cost the program; taken off the recorded times.
    pub annotation_ns: f64,
    /// Whether somebody measured these numbers on the machine at hand.
    pub is_measured: bool,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            wake_latency_ns: 30_000.0,
            wake_call_ns: 8_000.0,
            wake_local_ns: 800.0,
            retry_ns: 300.0,
            switch_ns: 1_000.0,
            slice_ns: 3_000_000.0,
            transfer_ns: 100.0,
            slowdown: 1.0,
            annotation_ns: 8.0,
            is_measured: false,
        }
    }
}

impl Machine {
    /// Everything for nothing: what the textbook models assume.
    pub fn ideal() -> Machine {
        Machine {
            wake_latency_ns: 0.0,
            wake_call_ns: 0.0,
            wake_local_ns: 0.0,
            retry_ns: 0.0,
            switch_ns: 0.0,
            slice_ns: 3_000_000.0,
            transfer_ns: 0.0,
            slowdown: 1.0,
            annotation_ns: 0.0,
            is_measured: false,
        }
    }

    /// Costs of waking, sleeping and moving data, times `factor`.
    pub fn scaled(&self, factor: f64) -> Machine {
        Machine {
            wake_latency_ns: self.wake_latency_ns * factor,
            wake_call_ns: self.wake_call_ns * factor,
            wake_local_ns: self.wake_local_ns * factor,
            retry_ns: self.retry_ns * factor,
            switch_ns: self.switch_ns * factor,
            transfer_ns: self.transfer_ns * factor,
            ..*self
        }
    }
}
