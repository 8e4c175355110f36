//! Answers as people and programs read them: text tables, SVG charts, JSON.
//!
//! | module | does |
//! |---|---|
//! | [`table`] | answers as text, fitted to a terminal's width |
//! | [`chart`] | a prediction's curve and the costs of tracing as pictures |
//! | [`flame`] | trees of functions: text, folded stacks, pictures |
//! | [`json`] | answers as JSON, for programs |
#![forbid(unsafe_code)]

pub mod chart;
pub mod flame;
pub mod json;
pub mod table;
