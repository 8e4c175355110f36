//! The account: where every CPU-second went.
//!
//! | module | does |
//! |---|---|
//! | `class` | the classes, and the description of one cause |
//! | `sweep` | the pass over the recording |
//! | `waiting` | the blocked threads charged for idle CPUs, and their order |
//! | `barrier` | the last thread at each barrier, and why it was last |
//! | `track` | a thread's annotations and kernel spans as step functions |
//! | `allowed` | which CPUs the program might use |
//! | `stood_still` | when no CPU of the machine ran |
//! | `throttle` | when CPU limits kept the program off |
//! | `segments` | the result as columns |
//! | `rows`, `regions` | the result as rows of a table |
//!
//! Definitions, rules for ties, limits: docs/design/account.md.
mod allowed;
pub(crate) mod barrier;
mod class;
mod regions;
mod rows;
mod segments;
mod stood_still;
pub(crate) mod sweep;
pub(crate) mod throttle;
pub(crate) mod track;
mod waiting;

pub use allowed::Bounds;
pub(crate) use allowed::Masks;
pub use class::{Cause, Class, ClassSum, N_CLASSES, Note, Sums};
pub use regions::RegionAccount;
pub use rows::{AccountSummary, CauseNumbers, CauseSummary, CpuAccount, ThreadAccount};
pub use segments::Segments;

pub(crate) use rows::{join_small_phases, rows};
pub(crate) use sweep::{OnStretch, Stretch, is_dock_name};

use crate::call_paths::{Cover, Sampled};
use kasuri_model::{FrameIx, Time, Trace};
use std::ops::Range;

/// The cause to which each instant of each CPU is charged, from `from` to `to`.
///
/// `sum of all segments == number of CPUs * (to - from)`: always, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Start of the range.
    pub from: Time,
    /// End of the range.
    pub to: Time,
    /// Each CPU's time.
    pub segments: Segments,
    /// The causes to which segments are charged.
    pub causes: Vec<Cause>,
    /// The classes to which each thread's own time is charged, by row of [`Trace::threads`]: while it was alive in the range.
    /// All zero for threads that are not the target's.
    pub threads: Vec<Sums>,
    /// Of phases in regions of OpenMP ([`Cause::phase`]): the function that the region is in.
    pub region_of: Vec<(FrameIx, FrameIx)>,
}

impl Account {
    /// The account of a part of the recording. The whole recording is read in any case: what came before decides what
    /// holds in it, so that the accounts of parts add up to the account of the whole.
    pub fn new(trace: &Trace, range: Range<Time>) -> Account {
        let sampled = Sampled::new(trace, &Cover::new(trace));
        Account::telling(trace, range, &sampled, None)
    }

    /// The same, from what samples say of running threads; and `on_stretch` is told each stretch.
    pub(crate) fn telling<'t>(
        trace: &'t Trace,
        range: Range<Time>,
        sampled: &'t Sampled,
        on_stretch: Option<OnStretch<'t>>,
    ) -> Account {
        crate::built::count(crate::built::Built::Account);
        let from = range.start.max(trace.span.start).min(trace.span.end);
        let to = range.end.min(trace.span.end).max(from);
        let done = sweep::Sweep::new(trace, from, to, sampled).tell(on_stretch).run();
        Account {
            from,
            to,
            segments: done.segments,
            causes: done.causes,
            threads: done.threads,
            region_of: done.region_of,
        }
    }

    /// Number of CPUs: those whose events were recorded; all of the machine's when none were.
    pub fn n_cpus(&self) -> usize {
        self.segments.cpus.len()
    }

    /// By class, over all CPUs.
    pub fn sums(&self, a: Time, b: Time) -> Sums {
        let mut all = Sums::default();
        for cpu in 0..self.n_cpus() {
            add(&mut all, &self.cpu_sums(cpu, a, b));
        }
        all
    }

    /// By class, of one CPU (index of `segments.cpus`).
    pub fn cpu_sums(&self, cpu: usize, a: Time, b: Time) -> Sums {
        segments::sum(&self.causes, self.segments.between(cpu, a, b))
    }
}

fn add(to: &mut Sums, more: &Sums) {
    to.iter_mut().zip(more).for_each(|(a, b)| *a += b);
}
