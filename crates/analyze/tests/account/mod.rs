//! The account: golden traces with hand-computed answers, what must not change an answer, random traces.
mod choice;
mod critical_path;
mod golden;
mod hints;
mod props;
mod reasons;
pub mod story;
mod tables;
mod throttle;
