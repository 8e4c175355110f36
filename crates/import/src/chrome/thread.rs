//! Makes the annotations of one thread.
//!
//! Rows are collected in the order of the file, and sorted by time at the end. A complete event (`X`) has a begin and a
//! duration; its end is inserted among the other rows by a stack of open slices. The model needs slices that nest, so a
//! slice that would outlive the slice around it is cut there, and counted in [`Crossings`].
use crate::annotation_log::AnnotationLog;
use crate::category::{Category, argument, event};
use kasuri_base::annotation::Kind;
use kasuri_model::{ArgValue, StrIx, Time};

/// The effect of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Begin,
    End,
    /// A complete event, with its end in ns.
    Complete(i64),
    Instant,
    /// A critical section of Kasuri's own export, which need not nest in slices.
    HoldBegin,
    HoldEnd,
}

/// One event; `time` is in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
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
pub(super) struct Thread {
    pub name: StrIx,
    /// Time of the earliest end of an arrow.
    pub first_arrow: Option<i64>,
    pub rows: Vec<Row>,
    pub args: Vec<(StrIx, ArgValue)>,
}

/// Number of slices that were cut, because they overlap another one without being inside it.
#[derive(Debug, Default)]
pub(super) struct Crossings(pub u64);

/// An open complete event.
struct Open {
    end: i64,
    category: Category,
    name: StrIx,
    object: u64,
}

impl Thread {
    /// Makes the annotations, sorted and sealed. Sorting dominates: n log n for n rows.
    pub fn into_log(mut self, pid: i32, tid: i32, crossings: &mut Crossings) -> AnnotationLog {
        let mut log = AnnotationLog::new(pid, tid);
        self.sort_rows();
        let first_row = self.rows.first().map(|row| row.time);
        // A thread that only has ends of arrows needs a row, too.
        if let Some(first) = first_row.into_iter().chain(self.first_arrow).min() {
            log.push(&event(Time(first), Kind::ThreadName, 0, self.name, 0));
        }
        let mut open: Vec<Open> = Vec::new();
        let mut begun: Vec<(Category, StrIx, u64)> = Vec::new();
        for row in &self.rows {
            close(&mut open, row.time, &mut log);
            let time = Time(row.time);
            match row.what {
                What::Begin => {
                    begun.push((row.category, row.name, row.object));
                    log.push(&row.category.begin(time, row.name, row.object));
                    self.push_args(row, &mut log);
                }
                What::End => {
                    self.push_args(row, &mut log);
                    let (category, name, object) = begun.pop().unwrap_or_default();
                    // A name selects the slice that ends, if ends of inner slices are missing.
                    let name = match category {
                        Category::Work => row.name,
                        _ => name,
                    };
                    log.push(&category.end(time, name, object));
                }
                What::Complete(end) => {
                    let within = open.last().map_or(i64::MAX, |outer| outer.end);
                    crossings.0 += u64::from(end > within);
                    log.push(&row.category.begin(time, row.name, row.object));
                    self.push_args(row, &mut log);
                    open.push(Open {
                        end: end.min(within),
                        category: row.category,
                        name: row.name,
                        object: row.object,
                    });
                }
                What::Instant => {
                    log.push(&event(time, Kind::Instant, 0, row.name, 0));
                    self.push_args(row, &mut log);
                }
                What::HoldBegin => {
                    log.push(&Category::LockHold.begin(time, row.name, row.object));
                }
                What::HoldEnd => log.push(&Category::LockHold.end(time, row.name, row.object)),
            }
        }
        close(&mut open, i64::MAX, &mut log);
        log.seal();
        log
    }

    /// Sorts by time. The longest of the complete events that begin together is the outermost.
    fn sort_rows(&mut self) {
        self.rows.sort_by_key(|row| row.time);
        for same in self.rows.chunk_by_mut(|a, b| a.time == b.time) {
            if same.len() > 1 && same.iter().all(|r| matches!(r.what, What::Complete(_))) {
                same.sort_by_key(|row| match row.what {
                    What::Complete(end) => std::cmp::Reverse(end),
                    _ => std::cmp::Reverse(row.time),
                });
            }
        }
    }

    /// Appends the arguments of a row. They belong to the slice or instant before them.
    fn push_args(&self, row: &Row, log: &mut AnnotationLog) {
        let (first, n) = (row.args.0 as usize, usize::from(row.args.1));
        for &(name, value) in self.args.get(first..first + n).unwrap_or_default() {
            log.push(&argument(Time(row.time), name, value));
        }
    }
}

/// Ends the slices that end at or before `now`, the innermost first.
fn close(open: &mut Vec<Open>, now: i64, log: &mut AnnotationLog) {
    while let Some(slice) = open.pop_if(|slice| slice.end <= now) {
        log.push(
            &slice
                .category
                .end(Time(slice.end), slice.name, slice.object),
        );
    }
}
