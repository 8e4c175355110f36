//! Runs the governor: counts the events that were just written, reads the CPU time used, and switches events on and off.
//!
//! A budget is a share of the program's CPU time. It bounds what the program's own threads pay, the figure that
//! `kasuri stat` gives. The cost that other programs pay for being traced beside it is counted apart: many events of
//! theirs must not end the recording of a program that does little. With `-a` the budget is a share of all busy CPU
//! time, and the events of all programs count.
//!
//! A tick reads a sample of the pages just written, counts the events in it by kind and by the thread that paid for
//! them ([`Family`]), looks up what one of each costs at the present rate, and lets [`governor`] decide. Each
//! decision is noted in `meta.json`, so that a reader knows which events were off and when.
pub mod governor;

use crate::budget::governor::{Decision, Governor};
use crate::clock;
use crate::error::Result;
use crate::kernel::source::Source;
use crate::kernel::tracefs::{DEFAULT_EVENTS, RUN_TIME_EVENTS};
use crate::options::{Options, Target};
use kasuri_base::cost::cost_at;
use kasuri_format::meta::{BudgetChange, Meta};
use kasuri_format::tracefs::{EventFormat, Field, Page, PageLayout};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Shortest step.
const STEP: Duration = Duration::from_millis(20);
/// Distance between two readings of CPU times: they count clock ticks, and a tree of processes is many files.
const LOOK: Duration = Duration::from_millis(100);
/// Cost of an event that was not measured, ns.
const UNKNOWN_NS: f64 = 150.0;
/// Bytes of each CPU's pages that one step reads, but at least one page.
const SAMPLE_BYTES: u64 = 128 * 1024;

/// A budget while it is kept.
#[derive(Debug)]
pub struct Budget {
    governor: Governor,
    /// Cost of one event in a loop of nothing else.
    warm: BTreeMap<String, f64>,
    /// Cost of one event by its distance from the event before.
    apart: BTreeMap<String, Vec<[f64; 4]>>,
    /// Mean cost of all events of the last step, ns.
    each_ns: f64,
    budget: f64,
    kinds: HashMap<u16, Kind>,
    layout: PageLayout,
    last: Instant,
    family: Family,
    looked: Instant,
    /// CPU time used up to the last reading. It falls when a child ends and its parent does not wait for it.
    last_busy_ns: f64,
    /// CPU time per ns of wall time, as last seen.
    busy_rate: f64,
    /// Bytes of each CPU's file that were counted already.
    counted: Vec<u64>,
    /// Decisions so far, for `meta.json`.
    pub changes: Vec<BudgetChange>,
}

impl Budget {
    /// For the events that the source has switched on, which `meta` names with their costs; `None` when it has none that can be switched.
    pub fn new(budget: f64, options: &Options, recording: &Meta) -> Option<Budget> {
        let (meta, roots) = (&recording.kernel, &recording.root_pids[..]);
        if meta.source != "tracefs" {
            return None;
        }
        let formats = meta.formats.iter();
        let kinds: HashMap<u16, Kind> = formats
            .filter_map(|(name, text)| {
                let format = EventFormat::parse(name, text).ok()?;
                Some((format.id, Kind::of(name, &format)))
            })
            .collect();
        let events: Vec<String> = kinds.values().map(|kind| kind.name.clone()).collect();
        let roots = match options.target {
            Target::System(_) => Vec::new(),
            _ => roots.to_vec(),
        };
        let warm = recording.event_costs.iter();
        let costs: BTreeMap<_, _> = warm.map(|(name, ns)| (name.clone(), ns[0])).collect();
        // Run times with gaps are useless, so their events count as part of the timeline.
        let timeline = DEFAULT_EVENTS.iter().chain(RUN_TIME_EVENTS);
        let timeline: Vec<&str> = timeline.map(|(name, _)| *name).collect();
        Some(Budget {
            governor: Governor::new(budget, &events, &costs, UNKNOWN_NS, &timeline),
            warm: costs,
            apart: options.costs.apart.clone(),
            each_ns: 0.0,
            budget,
            kinds,
            layout: PageLayout::from_meta(meta).ok()?,
            last: Instant::now(),
            looked: Instant::now(),
            last_busy_ns: used_ns(&roots),
            family: Family::of(roots),
            busy_rate: 1.0,
            counted: Vec::new(),
            changes: Vec::new(),
        })
    }

    /// Counts events, and switches some, when a step is over.
    ///
    /// # Errors
    /// When the pages cannot be read back or the kernel refuses to switch events.
    pub fn tick(&mut self, source: &mut Source) -> Result<()> {
        let wall = self.last.elapsed();
        let Source::Tracefs(source) = source else {
            return Ok(());
        };
        if wall < STEP {
            return Ok(());
        }
        self.last = Instant::now();
        let counts = self.count(source)?;
        let since = self.looked.elapsed();
        if since >= LOOK {
            self.looked = Instant::now();
            let used = used_ns(&self.family.roots);
            let before = std::mem::replace(&mut self.last_busy_ns, used);
            self.busy_rate = (used - before).max(0.0) / since.as_nanos() as f64;
        }
        let wall_ns = wall.as_nanos() as f64;
        self.price(&counts, wall_ns * self.busy_rate);
        let decision = self.governor.step(wall_ns, wall_ns * self.busy_rate, &counts);
        match decision {
            Some(decision) => self.act(source, decision),
            None => Ok(()),
        }
    }

    /// Sets the governor's costs to those of events at the distance at which these came.
    fn price(&mut self, counts: &BTreeMap<String, f64>, busy_ns: f64) {
        let n: f64 = counts.values().sum();
        if n < 1.0 {
            return;
        }
        // Without tracing the events would be nearer by the cost of each. The value of the last step serves, which
        // makes this a feedback.
        let apart_ns = (busy_ns / n - self.each_ns).max(1.0);
        let apart = &self.apart;
        let warm = &self.warm;
        let cost = |name: &str| match apart.get(name) {
            Some(apart) => Some(cost_at(apart, apart_ns)?[0]),
            None => warm.get(name).copied(),
        };
        let sum = counts.iter().map(|(name, n)| n * cost(name).unwrap_or(UNKNOWN_NS));
        self.each_ns = sum.sum::<f64>() / n;
        self.governor.set_costs(cost);
    }

    /// For the summary: the cost of tracing as a share of busy time, and the number of times that events were
    /// switched.
    pub fn result(&self) -> (f64, usize) {
        (self.governor.share(), self.changes.len())
    }

    fn act(
        &mut self,
        source: &mut crate::kernel::source::TracefsSource,
        decision: Decision,
    ) -> Result<()> {
        let before = clock::thread_cpu_ns();
        source.select(|event| !decision.paused && !decision.off.iter().any(|o| o == event))?;
        let monotonic_ns = crate::clock::monotonic_ns();
        self.governor.charge((clock::thread_cpu_ns() - before) as f64);
        self.changes.push(BudgetChange {
            monotonic_ns,
            paused: decision.paused,
            off: decision.off,
            cost: decision.rate,
            budget: self.budget,
        });
        Ok(())
    }

    /// Counts the events for which the program paid since the last call, by name, from a sample of the pages.
    fn count(
        &mut self,
        source: &mut crate::kernel::source::TracefsSource,
    ) -> Result<BTreeMap<String, f64>> {
        let mut counts = BTreeMap::new();
        let page_bytes = self.layout.page_bytes as u64;
        let sizes = source.sizes();
        self.counted.resize(sizes.len(), 0);
        for (ix, &bytes) in sizes.iter().enumerate() {
            let from = self.counted[ix].min(bytes);
            let pages = (bytes - from) / page_bytes;
            self.counted[ix] = from + pages * page_bytes;
            let looked = pages.min((SAMPLE_BYTES / page_bytes).max(1));
            for k in 0..looked {
                let at = from + (k * pages / looked) * page_bytes;
                let bytes = source.read_back(ix, at)?;
                let Ok(page) = Page::parse(&bytes, &self.layout, at) else {
                    continue;
                };
                for event in page.events().map_while(|e| e.ok()) {
                    let id = event.id(self.layout.big_endian);
                    let Some(kind) = id.and_then(|id| self.kinds.get(&id)) else {
                        continue;
                    };
                    let payer = kind.payer.as_ref();
                    let tid = payer.and_then(|f| f.int(event.data, 0, self.layout.big_endian));
                    if self.family.is_ours(tid) {
                        let name = kind.name.clone();
                        *counts.entry(name).or_insert(0.0) += pages as f64 / looked as f64;
                    }
                }
            }
        }
        Ok(counts)
    }
}

/// An event type.
#[derive(Debug)]
struct Kind {
    name: String,
    /// The field with the thread whose time an event takes.
    payer: Option<Field>,
}

impl Kind {
    /// The incoming thread pays for a switch: the kernel has read its clock for the outgoing one before the event.
    fn of(name: &str, format: &EventFormat) -> Kind {
        let field = match name {
            "sched/sched_switch" => "next_pid",
            _ => "common_pid",
        };
        Kind {
            name: name.to_owned(),
            payer: format.find(field).map(|ix| format.fields[ix].clone()),
        }
    }
}

/// The processes asked for and their descendants.
#[derive(Debug)]
struct Family {
    /// Empty: the whole system.
    roots: Vec<i32>,
    /// By thread id: whether it belongs to the program.
    known: HashMap<i64, bool>,
}

impl Family {
    fn of(roots: Vec<i32>) -> Family {
        Family { roots, known: HashMap::new() }
    }

    /// Whether this thread belongs to the program. A thread that has ended counts as the program's: the budget is
    /// then kept more strictly, never less. The idle thread belongs to no program.
    fn is_ours(&mut self, tid: Option<i64>) -> bool {
        let Some(tid) = tid.filter(|_| !self.roots.is_empty()) else {
            return true;
        };
        if let Some(&known) = self.known.get(&tid) {
            return known;
        }
        let Some(found) = self.descends(tid) else {
            return true;
        };
        self.known.insert(tid, found);
        found
    }

    fn descends(&self, tid: i64) -> Option<bool> {
        let mut tid = tid;
        while tid > 1 {
            let status = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
            let number = |key: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(key));
                line.and_then(|text| text.trim().parse::<i64>().ok())
            };
            let process = number("Tgid:")?;
            if self.roots.iter().any(|&root| i64::from(root) == process) {
                return Some(true);
            }
            tid = number("PPid:")?;
        }
        Some(false)
    }
}

/// CPU time that the processes below `roots` have used, ns, including children that ended and were waited for.
/// Without roots, the busy time of all CPUs.
fn used_ns(roots: &[i32]) -> f64 {
    if roots.is_empty() {
        return busy_ns();
    }
    let mut ns = 0.0;
    let mut left = roots.to_vec();
    while let Some(pid) = left.pop() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name may hold anything; after its parenthesis come state (field 3) and numbers. Fields 14..=17 are CPU
        // times.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let times = after.split_whitespace().skip(11).take(4);
        ns += times.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() * tick_ns();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().filter_map(|task| task.ok()) {
            // Kernels without this file (CONFIG_PROC_CHILDREN) show only the first process: the budget is then
            // smaller.
            let children = std::fs::read_to_string(task.path().join("children"));
            let children = children.unwrap_or_default();
            left.extend(children.split_whitespace().filter_map(|c| c.parse::<i32>().ok()));
        }
    }
    ns
}

fn tick_ns() -> f64 {
    1e9 / rustix::param::clock_ticks_per_second().max(1) as f64
}

/// CPU time that all CPUs together spent on anything but idling, since boot, ns.
fn busy_ns() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    // cpu user nice system idle iowait irq softirq steal: steal is time that other virtual machines had.
    let numbers = text.lines().next().unwrap_or_default();
    let numbers = numbers.split_whitespace().skip(1).map(str::parse::<f64>);
    let numbers: Vec<f64> = numbers.map_while(|n| n.ok()).collect();
    let busy = [0, 1, 2, 5, 6].iter().filter_map(|&i| numbers.get(i));
    busy.sum::<f64>() * tick_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_a_descendant_is_the_programs_and_others_are_not() {
        let me = std::process::id() as i32;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let child_tid = i64::from(child.id());
        let mine = rustix::thread::gettid().as_raw_nonzero().get().into();
        let parent = i64::from(std::os::unix::process::parent_id());
        let mut family = Family::of(vec![me]);
        // The test's own thread is not the process's first.
        assert!(family.is_ours(Some(mine)) && family.is_ours(Some(child_tid)));
        assert!(!family.is_ours(Some(parent)) && !family.is_ours(Some(0)));
        let mut other = Family::of(vec![child.id() as i32]);
        assert!(other.is_ours(Some(child_tid)) && !other.is_ours(Some(mine)));
        child.kill().unwrap();
        child.wait().unwrap();
        // A thread that has ended counts as the program's.
        assert!(Family::of(vec![me]).is_ours(Some(i64::from(i32::MAX))));
        // A whole system: every thread.
        assert!(Family::of(Vec::new()).is_ours(Some(parent)) && family.is_ours(None));
    }
}
