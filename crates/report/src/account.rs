//! The account as lines of the chart: what each instant of each CPU is charged to.
//!
//! A CPU's segments are a line like any other, so an area's account is the exact sum of what lies in it. Beside them
//! stands a *mix*: for equal buckets of the axis the share of each class. A level of detail keeps the class that filled
//! most of a bucket, and would draw a CPU that worked 60 % of the time as one that always did; a stacked area needs all
//! the shares.
//!
//! [`add`] makes the lines before the blocks are encoded, [`mix`] encodes the buckets of one line, and [`encode`]
//! writes the tables of classes and causes for the index.
use super::Options;
use super::columns::{Raw, Unit, column};
use super::plan::{CauseRow, Kind, Line, Plan, Rows, Segments};
use kasuri_analyze::account::{Account, CauseSummary, Class, N_CLASSES};
use kasuri_analyze::call_paths::{Piece, Whereabouts};
use kasuri_answers::account::{cause_place, cause_text, class_of};
use kasuri_answers::names::ThreadNames;
use kasuri_model::Trace;
use serde::Serialize;

/// Buckets of the mix: at most as many as a wide screen shows, fewer when there are few segments.
const MIX: std::ops::RangeInclusive<usize> = 512..=4096;

/// The segments of `account`, and a line for each CPU appended to the plan's. `rows`: the summary's, of the same account.
pub fn plan(trace: &Trace, account: &Account, rows: &[CauseSummary], plan: &mut Plan) {
    let (causes, of_cause) = causes(trace, account, rows);
    let mut all = Segments { causes, ..Segments::default() };
    for (at, &(cpu, _)) in account.segments.cpus.iter().enumerate() {
        let first = all.start.len() as u32;
        for (cause, part) in account.segments.between(at, account.from, account.to) {
            all.start.push(plan.at(part.start));
            all.end.push(plan.at(part.end));
            all.cause.push(of_cause[cause as usize]);
            let class = account.causes.get(cause as usize).map(|c| c.class);
            all.class.push(class.unwrap_or(Class::Unknown) as u8);
        }
        let rows = first..all.start.len() as u32;
        if !rows.is_empty() {
            plan.lines.push(Line {
                kind: Kind::Account,
                owner: cpu as u32,
                depth: 0,
                rows: Rows::Range(rows),
            });
        }
    }
    if !all.start.is_empty() {
        // About four segments a bucket.
        let wanted = (all.start.len() / 4).next_power_of_two();
        all.buckets = wanted.clamp(*MIX.start(), *MIX.end());
    }
    plan.segments = all;
}

/// The rows of `kasuri stat`, in its words, and the row of each of the account's causes: what lies in a part of the chart is called
/// what the headline calls it. What is in none of them has a row for its class.
fn causes(trace: &Trace, account: &Account, rows: &[CauseSummary]) -> (Vec<CauseRow>, Vec<u32>) {
    let own = (trace.threads.iter())
        .filter(|thread| trace.processes[thread.process.ix()].is_target)
        .map(|thread| (trace.strings.get(thread.name), thread.tid));
    let late = rows.iter().filter_map(|row| Some((row.thread.as_str(), row.tid?)));
    let names = ThreadNames::new(own.chain(late));
    let mut out = Vec::new();
    let mut of_cause = vec![u32::MAX; account.causes.len()];
    for row in rows {
        let threads = row.of.0.iter().map(|&cause| account.causes[cause as usize].thread);
        let mut threads = threads.filter(|thread| thread.is_some());
        let worst = threads.find(|thread| Some(trace.threads[thread.ix()].tid) == row.tid);
        row.of.0.iter().for_each(|&cause| of_cause[cause as usize] = out.len() as u32);
        out.push(CauseRow {
            class: class_of(row.class) as u8,
            text: cause_text(row, &names, false, &cause_place(row)),
            object: if row.object == 0 { String::new() } else { format!("{:#x}", row.object) },
            thread: worst.map_or(-1, |thread| thread.0 as i64),
        });
    }
    let mut of_class = [None; N_CLASSES];
    for (of, cause) in of_cause.iter_mut().zip(&account.causes).filter(|(of, _)| **of == u32::MAX) {
        *of = *of_class[cause.class as usize].get_or_insert_with(|| {
            let text = cause.class.label().into();
            out.push(CauseRow {
                class: cause.class as u8,
                text,
                object: String::new(),
                thread: -1,
            });
            out.len() as u32 - 1
        });
    }
    (out, of_cause)
}

/// Appends the mix of `line` to `out`: for each class a column of shares of each bucket, in 255ths.
pub fn mix(plan: &Plan, line: &Line, out: &mut Raw) {
    let n = plan.segments.buckets;
    let width = plan.length as f64 / n as f64;
    // One row of buckets for each class.
    let mut shares = vec![0f64; n * N_CLASSES];
    for i in 0..line.rows.len() {
        let item = plan.segments.item(line.rows.get(i));
        let last = ((item.end as f64 / width) as usize).min(n - 1);
        // A segment may lie in several buckets: each gets its part.
        for b in (item.start as f64 / width) as usize..=last {
            let (from, to) = (b as f64 * width, (b + 1) as f64 * width);
            let ns = (item.end as f64).min(to) - (item.start as f64).max(from);
            shares[item.value as usize * n + b] += ns.max(0.0) / width;
        }
    }
    for class in shares.chunks(n) {
        let byte = |share: &f64| (share * 255.0).round().clamp(0.0, 255.0) as u64;
        column(out, class.iter().map(byte));
    }
}

/// The account in the index.
#[derive(Serialize)]
pub struct AccountRow<'a> {
    /// Key, label, meaning, whether the class is useful work, and whether a sample explains some of its time.
    classes: Vec<(&'a str, &'a str, &'a str, bool, bool)>,
    causes: &'a [CauseRow],
    /// Buckets of the mix, and block and part of each line's.
    buckets: usize,
    mixes: Vec<[u32; 2]>,
    /// By class, its largest waits and what these waited for, a line each.
    waits: Vec<(u8, &'a [String])>,
}

/// The account's tables for the index; `mixes` in the order of the account's lines.
pub fn encode<'a>(
    waits: &'a [(Class, Vec<String>)],
    pieces: &[Piece],
    plan: &'a Plan,
    mixes: &[Unit],
) -> AccountRow<'a> {
    let mut has_code = [false; N_CLASSES];
    for piece in pieces {
        has_code[piece.class as usize] |= matches!(piece.at, Whereabouts::At(_));
    }
    AccountRow {
        classes: Class::ALL
            .iter()
            .map(|&c| (c.key(), c.label(), c.meaning(), c.is_useful(), has_code[c as usize]))
            .collect(),
        causes: &plan.segments.causes,
        buckets: plan.segments.buckets,
        mixes: mixes.iter().map(|unit| [unit.block, unit.part]).collect(),
        waits: waits.iter().map(|(class, lines)| (*class as u8, lines.as_slice())).collect(),
    }
}

/// Adds the account's lines, when there is one.
pub fn add(trace: &Trace, options: &Options<'_>, plan_: &mut Plan) {
    if let Some(account) = options.account.filter(|_| !trace.states.start.is_empty()) {
        plan(trace, account, options.causes, plan_);
    }
}
