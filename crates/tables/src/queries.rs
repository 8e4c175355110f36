//! Answers to common questions, each a file of SQL in `sql/` that runs unchanged in DuckDB and in Apache Spark.
//!
//! They use what both engines answer alike: CTEs, window functions, `FILTER`, `percentile_cont ... WITHIN GROUP`; whole numbers
//! are divided as `CAST(floor(a / b) AS BIGINT)`. Not: ASOF joins, unnest, functions that only approximate.
//! Each answers for all runs that are there, so each has `machine` and `run` first.

/// A query with a name; also a view of that name.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Its name.
    pub name: &'static str,
    text: &'static str,
}

impl Query {
    /// The question that it answers: the comment at its head.
    pub fn doc(&self) -> String {
        let lines = self.text.lines().take_while(|l| l.starts_with("--"));
        let words: Vec<&str> = lines.map(|l| l.trim_start_matches('-').trim()).collect();
        words.join(" ")
    }

    /// Its text without that comment, and without a semicolon at the end.
    pub fn sql(&self) -> &'static str {
        let mut rest = self.text;
        while rest.starts_with("--") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
        rest.trim().trim_end_matches(';')
    }
}

macro_rules! queries {
    ($($name:literal),+ $(,)?) => {
        /// All, in the order of the documentation.
        pub static QUERIES: &[Query] = &[$(
            Query { name: $name, text: include_str!(concat!("../sql/", $name, ".sql")) },
        )+];
    };
}

queries![
    "account_by_class",
    "top_losses",
    "top_waits",
    "locks_by_wait",
    "lock_sites",
    "load_imbalance",
    "slices_by_name",
    "functions_by_time",
    "preemptors",
    "wakeup_latency",
    "busiest_threads",
    "cpu_use",
    "longest_off_cpu",
    "lost_by_run",
    "lock_wait_trend",
];

/// The query of that name.
pub fn query(name: &str) -> Option<&'static Query> {
    QUERIES.iter().find(|q| q.name == name)
}
