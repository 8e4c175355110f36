//! Call paths with weights, on traces whose answers are worked out by hand, and on random ones, whose sums must hold.
mod at_end;
mod chains;
pub mod join;
mod phases;
mod scene;
mod weights;
