//! Regions and loops of OpenMP, and what other schedules would do.
//!
//! Goal: for each parallel region and each loop, by its place: how often, how long, how much work, how long threads waited at
//! its barriers, how uneven its parts are; and for loops whose chunks were seen, whether another schedule would be shorter.
//!
//! Threads' parts (`parts`) belong to one execution of a region when the wait at its end is for the same team and ended at the
//! same time: the master writes that end, and the workers take it from there (probes/openmp/thread.c). All threads of a team
//! come to the same loops in the same order, as OpenMP demands: the j-th loop of each is one execution of the loop.
//!
//! What one schedule saves against another is replayed (`replay`); loops that are not told say why. A bound is known for all:
//! with an even split every thread would be busy for the mean.
mod parts;
mod replay;
pub mod rows;

use crate::cut::Cut;
use kasuri_model::{ProcessIx, StrIx};
use parts::{LoopPart, Part};
use replay::{Execution, Schedule, Share};
use rows::{OpenMp, OpenMpLoop, OpenMpRegion, OpenMpTimes, Replayed};
use std::cmp::Reverse;
use std::collections::HashMap;

/// Waits inside a loop, as a share of its work, from which on the loop is not replayed: another schedule would change them.
const WAITS: f64 = 0.05;
/// Executions without a barrier at once behind them, as a share of all, that may be a thread which something held up.
const FREE: f64 = 0.1;
/// Chunks shorter than this many events of the recording are not replayed: most of what was seen would be the recording.
const CHUNK_EVENTS: f64 = 5.0;
/// Schedules within this share of the shortest are as good: noise between runs is larger.
const AS_GOOD: f64 = 0.02;

/// None without a region. `event_ns`: what recording one annotation costs.
pub(crate) fn openmp(cut: &Cut<'_>, event_ns: f64) -> Option<OpenMp> {
    let mut parts = parts::parts(cut);
    parts.sort_by_key(|p| (p.process, p.team, p.end, p.start));
    let mut sums = Sums::default();
    let mut rest = parts;
    while !rest.is_empty() {
        let key = |p: &Part| (p.process, p.team, p.end);
        let first = key(&rest[rest.len() - 1]);
        let at = rest.partition_point(|p| key(p) < first);
        let team = rest.split_off(at);
        // A team whose master was not seen is a worker whose region's end was forgotten.
        let is_whole = team.iter().any(|p| !p.is_worker);
        let start = team.iter().map(|p| p.start).min();
        if is_whole && start.is_some_and(|start| cut.contains(start)) {
            sums.add(team);
        }
    }
    (!sums.regions.is_empty()).then(|| sums.finish(cut, event_ns))
}

/// A row of busy times, one for each thread.
#[derive(Default)]
struct Split {
    max_ns: i64,
    mean_ns: f64,
}

impl Split {
    fn add(&mut self, busy_ns: impl Iterator<Item = i64> + Clone) {
        let n = busy_ns.clone().count().max(1) as f64;
        self.max_ns += busy_ns.clone().max().unwrap_or(0);
        self.mean_ns += busy_ns.sum::<i64>() as f64 / n;
    }

    /// The times with what the split says.
    fn with(&self, times: OpenMpTimes) -> OpenMpTimes {
        let lost_ns = (self.max_ns as f64 - self.mean_ns).max(0.0);
        OpenMpTimes {
            imbalance: lost_ns / self.max_ns.max(1) as f64,
            busiest_ns: self.max_ns,
            even_saves_ns: lost_ns.round() as i64,
            ..times
        }
    }
}

#[derive(Default)]
struct RegionSum {
    row: OpenMpRegion,
    split: Split,
}

#[derive(Default)]
struct LoopSum {
    row: OpenMpLoop,
    split: Split,
    /// Regions that it ran in.
    regions: HashMap<StrIx, u64>,
    waits_ns: i64,
    /// Executions at whose end the threads did not wait for each other.
    n_free: u64,
    /// Chunks of which is not known where in the loop they are.
    n_unplaced: u64,
    /// What the threads of each execution did.
    teams: Vec<Vec<Share>>,
}

#[derive(Default)]
struct Sums {
    regions: HashMap<(ProcessIx, StrIx), RegionSum>,
    loops: HashMap<(ProcessIx, StrIx), LoopSum>,
}

impl Sums {
    /// One execution of a region: the parts of all its threads.
    fn add(&mut self, mut team: Vec<Part>) {
        let (process, name) = (team[0].process, team[0].name);
        let sum = self.regions.entry((process, name)).or_default();
        let times = &mut sum.row.times;
        times.count += 1;
        times.threads = times.threads.max(team.len() as u32);
        let start = team.iter().map(|p| p.start).min().unwrap_or(team[0].start);
        times.wall_ns += (team[0].end - start).ns();
        times.barrier_ns += team.iter().map(|p| p.barrier_ns).sum::<i64>();
        times.work_ns += team.iter().flat_map(|p| &p.phases_ns).sum::<i64>();
        // A cancelled loop leaves threads with different numbers of barriers.
        let n = team[0].phases_ns.len();
        if team.iter().all(|p| p.phases_ns.len() == n) {
            for at in 0..n {
                sum.split.add(team.iter().map(|p| p.phases_ns[at]));
            }
        } else {
            let all = |p: &Part| p.phases_ns.iter().sum::<i64>();
            sum.split.add(team.iter().map(all));
        }
        let most = team.iter().map(|p| p.loops.len()).max().unwrap_or(0);
        let mut loops: Vec<_> =
            (team.iter_mut()).map(|p| std::mem::take(&mut p.loops).into_iter()).collect();
        for _ in 0..most {
            let of: Vec<LoopPart> = loops.iter_mut().filter_map(Iterator::next).collect();
            self.add_loop(process, name, of);
        }
    }

    /// One execution of a loop.
    fn add_loop(&mut self, process: ProcessIx, region: StrIx, mut of: Vec<LoopPart>) {
        let name = of[0].name;
        // Threads that are elsewhere: the loop before was cancelled for some.
        of.retain(|part| part.name == name);
        let sum = self.loops.entry((process, name)).or_default();
        *sum.regions.entry(region).or_default() += 1;
        let (start, end) = of
            .iter()
            .fold((of[0].start, of[0].end), |(start, end), p| (start.min(p.start), end.max(p.end)));
        let times = &mut sum.row.times;
        times.count += 1;
        times.threads = times.threads.max(of.len() as u32);
        times.wall_ns += (end - start).ns();
        times.work_ns += of.iter().map(|p| p.busy_ns).sum::<i64>();
        times.barrier_ns += of.iter().filter_map(|p| p.barrier_ns).sum::<i64>();
        sum.split.add(of.iter().map(|p| p.busy_ns));
        sum.waits_ns += of.iter().map(|p| p.waits_ns).sum::<i64>();
        sum.n_free += u64::from(of.iter().any(|p| p.barrier_ns.is_none()));
        let chunks = of.iter().flat_map(|p| &p.chunks);
        let (mut n, mut iterations) = (0, 0u64);
        for chunk in chunks {
            n += 1;
            iterations = iterations.saturating_add(chunk.n);
            sum.n_unplaced += u64::from(chunk.first.is_none());
        }
        sum.row.chunks += n;
        sum.row.iterations = sum.row.iterations.saturating_add(iterations);
        if n > 0 {
            let threads = of.into_iter();
            let shares = threads.map(|p| Share { came_ns: p.came_ns, chunks: p.chunks });
            sum.teams.push(shares.collect());
        }
    }

    fn finish(self, cut: &Cut<'_>, event_ns: f64) -> OpenMp {
        let strings = &cut.trace.strings;
        let mut regions: Vec<OpenMpRegion> = (self.regions.into_iter())
            .map(|((process, name), sum)| OpenMpRegion {
                name: strings.get(name).to_string(),
                place: cut.trace.places.get(&name).cloned(),
                pid: cut.trace.processes[process.ix()].pid,
                times: sum.split.with(sum.row.times),
            })
            .collect();
        let mut loops: Vec<OpenMpLoop> = (self.loops.into_iter())
            .map(|((process, name), mut sum)| {
                let most = |(name, n): &(&StrIx, &u64)| (**n, Reverse(**name));
                let region = sum.regions.iter().max_by_key(most);
                let region = region.map_or(StrIx::NONE, |(name, _)| *name);
                let (schedules, refused) = match sum.replayed(cut, strings.get(name), event_ns) {
                    Ok(schedules) => (schedules, None),
                    Err(why) => (Vec::new(), Some(why)),
                };
                OpenMpLoop {
                    name: strings.get(name).to_string(),
                    place: cut.trace.places.get(&name).cloned(),
                    region: strings.get(region).to_string(),
                    pid: cut.trace.processes[process.ix()].pid,
                    times: sum.split.with(sum.row.times),
                    schedules,
                    refused,
                    ..sum.row
                }
            })
            .collect();
        regions.sort_by(|a, b| {
            (b.times.wall_ns, &a.name, a.pid).cmp(&(a.times.wall_ns, &b.name, b.pid))
        });
        loops.sort_by(|a, b| {
            (b.times.wall_ns, &a.name, a.pid).cmp(&(a.times.wall_ns, &b.name, b.pid))
        });
        OpenMp { regions, loops }
    }
}

impl LoopSum {
    /// Why the loop is not replayed, if it is not.
    fn refusal(&self, cut: &Cut<'_>, name: &str, event_ns: f64) -> Option<&'static str> {
        let (row, times) = (&self.row, &self.row.times);
        let is_recorded = cut.trace.cpus.iter().filter(|cpu| cpu.recorded);
        let n_cpus = is_recorded.count() as u32;
        let waits = ["for ordered ", "for doacross "];
        let reasons = [
            (!name.starts_with("for "), "sections are not divided further"),
            (waits.iter().any(|w| name.starts_with(w)), "its iterations wait for each other"),
            (times.threads < 2, "one thread runs it"),
            (row.chunks == 0, "its chunks are not seen"),
            (
                self.n_unplaced > 0 || self.teams.len() as u64 != times.count,
                "the iterations of its chunks are not known",
            ),
            (n_cpus > 0 && times.threads > n_cpus, "more threads than CPUs"),
            (self.n_free as f64 > FREE * times.count as f64, "no barrier follows"),
            (self.waits_ns as f64 > WAITS * times.work_ns as f64, "its threads wait inside it"),
            (
                (times.work_ns as f64) < CHUNK_EVENTS * event_ns * row.chunks as f64,
                OpenMpLoop::TOO_SHORT,
            ),
        ];
        let mut reasons = reasons.into_iter();
        reasons.find_map(|(applies, why)| applies.then_some(why))
    }

    /// The loop under other schedules, shortest first; or why that is not told.
    fn replayed(
        &mut self,
        cut: &Cut<'_>,
        name: &str,
        event_ns: f64,
    ) -> Result<Vec<Replayed>, &'static str> {
        if let Some(why) = self.refusal(cut, name, event_ns) {
            return Err(why);
        }
        let teams = std::mem::take(&mut self.teams);
        let executions: Vec<Execution> =
            (teams.iter()).filter_map(|shares| Execution::new(shares, event_ns)).collect();
        let schedule = name.strip_prefix("for ").unwrap_or(name);
        let schedule = schedule.strip_prefix("runtime ").unwrap_or(schedule);
        let is_dynamic = schedule.starts_with("dynamic ") || schedule.starts_with("guided ");
        let in_turn = !is_dynamic && executions.iter().all(Execution::is_in_turn);
        let recorded = executions.iter().map(|e| e.recorded(in_turn));
        let recorded_ns: i64 = recorded.sum();
        let mut tried: Vec<(Schedule, i64)> = (replay::candidates(&executions).into_iter())
            .map(|schedule| (schedule, executions.iter().map(|e| e.under(schedule)).sum()))
            .collect();
        let shortest = tried.iter().map(|(_, ns)| *ns).min();
        let shortest = shortest.ok_or("its chunks are too long to tell what is in them")?;
        let as_good = shortest + (shortest as f64 * AS_GOOD) as i64;
        // Of schedules as good as the shortest the plainest comes first.
        tried.sort_by_key(|&(schedule, ns)| (ns.max(as_good), schedule.plainness()));
        Ok(tried
            .into_iter()
            .map(|(schedule, wall_ns)| Replayed {
                schedule: schedule.to_string(),
                wall_ns,
                saves_ns: recorded_ns - wall_ns,
            })
            .collect())
    }
}
