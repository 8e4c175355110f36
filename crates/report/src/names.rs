//! Statistics of the slices of each name and kind: how many there are, how long they took, how their durations are
//! distributed, and which are the longest.
//!
//! The histogram is stored, not computed by the viewer: for ten million slices the page would have to decode all of
//! them before it could answer a click. Bins are an octave cut into eight, so a bin's edges are whole ns and 12.5 %
//! apart at most; a name takes a few dozen of them whatever its number of slices.
use super::plan::{Kind, Plan};
use kasuri_model::{SliceKind, Trace};
use serde::Serialize;
use std::collections::BTreeMap;

/// The longest slices of a name that are stored: outliers are one click away.
const TOP: usize = 12;
/// Names with fewer slices keep their bins in a list; more than this in a table.
const DENSE: u32 = 32;
/// Bins of 64-bit durations.
const BINS: usize = 8 * 64;

/// The bin of a duration: below 8 ns one for each ns, then the octave and the three bits after the highest one.
/// `viewer/src/data/histogram.ts` has the same rule.
pub fn bin(ns: u64) -> u16 {
    if ns < 8 {
        return ns as u16;
    }
    let octave = 63 - ns.leading_zeros();
    (8 * (octave - 2) + (ns >> (octave - 3) & 7) as u32) as u16
}

/// A name's slices.
#[derive(Serialize)]
pub struct NameRow {
    name: u32,
    /// A name that slices of several kinds have, such as a lock's waits and holds, has a row for each: their
    /// durations have nothing in common.
    kind: u8,
    count: u64,
    total: i64,
    max: i64,
    line: usize,
    item: usize,
    /// Begin of the longest slice.
    start: u64,
    /// Bin and count, ascending.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bins: Vec<u32>,
    /// Line, item, start and ns of the longest, longest first; absent for a single slice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    top: Vec<u64>,
}

/// Kinds of slices; an array by kind has this length.
const KINDS: usize = SliceKind::TaskRun as usize + 1;

/// Slices of one name and one kind.
#[derive(Default)]
struct Sum {
    name: u32,
    kind: u8,
    count: u64,
    total: i64,
    /// Row of the dense table, or none.
    dense: Option<u32>,
    few: Vec<u16>,
    top: Vec<(u64, u32)>,
}

/// A row for each name and kind that slices have.
pub fn rows(trace: &Trace, plan: &Plan) -> Vec<NameRow> {
    let slices = &trace.slices;
    let (sums, table) = sums(trace, plan);
    let lines: BTreeMap<(u32, u32), usize> = plan
        .lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.kind == Kind::Slice)
        .map(|(i, line)| ((line.owner, line.depth), i))
        .collect();
    // Line and item of a row of the model's slices.
    let place = |row: u32| {
        let at = row as usize;
        let owner = (slices.thread[at].0, slices.depth[at] as u32);
        let &line = lines.get(&owner)?;
        let rows = &plan.lines[line].rows;
        Some((line, super::plan::partition(rows.len(), |i| rows.get(i) < at)))
    };
    let mut names = Vec::new();
    for sum in &sums {
        let Some(&(max, longest)) = sum.top.first() else {
            continue;
        };
        let Some((line, item)) = place(longest) else {
            continue;
        };
        let top = sum.top.iter().filter(|_| sum.count > 1).filter_map(|&(ns, row)| {
            let (line, item) = place(row)?;
            Some([line as u64, item as u64, plan.at(slices.start[row as usize]), ns])
        });
        names.push(NameRow {
            name: sum.name,
            kind: sum.kind,
            count: sum.count,
            total: sum.total,
            max: max as i64,
            line,
            item,
            start: plan.at(slices.start[longest as usize]),
            bins: bins(sum, &table),
            top: top.flatten().collect(),
        });
    }
    names
}

/// The sums of each name and kind, in that order, and for those with many slices the counts of their bins.
fn sums(trace: &Trace, plan: &Plan) -> (Vec<Sum>, Vec<[u32; BINS]>) {
    let slices = &trace.slices;
    let mut sums: Vec<Sum> = Vec::new();
    // The position of each name and kind in `sums`; most pairs do not exist.
    let mut at = vec![[u32::MAX; KINDS]; trace.strings.len()];
    let mut table: Vec<[u32; BINS]> = Vec::new();
    for (row, name) in slices.name.iter().enumerate() {
        let kind = slices.kind[row] as u8;
        let Some(at) = at.get_mut(name.ix()).and_then(|of| of.get_mut(kind as usize)) else {
            continue;
        };
        if *at == u32::MAX {
            *at = sums.len() as u32;
            let dense = plan.name_count[name.ix()] >= DENSE;
            sums.push(Sum {
                name: name.0,
                kind,
                dense: dense.then_some(table.len() as u32),
                ..Sum::default()
            });
            if dense {
                table.push([0; BINS]);
            }
        }
        let sum = &mut sums[*at as usize];
        let ns = plan.at(slices.end[row]).saturating_sub(plan.at(slices.start[row]));
        sum.count += 1;
        sum.total += ns as i64;
        match sum.dense {
            Some(at) => table[at as usize][bin(ns) as usize] += 1,
            None => sum.few.push(bin(ns)),
        }
        if sum.top.len() < TOP || sum.top.last().is_some_and(|least| ns > least.0) {
            let at = sum.top.partition_point(|&(other, _)| other >= ns);
            sum.top.insert(at, (ns, row as u32));
            sum.top.truncate(TOP);
        }
    }
    sums.sort_unstable_by_key(|sum| (sum.name, sum.kind));
    (sums, table)
}

/// Bins and counts in turns, ascending; empty for a single slice.
fn bins(sum: &Sum, table: &[[u32; BINS]]) -> Vec<u32> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    match sum.dense {
        Some(at) => {
            let row = table[at as usize].iter().enumerate();
            counts.extend(row.filter(|&(_, &n)| n > 0).map(|(b, &n)| (b as u32, n)));
        }
        None if sum.few.len() > 1 => {
            sum.few.iter().for_each(|&b| *counts.entry(b as u32).or_default() += 1)
        }
        None => {}
    }
    counts.into_iter().flat_map(|(b, n)| [b, n]).collect()
}

#[cfg(test)]
mod tests {
    use super::bin;

    #[test]
    fn a_bin_is_an_eighth_of_an_octave() {
        let edges: Vec<u16> = (0..16).map(bin).collect();
        assert_eq!(edges, (0..16).collect::<Vec<u16>>());
        assert_eq!([bin(16), bin(17), bin(18), bin(31), bin(32)], [16, 16, 17, 23, 24]);
        for ns in [7u64, 8, 1000, 123_456_789, u64::MAX >> 1, u64::MAX] {
            assert!(bin(ns) >= bin(ns - 1), "{ns}");
            assert!((bin(ns) as usize) < super::BINS);
        }
    }
}
