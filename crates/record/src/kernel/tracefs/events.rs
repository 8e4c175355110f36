//! The tracepoints of the kernel, and their formats.
//!
//! tracefs has a directory `events/SYSTEM/NAME` for each tracepoint, with the files `format` (fields, and the id by
//! which raw pages name the event), `enable` and `filter`. A recording keeps the text of each format, so that its
//! reader needs neither this kernel nor this machine (Documentation/trace/events.rst).
use super::{open_dir, read};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

/// Events that the timeline needs, each with what is lost without it. All are optional, because kernels differ.
pub const DEFAULT_EVENTS: &[(&str, &str)] = &[
    ("sched/sched_switch", "thread states and CPU occupancy"),
    ("sched/sched_waking", "wake-ups, and how long a woken thread waited for a CPU"),
    ("sched/sched_wakeup_new", "when a new thread became runnable"),
    ("sched/sched_migrate_task", "moves of threads between CPUs"),
    ("sched/sched_process_fork", "the parents of threads and processes"),
    ("sched/sched_process_exec", "names of programs after exec"),
    ("sched/sched_process_exit", "when threads end"),
    ("task/task_newtask", "which new tasks are threads and which are processes"),
];

/// Added by `--irq`.
pub const IRQ_EVENTS: &[(&str, &str)] = &[
    ("irq/irq_handler_entry", "interrupt handlers"),
    ("irq/irq_handler_exit", "interrupt handlers"),
    ("irq/softirq_entry", "softirqs"),
    ("irq/softirq_exit", "softirqs"),
];

/// Added by `--syscalls`.
pub const SYSCALL_EVENTS: &[(&str, &str)] =
    &[("raw_syscalls/sys_enter", "system calls"), ("raw_syscalls/sys_exit", "system calls")];

/// Added by `--locks`: the kernel's own locks.
pub const LOCK_EVENTS: &[(&str, &str)] = &[
    ("lock/contention_begin", "waits for kernel locks"),
    ("lock/contention_end", "waits for kernel locks"),
];

/// The `events/` directory of one instance.
#[derive(Debug)]
pub struct Catalogue {
    dir: OwnedFd,
}

impl Catalogue {
    /// Opens `events/` below `root`, an instance or the file system itself.
    ///
    /// # Errors
    /// When it does not exist or is closed to us.
    pub fn open(root: impl AsFd) -> std::io::Result<Catalogue> {
        Ok(Catalogue { dir: open_dir(root, "events")? })
    }

    /// The text of an event's `format` file, which also holds its id; `None`: the kernel has no such event.
    pub fn format(&self, event: &str) -> Option<String> {
        // `ftrace/print` has its id only in `format`.
        read(&self.dir, &format!("{event}/format")).ok().filter(|text| text.contains("ID:"))
    }

    /// The layout of a ring-buffer page.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn header_page(&self) -> std::io::Result<String> {
        read(&self.dir, "header_page")
    }

    /// Switches an event on or off.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable(&self, event: &str, on: bool) -> std::io::Result<()> {
        super::write(&self.dir, &format!("{event}/enable"), if on { "1" } else { "0" })
    }

    /// Switches everything on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enable_all(&self) -> std::io::Result<()> {
        super::write(&self.dir, "enable", "1")
    }

    /// Sets an event's filter; "0" removes it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_filter(&self, event: &str, filter: &str) -> std::io::Result<()> {
        super::write(&self.dir, &format!("{event}/filter"), filter)
    }

    /// The names of all events as `system/name`, sorted.
    pub fn names(&self) -> Vec<String> {
        let children = |dir: &OwnedFd| -> Vec<String> {
            let entries = rustix::fs::Dir::read_from(dir).into_iter().flatten();
            entries
                .filter_map(|entry| entry.ok())
                .filter(|entry| entry.file_type() == rustix::fs::FileType::Directory)
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .filter(|name| !name.starts_with('.'))
                .collect()
        };
        let mut names = Vec::new();
        for system in children(&self.dir) {
            if let Ok(dir) = open_dir(&self.dir, &system) {
                names.extend(children(&dir).iter().map(|name| format!("{system}/{name}")));
            }
        }
        names.sort_unstable();
        names
    }

    /// Whether the kernel has a group of events of that name.
    pub fn has_system(&self, system: &str) -> bool {
        !system.is_empty() && open_dir(&self.dir, system).is_ok()
    }

    /// Switches everything off.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn disable_all(&self) -> std::io::Result<()> {
        super::write(&self.dir, "enable", "0")
    }
}

/// Bytes of one ring-buffer page, from the text of `events/header_page`.
pub fn page_bytes(header_page: &str) -> Option<u32> {
    let line = header_page.lines().find(|line| line.contains(" data;"))?;
    let number = |key: &str| -> Option<u32> {
        let rest = &line[line.find(key)? + key.len()..];
        rest[..rest.find(';')?].trim().parse().ok()
    };
    number("offset:")?.checked_add(number("size:")?)
}

/// Formats by name, as `meta.json` holds them.
pub type Formats = BTreeMap<String, String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_bytes_come_from_the_data_field() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        assert_eq!(page_bytes(text), Some(4096));
        assert_eq!(page_bytes(""), None);
    }
}
