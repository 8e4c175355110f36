//! The libraries of Kasuri that commands put into programs.
pub use super::preload::Probe;

/// All of them.
pub const ALL: [&Probe; 6] = [
    &super::locks::PROBE,
    &super::openmp::PROBE,
    &super::collector::LIBRARY,
    &super::ito::LIBRARY,
    &super::preloaded::WHATIF,
    &super::preloaded::MUTEX,
];
