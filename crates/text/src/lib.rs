//! Answers as people and programs read them: text tables, SVG charts, JSON.
//!
//! | module | does |
//! |---|---|
//! | [`table`] | answers as text, fitted to a terminal's width |
//! | [`chart`] | a prediction's curve and the costs of tracing as pictures |
//! | [`flame`] | trees of functions: text, folded stacks, pictures |
//! | [`info`] | what is in a file, and what its recorder measured of itself |
//! | [`json`] | answers as JSON, for programs |
#![forbid(unsafe_code)]

pub mod chart;
pub mod flame;
pub mod info;
pub mod json;
pub mod table;
