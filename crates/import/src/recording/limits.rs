//! Turns the limits block of a recording into [`Limits`]: CPUs and CPU time that the program was allowed.
//!
//! The recorder reads these limits at the start and again while it runs. A row is one of four
//! kinds: CPUs that some thread may use (`cpus` is set), threads and their mask (`mask` is set), a
//! process's membership in a control group (`pid` is set), or a group's quota (`quota_us` is set),
//! with the counters of throttling at that moment.
use kasuri_format::meta::LimitRow;
use kasuri_model::{AllowedCpus, GroupLimit, LimitReading, Limits, Strings, ThreadMasks, Time};
use std::collections::HashMap;

/// Numbers of CPUs and threads that all rows together may have: one of ten bytes may name 8,192.
const NUMBERS_MAX: usize = 1 << 22;

/// The limits, by time, and what to say of those that were left out. `at` converts a stamp of CLOCK_MONOTONIC, in ns.
pub(super) fn limits(
    rows: &[LimitRow],
    strings: &mut Strings,
    at: impl Fn(u64) -> Time,
) -> (Limits, Option<String>) {
    let mut out = Limits::default();
    let mut rows: Vec<&LimitRow> = rows.iter().collect();
    rows.sort_by_key(|row| row.monotonic_ns);
    let mut groups: HashMap<&str, usize> = HashMap::new();
    let (mut before, mut n_numbers, mut n_left_out) = (("", ""), 0, 0);
    for row in rows {
        let time = at(row.monotonic_ns);
        if !row.cpus.is_empty() {
            let lists = (&*row.cpus, &*row.cpuset);
            if std::mem::replace(&mut before, lists) == lists {
                continue;
            }
            if n_numbers > NUMBERS_MAX {
                n_left_out += 1;
                continue;
            }
            let cpus = LimitRow::cpu_list(&row.cpus);
            let cpuset = LimitRow::cpu_list(&row.cpuset);
            n_numbers += cpus.len() + cpuset.len();
            match n_numbers <= NUMBERS_MAX {
                true => out.allowed.push(AllowedCpus { since: time, cpus, cpuset }),
                false => n_left_out += 1,
            }
        } else if !row.mask.is_empty() {
            let cpus = LimitRow::cpu_list(&row.mask);
            n_numbers += cpus.len() + row.tids.len();
            match n_numbers <= NUMBERS_MAX {
                true => out.masks.push(ThreadMasks { since: time, cpus, tids: row.tids.clone() }),
                false => n_left_out += 1,
            }
        } else if row.pid != 0 {
            out.members.push((time, row.pid, row.group.clone()));
        } else if row.quota_us > 0 {
            let ix = *groups.entry(&row.group).or_insert_with(|| {
                let group = row.group.clone();
                out.groups.push(GroupLimit { group, ..GroupLimit::default() });
                out.groups.len() - 1
            });
            let group = &mut out.groups[ix];
            group.text = strings.intern(&row.text);
            group.cpus = row.quota_us as f64 / row.period_us.max(1) as f64;
            group.readings.push(LimitReading {
                time,
                n_throttled: row.n_throttled,
                throttled_ns: row.throttled_ns,
            });
        }
    }
    out.groups.sort_by(|a, b| a.group.cmp(&b.group));
    let says = |n: u64| {
        format!("the CPUs that the program might use changed {n} times more than are read")
    };
    (out, (n_left_out > 0).then(|| says(n_left_out)))
}
