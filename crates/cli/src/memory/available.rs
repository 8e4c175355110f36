//! How many bytes a command holds in memory before it takes files.
use anyhow::Context;
use std::path::{Path, PathBuf};

/// Says how many bytes are held in memory: `2G`, `500M`.
const VARIABLE: &str = "KASURI_MEMORY";

/// A bound below makes no sense: a command needs as much without any recording.
const LEAST: u64 = 64 << 20;

/// The bound: what the variable says, or half of what there is. The other half is for the recording's own pages and those of the files, which the kernel
/// keeps as long as it can. None: nothing is known.
pub fn most() -> anyhow::Result<Option<usize>> {
    if let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        let text = text.to_string_lossy();
        let bytes = bytes(&text).with_context(|| {
            format!("{VARIABLE}={text}: is no number of bytes, needed one such as 2G or 500M")
        })?;
        return Ok(Some(bytes as usize));
    }
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let free = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let all = available(&free).into_iter().chain(limits(&groups));
    Ok(all.min().map(|bytes| (bytes / 2).max(LEAST) as usize))
}

/// A number with a unit of 1024.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// What /proc/meminfo says can be had without pushing others out.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim();
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// The limits of this process's memory cgroup and of all above it, from the text of /proc/self/cgroup; version 2, then 1.
fn limits(groups: &str) -> Vec<u64> {
    let mut out = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the path may be that of outside; its own root is where the limit is then.
        for above in Path::new(group.trim_start_matches('/')).ancestors() {
            let path: PathBuf = [Path::new(root), above, Path::new(file)].iter().collect();
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // "max", and the word that is not there, are no limit.
            out.extend(text.trim().parse::<u64>().ok());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_units_of_1024() {
        assert_eq!(bytes("512"), Some(512));
        assert_eq!(bytes("2G"), Some(2 << 30));
        assert_eq!(bytes("500m"), Some(500 << 20));
        for bad in ["", "G", "2GB", "-1", "1.5G", "99999999T"] {
            assert_eq!(bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn memory_that_is_available_is_read_from_meminfo() {
        let text = "MemTotal:       24689868 kB\nMemAvailable:   100 kB\n";
        assert_eq!(available(text), Some(102_400));
        assert_eq!(available("MemTotal: 3 kB\n"), None);
    }

    #[test]
    fn groups_that_are_not_there_limit_nothing() {
        assert_eq!(
            limits("0::/no/such/group/kasuri\nnonsense\n4:cpu:/\n").iter().min(),
            limits("0::/").iter().min()
        );
    }
}
