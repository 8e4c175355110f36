//! Two sides, each one or more runs: what changed, and whether by more than noise.
//!
//! A *measure* is one number of a run's [`Summary`]: the wall time, a class of the account, the time of an annotation or of an
//! imbalance. Measures of different runs are matched by name and kind; a run that lacks one counts as 0, so a region that
//! appears or goes away is a change too. All measures are then tested together by permuting the runs (`permute`), which bounds
//! the chance of any false finding in the whole table, however many rows it has.
//!
//! Functions behind a class are many and vary much, so in that table they would hide all else. They are tested among themselves, and count only where
//! their class changed by more than noise: a function's p is at least its class's.
use crate::Summary;
use crate::permute::{self, Measure};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashMap;

/// Name and version of the JSON that [`Comparison`] serialises to.
pub const COMPARE_SCHEMA: &str = "kasuri.compare/1";

/// Two sides, measure by measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The name and version of this schema.
    #[schemars(extend("const" = COMPARE_SCHEMA))]
    pub schema: &'static str,
    /// The runs before.
    pub before: Side,
    /// The runs after.
    pub after: Side,
    /// Mean wall time before over mean wall time after: above 1 is faster. None when a side has no time.
    pub speed_up: Option<f64>,
    /// The verdict on the wall time: `faster` or `slower` by more than noise, `may_be_noise`, or, with too few runs,
    /// `not_known`: then `speed_up` is that of these runs only.
    #[schemars(extend("enum" = ["faster", "slower", "may_be_noise", "not_known"]))]
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
    /// Functions behind the classes of the account, by class (`kind`), largest change first. Of classes that changed by more than noise; with too few runs, of
    /// those that differ most. Empty unless all runs have samples of call paths.
    pub functions: Vec<Change>,
}

/// The runs of one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Side {
    /// The recorded command of the first run.
    pub command: Vec<String>,
    /// The program of the first run.
    pub program: crate::Program,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// The measure.
    pub name: String,
    /// Annotations: the kind of slice. Imbalance: how instances were separated. Functions: the class. Else empty.
    pub kind: String,
    /// `ns`, `count` or `ratio`.
    #[schemars(extend("enum" = ["ns", "count", "ratio"]))]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
    Function,
}

/// Chance must get as far in at most this share of the ways, or a change is noise.
const SIGNIFICANT: f64 = 0.05;

/// Compares runs `before` with runs `after`. Either may be empty: then its means are 0.
pub fn compare(before: &[Summary], after: &[Summary]) -> Comparison {
    let (rows, measures) = measures(before, after, values);
    let p_values = permute::p_values(&measures);
    let mut out = Comparison {
        schema: COMPARE_SCHEMA,
        before: side(before),
        after: side(after),
        can_tell: p_values.is_some(),
        ..Comparison::default()
    };
    for (ix, (row, measure)) in rows.into_iter().zip(&measures).enumerate() {
        let group = row.group;
        let change = change(row, measure, p_values.as_ref().map(|p| p[ix]));
        match group {
            Group::Total => out.totals.push(change),
            Group::Account => out.account.push(change),
            Group::Region => out.regions.push(change),
            Group::Imbalance => out.imbalance.push(change),
            Group::Function => {}
        }
    }
    for list in [&mut out.regions, &mut out.imbalance] {
        list.sort_by(|a, b| {
            (b.difference.abs().total_cmp(&a.difference.abs()))
                .then_with(|| (&a.name, &a.kind).cmp(&(&b.name, &b.kind)))
        });
    }
    out.functions = functions(before, after, &out.account);
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

fn change(row: Value, measure: &Measure, p_value: Option<f64>) -> Change {
    let (before, after) = (sample(&measure.before), sample(&measure.after));
    Change {
        name: row.name,
        kind: row.kind,
        unit: row.unit,
        before,
        after,
        difference: after.mean - before.mean,
        ratio: (before.mean != 0.0).then(|| after.mean / before.mean),
        p_value,
        changed: p_value.map(|p| p <= SIGNIFICANT),
    }
}

/// Functions with less of a class's time, over all runs, are not compared.
const LEAST_SHARE: f64 = 0.01;
/// Classes whose functions are shown where it is not known which changed.
const CLASSES_SHOWN: usize = 3;

/// The functions behind the classes that changed.
fn functions(before: &[Summary], after: &[Summary], account: &[Change]) -> Vec<Change> {
    let mut runs = before.iter().chain(after);
    if !runs.all(|run| run.call_paths.is_some()) {
        return Vec::new();
    }
    let (rows, measures) = measures(before, after, function_values);
    let total = |measure: &Measure| measure.before.iter().chain(&measure.after).sum::<f64>();
    // What is left out is chosen by all runs together, whichever side they are on: the test stays exact.
    let mut of_class: HashMap<String, f64> = HashMap::new();
    for (row, measure) in rows.iter().zip(&measures) {
        *of_class.entry(row.kind.clone()).or_default() += total(measure);
    }
    let is_large =
        |(row, measure): &(Value, Measure)| total(measure) >= LEAST_SHARE * of_class[&row.kind];
    let (rows, measures): (Vec<Value>, Vec<Measure>) =
        rows.into_iter().zip(measures).filter(is_large).unzip();
    let p_values = permute::p_values(&measures);
    let shown = classes_shown(account);
    let mut out = Vec::new();
    for (ix, (row, measure)) in rows.into_iter().zip(&measures).enumerate() {
        let class = account.iter().find(|class| class.name == row.kind);
        let of_class = class.and_then(|class| class.p_value);
        let p_value = p_values.as_ref().map(|p| p[ix]).zip(of_class);
        if shown.contains(&row.kind) {
            out.push(change(row, measure, p_value.map(|(own, class)| own.max(class))));
        }
    }
    let place = |change: &Change| shown.iter().position(|class| *class == change.kind);
    out.sort_by(|a, b| {
        (place(a).cmp(&place(b)))
            .then(b.difference.abs().total_cmp(&a.difference.abs()))
            .then_with(|| a.name.cmp(&b.name))
    });
    out
}

/// Classes that changed by more than noise, the largest change first; with too few runs those that differ most.
fn classes_shown(account: &[Change]) -> Vec<String> {
    let mut classes: Vec<&Change> =
        (account.iter()).filter(|class| class.changed.unwrap_or(class.difference != 0.0)).collect();
    classes.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
    let n = match account.iter().any(|class| class.changed.is_some()) {
        true => classes.len(),
        false => CLASSES_SHOWN.min(classes.len()),
    };
    classes[..n].iter().map(|class| class.name.clone()).collect()
}

/// Time of a run by class and innermost function; the classes are whole.
fn function_values(s: &Summary) -> Vec<Value> {
    let mut out = Vec::new();
    let mut put = |name: String, class: &str, ns: i64| {
        out.push(Value {
            group: Group::Function,
            name,
            kind: class.to_owned(),
            unit: "ns",
            value: ns as f64,
        });
    };
    for class in s.call_paths.iter().flat_map(|paths| &paths.classes) {
        for path in &class.paths.paths {
            let name =
                path.frames.first().map_or(String::new(), |frame| match frame.function.as_str() {
                    "" => format!("[{}]", frame.module.trim_matches(['[', ']'])),
                    function => function.to_owned(),
                });
            put(name, class.class, path.ns);
        }
        put("[other functions]".to_owned(), class.class, class.paths.other_ns);
        put("[without a sample]".to_owned(), class.class, class.paths.unsampled_ns);
        put("[no code to sample]".to_owned(), class.class, class.paths.without_code_ns);
    }
    out
}

fn side(runs: &[Summary]) -> Side {
    let first = runs.first();
    Side {
        command: first.map(|s| s.command.clone()).unwrap_or_default(),
        program: first.map(|s| s.program.clone()).unwrap_or_default(),
        runs: runs.len() as u64,
        n_cpus: first.map_or(0, |s| s.n_cpus),
        switches_known: runs.iter().all(|s| s.known.switches),
        runs_with_losses: runs.iter().filter(|s| !s.losses.is_empty()).count() as u64,
    }
}

fn sample(values: &[f64]) -> Sample {
    let n = values.len().max(1) as f64;
    let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f).unwrap_or(0.0);
    Sample { mean: values.iter().sum::<f64>() / n, min: fold(f64::min), max: fold(f64::max) }
}

/// Each measure that any run has, in order of first appearance, with the values of all runs.
fn measures(
    before: &[Summary],
    after: &[Summary],
    values: impl Fn(&Summary) -> Vec<Value>,
) -> (Vec<Value>, Vec<Measure>) {
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
        out.push(Value { group, name: name.into(), kind: kind.into(), unit, value });
    };
    let sum = |f: fn(&crate::ThreadSummary) -> i64| {
        s.threads.iter().filter(|t| t.is_target).map(f).sum::<i64>() as f64
    };
    put(Group::Total, "wall", "", "ns", s.wall_ns as f64);
    if s.known.switches {
        put(Group::Total, "on CPU", "", "ns", s.on_cpu_ns as f64);
        put(Group::Total, "ready, without a CPU", "", "ns", sum(|t| t.runnable_ns));
        put(Group::Total, "blocked", "", "ns", sum(|t| t.blocked_ns));
        put(Group::Total, "switches", "", "count", s.switches as f64);
        put(Group::Total, "preemptions", "", "count", s.preemptions as f64);
        put(Group::Total, "migrations", "", "count", s.migrations as f64);
        put(Group::Total, "CPU use", "", "ratio", s.cpu_use.unwrap_or(0.0));
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
        Summary { wall_ns, annotations: regions.iter().map(region).collect(), ..Summary::default() }
    }

    #[test]
    fn one_run_each_has_differences_and_no_verdict() {
        let c =
            compare(&[run(200, &[("a", 100), ("gone", 7)])], &[run(100, &[("a", 40), ("new", 5)])]);
        assert_eq!((c.speed_up, c.can_tell, c.verdict), (Some(2.0), false, "not_known"));
        let rows: Vec<_> =
            c.regions.iter().map(|r| (r.name.as_str(), r.difference, r.ratio, r.changed)).collect();
        let expected = [
            ("a", -60.0, Some(0.4), None),
            ("gone", -7.0, Some(0.0), None),
            ("new", 5.0, None, None),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn several_runs_tell_what_changed_from_noise() {
        let before: Vec<Summary> =
            (0..5).map(|i| run(1000 + i, &[("same", 500 + 10 * i), ("hot", 300 + i)])).collect();
        let after: Vec<Summary> =
            (0..5).map(|i| run(800 + i, &[("same", 540 - 10 * i), ("hot", 100 + i)])).collect();
        let c = compare(&before, &after);
        let changed = |name: &str| c.regions.iter().find(|r| r.name == name).unwrap().changed;
        assert_eq!((changed("hot"), changed("same")), (Some(true), Some(false)));
        assert_eq!((c.totals[0].name.as_str(), c.totals[0].changed), ("wall", Some(true)));
        assert_eq!(c.speed_up, Some(1002.0 / 802.0));
        assert_eq!(c.verdict, "faster");
    }

    /// A run whose work is done by these functions, all in call paths.
    fn run_with(functions: &[(&str, i64)]) -> Summary {
        use crate::account::{AccountSummary, ClassSum};
        use crate::call_paths::{CallPathSummary, ClassPaths, HotPath, PathFrame, PathShares};
        let work: i64 = functions.iter().map(|f| f.1).sum();
        let path = |&(name, ns): &(&str, i64)| HotPath {
            ns,
            frames: vec![PathFrame { function: name.into(), ..PathFrame::default() }],
            ..HotPath::default()
        };
        let class = |class, ns, functions: &[(&str, i64)]| ClassPaths {
            class,
            ns,
            paths: PathShares {
                paths: functions.iter().map(path).collect(),
                ..PathShares::default()
            },
            ..ClassPaths::default()
        };
        let sum = |class, ns| ClassSum { class, ns, ..ClassSum::default() };
        Summary {
            wall_ns: work,
            account: AccountSummary {
                classes: vec![sum("work", work), sum("io_wait", 100)],
                ..AccountSummary::default()
            },
            call_paths: Some(CallPathSummary {
                classes: vec![
                    class("work", work, functions),
                    class("io_wait", 100, &[("read", 100)]),
                ],
                ..CallPathSummary::default()
            }),
            ..Summary::default()
        }
    }

    fn rows(c: &Comparison) -> Vec<(&str, &str, f64, Option<bool>)> {
        let rows = c.functions.iter();
        rows.map(|r| (r.kind.as_str(), r.name.as_str(), r.difference, r.changed)).collect()
    }

    #[test]
    fn functions_are_told_of_classes_that_changed() {
        let side = |hot: i64| -> Vec<Summary> {
            (0..5)
                .map(|i| run_with(&[("hot", hot + i), ("same", 500 + 10 * i), ("tiny", 1)]))
                .collect()
        };
        let c = compare(&side(1000), &side(300));
        assert_eq!(
            rows(&c),
            [("work", "hot", -700.0, Some(true)), ("work", "same", 0.0, Some(false))]
        );
        // What changed in none but one of them has no claim: nor have its functions.
        let c = compare(&side(1000), &side(1000));
        assert_eq!(rows(&c), []);
        // One run each: differences of the class that differs most, and no claim.
        let c = compare(&side(1000)[..1], &side(300)[..1]);
        assert_eq!(rows(&c), [("work", "hot", -700.0, None), ("work", "same", 0.0, None)]);
    }

    #[test]
    fn a_function_has_no_claim_that_its_class_has_not() {
        // Work moves from one function to another; the class stays.
        let side = |a: i64, b: i64| -> Vec<Summary> {
            (0..5).map(|i| run_with(&[("a", a + i), ("b", b - i)])).collect()
        };
        let c = compare(&side(600, 400), &side(400, 600));
        assert_eq!(rows(&c), []);
        // A run without samples: nothing is said of functions.
        let mut after = side(100, 400);
        after[0].call_paths = None;
        assert_eq!(rows(&compare(&side(600, 400), &after)), []);
    }

    #[test]
    fn nothing_has_an_answer() {
        assert_eq!(compare(&[], &[]).regions, []);
    }
}
