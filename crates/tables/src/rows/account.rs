//! Where every CPU-second went.
use super::{made, object, word};
use crate::batch::Text;
use crate::schema::{Out, table};
use crate::{Result, Source};
use kasuri_analyze::account::Class;

table! {
    /// The account: where the CPU time went. `ns` adds up to `run.capacity_ns`, to the nanosecond.
    pub(crate) static ACCOUNT = "account", AccountRow from account;
    /// Id, unique in the run.
    account_id: i64, "id";
    /// `work`, `system_calls`, `task_runtime`, `tracing`, `lock_wait`, `load_imbalance`, `waiting_for_own_threads`, `io_wait`, `external_wait`, `low_parallelism`, `oversubscription`, `interference`, `scheduling_delay`, `interrupts`, `unknown`, `other`, `throttled_by_cpu_limit` or `spinning`.
    class: Text;
    /// Whether it is what the program is for: `work` and `system_calls`.
    is_useful: bool;
    /// More about it: `serial_phase`, `few_threads`, `late_thread`...
    note: Option<Text>;
    /// The lock, barrier, wait, process, interrupt handler or system call.
    name: Option<Text>;
    /// Where that was annotated.
    place: Option<Text>;
    /// Waits and locks: the address, as 64 bits with sign.
    object: Option<i64>;
    /// Process that interfered, or ended the wait.
    pid: Option<i32>;
    /// Its name.
    process: Option<Text>;
    /// Thread that was waited for most of the time.
    tid: Option<i32>;
    /// Its name.
    thread: Option<Text>;
    /// The code that it ran meanwhile.
    code: Option<Text>;
    /// CPU time.
    ns: i64, "ns";
    /// Of a loss: on a CPU (spinning); the rest of the time the CPU was idle, or others used it.
    on_cpu_ns: Option<i64>, "ns";
    /// `ns / run.wall_ns`.
    cpus: f64, "CPUs";
}

fn account(source: &Source<'_>, out: &mut Out<'_>) -> Result<()> {
    let summary = &source.summary().account;
    let is_useful = |key: &str| Class::ALL.iter().any(|c| c.key() == key && c.is_useful());
    let mut account_id = 0;
    let causes = |class: &'static str| summary.causes.iter().filter(move |c| c.class == class);
    for class in &summary.classes {
        let explained: i64 = causes(class.class).map(|c| c.ns).sum();
        let rest = class.ns - explained;
        if rest != 0 {
            out.push(AccountRow {
                account_id,
                class: class.class.into(),
                is_useful: is_useful(class.class),
                note: None,
                name: None,
                place: None,
                object: None,
                pid: None,
                process: None,
                tid: None,
                thread: None,
                code: None,
                ns: rest,
                on_cpu_ns: None,
                cpus: class.cpus * rest as f64 / class.ns as f64,
            })?;
            account_id += 1;
        }
        for cause in causes(class.class) {
            out.push(AccountRow {
                account_id,
                class: cause.class.into(),
                is_useful: is_useful(cause.class),
                note: word(cause.note),
                name: made(&cause.name),
                place: cause.place.as_deref().and_then(made),
                object: object(cause.object),
                pid: cause.pid,
                process: made(&cause.process),
                tid: cause.tid,
                thread: made(&cause.thread),
                code: made(&cause.code),
                ns: cause.ns,
                on_cpu_ns: Some(cause.on_cpu_ns),
                cpus: cause.cpus,
            })?;
            account_id += 1;
        }
    }
    Ok(())
}
