//! Time stamps that stand far from all others: of another buffer, or of a clock that is not the others'.
//!
//! One mark 22 minutes before a trace of a second makes it 22 minutes long. What stands apart stays in the recording; it is said, and a picture
//! need not begin with it. Recordings of Kasuri have one clock: a program that slept for 22 minutes after its start is not stretched.
use crate::types::{Trace, open};
use crate::{Duration, Time};
use std::ops::Range;

/// Time stamps that do not stand apart, for each that does: with fewer, nobody can tell which are the stray ones.
const OTHERS: u64 = 99;
/// The others take less than one of so many parts of the span.
const PARTS: i64 = 10;
/// No shorter gap sets anything apart.
const LEAST_GAP: Duration = Duration(1_000_000_000);
/// Looks at what is left; each takes the time stamps of one end away.
const LOOKS: usize = 8;

/// The time stamps that stand apart, and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// From the first of the others to the last.
    pub rest: Range<Time>,
    /// Time stamps that stand apart.
    pub n: u64,
    /// All time stamps.
    pub n_all: u64,
    /// The longest time without any between those that stand apart and the others.
    pub gap: Duration,
}

impl Trace {
    /// The time stamps that stand apart; none where nothing lies far from the rest, or where a slice or a system call spans the
    /// gap. One to eight passes over all times, no memory.
    pub fn stray(&self) -> Option<Stray> {
        let span = self.span.clone();
        if self.info.format.starts_with("kasuri") || span.end - span.start < LEAST_GAP {
            return None;
        }
        let mut rest = span.clone();
        let (mut n_all, mut n, mut gap) = (0, 0, Duration(0));
        for look in 0..LOOKS {
            let Some(halves) = Halves::of(self, &rest) else {
                break;
            };
            if look == 0 {
                n_all = halves.before + halves.after;
            }
            let is_first = halves.before < halves.after;
            let few = halves.before.min(halves.after);
            let is_apart = halves.gap() >= LEAST_GAP
                && halves.gap().0 > (rest.end - rest.start).0 / 2
                && (n + few).saturating_mul(OTHERS) <= n_all - n - few
                && !is_spanned(self, &(halves.last..halves.first));
            if !is_apart {
                break;
            }
            n += few;
            gap = Duration(gap.0.max(halves.gap().0));
            match is_first {
                true => rest.start = halves.first,
                false => rest.end = halves.last,
            }
        }
        let is_small = (rest.end - rest.start).0 < (span.end - span.start).0 / PARTS;
        (n > 0 && is_small).then_some(Stray { rest, n, n_all, gap })
    }

    /// What [`Trace::stray`] found as a sentence.
    pub(crate) fn stray_text(&self, found: &Stray) -> String {
        let Stray { rest, n, n_all, gap } = found;
        let seconds = |time: Time| (time - self.span.start).0 as f64 * 1e-9;
        // Rounded outwards, so that the range holds the rest.
        let from = (seconds(rest.start) * 1e6).floor() * 1e-6;
        let to = (seconds(rest.end) * 1e6).ceil() * 1e-6;
        let stand = match n {
            1 => "time stamp stands",
            _ => "time stamps stand",
        };
        format!(
            "{n} {stand} {:.3} s apart from the other {}, as if of another buffer or clock; times and shares of the whole \
             recording include that gap: --range {from:.6}s..{to:.6}s leaves it out, and the report begins there",
            gap.0 as f64 * 1e-9,
            n_all - n,
        )
    }
}

/// The time stamps of a part before its middle and after it.
struct Halves {
    before: u64,
    /// The last one that is not behind the middle.
    last: Time,
    after: u64,
    /// The first behind the middle.
    first: Time,
}

impl Halves {
    /// None where one half has none.
    fn of(trace: &Trace, part: &Range<Time>) -> Option<Halves> {
        let middle = Time(part.start.0 + (part.end - part.start).0 / 2);
        let mut halves = Halves { before: 0, last: Time::MIN, after: 0, first: Time::MAX };
        each_time(trace, |time| {
            if time < part.start || time > part.end {
            } else if time <= middle {
                halves.before += 1;
                halves.last = halves.last.max(time);
            } else {
                halves.after += 1;
                halves.first = halves.first.min(time);
            }
        });
        (halves.before > 0 && halves.after > 0).then_some(halves)
    }

    fn gap(&self) -> Duration {
        self.first - self.last
    }
}

/// Calls `f` with every time that an event has given, in no order.
fn each_time(trace: &Trace, mut f: impl FnMut(Time)) {
    let occupancy = &trace.occupancy;
    for (row, &start) in occupancy.start.iter().enumerate() {
        // Not known from here on: no event says so.
        if occupancy.idle[row] || occupancy.thread[row].is_some() {
            f(start);
        }
    }
    let slices = &trace.slices;
    for row in 0..slices.start.len() {
        if slices.open[row] & open::BEGIN_UNSEEN == 0 {
            f(slices.start[row]);
        }
        if slices.open[row] & open::END_UNSEEN == 0 {
            f(slices.end[row]);
        }
    }
    let spans = &trace.kernel_spans;
    let counters = trace.counters.iter().map(|counter| &counter.time);
    let lists = [
        &trace.wakeups.time,
        &trace.migrations.time,
        &trace.instants.time,
        &trace.samples.time,
        &spans.start,
        &spans.end,
    ];
    for &time in lists.into_iter().chain(counters).flatten() {
        f(time);
    }
}

/// Whether something began before a gap and ended behind it, so that one clock gave both times.
fn is_spanned(trace: &Trace, gap: &Range<Time>) -> bool {
    let (slices, spans) = (&trace.slices, &trace.kernel_spans);
    let unseen = open::BEGIN_UNSEEN | open::END_UNSEEN;
    let seen = |row: usize| slices.open[row] & unseen == 0;
    let over = |start: Time, end: Time| start <= gap.start && end >= gap.end;
    (0..slices.start.len()).any(|row| seen(row) && over(slices.start[row], slices.end[row]))
        || (spans.start.iter().zip(&spans.end)).any(|(&start, &end)| over(start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Marks at these times, in ms.
    fn marked(times: impl Iterator<Item = i64>) -> Trace {
        let mut trace = Trace::default();
        trace.instants.time = times.map(|ms| Time(ms * MS)).collect();
        trace.info.format = "ftrace text".into();
        let all = &trace.instants.time;
        trace.span = *all.iter().min().unwrap()..*all.iter().max().unwrap();
        trace
    }

    #[test]
    fn a_mark_far_before_the_rest_and_one_far_behind_stand_apart() {
        let trace = marked([0, 5_000].into_iter().chain((0..300).map(|i| 1_320_000 + i)));
        let stray = trace.stray().unwrap();
        assert_eq!(stray.rest, Time(1_320_000 * MS)..Time(1_320_299 * MS));
        assert_eq!((stray.n, stray.n_all), (2, 302));
        assert_eq!(stray.gap, Duration(1_315_000 * MS));
        assert_eq!(
            trace.missing(),
            [
                "2 time stamps stand 1315.000 s apart from the other 300, as if of another buffer or clock; times and shares of \
                 the whole recording include that gap: --range 1320.000000s..1320.299000s leaves it out, and the report begins \
                 there"
            ]
        );

        let trace = marked((0..300).chain([90_000]));
        assert_eq!(trace.stray().unwrap().rest, Time(0)..Time(299 * MS));
        let trace = marked([-90_000].into_iter().chain(0..300).chain([300_000]));
        assert_eq!(trace.stray().unwrap().rest, Time(0)..Time(299 * MS));
    }

    #[test]
    fn what_is_no_stray_is_not_called_one() {
        let far = |n: i64| marked([0].into_iter().chain((0..n).map(|i| 60_000 + i)));
        assert!(far(99).stray().is_some());
        assert_eq!(far(98).stray(), None, "too few others");
        assert_eq!(marked((0..300).map(|i| i * 1_000)).stray(), None);
        let half = marked((0..200).chain((0..200).map(|i| 60_000 + i)));
        assert_eq!(half.stray(), None, "as many on both sides");
        let long = marked([0].into_iter().chain((0..300).map(|i| 30_000 + i * 100)));
        assert_eq!(long.stray(), None, "the rest is half of it");
        let short = marked([0].into_iter().chain((0..100).map(|_| 900)));
        assert_eq!(short.stray(), None, "less than a second");
        let mut ours = far(300);
        ours.info.format = "kasuri".into();
        assert_eq!(ours.stray(), None, "one clock");
        assert_eq!(Trace::default().stray(), None);
    }

    #[test]
    fn a_slice_over_the_gap_shows_one_clock_unless_its_end_was_not_seen() {
        let mut trace = marked([0].into_iter().chain((0..300).map(|i| 60_000 + i)));
        trace.slices.start = vec![Time(0)];
        trace.slices.end = vec![trace.span.end];
        trace.slices.open = vec![0].into();
        assert_eq!(trace.stray(), None);
        trace.slices.open = vec![open::END_UNSEEN].into();
        assert_eq!(trace.stray().unwrap().n, 2);
    }
}
