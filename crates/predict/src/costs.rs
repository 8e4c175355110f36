//! What waking, handing over and sharing cost in the replays of one program: assumed, measured on
//! the machine, or learnt from a second recording on more CPUs.
use crate::extract::Extract;
use crate::machine::Machine;
use crate::program::Sums;
use crate::replay::{Setup, replay};
use std::collections::{HashMap, VecDeque};

/// By so much more than the machine's loops the code of a program may slow down when other CPUs are
/// busy, unless it was measured: threads that add to one counter, without a lock, lose about as
/// much (`bench/predict/run --set meet`); programs that wait for memory can lose all that there is
/// to gain.
const UNMEASURED: f64 = 0.25;

/// With which costs a program is replayed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    Expected,
    /// The same of the sample, where there is one.
    Sampled,
    Cheap,
    Dear,
}

/// The costs of one program's replays.
pub struct Costs {
    /// Expected.
    pub machine: Machine,
    /// Whether code outside locks was seen to slow down, or only the machine says so.
    pub slowdown_is_seen: bool,
    /// Of each lock, ns; where there is none the machine's.
    pub transfer: Vec<f64>,
    /// Of each lock, how much longer it was held on more CPUs.
    pub inflation: Vec<Option<f64>>,
}

impl Costs {
    /// As far as one recording says them.
    pub fn new(first: &Extract, mut machine: Machine) -> Costs {
        if let Some(slice) = first.slice_ns {
            machine.slice_ns = slice.clamp(100_000.0, 20_000_000.0);
        }
        Costs {
            machine,
            slowdown_is_seen: false,
            transfer: Vec::new(),
            inflation: vec![None; first.program.locks.len()],
        }
    }

    /// From a second run on more CPUs: how much slower code inside and outside locks is there.
    pub fn learn(&mut self, first: &Extract, second: &Extract) {
        let (a, b) = (&first.program, &second.program);
        let (sums_a, sums_b) = (&a.sums(), b.sums());
        let outside = |sums: &Sums| sums.work_ns.saturating_sub(sums.inside_ns) as f64;
        if outside(sums_a) > 0.0 {
            // Faster there by more than a little is a machine that was slower during the first run,
            // not the program.
            self.machine.slowdown = (outside(&sums_b) / outside(sums_a)).clamp(0.97, 3.0);
            self.slowdown_is_seen = true;
        }
        // How often a lock changes CPUs decides what one change costs: ask a replay.
        let plain = replay(a, &Setup::new(&self.machine, second.n_cpus.max(2)));
        let (hold_a, n_a) = (&sums_a.hold_ns, &sums_a.acquisitions);
        let (hold_b, n_b) = (&sums_b.hold_ns, &sums_b.acquisitions);
        let mut transfer = Vec::new();
        // Addresses differ between runs, names do not; of equal names, the same in the order of
        // first use.
        let mut of_name: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (j, lock) in b.locks.iter().enumerate() {
            of_name.entry(&lock.name).or_default().push_back(j);
        }
        for (i, lock) in a.locks.iter().enumerate() {
            let same = of_name.get_mut(lock.name.as_str()).and_then(VecDeque::pop_front);
            let moved = plain.locks[i].moved as f64 / plain.locks[i].n.max(1) as f64;
            let cost = same.filter(|&j| n_a[i] >= 50 && n_b[j] >= 50 && hold_a[i] > 0).map(|j| {
                let (mean_a, mean_b) =
                    (hold_a[i] as f64 / n_a[i] as f64, hold_b[j] as f64 / n_b[j] as f64);
                self.inflation[i] = Some(mean_b / mean_a);
                ((mean_b - mean_a) / moved.max(0.02))
                    .clamp(0.0, 20.0 * mean_a.max(self.machine.transfer_ns))
            });
            transfer.push(cost.unwrap_or(self.machine.transfer_ns));
        }
        self.transfer = transfer;
    }

    /// The machine with these costs.
    pub fn machine_of(&self, variant: Variant) -> Machine {
        let doubt = if self.machine.is_measured { 1.5 } else { 3.0 };
        let slow = |extra: f64| (self.machine.slowdown + extra).max(1.0);
        let slowdown_of = |seen: f64, else_to: f64| match self.slowdown_is_seen {
            true => slow(seen),
            false => else_to,
        };
        let (factor, slowdown, relay_ns) = match variant {
            Variant::Expected | Variant::Sampled => return self.machine,
            Variant::Cheap => (1.0 / doubt, slowdown_of(-0.02, 1.0), 0.0),
            // Where others kept the CPUs awake that was measured too low; on quiet ones it was up
            // to a whole wake-up.
            Variant::Dear => {
                (doubt, slowdown_of(0.02, slow(UNMEASURED)), self.machine.wake_latency_ns)
            }
        };
        let scaled = self.machine.scaled(factor);
        Machine { slowdown, relay_ns: scaled.relay_ns.max(relay_ns), ..scaled }
    }
}
