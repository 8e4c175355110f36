//! Answers -> tables, JSON, HTML, exports. Knows screens and formats; reads the model, never bytes.
mod args;
pub mod arrow;
pub mod chrome;
mod export;
pub mod html;
pub mod json;
pub mod label;
pub mod panels;
pub mod perfetto;
pub mod svg;
pub mod table;

pub use export::Exported;
