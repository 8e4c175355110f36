//! The deque of `threads/src/core/deque.c`, small enough to check every schedule of it: [`deque`], and its
//! forked tasks whose parent moves: [`fork`]; on the [`machine`] that the parking model uses too.
//!
//! loom has no membarrier(2), on which the owner's fence-free side rests; so this is a search of our own.

pub mod deque;
pub mod fork;
pub mod machine;
