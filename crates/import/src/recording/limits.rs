//! Turns the limits block of a recording into [`Limits`]: CPUs and CPU time that the program was allowed.
//!
//! The recorder reads these limits at the start and again while it runs. A row is one of three kinds: a CPU mask
//! (`cpus` is set), a process's membership in a control group (`pid` is set), or a group's quota (`quota_us` is set),
//! with the counters of throttling at that moment.
use kasuri_format::meta::LimitRow;
use kasuri_model::{AllowedCpus, GroupLimit, LimitReading, Limits, Strings, Time};

/// The limits, by time. `at` converts a stamp of CLOCK_MONOTONIC, in ns.
pub(super) fn limits(rows: &[LimitRow], strings: &mut Strings, at: impl Fn(u64) -> Time) -> Limits {
    let mut out = Limits::default();
    let mut rows: Vec<&LimitRow> = rows.iter().collect();
    rows.sort_by_key(|row| row.monotonic_ns);
    for row in rows {
        let time = at(row.monotonic_ns);
        if !row.cpus.is_empty() {
            out.allowed.push(AllowedCpus {
                since: time,
                cpus: LimitRow::cpu_list(&row.cpus),
                cpuset: LimitRow::cpu_list(&row.cpuset),
            });
        } else if row.pid != 0 {
            out.members.push((time, row.pid, row.group.clone()));
        } else if row.quota_us > 0 {
            let known = out.groups.iter_mut().find(|g| g.group == row.group);
            let group = match known {
                Some(group) => group,
                None => {
                    out.groups
                        .push(GroupLimit { group: row.group.clone(), ..GroupLimit::default() });
                    out.groups.last_mut().expect("pushed above")
                }
            };
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
    out
}
