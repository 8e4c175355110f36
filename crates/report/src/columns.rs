//! Items of one line as columns of byte planes.
//!
//! A unit is: item count (u32), start of the first item (u64), then columns: gaps, lengths, and those of the line's
//! kind, in the order of [`encode`]. All numbers are little-endian. A column is one byte `width`; when `width` is 0 the
//! column is constant and its value follows (u64), else `width` planes of one byte per item follow, the least
//! significant first. For example, the values 1, 258 and 3 are
//!
//! ```text
//! 02  01 02 03  00 01 00      width, low bytes, high bytes
//! ```
//!
//! The widths are the smallest that hold the unit's values, so a long gap costs only its own unit some planes of nearly
//! all zeros, which deflate to nothing. Byte planes beat varints and plain u32 here: 4.1 bytes a slice against 4.2-5.4
//! measured. The viewer decodes them in viewer/src/data.
use super::plan::{Kind, Line, Plan};
use kasuri_base::quick::Numbers;
use kasuri_model::{ArgValue, Trace};

/// Items in one unit. Larger deflates little better and costs the viewer more time for the first item wanted.
pub const UNIT_ITEMS: usize = 16_384;

/// The place of a unit in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Number of its block.
    pub block: u32,
    /// Number in the block, which begins with the offset of each.
    pub part: u32,
    /// Items in it.
    pub items: u32,
    /// Start of the first item and end of the last, ns on the file's axis.
    pub from: u64,
    /// See `from`.
    pub to: u64,
}

/// Distinct lock and wait objects: the file stores 1 + their number, 0 is none.
#[derive(Clone, Debug, Default)]
pub struct Objects(Numbers<u64>);

impl Objects {
    /// Numbers the objects of `trace` in order of appearance.
    pub fn of(trace: &Trace) -> Objects {
        let mut objects = Objects::default();
        for &address in trace.slices.object.iter().filter(|&&address| address != 0) {
            objects.0.number(address);
        }
        objects
    }

    /// Addresses in order of their number.
    pub fn addresses(&self) -> &[u64] {
        self.0.keys()
    }

    /// The stored number of an address.
    fn get(&self, address: u64) -> u64 {
        if address == 0 { 0 } else { self.0.get(&address).map_or(0, |n| u64::from(n) + 1) }
    }
}

/// Appends items `from..to` of `line` to `out`; returns how many items had to be cut because they overlapped.
pub fn encode(
    trace: &Trace,
    plan: &Plan,
    objects: &Objects,
    line: &Line,
    from: usize,
    to: usize,
    out: &mut Raw,
) -> u64 {
    out.bytes.extend_from_slice(&((to - from) as u32).to_le_bytes());
    let clamped = times(trace, plan, line, from, to, out);
    let rows = || (from..to).map(|i| line.rows.get(i));
    match line.kind {
        Kind::Cpu => {
            column(out, rows().map(|r| trace.occupancy.thread[r].0.wrapping_add(1) as u64))
        }
        Kind::State => {
            column(out, rows().map(|r| trace.states.state[r] as u64));
            column(out, rows().map(|r| trace.states.cpu[r].wrapping_add(1) as u64));
            column(out, rows().map(|r| trace.states.by[r].0.wrapping_add(1) as u64));
        }
        Kind::Slice => {
            let s = &trace.slices;
            column(out, rows().map(|r| s.name[r].0 as u64));
            column(out, rows().map(|r| s.kind[r] as u64 | ((s.open[r] & 15) as u64) << 4));
            column(out, rows().map(|r| s.task[r].0.wrapping_add(1) as u64));
            column(out, rows().map(|r| objects.get(s.object[r])));
            arguments(trace, line, from, to, out);
        }
        Kind::Syscall | Kind::Irq | Kind::Softirq => {
            let s = &trace.kernel_spans;
            column(out, rows().map(|r| s.name[r].0 as u64));
            column(out, rows().map(|r| s.thread[r].0.wrapping_add(1) as u64));
        }
        Kind::Instant => {
            column(out, rows().map(|r| trace.instants.name[r].0 as u64));
            arguments(trace, line, from, to, out);
        }
        Kind::Lock => column(out, rows().map(|r| trace.slices.thread[r].0.wrapping_add(1) as u64)),
        Kind::Account => {
            let s = &plan.segments;
            column(out, rows().map(|r| s.class[r] as u64));
            column(out, rows().map(|r| s.cause[r] as u64));
        }
        Kind::Counter => {
            let counter = &trace.counters[line.owner as usize];
            column(out, rows().map(|r| counter.value[r].to_bits()));
        }
    }
    clamped
}

/// Start of the first item, then two columns: gap since the end of the item before, and length.
fn times(trace: &Trace, plan: &Plan, line: &Line, from: usize, to: usize, out: &mut Raw) -> u64 {
    let first = plan.item(trace, line, from).start;
    out.bytes.extend_from_slice(&first.to_le_bytes());
    let (mut gaps, mut lengths) = (Vec::with_capacity(to - from), Vec::with_capacity(to - from));
    let (mut end, mut clamped) = (first, 0);
    for i in from..to {
        let item = plan.item(trace, line, i);
        let start = item.start.max(end);
        clamped += u64::from(start != item.start);
        gaps.push(start - end);
        end = item.end.max(start);
        lengths.push(end - start);
    }
    column(out, gaps.iter().copied());
    column(out, lengths.iter().copied());
    clamped
}

/// Arguments of the unit's slices or instants: count (u32), then columns item, name, type (0 i64, 1 u64, 2 f64, 3
/// string), value.
fn arguments(trace: &Trace, line: &Line, from: usize, to: usize, out: &mut Raw) {
    let args = &trace.args;
    let of_instants = line.kind == Kind::Instant;
    // Arguments of slices come first in the table.
    let after_slices = args.slice.partition_point(|s| s.is_some());
    let (begin, end) = match of_instants {
        true if args.instant.len() == args.slice.len() => (after_slices, args.slice.len()),
        true => (0, 0),
        false => (0, after_slices),
    };
    let owner = |a: usize| {
        if of_instants { args.instant[a].0 } else { args.slice[a].0 }
    };
    let mut found: Vec<(u64, usize)> = Vec::new();
    let first = line.rows.get(from) as u32;
    let (mut a, mut high) = (begin, end);
    // The first argument of the unit's first row or of a later one, by bisection; rows ascend from there.
    while a < high {
        let middle = (a + high) / 2;
        if owner(middle) < first { a = middle + 1 } else { high = middle }
    }
    for i in from..to {
        let row = line.rows.get(i) as u32;
        while a < end && owner(a) < row {
            a += 1;
        }
        while a < end && owner(a) == row {
            found.push(((i - from) as u64, a));
            a += 1;
        }
    }
    out.bytes.extend_from_slice(&(found.len() as u32).to_le_bytes());
    if found.is_empty() {
        return;
    }
    let value = |a: usize| match args.value[a] {
        ArgValue::Int(v) => (0, v as u64),
        ArgValue::Uint(v) => (1, v),
        ArgValue::Float(v) => (2, v.to_bits()),
        ArgValue::Str(v) => (3, v.0 as u64),
    };
    column(out, found.iter().map(|&(item, _)| item));
    column(out, found.iter().map(|&(_, a)| args.name[a].0 as u64));
    column(out, found.iter().map(|&(_, a)| value(a).0));
    column(out, found.iter().map(|&(_, a)| value(a).1));
}

/// Bytes of a block before they are deflated, and where to cut them.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where bytes of another kind begin. Each part gets Huffman codes of its own: a plane of random low bytes and
    /// one of nearly all zeros would share codes that suit neither, 6 % more bytes.
    pub cuts: Vec<usize>,
}

impl Raw {
    /// Empties it.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.cuts.clear();
    }
}

/// Planes shorter than this are not worth Huffman codes of their own.
const CUT_BYTES: usize = 2048;

/// Appends one column. `values` is walked twice: for the width, and for the bytes.
pub fn column(out: &mut Raw, values: impl Iterator<Item = u64> + Clone) {
    let mut all = 0u64;
    let mut first = None;
    let mut constant = true;
    let mut n = 0;
    for value in values.clone() {
        all |= value;
        constant &= *first.get_or_insert(value) == value;
        n += 1;
    }
    if constant {
        out.bytes.push(0);
        out.bytes.extend_from_slice(&first.unwrap_or(0).to_le_bytes());
        return;
    }
    let width = (64 - all.leading_zeros()).div_ceil(8) as usize;
    out.bytes.push(width as u8);
    let at = out.bytes.len();
    out.bytes.resize(at + width * n, 0);
    let planes = &mut out.bytes[at..];
    for (i, value) in values.enumerate() {
        let bytes = value.to_le_bytes();
        for (plane, byte) in bytes[..width].iter().enumerate() {
            planes[plane * n + i] = *byte;
        }
    }
    if n >= CUT_BYTES {
        out.cuts.extend((0..=width).map(|plane| at + plane * n));
    }
}
