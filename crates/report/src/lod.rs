//! Levels of detail: what a line looks like when a pixel is wider than its items.
//!
//! The axis is cut into equal *buckets*. A bucket stores the value that filled most of it, how much of it was filled,
//! whether it holds more than one item, and one value that must not be hidden although another filled more
//! ([`Level::note`]): a rare name, the longest slice of a name, a preemption. [`build`] makes the finest level in one
//! pass over the line's items; [`Level::halve`] makes each coarser one. Every other level is stored ([`stored`]), in tiles of
//! [`OVERVIEW`] buckets, of which the viewer reads those in view; it halves them for the levels between.
//!
//! States have no gaps, so "filled" means there *not blocked*: a thread that ran for a hundredth of the bucket shows as
//! running, faintly, never as asleep. Uninterruptible sleep counts as filled, because readers look for it.
use super::columns::{Raw, column};
use super::plan::{Item, Kind, Line, Plan};
use kasuri_model::{ThreadState, Trace};
use std::ops::Range;

/// Lines with at most this many items have no levels: they are always drawn from their items.
pub const RAW_ITEMS: usize = 4096;
/// Buckets of a tile, and so of the coarsest stored level, the overview that stands before the viewer's code.
pub const OVERVIEW: usize = 2048;
/// Most buckets of a level, reached at about a million items: more items share them.
const FINEST: usize = 1 << 18;
/// A name that has at most this many slices in the recording is never merged away.
const RARE: u32 = 8;

/// More than one item in the bucket.
pub const MERGED: u8 = 1;
/// More than one value in the bucket must stay visible; [`Level::note`] is one of them.
pub const SEVERAL: u8 = 2;

/// One level of one line, a column each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Value that filled most of the bucket.
    pub value: Vec<u32>,
    /// Share of the bucket that was filled, 1..=255; 0: nothing at all.
    pub cover: Vec<u8>,
    /// [`MERGED`], [`SEVERAL`].
    pub flags: Vec<u8>,
    /// 1 + a value that must stay visible, whatever filled most; 0: none. It may be the one that filled most: a coarser
    /// level may show another.
    pub note: Vec<u32>,
}

/// Number of buckets of the finest level for `items` items; 0: none.
pub fn buckets(items: usize) -> usize {
    if items <= RAW_ITEMS { 0 } else { (items / 8).next_power_of_two().clamp(OVERVIEW, FINEST) }
}

/// Buckets of the levels that are stored of a line whose finest has `finest`: each a quarter of the next, and the overview.
/// Half of each is made from it when it is drawn; all of them would be twice the bytes, these are a third more than the finest.
pub fn stored(finest: usize) -> Vec<usize> {
    let mut levels = vec![finest];
    while let Some(&n) = levels.last().filter(|&&n| n > OVERVIEW) {
        levels.push((n / 4).max(OVERVIEW));
    }
    levels.reverse();
    levels
}

/// For each name, its longest slice: (ns, row of the model's slices).
pub fn longest(trace: &Trace, plan: &Plan) -> Vec<(i64, u32)> {
    let mut longest = vec![(-1, 0); trace.strings.len()];
    let slices = &trace.slices;
    for (row, name) in slices.name.iter().enumerate() {
        let ns = plan.at(slices.end[row]) as i64 - plan.at(slices.start[row]) as i64;
        match longest.get_mut(name.ix()) {
            Some(best) if ns > best.0 => *best = (ns, row as u32),
            _ => {}
        }
    }
    longest
}

/// Fills the buckets of a level from left to right.
struct Builder<'a> {
    level: Level,
    /// ns of each value in the open bucket, and which values those are.
    share: &'a mut Vec<u64>,
    touched: Vec<u32>,
    /// The longest blocked state in the open bucket: ns, value. Shown only when nothing filled the bucket.
    blocked: (u64, u32),
    bucket: usize,
    /// Items in the open bucket.
    merged: u32,
    /// Up to two values that must stay visible, + 1.
    notes: [u32; 2],
    kind: Kind,
    scale: f64,
}

impl Builder<'_> {
    /// The begin of a bucket, ns.
    fn edge(&self, bucket: usize) -> u64 {
        (bucket as f64 * self.scale) as u64
    }

    /// Counts a part of an item in the open bucket. An item of no length counts as 1 ns, so that it is seen.
    fn add(&mut self, ns: u64, value: u32) {
        self.merged += 1;
        if self.kind == Kind::State && blocked(value) {
            if ns >= self.blocked.0 {
                self.blocked = (ns, value);
            }
            return;
        }
        let at = value as usize;
        if at >= self.share.len() {
            self.share.resize(at + 1, 0);
        }
        if self.share[at] == 0 {
            self.touched.push(value);
        }
        self.share[at] += ns.max(1);
    }

    /// Stores the open bucket and clears the sums.
    fn close(&mut self) {
        if self.merged == 0 {
            return;
        }
        let b = self.bucket;
        let width = (self.edge(b + 1) - self.edge(b)).max(1);
        let (mut best, mut value, mut sum) = (0, 0, 0);
        for &v in &self.touched {
            let ns = std::mem::take(&mut self.share[v as usize]);
            sum += ns;
            if ns > best {
                (best, value) = (ns, v);
            }
        }
        if self.touched.is_empty() {
            (value, sum) = (self.blocked.1, width);
        }
        self.level.value[b] = value;
        self.level.cover[b] = shade(sum.min(width) as f64 / width as f64);
        let [one, other] = self.notes;
        let merged = if self.merged > 1 { MERGED } else { 0 };
        let several = if other != 0 { SEVERAL } else { 0 };
        self.level.flags[b] = merged | several;
        self.level.note[b] = if one == value + 1 && other != 0 { other } else { one };
        self.touched.clear();
        (self.blocked, self.merged, self.notes) = ((0, 0), 0, [0, 0]);
    }

    /// Adds an item to all the buckets that it touches; `last` is the last bucket of the level.
    fn item(&mut self, item: Item, noted: bool, last: usize) {
        let mut b = ((item.start as f64 / self.scale) as usize).min(last);
        // The division may round up to the next bucket's edge, or down below this one's.
        while b > 0 && self.edge(b) > item.start {
            b -= 1;
        }
        while b < last && self.edge(b + 1) <= item.start {
            b += 1;
        }
        let mut at = item.start;
        loop {
            if b != self.bucket {
                self.close();
                self.bucket = b;
            }
            let edge = if b == last { u64::MAX } else { self.edge(b + 1) };
            self.add(item.end.min(edge) - at, item.value);
            if noted {
                match &mut self.notes {
                    [one, _] if *one == 0 || *one == item.value + 1 => *one = item.value + 1,
                    [_, other] => *other = item.value + 1,
                }
            }
            if item.end <= edge || b == last {
                return;
            }
            at = edge;
            b += 1;
        }
    }
}

/// 1..=255 in steps of 8: the eye does not tell more shades apart, and 3 bits a bucket are 2 % of a file.
fn shade(filled: f64) -> u8 {
    ((filled * 32.0).round() * 8.0).clamp(1.0, 255.0) as u8
}

/// Whether a thread in this state counts as doing nothing.
fn blocked(state: u32) -> bool {
    let shows = [
        ThreadState::Running as u32,
        ThreadState::RunnableWoken as u32,
        ThreadState::RunnablePreempted as u32,
        ThreadState::DiskSleep as u32,
    ];
    !shows.contains(&state)
}

/// The finest level of `line`, `n` buckets. `share` is scratch that may be reused between calls.
pub fn build(
    trace: &Trace,
    plan: &Plan,
    longest: &[(i64, u32)],
    line: &Line,
    n: usize,
    share: &mut Vec<u64>,
) -> Level {
    let level = Level { value: vec![0; n], cover: vec![0; n], flags: vec![0; n], note: vec![0; n] };
    let mut builder = Builder {
        level,
        share,
        touched: Vec::new(),
        blocked: (0, 0),
        bucket: 0,
        merged: 0,
        notes: [0, 0],
        kind: line.kind,
        scale: plan.length as f64 / n as f64,
    };
    for i in 0..line.rows.len() {
        let item = plan.item(trace, line, i);
        builder.item(item, noted(plan, longest, line, i, item.value), n - 1);
    }
    builder.close();
    builder.level
}

/// Whether item `i` of a line must stay visible, see [`Level::note`].
fn noted(plan: &Plan, longest: &[(i64, u32)], line: &Line, i: usize, value: u32) -> bool {
    match line.kind {
        Kind::State => value == ThreadState::RunnablePreempted as u32,
        Kind::Slice => {
            let name = (value >> 4) as usize;
            plan.name_count.get(name).is_some_and(|&n| n <= RARE)
                || longest.get(name).is_some_and(|best| best.1 as usize == line.rows.get(i))
        }
        _ => false,
    }
}

impl Level {
    /// Half as many buckets, of a line of `kind`. The viewer has the same rule (viewer/src/data/lod.ts).
    pub fn halve(&self, kind: Kind) -> Level {
        let n = self.value.len() / 2;
        let mut half =
            Level { value: vec![0; n], cover: vec![0; n], flags: vec![0; n], note: vec![0; n] };
        for i in 0..n {
            let (a, b) = (2 * i, 2 * i + 1);
            let (fa, fb) = (self.filled(a, kind), self.filled(b, kind));
            let pick = if fb > fa || (fa == fb && self.cover[b] > self.cover[a]) { b } else { a };
            half.value[i] = self.value[pick];
            half.cover[i] =
                if fa + fb > 0 { (fa + fb).div_ceil(2) as u8 } else { self.cover[pick] };
            let differ = self.cover[a] > 0 && self.cover[b] > 0 && self.value[a] != self.value[b];
            let (na, nb) = (self.note[a], self.note[b]);
            let shown = half.value[i] + 1;
            half.note[i] = if na != 0 && (na != shown || nb == 0) { na } else { nb };
            let several = na != 0 && nb != 0 && na != nb;
            half.flags[i] = self.flags[a]
                | self.flags[b]
                | if differ { MERGED } else { 0 }
                | if several { SEVERAL } else { 0 };
        }
        half
    }

    /// Cover, but nothing where a thread was only blocked: what a thread did wins over what it did not.
    fn filled(&self, i: usize, kind: Kind) -> u16 {
        if kind == Kind::State && blocked(self.value[i]) { 0 } else { self.cover[i] as u16 }
    }

    /// Appends a range of the level as columns: value, cover, flags, note.
    pub fn encode(&self, range: Range<usize>, out: &mut Raw) {
        column(out, self.value[range.clone()].iter().map(|&v| v as u64));
        column(out, self.cover[range.clone()].iter().map(|&v| v as u64));
        column(out, self.flags[range.clone()].iter().map(|&v| v as u64));
        column(out, self.note[range].iter().map(|&v| v as u64));
    }
}
