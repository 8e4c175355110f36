//! Answers as documents: the sentences and tables that say to people what an analysis found, declared once for every screen.
//!
//! | module | does |
//! |---|---|
//! | [`document`] | what a document is made of |
//! | `compare`, [`critical`], [`explain`], [`info`], [`locks`], [`openmp`](openmp()), [`plan`], [`predict`], [`whereabouts`] | an answer each: its JSON, and its document |
//! | [`stat`] | sections of `kasuri stat` |
//! | [`account`], [`run`] | what all that is said of the account shares, and of the run as a whole |
//! | [`class_paths`], `chains` | the code behind a class of the account; waits, and what ended them, line below line |
//! | [`verdict`] | what the answer about locks and the prediction say together |
//! | [`units`], [`names`], [`paths`] | numbers, names, threads with their ids where names are shared, call paths |
//!
//! `crates/text` fits a document to a terminal, `crates/report` puts it into a page. Both know [`Part`](document::Part), and no answer.
#![forbid(unsafe_code)]

pub mod account;
mod chains;
pub mod class_paths;
mod compare;
pub mod critical;
pub mod document;
pub mod explain;
pub mod info;
pub mod locks;
pub mod names;
pub mod openmp;
pub mod paths;
pub mod plan;
pub mod predict;
pub mod run;
pub mod stat;
pub mod units;
pub mod verdict;
pub mod whereabouts;

use document::Document;

/// An answer. As JSON it is what [`serde::Serialize`] makes of it.
pub trait Answer: serde::Serialize {
    /// What people read, with at most `rows` rows of each table.
    fn document(&self, rows: usize) -> Document;
}

#[cfg(test)]
mod tests {
    use kasuri_analyze::call_paths::Flame;
    use kasuri_analyze::compare::Comparison;
    use kasuri_analyze::{AtEnd, Summary};
    use kasuri_predict::Prediction;
    use kasuri_predict::plan::Plan;
    use kasuri_testkit::schema::{generated, publish};

    /// By the name of the command that prints it.
    #[test]
    fn generated_schemas_are_what_the_structs_say() {
        publish(vec![
            generated::<Summary>("stat"),
            generated::<Flame>("flame"),
            generated::<crate::explain::Explanation>("explain"),
            generated::<crate::critical::Critical>("critical"),
            generated::<crate::locks::LocksAnswer<'_>>("locks"),
            generated::<Prediction>("predict"),
            generated::<Plan>("plan"),
            generated::<Comparison>("compare"),
            generated::<crate::info::Info>("info"),
            generated::<AtEnd>("where"),
        ]);
    }
}
