//! Answers as people and programs read them: text tables, SVG charts, JSON.
//!
//! | module | does |
//! |---|---|
//! | [`table`] | answers as text, fitted to a terminal's width |
//! | [`markdown`](markdown()) | answers as one page of Markdown, for others to quote |
//! | [`chart`] | a prediction's curve and the costs of tracing as pictures |
//! | [`flame`] | trees of functions: text, folded stacks, pictures |
//! | [`json`] | answers as JSON, for programs |
#![forbid(unsafe_code)]

pub mod chart;
pub mod flame;
pub mod json;
mod markdown;
pub mod table;

pub use markdown::markdown;
