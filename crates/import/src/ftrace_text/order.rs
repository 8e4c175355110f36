//! Puts the lines of text in the order of time: text that was pasted together, or printed buffer by buffer, is not.
//!
//! Lines of one CPU that go back in time are sorted, those of one time stay as they stood. What stands there twice then (pasted twice) counts
//! once. That is also done for a CPU with a switch that follows itself, which no kernel does. Elsewhere equal lines of one time stay: a program
//! may well write one text twice within a microsecond.
use kasuri_format::ftrace_text::{self, Kind};
use std::collections::HashSet;

/// Where a line begins: its part of the text, and the offset in it.
pub(super) type Place = (u32, u32);

/// What is known about the lines of one CPU.
#[derive(Clone, Copy, Default)]
pub(super) struct Order {
    /// The last line's time.
    last: Option<i64>,
    /// Lines with a time before that of the line above.
    n_late: u64,
    /// The number of the first such line.
    first_late: u64,
    /// A switch stands there twice.
    is_doubled: bool,
}

impl Order {
    /// Takes in the next line. `is_again`: it is equal to the line above.
    pub fn next(&mut self, time: i64, number: u64, is_switch: bool, is_again: impl Fn() -> bool) {
        let last = self.last.replace(time);
        if last.is_some_and(|last| time < last) {
            self.n_late += 1;
            if self.n_late == 1 {
                self.first_late = number;
            }
        }
        self.is_doubled |= is_switch && last == Some(time) && is_again();
    }

    fn is_right(&self) -> bool {
        self.n_late == 0 && !self.is_doubled
    }
}

/// What was changed.
#[derive(Default)]
pub(super) struct Sorted {
    /// Lines with a time before that of the line above, of the same CPU; the number of the first.
    late: Option<(u64, u64)>,
    /// Lines that stood there before.
    n_again: u64,
}

impl Sorted {
    pub fn messages(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some((n, first)) = self.late {
            let go = if n == 1 { "line goes" } else { "lines go" };
            out.push(format!(
                "{n} {go} back in time, the first is line {first}: the lines of each CPU were sorted"
            ));
        }
        if self.n_again > 0 {
            let n = self.n_again;
            let stand = if n == 1 { "line stands" } else { "lines stand" };
            out.push(format!("{n} {stand} there twice: each counts once"));
        }
        out
    }
}

/// The line that begins at an offset.
pub(super) fn line(text: &[u8], at: u32) -> &[u8] {
    let text = &text[at as usize..];
    text.split(|&b| b == b'\n').next().unwrap_or_default()
}

/// Sorts the lines of each CPU that are not in order, and those with texts of programs. Returns what was changed, and the lines that were
/// taken out because they stood there before.
pub(super) fn sort<'t>(
    orders: &[Order],
    cpus: &mut [Vec<Place>],
    marked: &mut Vec<(i64, Place)>,
    of: impl Fn(Place) -> &'t [u8],
) -> (Sorted, Vec<Place>) {
    let mut sorted = Sorted::default();
    let mut again = Vec::new();
    let mut is_right = true;
    for (order, lines) in orders.iter().zip(cpus) {
        if order.is_right() {
            continue;
        }
        is_right = false;
        if order.n_late > 0 {
            let (n, first) = sorted.late.unwrap_or((0, u64::MAX));
            sorted.late = Some((n + order.n_late, first.min(order.first_late)));
        }
        let mut time = i64::MIN;
        let mut timed: Vec<(i64, Place)> = Vec::with_capacity(lines.len());
        for &place in &*lines {
            // A loss has no time: it stays behind the line above.
            if let Kind::Event(event) = ftrace_text::parse(of(place)) {
                time = event.time;
            }
            timed.push((time, place));
        }
        again.extend(in_order(&mut timed, &of));
        *lines = timed.into_iter().map(|(_, place)| place).collect();
    }
    match is_right {
        // Where each CPU's lines are printed together, those of all CPUs together go back.
        true => marked.sort_by_key(|mark| mark.0),
        false => again.extend(in_order(marked, &of)),
    }
    sorted.n_again = again.len() as u64;
    (sorted, again)
}

/// Sorts lines by time and takes out those that stand there twice, which it returns.
fn in_order<'t>(lines: &mut Vec<(i64, Place)>, of: impl Fn(Place) -> &'t [u8]) -> Vec<Place> {
    lines.sort_by_key(|line| line.0);
    let mut again = Vec::new();
    let mut of_time: HashSet<&[u8]> = HashSet::new();
    let mut time = None;
    lines.retain(|&(at, place)| {
        if time.replace(at) != Some(at) {
            of_time.clear();
        }
        let text = of(place);
        let is_event = matches!(ftrace_text::parse(text), Kind::Event(_));
        let is_new = !is_event || of_time.insert(text);
        if !is_new {
            again.push(place);
        }
        is_new
    });
    again
}
