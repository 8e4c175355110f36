//! Facts about the machine, from uname(2), /proc and /sys. A fact that cannot be read has a default, never an error.
use kasuri_format::meta::Host;
use std::fs::read_to_string;

/// Name, kernel, CPUs.
pub fn host() -> Host {
    let uname = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    Host {
        hostname: text(uname.nodename()),
        kernel: text(uname.release()),
        machine: text(uname.machine()),
        cpu_model: cpu_model(),
        n_cpus: cpu_list("possible").last().map_or(1, |last| last + 1),
        online: cpu_list("online"),
    }
}

/// CPUs of a list below /sys/devices/system/cpu: `possible`, `online`, ...
pub fn cpu_list(which: &str) -> Vec<u32> {
    let text = read_to_string(format!("/sys/devices/system/cpu/{which}")).unwrap_or_default();
    let list = parse_cpu_list(&text);
    if list.is_empty() {
        let n = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        return (0..n).collect();
    }
    list
}

/// The CPUs that this process may use.
pub fn allowed_cpus() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    let n = rustix::thread::CpuSet::MAX_CPU;
    set.map_or_else(|_| vec![0], |set| (0..n).filter(|&cpu| set.is_set(cpu)).collect())
}

/// A copy of the code that the kernel has mapped into this process, and maps into all (64-bit) ones.
pub(crate) fn vdso() -> Option<Vec<u8>> {
    let maps = kasuri_unwind::parse_maps(&read_to_string("/proc/self/maps").ok()?);
    let vdso = maps.into_iter().find(|m| m.backing == kasuri_unwind::Backing::Vdso)?;
    let len = usize::try_from(vdso.end - vdso.start).ok()?;
    // SAFETY: the kernel has mapped this range to read for as long as the process lives.
    let bytes = unsafe { std::slice::from_raw_parts(vdso.start as *const u8, len) };
    Some(bytes.to_vec())
}

/// Gives memory that was freed back to the system where the C library keeps it for later: glibc does, between blocks that are in use.
pub(crate) fn trim_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only pages that no block uses are given back.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Whether a hypervisor announces itself in the CPU's flags, as those of x86 do.
pub fn is_virtual() -> bool {
    let text = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|flag| flag == "hypervisor"))
}

/// Parses a CPU list such as "0-3,8".
fn parse_cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>()) {
            cpus.extend(from..=to.min(from + 65535));
        }
    }
    cpus
}

fn cpu_model() -> String {
    let text = read_to_string("/proc/cpuinfo").unwrap_or_default();
    // x86 writes "model name", other architectures "cpu model", "uarch" or "Processor".
    for key in ["model name", "cpu model", "uarch", "Processor", "CPU part"] {
        let value =
            text.lines().filter_map(|line| line.split_once(':')).find(|(k, _)| k.trim() == key);
        if let Some((_, value)) = value {
            return value.trim().to_owned();
        }
    }
    String::new()
}

/// MemAvailable, bytes.
pub fn available_memory() -> u64 {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|v| v.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map_or(1 << 30, |kb| kb * 1024)
}

/// Free bytes of the file system that holds `path`, for this user.
pub fn free_bytes(path: &std::path::Path) -> Option<u64> {
    let fs = rustix::fs::statvfs(path).ok()?;
    Some(fs.f_bavail.saturating_mul(fs.f_frsize))
}

/// Free bytes of the file system that holds an open file, for this user; `None` when unknown.
pub fn free_on_disk(file: impl std::os::fd::AsFd) -> Option<u64> {
    let fs = rustix::fs::fstatvfs(file).ok()?;
    Some(fs.f_bavail.saturating_mul(fs.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_have_ranges_and_holes() {
        assert_eq!(parse_cpu_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert!(parse_cpu_list("").is_empty());
    }
}
