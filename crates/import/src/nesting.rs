//! Makes the annotations of one thread of Chrome JSON, or of a track of Perfetto's that has complete events or two writers.
//!
//! Rows are collected in the order of the file, and sorted by time at the end. First each `E` finds its `B` ([`Ends`]), for
//! which complete events (`X`) do not count; then the end of every slice is known, and a stack of open slices puts all
//! ends in their places. The model needs slices that nest, so a slice that would outlive the slice around it is cut there, and
//! counted in [`Oddities`].
use crate::annotation_log::AnnotationLog;
use crate::category::{Category, argument, event};
use kasuri_base::annotation::Kind;
use kasuri_model::input::Annotation;
use kasuri_model::{ArgValue, StrIx, Time};

/// The effect of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Begin,
    End,
    /// A complete event, with its end in ns; `i64::MAX`: it never ends.
    Complete(i64),
    Instant,
    /// A critical section of Kasuri's own export, which need not nest in slices.
    HoldBegin,
    HoldEnd,
}

/// One event; `time` is in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub time: i64,
    pub what: What,
    pub category: Category,
    pub name: StrIx,
    pub object: u64,
    /// Its arguments in [`Thread::args`]: index of the first, and number.
    pub args: (u32, u16),
}

/// A thread's events.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub name: StrIx,
    /// Time of the earliest end of an arrow.
    pub first_arrow: Option<i64>,
    pub rows: Vec<Row>,
    pub args: Vec<(StrIx, ArgValue)>,
}

/// What the slices of a file have that they should not, in numbers of slices or ends.
#[derive(Debug, Default)]
pub(crate) struct Oddities {
    /// Cut, because they overlap another one without being inside it.
    pub crossings: u64,
    /// Begun and never ended.
    pub endless: u64,
    /// Ends without a begin.
    pub unbegun: u64,
    /// Inside of [`MAX_OPEN`] others, and therefore not drawn.
    pub too_deep: u64,
}

impl Oddities {
    /// What is to be said about them.
    pub fn told(&self) -> impl Iterator<Item = String> {
        [
            (
                self.crossings,
                "slices overlapped another of their thread without being inside it: they are cut at its end".to_owned(),
            ),
            (
                self.endless,
                "slices begin and never end: they are drawn to the end of the slice around them, or of the trace"
                    .to_owned(),
            ),
            (
                self.unbegun,
                "ends of slices have no begin: those with no slice around them are drawn from the start of the trace"
                    .to_owned(),
            ),
            (
                self.too_deep,
                format!("slices are inside of {MAX_OPEN} others: they are left out"),
            ),
        ]
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!("{n} {what}"))
    }
}

/// Open slices of a thread at one time; what begins inside is left out. The model's own limit is a little higher.
const MAX_OPEN: usize = 4000;
/// So many open slices are searched for the one that the name of an end selects.
const SEARCHED: usize = 256;

/// [`Ends::of`] of a row that has no partner.
const NONE: u32 = u32::MAX;

/// Which `E` ends which `B`.
struct Ends {
    /// For each row: that of a `B`'s end, that of an `E`'s begin; [`NONE`] for all others.
    of: Vec<u32>,
}

impl Ends {
    /// Joins the begins and ends of rows in order of time: an end belongs to the begin before it that is still open.
    fn find(rows: &[Row]) -> Ends {
        let mut of = vec![NONE; rows.len()];
        let mut begun: Vec<u32> = Vec::new();
        for (ix, row) in rows.iter().enumerate() {
            match row.what {
                What::Begin => begun.push(ix as u32),
                What::End => {
                    // A name selects the slice that ends, if ends of inner slices are missing.
                    let searched = &begun[begun.len().saturating_sub(SEARCHED)..];
                    let named = (searched.iter())
                        .rev()
                        .position(|&b| row.name.is_some() && rows[b as usize].name == row.name);
                    begun.truncate(begun.len() - named.unwrap_or(0));
                    if let Some(begin) = begun.pop() {
                        (of[ix], of[begin as usize]) = (begin, ix as u32);
                    }
                }
                _ => {}
            }
        }
        Ends { of }
    }

    /// The row at the other end; none: it has no other end.
    fn partner(&self, ix: usize) -> Option<usize> {
        Some(self.of[ix]).filter(|&ix| ix != NONE).map(|ix| ix as usize)
    }

    /// When the slice that this row begins ends; none: never, or it begins none.
    fn end(&self, rows: &[Row], ix: usize) -> Option<i64> {
        match rows[ix].what {
            What::Complete(end) => Some(end).filter(|&end| end < i64::MAX),
            What::Begin => self.partner(ix).map(|end| rows[end].time),
            _ => None,
        }
    }
}

/// An open slice.
struct Open {
    /// Its row.
    row: usize,
    /// Its end, not after that of the slice around it; `i64::MAX`: not known.
    end: i64,
    /// That end has a row, which comes in its turn among others of its time.
    waits: bool,
    /// Its own end is known; else `end` and `waits` are those of the slice around it.
    has_end: bool,
}

/// Makes the annotations of one thread from its rows.
struct Nesting<'t> {
    thread: &'t Thread,
    ends: Ends,
    /// Outermost first. No end is after the one before it.
    open: Vec<Open>,
    log: AnnotationLog,
}

impl Thread {
    /// Makes the annotations, sorted and sealed. Sorting dominates: n log n for n rows.
    pub fn into_log(mut self, pid: i32, tid: i32, odd: &mut Oddities) -> AnnotationLog {
        self.rows.sort_by_key(|row| row.time);
        let ends = Ends::find(&self.rows);
        let order = order(&self.rows, &ends);
        let mut log = AnnotationLog::new(pid, tid);
        let first_row = self.rows.first().map(|row| row.time);
        // A thread that only has ends of arrows needs a row, too.
        if let Some(first) = first_row.into_iter().chain(self.first_arrow).min() {
            log.push(&event(Time(first), Kind::ThreadName, 0, self.name, 0));
        }
        let mut nesting = Nesting { thread: &self, ends, open: Vec::new(), log };
        for ix in order {
            nesting.row(ix as usize, odd);
        }
        nesting.close(i64::MAX);
        let mut log = nesting.log;
        log.seal();
        log
    }

    /// Adds slices that another writer of the same thread began and ended, in order of time. Its begins and ends are joined
    /// here, so that neither writer's ends are taken for the other's.
    pub fn add_slices(&mut self, events: &[Annotation], odd: &mut Oddities) {
        let mut open = Vec::new();
        for e in events {
            if e.kind == Kind::Begin as u8 {
                open.push(self.rows.len());
                self.rows.push(Row {
                    time: e.time.0,
                    what: What::Complete(i64::MAX),
                    category: Category::Work,
                    name: e.name,
                    object: 0,
                    args: (0, 0),
                });
            } else if let Some(begun) = open.pop() {
                self.rows[begun].what = What::Complete(e.time.0);
            } else {
                odd.unbegun += 1;
            }
        }
    }

    /// Appends the arguments of a row. They belong to the slice or instant before them, or, with `is_end`, to the innermost
    /// slice.
    fn push_args(&self, row: &Row, time: i64, is_end: bool, log: &mut AnnotationLog) {
        let (first, n) = (row.args.0 as usize, usize::from(row.args.1));
        for &(name, value) in self.args.get(first..first + n).unwrap_or_default() {
            let mut argument = argument(Time(time), name, value);
            argument.b = u64::from(is_end);
            log.push(&argument);
        }
    }
}

impl Nesting<'_> {
    /// Takes in the next row.
    fn row(&mut self, ix: usize, odd: &mut Oddities) {
        let row = &self.thread.rows[ix];
        let time = Time(row.time);
        self.close(row.time);
        match row.what {
            What::Begin | What::Complete(_) => self.begin(ix, odd),
            What::End => match self.ends.partner(ix) {
                Some(begin) => self.close_from(begin),
                None => {
                    odd.unbegun += 1;
                    // Inside of a slice whose begin is known, nothing can be drawn for it.
                    if self.open.is_empty() {
                        self.log.push(&event(time, Kind::End, 0, row.name, 0));
                    }
                }
            },
            What::Instant => {
                self.log.push(&event(time, Kind::Instant, 0, row.name, 0));
                self.thread.push_args(row, row.time, false, &mut self.log);
            }
            What::HoldBegin => {
                let hold = Category::LockHold.begin(time, row.name, row.object);
                self.log.push(&hold);
            }
            What::HoldEnd => {
                let end = Category::LockHold.end(time, row.name, row.object);
                self.log.push(&end);
            }
        }
    }

    /// Opens the slice of a row.
    fn begin(&mut self, ix: usize, odd: &mut Oddities) {
        let row = &self.thread.rows[ix];
        let end = self.ends.end(&self.thread.rows, ix);
        odd.endless += u64::from(end.is_none());
        if self.open.len() >= MAX_OPEN {
            odd.too_deep += 1;
            return;
        }
        let (within, waits) =
            (self.open.last()).map_or((i64::MAX, false), |outer| (outer.end, outer.waits));
        let begin = row.category.begin(Time(row.time), row.name, row.object);
        self.log.push(&begin);
        self.thread.push_args(row, row.time, false, &mut self.log);
        let open = match end {
            Some(end) if end <= within => {
                Open { row: ix, end, waits: row.what == What::Begin, has_end: true }
            }
            _ => Open { row: ix, end: within, waits, has_end: end.is_some() },
        };
        odd.crossings += u64::from(end.is_some_and(|end| end > within));
        self.open.push(open);
    }

    /// Ends the slices that end before `now`, and those that end at it without a row of their own, the innermost first.
    /// Those that never end stay.
    fn close(&mut self, now: i64) {
        self.close_while(|open| open.end < now || open.end == now && !open.waits && now < i64::MAX);
    }

    /// Ends the slice of this row and all inside.
    fn close_from(&mut self, row: usize) {
        // One that was cut is not there any more; no older one needs to be looked at.
        let rows = &self.thread.rows;
        let n = (self.open.iter().rev())
            .take_while(|open| rows[open.row].time >= rows[row].time)
            .position(|open| open.row == row);
        if let Some(n) = n {
            let mut n = n + 1;
            self.close_while(|_| {
                let is_inside = n > 0;
                n = n.saturating_sub(1);
                is_inside
            });
        }
    }

    /// Ends open slices from the innermost on, as long as they are over.
    fn close_while(&mut self, mut is_over: impl FnMut(&Open) -> bool) {
        // Never ended, inside of the slice that ends next.
        let mut endless: Vec<Open> = Vec::new();
        while let Some(open) = self.open.pop_if(|open| is_over(open)) {
            if open.has_end {
                self.end(&open, &endless);
                endless.clear();
            } else {
                endless.push(open);
            }
        }
    }

    /// Ends a slice. The model ends the `endless` ones inside by itself, and notes that their ends were not seen, if it can
    /// tell from the end which slice is meant.
    fn end(&mut self, open: &Open, endless: &[Open]) {
        let thread = self.thread;
        let row = &thread.rows[open.row];
        let end = self.ends.partner(open.row).map(|end| &thread.rows[end]);
        let is_alike = |other: &Row| match row.category {
            Category::LockHold => true,
            _ if other.category == Category::LockHold => true,
            Category::Work => other.name == row.name,
            _ => other.object == row.object,
        };
        let is_told = row.name.is_some()
            && end.is_none_or(|end| end.args.1 == 0)
            && !(endless.iter()).any(|inner| is_alike(&thread.rows[inner.row]));
        let time = Time(open.end);
        let mut name = row.name;
        if !is_told {
            for inner in endless {
                let inner = &thread.rows[inner.row];
                let name = inner.end_name();
                self.log.push(&inner.category.end(time, name, inner.object));
            }
        }
        if !is_told || endless.is_empty() {
            name = row.end_name();
        }
        if let Some(end) = end {
            thread.push_args(end, open.end, true, &mut self.log);
        }
        self.log.push(&row.category.end(time, name, row.object));
    }
}

impl Row {
    /// The name at an end that ends the innermost slice: work has none there.
    fn end_name(&self) -> StrIx {
        match self.category {
            Category::Work | Category::Arrow => StrIx::NONE,
            _ => self.name,
        }
    }
}

/// The order in which rows, sorted by time, take effect. Of those of one time:
///
/// 1. ends of slices that began before, in the file's order, with what has no length and stands among them;
/// 2. begins, the longest outermost, so that what nests is not cut;
/// 3. what has no length.
fn order(rows: &[Row], ends: &Ends) -> Vec<u32> {
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    for same in order.chunk_by_mut(|&a, &b| rows[a as usize].time == rows[b as usize].time) {
        if same.len() < 2 {
            continue;
        }
        let time = rows[same[0] as usize].time;
        // An end of a slice that began before this time.
        let is_end = |ix: usize| {
            rows[ix].what == What::End && ends.partner(ix).is_none_or(|b| rows[b].time < time)
        };
        let last_end = same.iter().rposition(|&ix| is_end(ix as usize));
        let last_end = last_end.map(|at| same[at]);
        same.sort_by_key(|&ix| {
            let row = &rows[ix as usize];
            // Both ends of a slice without a length go where it begins.
            let begin = match (row.what, ends.partner(ix as usize)) {
                (What::End, Some(begin)) => begin as u32,
                _ => ix,
            };
            let length = match row.what {
                What::Begin | What::Complete(_) => {
                    ends.end(rows, ix as usize).map_or(i64::MAX, |end| end.saturating_sub(time))
                }
                _ => 0,
            };
            match row.what {
                What::HoldBegin | What::HoldEnd => (0, 0),
                _ if length != 0 => (1, -length),
                _ if is_end(ix as usize) || last_end.is_some_and(|end| begin < end) => (0, 0),
                _ => (2, 0),
            }
        });
    }
    order
}
