//! Answers as people and programs read them: text tables, SVG charts, JSON.
//!
//! | module | does |
//! |---|---|
//! | [`table`] | answers as text, fitted to a terminal's width |
//! | [`label`] | what limits are called |
//! | [`verdict`] | what the answer about locks and the prediction say together |
//! | [`svg`] | a prediction's curves as a picture |
//! | [`price`] | what tracing costs, as a page with charts |
//! | [`json`] | answers as JSON, for programs |
#![forbid(unsafe_code)]

pub mod json;
pub mod label;
pub mod price;
pub mod svg;
pub mod table;
pub mod verdict;
