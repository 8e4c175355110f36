//! Slices that are open while a thread's events go by, and names for those that the program gave none.
use crate::{SliceKind, StrIx, TaskIx, Time};

/// An end whose beginning was not seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orphan {
    pub end: Time,
    pub name: StrIx,
    pub kind: SliceKind,
    pub task: TaskIx,
    pub object: u64,
    /// Slices of the thread that it encloses: the rows before this one.
    pub rows_before: usize,
}

/// A slice that a suspended task takes along; of kind `TaskRun`: `task`, which runs in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub name: StrIx,
    pub kind: SliceKind,
    pub task: TaskIx,
    pub object: u64,
    /// [`open`] bits of its mode.
    pub bits: u8,
}

/// Names for slices to which the program gave none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DefaultNames {
    pub waits: [StrIx; 7],
    pub lock: StrIx,
    pub task: StrIx,
    pub steal: StrIx,
    pub unnamed: StrIx,
    /// A slice that ended without its name, and whose beginning was not seen.
    pub began_unseen: StrIx,
}
