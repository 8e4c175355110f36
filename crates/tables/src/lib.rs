//! A recording as tables: what `kasuri sql`, `kasuri export --format parquet` and the Python package show.
//!
//! | module | does |
//! |---|---|
//! | [`Table`], [`Column`] | what a table is; docs/sql.md is made from it |
//! | `rows` | fills each table from the model and the analyses |
//! | [`Batch`] | rows as columns, some thousand at a time |
//! | [`parquet`], [`csv`] | batches -> files |
//! | [`dataset`] | where the files of many runs lie, so that DuckDB and Spark find them |
//! | [`queries`] | answers to common questions, in the SQL that both engines understand |
#![forbid(unsafe_code)]

mod batch;
mod column;
pub mod csv;
pub mod dataset;
mod doc;
mod error;
pub mod parquet;
pub mod queries;
mod rows;
mod schema;
mod source;

pub use batch::{Batch, Data, Values};
pub use column::{Column, Type};
pub use doc::markdown;
pub use error::{Error, Result};
pub use schema::Table;
pub use source::Source;

use rows::{account, annotated, events, locks, processes, run, samples, sched};

/// All tables, in the order of the documentation.
pub static TABLES: &[&Table] = &[
    &run::RUN,
    &run::LABEL,
    &account::ACCOUNT,
    &processes::CPU,
    &processes::PROCESS,
    &processes::THREAD,
    &sched::THREAD_STATE,
    &sched::WAKEUP,
    &annotated::SLICE,
    &annotated::ARG,
    &annotated::INSTANT,
    &annotated::COUNTER,
    &annotated::FLOW,
    &annotated::TASK,
    &annotated::TASK_EDGE,
    &locks::LOCK,
    &locks::LOCK_HOLD,
    &locks::LOCK_WAIT,
    &events::EVENT,
    &samples::SAMPLE,
    &samples::STACK_FRAME,
    &samples::FRAME,
    &run::LOSS,
    &run::SYMBOL,
];

/// The table of that name.
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().copied().find(|t| t.name == name)
}
