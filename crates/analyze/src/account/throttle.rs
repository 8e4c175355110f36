//! When CPU limits kept the program off: from switches, bounded by the kernel's counters.
//!
//! The kernel has no event for throttling. A cgroup that has used up its quota is taken off each CPU whose queue holds
//! threads of it until the period ends; then `throttled_time` of its `cpu.stat` rises by what all those queues lost. So
//! a *gap* is a stretch in which threads of the program are ready in a CPU's queue and none of the program runs there; and a gap is
//! throttling as far as the counter rose while it lasted (or at its end: the recorder reads it every few milliseconds).
//! Where gaps are longer than the rise, something else kept threads off the CPU too: waits of microseconds and turns of other
//! programs are not throttling. Without counters nothing is throttling.
use kasuri_model::{GroupLimit, ProcessIx, StrIx, Time, Trace};
use std::ops::Range;

/// Shorter gaps are wake-ups and switches.
const SHORTEST_NS: i64 = 20_000;
/// Waits for a turn, and turns of other programs, are most often shorter.
const LONG_NS: i64 = 4_000_000;
/// The recorder may be kept off the CPU between reading a counter and the clock: a rise then seems to come after its gap.
const LATE_NS: i64 = 50_000_000;

/// One stretch of throttling in a CPU's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub from: Time,
    pub to: Time,
    /// The limit, in the words of its files.
    pub limit: StrIx,
}

/// Throttled stretches of each CPU, by time, without overlaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Throttled {
    of_cpu: Vec<Vec<Stretch>>,
    /// Whether any has one: asked at each moment.
    has_any: bool,
}

impl Throttled {
    pub fn new(trace: &Trace) -> Throttled {
        let mut out = Throttled { of_cpu: vec![Vec::new(); trace.cpus.len()], has_any: false };
        let rises: Vec<Vec<Rise>> = trace.limits.groups.iter().map(rises).collect();
        let members = Members::new(trace);
        for (group, mut rises) in trace.limits.groups.iter().zip(rises) {
            if !rises.is_empty() {
                let gaps = gaps(trace, &members, &group.group, &out);
                share_out(gaps, &mut rises, group.text, &mut out);
            }
        }
        out.has_any = !out.of_cpu.iter().all(Vec::is_empty);
        out
    }

    pub fn is_empty(&self) -> bool {
        !self.has_any
    }

    /// The limit that holds on this CPU at this time.
    pub fn at(&self, cpu: u16, time: Time) -> Option<StrIx> {
        let all = self.of_cpu.get(usize::from(cpu))?;
        let at = all.partition_point(|s| s.from <= time).checked_sub(1)?;
        (time < all[at].to).then_some(all[at].limit)
    }

    /// The part of from..to in which a limit held on this CPU, ns.
    pub fn overlap(&self, cpu: u16, from: Time, to: Time) -> i64 {
        let Some(all) = self.of_cpu.get(usize::from(cpu)) else {
            return 0;
        };
        let first = all.partition_point(|s| s.to <= from);
        let inside = all[first..].iter().take_while(|s| s.from < to);
        inside.map(|s| (s.to.min(to) - s.from.max(from)).ns().max(0)).sum()
    }

    /// When something begins or ends, ascending.
    pub fn edges(&self) -> Vec<Time> {
        let all = self.of_cpu.iter().flatten();
        let mut edges: Vec<Time> = all.flat_map(|s| [s.from, s.to]).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }
}

/// A stretch in which the queue of `cpu` may have been held, and how much of it no rise explains, ns.
#[derive(Clone, Debug)]
struct Gap {
    cpu: usize,
    from: Time,
    to: Time,
    left: i64,
}

/// The counter rose between two readings, ns of it still to be explained.
struct Rise {
    when: Range<Time>,
    left: i64,
}

fn rises(group: &GroupLimit) -> Vec<Rise> {
    let pairs = group.readings.windows(2);
    pairs
        .filter(|p| p[1].throttled_ns > p[0].throttled_ns && p[1].n_throttled >= p[0].n_throttled)
        .map(|p| Rise {
            when: p[0].time..p[1].time,
            left: i64::try_from(p[1].throttled_ns - p[0].throttled_ns).unwrap_or(i64::MAX),
        })
        .collect()
}

/// The cgroup of each process over time.
struct Members<'t> {
    trace: &'t Trace,
}

impl<'t> Members<'t> {
    fn new(trace: &'t Trace) -> Members<'t> {
        Members { trace }
    }

    /// Since when the process is inside `group`: its own rows, else its ancestors'; and until when.
    fn inside(&self, process: ProcessIx, group: &str) -> Vec<Range<Time>> {
        let rows = &self.trace.limits.members;
        let mut at = process;
        // A chain longer than this is damage.
        for _ in 0..64 {
            let Some(info) = self.trace.processes.get(at.ix()) else {
                return Vec::new();
            };
            let own: Vec<_> = rows.iter().filter(|(_, pid, _)| *pid == info.pid).collect();
            if own.is_empty() {
                at = info.parent;
                continue;
            }
            let ends = own.iter().skip(1).map(|row| row.0).chain([Time::MAX]);
            // Its cgroup before the first look is not known.
            return own
                .iter()
                .zip(ends)
                .filter(|((_, _, path), _)| is_under(path, group))
                .map(|(row, end)| row.0..end)
                .collect();
        }
        Vec::new()
    }
}

fn is_under(path: &str, group: &str) -> bool {
    group == "/"
        || path == group
        || path.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
}

/// (CPU, from, to): threads of the program in the group are ready there and none of the program runs there.
fn gaps(
    trace: &Trace,
    members: &Members<'_>,
    group: &str,
    known: &Throttled,
) -> Vec<(usize, Time, Time)> {
    let mut ready: Vec<Vec<(Time, Time)>> = vec![Vec::new(); trace.cpus.len()];
    let mut is_inside: Vec<bool> = Vec::with_capacity(trace.processes.len());
    for (process, info) in trace.processes.iter().enumerate() {
        // Of all that the limit holds, also where a part of the recorded program was chosen: the counter is the group's.
        let inside = members.inside(ProcessIx(process as u32), group);
        is_inside.push(!inside.is_empty());
        for thread in info.threads.start..info.threads.end {
            for row in trace.states_of(kasuri_model::ThreadIx(thread)) {
                let Some(queue) = ready.get_mut(usize::from(row.cpu)) else {
                    continue;
                };
                if !row.state.is_runnable() {
                    continue;
                }
                let parts = inside.iter().map(|i| (row.start.max(i.start), row.end.min(i.end)));
                queue.extend(parts.filter(|(from, to)| from < to));
            }
        }
    }
    let mut out = Vec::new();
    for (cpu, mut queue) in ready.into_iter().enumerate() {
        queue.sort_unstable();
        let busy = trace.occupancy_of(cpu).filter(|run| {
            let process = trace.threads.get(run.thread.ix()).map(|t| t.process.ix());
            process.is_some_and(|p| is_inside[p] || trace.processes[p].is_target)
        });
        let mut taken: Vec<(Time, Time)> = busy.map(|run| (run.start, run.end)).collect();
        taken.extend(known.of_cpu[cpu].iter().map(|s| (s.from, s.to)));
        taken.sort_unstable();
        without(&union(&queue), &union(&taken), |from, to| {
            if (to - from).ns() >= SHORTEST_NS {
                out.push((cpu, from, to));
            }
        });
    }
    out
}

/// Sorted intervals, joined where they touch.
fn union(sorted: &[(Time, Time)]) -> Vec<(Time, Time)> {
    let mut out: Vec<(Time, Time)> = Vec::new();
    for &(from, to) in sorted {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// Calls `each` for the parts of `all` that are not in `taken`; both are unions.
fn without(all: &[(Time, Time)], taken: &[(Time, Time)], mut each: impl FnMut(Time, Time)) {
    let mut next = 0;
    for &(from, to) in all {
        let mut at = from;
        while next < taken.len() && taken[next].1 <= from {
            next += 1;
        }
        for &(start, end) in taken[next..].iter().take_while(|t| t.0 < to) {
            if start > at {
                each(at, start);
            }
            at = at.max(end);
        }
        if at < to {
            each(at, to);
        }
    }
}

/// Shares the rises out to the gaps. A queue is let go when the counter rises, so a rise explains gaps that had begun by
/// then and had not ended; the earliest rise first, and of its gaps the one that ends first, since fewer later rises can
/// explain that one: no other order explains more. Long gaps go first, as throttling rarely ends within a millisecond;
/// then what is left of the rises goes to gaps that had just ended, and to short ones.
fn share_out(
    gaps: Vec<(usize, Time, Time)>,
    rises: &mut [Rise],
    limit: StrIx,
    out: &mut Throttled,
) {
    let mut gaps: Vec<Gap> = gaps
        .into_iter()
        .map(|(cpu, from, to)| Gap { cpu, from, to, left: (to - from).ns() })
        .collect();
    gaps.sort_by_key(|gap| (gap.to, gap.from, gap.cpu));
    for (shortest, late) in [(LONG_NS, 0), (LONG_NS, LATE_NS), (0, LATE_NS)] {
        for rise in rises.iter_mut() {
            let ended = rise.when.start.ns().saturating_sub(late);
            let first = gaps.partition_point(|gap| gap.to.ns() < ended);
            for gap in &mut gaps[first..] {
                if rise.left == 0 {
                    break;
                }
                if gap.from < rise.when.end && (gap.to - gap.from).ns() >= shortest {
                    let part = rise.left.min(gap.left);
                    rise.left -= part;
                    gap.left -= part;
                }
            }
        }
    }
    for gap in gaps {
        let to = Time(gap.to.0 - gap.left);
        if gap.from < to {
            let from = gap.from;
            out.of_cpu[gap.cpu].push(Stretch { from, to, limit });
        }
    }
    for stretches in &mut out.of_cpu {
        stretches.sort_unstable_by_key(|s| s.from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kasuri_model::LimitReading;

    fn ms(at: i64) -> Time {
        Time(at * 1_000_000)
    }

    fn shared(gaps: &[(i64, i64)], rises: &[(i64, i64, i64)]) -> Vec<(i64, i64)> {
        let mut out = Throttled { of_cpu: vec![Vec::new()], ..Throttled::default() };
        let gaps = gaps.iter().map(|&(a, b)| (0, ms(a), ms(b))).collect();
        let rise = |&(a, b, left)| Rise { when: ms(a)..ms(b), left: left * 1_000_000 };
        let mut rises: Vec<Rise> = rises.iter().map(rise).collect();
        share_out(gaps, &mut rises, StrIx(0), &mut out);
        let all = out.of_cpu[0].iter();
        all.map(|s| (s.from.0 / 1_000_000, s.to.0 / 1_000_000)).collect()
    }

    #[test]
    fn gaps_are_throttling_as_far_as_the_counter_rose() {
        assert_eq!(shared(&[(10, 90)], &[]), [], "never without the counter");
        assert_eq!(shared(&[(10, 90)], &[(88, 92, 80)]), [(10, 90)]);
        assert_eq!(shared(&[(10, 90)], &[(80, 85, 60)]), [(10, 70)], "then others had its turn");
        assert_eq!(shared(&[(10, 90), (92, 95)], &[(88, 99, 80)]), [(10, 90)], "the longest first");
        // The first gap's rise comes when the second has begun: each keeps its own.
        assert_eq!(
            shared(&[(0, 35), (37, 55)], &[(30, 50, 35), (50, 70, 18)]),
            [(0, 35), (37, 55)]
        );
        assert_eq!(shared(&[(10, 90)], &[(200, 210, 80)]), [], "long after it");
        assert_eq!(shared(&[(10, 90)], &[(20, 30, 10), (80, 92, 70)]), [(10, 90)]);
    }

    #[test]
    fn only_a_counter_that_goes_on_can_rise() {
        let reading = |at, n_throttled, throttled_ns| LimitReading {
            time: ms(at),
            n_throttled,
            throttled_ns,
        };
        let group = GroupLimit {
            readings: vec![
                reading(0, 1, 10),
                reading(4, 1, 10),
                reading(8, 2, 25),
                // The cgroup was removed and made anew.
                reading(12, 0, 90),
                reading(16, 0, 91),
                reading(20, 1, 50),
            ],
            ..GroupLimit::default()
        };
        let found: Vec<_> = rises(&group).into_iter().map(|rise| (rise.when, rise.left)).collect();
        assert_eq!(found, [(ms(4)..ms(8), 15), (ms(12)..ms(16), 1)]);
    }

    #[test]
    fn what_is_taken_is_no_gap() {
        let mut out = Vec::new();
        let all = [(ms(0), ms(10)), (ms(20), ms(30))];
        let taken = [(ms(2), ms(3)), (ms(8), ms(22))];
        without(&all, &taken, |a, b| out.push((a.0 / 1_000_000, b.0 / 1_000_000)));
        assert_eq!(out, [(0, 2), (3, 8), (22, 30)]);
    }

    #[test]
    fn a_group_holds_what_is_below_it() {
        assert!(is_under("/a/b", "/a") && is_under("/a", "/a") && is_under("/a", "/"));
        assert!(!is_under("/ab", "/a") && !is_under("/", "/a"));
    }
}
