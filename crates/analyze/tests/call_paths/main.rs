//! Call paths with weights, on traces whose answers are worked out by hand, and on random ones, whose sums must hold.
mod chains;
mod join;
mod scene;
#[path = "../account/story.rs"]
#[allow(dead_code, reason = "tests of the account use the rest of it")]
mod story;
mod weights;
