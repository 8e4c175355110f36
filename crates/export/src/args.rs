//! Walks the table of arguments beside the tables of slices and instants.
//!
//! The model keeps arguments in one table, sorted by what they belong to: first those of slices, then those of
//! instants. A writer also visits slices and instants in that order, so a position that only moves forward finds all
//! arguments in one pass, without an index.
use kasuri_model::{Args, InstantIx, SliceIx};
use std::ops::Range;

/// A position in [`Args`].
///
/// Call [`ArgCursor::of_slice`] and then [`ArgCursor::of_instant`], each with ascending indices; an argument that was
/// passed over is not found again. All calls together take time in proportion to the table.
#[derive(Default)]
pub(crate) struct ArgCursor(usize);

impl ArgCursor {
    /// Rows of the arguments of this slice.
    pub fn of_slice(&mut self, args: &Args, slice: SliceIx) -> Range<usize> {
        self.rows(
            args,
            |row| Some(args.slice[row]).filter(|s| s.is_some()).is_none_or(|s| s >= slice),
            |row| args.slice[row] == slice,
        )
    }

    /// Rows of the arguments of this instant.
    pub fn of_instant(&mut self, args: &Args, instant: InstantIx) -> Range<usize> {
        // The column is empty in traces that have no arguments of instants.
        let of = |row: usize| args.instant.get(row).copied().unwrap_or(InstantIx::NONE);
        self.rows(args, |row| of(row).is_some() && of(row) >= instant, |row| of(row) == instant)
    }

    /// Skips rows until `reached`, then takes those that are the caller's `own`.
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
