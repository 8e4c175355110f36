//! Examines the machine: each capability, what a recording lacks without it, and the command that grants it.
//!
//! [`examine`] tries everything as a recording would: it opens tracefs and makes an instance, asks perf for its
//! reach, reads limits of cgroups and affinity, and looks for sessions of killed recorders. Each result is one
//! [`Check`]; the caller prints them.
use crate::clock::{StampClock, current_clocksource};
use crate::host;
use crate::kernel::perf::{self, Reach};
use crate::kernel::tracefs::{
    self, DEFAULT_EVENTS, IRQ_EVENTS, Instance, InstanceOptions, SYSCALL_EVENTS, Tracefs,
    Unavailable,
};
use crate::options::{Options, Target};
use crate::program::limits::{self, Cgroups};
use crate::stacks::Plan;
use kasuri_base::words::shell_word;
use kasuri_format::meta::LimitRow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The state of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Works.
    Ok,
    /// Good to know; a default recording lacks nothing.
    Info,
    /// A default recording lacks something.
    Degraded,
}

/// One line of the examination.
#[derive(Clone, Debug)]
pub struct Check {
    /// The capability.
    pub name: String,
    /// Its state.
    pub state: State,
    /// The state in words.
    pub found: String,
    /// The information that a recording lacks because of it; empty: none.
    pub lost: String,
    /// The command that changes it; empty: none.
    pub remedy: String,
}

/// All lines, in order of importance.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The lines.
    pub checks: Vec<Check>,
}

impl Report {
    /// The worst state of all lines.
    pub fn worst(&self) -> State {
        self.checks.iter().map(|c| c.state).max().unwrap_or(State::Ok)
    }

    fn add(
        &mut self,
        name: &str,
        state: State,
        found: impl Into<String>,
        lost: &str,
        remedy: &str,
    ) {
        let (name, found) = (name.to_owned(), found.into());
        self.checks.push(Check {
            name,
            state,
            found,
            lost: lost.to_owned(),
            remedy: remedy.to_owned(),
        });
    }

    fn ok(&mut self, name: &str, found: impl Into<String>) {
        self.add(name, State::Ok, found, "", "");
    }
}

/// Examines everything. Makes and removes one tracing instance and changes nothing else.
pub fn examine(shm_dir: &Path, output_dir: &Path) -> Report {
    let mut report = Report::default();
    examine_kernel(&mut report);
    examine_clock(&mut report);
    examine_perf(&mut report);
    examine_stacks(&mut report);
    examine_waits(&mut report);
    examine_libraries(&mut report);
    examine_compilers(&mut report);
    examine_memory(&mut report, shm_dir);
    examine_orphans(&mut report, shm_dir);
    examine_disk(&mut report, output_dir);
    examine_limits(&mut report);
    examine_container(&mut report);
    report
}

fn examine_kernel(report: &mut Report) {
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(Unavailable { why, remedy }) => {
            let lost = format!("{}, system calls", perf::unseen());
            return report.add("tracefs", State::Degraded, why, &lost, &remedy);
        }
    };
    report.ok("tracefs", tracefs.place());
    examine_stale(report, &tracefs);
    match tracefs.has_uprobes() {
        true => report.ok("uprobes", "record --usdt and --lock-function can be used"),
        false => report.add(
            "uprobes",
            State::Info,
            "this kernel has none (CONFIG_UPROBE_EVENTS)",
            "USDT probes (--usdt), locks of named functions (--lock-function)",
            "",
        ),
    }
    let groups = [DEFAULT_EVENTS, IRQ_EVENTS, SYSCALL_EVENTS];
    let events =
        groups.iter().flat_map(|g| g.iter()).map(|(n, l)| (n.to_string(), l.to_string())).collect();
    let tsc = StampClock::choose() == StampClock::Native;
    let instance = match Instance::create(
        &tracefs,
        &InstanceOptions { buffer_kb: 512, tsc, events, uprobes: Vec::new() },
    ) {
        Ok(instance) => instance,
        Err(e) => {
            let remedy = "`kasuri doctor` as root; the kernel needs CONFIG_TRACING with instances (4.1 or newer)";
            return report.add(
                "instance",
                State::Degraded,
                format!("cannot be made: {e}"),
                "all kernel events",
                remedy,
            );
        }
    };
    report.ok(
        "instance",
        format!(
            "can be created; {} CPUs, pages of {} bytes",
            instance.cpus.len(),
            instance.page_bytes
        ),
    );
    report.ok("trace clock", instance.clock.clone());
    for (group, state) in [
        (DEFAULT_EVENTS, State::Degraded),
        (IRQ_EVENTS, State::Info),
        (SYSCALL_EVENTS, State::Info),
    ] {
        for (event, lost) in group {
            match instance.formats.contains_key(*event) {
                true => report.ok(event, "can be recorded"),
                false => report.add(event, state, "this kernel does not have it", lost, ""),
            }
        }
    }
}

fn examine_stale(report: &mut Report, tracefs: &Tracefs) {
    let stale = tracefs::stale(tracefs);
    if stale.is_empty() {
        return report.ok("stale instances", "none");
    }
    let remedy = "the next `kasuri record` removes them";
    report.add("stale instances", State::Info, stale.join(", "), "", remedy);
}

fn examine_clock(report: &mut Report) {
    let source = current_clocksource().unwrap_or_else(|| "unknown".to_owned());
    match StampClock::choose() {
        StampClock::Native => {
            report.ok("clock source", format!("{source}: annotations read the CPU's counter"))
        }
        StampClock::Monotonic => {
            let found = format!("{source}: annotations call clock_gettime, about 10 ns more each");
            report.add("clock source", State::Info, found, "", "");
        }
    }
}

fn examine_perf(report: &mut Report) {
    let level = perf::paranoid().map_or("unknown".to_owned(), |level| level.to_string());
    let found = |reach: &str| format!("perf_event_paranoid is {level}: {reach}");
    match perf::reach() {
        Some(Reach::System) => report.ok("perf events", found("context switches of all threads")),
        Some(Reach::Own) => report.ok("perf events", found("context switches of your own threads")),
        None => {
            let lost = "context switches, unless tracefs works";
            report.add("perf events", State::Info, found("refused"), lost, perf::remedy());
        }
    }
}

/// Samples of call paths, as a recording would take them.
fn examine_stacks(report: &mut Report) {
    let options = Options::new(Target::Program(Vec::new()), PathBuf::new());
    match Plan::choose(&options) {
        Ok(plan) if plan.sees_all() => report.ok("call paths", plan.describe()),
        Ok(plan) => {
            let lost = "the code of waits under 20 ms, what ended waits, code inside the kernel";
            let remedy = "run as root: `sudo kasuri record ...`; or give the program file the capability CAP_PERFMON";
            report.add("call paths", State::Info, plan.describe(), lost, remedy);
        }
        Err(why) => {
            let lost = "the code that threads ran and waited in";
            report.add("call paths", State::Degraded, why, lost, "");
        }
    }
}

/// Whether the libraries are installed that commands put into programs.
fn examine_libraries(report: &mut Report) {
    for probe in crate::program::libraries::ALL {
        match probe.library() {
            Ok(path) => report.ok("library", format!("{} has {}", probe.option, path.display())),
            Err(_) => report.add(
                "library",
                State::Info,
                format!("that of {} is not installed", probe.option),
                &format!("{} cannot be used", probe.option),
                &format!("`make c`, or name it in {}", probe.variable),
            ),
        }
    }
}

/// The compilers whose programs kasuri-annotate annotates.
fn examine_compilers(report: &mut Report) {
    let found = crate::program::compilers::annotating();
    if !found.is_empty() {
        return report.ok("compilers", format!("kasuri-annotate is for {}", found.join(", ")));
    }
    report.add(
        "compilers",
        State::Info,
        "no plugin of kasuri-annotate is installed",
        "functions and loops of programs without annotations",
        "`make c`, which names the packages of each compiler's headers that it lacks",
    );
}

/// Whether the stacks of threads that wait may be read.
fn examine_waits(report: &mut Report) {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = scope.ok().and_then(|text| text.trim().parse().ok());
    let (state, found, lost, remedy) = waits_allowed(scope, rustix::process::geteuid().is_root());
    report.add("stacks of waits", state, found, lost, remedy);
}

/// What kernel.yama.ptrace_scope allows (Documentation/admin-guide/LSM/Yama.rst); None: this kernel has no such limit.
fn waits_allowed(scope: Option<u32>, is_root: bool) -> (State, String, &'static str, &'static str) {
    const REMEDY: &str = "`sudo sysctl kernel.yama.ptrace_scope=1`";
    const LOST: &str = "where threads wait that wait long";
    let found = |text: &str| {
        let scope = scope.map(|s| format!("kernel.yama.ptrace_scope is {s}: "));
        scope.unwrap_or_default() + text
    };
    match scope {
        None | Some(0) => (State::Ok, found("may be read"), "", ""),
        Some(1 | 2) if is_root => (State::Ok, found("root may read them"), "", ""),
        Some(1) => (
            State::Info,
            found("of programs that `kasuri record` starts"),
            "with -p: where threads wait that wait long",
            "with -p: `sudo kasuri record -p ...`",
        ),
        // 3 stays until the next boot.
        Some(3) => (State::Degraded, found("nobody may read them"), LOST, ""),
        Some(_) => (State::Degraded, found("root may read them"), LOST, REMEDY),
    }
}

fn examine_memory(report: &mut Report, shm_dir: &Path) {
    let name = shm_dir.display().to_string();
    match host::free_bytes(shm_dir) {
        Some(free) if free >= 64 << 20 => {
            report.ok(&name, format!("{} MiB free for annotations", free >> 20))
        }
        Some(free) => {
            let remedy =
                format!("`sudo mount -o remount,size=1G {name}`; in a container `--shm-size=1g`");
            let found = format!("{} MiB free", free >> 20);
            report.add(
                &name,
                State::Degraded,
                found,
                "annotations of busy programs (lost ones are counted)",
                &remedy,
            );
        }
        None => {
            let remedy = format!("`sudo mount -t tmpfs tmpfs {name}`");
            report.add(
                &name,
                State::Degraded,
                "missing",
                "speed: rings are on the recording's disk",
                &remedy,
            );
        }
    }
    let mut options = Options::new(Target::System(Vec::new()), PathBuf::new());
    options.shm_dir = shm_dir.to_owned();
    let memory = host::available_memory();
    let wanted = 16 * host::cpu_list("possible").len() as u64;
    let found = format!(
        "{} MiB free; kernel buffers take up to {wanted} MiB, annotations of a program up to {}; `record --memory 16M` bounds both and the recorder",
        memory >> 20,
        options.ring_bytes() >> 20
    );
    report.add(
        "memory",
        if memory >> 23 >= wanted { State::Ok } else { State::Info },
        found,
        "",
        "",
    );
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let limit =
        limit.map_or_else(|| "unlimited".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
    report.ok(
        "locked memory",
        format!("{limit} (for perf rings of unprivileged recordings, beyond 516 KiB for each CPU)"),
    );
}

/// Reports the sessions of killed recorders. They take memory, and hold annotations that `kasuri recover` can save.
fn examine_orphans(report: &mut Report, shm_dir: &Path) {
    let orphans = crate::rings::session::orphans(shm_dir);
    if orphans.is_empty() {
        return report.ok("orphaned sessions", "none");
    }
    for orphan in orphans {
        let path = shell_word(&orphan.path);
        // The maker of the session chose the recording's name, so a command is offered only if the recording names the session.
        let remedy = match &orphan.recording {
            Some(recording) if orphan.recording_agrees => {
                format!("`kasuri recover {}`", shell_word(recording))
            }
            Some(recording) => format!(
                "its recording {} is gone: if you moved it, run `kasuri recover` on it where it is now; if you removed it, run `rm -r {path}`",
                shell_word(recording)
            ),
            None => format!("`rm -r {path}`"),
        };
        let found = format!("{path}, left by a killed recorder");
        report.add("orphaned sessions", State::Info, found, "", &remedy);
    }
}

fn examine_disk(report: &mut Report, dir: &Path) {
    match host::free_bytes(dir) {
        Some(free) if free >= 1 << 30 => report.ok("disk", format!("{} MiB free here", free >> 20)),
        Some(free) => {
            let found = format!("{} MiB free here", free >> 20);
            report.add(
                "disk",
                State::Info,
                found,
                "",
                "record elsewhere with `-o /path/run.kasuri`",
            );
        }
        None => report.add("disk", State::Info, "the working directory cannot be examined", "", ""),
    }
    let (online, possible) = (host::cpu_list("online").len(), host::cpu_list("possible").len());
    report.ok("CPUs", format!("{online} online of {possible}"));
}

/// Limits that keep a program that is started here from some CPUs.
fn examine_limits(report: &mut Report) {
    let cgroups = Cgroups::find();
    let own = std::process::id() as i32;
    let quotas = cgroups.quotas(own);
    if quotas.is_empty() {
        report.ok("CPU limit", "none");
    }
    for (group, quota) in quotas {
        let (found, lost) = (
            format!("{} of cgroup {group}: {:.2} CPUs", quota.text, quota.cpus()),
            "programs started here are throttled if they use more; `kasuri stat` shows it",
        );
        let remedy = "raise it: `docker run --cpus N`, `resources.limits.cpu`, `systemctl set-property UNIT CPUQuota=`";
        report.add("CPU limit", State::Info, found, lost, remedy);
    }
    let online: BTreeSet<u32> = host::cpu_list("online").into_iter().collect();
    let cpuset = cgroups.cpuset(own);
    let allowed: BTreeSet<u32> = LimitRow::cpu_list(&cpuset).into_iter().collect();
    match cpuset.is_empty() || allowed.is_superset(&online) {
        true => report.ok("cpuset", "all CPUs"),
        false => {
            let found = format!("CPU {cpuset} of {}", limits::list(&online));
            report.add(
                "cpuset",
                State::Info,
                found,
                "",
                "`docker run --cpuset-cpus`, cpuset.cpus of the cgroup",
            );
        }
    }
    let mask = limits::affinity(own).unwrap_or_else(|| online.clone());
    match mask.is_superset(&online) {
        true => report.ok("affinity", "all CPUs"),
        false => {
            let found = format!("CPU {} of {}", limits::list(&mask), limits::list(&online));
            report.add("affinity", State::Info, found, "", "`taskset -cp 0-N $$` in this shell");
        }
    }
}

fn examine_container(report: &mut Report) {
    let hint = ["/.dockerenv", "/run/.containerenv"].iter().find(|path| Path::new(path).exists());
    let hint = hint.map(|s| s.to_string()).or_else(|| {
        let init = std::fs::read_to_string("/proc/1/cgroup").ok()?;
        ["docker", "kubepods", "lxc", "containerd"]
            .iter()
            .find(|word| init.contains(**word))
            .map(|word| format!("{word} in /proc/1/cgroup"))
    });
    match hint {
        None => report.ok("container", "no"),
        Some(hint) => {
            let closed = report.checks.iter().any(|c| c.name == "tracefs" && c.state != State::Ok);
            let remedy = if closed {
                "for kernel events start it with `--privileged --pid=host`"
            } else {
                ""
            };
            let found = format!("probably ({hint}): kernel events show the whole host");
            report.add("container", State::Info, found, "", remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_yama_forbids_is_missing() {
        for (scope, is_root, state, lost) in [
            (None, false, State::Ok, ""),
            (Some(0), false, State::Ok, ""),
            (Some(1), true, State::Ok, ""),
            (Some(1), false, State::Info, "with -p: where threads wait that wait long"),
            (Some(2), true, State::Ok, ""),
            (Some(2), false, State::Degraded, "where threads wait that wait long"),
            (Some(3), true, State::Degraded, "where threads wait that wait long"),
        ] {
            let (found, _, missing, _) = waits_allowed(scope, is_root);
            assert_eq!((found, missing), (state, lost), "{scope:?} {is_root}");
        }
    }
}
