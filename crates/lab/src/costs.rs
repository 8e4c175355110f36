//! Costs of events on this machine: measured, and cached in a file.
//!
//! The file `$XDG_CACHE_HOME/kasuri/event-costs.json` (usually below `~/.cache`; where that cannot be written, see
//! `cache`) holds for one kernel, CPU model and version of kasuri; when one of them changes, all costs are measured
//! anew. Losing the file costs some seconds.
//!
//! On a shared machine the cost of an event changes by a half from one tenth of a second to the next, and over hours.
//! So costs are medians of rounds that are spread over time: the first recording measures in [`PASSES`] passes, and
//! later ones, at most one in [`REFRESH_S`], make one more pass, whose rounds replace the oldest.
//!
//! Events of one subsystem are measured together, for the reason given at [`Probe::measure_together`]. Each gets the
//! share of their joint cost that it has in the sum of what they cost alone. An event that none of our operations
//! provokes is taken to cost the mean.
use crate::error::{Error, Result};
use crate::events::{Probe, Table, provoker_of};
use crate::ops;
use crate::stats::{Estimate, median};
use crate::tracer::Kernel;
use crate::worker::Worker;
use kasuri_record::UnitCosts;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// The name under which the cost of an annotation is kept.
pub const ANNOTATION: &str = "annotation";

/// Seconds after which a cost gets one more pass. A pass makes some 25,000 context switches on one CPU in a third of a second of
/// CPU time, before the recording begins: too much to do before every third recording.
const REFRESH_S: u64 = 600;
/// Passes in which a cost is measured first.
const PASSES: usize = 9;
/// Rounds that are remembered of each figure: as many as there are passes in the first six hours of constant use.
const REMEMBERED: usize = 40;
/// On a busy machine no further pass begins after this time, and no further round of a pass: the user waits for the
/// recording to begin.
const PATIENCE: Duration = Duration::from_secs(8);
const PATIENCE_OF_PASS: Duration = Duration::from_secs(1);
/// Rounds of an annotation in a pass: they need no switching of events, and are short.
const ANNOTATION_ROUNDS: usize = 9;

/// Rounds in which an event was measured, in order of time: ns from one event to the next untraced, ns that it adds.
type Rounds = Vec<[f64; 2]>;

/// Appends a round, and forgets the oldest beyond [`REMEMBERED`].
fn remember(all: &mut Rounds, round: [f64; 2]) {
    all.push(round.map(|ns| (ns * 10.0).round() / 10.0));
    all.drain(..all.len().saturating_sub(REMEMBERED));
}

fn added(rounds: &Rounds) -> Option<Estimate> {
    median(&rounds.iter().map(|r| r[1]).collect::<Vec<_>>())
}

/// The measurements of one event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// With the other events of its subsystem, for each amount of work between two events: the mean cost of one
    /// event.
    rounds: Vec<Rounds>,
    /// Alone, without other work.
    alone: Rounds,
    /// Number of times it occurs in one operation, with the other events on.
    per_operation: f64,
    /// When it was measured last, seconds since 1970.
    at: u64,
}

impl Cost {
    fn add(&mut self, work: usize, round: [f64; 2], now: u64) {
        self.at = now;
        let n = self.rounds.len().max(work + 1);
        self.rounds.resize(n, Rounds::new());
        remember(&mut self.rounds[work], round);
    }

    /// ns apart, then median and interval, by rising distance. A negative cost is noise, and counts as zero.
    fn curve(&self) -> Vec<[f64; 4]> {
        let point = |rounds: &Rounds| {
            let apart = median(&rounds.iter().map(|r| r[0]).collect::<Vec<_>>())?;
            let added = added(rounds)?;
            let [ns, low, high] = [added.median, added.low, added.high].map(|ns| ns.max(0.0));
            Some([apart.median.max(1.0), ns, low, high])
        };
        let mut points: Vec<_> = self.rounds.iter().filter_map(point).collect();
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        make_rise(&mut points);
        points
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs())
}

/// Whether what was measured at this second is to be measured again.
pub(crate) fn is_old(at: u64) -> bool {
    // A clock that was set back must not make it wait for years.
    !(at..at.saturating_add(REFRESH_S)).contains(&now())
}

/// All measurements of one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// [`machine`], when they were made.
    pub machine: [String; 3],
    /// By `system/name`, and [`ANNOTATION`].
    pub events: BTreeMap<String, Cost>,
    /// Events that no operation provokes here: they are not looked for again.
    pub unknown: Vec<String>,
}

/// What must be as it was where measurements are remembered: kernel release, CPU model, version.
pub(crate) fn machine() -> [String; 3] {
    let host = kasuri_record::host::host();
    [host.kernel, host.cpu_model, env!("CARGO_PKG_VERSION").to_owned()]
}

/// The file of measurements; for its directory see `cache`.
const FILE: &str = "event-costs.json";

impl Costs {
    /// Loads the measurements of this machine; empty if there are none.
    pub fn load() -> Costs {
        let known = crate::cache::read_all(FILE).into_iter();
        known
            .filter_map(|text| serde_json::from_slice::<Costs>(&text).ok())
            .filter(|costs| costs.machine == machine())
            // A home that can only be read may have older ones.
            .max_by_key(|costs| costs.events.values().map(|cost| cost.at).max())
            .unwrap_or_else(|| Costs { machine: machine(), ..Costs::default() })
    }

    /// Makes another pass due for all known events.
    pub fn age(&mut self) {
        self.events.values_mut().for_each(|cost| cost.at = 0);
    }

    /// Writes the file. Returns false when no place can be written: then all is measured anew the next time.
    pub fn store(&self) -> bool {
        serde_json::to_vec(self).is_ok_and(|text| crate::cache::write(FILE, &text))
    }

    /// Whether one of `wanted` was never measured: measuring it takes seconds.
    pub fn lack(&self, wanted: &[String]) -> bool {
        let known = |name: &String| self.events.contains_key(name) || self.unknown.contains(name);
        !wanted.iter().all(known)
    }

    /// Those of `wanted` that are not known yet, or were measured so long ago that another pass is due.
    pub fn missing<'a>(&self, wanted: &'a [String]) -> Vec<&'a str> {
        let due = |name: &str| match self.events.get(name) {
            Some(cost) => is_old(cost.at),
            None => !self.unknown.iter().any(|u| u == name),
        };
        let names = wanted.iter().map(String::as_str);
        names.filter(|name| due(name)).collect()
    }

    /// The known costs of `wanted`, for a recording.
    pub fn of(&self, wanted: &[String]) -> UnitCosts {
        let mut costs = UnitCosts::default();
        for name in wanted {
            let Some(cost) = self.events.get(name) else {
                continue;
            };
            let share = self.share(name, wanted);
            let mut curve = cost.curve();
            let costs_of = curve.iter_mut().flat_map(|point| &mut point[1..]);
            costs_of.for_each(|ns| *ns *= share);
            let Some(&[_, ns, low, high]) = curve.first() else {
                continue;
            };
            costs.warm.insert(name.clone(), [ns, low, high]);
            if curve.len() > 1 {
                costs.apart.insert(name.clone(), curve);
            }
        }
        costs
    }

    /// The cost of an event as a multiple of the mean of its subsystem, from the costs of each event alone. It
    /// divides the joint cost and is not a cost itself, because events share costs. When one of them alone cannot be
    /// told from zero, all cost the same.
    fn share(&self, name: &str, wanted: &[String]) -> f64 {
        let system = |name: &str| name.split('/').next().unwrap_or_default().to_owned();
        let others = wanted.iter().filter(|other| system(other) == system(name));
        let (mut hits, mut cost, mut own) = (0.0, 0.0, None);
        for (other, known) in others.filter_map(|other| Some((other, self.events.get(other)?))) {
            let Some(alone) = added(&known.alone) else {
                continue;
            };
            if alone.low <= 0.0 {
                return 1.0;
            }
            hits += known.per_operation;
            cost += known.per_operation * alone.median;
            own = (other == name).then_some(alone.median).or(own);
        }
        own.map_or(1.0, |own| own * hits / cost)
    }
}

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct Bench {
    /// CPU to measure on.
    pub cpu: u32,
    /// Runs [`crate::worker::serve`]: executable and arguments.
    pub worker: (PathBuf, Vec<String>),
    /// Directory for raw pages.
    pub scratch: PathBuf,
    /// Directory in which ring sessions are made.
    pub shm_dir: PathBuf,
}

/// Measures those of `wanted` that `costs` lacks or that are due, and adds them to `costs`.
///
/// # Errors
/// When there is nothing to measure with.
pub fn learn(costs: &mut Costs, wanted: &[String], bench: &Bench) -> Result<()> {
    let missing: Vec<String> = costs.missing(wanted).into_iter().map(str::to_owned).collect();
    let passes = if costs.lack(wanted) { PASSES } else { 1 };
    let (executable, arguments) = &bench.worker;
    if missing.iter().any(|name| name == ANNOTATION) {
        annotation(costs, bench, passes)?;
    }
    if missing.iter().all(|name| name == ANNOTATION) {
        return Ok(());
    }
    let mut kernel = Kernel::open()?;
    let mut worker = Worker::start(executable, arguments, None)?;
    let table = Table::read(&kernel);
    let mut probe =
        Probe { kernel: &mut kernel, worker: &mut worker, cpu: bench.cpu, scratch: &bench.scratch };
    let mut systems: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for name in missing.iter().filter(|name| *name != ANNOTATION) {
        let system = name.split('/').next().unwrap_or_default();
        systems.entry(system).or_default().push(name);
    }
    // Each pass goes through all subsystems, so that changes of the machine's speed affect all alike.
    let start = Instant::now();
    for pass in 0..passes {
        if pass > 0 && start.elapsed() > PATIENCE {
            break;
        }
        for (system, names) in &systems {
            learn_system(costs, &mut probe, &table, system, names)?;
        }
    }
    Ok(())
}

/// One pass over the events of a subsystem.
fn learn_system(
    costs: &mut Costs,
    probe: &mut Probe<'_>,
    table: &Table,
    system: &str,
    names: &[&String],
) -> Result<()> {
    let rows: Vec<usize> = names.iter().filter_map(|name| table.find(name)).collect();
    if let Some(ix) = provoker_of(system) {
        match pass(costs, probe, table, &rows, ix) {
            // An operation that cannot run here provokes nothing.
            Err(Error::Operation(..)) => {}
            measured => measured?,
        }
    }
    for &name in names {
        if !costs.events.contains_key(name) && !costs.unknown.contains(name) {
            costs.unknown.push(name.clone());
        }
    }
    Ok(())
}

/// Measures one round with each amount of work, and one of each event alone.
fn pass(
    costs: &mut Costs,
    probe: &mut Probe<'_>,
    table: &Table,
    rows: &[usize],
    ix: usize,
) -> Result<()> {
    let of = |row: usize| table.events[row].name.clone();
    let mut provoked = HashMap::new();
    let start = Instant::now();
    for work in 0..=ops::WORK_MOST {
        if work > 0 && start.elapsed() > PATIENCE_OF_PASS {
            break;
        }
        let Some(round) = probe.measure_together(table, rows, ix, work)? else {
            break;
        };
        for &row in rows {
            let cost = costs.events.entry(of(row)).or_default();
            cost.add(work as usize, [round.apart_ns, round.added_ns], now());
        }
        if work == 0 {
            provoked = round.per_operation;
        }
    }
    for (&row, &per_operation) in &provoked {
        if start.elapsed() > PATIENCE_OF_PASS {
            break;
        }
        let Some(round) = probe.measure_together(table, &[row], ix, 0)? else {
            continue;
        };
        let cost = costs.events.entry(of(row)).or_default();
        cost.per_operation = per_operation;
        remember(&mut cost.alone, [round.apart_ns, round.added_ns]);
    }
    Ok(())
}

/// Makes costs rise with the distance between events. More use of the caches in between never makes an event cheaper,
/// so neighbours that fall are noise: they all take their mean, in which the more precise ones weigh more (pooled
/// adjacent violators; Ayer et al., "An empirical distribution function for sampling with incomplete information",
/// 1955).
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

/// Measures an annotation: half of what a slice adds to the shortest operation.
fn annotation(costs: &mut Costs, bench: &Bench, passes: usize) -> Result<()> {
    let session = crate::worker::session(&bench.shm_dir, &bench.scratch)?;
    let (executable, arguments) = &bench.worker;
    let mut worker = Worker::start(executable, arguments, Some(session.path()))?;
    let null_call = ops::ALL.iter().position(|op| op.name == "null call").expect("a fixed table");
    let n = worker.calibrate(null_call, 5e5)?;
    let cost = costs.events.entry(ANNOTATION.to_owned()).or_default();
    for _ in 0..passes * ANNOTATION_ROUNDS {
        let before = worker.run(null_call, n, false)?;
        let with = worker.run(null_call, n, true)?;
        let after = worker.run(null_call, n, false)?;
        let off = (before + after) / 2.0;
        cost.add(0, [off, with - off].map(|ns| ns / (2.0 * n as f64)), now());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_measured_again() {
        let mut costs = Costs::default();
        let known = Cost { at: now(), ..Cost::default() };
        costs.events.insert("a/b".to_owned(), known);
        costs.unknown.push("c/d".to_owned());
        let wanted = ["a/b", "c/d", "e/f"].map(str::to_owned);
        assert_eq!(costs.missing(&wanted), ["e/f"]);
    }

    #[test]
    fn a_cost_is_measured_again_after_ten_minutes() {
        let mut costs = Costs::default();
        let mut with = |name: &str, at| {
            let cost = Cost { at, ..Cost::default() };
            costs.events.insert(name.to_owned(), cost);
        };
        with("a/just_now", now() - 1);
        with("a/due", now() - REFRESH_S - 1);
        with("a/clock_was_set_back", now() + 10 * REFRESH_S);
        let wanted = ["a/just_now", "a/due", "a/clock_was_set_back"].map(str::to_owned);
        assert_eq!(costs.missing(&wanted), ["a/due", "a/clock_was_set_back"]);
        assert!(!costs.lack(&wanted) && costs.lack(&["a/new".to_owned()]));
    }

    #[test]
    fn the_oldest_rounds_are_forgotten() {
        let mut cost = Cost::default();
        let mut add = |n: usize, ns: f64| {
            (0..n).for_each(|_| cost.add(0, [100.0, ns], 7));
            (cost.curve()[0][1], cost.rounds[0].len(), cost.at)
        };
        assert_eq!(add(REMEMBERED, 10.0), (10.0, REMEMBERED, 7));
        // Still the minority; then most of them.
        assert_eq!(add(REMEMBERED / 2 - 1, 20.0), (10.0, REMEMBERED, 7));
        assert_eq!(add(2, 20.0), (20.0, REMEMBERED, 7));
    }

    #[test]
    fn a_cost_is_never_negative() {
        let mut cost = Cost::default();
        for ns in [-0.5, -2.0, 1.0] {
            cost.add(0, [10.0, ns], 1);
        }
        assert_eq!(cost.curve(), [[10.0, 0.0, 0.0, 1.0]]);
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
        let wanted = ["s/switch", "s/waking", "t/other"].map(str::to_owned);
        let shares = |waking_ns: f64, spread: f64| {
            let mut costs = Costs::default();
            let mut add = |name: &String, ns: f64, per_operation| {
                let mut cost = Cost {
                    per_operation,
                    alone: vec![[100.0, ns - spread], [100.0, ns], [100.0, ns + spread]],
                    ..Cost::default()
                };
                cost.add(0, [10.0, 100.0], 1);
                costs.events.insert(name.clone(), cost);
            };
            add(&wanted[0], 300.0, 2.0);
            add(&wanted[1], waking_ns, 1.0);
            add(&wanted[2], 7.0 + spread, 1.0);
            let warm = costs.of(&wanted).warm;
            wanted.clone().map(|name| warm[&name][0])
        };
        // Two of 300 and one of 150 are three of 250.
        assert_eq!(shares(150.0, 10.0), [120.0, 60.0, 100.0]);
        assert_eq!(shares(150.0, 160.0), [100.0; 3]);
    }
}
