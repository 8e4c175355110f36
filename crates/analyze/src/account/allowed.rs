//! The CPUs that the program might use. Its affinity masks (`taskset`, OpenMP's binding) and its cgroup's cpuset close
//! others to it; the CPU limit of its cgroup (`cpu.max`) bounds how many it may use at once, on whichever CPUs.
//!
//! A closed CPU is left out of the account: its idle time is no loss of the program's. The recorder reads masks and
//! cpusets from /proc and cgroupfs every now and then, so a mask that is set right after the start (as `taskset` does) is
//! recognised by shares of the time, not at every instant.
use kasuri_base::quick::QuickMap;
use kasuri_model::{Thread, Time, Trace};
use schemars::JsonSchema;
use serde::Serialize;

/// A CPU that was closed to all threads of the program for all but this share of the time...
const BRIEFLY: f64 = 0.1;
/// ...and on which it ran for less than this share of it is none of its own: `taskset` has all CPUs until it has set its mask.
const HARDLY: f64 = 0.01;

/// The bounds on the CPUs that the program may use at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Bounds {
    /// CPUs whose events were recorded.
    pub machine_cpus: u32,
    /// CPUs that the program may use at once: the smallest of what follows.
    pub cpus: f64,
    /// `affinity` or `cpuset` where one of them closes recorded CPUs to the program; else "".
    #[schemars(extend("enum" = ["", "affinity", "cpuset"]))]
    pub closed_by: &'static str,
    /// The smallest CPU limit of its cgroups, in the words of its files; "": none below the number of CPUs.
    pub limit: String,
}

/// By CPU number: whether it is closed to the program. None is when all would be.
pub(crate) fn closed(trace: &Trace) -> Vec<bool> {
    let n = trace.cpus.len();
    let rows = &trace.limits.allowed;
    let span = (trace.span.end - trace.span.start).ns().max(1) as f64;
    let mut open_ns = vec![0i64; n];
    for (at, row) in rows.iter().enumerate() {
        let until = rows.get(at + 1).map_or(trace.span.end, |next| next.since);
        // Nothing was read before the first.
        let from = if at == 0 { trace.span.start } else { row.since };
        let ns = (until.min(trace.span.end) - from.max(trace.span.start)).ns();
        for &cpu in &row.cpus {
            if let Some(open) = open_ns.get_mut(cpu as usize) {
                *open += ns.max(0);
            }
        }
    }
    let is_closed = |cpu: usize| {
        (open_ns[cpu] as f64) < BRIEFLY * span && (ran_ns(trace, cpu) as f64) < HARDLY * span
    };
    let closed: Vec<bool> = (0..n).map(|cpu| !rows.is_empty() && is_closed(cpu)).collect();
    let is_left = (0..n).any(|cpu| trace.cpus[cpu].recorded && !closed[cpu]);
    if is_left { closed } else { vec![false; n] }
}

/// Time for which the CPU ran the program.
fn ran_ns(trace: &Trace, cpu: usize) -> i64 {
    let runs = trace.occupancy_of(cpu);
    let own = runs.filter(|run| trace.is_target(run.thread));
    own.map(|run| (run.end - run.start).ns()).sum()
}

/// The affinity masks that were read of threads.
pub(crate) struct Masks<'a> {
    /// By the thread's number the readings of it, by time.
    of: QuickMap<i32, Vec<(Time, &'a [u32])>>,
}

impl<'a> Masks<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Masks<'a> {
        let mut of: QuickMap<i32, Vec<(Time, &[u32])>> = QuickMap::default();
        for row in &trace.limits.masks {
            for tid in &row.tids {
                of.entry(*tid).or_default().push((row.since, &row.cpus));
            }
        }
        Masks { of }
    }

    /// The CPUs that the thread might use at that time: its last mask until then, or, before all,
    /// the first. None: not known.
    pub(crate) fn at(&self, thread: &Thread, time: Time) -> Option<&'a [u32]> {
        let all = self.of.get(&thread.tid)?;
        // Its number may have been another thread's, before and after.
        let first = all.partition_point(|r| r.0 < thread.alive.start);
        let own = &all[first..all.partition_point(|r| r.0 <= thread.alive.end)];
        let last = own.partition_point(|r| r.0 <= time).saturating_sub(1);
        own.get(last).map(|r| r.1)
    }
}

/// The bounds of a program that may use `n_cpus` of the CPUs.
pub(crate) fn bounds(trace: &Trace, n_cpus: usize) -> Bounds {
    let recorded = trace.cpus.iter().filter(|c| c.recorded).count();
    let machine = if recorded == 0 { trace.cpus.len() } else { recorded };
    let lowest = trace.limits.groups.iter().min_by(|a, b| a.cpus.total_cmp(&b.cpus));
    let lowest = lowest.filter(|group| group.cpus < n_cpus as f64);
    let last = trace.limits.allowed.last();
    let by_cpuset =
        last.is_some_and(|row| !row.cpuset.is_empty() && row.cpuset.len() <= row.cpus.len());
    Bounds {
        machine_cpus: machine as u32,
        cpus: lowest.map_or(n_cpus as f64, |group| group.cpus),
        closed_by: match (n_cpus < machine, by_cpuset) {
            (false, _) => "",
            (true, true) => "cpuset",
            (true, false) => "affinity",
        },
        limit: lowest.map_or(String::new(), |g| trace.strings.get(g.text).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_model::{AllowedCpus, Cpu, GroupLimit};

    fn trace(allowed: &[(i64, &[u32])]) -> Trace {
        let cpu = Cpu { recorded: true, ..Cpu::default() };
        let mut trace = Trace { span: Time(0)..Time(1000), cpus: vec![cpu; 4], ..Trace::default() };
        trace.limits.allowed = allowed
            .iter()
            .map(|(since, cpus)| AllowedCpus {
                since: Time(*since),
                cpus: cpus.to_vec(),
                cpuset: vec![0, 1, 2, 3],
            })
            .collect();
        trace
    }

    #[test]
    fn a_cpu_is_closed_when_it_was_for_nearly_all_of_the_time() {
        assert_eq!(closed(&trace(&[])), [false; 4], "not known");
        let brief = trace(&[(5, &[0, 1, 2, 3]), (20, &[0, 2])]);
        assert_eq!(closed(&brief), [false, true, false, true]);
        assert_eq!(bounds(&brief, 2).closed_by, "affinity");
        let late = trace(&[(5, &[0, 1, 2, 3]), (200, &[0, 2])]);
        assert_eq!(closed(&late), [false; 4], "a fifth of the time is no trifle");
        assert_eq!(closed(&trace(&[(0, &[9])])), [false; 4], "some CPU must be left");
    }

    #[test]
    fn the_smallest_limit_counts_where_it_bounds() {
        let mut trace = trace(&[(0, &[0, 1, 2, 3])]);
        for (cpus, text) in [(3.0, "cpu.max 300000 100000"), (0.3, "cpu.max 30000 100000")] {
            let text = trace.strings.intern(text);
            trace.limits.groups.push(GroupLimit { cpus, text, ..GroupLimit::default() });
        }
        let found = bounds(&trace, 4);
        assert_eq!((found.cpus, found.limit.as_str()), (0.3, "cpu.max 30000 100000"));
        trace.limits.groups.truncate(1);
        trace.limits.groups[0].cpus = 8.0;
        assert_eq!((bounds(&trace, 4).cpus, bounds(&trace, 4).limit.as_str()), (4.0, ""));
    }
}
