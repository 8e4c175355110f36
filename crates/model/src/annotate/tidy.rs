//! The last pass over one thread's slices: levels of critical sections, ends without a beginning, order.
//!
//! `slicer` pushes a row when something begins, which is nearly the final order. Three things are known only at the end. A slice
//! whose beginning was not seen encloses all rows before its end. Critical sections may cross work, so each gets the lowest
//! level above the work that is free for all of its time. Rows of equal stamps are sorted by depth. A thread that has
//! none of these costs one look at its rows.
use super::open::Orphan;
use crate::{Args, SliceIx, SliceKind, Slices, ThreadIx, Time, open};
use std::ops::IndexMut;

/// Finishes the rows of `thread`, which are those from `base` on. Returns its number of levels.
pub(super) fn finish(
    slices: &mut Slices,
    args: &mut Args,
    base: usize,
    thread: ThreadIx,
    start: Time,
    orphans: &[Orphan],
    has_holds: bool,
) -> u16 {
    if !orphans.is_empty() {
        enclose(slices, base, thread, start, orphans);
    }
    let mut levels = 0;
    for row in base..slices.start.len() {
        if !has_holds || slices.kind[row] != SliceKind::LockHold {
            levels = levels.max(slices.depth[row] + 1);
        }
    }
    if has_holds {
        levels = levels.saturating_add(level_holds(slices, base, levels));
    }
    sort(slices, args, base);
    levels
}

/// Adds the slices whose beginning was not seen: they enclose all that came before their end, the first to end
/// innermost.
fn enclose(slices: &mut Slices, base: usize, thread: ThreadIx, start: Time, orphans: &[Orphan]) {
    let n_rows = slices.start.len();
    let nested: Vec<&Orphan> = orphans.iter().filter(|o| o.kind != SliceKind::LockHold).collect();
    let mut inside_from = 0;
    for row in base..n_rows {
        while nested.get(inside_from).is_some_and(|o| o.rows_before <= row - base) {
            inside_from += 1;
        }
        let around = nested.len() - inside_from;
        if around > 0 && slices.kind[row] != SliceKind::LockHold {
            slices.depth[row] += around as u16;
        }
        if around > 0 && !slices.parent[row].is_some() {
            slices.parent[row] = SliceIx((n_rows + inside_from) as u32);
        }
    }
    for (ix, orphan) in nested.iter().enumerate() {
        let parent =
            if ix + 1 < nested.len() { SliceIx((n_rows + ix + 1) as u32) } else { SliceIx::NONE };
        push(slices, thread, start, orphan, (nested.len() - 1 - ix) as u16, parent);
    }
    for orphan in orphans.iter().filter(|o| o.kind == SliceKind::LockHold) {
        push(slices, thread, start, orphan, 0, SliceIx::NONE);
    }
}

fn push(
    slices: &mut Slices,
    thread: ThreadIx,
    start: Time,
    orphan: &Orphan,
    depth: u16,
    parent: SliceIx,
) {
    slices.start.push(start.min(orphan.end));
    slices.end.push(orphan.end);
    slices.thread.push(thread);
    slices.name.push(orphan.name);
    slices.depth.push(depth);
    slices.parent.push(parent);
    slices.kind.push(orphan.kind);
    slices.task.push(orphan.task);
    slices.object.push(orphan.object);
    slices.open.push(open::BEGIN_UNSEEN);
}

/// Gives each critical section the lowest level above `first` that is free for all of its time. Returns how many levels.
fn level_holds(slices: &mut Slices, base: usize, first: u16) -> u16 {
    let mut holds: Vec<usize> =
        (base..slices.start.len()).filter(|&row| slices.kind[row] == SliceKind::LockHold).collect();
    if !holds.is_sorted_by_key(|&row| (slices.start[row], slices.end[row])) {
        holds.sort_by_key(|&row| (slices.start[row], slices.end[row]));
    }
    let mut free_at: Vec<Time> = Vec::new();
    for row in holds {
        let level = free_at.iter().position(|&t| t <= slices.start[row]).unwrap_or(free_at.len());
        if level == free_at.len() {
            free_at.push(Time::MIN);
        }
        free_at[level] = slices.end[row];
        slices.depth[row] = first.saturating_add(level as u16);
    }
    free_at.len() as u16
}

/// Sorts the rows by (start, depth), as they nearly always are.
fn sort(slices: &mut Slices, args: &mut Args, base: usize) {
    let n = slices.start.len() - base;
    // Of two that begin together on one level, the first has no length.
    let key = |row: usize| (slices.start[row], slices.depth[row], slices.end[row]);
    if (base + 1..base + n).all(|row| key(row - 1) <= key(row)) {
        return;
    }
    let mut order: Vec<usize> = (base..base + n).collect();
    order.sort_by_key(|&row| key(row));
    let mut new = vec![0u32; n];
    for (at, &old) in order.iter().enumerate() {
        new[old - base] = (base + at) as u32;
    }
    fn permute<C: IndexMut<usize, Output: Copy + PartialEq>>(column: &mut C, order: &[usize]) {
        let sorted: Vec<C::Output> = order.iter().map(|&row| column[row]).collect();
        let base = order.iter().min().copied().unwrap_or(0);
        for (row, value) in (base..).zip(sorted) {
            // What is as it was is not written to, so that it stays folded.
            if column[row] != value {
                column[row] = value;
            }
        }
    }
    permute(&mut slices.start, &order);
    permute(&mut slices.end, &order);
    permute(&mut slices.name, &order);
    permute(&mut slices.depth, &order);
    permute(&mut slices.parent, &order);
    permute(&mut slices.kind, &order);
    permute(&mut slices.task, &order);
    permute(&mut slices.object, &order);
    permute(&mut slices.open, &order);
    let moved = |ix: SliceIx| {
        if ix.is_some() && ix.ix() >= base { SliceIx(new[ix.ix() - base]) } else { ix }
    };
    for row in base..base + n {
        let parent = slices.parent[row];
        if moved(parent) != parent {
            slices.parent[row] = moved(parent);
        }
    }
    for slice in args.slice.iter_mut().rev().take_while(|s| !s.is_some() || s.ix() >= base) {
        *slice = moved(*slice);
    }
}
