//! Walks the table of arguments beside the tables of what they belong to.
use kasuri_model::{Args, InstantIx, SliceIx};
use std::ops::Range;

/// A position in [`Args`]; ask for slices and then for instants, each in ascending order.
#[derive(Default)]
pub(crate) struct ArgCursor(usize);

impl ArgCursor {
    /// Rows of this slice.
    pub fn of_slice(&mut self, args: &Args, slice: SliceIx) -> Range<usize> {
        self.rows(
            args,
            |row| {
                Some(args.slice[row])
                    .filter(|s| s.is_some())
                    .is_none_or(|s| s >= slice)
            },
            |row| args.slice[row] == slice,
        )
    }

    /// Rows of this instant.
    pub fn of_instant(&mut self, args: &Args, instant: InstantIx) -> Range<usize> {
        let of = |row: usize| args.instant.get(row).copied().unwrap_or(InstantIx::NONE);
        self.rows(
            args,
            |row| of(row).is_some() && of(row) >= instant,
            |row| of(row) == instant,
        )
    }

    fn rows(
        &mut self,
        args: &Args,
        reached: impl Fn(usize) -> bool,
        own: impl Fn(usize) -> bool,
    ) -> Range<usize> {
        while self.0 < args.name.len() && !reached(self.0) {
            self.0 += 1;
        }
        let start = self.0;
        while self.0 < args.name.len() && own(self.0) {
            self.0 += 1;
        }
        start..self.0
    }
}
