//! What events cost on this machine, measured once and remembered.
//!
//! The file `$XDG_CACHE_HOME/kasuri/event-costs.json` (usually below `~/.cache`) belongs to one kernel, CPU model and
//! version of kasuri; with another it is measured anew. Losing it costs some seconds.
//!
//! A cost that a busy machine left unclear is remembered too, and measured again by the first recording after
//! [`RETRY_S`]: a user who records ten times in a row waits once.
//!
//! Events of one subsystem are measured together ([`Probe::measure_together`] says why); each takes as large a share of the cost as it has
//! of the sum of what they cost alone. What none of our operations provokes costs as the mean.
use crate::error::{Error, Result};
use crate::events::{Effort, Probe, Table, Together, provoker_of};
use crate::ops;
use crate::stats::{Estimate, median};
use crate::tracer::Kernel;
use crate::worker::Worker;
use kasuri_record::UnitCosts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The name under which the cost of an annotation is kept.
pub const ANNOTATION: &str = "annotation";

/// How long an unclear cost is left alone, seconds.
const RETRY_S: u64 = 3600;
/// A cost is unclear when its interval is longer than this share of it.
const UNCLEAR: f64 = 0.2;
/// The same of an event alone, of which only its share in the cost of all is wanted.
const UNCLEAR_ALONE: f64 = 0.6;
/// Rounds end after this time, whatever is known then: somebody waits for a recording to begin.
const PATIENCE: Duration = Duration::from_millis(400);

/// ns per event with its 95 % interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Median.
    pub ns: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// ns from one event to the next in a loop of nothing else.
    pub apart_ns: f64,
    /// The same four where other work is done in between, the more the farther apart: (ns apart, median, lower, upper end).
    pub apart: Vec<[f64; 4]>,
    /// Unclear: to be measured again from then on, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<u64>,
}

impl Cost {
    /// Whether the interval tells the cost from nothing, and is not much longer than the cost.
    fn is_clear(&self) -> bool {
        self.low > 0.0 && self.high - self.low <= UNCLEAR * self.ns
    }

    /// So many times this.
    fn times(&self, share: f64) -> Cost {
        let apart = self.apart.iter();
        Cost {
            ns: self.ns * share,
            low: self.low * share,
            high: self.high * share,
            apart_ns: self.apart_ns,
            apart: apart
                .map(|&[apart_ns, ns, low, high]| [apart_ns, ns * share, low * share, high * share])
                .collect(),
            retry_at: self.retry_at,
        }
    }

    /// What is to be remembered when `new` was measured at `now`, and `self` is what was known.
    fn improved(known: Option<Cost>, new: Cost, now: u64) -> Cost {
        let mut best = match known {
            Some(old) if old.high - old.low < new.high - new.low => old,
            _ => new,
        };
        best.retry_at = (!best.is_clear()).then_some(now + RETRY_S);
        best
    }
}

impl From<Estimate> for Cost {
    fn from(e: Estimate) -> Cost {
        // A cost below nothing is chance; as a cost it is nothing.
        Cost {
            ns: e.median.max(0.0),
            low: e.low.max(0.0),
            high: e.high.max(0.0),
            ..Cost::default()
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs())
}

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Kernel release, CPU model, version: all must be those of now.
    pub machine: [String; 3],
    /// By `system/name`, and [`ANNOTATION`].
    pub events: BTreeMap<String, Cost>,
    /// Events that no operation provokes here: they are not looked for again.
    pub unknown: Vec<String>,
}

fn machine() -> [String; 3] {
    let host = kasuri_record::host::host();
    [
        host.kernel,
        host.cpu_model,
        env!("CARGO_PKG_VERSION").to_owned(),
    ]
}

/// Where costs are remembered.
pub fn path() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("kasuri/event-costs.json"))
}

impl Costs {
    /// What is remembered of this machine; empty when nothing is.
    pub fn load() -> Costs {
        let read = || {
            let text = std::fs::read(path()?).ok()?;
            serde_json::from_slice::<Costs>(&text).ok()
        };
        read()
            .filter(|costs| costs.machine == machine())
            .unwrap_or_else(|| Costs {
                machine: machine(),
                ..Costs::default()
            })
    }

    /// Remembers; a cache that cannot be written is only slower.
    pub fn store(&self) {
        let write = || -> std::io::Result<()> {
            let path = path().ok_or(std::io::ErrorKind::NotFound)?;
            let dir = path.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(dir)?;
            let part = dir.join(format!("event-costs.{}.part", std::process::id()));
            std::fs::write(&part, serde_json::to_vec_pretty(self)?)?;
            std::fs::rename(&part, &path)
        };
        let _ = write();
    }

    /// Which of `wanted` are not known yet, or were unclear so long ago that another try is due.
    pub fn missing<'a>(&self, wanted: &'a [String]) -> Vec<&'a str> {
        let now = now();
        let due = |name: &str| match self.events.get(name) {
            // A clock that was set back must not make it wait for years.
            Some(cost) => cost
                .retry_at
                .is_some_and(|at| !(now..=now + RETRY_S).contains(&at)),
            None => !self.unknown.iter().any(|u| u == name),
        };
        let names = wanted.iter().map(String::as_str);
        names.filter(|name| due(name)).collect()
    }

    /// What is known of `wanted`, for a recording.
    pub fn of(&self, wanted: &[String]) -> UnitCosts {
        let mut costs = UnitCosts::default();
        for name in wanted {
            let Some(cost) = self.events.get(name) else {
                continue;
            };
            let warm = [cost.ns, cost.low, cost.high];
            costs.warm.insert(name.clone(), warm);
            if !cost.apart.is_empty() {
                let first = [cost.apart_ns, cost.ns, cost.low, cost.high];
                let rest = cost.apart.iter().copied();
                let all = std::iter::once(first).chain(rest).collect();
                costs.apart.insert(name.clone(), all);
            }
        }
        costs
    }

    fn add(&mut self, name: &str, cost: Cost) {
        let known = self.events.get(name).cloned();
        let cost = Cost::improved(known, cost, now());
        self.events.insert(name.to_owned(), cost);
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Bench {
    /// CPU to measure on.
    pub cpu: u32,
    /// Runs [`crate::worker::serve`]: executable and arguments.
    pub worker: (PathBuf, Vec<String>),
    /// For raw pages.
    pub scratch: PathBuf,
    /// Where ring sessions are made.
    pub shm_dir: PathBuf,
    /// Differences taken of each event.
    pub rounds: u32,
}

/// Measures those of `wanted` that `costs` lacks, and adds them.
///
/// # Errors
/// When there is nothing to measure with.
pub fn learn(costs: &mut Costs, wanted: &[String], bench: &Bench) -> Result<()> {
    let missing: Vec<String> = costs
        .missing(wanted)
        .into_iter()
        .map(str::to_owned)
        .collect();
    let (executable, arguments) = &bench.worker;
    if missing.iter().any(|name| name == ANNOTATION) {
        costs.add(ANNOTATION, annotation(bench)?.into());
    }
    if missing.iter().all(|name| name == ANNOTATION) {
        return Ok(());
    }
    let mut kernel = Kernel::open()?;
    let mut worker = Worker::start(executable, arguments, None)?;
    let table = Table::read(&kernel);
    let mut probe = Probe {
        kernel: &mut kernel,
        worker: &mut worker,
        cpu: bench.cpu,
        scratch: &bench.scratch,
    };
    let mut systems: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for name in missing.iter().filter(|name| *name != ANNOTATION) {
        let system = name.split('/').next().unwrap_or_default();
        systems.entry(system).or_default().push(name);
    }
    for (system, names) in systems {
        let rows: Vec<usize> = names.iter().filter_map(|name| table.find(name)).collect();
        let measured = match provoker_of(system) {
            Some(ix) => match system_of_events(&mut probe, &table, &rows, ix, bench.rounds) {
                // What cannot be run here provokes nothing.
                Err(Error::Operation(..)) => None,
                measured => measured?,
            },
            None => None,
        };
        for name in names {
            match &measured {
                Some((cost, shares)) => {
                    let share = table.find(name).and_then(|row| shares.get(&row));
                    costs.add(name, cost.times(share.copied().unwrap_or(1.0)));
                }
                None => costs.unknown.push(name.clone()),
            }
        }
    }
    Ok(())
}

/// What the events of a subsystem cost on average, and what each costs as a multiple of that, by row of the table.
type Measured = (Cost, BTreeMap<usize, f64>);

fn system_of_events(
    probe: &mut Probe<'_>,
    table: &Table,
    rows: &[usize],
    ix: usize,
    rounds: u32,
) -> Result<Option<Measured>> {
    let Some(cost) = curve(probe, table, rows, ix, rounds)? else {
        return Ok(None);
    };
    let effort = Effort {
        rounds,
        patience: PATIENCE / 2,
        work: 0,
    };
    let mut alone = BTreeMap::new();
    for &row in rows {
        let measured = probe.measure_together(table, &[row], ix, &effort)?;
        alone.extend(measured.map(|measured| (row, measured)));
    }
    Ok(Some((cost, shares(&alone))))
}

/// What each event costs as a multiple of the mean, from what each costs alone: a share in the cost of all, not a cost, because events
/// share costs. Where one of them is unclear alone, all cost the same.
fn shares(alone: &BTreeMap<usize, Together>) -> BTreeMap<usize, f64> {
    let unclear = |e: &Estimate| e.low <= 0.0 || e.high - e.low > UNCLEAR_ALONE * e.median;
    if alone.values().any(|measured| unclear(&measured.each_ns)) {
        return BTreeMap::new();
    }
    let hits: f64 = alone.values().map(|m| m.per_operation).sum();
    let cost = alone.values().map(|m| m.per_operation * m.each_ns.median);
    let mean = cost.sum::<f64>() / hits;
    let share = |m: &Together| m.each_ns.median / mean;
    alone.iter().map(|(&row, m)| (row, share(m))).collect()
}

/// Events measured together, with nothing in between and with more and more.
fn curve(
    probe: &mut Probe<'_>,
    table: &Table,
    rows: &[usize],
    ix: usize,
    rounds: u32,
) -> Result<Option<Cost>> {
    let mut effort = Effort {
        rounds,
        patience: PATIENCE,
        work: 0,
    };
    let Some(alone) = probe.measure_together(table, rows, ix, &effort)? else {
        return Ok(None);
    };
    let mut points = vec![point(&alone)];
    for work in 1..=ops::WORK_MOST {
        effort.work = work;
        effort.patience = PATIENCE / 2;
        let measured = probe.measure_together(table, rows, ix, &effort)?;
        points.extend(measured.as_ref().map(point));
    }
    points.sort_by(|a, b| a[0].total_cmp(&b[0]));
    make_rise(&mut points);
    let [apart_ns, ns, low, high] = points.remove(0);
    Ok(Some(Cost {
        ns,
        low,
        high,
        apart_ns,
        apart: points,
        retry_at: None,
    }))
}

/// ns apart, then median and interval; a cost below nothing is chance, as a cost it is nothing.
fn point(measured: &Together) -> [f64; 4] {
    let each = measured.each_ns;
    let [ns, low, high] = [each.median, each.low, each.high].map(|ns| ns.max(0.0));
    [measured.apart_ns.max(1.0), ns, low, high]
}

/// Caches that were used for more never make an event cheaper: neighbours that say so are chance, and all take their mean, the clearer
/// ones counting more (pooled adjacent violators; Ayer et al., "An empirical distribution function for sampling with incomplete
/// information", 1955).
fn make_rise(points: &mut [[f64; 4]]) {
    // Value, weight, how many points.
    let mut pools: Vec<([f64; 3], f64, usize)> = Vec::new();
    for &[_, ns, low, high] in points.iter() {
        let mut pool = ([ns, low, high], (high - low).max(1.0).powi(-2), 1);
        while let Some(last) = pools.pop_if(|last| last.0[0] > pool.0[0]) {
            let weight = last.1 + pool.1;
            let mean = |i: usize| (last.0[i] * last.1 + pool.0[i] * pool.1) / weight;
            pool = (std::array::from_fn(mean), weight, last.2 + pool.2);
        }
        pools.push(pool);
    }
    let values = pools.iter().flat_map(|p| std::iter::repeat_n(p.0, p.2));
    for (point, [ns, low, high]) in points.iter_mut().zip(values) {
        *point = [point[0], ns, low, high];
    }
}

/// ns of one annotation: half of what a slice adds to the shortest operation.
fn annotation(bench: &Bench) -> Result<Estimate> {
    let session = crate::worker::session(&bench.shm_dir, &bench.scratch)?;
    let (executable, arguments) = &bench.worker;
    let mut worker = Worker::start(executable, arguments, Some(session.path()))?;
    let null_call = ops::ALL
        .iter()
        .position(|op| op.name == "null call")
        .expect("a fixed table");
    let n = worker.calibrate(null_call, 5e5)?;
    let mut samples = Vec::new();
    let start = Instant::now();
    for _ in 0..bench.rounds {
        if start.elapsed() > PATIENCE {
            break;
        }
        let before = worker.shortest(null_call, n, false)?;
        let with = worker.shortest(null_call, n, true)?;
        let after = worker.shortest(null_call, n, false)?;
        samples.push((with - (before + after) / 2.0) / (2.0 * n as f64));
    }
    Ok(median(&samples).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_measured_again() {
        let mut costs = Costs::default();
        costs.events.insert("a/b".to_owned(), Cost::default());
        costs.unknown.push("c/d".to_owned());
        let wanted = ["a/b", "c/d", "e/f"].map(str::to_owned);
        assert_eq!(costs.missing(&wanted), ["e/f"]);
    }

    #[test]
    fn an_unclear_cost_is_remembered_and_tried_again_after_an_hour() {
        let cost = |ns, low, high| Cost {
            ns,
            low,
            high,
            ..Cost::default()
        };
        let unclear = Cost::improved(None, cost(50.0, 0.0, 100.0), 1000);
        assert_eq!(unclear.retry_at, Some(1000 + RETRY_S));
        // A better one replaces it, a worse one does not.
        let clear = Cost::improved(Some(unclear), cost(60.0, 55.0, 66.0), 9000);
        assert_eq!((clear.ns, clear.retry_at), (60.0, None));
        let kept = Cost::improved(Some(clear.clone()), cost(70.0, 10.0, 90.0), 9000);
        assert_eq!(kept, clear);

        let mut costs = Costs::default();
        let mut with = |name: &str, retry_at| {
            let cost = Cost {
                retry_at,
                ..Cost::default()
            };
            costs.events.insert(name.to_owned(), cost);
        };
        with("a/soon", Some(now() + 60));
        with("a/due", Some(now() - 1));
        with("a/clock_was_set_back", Some(now() + 10 * RETRY_S));
        with("a/clear", None);
        let wanted = ["a/soon", "a/due", "a/clock_was_set_back", "a/clear"].map(str::to_owned);
        assert_eq!(costs.missing(&wanted), ["a/due", "a/clock_was_set_back"]);
    }

    #[test]
    fn costs_rise_with_the_distance_and_clear_ones_count_more() {
        let mut points = vec![
            [100.0, 200.0, 190.0, 210.0],
            [200.0, 150.0, 50.0, 250.0],
            [400.0, 300.0, 290.0, 310.0],
        ];
        make_rise(&mut points);
        // Weights 1/20^2 and 1/200^2: 100 to 1.
        let pooled = (200.0 * 100.0 + 150.0) / 101.0;
        assert!((points[0][1] - pooled).abs() < 1e-9 && points[0][1] == points[1][1]);
        assert_eq!(points[2], [400.0, 300.0, 290.0, 310.0]);
        assert_eq!([points[0][0], points[1][0]], [100.0, 200.0]);
    }

    #[test]
    fn events_share_the_cost_of_all_as_they_cost_alone() {
        let alone = |ns: f64, spread: f64, per_operation| Together {
            apart_ns: 100.0,
            each_ns: Estimate {
                median: ns,
                low: ns - spread,
                high: ns + spread,
                n: 7,
            },
            per_operation,
        };
        let of = |waking| shares(&BTreeMap::from([(3, alone(300.0, 10.0, 2.0)), (5, waking)]));
        // Two of 300 and one of 150 are three of 250.
        assert_eq!(
            of(alone(150.0, 10.0, 1.0)),
            BTreeMap::from([(3, 1.2), (5, 0.6)])
        );
        assert_eq!(of(alone(150.0, 60.0, 1.0)), BTreeMap::new());
        let cost = Cost {
            ns: 100.0,
            apart: vec![[10.0, 200.0, 190.0, 210.0]],
            ..Cost::default()
        };
        assert_eq!(cost.times(1.5).apart, [[10.0, 300.0, 285.0, 315.0]]);
    }

    #[test]
    fn a_cost_is_never_negative() {
        let cost = Cost::from(Estimate {
            median: -0.5,
            low: -2.0,
            high: 1.0,
            n: 9,
        });
        assert_eq!((cost.ns, cost.low, cost.high), (0.0, 0.0, 1.0));
    }
}
