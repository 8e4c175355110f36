//! Memory and CPU time of processes, as /proc has them.
use super::wire::Message;
use crate::Result;

/// Fields of `ProcessStats.Process`: number, name of the counter, factor.
const FIELDS: &[(u32, &str, i64)] = &[
    (2, "mem.virt", 1024),
    (3, "mem.rss", 1024),
    (4, "mem.rss.anon", 1024),
    (5, "mem.rss.file", 1024),
    (6, "mem.rss.shmem", 1024),
    (7, "mem.swap", 1024),
    (8, "mem.locked", 1024),
    (9, "mem.rss.watermark", 1024),
    (10, "oom_score_adj", 1),
    (21, "runtime.user_ns", 1),
    (22, "runtime.kernel_ns", 1),
];

/// Calls `each` with pid, name and value of each counter, memory in bytes.
///
/// # Errors
/// Bytes that are no fields.
pub fn process_stats(
    mut stats: Message<'_>,
    mut each: impl FnMut(i32, &'static str, i64),
) -> Result<()> {
    while let Some(field) = stats.next_field()? {
        if field.number != 1 {
            continue;
        }
        let (mut pid, mut process) = (0, field.message());
        while let Some(field) = process.next_field()? {
            if field.number == 1 {
                pid = field.i32();
            }
        }
        let mut process = field.message();
        while let Some(field) = process.next_field()? {
            let known = FIELDS.iter().find(|(number, ..)| *number == field.number);
            if let Some((_, name, factor)) = known {
                each(pid, name, field.i64().saturating_mul(*factor));
            }
        }
    }
    Ok(())
}
