//! Call paths with weights, on traces whose answers are worked out by hand, and on random ones, whose sums must hold.
mod at_end;
mod chains;
mod hints;
pub mod join;
mod lock_waits;
mod phases;
mod said;
mod scene;
mod weights;
