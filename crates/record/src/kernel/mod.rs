//! Kernel events: their sources, and the events that are chosen.
//!
//! | module | does |
//! |---|---|
//! | `source` | chooses tracefs, perf or nothing, and drains it |
//! | [`tracefs`] | private instances, raw pages |
//! | [`perf`] | context switches without privileges |
//! | [`uprobes`] | the functions that `--lock-function` names |
//! | [`usdt`] | the probes that `--usdt` names |
//! | `kallsyms` | the kernel's symbols, of which a table is kept |
//! | `kept` | where files are kept until the machine is started again |
//! | [`selection`] | named selections of events |
pub(crate) mod kallsyms;
pub(crate) mod kept;
pub mod perf;
pub mod selection;
pub(crate) mod source;
#[cfg(test)]
mod tests;
pub mod tracefs;
pub mod uprobes;
pub mod usdt;
