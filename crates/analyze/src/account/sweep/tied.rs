//! Threads of the program that their affinity masks keep off some of its CPUs, and whether all that are ready are kept off one.
use crate::account::allowed::Masks;
use kasuri_model::{Time, Trace};

/// The ready threads, by the CPUs that their masks leave them.
pub(super) struct Tied<'t> {
    /// None where no mask keeps a thread off: there is nothing to count.
    masks: Option<Masks<'t>>,
    /// Of each thread that is ready: the CPUs that it may use.
    ready: Vec<Option<&'t [u32]>>,
    n_ready: u32,
    /// By number of the CPU: how many of them may use it.
    users: Vec<u32>,
}

impl<'t> Tied<'t> {
    pub fn new(trace: &'t Trace) -> Tied<'t> {
        let recorded = || (0..trace.cpus.len()).filter(|&cpu| trace.cpus[cpu].recorded);
        let ties = |mask: &[u32]| recorded().any(|cpu| mask.binary_search(&(cpu as u32)).is_err());
        let is_any = trace.limits.masks.iter().any(|row| ties(&row.cpus));
        Tied {
            masks: is_any.then(|| Masks::new(trace)),
            ready: vec![None; trace.threads.len()],
            n_ready: 0,
            users: vec![0; trace.cpus.len()],
        }
    }

    /// The thread is ready from now on.
    pub fn enter(&mut self, trace: &'t Trace, thread: usize, now: Time) {
        let masks = self.masks.as_ref();
        if let Some(mask) = masks.and_then(|masks| masks.at(&trace.threads[thread], now)) {
            self.ready[thread] = Some(mask);
            self.n_ready += 1;
            users_of(mask, &mut self.users).for_each(|n| *n += 1);
        }
    }

    /// It is no longer.
    pub fn leave(&mut self, thread: usize) {
        if let Some(mask) = self.ready[thread].take() {
            self.n_ready -= 1;
            users_of(mask, &mut self.users).for_each(|n| *n -= 1);
        }
    }

    /// Whether the masks of all that are ready, so many, are known, and none has this CPU.
    pub fn keep_all_off(&self, cpu: u16, n_ready: u32) -> bool {
        self.masks.is_some()
            && self.n_ready == n_ready
            && self.users.get(usize::from(cpu)) == Some(&0)
    }
}

/// The counters of a mask's CPUs.
fn users_of<'u>(mask: &[u32], users: &'u mut [u32]) -> impl Iterator<Item = &'u mut u32> {
    let is_in = |cpu: usize| mask.binary_search(&(cpu as u32)).is_ok();
    users.iter_mut().enumerate().filter(move |(cpu, _)| is_in(*cpu)).map(|(_, n)| n)
}
