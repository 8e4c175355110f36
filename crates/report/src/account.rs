//! The account as lines of the chart: what each instant of each CPU is charged to.
//!
//! A CPU's segments are a line like any other, so an area's account is the exact sum of what lies in it. Beside them
//! stands a *mix*: for equal buckets of the axis the share of each class. A level of detail keeps the class that filled
//! most of a bucket, and would draw a CPU that worked 60 % of the time as one that always did; a stacked area needs all
//! the shares.
//!
//! [`add`] makes the lines before the blocks are encoded, [`mix`] encodes the buckets of one line, and [`encode`]
//! writes the tables of classes and causes for the index.
use super::columns::{Raw, Unit, column};
use super::plan::{Kind, Line, Plan, Rows, Segments};
use kasuri_analyze::account::{Account, Cause, Class, N_CLASSES};
use kasuri_model::Trace;
use serde::Serialize;

/// Buckets of the mix: at most as many as a wide screen shows, fewer when there are few segments.
const MIX: std::ops::RangeInclusive<usize> = 512..=4096;

/// The segments of `account`, and a line for each CPU appended to the plan's.
pub fn plan(account: &Account, plan: &mut Plan) {
    let mut all = Segments::default();
    for (at, &(cpu, _)) in account.segments.cpus.iter().enumerate() {
        let first = all.start.len() as u32;
        for (cause, part) in account.segments.between(at, account.from, account.to) {
            all.start.push(plan.at(part.start));
            all.end.push(plan.at(part.end));
            all.cause.push(cause);
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
    /// Key, label, meaning, and whether the class is useful work.
    classes: Vec<(&'a str, &'a str, &'a str, bool)>,
    causes: Vec<CauseRow<'a>>,
    /// Buckets of the mix, and block and part of each line's.
    buckets: usize,
    mixes: Vec<[u32; 2]>,
    /// By class, its largest waits and what these waited for, a line each.
    waits: Vec<(u8, &'a [String])>,
}

/// A cause; numbers are positions in the index's lists, -1 for none.
#[derive(Serialize)]
struct CauseRow<'a> {
    class: u8,
    note: &'a str,
    on_cpu: bool,
    name: i64,
    object: String,
    process: i64,
    thread: i64,
    code: i64,
}

/// The account's tables for the index; `mixes` in the order of the account's lines.
pub fn encode<'a>(
    account: &Account,
    waits: &'a [(Class, Vec<String>)],
    plan: &Plan,
    mixes: &[Unit],
) -> AccountRow<'a> {
    let link = |ix: u32| if ix == u32::MAX { -1 } else { ix as i64 };
    let cause = |c: &Cause| CauseRow {
        class: c.class as u8,
        note: c.note.key(),
        on_cpu: c.on_cpu,
        name: link(c.name.0),
        object: if c.object == 0 { String::new() } else { format!("{:#x}", c.object) },
        process: link(c.process.0),
        thread: link(c.thread.0),
        code: link(c.code.0),
    };
    AccountRow {
        classes: Class::ALL
            .iter()
            .map(|c| (c.key(), c.label(), c.meaning(), c.is_useful()))
            .collect(),
        causes: account.causes.iter().map(cause).collect(),
        buckets: plan.segments.buckets,
        mixes: mixes.iter().map(|unit| [unit.block, unit.part]).collect(),
        waits: waits.iter().map(|(class, lines)| (*class as u8, lines.as_slice())).collect(),
    }
}

/// Adds the account's lines, when there is one.
pub fn add(trace: &Trace, account: Option<&Account>, plan_: &mut Plan) {
    if let Some(account) = account.filter(|_| !trace.states.start.is_empty()) {
        plan(account, plan_);
    }
}
