//! The costs of parallel work on a machine. Recordings carry them as measured; the defaults are those of one virtual machine.
//!
//! Waking a thread costs more the longer its CPU has been idle, because CPUs sleep more deeply with time. So latency and the
//! waker's cost are measured at three idle times and interpolated between them, by the logarithm of the time.
use kasuri_base::parallel::ParallelCosts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Costs, ns, and how much slower code runs when other CPUs are busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// From the call that wakes a thread until it runs on another CPU, idle for [`IDLE_NS`].
    pub wake_latency_ns: f64,
    /// The same where that CPU has been idle for [`SHORT_NS`] only...
    pub wake_latency_short_ns: f64,
    /// ...and for [`LONG_NS`].
    pub wake_latency_long_ns: f64,
    /// A wake-up takes so much longer where the waker's own CPU was idle until after the other one went idle: threads that
    /// work in turns, each on a CPU of its own. Absent in answers of earlier versions: 0.
    #[serde(default)]
    pub relay_ns: f64,
    /// Cost of that call to the waker when the other CPU has been idle for [`IDLE_NS`].
    pub wake_call_ns: f64,
    /// The same for [`SHORT_NS`]...
    pub wake_call_short_ns: f64,
    /// ...and for [`LONG_NS`].
    pub wake_call_long_ns: f64,
    /// Cost to the waker when the thread is put in a busy CPU's queue.
    pub wake_local_ns: f64,
    /// From finding a lock taken until the kernel looks whether it still is: a release within this time is noticed.
    pub retry_ns: f64,
    /// Then, until the thread is off its CPU: a wake-up meanwhile costs the waker little, and the thread turns round.
    pub fall_ns: f64,
    /// Cost of a switch to another thread.
    pub switch_ns: f64,
    /// Time for which a thread may run while others are ready.
    pub slice_ns: f64,
    /// Getting the data of a critical section from another CPU's cache, for each acquisition after another CPU's.
    pub transfer_ns: f64,
    /// Code outside locks takes this many times longer when all CPUs are busy.
    pub slowdown: f64,
    /// Cost to the program of recording one lock event; subtracted from the recorded times.
    pub annotation_ns: f64,
    /// Whether these numbers were measured on the machine at hand.
    pub is_measured: bool,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            wake_latency_ns: 30_000.0,
            wake_latency_short_ns: 15_000.0,
            wake_latency_long_ns: 40_000.0,
            relay_ns: 8_000.0,
            fall_ns: 200.0,
            wake_call_ns: 8_000.0,
            wake_call_short_ns: 7_000.0,
            wake_call_long_ns: 12_000.0,
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

impl From<ParallelCosts> for Machine {
    /// A machine that was measured.
    fn from(costs: ParallelCosts) -> Machine {
        Machine {
            wake_latency_ns: costs.wake_latency_ns,
            wake_latency_short_ns: costs.wake_latency_short_ns,
            wake_latency_long_ns: costs.wake_latency_long_ns,
            relay_ns: costs.relay_ns,
            fall_ns: costs.fall_ns,
            wake_call_ns: costs.wake_call_ns,
            wake_call_short_ns: costs.wake_call_short_ns,
            wake_call_long_ns: costs.wake_call_long_ns,
            wake_local_ns: costs.wake_local_ns,
            switch_ns: costs.switch_ns,
            retry_ns: costs.retry_ns,
            transfer_ns: costs.transfer_ns,
            slowdown: costs.slowdown.max(1.0),
            is_measured: true,
            ..Machine::default()
        }
    }
}

/// Idle time of a CPU before it is woken, in the measurement of costs.
pub const SHORT_NS: f64 = 3_000.0;
/// As above.
pub const IDLE_NS: f64 = 50_000.0;
/// As above.
pub const LONG_NS: f64 = 1_000_000.0;

impl Machine {
    /// From the call that wakes a thread until it runs on a CPU that has been idle for so long: it sleeps deeper with time.
    pub fn latency(&self, idle_ns: f64) -> f64 {
        after(
            idle_ns,
            [self.wake_latency_short_ns, self.wake_latency_ns, self.wake_latency_long_ns],
        )
    }

    /// Cost of that call to the waker.
    pub fn call(&self, idle_ns: f64) -> f64 {
        after(idle_ns, [self.wake_call_short_ns, self.wake_call_ns, self.wake_call_long_ns])
    }

    /// Everything for nothing: what the textbook models assume.
    pub fn ideal() -> Machine {
        Machine {
            wake_latency_ns: 0.0,
            wake_latency_short_ns: 0.0,
            wake_latency_long_ns: 0.0,
            relay_ns: 0.0,
            fall_ns: 0.0,
            wake_call_ns: 0.0,
            wake_call_short_ns: 0.0,
            wake_call_long_ns: 0.0,
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
            wake_latency_short_ns: self.wake_latency_short_ns * factor,
            wake_latency_long_ns: self.wake_latency_long_ns * factor,
            relay_ns: self.relay_ns * factor,
            fall_ns: self.fall_ns * factor,
            wake_call_ns: self.wake_call_ns * factor,
            wake_call_short_ns: self.wake_call_short_ns * factor,
            wake_call_long_ns: self.wake_call_long_ns * factor,
            wake_local_ns: self.wake_local_ns * factor,
            retry_ns: self.retry_ns * factor,
            switch_ns: self.switch_ns * factor,
            transfer_ns: self.transfer_ns * factor,
            ..*self
        }
    }
}

/// Between the three points, by the logarithm of the time.
fn after(idle_ns: f64, [short, middle, long]: [f64; 3]) -> f64 {
    let between = |a: (f64, f64), b: (f64, f64)| {
        let share = (idle_ns / a.0).ln() / (b.0 / a.0).ln();
        a.1 + (b.1 - a.1) * share
    };
    match idle_ns {
        i if i >= LONG_NS => long,
        i if i >= IDLE_NS => between((IDLE_NS, middle), (LONG_NS, long)),
        i if i > SHORT_NS => between((SHORT_NS, short), (IDLE_NS, middle)),
        _ => short,
    }
}
