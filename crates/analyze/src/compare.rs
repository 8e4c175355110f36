//! Two sides, each one or more runs: what changed, and whether by more than noise.
//!
//! A *measure* is one number of a run's [`Summary`]: the wall time, a class of the account, the time of an annotation or of an
//! imbalance. Measures of different runs are matched by name and kind; a run that lacks one counts as 0, so a region that
//! appears or goes away is a change too. All measures are then tested together by permuting the runs (`permute`), which bounds
//! the chance of any false finding in the whole table, however many rows it has.
use crate::Summary;
use crate::permute::{self, Measure};
use serde::Serialize;
use std::collections::HashMap;

/// Name and version of the JSON that [`Comparison`] serialises to.
pub const COMPARE_SCHEMA: &str = "kasuri.compare/1";

/// Two sides, measure by measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// [`COMPARE_SCHEMA`].
    pub schema: &'static str,
    /// The runs before.
    pub before: Side,
    /// The runs after.
    pub after: Side,
    /// Mean wall time before over mean wall time after: above 1 is faster. None when a side has no time.
    pub speed_up: Option<f64>,
    /// The verdict on the wall time: `faster` or `slower` by more than noise, `may_be_noise`, or, with too few runs,
    /// `not_known`: then `speed_up` is that of these runs only.
    pub verdict: &'static str,
    /// Whether there are enough runs to tell a change from noise: the least p that they can show is at most 0.05.
    pub can_tell: bool,
    /// The whole runs.
    pub totals: Vec<Change>,
    /// CPU time by class of the account.
    pub account: Vec<Change>,
    /// Annotations by name and kind, largest change of total time first.
    pub regions: Vec<Change>,
    /// Cost of load imbalance by annotation, largest change first.
    pub imbalance: Vec<Change>,
}

/// The runs of one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Side {
    /// The recorded command of the first run.
    pub command: Vec<String>,
    /// Number of runs.
    pub runs: u64,
    /// CPUs of the first run.
    pub n_cpus: u32,
    /// Whether the runs' switches are known: else times on a CPU are 0.
    pub switches_known: bool,
    /// Runs that lost events.
    pub runs_with_losses: u64,
}

/// One measure on both sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Change {
    /// The measure.
    pub name: String,
    /// Annotations: the kind of slice. Imbalance: how instances were separated. Else empty.
    pub kind: String,
    /// `ns`, `count` or `ratio`.
    pub unit: &'static str,
    /// Before.
    pub before: Sample,
    /// After.
    pub after: Sample,
    /// `after.mean - before.mean`.
    pub difference: f64,
    /// `after.mean / before.mean`; none when there was nothing before.
    pub ratio: Option<f64>,
    /// How often chance alone gets as far in any of the measures of this comparison; none with too few runs.
    pub p_value: Option<f64>,
    /// p is at most 0.05; none with too few runs.
    pub changed: Option<bool>,
}

/// The runs' values of one measure; a run that does not have it counts as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

/// A value of one run.
struct Value {
    group: Group,
    name: String,
    kind: String,
    unit: &'static str,
    value: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Group {
    Total,
    Account,
    Region,
    Imbalance,
}

/// Chance must get as far in at most this share of the ways, or a change is noise.
const SIGNIFICANT: f64 = 0.05;

/// Compares runs `before` with runs `after`. Either may be empty: then its means are 0.
pub fn compare(before: &[Summary], after: &[Summary]) -> Comparison {
    let (rows, measures) = measures(before, after);
    let p_values = permute::p_values(&measures);
    let mut out = Comparison {
        schema: COMPARE_SCHEMA,
        before: side(before),
        after: side(after),
        can_tell: p_values.is_some(),
        ..Comparison::default()
    };
    for (ix, (row, measure)) in rows.into_iter().zip(&measures).enumerate() {
        let (b, a) = (sample(&measure.before), sample(&measure.after));
        let p_value = p_values.as_ref().map(|p| p[ix]);
        let change = Change {
            name: row.name,
            kind: row.kind,
            unit: row.unit,
            before: b,
            after: a,
            difference: a.mean - b.mean,
            ratio: (b.mean != 0.0).then(|| a.mean / b.mean),
            p_value,
            changed: p_value.map(|p| p <= SIGNIFICANT),
        };
        match row.group {
            Group::Total => out.totals.push(change),
            Group::Account => out.account.push(change),
            Group::Region => out.regions.push(change),
            Group::Imbalance => out.imbalance.push(change),
        }
    }
    for list in [&mut out.regions, &mut out.imbalance] {
        list.sort_by(|a, b| {
            (b.difference.abs().total_cmp(&a.difference.abs()))
                .then_with(|| (&a.name, &a.kind).cmp(&(&b.name, &b.kind)))
        });
    }
    let wall =
        |side: &[Summary]| side.iter().map(|s| s.wall_ns as f64).sum::<f64>() / side.len() as f64;
    let speed_up = wall(before) / wall(after);
    out.speed_up = (speed_up.is_finite() && speed_up > 0.0).then_some(speed_up);
    out.verdict = match out.totals.first().and_then(|wall| wall.changed) {
        None => "not_known",
        Some(false) => "may_be_noise",
        Some(true) if speed_up > 1.0 => "faster",
        Some(true) => "slower",
    };
    out
}

fn side(runs: &[Summary]) -> Side {
    let first = runs.first();
    Side {
        command: first.map(|s| s.command.clone()).unwrap_or_default(),
        runs: runs.len() as u64,
        n_cpus: first.map_or(0, |s| s.n_cpus),
        switches_known: runs.iter().all(|s| s.known.switches),
        runs_with_losses: runs.iter().filter(|s| !s.losses.is_empty()).count() as u64,
    }
}

fn sample(values: &[f64]) -> Sample {
    let n = values.len().max(1) as f64;
    let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(0.0);
    Sample {
        mean: values.iter().sum::<f64>() / n,
        min: fold(f64::min),
        max: fold(f64::max),
    }
}

/// Each measure that any run has, in order of first appearance, with the values of all runs.
fn measures(before: &[Summary], after: &[Summary]) -> (Vec<Value>, Vec<Measure>) {
    let mut rows: Vec<Value> = Vec::new();
    let mut measures: Vec<Measure> = Vec::new();
    let mut at: HashMap<(Group, String, String), usize> = HashMap::new();
    for (is_after, run, summary) in (before.iter().enumerate().map(|(i, s)| (false, i, s)))
        .chain(after.iter().enumerate().map(|(i, s)| (true, i, s)))
    {
        for value in values(summary) {
            let key = (value.group, value.name.clone(), value.kind.clone());
            let ix = *at.entry(key).or_insert(rows.len());
            let v = value.value;
            if ix == rows.len() {
                rows.push(value);
                measures.push(Measure {
                    before: vec![0.0; before.len()],
                    after: vec![0.0; after.len()],
                });
            }
            let measure = &mut measures[ix];
            let side = match is_after {
                true => &mut measure.after,
                false => &mut measure.before,
            };
            // Objects of one name add up.
            side[run] += v;
        }
    }
    (rows, measures)
}

/// The measures of one run.
fn values(s: &Summary) -> Vec<Value> {
    let mut out = Vec::new();
    let mut put = |group, name: &str, kind: &str, unit, value: f64| {
        out.push(Value {
            group,
            name: name.into(),
            kind: kind.into(),
            unit,
            value,
        });
    };
    let sum = |f: fn(&crate::ThreadSummary) -> i64| {
        s.threads.iter().filter(|t| t.is_target).map(f).sum::<i64>() as f64
    };
    put(Group::Total, "wall", "", "ns", s.wall_ns as f64);
    if s.known.switches {
        put(Group::Total, "on CPU", "", "ns", s.on_cpu_ns as f64);
        put(
            Group::Total,
            "ready, without a CPU",
            "",
            "ns",
            sum(|t| t.runnable_ns),
        );
        put(Group::Total, "blocked", "", "ns", sum(|t| t.blocked_ns));
        put(Group::Total, "switches", "", "count", s.switches as f64);
        put(
            Group::Total,
            "preemptions",
            "",
            "count",
            s.preemptions as f64,
        );
        put(Group::Total, "migrations", "", "count", s.migrations as f64);
        put(
            Group::Total,
            "CPU use",
            "",
            "ratio",
            s.cpu_use.unwrap_or(0.0),
        );
    }
    for class in &s.account.classes {
        put(Group::Account, class.class, "", "ns", class.ns as f64);
    }
    for a in &s.annotations {
        put(Group::Region, &a.name, a.kind, "ns", a.total_ns as f64);
    }
    for i in &s.imbalance {
        put(Group::Imbalance, &i.name, i.by, "ns", i.cost_ns);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnnotationSummary;

    fn run(wall_ns: i64, regions: &[(&str, i64)]) -> Summary {
        let region = |&(name, total_ns): &(&str, i64)| AnnotationSummary {
            name: name.into(),
            kind: "work",
            total_ns,
            ..AnnotationSummary::default()
        };
        Summary {
            wall_ns,
            annotations: regions.iter().map(region).collect(),
            ..Summary::default()
        }
    }

    #[test]
    fn one_run_each_has_differences_and_no_verdict() {
        let c = compare(
            &[run(200, &[("a", 100), ("gone", 7)])],
            &[run(100, &[("a", 40), ("new", 5)])],
        );
        assert_eq!(
            (c.speed_up, c.can_tell, c.verdict),
            (Some(2.0), false, "not_known")
        );
        let rows: Vec<_> = c
            .regions
            .iter()
            .map(|r| (r.name.as_str(), r.difference, r.ratio, r.changed))
            .collect();
        let expected = [
            ("a", -60.0, Some(0.4), None),
            ("gone", -7.0, Some(0.0), None),
            ("new", 5.0, None, None),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn several_runs_tell_what_changed_from_noise() {
        let before: Vec<Summary> = (0..5)
            .map(|i| run(1000 + i, &[("same", 500 + 10 * i), ("hot", 300 + i)]))
            .collect();
        let after: Vec<Summary> = (0..5)
            .map(|i| run(800 + i, &[("same", 540 - 10 * i), ("hot", 100 + i)]))
            .collect();
        let c = compare(&before, &after);
        let changed = |name: &str| c.regions.iter().find(|r| r.name == name).unwrap().changed;
        assert_eq!((changed("hot"), changed("same")), (Some(true), Some(false)));
        assert_eq!(
            (c.totals[0].name.as_str(), c.totals[0].changed),
            ("wall", Some(true))
        );
        assert_eq!(c.speed_up, Some(1002.0 / 802.0));
        assert_eq!(c.verdict, "faster");
    }

    #[test]
    fn nothing_has_an_answer() {
        assert_eq!(compare(&[], &[]).regions, []);
    }
}
