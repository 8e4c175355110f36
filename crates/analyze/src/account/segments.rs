//! The result of the sweep: the cause of each stretch of each CPU's time, as columns, and the table of causes.
//!
//! A segment is a start and the number of a cause; it lasts until the next of its CPU. Equal neighbours are joined while the
//! rows are made ([`Column`]). There may be millions of segments and only hundreds of causes, so tables are sums by cause
//! first, and text only at the end.
use super::class::{Cause, Sums};
use kasuri_base::quick::QuickMap;
use kasuri_model::Time;
use std::ops::Range;

/// Each CPU's time, without gaps: a row lasts until the next row of its CPU, the last until [`Segments::end`].
#[derive(Clone, Debug, Default)]
pub struct Segments {
    /// The CPUs' numbers, each with its rows.
    pub cpus: Vec<(u16, Range<u32>)>,
    /// When it begins.
    pub start: Vec<Time>,
    /// Its cause: index of [`super::Account::causes`].
    pub cause: Vec<u32>,
    /// End of the last row of each CPU.
    pub end: Time,
}

impl Segments {
    /// The rows of the CPU at `at` (index of `cpus`) that touch a..b, each with as much of it as lies there.
    pub fn between(
        &self,
        at: usize,
        a: Time,
        b: Time,
    ) -> impl Iterator<Item = (u32, Range<Time>)> + '_ {
        let rows = self.cpus.get(at).map_or(0..0, |(_, rows)| rows.clone());
        let rows = rows.start as usize..rows.end as usize;
        let first = self.start[rows.clone()].partition_point(|&s| s <= a);
        let first = rows.start + first.saturating_sub(1);
        (first..rows.end)
            .take_while(move |&row| self.start[row] < b)
            .map(move |row| {
                let end = if row + 1 < rows.end { self.start[row + 1] } else { self.end };
                (self.cause[row], self.start[row].max(a)..end.min(b))
            })
            .filter(|(_, part)| part.end > part.start)
    }
}

/// One CPU's rows while they are made.
#[derive(Debug, Default)]
pub(super) struct Column {
    pub start: Vec<Time>,
    pub cause: Vec<u32>,
}

impl Column {
    /// From `time` on it is `cause`.
    #[inline]
    pub fn push(&mut self, time: Time, cause: u32) {
        if self.cause.last() != Some(&cause) {
            self.start.push(time);
            self.cause.push(cause);
        }
    }
}

/// Causes by number; equal ones once.
#[derive(Debug, Default)]
pub(super) struct Causes {
    pub rows: Vec<Cause>,
    index: QuickMap<Cause, u32>,
    last: (Cause, u32),
}

impl Causes {
    #[inline]
    pub fn number(&mut self, cause: Cause) -> u32 {
        if !self.rows.is_empty() && self.last.0 == cause {
            return self.last.1;
        }
        let rows = &mut self.rows;
        let number = *self.index.entry(cause).or_insert_with(|| {
            rows.push(cause);
            rows.len() as u32 - 1
        });
        self.last = (cause, number);
        number
    }
}

/// Adds up by class.
pub(super) fn sum(causes: &[Cause], parts: impl Iterator<Item = (u32, Range<Time>)>) -> Sums {
    let mut sums = Sums::default();
    for (cause, part) in parts {
        sums[causes[cause as usize].class as usize] += (part.end - part.start).ns();
    }
    sums
}
