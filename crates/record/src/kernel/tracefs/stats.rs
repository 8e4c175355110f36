//! Statistics of each CPU's kernel buffer: lost events, and events that wait to be read.
//!
//! The kernel shows them as text in `per_cpu/cpu<N>/stats`, one `name: value` per line
//! (Documentation/trace/ftrace.rst). The files stay open; each reading begins at their start.
use super::open_file;
use rustix::fs::OFlags;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Cumulative counts of one CPU's buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Oldest events, overwritten before they were read.
    pub overrun: u64,
    /// Newest events dropped (buffers that do not overwrite).
    pub dropped: u64,
    /// Events lost because an interrupt found the buffer filled by a write that had not ended.
    pub commit_overrun: u64,
    /// Bytes of events that were not read yet.
    pub unread_bytes: u64,
    /// Events that were not read yet.
    pub unread: u64,
}

impl CpuStats {
    /// All events that are lost.
    pub fn lost(&self) -> u64 {
        self.overrun + self.dropped + self.commit_overrun
    }

    fn parse(text: &str) -> CpuStats {
        let mut stats = CpuStats::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let Ok(value) = value.trim().parse() else {
                continue;
            };
            match key {
                "overrun" => stats.overrun = value,
                "dropped events" => stats.dropped = value,
                "commit overrun" => stats.commit_overrun = value,
                "bytes" => stats.unread_bytes = value,
                "entries" => stats.unread = value,
                _ => {}
            }
        }
        stats
    }
}

/// The open `stats` files of some CPUs.
#[derive(Debug)]
pub struct StatsFiles {
    files: Vec<(u32, OwnedFd)>,
}

impl StatsFiles {
    /// Opens them below an instance.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn open(instance: impl AsFd, cpus: &[u32]) -> io::Result<StatsFiles> {
        let open = |&cpu: &u32| {
            Ok((cpu, open_file(&instance, &format!("per_cpu/cpu{cpu}/stats"), OFlags::empty())?))
        };
        Ok(StatsFiles { files: cpus.iter().map(open).collect::<io::Result<_>>()? })
    }

    /// Calls `each` with the present counts of each CPU.
    pub fn read(&self, mut each: impl FnMut(u32, CpuStats)) {
        let mut text = [0u8; 512];
        for (cpu, file) in &self.files {
            if let Ok(n) = rustix::io::pread(file, &mut text, 0) {
                each(*cpu, CpuStats::parse(&String::from_utf8_lossy(&text[..n])));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_are_read_by_name() {
        let text = "entries: 3\noverrun: 7\ncommit overrun: 2\nbytes: 12\noldest event ts: 1.5\n\
                    now ts: 2.5\ndropped events: 5\nread events: 9\n";
        assert_eq!(
            CpuStats::parse(text),
            CpuStats { overrun: 7, dropped: 5, commit_overrun: 2, unread_bytes: 12, unread: 3 }
        );
    }
}
