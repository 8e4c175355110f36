//! Answers -> tables, JSON, HTML, exports. Knows screens and formats; reads the model, never bytes.
mod args;
pub mod arrow;
pub mod chrome;
pub mod ctf;
mod export;
pub mod firefox;
pub mod html;
pub mod json;
pub mod label;
pub mod panels;
pub mod paraver;
pub mod perfetto;
pub mod price;
mod sched_events;
pub mod speedscope;
pub mod svg;
pub mod table;
pub mod trace_dat;
pub mod verdict;

pub use export::Exported;
