//! The account of the time in which an annotation was open: what all CPUs did while at least one thread was inside.
//!
//! Each name's slices on all threads are merged into intervals that do not overlap, and the account of those is the sum over
//! the segments that they cut. Nested and recursive slices of one name count once.
use super::class::{ClassSum, class_sums};
use super::{Account, Class, Sums};
use crate::AnnotationSummary;
use crate::cut::Cut;
use kasuri_model::{SliceKind, StrIx, Time};
use schemars::JsonSchema;
use serde::Serialize;

/// The account of the time in which an annotation was open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RegionAccount {
    /// The annotation's name.
    pub name: String,
    /// Place of the annotation, when known.
    pub place: Option<String>,
    /// Time for which at least one thread was inside.
    pub wall_ns: i64,
    /// CPUs that worked meanwhile, on average.
    pub got_cpus: f64,
    /// By class; the sum is `wall_ns * n_cpus`.
    pub classes: Vec<ClassSum>,
}

/// Regions that are shorter on average are steps of something, not phases: what the CPUs did in all of them together
/// answers no question, and there may be millions.
const LASTING_NS: f64 = 50_000.0;
/// Most regions, those with the most time.
const MAX_REGIONS: usize = 20;

/// Time of one region: intervals that neither touch nor overlap, ascending.
type Union = Vec<(Time, Time)>;

/// `annotations`: most time first.
pub(super) fn regions(
    cut: &Cut<'_>,
    account: &Account,
    annotations: &[AnnotationSummary],
) -> Vec<RegionAccount> {
    let chosen: Vec<&AnnotationSummary> = annotations
        .iter()
        .filter(|a| a.kind == "work" && a.mean_ns >= LASTING_NS)
        .take(MAX_REGIONS)
        .collect();
    let mut of_name = vec![usize::MAX; cut.trace.strings.len()];
    for (ix, name) in cut.trace.strings.iter().enumerate() {
        if let Some(at) = chosen.iter().position(|a| a.name == name) {
            of_name[ix] = at;
        }
    }
    let mut out: Vec<RegionAccount> = chosen
        .iter()
        .zip(unions(cut, &of_name, chosen.len()))
        .map(|(a, union)| {
            let wall_ns: i64 = union.iter().map(|(from, to)| (*to - *from).ns()).sum();
            let sums = inside(account, &union);
            let useful = sums[Class::Work as usize] + sums[Class::SystemCalls as usize];
            RegionAccount {
                name: a.name.clone(),
                place: a.place.clone(),
                wall_ns,
                got_cpus: useful as f64 / wall_ns.max(1) as f64,
                classes: class_sums(&sums, wall_ns),
            }
        })
        .filter(|row| row.wall_ns > 0)
        .collect();
    out.sort_by(|a, b| (b.wall_ns, &a.name).cmp(&(a.wall_ns, &b.name)));
    out
}

fn unions(cut: &Cut<'_>, of_name: &[usize], n: usize) -> Vec<Union> {
    let s = &cut.trace.slices;
    let mut unions: Vec<Union> = vec![Vec::new(); n];
    if n == 0 {
        return unions;
    }
    for row in 0..s.start.len() {
        let at = |name: StrIx| of_name.get(name.ix()).copied().unwrap_or(usize::MAX);
        if s.kind[row] != SliceKind::Work || at(s.name[row]) >= n || !cut.is_target(s.thread[row]) {
            continue;
        }
        let (from, to) = (s.start[row].max(cut.from), s.end[row].min(cut.to));
        if to > from {
            unions[at(s.name[row])].push((from, to));
        }
    }
    for union in &mut unions {
        union.sort_unstable();
        let mut kept = 0;
        for at in 0..union.len() {
            let (from, to) = union[at];
            if kept > 0 && union[kept - 1].1 >= from {
                union[kept - 1].1 = union[kept - 1].1.max(to);
            } else {
                union[kept] = (from, to);
                kept += 1;
            }
        }
        union.truncate(kept);
    }
    unions
}

fn inside(account: &Account, union: &Union) -> Sums {
    let mut sums = Sums::default();
    let (Some(first), Some(last)) = (union.first(), union.last()) else {
        return sums;
    };
    for cpu in 0..account.n_cpus() {
        let mut next = 0;
        for (cause, part) in account.segments.between(cpu, first.0, last.1) {
            let class = account.causes[cause as usize].class as usize;
            while union.get(next).is_some_and(|u| u.1 <= part.start) {
                next += 1;
            }
            let mut at = next;
            while let Some(&(from, to)) = union.get(at).filter(|u| u.0 < part.end) {
                sums[class] += (to.min(part.end) - from.max(part.start)).ns();
                at += 1;
            }
            next = at.saturating_sub(1).max(next);
        }
    }
    sums
}
